"""A process that reads files for the collector while it stores: what each block says, in order.

It is told of a file in one frame on its standard input, answers with a frame for each
block, and ends when its input ends. A frame is its length in four bytes and msgpack.
"""

from __future__ import annotations

import gc
import os
import struct
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec

from ..core.store.facts import SourceFile, TailState  # noqa: TC001 -- msgspec reads them
from .reading import Reading, read_next
from .tail import Change

if TYPE_CHECKING:
    from typing import BinaryIO

LENGTH: Final = struct.Struct("<I")

BEHIND_THE_SCREEN: Final = 5
"""How much nicer than the dashboard: a person's keys come before old transcripts."""


class Job(msgspec.Struct, frozen=True, array_like=True):
    """A file to be read from where it was left."""

    number: int
    path: str
    source: SourceFile
    before: TailState


class Answer(msgspec.Struct, frozen=True, array_like=True):
    """What one block of a job's file says; None where somebody else has to look at the file."""

    number: int
    reading: Reading | None

    @property
    def is_last(self) -> bool:
        """Say whether the job is over."""
        return self.reading is None or not self.reading.has_more


_encode: Final = msgspec.msgpack.Encoder().encode
_job: Final = msgspec.msgpack.Decoder(Job)
_answer: Final = msgspec.msgpack.Decoder(Answer)


def pack(message: Job | Answer) -> bytes:
    """Make a frame of a message."""
    data = _encode(message)
    return LENGTH.pack(len(data)) + data


def unpack_answer(frame: bytes | memoryview) -> Answer:
    """Read an answer from a frame without its length."""
    return _answer.decode(frame)


def serve(jobs: BinaryIO, answers: BinaryIO) -> None:
    """Answer every job until there are no more."""
    while head := jobs.read(LENGTH.size):
        job = _job.decode(jobs.read(LENGTH.unpack(head)[0]))
        path, before = Path(job.path), job.before
        while True:
            reading = _read(path, job.source, before)
            answer = Answer(job.number, reading)
            answers.write(pack(answer))
            answers.flush()
            if reading is None or answer.is_last:
                break
            before = reading.after


def _read(path: Path, source: SourceFile, before: TailState) -> Reading | None:
    try:
        reading = read_next(path, source, before)
    except OSError:
        # The collector meets the same, and tells of it.
        return None
    return None if reading.change is Change.REWRITTEN else reading


if __name__ == "__main__":
    if hasattr(os, "nice"):
        os.nice(BEHIND_THE_SCREEN)
    # It holds no cycles and ends soon: looking for some takes a tenth of its time.
    gc.disable()
    serve(sys.stdin.buffer, sys.stdout.buffer)
