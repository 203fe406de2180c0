"""What the client puts back into the context after a compaction, and has not recorded.

Older ones never record it. Newer ones write each of it as an attachment behind the summary (seen
from 2.1.205 on; 2.1.45 wrote none). What they choose is the same: client 2.1.329.
"""

import json
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from itertools import takewhile
from typing import Any, Final, NamedTuple

from msgspec.structs import replace

from ..model.conversation import (
    Entry,
    MessagePart,
    PartKind,
    Role,
    decode_tool_input,
    measured_answers,
)
from .client_messages import FILE_REFERENCE_TEXT
from .line_types import EDIT_TOOLS, PLAN_TOOL
from .visible_messages import reannounced_attachments, retained_uuids, visible_entries

CountTokens = Callable[[MessagePart], int]

MAX_FILES: Final = 5  # read or written last, without those whose Read was kept
MAX_FILE_TOKENS: Final = 5_000  # of a larger one, by the API's count, only its name is put back
SURELY_SMALL: Final = 0.8  # of that limit by our estimate, which may be off by a fifth or more;
SURELY_LARGE: Final = 1.4  # between the two the next answer tells whether the file is there
MAX_SKILL_TOKENS: Final = 25_000  # of all skills together, the newest first

_FILE_TOOLS: Final = EDIT_TOOLS | {"Read", "Write"}
_LINE_NUMBER: Final = re.compile(r"^ *\d+[→\t]", re.MULTILINE)
_READ_AGAIN: Final = (
    "<system-reminder>\nCalled the Read tool with the following input: {}\n</system-reminder>"
    "<system-reminder>\nResult of calling the Read tool: {}\n</system-reminder>"
)
"""How clients up to 2.1.4x put a file back, its text as JSON; newer ones send the bare text."""

_PLAN_PROMPT: Final = "Implement the following plan:"  # begins a session with an approved plan
_SKILL_START: Final = "Base directory for this skill: "


def with_restored(
    entries: Sequence[Entry],
    sent: Sequence[Entry],
    count_tokens: CountTokens,
    read_entries: Callable[[], Iterable[Entry]] | None = None,
) -> list[Entry]:
    """Add to what is `sent` what the client put back behind the last summary unrecorded.

    Added entries have no `uuid`; their lines are those where the text was read. A text that was
    never read whole is as far as it is known. Of files near the limit those count for which the
    next answer's context has room. `read_entries` reads the entries again if the texts of
    `entries` are cut.
    """
    place = next((n for n in range(len(entries) - 1, -1, -1) if entries[n].boundary), None)
    if place is None:
        return [*sent]
    restored: list[Entry] = []
    if not _is_recorded(entries, place):
        found = _find_content(entries, place, read_entries or (lambda: entries))
        restored = _restore(found, _room(entries, sent, count_tokens), count_tokens)
    if next(measured_answers(entries, sent), None) is None:
        # It announces them with the next request.
        announced = reannounced_attachments(visible_entries(entries[:place]), sent)
        restored += [replace(each, uuid=None) for each in announced]
    summary = (n for n, each in enumerate(sent, 1) if each.offset > entries[place].offset)
    start = next(summary, 0)
    return [*sent[:start], *restored, *sent[start:]]


def _is_recorded(entries: Sequence[Entry], place: int) -> bool:
    boundary = entries[place].boundary
    if boundary and boundary.planned_tokens is not None:
        return True  # ctxtop wrote it: the client puts nothing back when it resumes
    since = takewhile(lambda each: each.role is not Role.ASSISTANT, entries[place + 1 :])
    return any(each.type == "attachment" for each in since)


def _attached(source: Entry, kind: str, text: str, path: str | None = None) -> Entry:
    return Entry(
        source.offset,
        source.length,
        source.line,
        "attachment",
        role=Role.USER,
        subtype=kind,
        parts=(MessagePart(PartKind.ATTACHMENT, text, kind, path=path),),
    )


def _sum_tokens(entries: Iterable[Entry], count_tokens: CountTokens) -> int:
    return sum(count_tokens(part) for entry in entries for part in entry.parts)


def _room(entries: Sequence[Entry], sent: Sequence[Entry], count_tokens: CountTokens) -> int | None:
    """Return the tokens of the first answer after the compaction that nothing sent explains.

    What the session's first answer had beyond its messages is the system prompt and the tools.
    """
    own = [each for each in entries if not each.sidechain] or entries
    first = next((each for each in own if each.context_tokens), None)
    answer = next(reversed([*measured_answers(entries, sent)]), None)
    if first is None or answer is None or first is answer:
        return None
    begun = visible_entries([each for each in own if each.offset < first.offset])
    overhead = (first.context_tokens or 0) - _sum_tokens(begun, count_tokens)
    known = takewhile(lambda each: each.message_id != answer.message_id, sent)
    return (answer.context_tokens or 0) - overhead - _sum_tokens(known, count_tokens)


class _File(NamedTuple):
    """What is known of a file's text, without line numbers."""

    entry: Entry  # where it was read or written
    text: str


class _Content:
    """What a client may put back, of all that was said before a compaction."""

    def __init__(self, paths: Collection[str]) -> None:
        """Only of these files the texts are held."""
        self.files: Final[dict[str, _File]] = {}
        self.plan: Entry | None = None  # that the session follows
        self.skills: Final[dict[str, Entry]] = {}  # that were used; the newest is last
        self._paths: Final = paths
        self._calls: Final[dict[str | None, str]] = {}  # not answered yet

    def add(self, entry: Entry) -> None:
        for part in entry.parts:
            if part.kind is PartKind.TOOL_INPUT:
                self._add_call(entry, part)
            elif _is_of_file(part):
                self._add_file(entry, part)
            elif part.kind is PartKind.PROMPT and part.text.startswith(_PLAN_PROMPT):
                self._add_plan(entry, part.text.removeprefix(_PLAN_PROMPT))
            elif part.kind is PartKind.META and part.text.startswith(_SKILL_START):
                name = part.text.partition("\n")[0]
                self.skills.pop(name, None)
                self.skills[name] = _attached(entry, "invoked_skills", part.text)

    def _add_call(self, entry: Entry, part: MessagePart) -> None:
        if part.name in _FILE_TOOLS:
            self._calls[part.tool_use_id] = part.text
        elif part.name == PLAN_TOOL:
            self._add_plan(entry, str((decode_tool_input(part.text) or {}).get("plan") or ""))

    def _add_plan(self, entry: Entry, plan: str) -> None:
        if plan.strip():
            self.plan = _attached(entry, "plan_file_reference", plan)

    def _add_file(self, entry: Entry, part: MessagePart) -> None:
        call = decode_tool_input(self._calls.pop(part.tool_use_id, "")) or {}
        path = part.path
        if path not in self._paths or path is None:
            return
        known = self.files.get(path)
        if part.name in EDIT_TOOLS and known:
            self.files[path] = known._replace(text=_edit(known.text, call))
            return
        text = _LINE_NUMBER.sub("", part.text)
        if part.name == "Write":
            text = str(call.get("content") or "")
        # The longest text is of the whole file, or comes closest to it.
        if known is None or len(text) >= len(known.text):
            self.files[path] = _File(entry, text)


def _find_content(
    entries: Sequence[Entry], place: int, read_entries: Callable[[], Iterable[Entry]]
) -> _Content:
    """Collect what was said before the boundary at a place; entries of agents are not of it."""
    end, is_agents = entries[place].offset, all(each.sidechain for each in entries[:place])

    def own(found: Iterable[Entry]) -> Iterator[Entry]:
        before = takewhile(lambda each: each.offset < end, found)
        return (each for each in before if is_agents or not each.sidechain)

    content = _Content(paths := _newest_paths(own(entries), retained_uuids(entries)))
    for entry in own(read_entries()):
        content.add(entry)
        del entry
    content.files.update([(path, content.files.pop(path)) for path in paths])
    return content


def _newest_paths(before: Iterable[Entry], kept: Collection[str]) -> list[str]:
    newest: dict[str, None] = {}
    for entry in before:
        for path in (part.path for part in entry.parts if _is_of_file(part)):
            newest.pop(path or "", None)
            if path and entry.uuid not in kept:
                newest[path] = None
    return [*reversed(newest)][:MAX_FILES]


def _is_of_file(part: MessagePart) -> bool:
    is_result = part.kind is PartKind.TOOL_RESULT and part.name in _FILE_TOOLS
    return is_result and bool(part.path) and not part.failed


def _edit(text: str, call: Mapping[str, Any]) -> str:
    """Return a text after an Edit or MultiEdit; where it does not hold the old text, as it was."""
    edits = call.get("edits")
    listed: list[Any] = edits if isinstance(edits, list) else [call]
    for edit in (each for each in listed if isinstance(each, dict)):
        old, new = edit.get("old_string"), edit.get("new_string")
        if isinstance(old, str) and isinstance(new, str) and old:
            text = text.replace(old, new, -1 if edit.get("replace_all") else 1)
    return text


def _restore(content: _Content, room: int | None, count_tokens: CountTokens) -> list[Entry]:
    others = [content.plan] if content.plan else []
    others += _newest_skills(content, count_tokens)
    if room is not None:
        room -= _sum_tokens(others, count_tokens)
    return [*_restore_files(content.files, room, count_tokens), *others]


def _newest_skills(content: _Content, count_tokens: CountTokens) -> Iterator[Entry]:
    left = MAX_SKILL_TOKENS
    for restored in reversed(content.skills.values()):
        left -= count_tokens(restored.parts[0])
        if left >= 0:
            yield restored


def _restore_files(
    files: Mapping[str, _File], room: int | None, count_tokens: CountTokens
) -> Iterator[Entry]:
    sizes = {path: _content_tokens(each.text, count_tokens) for path, each in files.items()}
    whole = {
        path: _attached(each.entry, "file", _as_sent(path, each.text), path)
        for path, each in files.items()
    }
    small = [path for path, size in sizes.items() if size <= SURELY_SMALL * MAX_FILE_TOKENS]
    left = room
    if left is not None:
        left -= _sum_tokens((whole[path] for path in small), count_tokens)
    for path, each in whole.items():
        is_there, size = path in small, sizes[path]
        if not is_there and size <= SURELY_LARGE * MAX_FILE_TOKENS:
            tokens = _sum_tokens([each], count_tokens)
            is_there = size <= MAX_FILE_TOKENS if left is None else tokens <= left
            left = left if left is None or not is_there else left - tokens
        note = FILE_REFERENCE_TEXT.format(path)
        yield each if is_there else _attached(each, "compact_file_reference", note, path)


def _content_tokens(text: str, count_tokens: CountTokens) -> int:
    """Count a file's text as the client does."""
    return count_tokens(MessagePart(PartKind.ATTACHMENT, text, "file"))


def _as_sent(path: str, text: str) -> str:
    numbered = (f"{number:>6}→{line}" for number, line in enumerate(text.split("\n"), 1))
    call = json.dumps({"file_path": path}, ensure_ascii=False)
    return _READ_AGAIN.format(call, json.dumps("\n".join(numbered), ensure_ascii=False))
