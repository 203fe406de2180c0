"""Messages made by hand, as a transcript's reader would give them."""

from __future__ import annotations

from typing import Final

from ctxtop.core.conversation import Entry, Message, Piece, PieceKind, Role

_SPEAKERS: Final = {
    PieceKind.TEXT: Role.ASSISTANT,
    PieceKind.THINKING: Role.ASSISTANT,
    PieceKind.TOOL_INPUT: Role.ASSISTANT,
}


def message(*pieces: Piece) -> Message:
    """One message of these pieces."""
    role = _SPEAKERS.get(pieces[0].kind, Role.USER)
    return Message(role, (Entry(0, 1, 1, role.value, role=role, parts=pieces),))


def prompt(text: str = "go on") -> Message:
    return message(Piece(PieceKind.PROMPT, text))


def answer(text: str = "done") -> Message:
    return message(Piece(PieceKind.TEXT, text))


def calls(*ids: str) -> Message:
    return message(*(Piece(PieceKind.TOOL_INPUT, "{}", "Read", each) for each in ids))


def results(*ids: str, kind: PieceKind = PieceKind.TOOL_RESULT) -> Message:
    return message(*(Piece(kind, "what it said", "Read", each) for each in ids))
