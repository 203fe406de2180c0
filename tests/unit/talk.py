"""Messages made by hand, as a transcript's reader would give them."""

from __future__ import annotations

from typing import Final

from ctxtop.core.model.conversation import ConversationMessage, Entry, MessagePart, PartKind, Role

_SPEAKERS: Final = {
    PartKind.TEXT: Role.ASSISTANT,
    PartKind.THINKING: Role.ASSISTANT,
    PartKind.TOOL_INPUT: Role.ASSISTANT,
}


def message(*pieces: MessagePart) -> ConversationMessage:
    """One message of these pieces."""
    role = _SPEAKERS.get(pieces[0].kind, Role.USER)
    return ConversationMessage(role, (Entry(0, 1, 1, role.value, role=role, parts=pieces),))


def prompt(text: str = "go on") -> ConversationMessage:
    return message(MessagePart(PartKind.PROMPT, text))


def answer(text: str = "done") -> ConversationMessage:
    return message(MessagePart(PartKind.TEXT, text))


def calls(*ids: str) -> ConversationMessage:
    return message(*(MessagePart(PartKind.TOOL_INPUT, "{}", "Read", each) for each in ids))


def results(*ids: str, kind: PartKind = PartKind.TOOL_RESULT) -> ConversationMessage:
    return message(*(MessagePart(kind, "what it said", "Read", each) for each in ids))
