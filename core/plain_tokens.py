"""Tokens of pieces by tiktoken and one factor: for where nothing better was learnt."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from .tokens import estimate_tokens

if TYPE_CHECKING:
    from .conversation import Piece
    from .material import Counter

OLDER_FACTOR: Final = 1.2
"""Tokens of the older tokenizer for one of cl100k_base (claude-code-formats 9: 1.10 to 1.25)."""

NEWER_FACTOR: Final = 1.5
"""Of the newer one (claude-code-formats 9: 1.35 to 1.60)."""

MEDIA_TOKENS: Final = 1_600
"""Of an image or a document (claude-code-formats 9: 1,600 to 2,000)."""

_OLDER: Final = re.compile(r"claude-(?:3-|(?:opus|sonnet|haiku)-4(?!-(?:[7-9]|\d\d)\b))")


class PlainTokens:
    """Counts with the table that the package ships, times the factor of the model's generation."""

    def __init__(self, model: str | None) -> None:
        older = model is not None and _OLDER.match(model)
        self._factor: Final = OLDER_FACTOR if older else NEWER_FACTOR

    def tokens(self, piece: Piece) -> int:
        """Estimate one piece; what stands around it is not counted."""
        counted = estimate_tokens(f"{piece.name} {piece.text}" if _is_call(piece) else piece.text)
        return round(counted * self._factor) + piece.media * MEDIA_TOKENS


class CountedOnce:
    """Counts no text twice."""

    def __init__(self, counter: Counter) -> None:
        self._counter: Final = counter
        self._known: Final[dict[Piece, int]] = {}

    def tokens(self, piece: Piece) -> int:
        """Give what was counted, or count."""
        found = self._known.get(piece)
        if found is None:
            found = self._known[piece] = self._counter.tokens(piece)
        return found


def _is_call(piece: Piece) -> bool:
    return piece.kind == "tool_input"
