"""How many turns and minutes are left until a context is full."""

from __future__ import annotations

import math
import random
from statistics import median

import pytest
from ctxtop.core.measure.forecast import (
    PAUSE_MS,
    PRIOR_STARTS,
    PRIOR_TURNS,
    GrowthHistory,
    GrowthPrior,
    make_forecast,
    make_prior,
)
from ctxtop.core.model.outlook import ALREADY_REACHED, Forecast, Interval
from ctxtop.core.model.stored_rows import FillRow
from hypothesis import given
from hypothesis import strategies as st

MINUTE = 60_000


def grown(*growths: int, start: int = 20_000, wait: int = MINUTE) -> list[FillRow]:
    rows = [FillRow(0, start, 0)]
    for growth in growths:
        rows.append(FillRow(len(rows) * wait, (rows[-1].tokens or 0) + growth, 0))
    return rows


def told(rows: list[FillRow], left: int, prior: GrowthPrior | None = None) -> Forecast:
    found = make_forecast(rows, (rows[-1].tokens or 0) + left, prior)
    assert found is not None
    return found


def test_steady_growth_goes_on() -> None:
    found = told(grown(*[1_000] * 100), 20_000)

    assert found.turns.p50 == 20
    assert found.turns.low < 20 < found.turns.high
    assert found.minutes is not None
    assert found.minutes.p50 == pytest.approx(20)
    assert found.minutes.low < 20 < found.minutes.high


def test_far_away_there_is_a_lower_bound_alone() -> None:
    found = told(grown(*[1_000] * 100), 200_000)

    assert found.turns.is_open
    assert 40 < found.turns.low < found.turns.p50 == 200
    assert found.turns.p80 == found.turns.high == math.inf
    assert found.minutes is not None
    assert found.minutes.is_open
    assert 40 < found.minutes.low < found.minutes.p50 == pytest.approx(200)


def test_what_a_few_turns_say_is_less_sure() -> None:
    few, many = (told(grown(*[1_000] * count), 20_000).turns for count in (4, 200))

    assert few.high - few.low > many.high - many.low


def test_what_came_last_counts_more() -> None:
    faster = told(grown(*[500] * 100, *[4_000] * 100), 80_000)
    slower = told(grown(*[4_000] * 100, *[500] * 100), 80_000)

    evenly = 80_000 * 200 / 450_000
    assert faster.turns.p50 < evenly < slower.turns.p50


def test_a_size_that_is_reached_is_no_turn_away() -> None:
    rows = grown(1_000)

    assert make_forecast(rows, 21_000) == make_forecast(rows, 5) == told(rows, 0)
    assert told(rows, 0).turns == ALREADY_REACHED


def test_a_session_that_has_hardly_begun_is_told_by_others_alone() -> None:
    others = make_prior([grown(*[2_000] * 30)])

    assert make_forecast(grown(1_000, 1_000), 100_000) is None
    assert make_forecast(grown(1_000, 1_000, 1_000), 100_000) is not None
    assert told(grown(), 20_000, others).turns == Interval(10, 10, 10, 10)


def test_others_count_less_the_more_turns_a_session_has() -> None:
    others = make_prior([grown(*[8_000] * 50)])
    few, many = (told(grown(*[1_000] * count), 40_000, others).turns for count in (3, 200))

    assert few.p50 < 15 < 30 < many.p50


def test_others_are_counted_to_a_limit_the_newest_first() -> None:
    newest = grown(*[1_000] * PRIOR_TURNS)
    prior = make_prior([grown(1, 2), newest, grown(*[9_999] * 10)])

    assert len(prior.starts) == PRIOR_STARTS
    assert told(grown(), 10_000, prior).turns == Interval(10, 10, 10, 10)


def test_an_empty_store_tells_nothing() -> None:
    assert make_prior([]) == make_prior([[], grown(1, 2, 3), grown(*[0] * 50)]) == GrowthPrior()
    assert make_forecast([], 1_000, GrowthPrior()) is None


def test_growth_is_not_counted_over_a_boundary() -> None:
    rows = [*grown(*[1_000] * 50), FillRow(51 * MINUTE, 3_000, 1)]

    assert make_forecast(rows, 100_000) is None
    rows += [FillRow(52 * MINUTE, 30_000, 0), FillRow(53 * MINUTE, 31_000, 0)]
    assert told(rows, 10_000).turns.p50 == 10


def test_an_unknown_context_has_no_forecast() -> None:
    assert make_forecast([*grown(*[1_000] * 9), FillRow(0, None, 0)], 100_000) is None


@pytest.mark.parametrize("growths", [[0] * 20, [-500] * 20])
def test_a_context_that_does_not_grow_is_told_by_others(growths: list[int]) -> None:
    rows = grown(*growths)

    assert make_forecast(rows, 100_000) is None
    assert told(rows, 20_000, make_prior([grown(*[2_000] * 30)])).turns.p50 == 10


def test_a_long_pause_is_not_work() -> None:
    rows = grown(*[1_000] * 60, wait=20 * PAUSE_MS)

    found = told(rows, 10_000).minutes

    assert found is not None
    assert found.p50 == pytest.approx(10 * PAUSE_MS / MINUTE)


def test_without_times_there_are_no_minutes() -> None:
    rows = [FillRow(None, row.tokens, 0) for row in grown(*[1_000] * 9)]

    assert told(rows, 10_000).minutes is None


def test_a_clock_that_was_set_back_is_no_wait() -> None:
    rows = grown(*[1_000] * 30)
    rows[10] = FillRow(-10 * MINUTE, rows[10].tokens, 0)

    found = told(rows, 10_000).minutes

    assert found is not None
    assert found.p50 == pytest.approx(10, rel=0.1)


def test_a_history_is_asked_from_any_turn_and_goes_round() -> None:
    history = GrowthHistory(3, (0, 10, 10, 40, 50, 50, 80))

    assert [history.turns_until(10, start) for start in range(3)] == [1, 2, 1]
    assert [history.turns_until(11, start) for start in range(3)] == [3, 2, 1]
    assert history.turns_until(400, 0) == 30
    assert history.turns_until(401, 0) == 31


def test_a_history_that_goes_round_is_what_would_be_counted() -> None:
    source = random.Random(4)
    growths = [source.choice([0, 1, 7, 40]) for _ in range(17)] + [1]
    rows = grown(*growths)
    history = make_prior([rows]).starts[0][0]
    for start in range(len(growths)):
        for left in (1, 6, 100, 999):
            turns = total = 0
            while total < left:
                total += growths[(start + turns) % len(growths)]
                turns += 1
            # A lap ends before its turns without growth: those of the next come after.
            assert 0 <= history.turns_until(left, start) - turns <= growths.count(0)


def test_the_interval_holds_in_four_of_five_sessions() -> None:
    source = random.Random(8)
    sessions = [
        grown(*(int(source.lognormvariate(6.4 + 0.3 * (number % 3), 1.2)) for _ in range(200)))
        for number in range(60)
    ]
    prior = make_prior(sessions[30:])
    held: list[bool] = []
    off: list[float] = []
    for rows in sessions[:30]:
        for known in (5, 20, 60):
            target = (rows[known - 1].tokens or 0) + 60_000
            turns = next(i for i, row in enumerate(rows[known:], 1) if (row.tokens or 0) >= target)
            found = make_forecast(rows[:known], target, prior)
            assert found is not None
            if not found.turns.is_open:
                held.append(found.turns.low <= turns <= found.turns.high)
            off.append(abs(found.turns.p50 - turns) / turns)

    assert 0.7 <= sum(held) / len(held) <= 0.95
    assert median(off) < 0.35


fills = st.lists(
    st.builds(
        FillRow,
        st.none() | st.integers(-(10**12), 10**15),
        st.none() | st.integers(0, 10**9),
        st.sampled_from([0, 0, 0, 0, 1]),
    ),
    max_size=30,
)


@given(fills, st.lists(fills, max_size=4), st.integers(-5, 10**9))
def test_any_fill_is_told_in_order_or_not_at_all(
    rows: list[FillRow], others: list[list[FillRow]], target: int
) -> None:
    found = make_forecast(rows, target, make_prior(others))

    for interval in (found.turns, found.minutes) if found else ():
        if interval:
            assert 0 <= interval.low <= interval.p50 <= interval.p80 <= interval.high


def test_the_same_facts_give_the_same_forecast() -> None:
    rows = grown(*(i * 37 % 900 for i in range(100)))

    assert told(rows, 50_000) == told(list(rows), 50_000)
