"""Requests to compact: one at a time for a session, each with its receipt."""

from __future__ import annotations

import os
import secrets
import time
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec

from ...core.system.processes import is_running, process_start_time
from ..plugin import compact_requests
from .compact_outcome import CompactFailure, NotCompactedError, Via

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .compact_outcome import ClientCompactResult


@contextmanager
def request_lock(store: Path, session_id: str) -> Iterator[None]:
    """Hold a session's lock: one request at a time.

    Raises NotCompactedError where another process holds it, OSError where the folder is not safe.
    """
    compact_requests.make_request_folders(str(store))
    lock = Path(
        compact_requests.request_folder(str(store)), f"{session_id}.{compact_requests.LOCK}"
    )
    mine = {
        "pid": os.getpid(),
        "start": process_start_time(os.getpid()),
        "mark": secrets.token_hex(8),
    }
    try:
        compact_requests.write_new_request_file(str(lock), mine)
    except FileExistsError:
        _remove_stale(lock)
        try:
            compact_requests.write_new_request_file(str(lock), mine)
        except FileExistsError:
            raise _held_error(lock) from None
    try:
        yield
    finally:
        if _read_lock(lock).get("mark") == mine["mark"]:
            lock.unlink(missing_ok=True)


def _read_lock(lock: Path) -> dict[str, Any]:
    try:
        return compact_requests.read_request_file(str(lock))
    except (OSError, ValueError):
        return {}


def _remove_stale(lock: Path) -> None:
    """Remove the lock of a process that has ended."""
    held = _read_lock(lock)
    if held and _is_same_process(held):
        return
    aside = lock.with_name(f"{lock.name}.{secrets.token_hex(4)}")
    with suppress(FileNotFoundError):
        lock.rename(aside)
        if _read_lock(aside).get("mark") != held.get("mark"):
            # Another process was faster, and this one is its own.
            with suppress(FileExistsError):
                os.link(aside, lock)
        aside.unlink()


def _held_error(lock: Path) -> NotCompactedError:
    holder = _read_lock(lock).get("pid")
    return NotCompactedError(
        CompactFailure.LIVE,
        f"process {holder} is asking this session to compact already: wait for it",
    )


def _is_same_process(held: dict[str, Any]) -> bool:
    pid, start = held.get("pid"), held.get("start")
    if not isinstance(pid, int) or not isinstance(start, (int, float)):
        return False
    return is_running(pid, start)


RETENTION_S: Final = 14 * 24 * 3600.0
"""Results stay this long, as the logs do; a session that was not prompted since is over."""

LEFTOVER_MAX_AGE_S: Final = 24 * 3600.0
"""After this what a killed process left in the folder is removed."""


class ClientCompactReceipt(msgspec.Struct, frozen=True):
    """A request and how it ended; times in ms since 1970, sizes in tokens."""

    session_id: str
    request: str
    requested_at: int
    via: str
    state: str
    """done, refused or failed; pending while there is no result, orphan when that is old."""
    why: str | None = None
    boundary_uuid: str | None = None
    pre_tokens: int | None = None
    post_tokens: int | None = None
    command: tuple[str, ...] = ()
    """What was run for it; empty where a client that was open was asked."""
    folder: str | None = None
    """Where that was run."""


class CompactRequest:
    """One request, from its sentinel to its result."""

    def __init__(self, store: Path, session_id: str, text: str) -> None:
        self.store: Final = str(store)
        self.session_id: Final = session_id
        self.text: Final = text
        self.request_id: Final = secrets.token_hex(8)
        self.requested_at: Final = compact_requests.now_ms()
        self.via = Via.AUTO
        self.command: tuple[str, ...] = ()
        self.folder: str | None = None
        self._began = False

    def note_command(self, command: tuple[str, ...], folder: str) -> None:
        """Note what is run for it, and where."""
        self.command, self.folder = command, folder

    def begin(self, via: Via) -> None:
        """Note what is about to be done: until there is a result it is pending."""
        self.via = via
        self._began = True
        asked = {"requested_at": self.requested_at, "via": via, "pid": os.getpid()}
        compact_requests.write_request_file(
            str(self.file_path(compact_requests.ASKED)), self.with_ids(asked | self._run_facts())
        )

    def finish(self, outcome: ClientCompactResult) -> None:
        """Keep that the client compacted."""
        sizes = {"pre_tokens": outcome.pre_tokens, "post_tokens": outcome.post_tokens}
        self._write_result({"state": "done", "boundary_uuid": outcome.boundary_uuid} | sizes)

    def fail(self, error: NotCompactedError) -> None:
        """Keep that it did not; what was never begun leaves nothing."""
        if self._began:
            state = "failed" if error.failure is CompactFailure.FAILED else "refused"
            self._write_result(
                {"state": state, "why": str(error)[: compact_requests.MAX_INSTRUCTION_CHARS]}
            )

    def read_result(self) -> dict[str, Any] | None:
        """Read how the module says that it ended; None while it says nothing that can be read."""
        try:
            return compact_requests.read_request_file(str(self.file_path(compact_requests.RESULT)))
        except (OSError, ValueError):
            return None

    def file_path(self, kind: str) -> Path:
        """Name a file of this request."""
        kept = kind in {compact_requests.ASKED, compact_requests.RESULT}
        folder = (
            compact_requests.request_history_folder if kept else compact_requests.request_folder
        )
        return Path(
            folder(self.store),
            compact_requests.request_file_name(self.session_id, self.request_id, kind),
        )

    def with_ids(self, more: dict[str, Any]) -> dict[str, Any]:
        """Return `more` with the ids of the session and the request."""
        return {"session_id": self.session_id, "request": self.request_id} | more

    def _write_result(self, how: dict[str, Any]) -> None:
        ended = {
            "at": compact_requests.now_ms(),
            "via": self.via,
            "why": None,
            "boundary_uuid": None,
        }
        sizes = {"pre_tokens": None, "post_tokens": None}
        compact_requests.write_request_file(
            str(self.file_path(compact_requests.RESULT)),
            self.with_ids(ended | sizes | self._run_facts() | how),
        )

    def _run_facts(self) -> dict[str, Any]:
        return {"command": self.command, "folder": self.folder} if self.command else {}


def read_client_receipts(store: Path, now_ms: int) -> list[ClientCompactReceipt]:
    """List what was asked, newest first; garbage is passed over.

    Raises OSError where the folder is there and cannot be believed.
    """
    folder = Path(compact_requests.request_history_folder(str(store)))
    if not os.path.lexists(compact_requests.request_folder(str(store))):
        return []
    compact_requests.check_request_folders(str(store))
    names = [
        parts
        for path in folder.iterdir()
        if (parts := compact_requests.parse_request_file_name(path.name))
    ]
    found = [
        _read_receipt(folder, session_id, request, now_ms)
        for session_id, request, kind in names
        if kind == compact_requests.ASKED
    ]
    return sorted((each for each in found if each), key=lambda each: -each.requested_at)


def remove_old_files(store: Path) -> None:
    """Remove what is old: results, and what killed processes left."""
    _remove_older(Path(compact_requests.request_history_folder(str(store))), RETENTION_S)
    _remove_older(Path(compact_requests.request_folder(str(store))), LEFTOVER_MAX_AGE_S)


def _remove_older(folder: Path, max_age_s: float) -> None:
    for path in folder.iterdir():
        with suppress(OSError):
            is_old = time.time() - path.lstat().st_mtime > max_age_s
            # The module removes those of clients that have ended.
            if is_old and path.suffix != f".{compact_requests.ALIVE}" and not path.is_dir():
                path.unlink()


def _read_receipt(
    folder: Path, session_id: str, request: str, now_ms: int
) -> ClientCompactReceipt | None:
    asked = _read_request_file(
        folder / compact_requests.request_file_name(session_id, request, compact_requests.ASKED)
    )
    requested_at = asked.get("requested_at")
    if not isinstance(requested_at, int):
        return None
    ended = _read_request_file(
        folder / compact_requests.request_file_name(session_id, request, compact_requests.RESULT)
    )
    ended = ended or _read_request_file(
        folder / compact_requests.request_file_name(session_id, request, compact_requests.TOLD)
    )
    state = ended.get("state")
    if state is None:
        waited_s = (now_ms - requested_at) / 1000
        state = "pending" if 0 <= waited_s < compact_requests.ORPHAN_AFTER_S else "orphan"
    try:
        return msgspec.convert(
            {"session_id": session_id, "request": request, "requested_at": requested_at}
            | {"via": ended.get("via") or asked.get("via"), "state": state}
            | {key: ended.get(key) for key in _RESULT_KEYS}
            | {key: each for key in _RUN_KEYS if (each := ended.get(key) or asked.get(key))},
            ClientCompactReceipt,
        )
    except msgspec.ValidationError:
        return None


_RESULT_KEYS: Final = ("why", "boundary_uuid", "pre_tokens", "post_tokens")
_RUN_KEYS: Final = ("command", "folder")


def _read_request_file(path: Path) -> dict[str, Any]:
    try:
        return compact_requests.read_request_file(str(path))
    except (OSError, ValueError):
        return {}
