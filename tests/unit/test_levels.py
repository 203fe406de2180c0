"""When a context is full enough to say so, and when to say it again."""

from __future__ import annotations

import pytest
from ctxtop.core.levels import Level, Point, find_warnings, level_of


@pytest.mark.parametrize(
    ("ratio", "level"),
    [
        (None, None),
        (0.0, None),
        (0.6999, None),
        (0.70, Level.NOTICE),
        (0.7999, Level.NOTICE),
        (0.80, Level.WARNING),
        (0.8499, Level.WARNING),
        (0.85, Level.HIGH),
        (0.9499, Level.HIGH),
        (0.95, Level.EMERGENCY),
        (0.9999, Level.EMERGENCY),
        (1.0, Level.OVERFLOW),
        (3.5, Level.OVERFLOW),
    ],
)
def test_a_level_begins_at_its_threshold(ratio: float | None, level: Level | None) -> None:
    assert level_of(ratio) is level


def test_a_threshold_in_tokens_is_inclusive() -> None:
    assert [level_of(tokens / 200_000) for tokens in (139_999, 140_000, 170_000, 190_000)] == [
        None,
        Level.NOTICE,
        Level.HIGH,
        Level.EMERGENCY,
    ]


def said(*ratios: float | None) -> list[tuple[Level, int | None]]:
    points = [Point(at, ratio) for at, ratio in enumerate(ratios)]
    return [(warning.level, warning.at) for warning in find_warnings(points)]


def test_a_level_is_said_once_while_it_stands() -> None:
    assert said(0.70, 0.75, 0.72, 0.79) == [(Level.NOTICE, 0)]


def test_several_levels_crossed_at_once_are_each_said() -> None:
    assert said(0.10, 0.96) == [
        (Level.NOTICE, 1),
        (Level.WARNING, 1),
        (Level.HIGH, 1),
        (Level.EMERGENCY, 1),
    ]


def test_a_small_fall_does_not_rearm() -> None:
    assert said(0.70, 0.6501, 0.71) == [(Level.NOTICE, 0)]


def test_a_fall_of_five_points_rearms() -> None:
    assert said(0.70, 0.65, 0.70) == [(Level.NOTICE, 0), (Level.NOTICE, 2)]


def test_each_level_falls_below_its_own_threshold() -> None:
    assert said(0.86, 0.79, 0.86) == [
        (Level.NOTICE, 0),
        (Level.WARNING, 0),
        (Level.HIGH, 0),
        (Level.HIGH, 2),
    ]


def test_an_unknown_fill_ends_nothing() -> None:
    assert said(0.70, None, 0.71) == [(Level.NOTICE, 0)]


def test_a_compaction_ends_every_level_and_notes_when() -> None:
    found = find_warnings(
        [Point(1, 0.81), Point(2, None, compacted=True), Point(3, 0.71), Point(4, 0.72)]
    )

    assert [(warning.level, warning.at, warning.cleared_at) for warning in found] == [
        (Level.NOTICE, 1, 2),
        (Level.WARNING, 1, 2),
        (Level.NOTICE, 3, None),
    ]


def test_a_compaction_that_freed_little_says_it_again() -> None:
    found = find_warnings([Point(1, 0.9), Point(2, 0.82, compacted=True)])

    assert [(warning.level, warning.at) for warning in found if warning.cleared_at is None] == [
        (Level.NOTICE, 2),
        (Level.WARNING, 2),
    ]


def test_the_same_facts_give_the_same_warnings() -> None:
    points = [Point(at, ratio) for at, ratio in enumerate((0.5, 0.9, 0.6, 0.97, 1.2, 0.1))]

    assert find_warnings(points) == find_warnings(iter(points))
