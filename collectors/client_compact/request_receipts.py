"""Requests to compact: one at a time for a session, each with its receipt and its outcome."""

from __future__ import annotations

import os
import secrets
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, TypeVar

import msgspec

from ...core.actions.session_access import (
    ClientCompactResult,
    CompactFailure,
    NotCompactedError,
    Via,
)
from ...core.files.safe_open import open_regular
from ...core.transcript.line_decoder import (
    COMPACT_BOUNDARY,
    CompactMetadata,
    NotJsonError,
    UnexpectedShapeError,
    decode_line,
)
from ..plugin import compact_requests

Polled = TypeVar("Polled")

POLL_INTERVAL_S: Final = 0.1  # between two looks: less than a person notices
COMPACT_TIMEOUT_S: Final = 300.0
"""A summary of a full large window takes three minutes; after this the request is an orphan."""


def wait_for(poll: Callable[[], Polled | None], timeout_s: float) -> Polled | None:
    """Look again and again until there is something, or `timeout_s` seconds have passed."""
    until = time.monotonic() + timeout_s
    while True:
        found = poll()
        if found is not None or time.monotonic() >= until:
            return found
        time.sleep(POLL_INTERVAL_S)


MAX_READ_BYTES: Final = 32 * 1024 * 1024
"""At one look: a compaction writes 150 kB, and a line above this is no boundary."""


class NewBoundary(msgspec.Struct, frozen=True):
    """A compaction that the transcript records; tokens as the client counted them."""

    uuid: str
    pre_tokens: int | None
    post_tokens: int | None


class BoundaryWatch:
    """Looks at what a transcript gains from now on; raises OSError where it cannot be read."""

    def __init__(self, path: Path) -> None:
        self._path: Final = path
        with open_regular(path) as file:
            status = os.fstat(file.fileno())
        self._file: Final = (status.st_dev, status.st_ino)
        self._offset = status.st_size

    def poll(self) -> NewBoundary | None:
        """Read what was added; raises NotCompactedError where it is another file by now."""
        with open_regular(self._path) as file:
            status = os.fstat(file.fileno())
            if (status.st_dev, status.st_ino) != self._file or status.st_size < self._offset:
                raise NotCompactedError(
                    CompactFailure.FAILED,
                    f"{self._path} was replaced meanwhile: look at the session",
                )
            file.seek(self._offset)
            block = file.read(MAX_READ_BYTES)
        whole = block[: block.rfind(b"\n") + 1]
        self._offset += len(whole) if whole or len(block) < MAX_READ_BYTES else len(block)
        for line in whole.splitlines():
            found = _parse_boundary(line)
            if found:
                return found
        return None


def _parse_boundary(line: bytes) -> NewBoundary | None:
    if COMPACT_BOUNDARY.encode() not in line:
        return None
    try:
        said = decode_line(line)
    except (NotJsonError, UnexpectedShapeError):
        return None
    # A message may quote a boundary's line: only a line of its own type is one.
    if (said.type, said.subtype) != ("system", COMPACT_BOUNDARY) or not said.uuid:
        return None
    sizes = said.compact_metadata or CompactMetadata()
    return NewBoundary(said.uuid, sizes.pre_tokens, sizes.post_tokens)


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
    state: str  # done, refused or failed; pending while there is no result, orphan when that is old
    why: str | None = None
    boundary_uuid: str | None = None
    pre_tokens: int | None = None
    post_tokens: int | None = None
    command: tuple[str, ...] = ()
    """What was run for it; empty where a client that was open was asked."""
    folder: str | None = None  # where that was run
    automatic: str | None = None
    """Why it was asked with nobody at the keyboard; None where a person asked."""


class CompactRequest:
    """One request, from its sentinel to its result."""

    def __init__(
        self, store: Path, session_id: str, text: str, automatic: str | None = None
    ) -> None:
        self.store: Final = str(store)
        self.session_id: Final = session_id
        self.text: Final = text
        self.automatic: Final = automatic
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
        if self.automatic:
            asked["automatic"] = self.automatic
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
            | {"automatic": asked.get("automatic")}
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
