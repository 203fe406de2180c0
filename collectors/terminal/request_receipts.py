"""Requests to compact: one at a time for a session, each with its receipt and its outcome."""

import os
import secrets
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any, Final, TypeVar

import msgspec

from ...core.actions import session_access
from ...core.files.safe_open import open_regular
from ...core.transcript import entry_decoder, lenient_json, line_decoder
from ..plugin_files import compact_requests
from ..plugin_files.plugin_log import MAX_TOKENS

Polled = TypeVar("Polled")

POLL_INTERVAL_S: Final = 0.1  # less than a person notices
COMPACT_TIMEOUT_S: Final = 300.0  # a full large window takes three minutes; then it is an orphan


def wait_for(poll: Callable[[], Polled | None], timeout_s: float) -> Polled | None:
    until = time.monotonic() + timeout_s
    while (result := poll()) is None and time.monotonic() < until:
        time.sleep(POLL_INTERVAL_S)
    return result


MAX_READ_BYTES: Final = 32 * 1024 * 1024
"""The most that is read at once: a compaction writes 150 kB; a longer line is not a boundary."""


class NewBoundary(msgspec.Struct, frozen=True):
    """A compaction that the transcript records; tokens as the client counted them."""

    uuid: str
    pre_tokens: int | None
    post_tokens: int | None
    start: int  # byte offset of its line, and of the line after it
    end: int


class BoundaryWatch:
    """Reads what a transcript gains from now on; raises OSError if it cannot be read."""

    def __init__(self, path: Path) -> None:
        self._path: Final = path
        with open_regular(path) as file:
            status = os.fstat(file.fileno())
        self._file: Final = (status.st_dev, status.st_ino)
        self._offset = status.st_size

    def poll(self) -> NewBoundary | None:
        """Return a new boundary, if any; raises NotCompactedError if the file was replaced."""
        with open_regular(self._path) as file:
            status = os.fstat(file.fileno())
            if (status.st_dev, status.st_ino) != self._file or status.st_size < self._offset:
                why = f"{self._path} was replaced meanwhile: check the session"
                raise session_access.NotCompactedError(session_access.CompactFailure.FAILED, why)
            file.seek(self._offset)
            block = file.read(MAX_READ_BYTES)
        lines, start = block[: block.rfind(b"\n") + 1], self._offset
        self._offset += len(lines) if lines or len(block) < MAX_READ_BYTES else len(block)
        for line in lines.splitlines(keepends=True):
            start += len(line)
            if found := _parse_boundary(line, start):
                return found
        return None


def _parse_boundary(line: bytes, end: int) -> NewBoundary | None:
    if line_decoder.COMPACT_BOUNDARY.encode() not in line:
        return None
    entry = _decode_line(line)
    # A message may quote a boundary's line: only a line of its own type is one.
    if (
        entry is None
        or (entry.type, entry.subtype) != ("system", line_decoder.COMPACT_BOUNDARY)
        or not entry.uuid
    ):
        return None
    sizes = entry.compact_metadata or line_decoder.CompactMetadata()
    start = end - len(line)
    return NewBoundary(entry.uuid, sizes.pre_tokens, sizes.post_tokens, start, end)


def _decode_line(line: bytes) -> line_decoder.TranscriptLine | None:
    try:
        return line_decoder.decode_line(line)
    except (lenient_json.NotJsonError, lenient_json.UnexpectedShapeError):
        return None


SUMMARY_GRACE_S: Final = 1.0  # the client writes a summary with its boundary


def has_empty_summary(transcript: Path, boundary: NewBoundary) -> bool:
    """Whether a boundary's summary is there and says nothing (R002-08).

    Raises OSError if the transcript cannot be read.
    """
    text = wait_for(lambda: _read_summary(transcript, boundary.end), SUMMARY_GRACE_S)
    return text is not None and not text.strip()


def _read_summary(transcript: Path, start: int) -> str | None:
    for offset, _, data in entry_decoder.iter_lines(transcript, start):
        line = _decode_line(data)
        if line is not None and line.is_compact_summary:
            entry = entry_decoder.decode_entry(offset, data, {})
            return "".join(part.text for part in entry.parts) if entry else None
    return None


RETENTION_S: Final = 14 * 24 * 3600.0
"""Results are kept this long, as the logs are; a session that was not prompted since is over."""

LEFTOVER_MAX_AGE_S: Final = 24 * 3600.0  # of what a killed process left in the folder


_TokenCount = Annotated[int, msgspec.Meta(ge=0, le=MAX_TOKENS)]


class ClientCompactReceipt(msgspec.Struct, frozen=True):
    """A request and how it ended; times in ms since 1970, sizes in tokens."""

    session_id: str
    request: str
    requested_at: int
    via: str
    state: str  # done, refused or failed; pending while there is no result, orphan when that is old
    why: str | None = None
    boundary_uuid: str | None = None
    pre_tokens: _TokenCount | None = None
    post_tokens: _TokenCount | None = None  # of the messages alone, by the client
    estimated_next_tokens: _TokenCount | None = None  # of the whole next request
    command: tuple[str, ...] = ()  # that was run; empty if a client that was open was asked
    folder: str | None = None  # where that was run
    automatic: str | None = None  # the reason of an automatic request; None if a person asked


class CompactRequest:
    """One request, from the file that announces it to its result."""

    def __init__(
        self, store: Path, session_id: str, text: str, automatic: str | None = None
    ) -> None:
        self.store: Final = str(store)
        self.session_id: Final = session_id
        self.text: Final = text
        self.automatic: Final = automatic
        self.request_id: Final = secrets.token_hex(8)
        self.requested_at: Final = compact_requests.now_ms()
        self.via = session_access.Via.AUTO
        self.command: tuple[str, ...] = ()  # what is run for it
        self.folder: str | None = None  # and where
        self._began = False

    def begin(self, via: session_access.Via) -> None:
        """Record what is about to be done: until there is a result it is pending."""
        self.via = via
        self._began = True
        asked: dict[str, Any] = {"requested_at": self.requested_at, "via": via, "pid": os.getpid()}
        if self.automatic:
            asked["automatic"] = self.automatic
        self.write(compact_requests.ASKED, asked | self._run_facts())

    def finish(self, outcome: session_access.ClientCompactResult) -> None:
        self._write_result("done", **{name: getattr(outcome, name) for name in _DONE_FIELDS})

    def fail(self, error: session_access.NotCompactedError) -> None:
        """Record that the client did not compact; what was never begun leaves nothing."""
        if self._began:
            state = "failed" if error.failure is session_access.CompactFailure.FAILED else "refused"
            self._write_result(state, why=str(error)[: compact_requests.MAX_INSTRUCTION_CHARS])

    def read_result(self) -> dict[str, Any] | None:
        """Read the module's report of how it ended; None while there is none that can be read."""
        return _read_file(self.path(compact_requests.RESULT)) or None

    def path(self, kind: str) -> str:
        return compact_requests.request_path(self.store, self.session_id, self.request_id, kind)

    def write(self, kind: str, fields: dict[str, Any]) -> None:
        ids = {"session_id": self.session_id, "request": self.request_id}
        compact_requests.write_request_file(self.path(kind), ids | fields)

    def _write_result(self, state: str, **outcome: object) -> None:
        empty = dict.fromkeys(_RESULT_FIELDS)
        result = {"at": compact_requests.now_ms(), "via": self.via} | empty | self._run_facts()
        self.write(compact_requests.RESULT, result | {"state": state} | outcome)

    def _run_facts(self) -> dict[str, Any]:
        return {"command": self.command, "folder": self.folder} if self.command else {}


_DONE_FIELDS: Final = ("boundary_uuid", "pre_tokens", "post_tokens", "estimated_next_tokens")
_RESULT_FIELDS: Final = ("why", *_DONE_FIELDS)


def read_client_receipts(store: Path, now_ms: int) -> list[ClientCompactReceipt]:
    """List the requests, newest first; garbage is skipped.

    Raises OSError if the folder exists and is not safe.
    """
    if not os.path.lexists(compact_requests.request_folder(str(store))):
        return []
    compact_requests.check_request_folders(str(store))
    requests = compact_requests.list_requests(str(store), compact_requests.ASKED)
    receipts = [_read_receipt(str(store), *ids, now_ms) for ids in requests]
    return sorted(filter(None, receipts), key=lambda receipt: -receipt.requested_at)


def remove_old_files(store: Path) -> None:
    """Remove old results, and what killed processes left."""
    _remove_older(compact_requests.request_history_folder(str(store)), RETENTION_S)
    _remove_older(compact_requests.request_folder(str(store)), LEFTOVER_MAX_AGE_S)


def _remove_older(folder: str, max_age_s: float) -> None:
    for path in Path(folder).iterdir():
        with suppress(OSError):
            is_old = time.time() - path.lstat().st_mtime > max_age_s
            # The module removes those of clients that have ended.
            if is_old and path.suffix != f".{compact_requests.ALIVE}" and not path.is_dir():
                path.unlink()


def _read_receipt(
    store: str, session_id: str, request: str, now_ms: int
) -> ClientCompactReceipt | None:
    asked, result, told = (
        _read_file(compact_requests.request_path(store, session_id, request, kind))
        for kind in (compact_requests.ASKED, compact_requests.RESULT, compact_requests.TOLD)
    )
    ended = result or told
    requested_at = asked.get("requested_at")
    if not isinstance(requested_at, int):
        return None
    state = ended.get("state")
    if state is None:
        waited_s = (now_ms - requested_at) / 1000
        state = "pending" if 0 <= waited_s < compact_requests.ORPHAN_AFTER_S else "orphan"
    both = {name: ended.get(name) or asked.get(name) for name in ("via", "command", "folder")}
    fields = {
        "session_id": session_id,
        "request": request,
        "requested_at": requested_at,
        "state": state,
        "automatic": asked.get("automatic"),
        "via": both["via"],
        **{name: ended.get(name) for name in _RESULT_FIELDS},
        **{name: value for name, value in both.items() if value},
    }
    try:
        return msgspec.convert(fields, ClientCompactReceipt)
    except msgspec.ValidationError:
        return None


def _read_file(path: str) -> dict[str, Any]:
    try:
        return compact_requests.read_request_file(path)
    except (OSError, ValueError):
        return {}
