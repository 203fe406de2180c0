"""Snapshots of the client's status line: what the client itself says of a window."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

import msgspec

from ..core.store.facts import WindowSeen
from .clean import clean_title
from .lines import Count  # noqa: TC001 -- msgspec reads it
from .tail import open_regular

if TYPE_CHECKING:
    from pathlib import Path

SNAPSHOTS: Final = "statusline.jsonl"
"""Beside the store: one line a snapshot, as the client gave it to the status line."""

NEWEST_BYTES: Final = 1024 * 1024
"""Read from the end: about 700 snapshots, of which the newest of each session counts."""


class _Model(msgspec.Struct):
    id: str | None = None


class _ContextWindow(msgspec.Struct):
    context_window_size: Count | None = None


class _Snapshot(msgspec.Struct):
    session_id: str | None = None
    model: _Model | None = None
    context_window: _ContextWindow | None = None


def read_windows(path: Path) -> list[WindowSeen]:
    """Read the windows that the newest snapshots show; a line that is no snapshot is passed over.

    Raises OSError where the file cannot be read.
    """
    with open_regular(path) as file:
        status = os.fstat(file.fileno())
        file.seek(max(0, status.st_size - NEWEST_BYTES))
        lines = file.read(NEWEST_BYTES).split(b"\n")
    # The file's own time: a position would begin anew where the file does.
    at = status.st_mtime_ns // 1_000_000
    seen = (_read(line, at) for line in lines)
    return [window for window in seen if window]


def _read(line: bytes, at: int) -> WindowSeen | None:
    try:
        snapshot = msgspec.json.decode(line, type=_Snapshot)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    size = snapshot.context_window.context_window_size if snapshot.context_window else None
    if not (snapshot.session_id and snapshot.model and snapshot.model.id and size and size > 0):
        return None
    # A transcript names the same model without the mark of its large window.
    model = clean_title(snapshot.model.id).removesuffix("[1m]")
    return WindowSeen(clean_title(snapshot.session_id).lower(), model, size, at)
