"""How many tokens a part of a message has: what it says, and what stands around it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from .content_kind import ContentKind
from .conversation import PieceKind
from .tokenizer import MEASURED

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from .conversation import Piece
    from .text_count import TextCount
    from .tokenizer import Tokenizer

    CountText = Callable[[str], TextCount]

MEDIA_TOKENS: Final = 1_600
"""Of an image or a document (formats 9: 1,600 to 2,000)."""

REMINDERS: Final = frozenset({"task_reminder", "todo_reminder"})
"""Attachments that older transcripts hold without the words that were sent."""

_RESULTS: Final = frozenset({PieceKind.TOOL_RESULT, PieceKind.AGENT_RETURN})


class PieceCount(msgspec.Struct, frozen=True):
    """Tokens by kind of content, to which learnt factors apply, and those that are fixed."""

    by_kind: tuple[int, ...]
    fixed: float


def said(piece: Piece) -> tuple[str, int]:
    """Give a piece's text as a model reads or writes it, and the parameters of a call.

    A call is a name and its parameters' names and values, and not JSON: measured, texts
    with their escapes undone are met better (reference: claude-code-formats 2.4).
    """
    if piece.name in REMINDERS:
        return piece.text.rstrip(" "), 0
    if piece.kind is not PieceKind.TOOL_INPUT:
        return piece.text, 0
    given = _given(piece.text)
    if given is None:
        return f"{piece.name}\n{piece.text}", 1
    values = [value if isinstance(value, str) else _json(value) for value in given.values()]
    return "\n".join([" ".join([piece.name, *given]), *values]), len(given)


def count_pieces(
    pieces: Iterable[Piece], tokenizer: Tokenizer, count_text: CountText
) -> PieceCount:
    """Count pieces by kind of content; a thought counts as fixed, for it is of no kind."""
    by_kind, fixed = dict.fromkeys(ContentKind, 0), 0.0
    for piece in pieces:
        text, parameters = said(piece)
        fixed += _around(piece, parameters, tokenizer)
        if not text:
            continue
        counted = count_text(text)
        if piece.kind is PieceKind.THINKING:
            fixed += MEASURED[tokenizer].thought * counted.plain
        else:
            by_kind[counted.kind] += counted.of(tokenizer)
    return PieceCount(tuple(by_kind.values()), fixed)


def _around(piece: Piece, parameters: int, tokenizer: Tokenizer) -> float:
    measured, media = MEASURED[tokenizer], piece.media * MEDIA_TOKENS
    if piece.kind is PieceKind.TOOL_INPUT:
        return measured.call + parameters * measured.parameter
    if piece.name in REMINDERS:
        return measured.reminder
    if piece.kind in _RESULTS:
        return measured.result + media
    if piece.kind in {PieceKind.TEXT, PieceKind.THINKING}:
        return media
    return measured.message + media


def _given(text: str) -> dict[str, object] | None:
    try:
        given = msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return None
    return given if isinstance(given, dict) else None


def _json(value: object) -> str:
    return msgspec.json.encode(value).decode()
