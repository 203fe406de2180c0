"""What is in a context: measured, estimated, or not known."""

from __future__ import annotations

import pytest
from ctxtop.core.model.answer_facts import TokenUsage, context_tokens
from ctxtop.core.model.context import (
    ContextState,
    StoredTokenCounts,
    TokenCounts,
    measure_context,
)
from ctxtop.core.model.context_window import ClaimSource, Trigger, Window
from ctxtop.core.model.counting_rule import UNREPORTED_USAGE
from ctxtop.core.model.levels import Level

WINDOW = Window(200_000, ClaimSource.TABLE)


def test_the_output_is_not_in_the_context() -> None:
    usage = TokenUsage(
        input_tokens=1, cache_creation_tokens=20, cache_read_tokens=300, output_tokens=4000
    )

    assert context_tokens(usage) == 321


def test_an_answer_is_measured_also_where_a_boundary_was_before_it() -> None:
    context = measure_context(StoredTokenCounts(answer=50_000, boundary_estimate=9_000), WINDOW)

    assert (context.tokens, context.state) == (50_000, ContextState.MEASURED)
    assert context.ratio == 0.25


def test_a_boundary_is_an_estimate_until_the_next_answer() -> None:
    context = measure_context(StoredTokenCounts(boundary_estimate=9_000), WINDOW)

    assert (context.tokens, context.state) == (9_000, ContextState.ESTIMATED)


def test_before_the_first_answer_nothing_is_known_not_zero() -> None:
    context = measure_context(StoredTokenCounts(), WINDOW)

    assert (context.tokens, context.ratio, context.level) == (None, None, None)
    assert context.state is ContextState.UNKNOWN


def test_an_answer_of_no_tokens_says_nothing() -> None:
    context = measure_context(StoredTokenCounts(answer=0, boundary_estimate=9_000), WINDOW)

    assert (context.tokens, context.state) == (None, ContextState.UNKNOWN)
    assert context.token_counts == TokenCounts(None, None, None)


def test_of_an_answer_of_no_tokens_the_text_is_what_is_known() -> None:
    texts = {UNREPORTED_USAGE.text_rule: 700}
    context = measure_context(StoredTokenCounts(answer=0, texts=texts), WINDOW)

    assert (context.tokens, context.state) == (700, ContextState.ESTIMATED)
    assert context.counting.counts_text


def test_more_than_the_window_is_not_clamped() -> None:
    context = measure_context(StoredTokenCounts(answer=210_000), WINDOW)

    assert context.ratio == pytest.approx(1.05)
    assert context.level is Level.OVERFLOW


def test_the_counter_is_measured_against_the_trigger_and_the_fill_against_the_window() -> None:
    counted = StoredTokenCounts(
        answer=100_000, output=20_000, answer_text=90, after_answer=5_250, report=99_000
    )
    context = measure_context(counted, WINDOW, Trigger(167_000, ClaimSource.TABLE))

    assert context.ratio == 0.5
    assert context.trigger_ratio == 0.75
    numbers = context.token_counts
    assert (numbers.fill, numbers.counter, numbers.hook, numbers.report) == (
        100_000,
        125_250,
        120_000,
        99_000,
    )


def test_after_a_boundary_its_estimate_is_the_counter_and_what_hooks_are_told() -> None:
    numbers = measure_context(
        StoredTokenCounts(boundary_estimate=9_000, output=70), WINDOW
    ).token_counts

    assert (numbers.fill, numbers.counter, numbers.hook) == (None, 9_000, 9_000)


def test_without_a_trigger_there_is_no_way_to_it() -> None:
    assert measure_context(StoredTokenCounts(answer=1), WINDOW).trigger_ratio is None
    assert (
        measure_context(
            StoredTokenCounts(answer=1), WINDOW, Trigger(None, ClaimSource.TABLE)
        ).trigger_ratio
        is None
    )
    assert (
        measure_context(
            StoredTokenCounts(), WINDOW, Trigger(167_000, ClaimSource.TABLE)
        ).trigger_ratio
        is None
    )
