"""Tool results that the client took out of the model's sight without saying so (peers B.8)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from .conversation import PieceKind

if TYPE_CHECKING:
    from collections.abc import Iterable

    from .conversation import Entry, Piece

CLEARED: Final = "[Old tool result content cleared]"
"""What the model sees for a result that the client cleared (claude-code-formats 3.5)."""


def cleared_in(entries: Iterable[Entry]) -> set[str]:
    """Name the tool calls whose results the model saw replaced, as the transcript shows it.

    Microcompact boundaries and content replacements name them; a rewritten transcript holds
    the text in the result's place.
    """
    found: set[str] = set()
    for entry in entries:
        found.update(call for call, _ in entry.replaced)
        found |= cleared_pieces(entry.pieces)
    return found


def cleared_pieces(pieces: Iterable[Piece]) -> set[str]:
    """Name the calls whose result is the text that stands for a cleared one."""
    return {
        piece.tool_use_id
        for piece in pieces
        if piece.kind in {PieceKind.TOOL_RESULT, PieceKind.AGENT_RETURN}
        and piece.tool_use_id
        and piece.text.strip() == CLEARED
    }
