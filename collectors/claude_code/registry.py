"""Which sessions are open in a running client, and that client's environment."""

import re
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Final, NamedTuple

import msgspec

from ...core.files.safe_open import open_regular
from ...core.measure.window import AUTO_COMPACT_OPTION, AUTO_COMPACT_VARIABLES
from ...core.model.claude_models import has_registry_entry
from ...core.model.transcript_records import LiveSession
from ...core.transcript.lenient_json import NotJsonError, UnexpectedShapeError, decode_readable
from ...core.transcript.sanitize import sanitize_path, sanitize_title
from ..locations.discover import ClaudeFolder
from ..plugin_files.plugin_log import MAX_TIME_S

_AUTOCOMPACT_VALUE: Final = re.compile(r"(?i)auto|\d{1,9}[km]?")
"""A value of the option; anything else is a word of a prompt."""


def read_client_environment(session: LiveSession) -> dict[str, str] | None:
    """Read the auto-compact variables of a session's process; None if they are not accessible.

    The option on its command line is among them, by its name. An environment and a command line
    hold secrets and prompts: nothing else of them is kept.
    """
    import psutil  # takes 30 ms, and the dashboard's first paint comes before

    try:
        process = psutil.Process(session.pid)
        environment, words = process.environ(), process.cmdline()
    except (psutil.Error, OSError):
        return None
    variables = {
        name: sanitize_title(value)
        for name, value in environment.items()
        if name in AUTO_COMPACT_VARIABLES
    }
    option = autocompact_option(words)
    return variables if option is None else variables | {AUTO_COMPACT_OPTION: option}


def autocompact_option(words: Sequence[str]) -> str | None:
    """Return the value of `--autocompact` on the client's command line; the last one counts."""
    value = None
    for place, word in enumerate(words):
        if word == "--":
            break
        if word == AUTO_COMPACT_OPTION and place + 1 < len(words):
            value = words[place + 1]
        elif word.startswith(f"{AUTO_COMPACT_OPTION}="):
            value = word.partition("=")[2]
    return value.lower() if value and _AUTOCOMPACT_VALUE.fullmatch(value) else None


MAX_ENTRY_BYTES: Final = 64 * 1024  # the client writes about 600
START_SLACK_S: Final = 120.0  # a process that began later only reuses the number
ZONE_STEP_S: Final = 900.0
MAX_ZONE_DIFFERENCE_S: Final = 26 * 3600.0  # zones differ by quarters of an hour, up to this
UnixMs = Annotated[int, msgspec.Meta(ge=0, le=MAX_TIME_S * 1000)]  # milliseconds since 1970
_PROC_START_FIELD: Final = 22  # of /proc/PID/stat: start in ticks (claude-code-formats 1.4)


_GIVEN_NAMES: Final = frozenset({"user", "peer", "hook"})
"""Who gave a session its name; the client made up all others (2.1.332)."""

_DAEMON: Final = "daemon"  # the kind of the process that starts background sessions: it has none
_SHELL_STATUS: Final = "shell"  # idle, and a shell runs in the background (2.1.332)
_DEAD_STATES: Final = frozenset("ZX")  # of /proc/PID/stat: ended, not reaped yet


class _RegistryEntry(msgspec.Struct, rename="camel"):
    pid: Annotated[int, msgspec.Meta(gt=0, lt=1 << 31)]
    session_id: str
    status: str | None = None
    tmux: str | None = None
    name: str | None = None
    name_source: str | None = None
    kind: str | None = None
    spare: bool | None = None  # started ahead of a session: no one has begun one in it
    waiting_for: str | None = None
    cwd: str | None = None
    version: str | None = None
    proc_start: str | None = None
    pid_domain: str | None = None
    started_at: UnixMs | None = None
    updated_at: UnixMs | None = None


class SessionRegistry(NamedTuple):
    """The sessions in the registry; all ids are in lower case."""

    clients: tuple[LiveSession, ...]
    """One entry for each live process, in no order; two may have one session open."""
    stale_ids: frozenset[str]
    """Sessions of leftover entries whose process may be alive on another machine. One that is dead
    on this machine, as after a kill, has ended: its entry says nothing more."""
    exists: bool  # the folder exists: clients write into it

    def is_closed(self, session_id: str, client_version: str | None) -> bool:
        """Return whether the session is closed for sure: an open one would have an entry."""
        is_named = session_id in self.stale_ids or any(
            client.session_id == session_id for client in self.clients
        )
        return self.exists and not is_named and has_registry_entry(client_version)


def list_open_sessions(folder: ClaudeFolder) -> list[LiveSession]:
    return newest_by_session(read_session_registry(folder))


def newest_by_session(registry: SessionRegistry) -> list[LiveSession]:
    """List the open sessions; the newest entry of one that two clients have open counts."""
    clients = sorted(registry.clients, key=lambda each: each.updated_at or each.started_at or 0)
    return list({client.session_id: client for client in clients}.values())


def read_session_registry(folder: ClaudeFolder) -> SessionRegistry:
    """Read every entry. Only *.json is opened: a *.key beside it is a secret."""
    clients, stale_ids = [], set()
    for path in sorted(folder.sessions.glob("*.json")):
        entry = _read_entry(path)
        if entry is None or entry.spare or entry.kind == _DAEMON:
            continue
        session = _to_live_session(entry)
        if _is_alive(entry):
            clients.append(session)
        elif entry.pid_domain is None or entry.pid_domain != read_pid_domain():
            stale_ids.add(session.session_id)
    return SessionRegistry(tuple(clients), frozenset(stale_ids), folder.sessions.is_dir())


def title_or_none(text: str | None) -> str | None:
    return sanitize_title(text) if text else None


def _to_live_session(entry: _RegistryEntry) -> LiveSession:
    status = entry.status or "idle"
    return LiveSession(
        session_id=sanitize_title(entry.session_id).lower(),
        pid=entry.pid,
        status="idle" if status == _SHELL_STATUS else sanitize_title(status),
        has_shell=status == _SHELL_STATUS,
        tmux=title_or_none(entry.tmux),
        name=title_or_none(entry.name) if entry.name_source in _GIVEN_NAMES else None,
        updated_at=entry.updated_at,
        waiting_for=title_or_none(entry.waiting_for),
        cwd=sanitize_path(entry.cwd) if entry.cwd else None,
        client_version=title_or_none(entry.version),
        started_at=entry.started_at,
        process_start=title_or_none(entry.proc_start),
    )


def _read_entry(path: Path) -> _RegistryEntry | None:
    try:
        with open_regular(path) as file:
            entry = decode_readable(file.read(MAX_ENTRY_BYTES), _RegistryEntry)
    except (OSError, NotJsonError, UnexpectedShapeError):
        # The client replaces and removes entries at any moment; the next read finds it.
        return None
    return entry if entry.session_id else None


def _is_alive(entry: _RegistryEntry) -> bool:
    import psutil  # takes 30 ms, and the dashboard's first paint comes before

    if entry.proc_start and sys.platform == "linux":
        return linux_stat_field(entry.pid, _PROC_START_FIELD) == entry.proc_start
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


_MACHINE_ID_FILES: Final = (Path("/etc/machine-id"), Path("/var/lib/dbus/machine-id"))
_FIRST_PID: Final = 1  # alive as long as the machine, or the container


def read_pid_domain() -> str | None:
    """Name the processes that can be seen here as the client does (2.1.329, `pidDomain`).

    None where that is unknown: on other systems than Linux, and where /proc hides processes.
    """
    if sys.platform != "linux" or linux_stat_field(_FIRST_PID, _PROC_START_FIELD) is None:
        return None
    for path in _MACHINE_ID_FILES:
        try:
            machine = path.read_text(encoding="ascii").strip()
            return f"linux:{machine}:{Path('/proc/self/ns/pid').readlink()}"
        except (OSError, UnicodeDecodeError):
            continue
    return None


def _matches_start_date(written: str | None, began: float) -> bool:
    """Compare with a date in the client's time zone (macOS); any other format matches."""
    try:
        # As `ps -o lstart` writes it.
        moment = (
            datetime.strptime(written or "", "%a %b %d %H:%M:%S %Y").replace(tzinfo=UTC).timestamp()
        )
    except ValueError:
        return True
    apart = abs(began - moment)
    # Dates have whole seconds, and each side rounds differently.
    is_zone = min(apart % ZONE_STEP_S, -apart % ZONE_STEP_S) <= 2.0
    return is_zone and apart <= MAX_ZONE_DIFFERENCE_S


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
