"""A transcript opened for planning: its lines by number, and how large it and they may be."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, Final

import msgspec

from ..files.safe_open import open_regular
from ..transcript.raw_lines import MAX_LINE_BYTES, complete_line_length
from .plan import MAX_TRANSCRIPT_BYTES, Refusal
from .transcript_view import FileLine

_BUFFER_BYTES: Final = 1 << 20
_HEAD_BYTES: Final = 200
_TYPE: Final = re.compile(rb'\A\s*\{"type":\s*"([\w-]{1,60})"')
_RESULT_KEY: Final = b'"toolUseResult"'


class TranscriptScan(msgspec.Struct, frozen=True):
    """A file from end to end, as it was while it was read."""

    lines: tuple[FileLine, ...]  # all that are whole; half of one at the end is not among them
    torn_line: FileLine | None  # half a line at the end of the file, which nobody reads
    sha256: str
    size: int
    longest_line_bytes: int
    """Bytes of the longest line with its line end, whether it is one of `lines` or too long."""
    size_and_mtime: tuple[int, int]  # size and time of the last change when the reading began

    @property
    def end_offset(self) -> int:
        """Byte behind the last whole line and its line end."""
        return self.lines[-1].offset + self.lines[-1].total_bytes if self.lines else 0


class OpenTranscript:
    def __init__(self, file: BinaryIO) -> None:
        self._file: Final = file

    def scan(self) -> TranscriptScan:
        """Read all lines once; only where they stand is kept. Raises OSError.

        What is written meanwhile is not among them: the lines are those of one moment.
        """
        before = self._state()
        left = before[0]
        hashed = hashlib.sha256()
        lines: list[FileLine] = []
        torn: FileLine | None = None
        self._file.seek(0)
        offset = longest = begun = 0
        while data := self._file.readline(min(MAX_LINE_BYTES, left)):
            left -= len(data)
            hashed.update(data)
            begun += len(data)
            longest = max(longest, begun)
            if data.endswith(b"\n"):
                lines.append(_scan_line(len(lines) + 1, offset, data))
                begun = 0
            elif begun == len(data) < MAX_LINE_BYTES:
                # The last of the file: only there a line is cut off before its end.
                last = _scan_line(len(lines) + 1, offset, data)
                if complete_line_length(data):
                    lines.append(last)
                else:
                    torn = last
            offset += len(data)
        return TranscriptScan(tuple(lines), torn, hashed.hexdigest(), offset, longest, before)

    def read_line(self, line: FileLine) -> bytes:
        """Read a line's bytes without the line end; raises OSError."""
        # Not through the buffer, which would be filled anew for each line.
        return os.pread(self._file.fileno(), line.content_bytes, line.offset)

    def is_same_file(self, path: Path, scan: TranscriptScan) -> bool:
        """Return whether a path still names this file, uncut since the scan. Raises OSError."""
        own = os.fstat(self._file.fileno())
        return os.path.samestat(path.stat(follow_symlinks=False), own) and own.st_size >= scan.size

    def has_changed(self, scan: TranscriptScan) -> bool:
        """Whether the file was written since a scan of it began."""
        return self._state() != scan.size_and_mtime

    def _state(self) -> tuple[int, int]:
        now = os.fstat(self._file.fileno())
        return now.st_size, now.st_mtime_ns


def _scan_line(number: int, offset: int, data: bytes) -> FileLine:
    type_ = _TYPE.match(data[:_HEAD_BYTES])
    return FileLine(
        number=number,
        offset=offset,
        content_bytes=len(data.removesuffix(b"\n")),
        type=type_[1].decode() if type_ else "",
        has_result=_RESULT_KEY in data,
        is_ended=data.endswith(b"\n"),
    )


@contextmanager
def open_transcript(path: Path) -> Iterator[OpenTranscript]:
    """Open a transcript to plan for it; no link is followed. Raises OSError."""
    with open_regular(path, _BUFFER_BYTES) as file:
        yield OpenTranscript(file)


LARGE_TRANSCRIPT_BYTES: Final = 50_000_000
"""From here on a person is told that it takes a while: at 10 MB a second to plan and apply."""

_MB: Final = 1_000_000


def large_transcript_note(size: int) -> str | None:
    """Return a one-line note for a large transcript, else None. `size` is in bytes."""
    if size <= LARGE_TRANSCRIPT_BYTES:
        return None
    return f"the transcript has {size / _MB:,.0f} MB: planning and applying take a while"


def check_transcript_size(size: int, max_bytes: int = MAX_TRANSCRIPT_BYTES) -> Refusal | None:
    """Refuse to change a transcript of more than `max_bytes`; None where it is smaller."""
    if size <= max_bytes:
        return None
    return Refusal(
        "file-size",
        f"the transcript has {size / _MB:,.0f} MB, more than the {max_bytes / _MB:,.0f} MB that"
        " are changed unasked",
        "say --force, with three times as much room on the disk",
    )


def check_line_size(scan: TranscriptScan) -> Refusal | None:
    """Refuse a line that is longer than any that is read; None where there is none."""
    if scan.longest_line_bytes <= MAX_LINE_BYTES:
        return None
    return Refusal(
        "line-size",
        f"a line of it has {scan.longest_line_bytes / _MB:,.0f} MB, and none of more than"
        f" {MAX_LINE_BYTES / _MB:,.0f} MB is read",
        "look into the file: no client writes such a line",
    )
