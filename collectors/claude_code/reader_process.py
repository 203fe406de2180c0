"""Indexes the next block of a file; run as a process, does so for the collector while that stores.

The process gets each file in one frame on its standard input, answers with a frame for each
block, and ends when its input ends. A frame is its length in four bytes and msgpack.
"""

from __future__ import annotations

import gc
import os
import struct
import sys
from pathlib import Path
from typing import BinaryIO, Final

import msgspec

from ...core.store.transcript_records import (
    SourceFile,
    TailState,
    TranscriptRecords,
)
from .tail import TailChange, read_tail
from .transcripts.line_indexer import index_block


class IndexedBlock(msgspec.Struct, frozen=True, array_like=True):
    """What the next block of a file says, and where reading stands after it."""

    change: TailChange
    after: TailState
    facts: TranscriptRecords
    has_more: bool
    unterminated: bool = False  # its last line has no line end yet, and may still be written to


def index_next_block(path: Path, source: SourceFile, before: TailState) -> IndexedBlock:
    """Read on from `before`; raises OSError where the file cannot be read."""
    read = read_tail(path, before)
    facts = index_block(source, read.block)
    if read.bad_lines:
        bad, count = facts.bad + read.bad_lines, facts.bad_lines + len(read.bad_lines)
        facts = msgspec.structs.replace(facts, bad=bad, bad_lines=count)
    return IndexedBlock(read.change, read.after, facts, read.has_more, read.unterminated)


FRAME_LENGTH: Final = struct.Struct("<I")

NICENESS: Final = 5
"""How much nicer than the dashboard: a person's keys come before old transcripts."""


class ReadJob(msgspec.Struct, frozen=True, array_like=True):
    """A file to be read from where it was left."""

    number: int
    path: str
    source: SourceFile
    before: TailState


class ReadAnswer(msgspec.Struct, frozen=True, array_like=True):
    """What one block of a job's file says; None where somebody else has to look at the file."""

    number: int
    reading: IndexedBlock | None

    @property
    def is_last(self) -> bool:
        return self.reading is None or not self.reading.has_more


_encode: Final = msgspec.msgpack.Encoder().encode
_job_decoder: Final = msgspec.msgpack.Decoder(ReadJob)
_answer_decoder: Final = msgspec.msgpack.Decoder(ReadAnswer)


def pack_frame(message: ReadJob | ReadAnswer) -> bytes:
    """Make a frame of a message."""
    data = _encode(message)
    return FRAME_LENGTH.pack(len(data)) + data


def unpack_answer(frame: bytes | memoryview) -> ReadAnswer:
    """Read an answer from a frame without its length."""
    return _answer_decoder.decode(frame)


def serve_jobs(jobs: BinaryIO, answers: BinaryIO) -> None:
    """Answer every job until there are no more."""
    while head := jobs.read(FRAME_LENGTH.size):
        job = _job_decoder.decode(jobs.read(FRAME_LENGTH.unpack(head)[0]))
        path, before = Path(job.path), job.before
        while True:
            reading = _index_unless_rewritten(path, job.source, before)
            answer = ReadAnswer(job.number, reading)
            answers.write(pack_frame(answer))
            answers.flush()
            if reading is None or answer.is_last:
                break
            before = reading.after


def _index_unless_rewritten(
    path: Path, source: SourceFile, before: TailState
) -> IndexedBlock | None:
    try:
        reading = index_next_block(path, source, before)
    except OSError:
        # The collector meets the same, and tells of it.
        return None
    return None if reading.change is TailChange.REWRITTEN else reading


if __name__ == "__main__":
    if hasattr(os, "nice"):
        os.nice(NICENESS)
    # It holds no cycles and ends soon: looking for some takes a tenth of its time.
    gc.disable()
    serve_jobs(sys.stdin.buffer, sys.stdout.buffer)
