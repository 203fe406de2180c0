"""The client's registry: which sessions are open in a process that is alive."""

from __future__ import annotations

import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, NamedTuple

import msgspec

from ..core.models import is_registered
from ..core.store.facts import LiveSession
from .clean import clean_text, clean_title
from .regular import open_regular

if TYPE_CHECKING:
    from .folder import ClaudeFolder

LARGEST: Final = 64 * 1024
"""Bytes; the client writes about 600. A larger file is none of its entries."""

START_SLACK_S: Final = 120.0
"""A process that began later than its entry by more than this has only inherited the number."""

ZONE_STEP_S: Final = 900.0
ZONES_S: Final = 26 * 3600.0
"""Time zones differ by whole quarters of an hour, at the most by these."""

DATE_SLACK_S: Final = 2.0
"""A date has whole seconds, and each side rounds in its own way."""

_DATE: Final = "%a %b %d %H:%M:%S %Y"
"""As `ps -o lstart` writes it."""

Moment = Annotated[int, msgspec.Meta(ge=0, le=1 << 53)]
"""Milliseconds since 1970."""

_PROC_START_FIELD: Final = 22
"""Of /proc/PID/stat: the start in clock ticks (reference: claude-code-formats 1.4)."""


_STATUSES: Final = {"shell": "idle"}
"""What the client calls an idle prompt beside which a background shell runs (seen in 2.1.329)."""

_DEAD: Final = frozenset("ZX")
"""States of /proc/PID/stat: ended, and nobody has buried it yet (a container without init)."""


class _Entry(msgspec.Struct, rename="camel"):
    pid: Annotated[int, msgspec.Meta(gt=0, lt=1 << 31)]
    session_id: str
    status: str | None = None
    tmux: str | None = None
    name: str | None = None
    name_source: str | None = None
    waiting_for: str | None = None
    kind: str | None = None
    entrypoint: str | None = None
    cwd: str | None = None
    version: str | None = None
    proc_start: str | None = None
    started_at: Moment | None = None
    updated_at: Moment | None = None


class Registry(NamedTuple):
    """What the registry says of sessions; all ids are in lower case."""

    clients: tuple[LiveSession, ...]
    """One entry for each process that is alive, in no order; two may have one session open."""
    stale_ids: frozenset[str]
    """Sessions of entries whose process is not alive, or not on this machine: nobody removed
    them."""
    exists: bool
    """The folder is there: clients write into it."""

    def is_closed(self, session_id: str, client_version: str | None) -> bool:
        """Report whether the registry would name a session if a client had it open."""
        named = session_id in self.stale_ids or any(
            each.session_id == session_id for each in self.clients
        )
        return self.exists and not named and is_registered(client_version)


def read_registry(folder: ClaudeFolder) -> list[LiveSession]:
    """List the open sessions, each once; an entry whose process has ended is left out.

    Only *.json is opened: a *.key beside it is a secret.
    """
    return open_sessions(read_clients(folder))


def open_sessions(found: Registry) -> list[LiveSession]:
    """List the open sessions; of one that two clients have open the newest word counts."""
    live: dict[str, LiveSession] = {}
    for session in found.clients:
        other = live.get(session.session_id)
        if other is None or _newest(session) >= _newest(other):
            live[session.session_id] = session
    return list(live.values())


def read_clients(folder: ClaudeFolder) -> Registry:
    """Read every entry of the registry."""
    clients, left = [], set()
    for path in sorted(folder.sessions.glob("*.json")):
        entry = _read(path)
        if entry is None:
            continue
        session = _describe(entry)
        if _is_alive(entry):
            clients.append(session)
        else:
            left.add(session.session_id)
    return Registry(tuple(clients), frozenset(left), folder.sessions.is_dir())


def _describe(entry: _Entry) -> LiveSession:
    return LiveSession(
        session_id=clean_title(entry.session_id).lower(),
        pid=entry.pid,
        status=_STATUSES.get(entry.status or "idle") or clean_title(entry.status or "idle"),
        tmux=_title(entry.tmux),
        name=_title(entry.name) if entry.name_source == "user" else None,
        updated_at=entry.updated_at,
        waiting_for=_title(entry.waiting_for),
        kind=_title(entry.kind),
        entrypoint=_title(entry.entrypoint),
        cwd=clean_text(entry.cwd) if entry.cwd else None,
        client_version=_title(entry.version),
        started_at=entry.started_at,
        process_start=_title(entry.proc_start),
    )


def _title(text: str | None) -> str | None:
    return clean_title(text) if text else None


def _newest(session: LiveSession) -> int:
    return session.updated_at or session.started_at or 0


def _read(path: Path) -> _Entry | None:
    try:
        with open_regular(path) as file:
            entry = msgspec.json.decode(file.read(LARGEST), type=_Entry)
    except (OSError, msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        # The client replaces and removes entries at any moment; the next look finds it.
        return None
    return entry if entry.session_id else None


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
    if entry.started_at is not None and began > entry.started_at / 1000 + START_SLACK_S:
        return False
    return _may_be_start(entry.proc_start, began)


def _may_be_start(written: str | None, began: float) -> bool:
    """Compare with a date in the zone that the client had (macOS); another form says nothing."""
    try:
        moment = datetime.strptime(written or "", _DATE).replace(tzinfo=UTC).timestamp()
    except ValueError:
        return True
    apart = abs(began - moment)
    return apart <= ZONES_S and min(apart % ZONE_STEP_S, -apart % ZONE_STEP_S) <= DATE_SLACK_S


def _linux_start(pid: int) -> str | None:
    return linux_field(pid, _PROC_START_FIELD)


def linux_field(pid: int, number: int) -> str | None:
    """Take a field of /proc/PID/stat by its number in proc(5); None where the process ended."""
    try:
        # A text layer would take three times as long, for each session every other second.
        with Path(f"/proc/{pid}/stat").open("rb", buffering=0) as file:
            data = file.read()
    except OSError:
        return None
    # The second field is the program's name in brackets and may hold anything.
    fields = data.rpartition(b")")[2].decode("ascii", "replace").split()
    place = number - 3
    if len(fields) <= place or fields[0] in _DEAD:
        return None
    return fields[place]
