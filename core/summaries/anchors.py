"""Messages that a summary must not lose: their words are given to it as they stand.

Source: requirements 2.2.2, 003-05 and 003-28.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from .importance import ImportanceSettings, has_anchor, score_message

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..conversation import Message


class AnchorSettings(msgspec.Struct, frozen=True):
    """How many messages are anchors, and by what they are chosen."""

    max_anchors: int = 5
    """003-28."""
    importance: ImportanceSettings = ImportanceSettings()


_DEFAULT: Final = AnchorSettings()


def find_anchors(
    messages: Sequence[Message], settings: AnchorSettings = _DEFAULT
) -> tuple[Message, ...]:
    """Choose the anchors, first come the marked ones, then the highest score, then the newest."""
    marker = settings.importance.anchor_marker

    def by_rank(place: int) -> tuple[bool, float, int]:
        message = messages[place]
        score = score_message(message, settings.importance)
        return (has_anchor(message, marker), score, place)

    ranked = sorted(range(len(messages)), key=by_rank, reverse=True)
    return tuple(messages[place] for place in ranked[: max(0, settings.max_anchors)])
