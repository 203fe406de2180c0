"""A context over its turns: what each answer saw, and what happened at it."""

from __future__ import annotations

from ctxtop.core.measure.timeline import (
    Timeline,
    TimelineCompaction,
    TimelineEvent,
    TimelineEventKind,
    TimelineTurn,
    bucket_turns,
    with_current_context,
)
from ctxtop.core.model.levels import Level
from hypothesis import given, settings
from hypothesis import strategies as st


def turn(tokens: int, number: int = 0) -> TimelineTurn:
    return TimelineTurn(
        number, number, f"m{number}", number * 1000, "claude-haiku-4-5", tokens, 20, 0
    )


def timeline(
    *sizes: int, cuts: tuple[TimelineCompaction, ...] = (), marks: tuple[TimelineEvent, ...] = ()
) -> Timeline:
    turns = tuple(turn(size, number) for number, size in enumerate(sizes))
    return Timeline(turns, 200_000, cuts, marks)


def cut(before: int, left: int | None) -> TimelineCompaction:
    return TimelineCompaction(before, None, 170_000, left, "auto", "u")


def test_growth_is_since_the_turn_before_unless_a_compaction_is_between() -> None:
    found = timeline(18_000, 30_000, 23_000, 26_000, cuts=(cut(2, 8_000),))
    # 8,000 are of the messages, 23,000 with the system prompt and the tools: no 15,000 came in.
    assert [found.growth(n) for n in range(4)] == [None, 12_000, None, 3_000]


def test_level_and_ratio_are_of_the_window() -> None:
    found = timeline(100_000, 160_000, 220_000)
    assert [found.level(n) for n in range(3)] == [None, Level.WARNING, Level.OVERFLOW]
    assert found.ratio(2) == 1.1


def test_marks_are_found_by_their_turn() -> None:
    marks = tuple(TimelineEvent(n, TimelineEventKind.STARTED, None, str(n)) for n in (0, 1, 1))
    assert [mark.what for mark in timeline(1, 2, marks=marks).events_at(1)] == ["1", "1"]


@settings(deadline=None)
@given(st.lists(st.integers(0, 300_000), min_size=1, max_size=300), st.integers(1, 200), st.data())
def test_no_peak_and_no_turn_is_lost(sizes: list[int], places: int, data: st.DataObject) -> None:
    start = data.draw(st.integers(0, len(sizes) - 1))
    stop = data.draw(st.integers(start + 1, len(sizes)))
    found = bucket_turns(timeline(*sizes), start, stop, places)
    assert len(found) == places
    assert max(each.peak for each in found) == max(sizes[start:stop])
    seen = {n for each in found for n in range(each.first, each.last + 1)}
    assert seen == set(range(start, stop))
    assert [each.first for each in found] == sorted(each.first for each in found)


def test_nothing_has_no_places() -> None:
    assert bucket_turns(timeline(1), 0, 0, 10) == []
    assert bucket_turns(timeline(1), 0, 1, 0) == []


def test_after_a_compaction_it_ends_with_what_that_left() -> None:
    found = with_current_context(timeline(18_000, 170_000, cuts=(cut(2, 8_000),)))
    assert found.ends_with_current
    assert [each.tokens for each in found.turns] == [18_000, 170_000, 8_000]
    assert found.growth(2) is None
    answered = timeline(18_000, 9_000, cuts=(cut(1, 8_000),))
    assert with_current_context(answered) is answered
    unknown = timeline(18_000, cuts=(cut(1, None),))
    assert with_current_context(unknown) is unknown
    assert with_current_context(timeline(cuts=(cut(0, 7_000),))).turns[0].tokens == 7_000
