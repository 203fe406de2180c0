"""The end of a conversation, read in a bounded time: for what cannot wait for the whole."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ..regular import open_regular
from .conversation import entries_from

if TYPE_CHECKING:
    from pathlib import Path

    from ...core.conversation import Entry

WINDOW_BYTES: Final = 6 * 1024 * 1024
"""Of a transcript's end: 0.2 s of reading and looking; a segment of the recorded sessions has
4 MB at the most."""


def read_window(path: Path, most: int = WINDOW_BYTES) -> list[Entry]:
    """Read the entries of a context from the last `most` bytes of its file.

    Of a session's file those of agents are left out, of an agent's own none. Lines count from
    where the reading begins. Raises OSError where the file cannot be read.
    """
    own = path.parent.name != "subagents"
    entries = entries_from(path, window_start(path, most))
    return [entry for entry in entries if not (own and entry.sidechain)]


def window_start(path: Path, most: int, end: int | None = None) -> int:
    """Find the first line of the last `most` bytes before `end`, or before the file's end.

    Raises OSError where the file cannot be read.
    """
    with open_regular(path) as file:
        start = max(0, (file.seek(0, 2) if end is None else end) - most)
        file.seek(start)
        while start and (block := file.read(1 << 20)):
            place = block.find(b"\n")
            if place >= 0:
                return start + place + 1
            start += len(block)
        return start
