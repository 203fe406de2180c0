"""How forecasts are corrected by how far they were off."""

from __future__ import annotations

import math
import random
from contextlib import closing
from typing import TYPE_CHECKING

import pytest
from ctxtop.core.measure.forecast import (
    DISTANCES,
    FAR_TURNS,
    MAX_REPLAYED_MOMENTS,
    SHIPPED_CALIBRATION,
    SHIPPED_WEIGHT,
    ForecastCalibration,
    GrowthPrior,
    PastGuess,
    TurnGuess,
    blend_calibration,
    guess_turns,
    make_forecast,
    make_prior,
    measure_errors,
    replay_forecasts,
    replay_targets,
    split_runs,
)
from ctxtop.core.model.outlook import Interval
from ctxtop.core.model.stored_rows import FillRow
from ctxtop.core.readers.fleet_reader import read_prior
from ctxtop.core.store.queries.evidence_queries import (
    read_forecast_calibration,
    save_forecast_calibration,
)
from ctxtop.core.store.writer import Writer
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

if TYPE_CHECKING:
    from pathlib import Path

SPREAD = 0.36


def misses(factor: float, turns: float = 16.0, count: int = 50) -> list[PastGuess]:
    """Guesses that were all too low by the same factor."""
    return [PastGuess(TurnGuess(turns, SPREAD), round(turns * factor)) for _ in range(count)]


def grown(source: random.Random, pace: float, start: int) -> list[FillRow]:
    tokens = 30_000
    rows: list[FillRow] = []
    while tokens < 167_000:
        rows.append(FillRow(start + len(rows) * 20_000, tokens, 0))
        tokens += int(source.lognormvariate(pace, 1.2))
    return rows


def test_a_guess_that_was_always_too_low_is_raised_by_as_much() -> None:
    found = measure_errors([misses(2.0)])

    assert found is not None
    assert found.correct(TurnGuess(16.0, SPREAD)).p50 == 32


def test_the_fewer_projects_were_measured_the_wider_is_the_interval() -> None:
    one, two, many = (measure_errors([misses(2.0)] * count) for count in (1, 2, 200))

    assert one
    assert two
    assert many
    guess = TurnGuess(16.0, SPREAD)
    assert many.correct(guess) == Interval(32, 32, 32, 32)
    assert one.correct(guess).low < two.correct(guess).low < 32
    assert 32 < two.correct(guess).high < one.correct(guess).high


def test_errors_are_looked_at_near_the_distance_of_the_guess() -> None:
    found = measure_errors([misses(2.0, turns=4.0), misses(0.5, turns=128.0)])

    assert found is not None
    assert found.correct(TurnGuess(4.0, SPREAD)).p50 == 8
    assert found.correct(TurnGuess(128.0, SPREAD)).p50 == 64
    assert found.correct(TurnGuess(4_000.0, SPREAD)).p50 == 2_000


def test_far_away_there_is_a_lower_bound_alone() -> None:
    near, far = (
        SHIPPED_CALIBRATION.correct(TurnGuess(turns, SPREAD)) for turns in (0.8 * FAR_TURNS, 200.0)
    )

    assert not near.is_open
    assert near.low < near.p50 < near.p80 < near.high < math.inf
    assert far.is_open
    assert FAR_TURNS < far.low < far.p50
    assert far.p80 == far.high == math.inf


def test_a_lower_bound_alone_holds_four_of_five_times() -> None:
    """An interval's leaves out a tenth, and so does its upper one."""
    spread = [PastGuess(TurnGuess(100.0, SPREAD), took) for took in range(51, 151)]
    found = measure_errors([spread] * 100)

    assert found is not None
    assert found.correct(TurnGuess(100.0, SPREAD)).low == pytest.approx(71, abs=2)


def test_one_project_s_far_errors_say_nothing_of_the_next_one_s() -> None:
    """The lower bound is that of the guess's own spread then, and the more of theirs, the more."""
    late = [PastGuess(TurnGuess(100.0, SPREAD), took) for took in range(151, 251)]
    own = round(100 * math.exp(-0.8416 * SPREAD) + 0.5)
    guess = TurnGuess(100.0, SPREAD)
    lows = [
        found.correct(guess).low
        for count in (1, 2, 10, 100)
        if (found := measure_errors([late] * count)) is not None
    ]
    assert lows[0] == own
    assert lows == sorted(set(lows))
    assert lows[-1] == pytest.approx(171, abs=4)
    # On a machine without projects the two that were shipped count half.
    shipped = SHIPPED_CALIBRATION.correct(guess).low
    measured = replace(SHIPPED_CALIBRATION, far_share=1.0).correct(guess).low
    assert min(own, measured) < shipped < max(own, measured)


def test_sources_that_disagree_make_the_interval_wider() -> None:
    sure, unsure = (SHIPPED_CALIBRATION.correct(TurnGuess(30.0, spread)) for spread in (0.2, 0.8))

    assert unsure.high - unsure.low > 1.5 * (sure.high - sure.low)


def test_without_sessions_the_shipped_errors_hold() -> None:
    assert measure_errors([]) is None
    assert (
        blend_calibration([], SHIPPED_CALIBRATION)
        == blend_calibration([[], []], SHIPPED_CALIBRATION)
        == SHIPPED_CALIBRATION
    )


def test_the_more_projects_a_machine_has_the_less_counts_what_is_shipped() -> None:
    plain = ForecastCalibration(((0.0, 0.0, 0.0, 0.0, 0.0),) * len(DISTANCES))
    few, many = (
        blend_calibration([misses(4.0)] * count, plain).correct(TurnGuess(16.0, SPREAD)).p50
        for count in (1, 20 * SHIPPED_WEIGHT)
    )

    assert 16 < few < 32
    assert many >= 60


@given(
    st.floats(1, 1e6),
    st.floats(0, 5),
    st.lists(
        st.builds(
            PastGuess,
            st.builds(TurnGuess, st.floats(1, 1e4), st.floats(0, 5)),
            st.integers(1, 10**5),
        ),
        max_size=20,
    ),
)
def test_bounds_are_in_order_whatever_was_measured(
    turns: float, spread: float, found: list[PastGuess]
) -> None:
    told = blend_calibration([found], SHIPPED_CALIBRATION).correct(TurnGuess(turns, spread))

    assert 1 <= told.low <= told.p50 <= told.p80 <= told.high
    assert told.is_open is (told.p50 > FAR_TURNS)


def test_a_replay_guesses_by_what_was_known_at_the_time() -> None:
    rows = grown(random.Random(1), 6.5, 0)
    prior = make_prior([grown(random.Random(2), 6.5, 10**9)])
    size = replay_targets(rows)[0]
    end = next(n for n, row in enumerate(rows) if (row.tokens or 0) >= size)
    whole = replay_forecasts(rows, prior, most=10**6)

    assert [miss.took for miss in whole[:end]] == list(range(end, 0, -1))
    assert whole[20].guess == guess_turns(rows[:21], size, prior)


def test_of_a_long_session_some_moments_stand_for_all() -> None:
    rows = grown(random.Random(1), 6.5, 0)
    prior = make_prior([grown(random.Random(2), 6.5, 10**9)])
    some, every = replay_forecasts(rows, prior), replay_forecasts(rows, prior, most=10**6)

    assert len(some) == MAX_REPLAYED_MOMENTS
    assert sum(miss.weight for miss in some) == pytest.approx(len(every))


def test_a_replay_stops_at_a_compaction() -> None:
    first, second = grown(random.Random(1), 7, 0), grown(random.Random(2), 7, 10**8)
    cut = FillRow(10**7, 9_000, 1)

    assert list(split_runs([*first, cut, *second])) == [first, second]
    assert list(split_runs([*first[:2], cut, *first[:2]])) == []


def test_the_interval_and_the_p80_hold_on_sessions_that_nobody_asked_before() -> None:
    source = random.Random(5)
    sessions = [grown(source, source.gauss(6.6, 0.4), n * 10**9) for n in range(36)]
    learnt, unseen = sessions[:18], sessions[18:]
    found = [
        replay_forecasts(rows, make_prior(each for each in learnt if each is not rows))
        for rows in learnt
    ]
    prior = replace(make_prior(learnt), calibration=measure_errors(found))
    inside: list[bool] = []
    bounds: list[bool] = []
    over: list[bool] = []
    sooner: list[float] = []
    for rows in unseen:
        for size in replay_targets(rows):
            end = next(n for n, row in enumerate(rows) if (row.tokens or 0) >= size)
            for turn in range(0, end, 5):
                said = make_forecast(rows[: turn + 1], size, prior)
                assert said is not None
                took = end - turn
                sooner.append((took < said.turns.p50) + (took == said.turns.p50) / 2)
                if said.turns.is_open:
                    bounds.append(took >= said.turns.low)
                else:
                    inside.append(said.turns.low <= took <= said.turns.high)
                    over.append(took <= said.turns.p80)

    assert 0.7 <= sum(bounds) / len(bounds) <= 0.95
    assert 0.7 <= sum(inside) / len(inside) <= 0.9
    assert 0.7 <= sum(over) / len(over) <= 0.9
    assert 0.4 <= sum(sooner) / len(sooner) <= 0.6


def test_a_prior_from_the_store_is_calibrated_by_what_was_measured_here(tmp_path: Path) -> None:
    own = ForecastCalibration(((0.1, 0.2, -0.3, 0.4, -0.2),) * len(DISTANCES))
    with closing(Writer(tmp_path / "store.db")) as writer:
        db = writer.connection
        assert read_prior(db) == GrowthPrior(calibration=SHIPPED_CALIBRATION)
        for calibration in (SHIPPED_CALIBRATION, own):
            save_forecast_calibration(db, calibration, 500)
        assert read_prior(db).calibration == own


@pytest.mark.parametrize(
    "kept",
    ["", "{}", '{"errors": [[1, 2, 3, 4, 5]]}', '{"errors": [[1, 2, 3, 4]]}', '{"errors": "x"}'],
)
def test_a_calibration_of_another_form_is_as_none(tmp_path: Path, kept: str) -> None:
    with closing(Writer(tmp_path / "store.db")) as writer:
        db = writer.connection
        db.execute("INSERT INTO forecast_calibration VALUES (1, 9, ?)", [kept])
        assert read_forecast_calibration(db) is None
        assert read_prior(db).calibration == SHIPPED_CALIBRATION
