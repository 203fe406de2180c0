"""A transcript's lines by number: where each begins, and its bytes when they are asked for."""

from __future__ import annotations

import hashlib
import os
import re
import stat
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

import msgspec

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
    """Those that end with a line end; a torn one at the end is not among them."""
    sha256: str
    size: int
    longest: int
    """Bytes of the longest line with its line end, whether it is one of `lines` or too long."""
    state: tuple[int, int]
    """Size and time of the last change when the reading began."""


class LineFile:
    """An open transcript; it is read and never written."""

    def __init__(self, file: BinaryIO) -> None:
        self._file: Final = file

    def scan(self) -> Scan:
        """Read all lines once; only where they stand is kept. Raises OSError."""
        before = self._state()
        hashed = hashlib.sha256()
        lines: list[Line] = []
        self._file.seek(0)
        offset = longest = begun = 0
        while data := self._file.readline(LONGEST_LINE):
            hashed.update(data)
            begun += len(data)
            longest = max(longest, begun)
            if data.endswith(b"\n"):
                type_ = _TYPE.match(data[:_HEAD_BYTES])
                lines.append(
                    Line(
                        number=len(lines) + 1,
                        offset=offset,
                        length=len(data) - 1,
                        type=type_[1].decode() if type_ else "",
                        has_result=_RESULT in data,
                    )
                )
                begun = 0
            offset += len(data)
        return Scan(tuple(lines), hashed.hexdigest(), offset, longest, before)

    def read(self, line: Line) -> bytes:
        """Give a line's bytes without the line end; raises OSError."""
        # Not through the buffer, which would be filled anew for each line.
        return os.pread(self._file.fileno(), line.length, line.offset)

    def has_changed(self, scan: Scan) -> bool:
        """Say whether somebody wrote to the file since a scan of it began."""
        return self._state() != scan.state

    def _state(self) -> tuple[int, int]:
        now = os.fstat(self._file.fileno())
        return now.st_size, now.st_mtime_ns


@contextmanager
def open_lines(path: Path) -> Iterator[LineFile]:
    """Open a transcript to plan for it; no link is followed. Raises OSError."""
    flags = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
    descriptor = os.open(path, flags | getattr(os, "O_BINARY", 0) | getattr(os, "O_CLOEXEC", 0))
    with open(descriptor, "rb", buffering=_BUFFER) as file:  # noqa: PTH123 -- a descriptor
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(0, "not a regular file", str(path))
        yield LineFile(file)
