"""Indexes the next block of a file; run as a process, does so while the collector stores.

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

from ...core.store.transcript_records import SourceFile, TailState, TranscriptRecords
from .discover import FoundFile
from .tail import TailChange, read_tail
from .transcripts.line_indexer import index_block


class IndexedBlock(msgspec.Struct, frozen=True, array_like=True):
    """The records of a file's next block, and how far the file is read with it."""

    change: TailChange
    after: TailState
    facts: TranscriptRecords
    has_more: bool
    unterminated: bool = False  # its last line has no line end yet, and may still be written to


def index_next_block(path: Path, source: SourceFile, before: TailState) -> IndexedBlock:
    """Read on from `before`; raises OSError if the file cannot be read."""
    read = read_tail(path, before)
    facts = index_block(source, read.block)
    if read.bad_lines:
        bad, count = facts.bad + read.bad_lines, facts.bad_lines + len(read.bad_lines)
        facts = msgspec.structs.replace(facts, bad=bad, bad_lines=count)
    return IndexedBlock(read.change, read.after, facts, read.has_more, read.unterminated)


FRAME_LENGTH: Final = struct.Struct("<I")

NICENESS: Final = 5  # keys come before old transcripts


class ReadTask(msgspec.Struct, array_like=True):
    """A file to read from where reading stopped; `before` follows the answers."""

    found: FoundFile
    source: SourceFile
    before: TailState


class ReadAnswer(msgspec.Struct, frozen=True, array_like=True):
    """One block of a task's file; None leaves the file to the collector."""

    number: int
    block: IndexedBlock | None

    @property
    def is_last(self) -> bool:
        return self.block is None or not self.block.has_more


_encode: Final = msgspec.msgpack.Encoder().encode
_job_decoder: Final = msgspec.msgpack.Decoder(tuple[int, ReadTask])
_answer_decoder: Final = msgspec.msgpack.Decoder(ReadAnswer)


def pack_frame(message: tuple[int, ReadTask] | ReadAnswer) -> bytes:
    data = _encode(message)
    return FRAME_LENGTH.pack(len(data)) + data


def unpack_answer(frame: bytes | memoryview) -> ReadAnswer:
    """Decode an answer from a frame without its length."""
    return _answer_decoder.decode(frame)


def serve_jobs(jobs: BinaryIO, answers: BinaryIO) -> None:
    """Answer every numbered task until there are no more."""
    while head := jobs.read(FRAME_LENGTH.size):
        number, task = _job_decoder.decode(jobs.read(FRAME_LENGTH.unpack(head)[0]))
        while True:
            answer = ReadAnswer(number, _index_unless_rewritten(task))
            answers.write(pack_frame(answer))
            answers.flush()
            if answer.block is None or answer.is_last:
                break
            task.before = answer.block.after


def _index_unless_rewritten(task: ReadTask) -> IndexedBlock | None:
    try:
        block = index_next_block(task.found.path, task.source, task.before)
    except OSError:
        # The collector meets the same error, and reports it.
        return None
    return None if block.change is TailChange.REWRITTEN else block


if __name__ == "__main__":
    if hasattr(os, "nice"):
        os.nice(NICENESS)
    # Its objects hold no cycles: searching for them takes a tenth of its time.
    gc.disable()
    serve_jobs(sys.stdin.buffer, sys.stdout.buffer)
