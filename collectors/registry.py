"""The client's registry: which sessions are open in a process that is alive."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import msgspec

from ..core.store.facts import LiveSession
from .clean import clean_title
from .tail import open_regular

if TYPE_CHECKING:
    from .folder import ClaudeFolder

LARGEST: Final = 64 * 1024
"""Bytes; the client writes about 600."""

START_SLACK_S: Final = 120.0
"""A process that began later than its entry by more than this has only inherited the number."""

Moment = Annotated[int, msgspec.Meta(ge=0, le=1 << 53)]
"""Milliseconds since 1970."""

_PROC_START_FIELD: Final = 22
"""Of /proc/PID/stat: the start in clock ticks (reference: claude-code-formats 1.4)."""


_DEAD: Final = frozenset("ZX")
"""States of /proc/PID/stat: ended, and nobody has buried it yet (a container without init)."""


class _Entry(msgspec.Struct, rename="camel"):
    pid: Annotated[int, msgspec.Meta(gt=0, lt=1 << 31)]
    session_id: str
    status: str | None = None
    tmux: str | None = None
    name: str | None = None
    name_source: str | None = None
    proc_start: str | None = None
    started_at: Moment | None = None
    updated_at: Moment | None = None


def read_registry(folder: ClaudeFolder) -> list[LiveSession]:
    """List the open sessions; an entry whose process has ended is left out.

    Only *.json is opened: a *.key beside it is a secret.
    """
    live: dict[str, LiveSession] = {}
    for path in sorted(folder.sessions.glob("*.json")):
        entry = _read(path)
        if entry and _is_alive(entry):
            session = LiveSession(
                session_id=clean_title(entry.session_id).lower(),
                pid=entry.pid,
                status=clean_title(entry.status or "idle"),
                tmux=clean_title(entry.tmux) if entry.tmux else None,
                name=clean_title(entry.name)
                if entry.name and entry.name_source == "user"
                else None,
                updated_at=entry.updated_at,
            )
            live[session.session_id] = session
    return list(live.values())


def _read(path: Path) -> _Entry | None:
    try:
        with open_regular(path) as file:
            return msgspec.json.decode(file.read(LARGEST), type=_Entry)
    except (OSError, msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        # The client replaces and removes entries at any moment; the next look finds it.
        return None


def _is_alive(entry: _Entry) -> bool:
    import psutil  # takes 30 ms, and the dashboard's first paint comes before

    if entry.proc_start and sys.platform == "linux":
        return _linux_start(entry.pid) == entry.proc_start
    try:
        process = psutil.Process(entry.pid)
        began = process.create_time()
        if process.status() == psutil.STATUS_ZOMBIE:
            return False
    except psutil.Error:
        return False
    return entry.started_at is None or began <= entry.started_at / 1000 + START_SLACK_S


def _linux_start(pid: int) -> str | None:
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    # The second field is the program's name in brackets and may hold anything.
    fields = text.rpartition(")")[2].split()
    place = _PROC_START_FIELD - 3
    if len(fields) <= place or fields[0] in _DEAD:
        return None
    return fields[place]
