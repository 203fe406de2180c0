"""Requests that were made, and how each ended: one at a time for a session, none forgotten."""

from __future__ import annotations

import os
import secrets
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec

from ..plugin import exchange
from .outcome import NotCompactedError, Via, Why

if TYPE_CHECKING:
    from .outcome import Outcome

KEPT_S: Final = 14 * 24 * 3600.0
"""Results stay this long, as the logs do; a session that was not prompted since is over."""

LEFT_S: Final = 24 * 3600.0
"""After this what a killed process left in the folder is removed."""


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
    command: tuple[str, ...] = ()
    """What was run for it; empty where a client that was open was asked."""
    folder: str | None = None
    """Where that was run."""


class Asking:
    """One request, from its sentinel to its result."""

    def __init__(self, store: Path, session_id: str, text: str) -> None:
        self.store: Final = str(store)
        self.session_id: Final = session_id
        self.text: Final = text
        self.request_id: Final = secrets.token_hex(8)
        self.requested_at: Final = exchange.now_ms()
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
        exchange.write(
            str(self.file_path(exchange.ASKED)), self.with_ids(asked | self._run_facts())
        )

    def finish(self, outcome: Outcome) -> None:
        """Keep that the client compacted."""
        sizes = {"pre_tokens": outcome.pre_tokens, "post_tokens": outcome.post_tokens}
        self._write_result({"state": "done", "boundary_uuid": outcome.boundary_uuid} | sizes)

    def fail(self, error: NotCompactedError) -> None:
        """Keep that it did not; what was never begun leaves nothing."""
        if self._began:
            state = "failed" if error.failure is Why.FAILED else "refused"
            self._write_result({"state": state, "why": str(error)[: exchange.TEXT_CHARS]})

    def read_result(self) -> dict[str, Any] | None:
        """Read how the module says that it ended; None while it says nothing that can be read."""
        try:
            return exchange.read(str(self.file_path(exchange.RESULT)))
        except (OSError, ValueError):
            return None

    def file_path(self, kind: str) -> Path:
        """Name a file of this request."""
        kept = kind in {exchange.ASKED, exchange.RESULT}
        folder = exchange.kept_folder if kept else exchange.asking_folder
        return Path(folder(self.store), exchange.file_name(self.session_id, self.request_id, kind))

    def with_ids(self, more: dict[str, Any]) -> dict[str, Any]:
        """Say whose request this is, and more."""
        return {"session_id": self.session_id, "request": self.request_id} | more

    def _write_result(self, how: dict[str, Any]) -> None:
        ended = {"at": exchange.now_ms(), "via": self.via, "why": None, "boundary_uuid": None}
        sizes = {"pre_tokens": None, "post_tokens": None}
        exchange.write(
            str(self.file_path(exchange.RESULT)),
            self.with_ids(ended | sizes | self._run_facts() | how),
        )

    def _run_facts(self) -> dict[str, Any]:
        return {"command": self.command, "folder": self.folder} if self.command else {}


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


def _remove(folder: Path, max_age_s: float) -> None:
    for path in folder.iterdir():
        with suppress(OSError):
            is_old = time.time() - path.lstat().st_mtime > max_age_s
            # The module removes those of clients that have ended.
            if is_old and path.suffix != f".{exchange.ALIVE}" and not path.is_dir():
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
            | {key: ended.get(key) for key in _FACTS}
            | {key: each for key in _RAN if (each := ended.get(key) or asked.get(key))},
            Receipt,
        )
    except msgspec.ValidationError:
        return None


_FACTS: Final = ("why", "boundary_uuid", "pre_tokens", "post_tokens")
_RAN: Final = ("command", "folder")


def _read(path: Path) -> dict[str, Any]:
    try:
        return exchange.read(str(path))
    except (OSError, ValueError):
        return {}
