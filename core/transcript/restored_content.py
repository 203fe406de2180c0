"""What older clients put back into the context after a compaction, and did not record.

Newer ones write each of it as an attachment behind the summary (seen from 2.1.205 on; 2.1.45
wrote none). What they choose is the same: client 2.1.329.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import takewhile
from typing import Final

from .client_messages import FILE_REFERENCE_TEXT
from .conversation import (
    Entry,
    MessagePart,
    PartKind,
    Role,
    decode_tool_input,
    measured_answers,
)
from .line_types import EDIT_TOOLS, PLAN_TOOL
from .visible_messages import retained_uuids, visible_entries

CountTokens = Callable[[MessagePart], int]

MAX_FILES: Final = 5  # read or written last, without those whose Read was kept
MAX_FILE_TOKENS: Final = 5_000  # of a larger one, by the API's count, only its name is put back
SURELY_SMALL: Final = 0.8  # of that limit by our estimate, which may be off by a fifth or more;
SURELY_LARGE: Final = 1.4  # between the two the next answer tells whether the file is there
MAX_SKILL_TOKENS: Final = 25_000  # of all skills together, the newest first

_FILE_TOOLS: Final = EDIT_TOOLS | {"Read", "Write"}
_LINE_NUMBER: Final = re.compile(r"^ *\d+[→\t]", re.MULTILINE)
_PLAN_PROMPT: Final = "Implement the following plan:"  # begins a session with an approved plan
_SKILL_START: Final = "Base directory for this skill: "


def with_restored(
    entries: Sequence[Entry], sent: Sequence[Entry], count_tokens: CountTokens
) -> list[Entry]:
    """Add to what is `sent` what the client put back behind the last summary unrecorded.

    Their lines are those where the text was read. A text that was never read whole is as far as
    it is known. Of files near the limit those count for which the next answer's context has room.
    """
    place = next((n for n in range(len(entries) - 1, -1, -1) if entries[n].boundary), None)
    if place is None:
        return [*sent]
    since = takewhile(lambda each: each.role is not Role.ASSISTANT, entries[place + 1 :])
    if any(each.type == "attachment" for each in since):
        return [*sent]
    before = [each for each in entries[:place] if not each.sidechain] or entries[:place]
    others = [*_plan(before), *_skills(before, count_tokens)]
    room = _room(entries, sent, count_tokens)
    if room is not None:
        room -= _sum_tokens(others, count_tokens)
    files = _newest_files(before, retained_uuids(entries))
    restored = [*_restore_files(files, room, count_tokens), *others]
    summary = (n for n, each in enumerate(sent, 1) if each.offset > entries[place].offset)
    start = next(summary, 0)
    return [*sent[:start], *restored, *sent[start:]]


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


_File = tuple[str, Entry, str]  # its path, where its text was read, and the text


def _newest_files(before: Sequence[Entry], kept: set[str]) -> list[_File]:
    newest: dict[str, _File] = {}
    for found in _file_texts(before):
        path, entry, text = found
        # The longest text is of the whole file, or comes closest to it.
        known = newest.pop(path, found)
        if entry.uuid not in kept:
            newest[path] = known if len(known[2]) > len(text) else found
    return [*reversed(newest.values())][:MAX_FILES]


def _restore_files(
    files: Sequence[_File], room: int | None, count_tokens: CountTokens
) -> Iterator[Entry]:
    sizes = {path: _content_tokens(text, count_tokens) for path, _, text in files}
    whole = [_attached(entry, "file", text, path) for path, entry, text in files]
    small = [
        each
        for each, size in zip(whole, sizes.values(), strict=True)
        if size <= SURELY_SMALL * MAX_FILE_TOKENS
    ]
    left = None if room is None else room - _sum_tokens(small, count_tokens)
    for each, (path, size) in zip(whole, sizes.items(), strict=True):
        is_there = each in small
        if not is_there and size <= SURELY_LARGE * MAX_FILE_TOKENS:
            tokens = _sum_tokens([each], count_tokens)
            is_there = size <= MAX_FILE_TOKENS if left is None else tokens <= left
            left = left if left is None or not is_there else left - tokens
        note = FILE_REFERENCE_TEXT.format(path)
        yield each if is_there else _attached(each, "compact_file_reference", note, path)


def _content_tokens(text: str, count_tokens: CountTokens) -> int:
    """Count a file's text as the client does, without the numbers of its lines."""
    return count_tokens(MessagePart(PartKind.ATTACHMENT, _LINE_NUMBER.sub("", text), "file"))


def _file_texts(before: Iterable[Entry]) -> Iterator[tuple[str, Entry, str]]:
    """Yield each file that was read or changed, in order, with what is known of its text."""
    written: dict[str | None, str] = {}
    for entry in before:
        for part in entry.parts:
            if part.kind is PartKind.TOOL_INPUT and part.name == "Write":
                written[part.tool_use_id] = str((decode_tool_input(part.text) or {}).get("content"))
            elif part.kind is not PartKind.TOOL_RESULT or part.name not in _FILE_TOOLS:
                continue
            elif part.path and not part.failed:
                yield part.path, entry, written.get(part.tool_use_id, part.text)


def _plan(before: Sequence[Entry]) -> Iterator[Entry]:
    """Yield the plan that the session follows, if it has one."""
    for entry in reversed(before):
        for part in entry.parts:
            plan = ""
            if part.kind is PartKind.PROMPT and part.text.startswith(_PLAN_PROMPT):
                plan = part.text.removeprefix(_PLAN_PROMPT)
            elif part.kind is PartKind.TOOL_INPUT and part.name == PLAN_TOOL:
                plan = str((decode_tool_input(part.text) or {}).get("plan") or "")
            if plan.strip():
                yield _attached(entry, "plan_file_reference", plan)
                return


def _skills(before: Sequence[Entry], count_tokens: CountTokens) -> Iterator[Entry]:
    """Yield the skills that were used, the newest first."""
    seen = set[str]()
    left = MAX_SKILL_TOKENS
    for entry in reversed(before):
        for part in entry.parts:
            name = part.text.partition("\n")[0]
            if part.kind is not PartKind.META or not name.startswith(_SKILL_START) or name in seen:
                continue
            seen.add(name)
            restored = _attached(entry, "invoked_skills", part.text)
            left -= count_tokens(restored.parts[0])
            if left >= 0:
                yield restored
