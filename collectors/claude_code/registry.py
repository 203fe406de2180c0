"""Which sessions are open in a running client, and that client's environment."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, NamedTuple

import msgspec

from ...core.files.safe_open import open_regular
from ...core.measure.models import has_registry_entry
from ...core.measure.window import AUTO_COMPACT_OPTION, AUTO_COMPACT_VARIABLES
from ...core.store.transcript_records import LiveSession
from ...core.transcript.sanitize import sanitize_text, sanitize_title

if TYPE_CHECKING:
    from .discover import ClaudeFolder


_VARIABLE_NAMES: Final = frozenset(AUTO_COMPACT_VARIABLES)

_AUTOCOMPACT_VALUE: Final = re.compile(r"(?i)auto|\d{1,9}[km]?")
"""What the option takes; anything else is a word of a prompt."""


def read_client_environment(session: LiveSession) -> dict[str, str] | None:
    """Read these variables of a session's process; None where the system does not show them.

    What the command line says of compaction is among them, by its option's name. An environment
    and a command line hold secrets and prompts: nothing but these is looked at.
    """
    import psutil  # takes 30 ms, and the dashboard's first paint comes before

    try:
        process = psutil.Process(session.pid)
        found, words = process.environ(), process.cmdline()
    except (psutil.Error, OSError):
        return None
    variables = {
        name: sanitize_title(value) for name, value in found.items() if name in _VARIABLE_NAMES
    }
    option = autocompact_option(words)
    return variables if option is None else variables | {AUTO_COMPACT_OPTION: option}


def autocompact_option(words: Sequence[str]) -> str | None:
    """Find the value of the client's `--autocompact` on its command line; the last one counts."""
    found = None
    for place, word in enumerate(words):
        if word == "--":
            break
        if word == AUTO_COMPACT_OPTION and place + 1 < len(words):
            found = words[place + 1]
        elif word.startswith(f"{AUTO_COMPACT_OPTION}="):
            found = word.partition("=")[2]
    return None if found is None or not _AUTOCOMPACT_VALUE.fullmatch(found) else found.lower()


MAX_ENTRY_BYTES: Final = 64 * 1024
"""Bytes; the client writes about 600. A larger file is none of its entries."""

START_SLACK_S: Final = 120.0
"""A process that began later than its entry by more than this has only inherited the number."""

ZONE_STEP_S: Final = 900.0
MAX_ZONE_DIFFERENCE_S: Final = 26 * 3600.0
"""Time zones differ by whole quarters of an hour, at the most by these."""

DATE_SLACK_S: Final = 2.0  # a date has whole seconds, and each side rounds in its own way
_PS_DATE_FORMAT: Final = "%a %b %d %H:%M:%S %Y"  # as `ps -o lstart` writes it
UnixMs = Annotated[int, msgspec.Meta(ge=0, le=1 << 53)]  # milliseconds since 1970
_PROC_START_FIELD: Final = 22
"""Of /proc/PID/stat: the start in clock ticks (reference: claude-code-formats 1.4)."""


_STATUS_ALIASES: Final = {"shell": "idle"}
"""What the client calls an idle prompt beside which a background shell runs (seen in 2.1.329)."""

_DEAD_STATES: Final = frozenset("ZX")
"""States of /proc/PID/stat: ended, and nobody has buried it yet (a container without init)."""


class _RegistryEntry(msgspec.Struct, rename="camel"):
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
    started_at: UnixMs | None = None
    updated_at: UnixMs | None = None


class SessionRegistry(NamedTuple):
    """What the registry says of sessions; all ids are in lower case."""

    clients: tuple[LiveSession, ...]
    """One entry for each process that is alive, in no order; two may have one session open."""
    stale_ids: frozenset[str]
    """Sessions of entries whose process is not alive, or not on this machine: nobody removed
    them."""
    exists: bool  # the folder is there: clients write into it

    def is_closed(self, session_id: str, client_version: str | None) -> bool:
        """Report whether the registry would name a session if a client had it open."""
        named = session_id in self.stale_ids or any(
            each.session_id == session_id for each in self.clients
        )
        return self.exists and not named and has_registry_entry(client_version)


def list_open_sessions(folder: ClaudeFolder) -> list[LiveSession]:
    """List the open sessions, each once; an entry whose process has ended is left out.

    Only *.json is opened: a *.key beside it is a secret.
    """
    return newest_by_session(read_session_registry(folder))


def newest_by_session(found: SessionRegistry) -> list[LiveSession]:
    """List the open sessions; of one that two clients have open the newest word counts."""
    live: dict[str, LiveSession] = {}
    for session in found.clients:
        other = live.get(session.session_id)
        if other is None or _last_update(session) >= _last_update(other):
            live[session.session_id] = session
    return list(live.values())


def read_session_registry(folder: ClaudeFolder) -> SessionRegistry:
    """Read every entry of the registry."""
    clients, left = [], set()
    for path in sorted(folder.sessions.glob("*.json")):
        entry = _read_entry(path)
        if entry is None:
            continue
        session = _to_live_session(entry)
        if _is_alive(entry):
            clients.append(session)
        else:
            left.add(session.session_id)
    return SessionRegistry(tuple(clients), frozenset(left), folder.sessions.is_dir())


def _to_live_session(entry: _RegistryEntry) -> LiveSession:
    return LiveSession(
        session_id=sanitize_title(entry.session_id).lower(),
        pid=entry.pid,
        status=_STATUS_ALIASES.get(entry.status or "idle")
        or sanitize_title(entry.status or "idle"),
        tmux=_optional_title(entry.tmux),
        name=_optional_title(entry.name) if entry.name_source == "user" else None,
        updated_at=entry.updated_at,
        waiting_for=_optional_title(entry.waiting_for),
        kind=_optional_title(entry.kind),
        entrypoint=_optional_title(entry.entrypoint),
        cwd=sanitize_text(entry.cwd) if entry.cwd else None,
        client_version=_optional_title(entry.version),
        started_at=entry.started_at,
        process_start=_optional_title(entry.proc_start),
    )


def _optional_title(text: str | None) -> str | None:
    return sanitize_title(text) if text else None


def _last_update(session: LiveSession) -> int:
    return session.updated_at or session.started_at or 0


def _read_entry(path: Path) -> _RegistryEntry | None:
    try:
        with open_regular(path) as file:
            entry = msgspec.json.decode(file.read(MAX_ENTRY_BYTES), type=_RegistryEntry)
    except (OSError, msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        # The client replaces and removes entries at any moment; the next look finds it.
        return None
    return entry if entry.session_id else None


def _is_alive(entry: _RegistryEntry) -> bool:
    import psutil  # takes 30 ms, and the dashboard's first paint comes before

    if entry.proc_start and sys.platform == "linux":
        return _linux_start_time(entry.pid) == entry.proc_start
    try:
        process = psutil.Process(entry.pid)
        began = process.create_time()
        if process.status() == psutil.STATUS_ZOMBIE:
            return False
    except psutil.Error:
        return False
    if entry.started_at is not None and began > entry.started_at / 1000 + START_SLACK_S:
        return False
    return _matches_start_date(entry.proc_start, began)


def _matches_start_date(written: str | None, began: float) -> bool:
    """Compare with a date in the zone that the client had (macOS); another form says nothing."""
    try:
        moment = datetime.strptime(written or "", _PS_DATE_FORMAT).replace(tzinfo=UTC).timestamp()
    except ValueError:
        return True
    apart = abs(began - moment)
    return (
        apart <= MAX_ZONE_DIFFERENCE_S
        and min(apart % ZONE_STEP_S, -apart % ZONE_STEP_S) <= DATE_SLACK_S
    )


def _linux_start_time(pid: int) -> str | None:
    return linux_stat_field(pid, _PROC_START_FIELD)


def linux_stat_field(pid: int, number: int) -> str | None:
    """Return a field of /proc/PID/stat by its number in proc(5); None if the process ended."""
    try:
        # A text layer would take three times as long, for each session every other second.
        with Path(f"/proc/{pid}/stat").open("rb", buffering=0) as file:
            data = file.read()
    except OSError:
        return None
    # The second field is the program's name in brackets and may hold anything.
    fields = data.rpartition(b")")[2].decode("ascii", "replace").split()
    place = number - 3
    if len(fields) <= place or fields[0] in _DEAD_STATES:
        return None
    return fields[place]
