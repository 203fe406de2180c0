"""What comes back behind a boundary is what the session was told of its surroundings last."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ctxtop.core.transcript.visible_messages import reannounced_attachments
from msgspec.structs import replace

from ..entries import asked, attached

if TYPE_CHECKING:
    from ctxtop.core.model.conversation import Entry


def told(kind: str, words: str = "words") -> Entry:
    return replace(attached(kind, words), subtype=kind)


def test_the_newest_state_and_all_additions_come_back() -> None:
    away = [
        told("environment", "old"),
        told("deferred_tools_delta", "one"),
        asked("Hi."),
        told("environment", "new"),
        told("deferred_tools_delta", "two"),
        told("file", "a file that was read"),
    ]
    again = reannounced_attachments(away, [])
    assert [each.parts[0].text for each in again] == ["one", "new", "two"]


def test_what_stays_is_not_announced_again() -> None:
    away, kept = [told("skill_listing"), told("date")], [told("date")]
    assert [each.subtype for each in reannounced_attachments(away, kept)] == ["skill_listing"]
