"""What comes back behind a boundary is what the session was told of its surroundings last."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ctxtop.core.compaction.announced import announced_again
from ctxtop.core.compaction.overhead import opening, overhead_of
from msgspec.structs import replace

from ..entries import answered, asked, attached

if TYPE_CHECKING:
    from ctxtop.core.conversation import Entry


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
    again = announced_again(away, [])
    assert [each.parts[0].text for each in again] == ["one", "new", "two"]


def test_what_stays_is_not_announced_again() -> None:
    away, kept = [told("skill_listing"), told("date")], [told("date")]
    assert [each.subtype for each in announced_again(away, kept)] == ["skill_listing"]


def test_the_system_prompt_is_what_the_first_request_had_beyond_its_messages() -> None:
    talk = [asked("Hi."), answered("ok", context=20_000), asked("On."), answered("y", 90_000)]
    assert opening(talk, []) == talk[:2]
    assert opening(talk, talk) == [], "the newest answer says it"
    assert overhead_of([], talk, lambda _: 300) == 19_700
    assert overhead_of([], talk[:1], lambda _: 300) == 0
