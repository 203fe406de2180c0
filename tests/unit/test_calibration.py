"""Factors are learnt from what contexts grew by, whatever some of the steps say."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import msgspec
import pytest
from ctxtop.core.measure.token_estimate import (
    MIN_SAMPLES,
    CalibrationSample,
    GrowthStep,
    choose_factors,
    fit_factors,
    fit_least_absolute,
    make_sample,
)
from ctxtop.core.measure.tokens import (
    TOKENIZER_PROFILES,
    ContentKind,
    TextCount,
    Tokenizer,
    count_text,
    model_tokenizer,
)
from ctxtop.core.model.conversation import MessagePart, PartKind

from ..seed import SEED

if TYPE_CHECKING:
    from collections.abc import Callable

OLD, NEW, LATEST = "claude-opus-4-6", "claude-opus-5", "claude-opus-5-5"
MADE = (1.2, 0.9, 1.5, 2.0)
"""The factors of a tokenizer that exists here alone: prose, code, JSON, other scripts."""


def made_samples(
    count: int, factors: tuple[float, ...] = MADE, model: str = NEW, outliers: float = 0.0
) -> list[CalibrationSample]:
    """Steps as a tokenizer with these factors would report them, some of them falsely."""
    dice = random.Random(SEED)
    found = []
    for _ in range(count):
        by_kind = tuple(dice.choice((0, dice.randint(20, 3_000))) for _ in factors)
        fixed = dice.randint(10, 800)
        growth = sum(f * n for f, n in zip(factors, by_kind, strict=True)) + fixed
        growth *= dice.uniform(0.97, 1.03)
        if dice.random() < outliers:
            growth += dice.uniform(500, 50_000)
        found.append(CalibrationSample(model, by_kind, fixed, round(growth)))
    return found


@pytest.mark.parametrize("outliers", [0.0, 0.2])
def test_the_factors_of_a_made_tokenizer_are_found(outliers: float) -> None:
    factors = fit_factors(made_samples(250, outliers=outliers))

    assert factors.by_kind == pytest.approx(MADE, rel=0.03)
    assert factors.spread < 0.03


def test_the_spread_says_how_far_a_step_is_off() -> None:
    calm, wild = fit_factors(made_samples(200)), fit_factors(made_samples(200, outliers=0.4))

    assert calm.spread < wild.spread


def test_a_kind_that_no_sample_holds_keeps_its_measured_count() -> None:
    samples = [
        CalibrationSample(NEW, (count, 0, 0, 0), 5, 2 * count + 5) for count in range(100, 200)
    ]

    factors = fit_factors(samples)

    assert factors.factor(ContentKind.PROSE) == pytest.approx(2, rel=0.02)
    assert factors.by_kind[1:] == (1, 1, 1)
    assert factors.apply((100, 10, 0, 0), fixed=7) == pytest.approx(217, abs=3)


def test_a_models_own_factors_are_used_from_enough_samples_on() -> None:
    samples = {NEW: made_samples(MIN_SAMPLES, (1.1,) * len(MADE))}

    assert choose_factors(NEW, samples) == fit_factors(samples[NEW]) != choose_factors(NEW, {})
    assert choose_factors(NEW, {NEW: samples[NEW][1:]}) == choose_factors(NEW, {})


def test_a_model_without_samples_is_counted_as_its_generation_is_here() -> None:
    ones = (1.0,) * len(MADE)
    samples = {NEW: made_samples(100), OLD: made_samples(100, ones, OLD)}

    latest, older = (
        choose_factors(LATEST, samples),
        choose_factors("claude-sonnet-4-5-20250929", samples),
    )

    assert (latest, older) == (fit_factors(samples[NEW]), fit_factors(samples[OLD]))
    assert latest.by_kind == pytest.approx(MADE, rel=0.05)
    assert older.by_kind == pytest.approx(ones, rel=0.05)


@pytest.mark.parametrize("invented", [lambda dice: 500, lambda dice: dice.randint(1, 90_000)])
def test_a_usage_that_fits_no_text_teaches_nothing(
    invented: Callable[[random.Random], int],
) -> None:
    dice = random.Random(SEED)
    samples = [msgspec.structs.replace(each, growth=invented(dice)) for each in made_samples(200)]

    assert choose_factors(NEW, {NEW: samples}) == choose_factors(NEW, {})
    good = {NEW: samples[:40], LATEST: made_samples(200, model=LATEST)}
    assert choose_factors(NEW, good) == fit_factors([*good[NEW], *good[LATEST]])


@pytest.mark.parametrize("model", [None, OLD, NEW, "someone-elses-model"])
def test_without_samples_what_was_measured_holds(model: str | None) -> None:
    factors = choose_factors(model, {})

    assert factors.by_kind == (1.0,) * len(ContentKind)
    assert factors.spread == TOKENIZER_PROFILES[model_tokenizer(model)].spread
    assert factors.apply((10, 20, 30, 40), 5) == 105


@pytest.mark.parametrize(
    ("model", "tokenizer"),
    [
        ("claude-opus-4-6", Tokenizer.OLDER),
        ("claude-sonnet-4-6[1m]", Tokenizer.OLDER),
        ("claude-haiku-4-5-20251001", Tokenizer.OLDER),
        ("us.anthropic.claude-sonnet-4-5-20250929-v1:0", Tokenizer.OLDER),
        ("claude-3-5-haiku-latest", Tokenizer.OLDER),
        ("claude-opus-4-7", Tokenizer.NEWER),
        ("claude-haiku-5-5", Tokenizer.NEWER),
        ("gpt-9", Tokenizer.NEWER),
        ("", Tokenizer.NEWER),
        (None, Tokenizer.NEWER),
    ],
)
def test_every_model_has_a_generation_of_tokenizers(
    model: str | None, tokenizer: Tokenizer
) -> None:
    assert model_tokenizer(model) is tokenizer


def step(output: int, *answer: MessagePart, model: str = OLD) -> GrowthStep:
    added = (MessagePart(PartKind.TOOL_RESULT, "ok " * 100, "Bash"),)
    return GrowthStep(0, "m1", model, 1, 900, output, tuple(answer), added)


WORDS = MessagePart(PartKind.TEXT, "some words " * 50)
THOUGHT = MessagePart(PartKind.THINKING, "I wonder")


def test_a_known_output_is_no_part_of_what_is_learnt() -> None:
    alone, told = (
        make_sample(step(300), count_text),
        make_sample(step(300, WORDS, THOUGHT), count_text),
    )

    assert alone is not None
    assert alone == told
    assert alone.fixed == 300 + round(TOKENIZER_PROFILES[Tokenizer.OLDER].result)
    assert sum(alone.by_kind) > 50


def test_where_the_output_is_a_placeholder_the_answer_is_counted() -> None:
    known, counted = (
        make_sample(step(300, WORDS), count_text),
        make_sample(step(2, WORDS), count_text),
    )

    assert known is not None
    assert counted is not None
    assert sum(counted.by_kind) > sum(known.by_kind) + 50
    assert counted.fixed < 300


def test_a_thought_of_unknown_length_teaches_nothing() -> None:
    assert make_sample(step(2, WORDS, THOUGHT), count_text) is None


def test_a_text_counts_as_the_models_generation_has_it() -> None:
    def count(_: str) -> TextCount:
        return TextCount(ContentKind.JSON, base=10, older=11, newer=17)

    older, newer = (make_sample(step(300, model=model), count) for model in (OLD, NEW))

    assert older is not None
    assert newer is not None
    assert (older.by_kind, newer.by_kind) == ((0, 0, 11, 0), (0, 0, 17, 0))


def test_the_fit_is_that_of_the_least_absolute_error() -> None:
    # Of a constant that is the median, whatever the largest value is.
    (found,) = fit_least_absolute([[1.0]] * 5, [1, 2, 3, 4, 1e6], [0.0])

    assert found == pytest.approx(3, abs=0.1)
