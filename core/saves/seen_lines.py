"""How many lines of a terminal a piece of a conversation takes, as the client folds it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ..conversation import PieceKind

if TYPE_CHECKING:
    from ..conversation import Piece

SHOWN_RESULT: Final = 3
"""Lines of a tool's result that the client shows; one more says how many it folds away."""

_HIDDEN: Final = frozenset({PieceKind.THINKING, PieceKind.ATTACHMENT})


def seen_lines(piece: Piece) -> int:
    """Count the lines that a piece takes: a call one, a result its first ones, a text all.

    What an agent gave back is one line: the client folds it (client 2.1.329).
    """
    if piece.kind in _HIDDEN:
        return 0
    if piece.kind in {PieceKind.TOOL_INPUT, PieceKind.AGENT_RETURN}:
        return 1
    lines = len(piece.text.splitlines()) or 1
    if piece.kind is PieceKind.TOOL_RESULT:
        return lines if lines <= SHOWN_RESULT else SHOWN_RESULT + 1
    return lines
