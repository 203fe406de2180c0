"""When a context is full enough to say so, and when to say it again."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

import pytest
from ctxtop.core.model.levels import (
    DEFAULT_PLACED_THRESHOLDS,
    FillPoint,
    Level,
    LevelWarning,
    PlacedThreshold,
    RearmRule,
    Threshold,
    ThresholdBase,
    ThresholdOp,
    find_warnings,
    place_thresholds,
    reached_level,
)
from msgspec.structs import replace

from ..seed import SEED


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
    assert reached_level(ratio) is level


def test_a_threshold_in_tokens_is_inclusive() -> None:
    assert [reached_level(tokens / 200_000) for tokens in (139_999, 140_000, 170_000, 190_000)] == [
        None,
        Level.NOTICE,
        Level.HIGH,
        Level.EMERGENCY,
    ]


@pytest.mark.parametrize("limit", [99_999, 100_001, 123_457, 200_000])
@pytest.mark.parametrize("window", [None, 200_000, 1_000_000])
def test_a_level_begins_at_the_whole_tokens_of_its_share(limit: int, window: int | None) -> None:
    """001-25: `int(limit * share)`; 001-42: above it, by the strict comparison."""
    size = window or limit
    for share in (0.25, 0.75, 0.8, 0.85, 0.95):
        first = int(limit * share + 1e-6)
        for op, start in ((ThresholdOp.AT_LEAST, first), (ThresholdOp.ABOVE, first + 1)):
            listed = [Threshold(share, Level.HIGH, "compact", op)]
            (placed,) = place_thresholds(listed, size, None, limit)
            at = [placed.is_reached(tokens / size) for tokens in (start - 1, start, start + 1)]
            assert at == [False, True, True], (share, op)


@pytest.mark.parametrize("limit", [*range(99_990, 100_010), 160_000, 200_000])
def test_a_warning_knows_the_limit_that_its_threshold_is_a_share_of(limit: int) -> None:
    listed = [
        Threshold(share, level, "inform", op)
        for share, level, op in (
            (0.25, Level.NOTICE, ThresholdOp.AT_LEAST),
            (0.8, Level.WARNING, ThresholdOp.ABOVE),
        )
    ]
    window = 200_000
    placed = place_thresholds(listed, window, None, limit)
    found = find_warnings([FillPoint(1, 190_001 / window, tokens=190_001)], placed)
    assert [each.placed_threshold.limit_share for each in found] == [0.25, 0.8]
    for each in found:
        assert each.limit_tokens == (None if limit == window else limit)
        assert each.limit_ratio == 190_001 / limit


def test_what_is_no_share_of_the_window_has_no_limit() -> None:
    listed = [
        Threshold(1.0, Level.HIGH, "native", of=ThresholdBase.TRIGGER),
        Threshold(90_000, Level.NOTICE, "inform", of=ThresholdBase.TOKENS),
    ]
    placed = place_thresholds(listed, 200_000, 167_000, 100_000)
    found = find_warnings([FillPoint(1, 0.9, tokens=180_000)], placed)
    assert [(each.limit_tokens, each.limit_ratio) for each in found] == [(None, 0.9)] * 2


def said(*ratios: float | None) -> list[tuple[Level, int | None]]:
    points = [FillPoint(at, ratio) for at, ratio in enumerate(ratios)]
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
        [
            FillPoint(1, 0.81),
            FillPoint(2, None, compacted=True),
            FillPoint(3, 0.71),
            FillPoint(4, 0.72),
        ]
    )

    assert [(warning.level, warning.at, warning.cleared_at) for warning in found] == [
        (Level.NOTICE, 1, 2),
        (Level.WARNING, 1, 2),
        (Level.NOTICE, 3, None),
    ]


def test_a_compaction_that_freed_little_says_it_again() -> None:
    found = find_warnings([FillPoint(1, 0.9), FillPoint(2, 0.82, compacted=True)])

    assert [(warning.level, warning.at) for warning in found if warning.cleared_at is None] == [
        (Level.NOTICE, 2),
        (Level.WARNING, 2),
    ]


def test_the_same_facts_give_the_same_warnings() -> None:
    points = [FillPoint(at, ratio) for at, ratio in enumerate((0.5, 0.9, 0.6, 0.97, 1.2, 0.1))]

    assert find_warnings(points) == find_warnings(iter(points))


AT_80 = PlacedThreshold(0.80, Level.WARNING, "0.8")
NEVER = RearmRule(on_compaction=False, hysteresis=None)


def at_80(rearm: RearmRule, *points: FillPoint) -> list[tuple[int | None, int | None]]:
    return [(each.at, each.cleared_at) for each in find_warnings(points, [AT_80], rearm)]


def test_a_strict_line_begins_above_its_ratio() -> None:
    above = PlacedThreshold(0.80, Level.NOTICE, ">0.8", ThresholdOp.ABOVE)

    assert reached_level(0.80, [above]) is None
    assert reached_level(160_001 / 200_000, [above]) is Level.NOTICE
    assert reached_level(160_000 / 200_000, [AT_80]) is Level.WARNING


def test_the_most_urgent_level_counts_and_not_the_highest_line() -> None:
    lines = [
        PlacedThreshold(0.75, Level.HIGH, "0.75"),
        PlacedThreshold(0.80, Level.NOTICE, ">0.8", ThresholdOp.ABOVE),
    ]

    assert reached_level(0.9, lines) is Level.HIGH


@pytest.mark.parametrize(
    ("ratio", "level"),
    [
        (0.8499, None),
        (0.85, Level.LIGHT),
        (0.90, Level.MEDIUM),
        (0.95, Level.AGGRESSIVE),
    ],
)
def test_levels_of_compression(ratio: float, level: Level | None) -> None:
    lines = [
        PlacedThreshold(0.85, Level.LIGHT, "0.85"),
        PlacedThreshold(0.90, Level.MEDIUM, "0.9"),
        PlacedThreshold(0.95, Level.AGGRESSIVE, "0.95"),
    ]

    assert reached_level(ratio, lines) is level


def test_every_level_has_a_severity_that_is_its_own() -> None:
    assert {level.severity.severity for level in Level} == {
        Level.NOTICE,
        Level.WARNING,
        Level.HIGH,
        Level.EMERGENCY,
        Level.OVERFLOW,
    }


def test_never_again() -> None:
    points = (
        FillPoint(1, 0.9),
        FillPoint(2, 0.1, compacted=True),
        FillPoint(3, 0.9),
        FillPoint(4, 0.2),
    )

    assert at_80(NEVER, *points) == [(1, 2)]


def test_a_level_that_is_said_once_ends_when_it_is_left() -> None:
    assert at_80(NEVER, FillPoint(1, 0.9), FillPoint(2, 0.79), FillPoint(3, 0.9)) == [(1, 2)]


def test_with_every_answer() -> None:
    every = RearmRule(cooldown_ms=0)

    assert [at for at, _ in at_80(every, *(FillPoint(at, 0.9) for at in range(3)))] == [0, 1, 2]


def test_again_after_a_time_and_not_before() -> None:
    minute = RearmRule(on_compaction=False, hysteresis=None, cooldown_ms=60_000)
    times = (0, 59_999, 60_000, 100_000, 120_000)
    compacted = FillPoint(60_001, 0.1, compacted=True)
    points = sorted(
        [*(FillPoint(at, 0.9) for at in times), compacted], key=lambda each: each.at or 0
    )

    assert [at for at, _ in at_80(minute, *points)] == [0, 60_000, 120_000]


def test_a_fall_alone_rearms_where_a_compaction_does_not() -> None:
    fall = RearmRule(on_compaction=False)
    little, much = FillPoint(2, 0.78, compacted=True), FillPoint(2, 0.7, compacted=True)

    assert at_80(fall, FillPoint(1, 0.9), little, FillPoint(3, 0.9)) == [(1, None)]
    assert at_80(fall, FillPoint(1, 0.9), much, FillPoint(3, 0.9)) == [(1, 2), (3, None)]


def test_a_compaction_alone_rearms_where_a_fall_does_not() -> None:
    compaction = RearmRule(hysteresis=None)
    compacted = FillPoint(4, 0.1, compacted=True)

    assert at_80(compaction, FillPoint(1, 0.9), FillPoint(2, 0.1), FillPoint(3, 0.9)) == [(1, None)]
    assert at_80(compaction, FillPoint(1, 0.9), compacted, FillPoint(5, 0.9)) == [(1, 4), (5, None)]


REARMS = [
    RearmRule(),
    NEVER,
    RearmRule(cooldown_ms=0),
    RearmRule(on_compaction=False, hysteresis=None, cooldown_ms=3),
    RearmRule(on_compaction=False),
    RearmRule(hysteresis=None),
]


@pytest.mark.parametrize("rearm", REARMS)
def test_facts_cut_anywhere_give_the_same_warnings(rearm: RearmRule) -> None:
    dice = random.Random(SEED)
    for _ in range(200):
        points = [
            FillPoint(
                at, dice.choice([None, dice.random() * 1.2]), dice.random() < 0.1, mark=str(at)
            )
            for at in range(dice.randrange(1, 25))
        ]
        whole = find_warnings(points, DEFAULT_PLACED_THRESHOLDS, rearm)
        found: list[LevelWarning] = []
        place = 0
        while place < len(points):
            end = place + dice.randrange(1, 6)
            found = find_warnings(points[place:end], DEFAULT_PLACED_THRESHOLDS, rearm, found)
            place = end
        assert found == whole, SEED


@dataclass
class Told:
    """A context whose window turns out to be another."""

    tokens: list[tuple[int, int]] = field(default_factory=list)
    """Line and fill in tokens of what was said."""
    said: list[LevelWarning] = field(default_factory=list)
    window: int = 0

    def sees(self, window: int, *tokens: int) -> list[tuple[int, int]]:
        """Go on with this window; give what is said by now."""
        scale = self.window / window if self.window else 1.0
        moved = [
            replace(
                each,
                placed_threshold=replace(
                    each.placed_threshold, at=each.placed_threshold.at * scale
                ),
            )
            for each in self.said
        ]
        self.window = window
        points = [FillPoint(fill, fill / window, tokens=fill) for fill in tokens]
        before = len(moved)
        self.said = find_warnings(points, [AT_80], RearmRule(), moved)
        self.tokens += [
            (round(each.threshold * window), each.point.tokens or 0) for each in self.said[before:]
        ]
        return self.tokens


def test_a_window_that_turns_out_smaller_says_nothing_twice() -> None:
    told = Told()
    told.sees(200_000, 165_000)

    assert told.sees(190_000, 166_000) == [(160_000, 165_000)]


def test_a_window_that_turns_out_larger_says_it_again_where_it_then_lies() -> None:
    told = Told()
    told.sees(200_000, 165_000, 190_000)

    assert told.sees(1_000_000, 210_000, 799_999) == [(160_000, 165_000)]
    assert told.sees(1_000_000, 800_000) == [(160_000, 165_000), (800_000, 800_000)]


def test_a_window_that_changes_to_and_fro_says_nothing_twice() -> None:
    told = Told()
    told.sees(200_000, 165_000)
    told.sees(1_000_000, 166_000)

    assert told.sees(200_000, 167_000) == [(160_000, 165_000)]
