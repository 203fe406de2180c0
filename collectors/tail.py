"""Reading what was added to a file: by byte offset, whole lines only, each once."""

from __future__ import annotations

import hashlib
import io
import os
import time
from enum import Enum, auto
from typing import TYPE_CHECKING, BinaryIO, Final

import msgspec
from msgspec.structs import replace

from ..core.last_line import AROUND, whole_length
from ..core.store.facts import BadLine, TailState
from .regular import open_regular

if TYPE_CHECKING:
    from pathlib import Path

    from .folder import FoundFile

BLOCK_BYTES: Final = 1024 * 1024
"""Read at once: a block stays in the processor's cache while its lines are looked at."""

LONGEST_LINE: Final = 64 * 1024 * 1024
"""Bytes; the longest line that was seen is 4.6 MB, and a line is held in memory whole."""

ANCHOR_BYTES: Final = 4096
"""Bytes before the offset that are hashed: a removed line shifts all that follows it."""

PLACES: Final = 32
PLACE_BYTES: Final = 512
"""Hashed as well, spread evenly over all that was read: 16 KiB of a file of any size, 0.1 ms.

A file that changed and did not grow is read again whole, whatever they say. They find most of
the edits of the same length after which the file grew before anybody looked: all in a file of
up to 20 KiB, and of a larger one those that touch a place.
"""

REST_S: Final = 0.25
"""A client writes a line and its line end in one go: what has no line end for this long is not
about to have one."""

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
    bad_lines: tuple[BadLine, ...] = ()
    has_more: bool = False
    """True while the file holds further whole lines."""
    unterminated: bool = False
    """A whole line without its line end stands at the end, and may still be written to."""


def read_tail(path: Path, before: TailState, block_bytes: int = BLOCK_BYTES) -> TailRead:
    """Read the lines after `before`, at most about `block_bytes` of them.

    Half a line at the end is kept back: the next read finds it whole. A whole JSON object
    without a line end is a line once the file rests; where more than a line end is appended to
    it, the file counts as rewritten, so that nothing of that line stays.
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
    if _is_other(file, status, before, behind) or _is_continued(before, behind, data):
        return TailRead(Change.REWRITTEN, before)
    end = data.rfind(b"\n") + 1
    at_end = before.offset + len(data) == status.st_size
    last = whole_length(data[end:]) if at_end and len(data) - end <= LONGEST_LINE else 0
    unrested = last > 0 and not _rests(status)
    if end or (last and not unrested):
        block = Block(before.offset, data, end if unrested else end + last)
        return _grown(file, status, behind, block, unrested=unrested)
    if len(data) < block_bytes:
        return TailRead(Change.NONE, _standing(status, before), unterminated=unrested)
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


def slim(tail: TailState, found: FoundFile) -> TailState:
    """Return the state without `places`, and with integers that it shares with `found`.

    There may be 100,000 of them in memory; an int takes 32 bytes, and most values repeat.
    """
    return replace(
        tail,
        inode=_shared(tail.inode, found.inode),
        size=_shared(tail.size, tail.offset),
        mtime_ns=_shared(tail.mtime_ns, found.mtime_ns),
        ctime_ns=_shared(tail.ctime_ns, found.ctime_ns),
        places="",
    )


def _shared(number: int, other: int) -> int:
    return other if other == number else number


def _is_other(file: BinaryIO, status: os.stat_result, before: TailState, behind: bytes) -> bool:
    if before.offset == 0:
        return False
    if (status.st_dev, status.st_ino) != (before.device, before.inode):
        return True
    if status.st_size < before.offset or _hash(behind) != before.anchor:
        return True
    if _is_edited(file, status, before):
        return True
    return bool(before.places) and _hash_of_places(file, before.offset) != before.places


def _is_edited(file: BinaryIO, status: os.stat_result, before: TailState) -> bool:
    """Return whether a file was written to, at an unknown place, without growing."""
    if status.st_size != before.size:
        return False
    is_written = status.st_mtime_ns != before.mtime_ns
    is_touched = before.ctime_ns != 0 and status.st_ctime_ns != before.ctime_ns
    # A write shows in the times before it shows in the size.
    return (is_written or is_touched) and os.fstat(file.fileno()).st_size == before.size


def _is_continued(before: TailState, behind: bytes, data: bytes) -> bool:
    """Return whether more than a line end follows a last line that was read without one."""
    if before.offset == 0 or behind.endswith(b"\n"):
        return False
    return bool(data.partition(b"\n")[0].strip(AROUND))


def _rests(status: os.stat_result) -> bool:
    # A clock that goes wrong, here or on another machine, is no reason to wait for ever.
    return abs(time.time() - status.st_mtime) >= REST_S


def _behind(file: BinaryIO, offset: int) -> bytes:
    start = max(0, offset - ANCHOR_BYTES)
    file.seek(start)
    return file.read(offset - start)


def _hash(data: bytes) -> str:
    return hashlib.blake2b(data, digest_size=16).hexdigest()


def _hash_of_places(file: BinaryIO, offset: int) -> str:
    """Hash what stands at PLACES places before `offset`, or all where it is not more."""
    if offset <= PLACES * PLACE_BYTES:
        file.seek(0)
        return _hash(file.read(offset))
    step = (offset - PLACE_BYTES) / (PLACES - 1)
    hashed = hashlib.blake2b(digest_size=16)
    for number in range(PLACES):
        file.seek(int(step * number))
        hashed.update(file.read(PLACE_BYTES))
    return hashed.hexdigest()


def _state(file: BinaryIO, status: os.stat_result, behind: bytes, block: Block) -> TailState:
    # Of what was read, not of what stands there by now.
    read = block.data[max(0, block.size - ANCHOR_BYTES) : block.size]
    anchor = _hash((behind + read)[-ANCHOR_BYTES:])
    offset, end = block.offset + block.size, block.offset + len(block.data)
    places = ""
    # While there is more to read nobody comes back to this place.
    if end >= status.st_size:
        whole = io.BytesIO(block.data) if block.offset == 0 else file
        places = _hash_of_places(whole, offset)
    return _standing(status, TailState(offset=offset, anchor=anchor, places=places))


def _standing(status: os.stat_result, at: TailState) -> TailState:
    return TailState(
        device=status.st_dev,
        inode=status.st_ino,
        offset=at.offset,
        anchor=at.anchor,
        size=status.st_size,
        mtime_ns=status.st_mtime_ns,
        ctime_ns=status.st_ctime_ns,
        places=at.places,
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
            return _read_long_end(file, status, before, behind, length)
        end = part.find(b"\n")
        length += len(part) if end < 0 else end + 1
    if length - 1 <= LONGEST_LINE:
        file.seek(before.offset)
        block = Block(before.offset, file.read(length), length)
        if len(block.data) < length:
            return TailRead(Change.NONE, _standing(status, before))
        return _grown(file, status, behind, block)
    offset = before.offset + length
    anchor = _hash(_behind(file, offset))
    reason = f"longer than {LONGEST_LINE >> 20} MiB"
    bad = (BadLine(before.offset, length - 1, reason),)
    after = _standing(status, TailState(offset=offset, anchor=anchor))
    return _told(after, Block(), bad)


def _read_long_end(
    file: BinaryIO, status: os.stat_result, before: TailState, behind: bytes, length: int
) -> TailRead:
    """Read a long last line that has no line end."""
    data = b""
    if length <= LONGEST_LINE and before.offset + length == status.st_size:
        file.seek(before.offset)
        data = file.read(length)
    last = whole_length(data)
    if not last or not _rests(status):
        return TailRead(Change.NONE, _standing(status, before), unterminated=last > 0)
    return _grown(file, status, behind, Block(before.offset, data, last))


def _grown(
    file: BinaryIO,
    status: os.stat_result,
    behind: bytes,
    block: Block,
    *,
    unrested: bool = False,
) -> TailRead:
    return _told(_state(file, status, behind, block), block, unrested=unrested)


def _told(
    after: TailState, block: Block, bad: tuple[BadLine, ...] = (), *, unrested: bool = False
) -> TailRead:
    more = after.offset < after.size
    if more:
        # Not the file's size: where reading ends here, the file is to look changed.
        after = replace(after, size=after.offset)
    return TailRead(Change.GROWN, after, block, bad, more, unrested)
