"""The largest items of a context, by name."""

from __future__ import annotations

import heapq
import re
from typing import TYPE_CHECKING, Final

import msgspec

from .conversation import PieceKind

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from .conversation import Piece
    from .material import Part

MAX_ITEMS: Final = 20
"""What a person looks through; they hold most of a context (compaction.md 1.4)."""

WHAT_CHARS: Final = 120
"""Of an item's name: a command may be a whole script."""

_TELLING: Final = (
    "file_path",
    "notebook_path",
    "path",
    "command",
    "pattern",
    "url",
    "query",
    "description",
    "skill",
    "prompt",
)
"""Fields of a call that say what it is about, the most telling first."""


_SUMMARY: Final = re.compile(r"<summary>\s*(.{1,200}?)\s*</summary>", re.DOTALL)
"""What a notification of an agent's end says it was about (claude-code-live, Agents)."""

_WORDS: Final = frozenset(
    {PieceKind.PROMPT, PieceKind.TEXT, PieceKind.SUMMARY, PieceKind.META, PieceKind.AGENT_RETURN}
)
"""Kinds that are known by how their text begins."""


class ContextItem(msgspec.Struct, frozen=True):
    """One piece of a context."""

    kind: str
    """Its category."""
    name: str
    """Its name: a tool and what it was asked, a file, or how a text begins. Not cleaned."""
    tokens: int
    line: int | None
    """Of the transcript, from 1; None for what no line of the conversation holds."""
    superseded: str | None
    """What overtook it, and at which line."""


def largest(
    placed: Sequence[tuple[Part, tuple[str, ...], int]],
    superseded: Mapping[int, str],
    max_items: int = MAX_ITEMS,
) -> tuple[ContextItem, ...]:
    """Choose the largest; `placed` has each part, its category with what is below, its tokens."""
    asked = {
        part.content.tool_use_id: part.content
        for part, _, _ in placed
        if part.content.kind is PieceKind.TOOL_INPUT and part.content.tool_use_id
    }
    chosen = heapq.nlargest(max_items, enumerate(placed), key=lambda each: each[1][2])
    found: list[ContextItem] = []
    for number, (part, place, tokens) in chosen:
        piece = part.content
        call = asked.get(piece.tool_use_id) if piece.tool_use_id else None
        what = call_name(call) if call else _short(_name(piece, place))
        found.append(
            ContextItem(place[0], what or place[0], tokens, part.line, superseded.get(number))
        )
    return tuple(found)


def call_name(call: Piece) -> str:
    """Name a tool's call by what it is about. Not cleaned."""
    return _short(f"{call.name} {telling(call.text)}")


def _short(text: str) -> str:
    return " ".join(text[: WHAT_CHARS * 2].split())[:WHAT_CHARS]


def _name(piece: Piece, place: tuple[str, ...]) -> str:
    if piece.kind is PieceKind.AGENT_RETURN:
        told = _SUMMARY.search(piece.text)
        if told:
            return told[1]
    if piece.kind in _WORDS and piece.text:
        return piece.text
    return " ".join(place[1:]) or piece.text


def telling(text: str) -> str:
    """Say what a call's input, as JSON, is about; what is no object is said whole."""
    try:
        given = msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeEncodeError):
        return text
    if not isinstance(given, dict):
        return text
    named = (given[name] for name in _TELLING if isinstance(given.get(name), str))
    return next(named, text)
