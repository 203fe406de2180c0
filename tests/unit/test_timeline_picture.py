"""The timeline as lines, and the part of it that is seen."""

from __future__ import annotations

import pytest
from ctxtop.core.measure.timeline import (
    Timeline,
    TimelineCompaction,
    TimelineEvent,
    TimelineEventKind,
)
from ctxtop.tui.entities.timeline_picture import (
    MIN_SPAN,
    TimelineMove,
    TimelineViewport,
    scale_top,
    timeline_lines,
    turn_axis,
)
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.cells import cell_len

from ..processor_time import thread_seconds
from .test_timeline import cut, timeline, turn


def drawn(found: Timeline, width: int = 100, height: int = 14, at: int | None = None) -> list[str]:
    scope = TimelineViewport().with_count(len(found.turns))
    scope = scope if at is None else scope.moved_to(at)
    return [line.plain for line in timeline_lines(found, scope, width, height)]


@settings(deadline=None)
@given(
    st.lists(st.integers(0, 260_000), min_size=1, max_size=120),
    st.integers(12, 240),
    st.integers(1, 40),
    st.data(),
)
def test_every_line_is_filled_to_its_end(
    sizes: list[int], width: int, height: int, data: st.DataObject
) -> None:
    at = data.draw(st.integers(0, len(sizes) - 1))
    cuts = tuple(cut(n, 5_000) for n in data.draw(st.sets(st.integers(0, len(sizes)), max_size=5)))
    marks = tuple(
        TimelineEvent(n, kind, None, "x")
        for n, kind in sorted(
            data.draw(
                st.sets(
                    st.tuples(st.integers(0, len(sizes) - 1), st.sampled_from(TimelineEventKind)),
                    max_size=9,
                )
            )
        )
    )
    found = timeline(
        *sizes, cuts=tuple(sorted(cuts, key=lambda one: one.turns_before)), marks=marks
    )
    scope = TimelineViewport().with_count(len(sizes)).moved_to(at)
    for zoom in (TimelineMove.ZOOM_RESET, TimelineMove.ZOOM_IN, TimelineMove.ZOOM_IN):
        scope = scope.after_move(zoom)
        lines = timeline_lines(found, scope, width, height)
        assert len(lines) == height
        assert {cell_len(line.plain) for line in lines} == {width}


def test_thresholds_and_the_trigger_have_their_lines_and_names() -> None:
    found = timeline(20_000, 165_000)
    with_trigger = Timeline(found.turns, found.window, trigger=167_000)
    lines = drawn(with_trigger)
    assert any("167 k ───" in line and line.rstrip().endswith("compacts") for line in lines)
    assert any("140 k ┄┄┄" in line and line.rstrip().endswith("70 %") for line in lines)
    assert any("◂165 k" in line for line in lines)


def test_a_compaction_says_before_and_after() -> None:
    lines = drawn(timeline(*range(10_000, 170_000, 10_000), 9_000, 12_000, cuts=(cut(16, 7_400),)))
    assert "170 k → ≈7.4 k of messages ↻" in lines[0]
    assert any("┊" in line for line in lines)


def test_every_compaction_is_seen_however_many_turns_there_are() -> None:
    sizes = [10_000] * 5_000
    cuts = tuple(TimelineCompaction(n, None, 1, 1, "auto", str(n)) for n in range(500, 5_000, 500))
    lane = drawn(timeline(*sizes, cuts=cuts))[0]
    assert lane.count("↻") == len(cuts)


def test_the_worst_of_a_place_is_its_mark() -> None:
    kinds = (TimelineEventKind.STARTED, TimelineEventKind.FAILED, TimelineEventKind.RETURNED)
    marks = tuple(TimelineEvent(n, kind, None, "x") for n, kind in enumerate(kinds))
    lane = drawn(timeline(*([9_000] * 1_000), marks=marks))[-2]
    assert lane.strip() == "✗"
    near = drawn(timeline(*([9_000] * 10), marks=marks))[-2]
    assert "".join(near.split()) == "●✗✓"


def test_a_small_context_is_drawn_close_up_and_a_large_one_against_the_window() -> None:
    assert scale_top(timeline(9_000)) == 20_000
    assert scale_top(timeline(60_000)) == 200_000
    assert scale_top(timeline(230_000)) == 230_000
    assert "of 200 k" in "\n".join(drawn(timeline(9_000)))


def test_a_click_finds_the_turn_that_is_drawn_there() -> None:
    scope = TimelineViewport().with_count(37)
    along = turn_axis(scope, 100)
    for place in range(37):
        for cell in along.cells_of(place):
            assert along.turn_at(cell + along.left) == place
    many = turn_axis(TimelineViewport().with_count(5_000), 100)
    assert many.turn_at(0) == 0
    assert many.turn_at(99) >= 4_900


@pytest.mark.parametrize("height", [5, 14, 22])
def test_100_000_answers_are_drawn_within_a_frame_or_two(height: int) -> None:
    turns = tuple(turn(n % 190_000, n) for n in range(100_000))
    found = Timeline(
        turns,
        200_000,
        tuple(TimelineCompaction(n, None, 1, 1, "auto", str(n)) for n in range(0, 100_000, 900)),
    )
    scope = TimelineViewport().with_count(len(turns))
    assert thread_seconds(lambda: timeline_lines(found, scope, 180, height)) < 0.25


# What is seen of it.


def test_the_end_is_kept_only_where_it_was_looked_at() -> None:
    assert TimelineViewport().with_count(10).with_count(20).cursor == 19
    assert TimelineViewport().with_count(10).moved_to(3).with_count(20).cursor == 3
    assert TimelineViewport().with_count(10).moved_to(9).with_count(20).at is None
    assert TimelineViewport().with_count(10).moved_to(7).with_count(5).cursor == 4


def test_the_cursor_stays_in_sight() -> None:
    scope = TimelineViewport().with_count(200).zoomed(20)
    assert (scope.start, scope.stop) == (180, 200)
    for move in (
        TimelineMove.FIRST,
        TimelineMove.FAR_LATER,
        TimelineMove.FAR_LATER,
        TimelineMove.LATER,
        TimelineMove.NEWEST,
        TimelineMove.EARLIER,
    ):
        scope = scope.after_move(move)
        assert scope.start <= scope.cursor < scope.stop
    assert scope.cursor == 198


def test_zoom_ends_where_nothing_more_is_to_be_seen() -> None:
    scope = TimelineViewport().with_count(300)
    for _ in range(20):
        scope = scope.after_move(TimelineMove.ZOOM_IN)
    assert scope.visible == MIN_SPAN
    for _ in range(20):
        scope = scope.after_move(TimelineMove.ZOOM_OUT)
    assert scope.span is None
    assert TimelineViewport().with_count(3).after_move(TimelineMove.ZOOM_IN).visible == 3


def test_to_pan_takes_the_cursor_along_at_the_edge() -> None:
    scope = TimelineViewport().with_count(100).zoomed(20)
    back = scope.panned(-30)
    assert (back.start, back.cursor) == (50, 69)
    assert back.panned(10).cursor == 69
    assert back.panned(-500).start == 0
    assert back.panned(500).stop == 100


def test_nothing_can_be_moved_along_nothing() -> None:
    scope = TimelineViewport()
    for move in TimelineMove:
        assert scope.after_move(move).cursor == 0
