"""Reads what was appended to a file: by byte offset, complete lines only, each once."""

import time
from collections.abc import Callable
from enum import Enum, auto
from pathlib import Path
from typing import BinaryIO, Final

import msgspec
from msgspec.structs import replace

from ...core.files.digests import blake2b
from ...core.files.transcript_file import FileStatus, open_transcript, transcript_status
from ...core.model.transcript_records import BadLine, TailState
from ...core.transcript.raw_lines import LINE_PADDING, MAX_LINE_BYTES, complete_line_length
from ..locations.discover import FoundFile

BLOCK_BYTES: Final = 1024 * 1024  # read at once; stays in the processor's cache
ANCHOR_BYTES: Final = 4096  # hashed before the offset: a removed line shifts them
SETTLE_S: Final = 0.25
"""A client writes a line with its line end: a line without one for this long stays without."""

RawLine = tuple[int, bytes]  # a line's byte offset and its text


class LineBlock(msgspec.Struct, frozen=True):
    """Whole lines of a file, the last line end included."""

    offset: int = 0  # of the first line, in bytes
    data: bytes = b""  # the lines, and perhaps the start of the next one
    size: int = 0  # bytes of `data` that are whole lines


class TailChange(Enum):
    NONE = auto()
    GROWN = auto()
    REWRITTEN = auto()


class TailRead(msgspec.Struct, frozen=True):
    """The whole lines that were appended, and how far the file is read with them."""

    change: TailChange
    after: TailState
    block: LineBlock = LineBlock()
    bad_lines: tuple[BadLine, ...] = ()
    has_more: bool = False  # true while the file holds further whole lines
    unterminated: bool = False  # it ends in a whole line without a line end


def read_tail(path: Path, before: TailState, block_bytes: int = BLOCK_BYTES) -> TailRead:
    """Read the lines after `before`, at most about `block_bytes` of them; raises OSError.

    Half a line at the end is left for the next read. A whole JSON object without a line end
    counts as a line once the file has settled; if more than a line end is appended to it, the
    file counts as rewritten, so that nothing of that line stays.
    """
    with open_transcript(path) as file:
        return read_open_tail(file, before, block_bytes)


def read_open_tail(file: BinaryIO, before: TailState, block_bytes: int = BLOCK_BYTES) -> TailRead:
    status = transcript_status(file)
    file.seek(before.offset)
    # One byte more than the size: the next read sees what was appended meanwhile.
    data = file.read(min(block_bytes, max(0, status.st_size - before.offset) + 1))
    # After the lines: a file that is rewritten meanwhile shows it here.
    behind = _read_anchor(file, before.offset)
    if _is_rewritten(file, status, before, behind) or _is_continued(before, behind, data):
        return TailRead(TailChange.REWRITTEN, before)
    end = data.rfind(b"\n") + 1
    at_end = before.offset + len(data) == status.st_size
    last = complete_line_length(data[end:]) if at_end and len(data) - end <= MAX_LINE_BYTES else 0
    unsettled = last > 0 and not _has_settled(status)
    if end or (last and not unsettled):
        block = LineBlock(before.offset, data, end if unsettled else end + last)
        after = _state_after(file, status, behind, block)
        return _grown(after, block, unsettled=unsettled)
    if len(data) < block_bytes:
        return TailRead(TailChange.NONE, _with_status(status, before), unterminated=unsettled)
    return _read_long_line(file, status, before, behind, data)


def split_lines(block: LineBlock) -> list[RawLine]:
    """Split a block into its non-empty lines, each with its byte offset and without padding."""
    lines, offset = [], block.offset
    for line in block.data[: block.size].split(b"\n"):
        # A crash can leave NUL bytes where a line was to be (claude-code-formats 1.7).
        text = line.strip(LINE_PADDING)
        if text:
            lines.append((offset, text))
        offset += len(line) + 1
    return lines


def slim_tail_state(tail: TailState, found: FoundFile) -> TailState:
    """Return the state without `places`, and with integers that it shares with `found`.

    There may be 100,000 of them in memory; an int takes 32 bytes, and most values repeat.
    """
    return replace(
        tail,
        inode=_reuse_equal(tail.inode, found.inode),
        size=_reuse_equal(tail.size, tail.offset),
        mtime_ns=_reuse_equal(tail.mtime_ns, found.mtime_ns),
        ctime_ns=_reuse_equal(tail.ctime_ns, found.ctime_ns),
        places="",
    )


def _reuse_equal(number: int, other: int) -> int:
    return other if other == number else number


def _is_rewritten(file: BinaryIO, status: FileStatus, before: TailState, behind: bytes) -> bool:
    if before.offset == 0:
        return False
    if (status.st_dev, status.st_ino) != (before.device, before.inode):
        return True
    if status.st_size < before.offset or _hash(behind) != before.anchor:
        return True
    if _is_edited(file, status, before):
        return True
    return bool(before.places) and _hash_samples(_file_reader(file), before.offset) != before.places


def _is_edited(file: BinaryIO, status: FileStatus, before: TailState) -> bool:
    """Return whether a file was written to, at an unknown place, without growing."""
    if status.st_size != before.size:
        return False
    is_written = status.st_mtime_ns != before.mtime_ns
    is_touched = before.ctime_ns != 0 and status.st_ctime_ns != before.ctime_ns
    # A write shows in the times before it shows in the size.
    return (is_written or is_touched) and transcript_status(file).st_size == before.size


def _is_continued(before: TailState, behind: bytes, data: bytes) -> bool:
    """Return whether more than a line end was appended to a line that was read without one."""
    if before.offset == 0 or behind.endswith(b"\n"):
        return False
    return bool(data.partition(b"\n")[0].strip(LINE_PADDING))


def _has_settled(status: FileStatus) -> bool:
    # A wrong clock, here or on another machine, must not make it wait for ever.
    return abs(time.time() - status.st_mtime) >= SETTLE_S


def _read_anchor(file: BinaryIO, offset: int) -> bytes:
    if not offset:
        return b""
    start = max(0, offset - ANCHOR_BYTES)
    file.seek(start)
    return file.read(offset - start)


def _hash(data: bytes) -> str:
    return blake2b(data, digest_size=16).hexdigest()


SAMPLE_COUNT: Final = 32
SAMPLE_BYTES: Final = 512
"""Hashed as well, spread evenly over all that was read: 16 KiB of a file of any size, 0.1 ms.

They find edits of the same length in a file that grew before it was read again: all in a file of
up to 20 KiB, and in a larger one those that touch a sample. A file that changed without growing
is always read again from the start.
"""


_ReadAt = Callable[[int, int], bytes]  # the bytes at an offset, so many of them


def _file_reader(file: BinaryIO) -> _ReadAt:
    def read(offset: int, size: int) -> bytes:
        file.seek(offset)
        return file.read(size)

    return read


def _hash_samples(read: _ReadAt, offset: int) -> str:
    """Hash `SAMPLE_COUNT` samples before `offset`, or all of it where it is shorter."""
    if offset <= SAMPLE_COUNT * SAMPLE_BYTES:
        return _hash(read(0, offset))
    step = (offset - SAMPLE_BYTES) / (SAMPLE_COUNT - 1)
    places = [int(step * number) for number in range(SAMPLE_COUNT)]
    return _hash(b"".join([read(place, SAMPLE_BYTES) for place in places]))


def _state_after(file: BinaryIO, status: FileStatus, behind: bytes, block: LineBlock) -> TailState:
    # The anchor is of what was read, not of what the file has by now.
    read = block.data[max(0, block.size - ANCHOR_BYTES) : block.size]
    anchor = _hash((behind + read)[-ANCHOR_BYTES:])
    offset, end = block.offset + block.size, block.offset + len(block.data)
    places = ""
    # While there is more to read no later read starts here.
    if end >= status.st_size:
        # Most files are read at once: what is sampled is in memory.
        data = block.data
        in_memory = block.offset == 0
        read_at = (lambda at, size: data[at : at + size]) if in_memory else _file_reader(file)
        places = _hash_samples(read_at, offset)
    return _with_status(status, TailState(offset=offset, anchor=anchor, places=places))


def _with_status(status: FileStatus, state: TailState) -> TailState:
    return replace(
        state,
        device=status.st_dev,
        inode=status.st_ino,
        size=status.st_size,
        mtime_ns=status.st_mtime_ns,
        ctime_ns=status.st_ctime_ns,
    )


def _read_long_line(
    file: BinaryIO, status: FileStatus, before: TailState, behind: bytes, head: bytes
) -> TailRead:
    # Its end is found first, so that it is in memory only once.
    file.seek(before.offset + len(head))
    length, end = len(head), -1
    while end < 0:
        part = file.read(BLOCK_BYTES)
        if not part:
            return _read_unterminated_long_line(file, status, before, behind, length)
        end = part.find(b"\n")
        length += len(part) if end < 0 else end + 1
    if length - 1 <= MAX_LINE_BYTES:
        file.seek(before.offset)
        block = LineBlock(before.offset, file.read(length), length)
        if len(block.data) < length:
            return TailRead(TailChange.NONE, _with_status(status, before))
        return _grown(_state_after(file, status, behind, block), block)
    offset = before.offset + length
    anchor = _hash(_read_anchor(file, offset))
    reason = f"longer than {MAX_LINE_BYTES >> 20} MiB"
    bad = (BadLine(before.offset, length - 1, reason),)
    after = _with_status(status, TailState(offset=offset, anchor=anchor))
    return _grown(after, LineBlock(), bad)


def _read_unterminated_long_line(
    file: BinaryIO, status: FileStatus, before: TailState, behind: bytes, length: int
) -> TailRead:
    data = b""
    if length <= MAX_LINE_BYTES and before.offset + length == status.st_size:
        file.seek(before.offset)
        data = file.read(length)
    last = complete_line_length(data)
    if not last or not _has_settled(status):
        return TailRead(TailChange.NONE, _with_status(status, before), unterminated=last > 0)
    block = LineBlock(before.offset, data, last)
    return _grown(_state_after(file, status, behind, block), block)


def _grown(
    after: TailState, block: LineBlock, bad: tuple[BadLine, ...] = (), *, unsettled: bool = False
) -> TailRead:
    more = after.offset < after.size
    if more:
        # Not the file's size: if reading ends here, the file must look changed.
        after = replace(after, size=after.offset)
    return TailRead(TailChange.GROWN, after, block, bad, more, unsettled)
