"""Reading what was added to a file: by byte offset, whole lines only, each once."""

from __future__ import annotations

import hashlib
import os
import stat
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import TYPE_CHECKING, BinaryIO, Final

from msgspec.structs import replace

from ..core.store.facts import BadLine, TailState

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

BATCH_BYTES: Final = 4 * 1024 * 1024
"""Read at once: large enough to be fast, small enough to show progress between."""

LONGEST_LINE: Final = 64 * 1024 * 1024
"""Bytes; the longest line that was seen is 4.6 MB, and a line is held in memory whole."""

ANCHOR_BYTES: Final = 4096
"""Bytes before the offset that are hashed: a removed line shifts all that follows it."""

RawLine = tuple[int, bytes]
"""A line's byte offset and its bytes without the line end."""


class Change(Enum):
    """What happened to a file since it was last read."""

    NONE = auto()
    GROWN = auto()
    REWRITTEN = auto()


@dataclass(frozen=True, slots=True)
class TailRead:
    """The whole lines that were added, and where reading stands after them."""

    change: Change
    after: TailState
    lines: list[RawLine] = field(default_factory=list)
    bad: tuple[BadLine, ...] = ()
    more: bool = False
    """True while the file holds further whole lines."""


def read_tail(path: Path, before: TailState, batch: int = BATCH_BYTES) -> TailRead:
    """Read the lines after `before`, at most about `batch` bytes of them.

    A last line without its line end is kept back: the next read finds it whole.
    Raises OSError where the file cannot be read or is not a regular file.
    """
    with open_regular(path) as file:
        return read_open(file, before, batch)


def read_open(file: BinaryIO, before: TailState, batch: int = BATCH_BYTES) -> TailRead:
    """Read as read_tail does, from a file that is open."""
    status = os.fstat(file.fileno())
    if _is_other(file, status, before):
        return TailRead(Change.REWRITTEN, before)
    file.seek(before.offset)
    data = file.read(batch)
    end = data.rfind(b"\n") + 1
    if end:
        lines = _split(data[:end], before.offset)
        return _grown(_state(file, status, before.offset + end), lines)
    if len(data) < batch:
        return TailRead(Change.NONE, _state(file, status, before.offset))
    return _read_long_line(file, status, before, data)


@contextmanager
def open_regular(path: Path) -> Iterator[BinaryIO]:
    """Open a regular file to read; no link is followed and a FIFO does not block."""
    flags = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
    flags |= getattr(os, "O_BINARY", 0) | getattr(os, "O_CLOEXEC", 0)
    descriptor = os.open(path, flags)
    with open(descriptor, "rb", buffering=0) as file:  # noqa: PTH123 -- a descriptor
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(0, "not a regular file", str(path))
        yield file


def _is_other(file: BinaryIO, status: os.stat_result, before: TailState) -> bool:
    if before.offset == 0:
        return False
    if (status.st_dev, status.st_ino) != (before.device, before.inode):
        return True
    return status.st_size < before.offset or _anchor(file, before.offset) != before.anchor


def _anchor(file: BinaryIO, offset: int) -> str:
    start = max(0, offset - ANCHOR_BYTES)
    file.seek(start)
    return hashlib.blake2b(file.read(offset - start), digest_size=16).hexdigest()


def _state(file: BinaryIO, status: os.stat_result, offset: int) -> TailState:
    return TailState(
        device=status.st_dev,
        inode=status.st_ino,
        offset=offset,
        anchor=_anchor(file, offset) if offset else "",
        size=status.st_size,
        mtime_ns=status.st_mtime_ns,
    )


def _split(data: bytes, offset: int) -> list[RawLine]:
    lines: list[RawLine] = []
    for line in data.split(b"\n")[:-1]:
        # A crash can leave NUL bytes where a line was to be (claude-code-formats 1.7).
        text = line.strip(b"\0 \t\r") if line[:1] != b"{" or line[-1:] != b"}" else line
        if text:
            lines.append((offset, text))
        offset += len(line) + 1
    return lines


def _read_long_line(
    file: BinaryIO, status: os.stat_result, before: TailState, head: bytes
) -> TailRead:
    parts, length = [head], len(head)
    while True:
        part = file.read(BATCH_BYTES)
        if not part:
            return TailRead(Change.NONE, _state(file, status, before.offset))
        end = part.find(b"\n")
        length += len(part) if end < 0 else end
        if length <= LONGEST_LINE:
            parts.append(part if end < 0 else part[: end + 1])
        if end >= 0:
            break
    after = _state(file, status, before.offset + length + 1)
    if length > LONGEST_LINE:
        reason = f"longer than {LONGEST_LINE >> 20} MiB"
        bad = (BadLine(before.offset, length, reason),)
        return _grown(after, [], bad)
    return _grown(after, _split(b"".join(parts), before.offset))


def _grown(after: TailState, lines: list[RawLine], bad: tuple[BadLine, ...] = ()) -> TailRead:
    more = after.offset < after.size
    if more:
        # Not the file's size: where reading ends here, the file is to look changed.
        after = replace(after, size=after.offset)
    return TailRead(Change.GROWN, after, lines, bad, more)
