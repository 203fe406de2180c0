"""What changed between two requests of a conversation, read again from the lines between them."""

from __future__ import annotations

import json
import re
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import takewhile, zip_longest
from pathlib import Path, PureWindowsPath
from typing import Any, Final

from ....core.measure.cache_ledger import Change, ChangeKind, Rewrite
from ....core.store.queries import cache_queries, context_queries
from ....core.store.queries.cache_queries import SentRequestRow
from ....core.store.transcript_records import RequestPartRecord
from ....core.transcript.client_messages import MEMORY_FILE_HEADING, iter_json_strings
from ....core.transcript.entry_decoder import iter_lines
from ....core.transcript.line_decoder import COMPACT_BOUNDARY
from ....core.transcript.sanitize import sanitize_path, sanitize_title
from .api_requests import JsonObject, reread_part, reread_request, reread_shape

MAX_BYTES_BETWEEN: Final = 32 * 1024 * 1024
"""Of the lines between two requests that are read: a request with its images has a few."""

MAX_NAMES: Final = 8  # of tools or servers that one change names


def read_changes(db: sqlite3.Connection, projects: Path, rewrite: Rewrite) -> list[Change]:
    """List what changed before a rewrite; raises OSError if the transcript cannot be read."""
    path = projects / rewrite.current.path
    lines = _LinesBetween(rewrite)
    for offset, _, data in takewhile(
        lambda line: line[0] <= rewrite.current.offset, iter_lines(path, rewrite.previous.offset)
    ):
        if offset - rewrite.previous.offset > MAX_BYTES_BETWEEN:
            break
        lines.add(offset, data)
    return [*lines.changes(), *_request_changes(db, path, rewrite)]


class _LinesBetween:
    """The lines from an answer's first one to the first one of the next answer."""

    def __init__(self, rewrite: Rewrite) -> None:
        self._rewrite: Final = rewrite
        self._uuids: Final[set[str]] = set()
        self._found: Final[list[Change]] = []
        self._is_prompt_seen = False
        self._is_compacted = False  # then everything is announced again in full
        self._settings: dict[str, str] = {}

    def changes(self) -> list[Change]:
        return [*dict.fromkeys(self._found)]

    def add(self, offset: int, data: bytes) -> None:
        if data.startswith(b'{"type":"api-request'):
            return
        try:
            line = json.loads(data)
        except (ValueError, RecursionError):
            return
        if not isinstance(line, dict) or (
            line.get("isSidechain") is True and (self._rewrite.current.agent_id is None)
        ):
            return
        kind = line.get("type")
        if kind == "system":
            self._add_system(line)
        elif kind == "attachment" and isinstance(line.get("attachment"), dict):
            named = count_names if self._is_compacted else join_names
            self._found.extend(_attachment_changes(line["attachment"], named))
        elif kind == "user":
            self._add_user(line)
        elif kind == "assistant":
            self._add_answer(offset, line)
        if isinstance(line.get("uuid"), str):
            self._uuids.add(line["uuid"])

    def _add_system(self, line: JsonObject) -> None:
        if line.get("subtype") == COMPACT_BOUNDARY:
            metadata = line.get("compactMetadata")
            trigger = metadata.get("trigger") if isinstance(metadata, dict) else None
            self._found.append(Change(ChangeKind.COMPACTED, sanitize_title(str(trigger or ""))))
            self._is_compacted = True
            self._is_prompt_seen = True  # what follows it has no parent before it
        elif line.get("subtype") == "microcompact_boundary":
            self._found.append(Change(ChangeKind.CLEARED))

    def _add_user(self, line: JsonObject) -> None:
        result = line.get("toolUseResult")
        if isinstance(result, dict) and isinstance(path := result.get("filePath"), str):
            is_written = "structuredPatch" in result or result.get("type") in {"create", "update"}
            if is_written and is_instructions_file(path):
                self._found.append(Change(ChangeKind.INSTRUCTIONS_EDITED, sanitize_path(path)))
        parent = line.get("parentUuid")
        if self._is_prompt_seen or not isinstance(parent, str) or not self._uuids:
            return
        # A prompt that continues an earlier line than the last answer's: the client went back.
        self._is_prompt_seen = True
        if parent not in self._uuids:
            self._found.append(Change(ChangeKind.REWOUND))

    def _add_answer(self, offset: int, line: JsonObject) -> None:
        settings = {
            name: sanitize_title(line[name])
            for name in ("effort",)
            if isinstance(line.get(name), str)
        }
        if offset == self._rewrite.current.offset:
            self._found.extend(_changed_settings(self._settings, settings))
        elif offset == self._rewrite.previous.offset:
            self._settings = settings


_INSTRUCTION_FILES: Final = re.compile(r"(?:CLAUDE(?:\.local)?|AGENTS)\.md$")


def is_instructions_file(path: str) -> bool:
    """Return whether the client puts a file into the first message of each session."""
    return bool(_INSTRUCTION_FILES.fullmatch(PureWindowsPath(path).name))


NameWriter = Callable[[Sequence[str]], str]


def _attachment_changes(attachment: JsonObject, write: NameWriter) -> Iterator[Change]:
    kind = attachment.get("type")
    for name, change in _ANNOUNCEMENTS.get(str(kind), {}).items():
        if names := _strings(attachment.get(name)):
            yield Change(change, write(names))
    if kind == "skill_listing":
        yield Change(ChangeKind.SKILLS_LISTED)
    elif kind == "instructions" and attachment.get("changed") is True:
        files = attachment.get("files")
        paths = [each.get("path") for each in files if isinstance(each, dict)] if files else []
        yield Change(ChangeKind.INSTRUCTIONS_EDITED, join_names(_strings(paths)))
    elif kind == "edited_text_file" and is_instructions_file(str(attachment.get("filename"))):
        yield Change(ChangeKind.INSTRUCTIONS_EDITED, sanitize_path(str(attachment["filename"])))
    elif attachment.get("hookName") == "SessionStart:resume":
        yield Change(ChangeKind.RESUMED)


_ANNOUNCEMENTS: Final[Mapping[str, Mapping[str, ChangeKind]]] = {
    "deferred_tools_delta": {
        "addedNames": ChangeKind.TOOLS_ANNOUNCED,
        "removedNames": ChangeKind.TOOLS_WITHDRAWN,
    },
    "mcp_instructions_delta": {"addedNames": ChangeKind.SERVERS_ANNOUNCED},
    "agent_listing_delta": {"addedTypes": ChangeKind.AGENTS_LISTED},
}
"""By attachment and its field with names."""


def _strings(values: Any) -> list[str]:  # noqa: ANN401 -- any JSON
    return [each for each in values if isinstance(each, str)] if isinstance(values, list) else []


def count_names(names: Sequence[str]) -> str:
    return f"all {len(names)}"


def join_names(names: Sequence[str]) -> str:
    """Join the first names, and count the others."""
    more = len(names) - MAX_NAMES
    listed = ", ".join(sanitize_title(name) for name in names[:MAX_NAMES])
    return listed + (f" and {more} more" if more > 0 else "")


def _changed_settings(before: Mapping[str, str], now: Mapping[str, str]) -> Iterator[Change]:
    for name in sorted(before.keys() & now.keys()):
        if before[name] != now[name]:
            yield Change(ChangeKind.SETTINGS, f"{name} {before[name]} → {now[name]}")


def _request_changes(db: sqlite3.Connection, path: Path, rewrite: Rewrite) -> Iterator[Change]:
    """Compare both requests as the client recorded them; nothing if it did not."""
    before = _find_request(db, rewrite.previous.file_id, rewrite.previous.request)
    now = _find_request(db, rewrite.current.file_id, rewrite.current.request)
    if now is None:
        return
    if now.base is None and (before is not None or not rewrite.previous.is_counted):
        # A client begins to count its requests anew.
        yield Change(ChangeKind.RESUMED)
    if before is None:
        return
    changes = [
        *_shape_changes(db, path, before, now),
        *_settings_changes(path, before, now),
        *_message_changes(db, path, before, now),
    ]
    yield from changes or [Change(ChangeKind.PROMPT_KEPT)]


def _find_request(db: sqlite3.Connection, file_id: int, key: int | None) -> SentRequestRow | None:
    return None if key is None else cache_queries.sent_request(db, file_id, key)


def _shape_changes(
    db: sqlite3.Connection, path: Path, before: SentRequestRow, now: SentRequestRow
) -> Iterator[Change]:
    if before.shape == now.shape:
        return
    places = context_queries.request_parts(db, now.file_id, [before.shape, now.shape])
    old, new = (reread_shape(path, places.get(each.shape or 0)) for each in (before, now))
    if old is None or new is None or old.system != new.system:
        excerpt = _first_difference(old.system, new.system) if old and new else ""
        yield Change(ChangeKind.SYSTEM, excerpt)
    if old is None or new is None:
        return
    tools, later = dict(old.tools), dict(new.tools)
    for kind, names in (
        (ChangeKind.TOOLS_ADDED, [name for name in later if name not in tools]),
        (ChangeKind.TOOLS_REMOVED, [name for name in tools if name not in later]),
        (
            ChangeKind.TOOLS_CHANGED,
            [name for name in later if name in tools and later[name] != tools[name]],
        ),
    ):
        if names:
            yield Change(kind, join_names(names))


EXCERPT_CHARS: Final = 60  # of a line of the system prompt that differs


def _first_difference(before: Iterable[str], now: Iterable[str]) -> str:
    """Return the first line that is new, or else the first that is gone."""
    old, new = ("\n".join(texts).splitlines() for texts in (before, now))
    for gone, added in zip_longest(old, new, fillvalue=""):
        if gone != added:
            shown = sanitize_title(added or gone)
            return shown if len(shown) <= EXCERPT_CHARS else f"{shown[:EXCERPT_CHARS]}…"
    return ""


_COMPARED_PARAMS: Final = {
    "betas": "betas",
    "max_tokens": "longest answer",
    "thinking": "thinking",
    "output_config": "effort",
    "speed": "speed",
}
"""Parameters of a request that its cache depends on, by what they set."""


def _settings_changes(path: Path, before: SentRequestRow, now: SentRequestRow) -> Iterator[Change]:
    old, new = (reread_request(path, each.offset, each.length) for each in (before, now))
    if old is None or new is None:
        return
    for name, label in _COMPARED_PARAMS.items():
        if old.get(name) != new.get(name):
            yield Change(
                ChangeKind.SETTINGS, f"{label} {_difference(old.get(name), new.get(name))}"
            )


def _difference(before: Any, now: Any) -> str:  # noqa: ANN401 -- any JSON
    if isinstance(before, list) and isinstance(now, list):
        old, new = _strings(before), _strings(now)
        signed = [f"+{each}" for each in new if each not in old]
        return join_names([*signed, *(f"-{each}" for each in old if each not in new)])
    return f"{_setting_text(before)} → {_setting_text(now)}"


def _setting_text(value: Any) -> str:  # noqa: ANN401 -- any JSON
    if isinstance(value, dict):
        return sanitize_title(" ".join(map(str, value.values())))
    return "none" if value is None else sanitize_title(str(value))


def _message_changes(
    db: sqlite3.Connection, path: Path, before: SentRequestRow, now: SentRequestRow
) -> Iterator[Change]:
    """Compare the messages; what a client adds to the last one for a request is sent once."""
    if now.base == before.request and now.keep >= before.messages - 1:
        return
    old, new = (
        context_queries.sent_messages(db, each.file_id, each.request) for each in (before, now)
    )
    if not old or not new:
        return
    place = _common_length(old, new)
    if place >= len(old) - 1 > 0:
        return
    if place == 0:
        texts = [_first_text(db, path, before, old[0]), _first_text(db, path, now, new[0])]
        if files := changed_instructions(*texts):
            yield Change(ChangeKind.INSTRUCTIONS, join_names(files))
            return
        if len(old) == 1:
            return
    yield Change(ChangeKind.MESSAGES, f"from message {place + 1} of {len(old)}")


def _common_length(old: list[int], new: list[int]) -> int:
    return next(
        (place for place, (a, b) in enumerate(zip(old, new, strict=False)) if a != b),
        min(len(old), len(new)),
    )


def _first_text(db: sqlite3.Connection, path: Path, request: SentRequestRow, key: int) -> str:
    places: dict[int, RequestPartRecord] = context_queries.request_parts(db, request.file_id, [key])
    place = places.get(key)
    part = reread_part(path, place.offset, place.length, key) if place else None
    message = part.get("message") if part else None
    return "\n".join(iter_json_strings(message)) if isinstance(message, dict) else ""


_MEMORY_FILE: Final = re.compile(rf"^{MEMORY_FILE_HEADING}(\S[^\n]*?)(?: \([^\n]*\))?:?$", re.M)


def changed_instructions(before: str, now: str) -> list[str]:
    """Name the files of instructions whose text differs between two first messages."""
    old, new = _memory_files(before), _memory_files(now)
    names = dict.fromkeys((*old, *new))
    return [sanitize_path(name) for name in names if old.get(name) != new.get(name)]


def _memory_files(text: str) -> dict[str, str]:
    _, *parts = _MEMORY_FILE.split(text)
    return dict(zip(parts[::2], parts[1::2], strict=True))
