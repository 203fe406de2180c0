"""How large a transcript and its lines may be (compaction.md 7.5, "size limits")."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from .line_file import LONGEST_LINE
from .plan import Refusal

if TYPE_CHECKING:
    from .line_file import Scan

LARGE_BYTES: Final = 50_000_000
"""From here on a person is told that it takes a while: at 10 MB a second to plan and apply."""

LARGEST_BYTES: Final = 200_000_000
"""What is larger is changed only where a person says so: its copies alone take some minutes."""

UNLIMITED: Final = 1 << 62
"""Bytes that no file has."""

_MB: Final = 1_000_000


def size_note(size: int) -> str | None:
    """Say that a transcript is large, in one line; None where it is not. `size` is in bytes."""
    if size <= LARGE_BYTES:
        return None
    return f"the transcript has {size / _MB:,.0f} MB: planning and applying take a while"


def file_refusal(scan: Scan, max_bytes: int = LARGEST_BYTES) -> Refusal | None:
    """Refuse to change a transcript of more than `largest` bytes; None where it is smaller."""
    return size_refusal(scan.size, max_bytes)


def size_refusal(size: int, max_bytes: int = LARGEST_BYTES) -> Refusal | None:
    """Refuse a transcript of `size` bytes as `file_refusal` does, before it is read."""
    if size <= max_bytes:
        return None
    return Refusal(
        "file-size",
        f"the transcript has {size / _MB:,.0f} MB, more than the {max_bytes / _MB:,.0f} MB that"
        " are changed unasked",
        "say --force, with three times as much room on the disk",
    )


def line_refusal(scan: Scan) -> Refusal | None:
    """Refuse a line that is longer than any that is read; None where there is none."""
    if scan.longest_line_bytes <= LONGEST_LINE:
        return None
    return Refusal(
        "line-size",
        f"a line of it has {scan.longest_line_bytes / _MB:,.0f} MB, and none of more than"
        f" {LONGEST_LINE / _MB:,.0f} MB is read",
        "look into the file: no client writes such a line",
    )
