"""What changed between two requests of a conversation, read again from the lines between them."""

from __future__ import annotations

import json
import re
import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import takewhile
from pathlib import Path, PureWindowsPath
from typing import Any, Final

from ....core.measure.prompt_cache.cache_ledger import Change, ChangeKind
from ....core.measure.prompt_cache.rewrites import Rewrite
from ....core.transcript.entry_decoder import iter_lines
from ....core.transcript.line_decoder import COMPACT_BOUNDARY
from ....core.transcript.sanitize import sanitize_path, sanitize_title
from ....core.transcript.withdrawn_content import parse_withdrawal
from .api_requests import JsonObject
from .request_comparison import compare_requests, join_names

MAX_BYTES_BETWEEN: Final = 32 * 1024 * 1024
"""Of the lines between two requests that are read: a request with its images has a few."""


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
    compared = compare_requests(db, projects, rewrite)
    if lines.is_compacted:
        compared = [each for each in compared if each.kind not in _AFTER_COMPACTION]
    return [*lines.changes(), *compared]


_AFTER_COMPACTION: Final = {ChangeKind.RESUMED, ChangeKind.MESSAGES, ChangeKind.INSTRUCTIONS}
"""How any first request after a compaction differs: it refers to none before it."""


class _LinesBetween:
    """The lines from an answer's first one to the first one of the next answer."""

    def __init__(self, rewrite: Rewrite) -> None:
        self._rewrite: Final = rewrite
        self._uuids: Final[set[str]] = set()
        self._found: Final[list[Change]] = []
        self._is_prompt_seen = False
        self.is_compacted = False  # then everything is announced again in full
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
            named = count_names if self.is_compacted else join_names
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
            self.is_compacted = True
            self._is_prompt_seen = True  # what follows it has no parent before it
        elif line.get("subtype") == "microcompact_boundary":
            self._found.append(Change(ChangeKind.CLEARED))

    def _add_user(self, line: JsonObject) -> None:
        result = line.get("toolUseResult")
        if isinstance(result, dict) and isinstance(path := result.get("filePath"), str):
            is_written = "structuredPatch" in result or result.get("type") in {"create", "update"}
            if is_written and is_instructions_file(path):
                self._found.append(Change(ChangeKind.INSTRUCTIONS_EDITED, sanitize_path(path)))
        message = line.get("message")
        content = message.get("content") if isinstance(message, dict) else None
        blocks = _blocks(content)
        if names := [*_loaded_tools(blocks)]:
            self._found.append(Change(ChangeKind.TOOLS_LOADED, join_names(names)))
        is_result = any(each.get("type") == "tool_result" for each in blocks)
        if not is_result and line.get("isMeta") is not True:
            self._found.append(Change(ChangeKind.PROMPTED))
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


def _blocks(content: Any) -> list[JsonObject]:  # noqa: ANN401 -- any JSON
    return [each for each in content if isinstance(each, dict)] if isinstance(content, list) else []


def _loaded_tools(blocks: Sequence[JsonObject]) -> Iterator[str]:
    """Name the tools that a search found; clients send them from the next request on."""
    for result in blocks:
        for part in _blocks(result.get("content")):
            if part.get("type") == "tool_reference" and isinstance(part.get("tool_name"), str):
                yield part["tool_name"]


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
    elif parse_withdrawal(str(kind), attachment):
        yield Change(ChangeKind.CLEARED)


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


def _changed_settings(before: Mapping[str, str], now: Mapping[str, str]) -> Iterator[Change]:
    for name in sorted(before.keys() & now.keys()):
        if before[name] != now[name]:
            yield Change(ChangeKind.SETTINGS, f"{name} {before[name]} → {now[name]}")
