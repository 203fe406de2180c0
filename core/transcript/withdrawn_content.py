"""What the client stops sending from some line on, also after a resume.

An attachment records it; it is applied as client 2.1.332 applies it.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice, takewhile
from typing import Any, Final

from msgspec.structs import replace

from ..model.conversation import (
    CLEARED_RESULT_TEXT,
    RESULT_KINDS,
    Entry,
    MessagePart,
    PartKind,
    Role,
    Withdrawal,
    with_parts,
)
from .reported_usage import CLEARS_RESULTS, ContextManagement

_ADVISOR: Final = "advisor"  # the tool that the API runs for an answer
_MAX_STAND_IN: Final = 200  # characters; the client believes no longer one
_BY_TOOL: Final = "withdrawn_by_tool"  # the only cause that the client knows
_CONNECTORS: Final = ("mcp__claude_ai__", "mcp__hearthbot__")  # the tools that can do it

_CLEARABLE: Final = frozenset(
    {"Bash", "Edit", "Glob", "Grep", "PowerShell", "Read", "WebFetch", "WebSearch", "Write"}
)
"""Tools whose results the client lets the API clear."""

_FILE_TEXT: Final = (
    "The user @-mentioned {}. Its contents were not attached because the file is too large to read"
    " all at once. Read it in portions with the offset and limit parameters, starting with a few"
    " hundred lines, or search for specific content instead of reading the whole file. Only if you"
    " genuinely need all of it, call Read with allow_large: true, which reads it whole when it"
    " still fits in your context."
)
"""What the model reads of a file that was withdrawn; the client also writes its size."""


def parse_withdrawal(kind: str, attachment: Mapping[str, Any]) -> Withdrawal | None:
    """Read what an attachment withdraws; None for all others, and for one of unknown shape."""
    if kind == "tool_results_cut":
        return _parse_cut(attachment)
    if kind == "thinking_stripped":
        return _parse_strip(attachment)
    if kind == "advisor_stripped":
        return Withdrawal(advice=True)
    return Withdrawal(large_files=True) if kind == "whole_texts_withdrawn" else None


def read_clearing(found: ContextManagement | None) -> Withdrawal | None:
    """Read what the API cleared from the request of an answer."""
    edits = (found.applied_edits or ()) if found else ()
    uses = sum(each.cleared_tool_uses or 0 for each in edits if each.type == CLEARS_RESULTS)
    return Withdrawal(oldest_results=uses) if uses else None


def _parse_cut(attachment: Mapping[str, Any]) -> Withdrawal | None:
    calls, stand_in = attachment.get("callIds"), attachment.get("standIn")
    if not (isinstance(calls, list) and isinstance(stand_in, str)):
        return None
    cause = attachment.get("cause")
    if not 0 < len(stand_in) <= _MAX_STAND_IN or cause not in {None, _BY_TOOL}:
        return None
    named = tuple(each for each in calls if isinstance(each, str))
    return Withdrawal(named, stand_in, by_tool=cause == _BY_TOOL)


def _parse_strip(attachment: Mapping[str, Any]) -> Withdrawal:
    first = attachment.get("from")
    if attachment.get("scope") == "all" or not isinstance(first, dict):
        return Withdrawal(thinking=True)
    message, number = first.get("messageId"), first.get("thinkingIndex")
    if isinstance(message, str) and isinstance(number, int):
        return Withdrawal(thinking=True, first_thinking=(message, number))
    return Withdrawal(thinking=True)


def without_withdrawn(chain: Sequence[Entry]) -> list[Entry]:
    """Return the entries of a chain as they are sent, without what some of them withdraw."""
    entries = [*chain]
    if not any(entry.withdrawal for entry in entries):
        return entries
    cut = _cut_results(entries)
    kept_thinking = _kept_thinking(entries)
    advised = _advised(entries)
    files = _withdrawn_files(entries)
    found = Counter[str | None]()
    changed: list[Entry] = []
    for place, entry in enumerate(entries):
        parts = entry.parts
        if entry.message_id in kept_thinking:
            left = kept_thinking[entry.message_id] - found[entry.message_id]
            found[entry.message_id] += sum(map(_is_thinking, parts))
            parts = _without_thinking(parts, max(0, left))
        if entry.message_id in advised:
            parts = tuple(each for each in parts if each.name != _ADVISOR)
        if place in files:
            parts = tuple(replace(each, text=_FILE_TEXT.format(each.path)) for each in parts[:1])
        changed.append(with_parts(entry, (_stand_in(part, cut) for part in parts)))
    return changed


def _each(entries: Iterable[Entry]) -> Iterator[tuple[int, Withdrawal]]:
    return ((n, entry.withdrawal) for n, entry in enumerate(entries) if entry.withdrawal)


def _cut_results(entries: Sequence[Entry]) -> dict[str | None, Withdrawal]:
    """Return what withdraws the result of each call; the first line that names it counts."""
    cut: dict[str | None, Withdrawal] = {}
    for _, withdrawal in _each(entries):
        for call in withdrawal.results:
            cut.setdefault(call, withdrawal)
    cleared = Withdrawal(stand_in=CLEARED_RESULT_TEXT)
    return dict.fromkeys(_cleared_results(entries), cleared) | cut


def _cleared_results(entries: Sequence[Entry]) -> list[str | None]:
    """Return the calls whose results the API cleared from the newest answer's request."""
    answers = (entry for entry in reversed(entries) if entry.context_tokens)
    newest = next(answers, None)
    if newest is None:
        return []
    lines = (entry for entry in entries if entry.message_id == newest.message_id)
    uses = max((each.withdrawal.oldest_results for each in lines if each.withdrawal), default=0)
    results = (
        part.tool_use_id
        for entry in takewhile(lambda entry: entry is not newest, entries)
        for part in entry.parts
        if part.kind in RESULT_KINDS and part.name in _CLEARABLE
    )
    return [*islice(results, uses)]


def _stand_in(part: MessagePart, cut: Mapping[str | None, Withdrawal]) -> MessagePart:
    """Replace a result; errors stay, and what is no longer than its replacement."""
    found = cut.get(part.tool_use_id)
    if found is None or part.kind not in RESULT_KINDS or part.failed:
        return part
    if found.by_tool and not part.name.startswith(_CONNECTORS):
        return part
    text = found.stand_in
    return replace(part, text=text, media=0) if part.media or len(part.text) > len(text) else part


def _is_thinking(part: MessagePart) -> bool:
    return part.kind is PartKind.THINKING


def _kept_thinking(entries: Sequence[Entry]) -> dict[str | None, int]:
    """Return how much of its thinking each answer keeps that loses some of it."""
    kept: dict[str | None, int] = {}
    for place, withdrawal in _each(entries):
        if not withdrawal.thinking:
            continue
        start = _place_of(entries[:place], withdrawal.first_thinking)
        first, number = withdrawal.first_thinking or (None, 0)
        before = Counter[str | None]()
        for entry in entries[: start or 0]:
            before[entry.message_id] += sum(map(_is_thinking, entry.parts))
        for entry in entries[start or 0 : place]:
            name = entry.message_id
            if entry.role is Role.ASSISTANT and name is not None:
                own = number if start is not None and name == first else before[name]
                kept[name] = min(own, kept.get(name, own))
    return kept


def _place_of(entries: Sequence[Entry], thinking: tuple[str, int] | None) -> int | None:
    """Return the place of the line that holds one of an answer's thinking; None if none does."""
    if thinking is None:
        return None
    seen = 0
    for place, entry in enumerate(entries):
        if entry.role is Role.ASSISTANT and entry.message_id == thinking[0]:
            seen += sum(map(_is_thinking, entry.parts))
            if seen > thinking[1]:
                return place
    return None


def _without_thinking(parts: Sequence[MessagePart], kept: int) -> tuple[MessagePart, ...]:
    """Leave out the thinking behind the first ones that are kept."""
    places = [place for place, part in enumerate(parts) if _is_thinking(part)]
    gone = set(places[kept:])
    return tuple(part for place, part in enumerate(parts) if place not in gone)


def _advised(entries: Sequence[Entry]) -> set[str | None]:
    """Return the answers whose advice is withdrawn."""
    last = max((place for place, each in _each(entries) if each.advice), default=0)
    return {entry.message_id for entry in entries[:last]} - {None}


def _withdrawn_files(entries: Sequence[Entry]) -> set[int]:
    """Return the places of files that were attached whole, above the limit, since an answer."""
    places, is_withdrawn = set[int](), False
    for place in range(len(entries) - 1, -1, -1):
        entry = entries[place]
        if entry.role is Role.ASSISTANT and any(not _is_thinking(each) for each in entry.parts):
            is_withdrawn = False
        elif entry.withdrawal and entry.withdrawal.large_files:
            is_withdrawn = True
        elif is_withdrawn and entry.is_above_limit:
            places.add(place)
    return places
