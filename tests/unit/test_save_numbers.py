"""Bands, crossings, durations, re-fires and the compat matrix of the save flow."""

from __future__ import annotations

import math

import pytest
from ctxtop.core.measure.token_estimate import nearest_rank
from ctxtop.core.model.config_records import MemoryPluginRecord
from ctxtop.core.model.context import Context, ContextState, TokenCounts
from ctxtop.core.model.context_window import ClaimSource, Trigger, Window
from ctxtop.core.saves.memory_plugin import PluginFit, SaveArchitecture, check_plugin
from ctxtop.core.saves.save_metrics import (
    BEFORE_BAND,
    DEFAULT_SAVE_TOKENS,
    LEAK_LINES,
    LEAK_REDUCTION,
    MIN_SAMPLES,
    ONE_CATEGORY_BAND,
    SIX_CATEGORIES_BAND,
    THREE_CATEGORIES_BAND,
    BandPosition,
    CostBand,
    IntRange,
    Rate,
    check_crossing,
    compare_before_after,
    compare_with_bands,
    count_refires,
    expected_band,
    expected_cost,
    fire_distribution,
    phase_means,
    summarize_durations,
    trigger_rates,
)
from ctxtop.core.saves.save_noise import SaveNoise, Saver, TriageDataForm
from msgspec.structs import replace

NOISE = SaveNoise(
    form=TriageDataForm.FILE,
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
        for each in (BEFORE_BAND, ONE_CATEGORY_BAND, THREE_CATEGORIES_BAND, SIX_CATEGORIES_BAND)
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
    verdicts = compare_with_bands(replace(NOISE, lines=lines))
    found = next(each for each in verdicts if each.band == ONE_CATEGORY_BAND)

    assert found.lines is BandPosition(place)
    assert found.tokens is BandPosition.WITHIN
    assert found.is_expected
    assert found.is_met == (place != "above")
    assert [each.is_expected for each in verdicts] == [False, True, False, False]


@pytest.mark.parametrize(
    ("categories", "band"),
    [
        (0, None),
        (1, ONE_CATEGORY_BAND),
        (2, THREE_CATEGORIES_BAND),
        (3, THREE_CATEGORIES_BAND),
        (4, SIX_CATEGORIES_BAND),
        (6, SIX_CATEGORIES_BAND),
        (9, SIX_CATEGORIES_BAND),
    ],
)
def test_the_band_of_a_number_of_categories(categories: int, band: CostBand | None) -> None:
    assert expected_band(categories) == band


def test_a_leak_widens_what_is_expected() -> None:
    leaking = replace(NOISE, lines=27, tokens=3_500, leaked_calls=1)
    by_name = {each.band.name: each for each in compare_with_bands(leaking)}

    assert by_name["004-16"].is_met
    assert not any(
        each.is_met
        for each in compare_with_bands(replace(leaking, lines=28))
        if each.band == ONE_CATEGORY_BAND
    )
    assert by_name["004-15"].lines is BandPosition.BELOW
    assert IntRange(5).position_of(10**9) is BandPosition.WITHIN


def test_by_how_much_a_save_is_above_its_band_and_what_a_leak_takes_from_it() -> None:
    """004-18, 004-19, 004-38."""
    over = replace(NOISE, categories=("decision",), lines=14, tokens=1_700)
    expected = next(each for each in compare_with_bands(over) if each.is_expected)
    assert (expected.lines_over, expected.tokens_over) == (2, 200)
    assert expected.reduction == (0.85, 0.85)
    leaking = replace(over, lines=14 + LEAK_LINES.low, leaked_calls=3)
    expected = next(each for each in compare_with_bands(leaking) if each.is_expected)
    assert (expected.lines_over, expected.tokens_over) == (0, 0)
    assert expected.reduction == (LEAK_REDUCTION, LEAK_REDUCTION) == (0.6, 0.6)
    three = replace(leaking, categories=("a", "b", "c"))
    expected = next(each for each in compare_with_bands(three) if each.is_expected)
    assert expected.reduction == (0.5, 0.6)


def filled(counter: int | None, trigger: int | None) -> Context:
    placed = None if trigger is None else Trigger(trigger, ClaimSource.TABLE)
    counts = TokenCounts(counter, counter, counter)
    window = Window(200_000, ClaimSource.TABLE)
    return Context(counter, ContextState.MEASURED, window, placed, counts)


def test_whether_a_save_would_cross_the_trigger() -> None:
    cost = expected_cost([NOISE, replace(NOISE, tokens=2001)])
    assert (cost.tokens, cost.sample_count) == (1600, 2)

    for counter, crosses in ((165_400, False), (165_401, True), (170_000, True)):
        found = check_crossing("s", filled(counter, 167_000), cost)
        assert found
        assert found.would_cross == crosses
        assert found.tokens_to_trigger == max(0, 167_000 - counter)
    known = check_crossing("s", filled(0, 167_000), cost)
    assert known
    assert known.window_share == pytest.approx(1600 / 200_000)
    assert check_crossing("s", filled(None, 167_000), cost) is None
    assert check_crossing("s", filled(1, None), cost) is None
    assert expected_cost([]).tokens == DEFAULT_SAVE_TOKENS == 13_500


def test_durations_by_nearest_rank_and_bucket() -> None:
    found = summarize_durations([*range(1, 20), 1_000, 60_000, math.nan, -1])
    assert found

    assert (found.count, found.max_ms) == (21, 60_000)
    assert (found.p50_ms, found.p95_ms) == (11, 1_000)
    assert found.buckets == (19, 1, 0, 0, 1)
    assert summarize_durations([math.inf]) is None
    assert nearest_rank([7.0], 0.95) == 7


def test_a_rate_needs_samples() -> None:
    assert Rate(5, MIN_SAMPLES - 1).share is None
    assert Rate(5, MIN_SAMPLES).share == 0.5


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
    assert count_refires([], 1800) == 0
    assert count_refires([0, 1_800_000, 3_600_001], 1800) == 1
    assert count_refires([0, None, 5], 1800) == 2
    assert fire_distribution([1, 1, 2, 3, 7, 0]) == {"1": 2, "2": 1, "3+": 2}


def test_before_and_after() -> None:
    loud = replace(
        NOISE, form=TriageDataForm.INLINE, saver=Saver.MAIN, lines=50, items=26, tokens=9000
    )
    change = compare_before_after([NOISE, loud, replace(loud, form=TriageDataForm.FILE), NOISE])

    assert change.before
    assert change.after
    assert (change.before.saves, change.before.items) == (2, 26)
    assert (change.after.saves, change.after.lines) == (2, 10)
    assert change.reduction == pytest.approx(0.8)
    assert compare_before_after([NOISE]).reduction is None


@pytest.mark.parametrize(
    ("skill", "triage", "fit", "architecture"),
    [
        (False, False, PluginFit.OK, SaveArchitecture.INLINE),
        (True, False, PluginFit.OK, SaveArchitecture.INLINE),
        (True, True, PluginFit.OK, SaveArchitecture.FILE),
        (False, True, PluginFit.BROKEN, SaveArchitecture.FILE),
        (None, True, PluginFit.UNKNOWN, SaveArchitecture.FILE),
        (True, None, PluginFit.UNKNOWN, SaveArchitecture.UNKNOWN),
    ],
)
def test_the_compat_matrix(
    skill: bool | None, triage: bool | None, fit: PluginFit, architecture: SaveArchitecture
) -> None:
    plugin = MemoryPluginRecord("/p", "claude-memory@x", "5.0.0", "", skill, triage, False)
    found = check_plugin(plugin)

    assert (found.fit, found.architecture) == (fit, architecture)
    newest = check_plugin(replace(plugin, has_orchestrator=True))
    assert newest.architecture is SaveArchitecture.DETERMINISTIC
