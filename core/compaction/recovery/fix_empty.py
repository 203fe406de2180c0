"""Mending messages that say nothing, which the API refuses (002-75 to 002-79)."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from ...conversation import Role
from ..chain import follow_chain
from ..changes import json_text
from ..plan import Harm, Operation, Refusal
from .ground import Proposal, content_of, replaced
from .settings import Step

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ...conversation import Entry
    from ..plan import Edit
    from ..view import View
    from .ground import Ground

PLACEHOLDER: Final = "[user interrupted]"
"""What an empty message says afterwards (002-78)."""

INDEX_SHIFTS: Final = (0, -1, -2)
"""The API counts messages that a transcript does not hold (R002-15)."""

_BLANK: Final = re.compile(rb'"(?:text|content)"\s*:\s*(?:"(?:\s|\\[nrt])*"|\[\s*\])')
"""What a line with an empty part holds somewhere."""


def fix_empty(context: Ground) -> Proposal:
    """Give every empty message a word: that at the index which the API names, else all."""
    view = context.view
    messages = _messages(view.entries)
    wanted = _at_index(view, messages, context.refusal.message_index)
    done = [
        _mended(view, entry, edits)
        for message in wanted or messages
        for entry, edits in _empty_parts(view, message)
    ]
    if not done:
        nothing = Refusal(Step.FIX_EMPTY, "no message is empty", "go on")
        return Proposal(Step.FIX_EMPTY, insufficient=nothing)
    return Proposal(Step.FIX_EMPTY, tuple(done))


def _at_index(
    view: View, messages: Sequence[Sequence[Entry]], index: int | None
) -> list[Sequence[Entry]]:
    for shift in INDEX_SHIFTS if index is not None else ():
        place = (index or 0) + shift
        if 0 <= place < len(messages) and any(_empty_parts(view, messages[place])):
            return [messages[place]]
    return []


def _messages(entries: Sequence[Entry]) -> list[list[Entry]]:
    """Put the lines together that are one message, the empty ones too."""
    found: list[list[Entry]] = []
    for entry in follow_chain(entries):
        if entry.type not in {"user", "assistant"} or entry.hidden:
            continue
        last = found[-1][-1] if found else None
        is_same = last is not None and last.role is entry.role
        if is_same and (entry.role is Role.USER or last.message_id == entry.message_id):  # type: ignore[union-attr]
            found[-1].append(entry)
        else:
            found.append([entry])
    return found


def _empty_parts(
    view: View, message: Sequence[Entry]
) -> Iterator[tuple[Entry, list[tuple[str, str]]]]:
    """Find the lines of a message that have to say something: pointers and new values.

    An empty text beside other blocks is refused as well (R002-15). A line without any block is
    one only where the whole message says nothing: the client leaves such a line out.
    """
    contents = [(entry, _content(view, entry)) for entry in message]
    says_nothing = all(_is_silent(content) for _, content in contents)
    for entry, content in contents:
        if isinstance(content, list) and content:
            edits = [
                (f"/message/content/{place}/text", json_text(PLACEHOLDER))
                for place, block in enumerate(content)
                if _is_blank(block)
            ]
        elif says_nothing and entry is message[-1] and content is not None:
            said = PLACEHOLDER if isinstance(content, str) else [_text_block()]
            edits = [("/message/content", json_text(said))]
        else:
            edits = []
        if edits:
            yield entry, edits


def _content(view: View, entry: Entry) -> Any:  # noqa: ANN401 -- any JSON
    """Read a line's content where a part of it may be empty; "…" for what says something."""
    if entry.parts and not _BLANK.search(view.line_bytes(entry.line)):
        return "…"
    return content_of(view, entry.line)


def _is_silent(content: object) -> bool:
    if isinstance(content, str):
        return not content.strip()
    return isinstance(content, list) and all(_is_blank(block) for block in content)


def _is_blank(block: object) -> bool:
    if not isinstance(block, dict) or block.get("type") != "text":
        return False
    text = block.get("text")
    return isinstance(text, str) and not text.strip()


def _text_block() -> dict[str, str]:
    return {"type": "text", "text": PLACEHOLDER}


def _mended(view: View, entry: Entry, parts: list[tuple[str, str]]) -> Operation:
    edits: list[Edit] = []
    saved = 0
    for number in (entry.line, *view.copies_of(entry.line)):
        for pointer, value in parts:
            edit, freed = replaced(view, number, pointer, value)
            edits.append(edit)
            saved += freed
    return Operation(
        strategy=Step.FIX_EMPTY,
        level=Harm.LOSSLESS,
        line=entry.line,
        kind=entry.type,
        what=f"an empty message of the {entry.role}",
        why=f"the API refuses it: it says {PLACEHOLDER} instead",
        tokens_saved=0,
        bytes_saved=saved,
        edits=tuple(edits),
    )
