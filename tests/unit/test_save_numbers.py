"""Bands, crossings, durations, re-fires and the compat matrix of the save flow."""

from __future__ import annotations

import math

import pytest
from ctxtop.core.nearest_rank import nearest_rank
from ctxtop.core.saves.bands import BEFORE, ONE, SIX, THREE, Band, Place, Span, expected_band, judge
from ctxtop.core.saves.blocks import Form
from ctxtop.core.saves.compat import Architecture, Fit, judge_plugin
from ctxtop.core.saves.crossing import REFERENCE_TOKENS, crossing, expected_cost
from ctxtop.core.saves.metrics import (
    LEAST_SAMPLES,
    Rate,
    before_after,
    durations,
    fire_distribution,
    phase_means,
    refires,
    trigger_rates,
)
from ctxtop.core.saves.noise import Noise, Saver
from ctxtop.core.store.surroundings_facts import SavePluginFact
from msgspec.structs import replace

NOISE = Noise(
    form=Form.FILE,
    categories=("decision",),
    lines=10,
    items=4,
    tokens=1200,
    is_estimated=False,
    classes={},
    saver=Saver.AGENT,
)


def test_the_bands_are_those_of_the_requirements() -> None:
    told = {
        each.name: (each.lines.low, each.lines.high, each.tokens.low, each.tokens.high)
        for each in (BEFORE, ONE, THREE, SIX)
    }
    assert told == {
        "004-15": (50, None, 7_000, 20_000),
        "004-16": (8, 12, 1_000, 1_500),
        "004-17": (13, 24, 1_500, 3_000),
        "004-18": (21, 38, 2_500, 5_000),
    }


@pytest.mark.parametrize(
    ("lines", "place"),
    [(7, "below"), (8, "within"), (12, "within"), (13, "above")],
)
def test_both_ends_belong_to_a_band(lines: int, place: str) -> None:
    verdicts = judge(replace(NOISE, lines=lines))
    found = next(each for each in verdicts if each.band == ONE)

    assert found.lines is Place(place)
    assert found.tokens is Place.WITHIN
    assert found.is_expected
    assert found.is_met == (place != "above")
    assert [each.is_expected for each in verdicts] == [False, True, False, False]


@pytest.mark.parametrize(
    ("categories", "band"),
    [(0, None), (1, ONE), (2, THREE), (3, THREE), (4, SIX), (6, SIX), (9, SIX)],
)
def test_the_band_of_a_number_of_categories(categories: int, band: Band | None) -> None:
    assert expected_band(categories) == band


def test_a_leak_widens_what_is_expected() -> None:
    leaking = replace(NOISE, lines=27, tokens=3_500, leaked_calls=1)
    by_name = {each.band.name: each for each in judge(leaking)}

    assert by_name["004-16"].is_met
    assert not any(each.is_met for each in judge(replace(leaking, lines=28)) if each.band == ONE)
    assert by_name["004-15"].lines is Place.BELOW
    assert Span(5).position_of(10**9) is Place.WITHIN


def test_whether_a_save_would_cross_the_trigger() -> None:
    cost = expected_cost([NOISE, replace(NOISE, tokens=2001)])
    assert (cost.tokens, cost.sample_count) == (1600, 2)

    for counter, crosses in ((165_400, False), (165_401, True), (170_000, True)):
        found = crossing("s", counter, 167_000, cost)
        assert found
        assert found.would_cross == crosses
        assert found.tokens_to_trigger == max(0, 167_000 - counter)
    known = crossing("s", 0, 167_000, cost)
    assert known
    assert known.share == pytest.approx(1600 / 167_000)
    assert crossing("s", None, 167_000, cost) is None
    assert crossing("s", 1, None, cost) is None
    assert expected_cost([]).tokens == REFERENCE_TOKENS == 13_500


def test_durations_by_nearest_rank_and_bucket() -> None:
    found = durations([*range(1, 20), 1_000, 60_000, math.nan, -1])
    assert found

    assert (found.count, found.max_ms) == (21, 60_000)
    assert (found.p50_ms, found.p95_ms) == (11, 1_000)
    assert found.buckets == (19, 1, 0, 0, 1)
    assert durations([math.inf]) is None
    assert nearest_rank([7.0], 0.95) == 7


def test_a_rate_needs_samples() -> None:
    assert Rate(5, LEAST_SAMPLES - 1).share is None
    assert Rate(5, LEAST_SAMPLES).share == 0.5


def test_which_categories_trigger_and_how_long_each_phase_takes() -> None:
    assert trigger_rates([["DECISION", "decision"], ["decision", "runbook"], []]) == {
        "decision": Rate(2, 3),
        "runbook": Rate(1, 3),
    }
    assert phase_means([{"draft_ms": 10, "total_ms": 30}, {"draft_ms": 20, "odd": math.inf}]) == {
        "draft_ms": 15,
        "total_ms": 30,
    }


def test_refires() -> None:
    assert refires([], 1800) == 0
    assert refires([0, 1_800_000, 3_600_001], 1800) == 1
    assert refires([0, None, 5], 1800) == 2
    assert fire_distribution([1, 1, 2, 3, 7, 0]) == {"1": 2, "2": 1, "3+": 2}


def test_before_and_after() -> None:
    loud = replace(NOISE, form=Form.INLINE, saver=Saver.MAIN, lines=50, items=26, tokens=9000)
    change = before_after([NOISE, loud, replace(loud, form=Form.FILE), NOISE])

    assert change.before
    assert change.after
    assert (change.before.saves, change.before.items) == (2, 26)
    assert (change.after.saves, change.after.lines) == (2, 10)
    assert change.reduction == pytest.approx(0.8)
    assert before_after([NOISE]).reduction is None


@pytest.mark.parametrize(
    ("skill", "triage", "fit", "architecture"),
    [
        (False, False, Fit.OK, Architecture.INLINE),
        (True, False, Fit.OK, Architecture.INLINE),
        (True, True, Fit.OK, Architecture.FILE),
        (False, True, Fit.BROKEN, Architecture.FILE),
        (None, True, Fit.UNKNOWN, Architecture.FILE),
        (True, None, Fit.UNKNOWN, Architecture.UNKNOWN),
    ],
)
def test_the_compat_matrix(
    skill: bool | None, triage: bool | None, fit: Fit, architecture: Architecture
) -> None:
    plugin = SavePluginFact("/p", "claude-memory@x", "5.0.0", "", skill, triage, False)
    found = judge_plugin(plugin)

    assert (found.fit, found.architecture) == (fit, architecture)
    newest = judge_plugin(replace(plugin, has_orchestrator=True))
    assert newest.architecture is Architecture.DETERMINISTIC
