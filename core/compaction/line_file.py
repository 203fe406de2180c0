"""A transcript's lines by number: where each begins, and its bytes when they are asked for."""

from __future__ import annotations

import hashlib
import os
import re
import stat
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

import msgspec

from ..last_line import whole_length
from .view import Line

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path
    from typing import BinaryIO

LONGEST_LINE: Final = 64 << 20
"""Bytes (compaction.md 7.5): a longer line is read by nobody."""

_BUFFER: Final = 1 << 20
_HEAD_BYTES: Final = 200
_TYPE: Final = re.compile(rb'\A\s*\{"type":\s*"([\w-]{1,60})"')
_RESULT: Final = b'"toolUseResult"'


class Scan(msgspec.Struct, frozen=True):
    """A file from end to end, as it was while it was read."""

    lines: tuple[Line, ...]
    """All that are whole; half of one at the end is not among them."""
    torn_line: Line | None
    """Half a line at the end of the file, which nobody reads."""
    sha256: str
    size: int
    longest_line_bytes: int
    """Bytes of the longest line with its line end, whether it is one of `lines` or too long."""
    size_and_mtime: tuple[int, int]
    """Size and time of the last change when the reading began."""

    @property
    def end_offset(self) -> int:
        """Byte behind the last whole line and its line end."""
        return self.lines[-1].offset + self.lines[-1].total_bytes if self.lines else 0


class LineFile:
    """An open transcript; it is read and never written."""

    def __init__(self, file: BinaryIO) -> None:
        self._file: Final = file

    def scan(self) -> Scan:
        """Read all lines once; only where they stand is kept. Raises OSError.

        What is written meanwhile is not among them: the lines are those of one moment.
        """
        before = self._state()
        left = before[0]
        hashed = hashlib.sha256()
        lines: list[Line] = []
        torn: Line | None = None
        self._file.seek(0)
        offset = longest = begun = 0
        while data := self._file.readline(min(LONGEST_LINE, left)):
            left -= len(data)
            hashed.update(data)
            begun += len(data)
            longest = max(longest, begun)
            if data.endswith(b"\n"):
                lines.append(_line(len(lines) + 1, offset, data))
                begun = 0
            elif begun == len(data) < LONGEST_LINE:
                # The last of the file: only there a line is cut off before its end.
                last = _line(len(lines) + 1, offset, data)
                if whole_length(data):
                    lines.append(last)
                else:
                    torn = last
            offset += len(data)
        return Scan(tuple(lines), torn, hashed.hexdigest(), offset, longest, before)

    def read_line(self, line: Line) -> bytes:
        """Give a line's bytes without the line end; raises OSError."""
        # Not through the buffer, which would be filled anew for each line.
        return os.pread(self._file.fileno(), line.content_bytes, line.offset)

    def is_same_file(self, path: Path, scan: Scan) -> bool:
        """Return whether a path still names this file, uncut since the scan. Raises OSError."""
        own = os.fstat(self._file.fileno())
        return os.path.samestat(path.stat(follow_symlinks=False), own) and own.st_size >= scan.size

    def has_changed(self, scan: Scan) -> bool:
        """Say whether somebody wrote to the file since a scan of it began."""
        return self._state() != scan.size_and_mtime

    def _state(self) -> tuple[int, int]:
        now = os.fstat(self._file.fileno())
        return now.st_size, now.st_mtime_ns


def _line(number: int, offset: int, data: bytes) -> Line:
    type_ = _TYPE.match(data[:_HEAD_BYTES])
    return Line(
        number=number,
        offset=offset,
        content_bytes=len(data.removesuffix(b"\n")),
        type=type_[1].decode() if type_ else "",
        has_result=_RESULT in data,
        is_ended=data.endswith(b"\n"),
    )


@contextmanager
def open_lines(path: Path) -> Iterator[LineFile]:
    """Open a transcript to plan for it; no link is followed. Raises OSError."""
    flags = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
    descriptor = os.open(path, flags | getattr(os, "O_BINARY", 0) | getattr(os, "O_CLOEXEC", 0))
    with open(descriptor, "rb", buffering=_BUFFER) as file:  # noqa: PTH123 -- a descriptor
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(0, "not a regular file", str(path))
        yield LineFile(file)
