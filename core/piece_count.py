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


def said(part: Piece) -> tuple[str, int]:
    """Give a piece's text as a model reads or writes it, and the parameters of a call.

    A call is a name and its parameters' names and values, and not JSON: measured, texts
    with their escapes undone are met better (reference: claude-code-formats 2.4).
    """
    if part.name in REMINDERS:
        return part.text.rstrip(" "), 0
    if part.kind is not PieceKind.TOOL_INPUT:
        return part.text, 0
    given = _given(part.text)
    if given is None:
        return f"{part.name}\n{part.text}", 1
    values = [value if isinstance(value, str) else _json(value) for value in given.values()]
    return "\n".join([" ".join([part.name, *given]), *values]), len(given)


def count_pieces(parts: Iterable[Piece], tokenizer: Tokenizer, count_text: CountText) -> PieceCount:
    """Count pieces by kind of content; a thought counts as fixed, for it is of no kind."""
    by_kind, fixed = dict.fromkeys(ContentKind, 0), 0.0
    for piece in parts:
        text, parameters = said(piece)
        fixed += _around(piece, parameters, tokenizer)
        if not text:
            continue
        counted = count_text(text)
        if piece.kind is PieceKind.THINKING:
            fixed += MEASURED[tokenizer].thought * counted.base
        else:
            by_kind[counted.kind] += counted.for_tokenizer(tokenizer)
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
