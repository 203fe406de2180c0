"""Requests that were made, and how each ended: one at a time for a session, none forgotten."""

from __future__ import annotations

import os
import secrets
import time
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec

from ..plugin import exchange
from .outcome import NotCompactedError, Via, Why

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .outcome import Outcome

KEPT_S: Final = 14 * 24 * 3600.0
"""Results stay this long, as the logs do; a session that was not prompted since is over."""

LEFT_S: Final = 24 * 3600.0
"""After this what a killed process left in the folder is removed."""

START_SLACK_S: Final = 1.0
"""Two readings of one process's start differ by less."""


class Receipt(msgspec.Struct, frozen=True):
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


class Asking:
    """One request, from its sentinel to its result."""

    def __init__(self, store: Path, session_id: str, text: str) -> None:
        self.store: Final = str(store)
        self.session_id: Final = session_id
        self.text: Final = text
        self.request: Final = secrets.token_hex(8)
        self.requested_at: Final = exchange.now_ms()
        self.via = Via.AUTO
        self._began = False

    def begin(self, via: Via) -> None:
        """Note what is about to be done: until there is a result it is pending."""
        self.via = via
        self._began = True
        asked = {"requested_at": self.requested_at, "via": via, "pid": os.getpid()}
        exchange.write(str(self.path(exchange.ASKED)), self._about() | asked)

    def done(self, outcome: Outcome) -> None:
        """Keep that the client compacted."""
        sizes = {"pre_tokens": outcome.pre_tokens, "post_tokens": outcome.post_tokens}
        self._end({"state": "done", "boundary_uuid": outcome.boundary_uuid} | sizes)

    def failed(self, error: NotCompactedError) -> None:
        """Keep that it did not; what was never begun leaves nothing."""
        if self._began:
            state = "failed" if error.why is Why.FAILED else "refused"
            self._end({"state": state, "why": str(error)[: exchange.TEXT_CHARS]})

    def result(self) -> dict[str, Any] | None:
        """Read how the module says that it ended; None while it says nothing that can be read."""
        try:
            return exchange.read(str(self.path(exchange.RESULT)))
        except (OSError, ValueError):
            return None

    def path(self, kind: str) -> Path:
        """Name a file of this request."""
        kept = kind in {exchange.ASKED, exchange.RESULT}
        folder = exchange.kept_folder if kept else exchange.asking_folder
        return Path(folder(self.store), exchange.file_name(self.session_id, self.request, kind))

    def about(self, more: dict[str, Any]) -> dict[str, Any]:
        """Say whose request this is, and more."""
        return self._about() | more

    def _about(self) -> dict[str, Any]:
        return {"session_id": self.session_id, "request": self.request}

    def _end(self, how: dict[str, Any]) -> None:
        ended = {"at": exchange.now_ms(), "via": self.via, "why": None, "boundary_uuid": None}
        sizes = {"pre_tokens": None, "post_tokens": None}
        exchange.write(str(self.path(exchange.RESULT)), self._about() | ended | sizes | how)


@contextmanager
def locked(store: Path, session_id: str) -> Iterator[None]:
    """Hold a session's lock: one request at a time.

    Raises NotCompactedError where another process holds it, OSError where the folder is not safe.
    """
    exchange.make_folders(str(store))
    lock = Path(exchange.asking_folder(str(store)), f"{session_id}.{exchange.LOCK}")
    mine = {"pid": os.getpid(), "start": _start_of(os.getpid()), "mark": secrets.token_hex(8)}
    try:
        exchange.write_once(str(lock), mine)
    except FileExistsError:
        _remove_stale(lock)
        try:
            exchange.write_once(str(lock), mine)
        except FileExistsError:
            raise _held(lock) from None
    try:
        yield
    finally:
        if _read(lock).get("mark") == mine["mark"]:
            lock.unlink(missing_ok=True)


def receipts(store: Path, now_ms: int) -> list[Receipt]:
    """List what was asked, newest first; garbage is passed over.

    Raises OSError where the folder is there and cannot be believed.
    """
    folder = Path(exchange.kept_folder(str(store)))
    if not os.path.lexists(exchange.asking_folder(str(store))):
        return []
    exchange.check_folders(str(store))
    names = [parts for path in folder.iterdir() if (parts := exchange.split_name(path.name))]
    found = [
        _receipt(folder, session_id, request, now_ms)
        for session_id, request, kind in names
        if kind == exchange.ASKED
    ]
    return sorted((each for each in found if each), key=lambda each: -each.requested_at)


def clean_up(store: Path) -> None:
    """Remove what is old: results, and what killed processes left."""
    _remove(Path(exchange.kept_folder(str(store))), KEPT_S)
    _remove(Path(exchange.asking_folder(str(store))), LEFT_S)


def _remove(folder: Path, most_s: float) -> None:
    for path in folder.iterdir():
        with suppress(OSError):
            is_old = time.time() - path.lstat().st_mtime > most_s
            if path.suffix == f".{exchange.ALIVE}":
                is_old = not _is_running(path.stem)
            if is_old and not path.is_dir():
                path.unlink()


def _receipt(folder: Path, session_id: str, request: str, now_ms: int) -> Receipt | None:
    asked = _read(folder / exchange.file_name(session_id, request, exchange.ASKED))
    requested_at = asked.get("requested_at")
    if not isinstance(requested_at, int):
        return None
    ended = _read(folder / exchange.file_name(session_id, request, exchange.RESULT))
    ended = ended or _read(folder / exchange.file_name(session_id, request, exchange.TOLD))
    state = ended.get("state")
    if state is None:
        waited_s = (now_ms - requested_at) / 1000
        state = "pending" if 0 <= waited_s < exchange.ORPHAN_S else "orphan"
    try:
        return msgspec.convert(
            {"session_id": session_id, "request": request, "requested_at": requested_at}
            | {"via": ended.get("via") or asked.get("via"), "state": state}
            | {key: ended.get(key) for key in _FACTS},
            Receipt,
        )
    except msgspec.ValidationError:
        return None


_FACTS: Final = ("why", "boundary_uuid", "pre_tokens", "post_tokens")


def _read(path: Path) -> dict[str, Any]:
    try:
        return exchange.read(str(path))
    except (OSError, ValueError):
        return {}


def _remove_stale(lock: Path) -> None:
    """Remove the lock of a process that has ended."""
    held = _read(lock)
    if held and _is_same_process(held):
        return
    aside = lock.with_name(f"{lock.name}.{secrets.token_hex(4)}")
    with suppress(FileNotFoundError):
        lock.rename(aside)
        if _read(aside).get("mark") != held.get("mark"):
            # Another process was faster, and this one is its own.
            with suppress(FileExistsError):
                os.link(aside, lock)
        aside.unlink()


def _held(lock: Path) -> NotCompactedError:
    holder = _read(lock).get("pid")
    return NotCompactedError(
        Why.LIVE, f"process {holder} is asking this session to compact already: wait for it"
    )


def _is_same_process(held: dict[str, Any]) -> bool:
    pid, start = held.get("pid"), held.get("start")
    if not isinstance(pid, int) or not isinstance(start, (int, float)):
        return False
    now = _start_of(pid)
    return now is not None and abs(now - start) < START_SLACK_S


def _is_running(pid: str) -> bool:
    return pid.isdecimal() and len(pid) < 11 and _start_of(int(pid)) is not None


def _start_of(pid: int) -> float | None:
    import psutil

    try:
        return psutil.Process(pid).create_time()
    except (psutil.Error, ValueError, OverflowError):
        return None
