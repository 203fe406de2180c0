"""A conversation split in two: what stays word for word, and what a summary takes the place of.

Source: requirements 003-16, 003-26 to 003-28, R001-01 and T-04.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from ..conversation import Message, PieceKind
from ..summaries.anchors import AnchorSettings, find_anchors

if TYPE_CHECKING:
    from collections.abc import Sequence


class BufferSettings(msgspec.Struct, frozen=True):
    """How much stays."""

    recent_message_count: int = 10
    """Messages that stay whole, at least (003-26)."""
    summary_max_tokens: int = 500
    """Of the summary of all others (003-27)."""
    anchors: AnchorSettings = AnchorSettings()


class Buffer(msgspec.Struct, frozen=True):
    """A conversation's two parts, oldest first."""

    recent: tuple[Message, ...]
    older: tuple[Message, ...]
    """To be summarised, in `summary_max_tokens`."""
    anchors: tuple[Message, ...]
    """Of the older ones: their words go into the summary's input as they stand."""
    summary_max_tokens: int
    note: str = ""
    """Said where more stays than was asked for."""


_DEFAULT: Final = BufferSettings()

_ANSWERS: Final = frozenset({PieceKind.TOOL_RESULT, PieceKind.AGENT_RETURN})


def manage_buffer(messages: Sequence[Message], settings: BufferSettings = _DEFAULT) -> Buffer:
    """Split a conversation; a tool's call and its result always stay together (R001-01).

    The API refuses a result whose call is gone. Calls side by side, and steps that follow
    each other, are kept whole by going back to the first call that is needed.
    """
    wanted = max(0, settings.recent_message_count)
    start = _safe_start(messages, max(0, len(messages) - wanted))
    older, recent = tuple(messages[:start]), tuple(messages[start:])
    extended = len(recent) > wanted
    return Buffer(
        recent=recent,
        older=older,
        anchors=find_anchors(older, settings.anchors),
        summary_max_tokens=settings.summary_max_tokens,
        note=f"Extended preserve count to {len(recent)}" if extended else "",
    )


def _safe_start(messages: Sequence[Message], start: int) -> int:
    """Move the first message that stays back, until no result is without its call."""
    calls: dict[str, int] = {}
    needs: list[int] = []
    for place, message in enumerate(messages):
        first = place
        for piece in message.parts:
            if piece.kind is PieceKind.TOOL_INPUT and piece.tool_use_id:
                calls[piece.tool_use_id] = place
            elif _is_result(piece.kind, piece.tool_use_id):
                # Where the call is not known, it is the answer before.
                first = min(first, calls.get(piece.tool_use_id or "", max(0, place - 1)))
        needs.append(first)
    # A message that comes to stay may need others itself, all of them before it.
    place = len(messages)
    while place > start:
        place -= 1
        start = min(start, needs[place])
    return start


def _is_result(kind: PieceKind, tool_use_id: str | None) -> bool:
    """Tell a result, which answers a call; a notification of an agent answers none."""
    return kind in _ANSWERS and tool_use_id is not None
