"""Reading what was added to a file: by byte offset, whole lines only, each once."""

from __future__ import annotations

import hashlib
import os
from enum import Enum, auto
from typing import TYPE_CHECKING, BinaryIO, Final

import msgspec
from msgspec.structs import replace

from ..core.store.facts import BadLine, TailState
from .regular import open_regular

if TYPE_CHECKING:
    from pathlib import Path

BLOCK_BYTES: Final = 1024 * 1024
"""Read at once: a block stays in the processor's cache while its lines are looked at."""

LONGEST_LINE: Final = 64 * 1024 * 1024
"""Bytes; the longest line that was seen is 4.6 MB, and a line is held in memory whole."""

ANCHOR_BYTES: Final = 4096
"""Bytes before the offset that are hashed: a removed line shifts all that follows it."""

AROUND: Final = b"\0 \t\r"
"""What can stand around a line's text."""

RawLine = tuple[int, bytes]
"""A line's byte offset and its text."""


class Block(msgspec.Struct, frozen=True):
    """Whole lines of a file as they stand in it, the last line end included."""

    offset: int = 0
    """Where in the file the lines stand."""
    data: bytes = b""
    """The lines, and perhaps the beginning of the next one."""
    size: int = 0
    """Bytes of `data` that are whole lines."""


class Change(Enum):
    """What happened to a file since it was last read."""

    NONE = auto()
    GROWN = auto()
    REWRITTEN = auto()


class TailRead(msgspec.Struct, frozen=True):
    """The whole lines that were added, and where reading stands after them."""

    change: Change
    after: TailState
    block: Block = Block()
    bad: tuple[BadLine, ...] = ()
    more: bool = False
    """True while the file holds further whole lines."""


def read_tail(path: Path, before: TailState, block_bytes: int = BLOCK_BYTES) -> TailRead:
    """Read the lines after `before`, at most about `block_bytes` of them.

    A last line without its line end is kept back: the next read finds it whole.
    Raises OSError where the file cannot be read or is not a regular file.
    """
    with open_regular(path) as file:
        return read_open(file, before, block_bytes)


def read_open(file: BinaryIO, before: TailState, block_bytes: int = BLOCK_BYTES) -> TailRead:
    """Read as read_tail does, from a file that is open."""
    status = os.fstat(file.fileno())
    file.seek(before.offset)
    # One byte more than there is: what came meanwhile is seen by the next read.
    data = file.read(min(block_bytes, max(0, status.st_size - before.offset) + 1))
    # Looked at after the lines were read: a file that is rewritten meanwhile shows it here.
    behind = _behind(file, before.offset)
    if _is_other(status, before, behind):
        return TailRead(Change.REWRITTEN, before)
    end = data.rfind(b"\n") + 1
    if end:
        block = Block(before.offset, data, end)
        return _grown(_state(status, behind, block), block)
    if len(data) < block_bytes:
        return TailRead(Change.NONE, _standing(status, before))
    return _read_long_line(file, status, before, behind, data)


def lines_of(block: Block) -> list[RawLine]:
    """Take a block apart into lines that hold anything, without what is no text around them."""
    lines, offset = [], block.offset
    for line in block.data[: block.size].split(b"\n"):
        # A crash can leave NUL bytes where a line was to be (claude-code-formats 1.7).
        text = line.strip(AROUND)
        if text:
            lines.append((offset, text))
        offset += len(line) + 1
    return lines


def _is_other(status: os.stat_result, before: TailState, behind: bytes) -> bool:
    if before.offset == 0:
        return False
    if (status.st_dev, status.st_ino) != (before.device, before.inode):
        return True
    return status.st_size < before.offset or _hash(behind) != before.anchor


def _behind(file: BinaryIO, offset: int) -> bytes:
    start = max(0, offset - ANCHOR_BYTES)
    file.seek(start)
    return file.read(offset - start)


def _hash(data: bytes) -> str:
    return hashlib.blake2b(data, digest_size=16).hexdigest()


def _state(status: os.stat_result, behind: bytes, block: Block) -> TailState:
    # Of what was read, not of what stands there by now.
    read = block.data[max(0, block.size - ANCHOR_BYTES) : block.size]
    anchor = _hash((behind + read)[-ANCHOR_BYTES:])
    return _standing(status, TailState(offset=block.offset + block.size, anchor=anchor))


def _standing(status: os.stat_result, at: TailState) -> TailState:
    return TailState(
        device=status.st_dev,
        inode=status.st_ino,
        offset=at.offset,
        anchor=at.anchor,
        size=status.st_size,
        mtime_ns=status.st_mtime_ns,
    )


def _read_long_line(
    file: BinaryIO, status: os.stat_result, before: TailState, behind: bytes, head: bytes
) -> TailRead:
    # Its end is looked for first, so that it is held in memory once.
    file.seek(before.offset + len(head))
    length, end = len(head), -1
    while end < 0:
        part = file.read(BLOCK_BYTES)
        if not part:
            return TailRead(Change.NONE, _standing(status, before))
        end = part.find(b"\n")
        length += len(part) if end < 0 else end + 1
    if length - 1 <= LONGEST_LINE:
        file.seek(before.offset)
        block = Block(before.offset, file.read(length), length)
        if len(block.data) < length:
            return TailRead(Change.NONE, _standing(status, before))
        return _grown(_state(status, behind, block), block)
    offset = before.offset + length
    anchor = _hash(_behind(file, offset))
    reason = f"longer than {LONGEST_LINE >> 20} MiB"
    bad = (BadLine(before.offset, length - 1, reason),)
    return _grown(_standing(status, TailState(offset=offset, anchor=anchor)), Block(), bad)


def _grown(after: TailState, block: Block, bad: tuple[BadLine, ...] = ()) -> TailRead:
    more = after.offset < after.size
    if more:
        # Not the file's size: where reading ends here, the file is to look changed.
        after = replace(after, size=after.offset)
    return TailRead(Change.GROWN, after, block, bad, more)
