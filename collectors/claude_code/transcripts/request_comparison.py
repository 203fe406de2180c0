"""What differs between two requests of a conversation, as the client recorded them."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from itertools import zip_longest
from pathlib import Path
from typing import Any, Final

from ....core.measure.prompt_cache.cache_ledger import Change, ChangeKind
from ....core.measure.prompt_cache.rewrites import Rewrite
from ....core.model.answer_rows import SentRequestRow
from ....core.model.conversation import PromptSnapshot
from ....core.store.queries import cache_queries, context_queries
from ....core.transcript.client_messages import MEMORY_FILE_HEADING, iter_json_strings
from ....core.transcript.sanitize import sanitize_path, sanitize_title
from .api_requests import JsonObject, reread_part, reread_request, reread_shape

MAX_NAMES: Final = 8  # of tools or servers that one change names


def join_names(names: Sequence[str]) -> str:
    """Join the first names, and count the others."""
    more = len(names) - MAX_NAMES
    listed = ", ".join(sanitize_title(name) for name in names[:MAX_NAMES])
    return listed + (f" and {more} more" if more > 0 else "")


def compare_requests(db: sqlite3.Connection, projects: Path, rewrite: Rewrite) -> list[Change]:
    """List what differs; nothing if the client did not record both. Raises OSError."""
    before = _find_request(db, rewrite.previous.file_id, rewrite.previous.request)
    now = _find_request(db, rewrite.current.file_id, rewrite.current.request)
    if now is None:
        return []
    # A client begins to count its requests anew.
    is_resumed = now.base is None and (before is not None or bool(rewrite.previous.is_shared))
    resumed = [Change(ChangeKind.RESUMED)] if is_resumed else []
    if before is None:
        return resumed
    found = [*_Comparison(db, projects, before, now).changes()]
    return [*resumed, *(found or [Change(ChangeKind.PROMPT_KEPT)])]


def _find_request(db: sqlite3.Connection, file_id: int, key: int | None) -> SentRequestRow | None:
    return None if key is None else cache_queries.sent_request(db, file_id, key)


_COMPARED_PARAMS: Final = {
    "betas": "betas",
    "max_tokens": "longest answer",
    "thinking": "thinking",
    "output_config": "effort",
    "speed": "speed",
}
"""Parameters of a request that its cache may depend on, by what they set."""


class _Comparison:
    """Two requests, perhaps in two files: a fork's history stays in its parent's."""

    def __init__(
        self, db: sqlite3.Connection, projects: Path, before: SentRequestRow, now: SentRequestRow
    ) -> None:
        self._db: Final = db
        self._projects: Final = projects
        self._before: Final = before
        self._now: Final = now

    def changes(self) -> Iterator[Change]:
        if self._before.shape != self._now.shape:
            yield from _shape_changes(self._shape(self._before), self._shape(self._now))
        yield from _settings_changes(self._params(self._before), self._params(self._now))
        yield from self._message_changes()

    def _path(self, request: SentRequestRow) -> Path:
        return self._projects / request.path

    def _shape(self, request: SentRequestRow) -> PromptSnapshot | None:
        places = context_queries.request_parts(self._db, request.file_id, [request.shape])
        return reread_shape(self._path(request), next(iter(places.values()), None))

    def _params(self, request: SentRequestRow) -> JsonObject:
        return reread_request(self._path(request), request.offset, request.length) or {}

    def _message_changes(self) -> Iterator[Change]:
        before, now = self._before, self._now
        # What a client adds to the last message for a request is sent once.
        if now.base == before.request and now.keep >= before.messages - 1:
            return
        old, new = (
            context_queries.sent_messages(self._db, each.file_id, each.request) or []
            for each in (before, now)
        )
        place = _common_length(old, new)
        if not new or place >= max(1, len(old) - 1):
            return
        if place == 0 and old:
            texts = [self._text(before, old[0]), self._text(now, new[0])]
            if files := changed_instructions(*texts):
                yield Change(ChangeKind.INSTRUCTIONS, join_names(files))
                return
        if len(old) > 1:
            yield Change(ChangeKind.MESSAGES, f"from message {place + 1} of {len(old)}")

    def _text(self, request: SentRequestRow, key: int) -> str:
        place = context_queries.request_parts(self._db, request.file_id, [key]).get(key)
        path = self._path(request)
        part = reread_part(path, place.offset, place.length, key) if place else None
        message = part.get("message") if part else None
        return "\n".join(iter_json_strings(message)) if isinstance(message, dict) else ""


def _shape_changes(old: PromptSnapshot | None, new: PromptSnapshot | None) -> Iterator[Change]:
    if old is None or new is None:
        # Which of the two differs can no longer be read.
        yield Change(ChangeKind.SYSTEM)
        return
    if old.system != new.system:
        yield Change(ChangeKind.SYSTEM, _first_difference(old.system, new.system))
    tools, later = dict(old.tools), dict(new.tools)
    named = {
        ChangeKind.TOOLS_ADDED: [name for name in later if name not in tools],
        ChangeKind.TOOLS_REMOVED: [name for name in tools if name not in later],
        ChangeKind.TOOLS_CHANGED: [
            name for name in later if later[name] != tools.get(name, later[name])
        ],
    }
    yield from (Change(kind, join_names(names)) for kind, names in named.items() if names)


EXCERPT_CHARS: Final = 60  # of a line of the system prompt that differs


def _first_difference(before: Iterable[str], now: Iterable[str]) -> str:
    """Return the first line that is new, or else the first that is gone."""
    old, new = ("\n".join(texts).splitlines() for texts in (before, now))
    for gone, added in zip_longest(old, new, fillvalue=""):
        if gone != added:
            shown = sanitize_title(added or gone)
            return shown if len(shown) <= EXCERPT_CHARS else f"{shown[:EXCERPT_CHARS]}…"
    return ""


def _settings_changes(old: JsonObject, new: JsonObject) -> Iterator[Change]:
    for name, label in _COMPARED_PARAMS.items():
        if old.get(name) != new.get(name):
            difference = _difference(old.get(name), new.get(name))
            yield Change(ChangeKind.SETTINGS, f"{label} {difference}")


def _difference(before: Any, now: Any) -> str:  # noqa: ANN401 -- any JSON
    if isinstance(before, list) and isinstance(now, list):
        old, new = ([str(each) for each in some] for some in (before, now))
        signed = [f"+{each}" for each in new if each not in old]
        return join_names([*signed, *(f"-{each}" for each in old if each not in new)])
    return f"{_setting_text(before)} → {_setting_text(now)}"


def _setting_text(value: Any) -> str:  # noqa: ANN401 -- any JSON
    if isinstance(value, dict):
        return sanitize_title(" ".join(map(str, value.values())))
    return "none" if value is None else sanitize_title(str(value))


def _common_length(old: list[int], new: list[int]) -> int:
    return next(
        (place for place, (a, b) in enumerate(zip(old, new, strict=False)) if a != b),
        min(len(old), len(new)),
    )


_MEMORY_FILE: Final = re.compile(
    rf"^{MEMORY_FILE_HEADING}(\S[^\n]*?)(?: \([^\n]*\))?:?$", re.MULTILINE
)


def changed_instructions(before: str, now: str) -> list[str]:
    """Name the files of instructions whose text differs between two first messages."""
    old, new = _memory_files(before), _memory_files(now)
    names = dict.fromkeys((*old, *new))
    return [sanitize_path(name) for name in names if old.get(name) != new.get(name)]


def _memory_files(text: str) -> dict[str, str]:
    _, *parts = _MEMORY_FILE.split(text)
    return dict(zip(parts[::2], parts[1::2], strict=True))
