"""The texts of a list of entries as the metrics read them."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Final

from ctxtop.core.model.conversation import PartKind
from ctxtop.core.summaries.artifacts import input_texts, parse_tool_input

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from ctxtop.core.model.conversation import Entry, MessagePart

SPOKEN: Final = frozenset({PartKind.PROMPT, PartKind.SUMMARY})
"""Where a person's words may stand: in a prompt, or quoted by a summary."""

AUTHORED: Final = frozenset({PartKind.TEXT, PartKind.TOOL_INPUT})
"""What the model itself says and asks for: its references are found there. Not its thoughts,
whose texts many transcripts lack."""


@lru_cache(maxsize=200_000)
def text_of(piece: MessagePart) -> str:
    """Return a part's text and path; for a tool call, its input values without JSON escapes."""
    text = piece.text
    if piece.kind is PartKind.TOOL_INPUT:
        text = "\n".join(value for _, value in input_texts(parse_tool_input(piece)))
    return f"{piece.path}\n{text}" if piece.path and piece.path not in text else text


def pieces_of(entries: Iterable[Entry]) -> Iterator[MessagePart]:
    for entry in entries:
        yield from entry.parts


def texts_of(entries: Iterable[Entry], kinds: frozenset[PartKind] | None = None) -> list[str]:
    """List the texts of the pieces of some kinds, or of all."""
    return [text_of(piece) for piece in pieces_of(entries) if kinds is None or piece.kind in kinds]
