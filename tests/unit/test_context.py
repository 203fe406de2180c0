"""What is in a context: measured, estimated, or not known."""

from __future__ import annotations

import pytest
from ctxtop.core.context import ContextState, Reading, measure
from ctxtop.core.levels import Level
from ctxtop.core.usage import Usage, context_tokens
from ctxtop.core.window import Window, WindowSource

WINDOW = Window(200_000, WindowSource.MODEL_TABLE)


def test_the_output_is_not_in_the_context() -> None:
    usage = Usage(
        input_tokens=1, cache_creation_tokens=20, cache_read_tokens=300, output_tokens=4000
    )

    assert context_tokens(usage) == 321


def test_an_answer_is_measured_also_where_a_boundary_was_before_it() -> None:
    context = measure(Reading(answer_tokens=50_000, post_tokens=9_000), WINDOW)

    assert (context.tokens, context.state) == (50_000, ContextState.MEASURED)
    assert context.ratio == 0.25


def test_a_boundary_is_an_estimate_until_the_next_answer() -> None:
    context = measure(Reading(answer_tokens=None, post_tokens=9_000), WINDOW)

    assert (context.tokens, context.state) == (9_000, ContextState.ESTIMATED)


def test_before_the_first_answer_nothing_is_known_not_zero() -> None:
    context = measure(Reading(answer_tokens=None), WINDOW)

    assert (context.tokens, context.ratio, context.level) == (None, None, None)
    assert context.state is ContextState.UNKNOWN


def test_an_answer_of_no_tokens_is_measured() -> None:
    assert measure(Reading(0, 9_000), WINDOW).state is ContextState.MEASURED


def test_more_than_the_window_is_not_clamped() -> None:
    context = measure(Reading(210_000), WINDOW)

    assert context.ratio == pytest.approx(1.05)
    assert context.level is Level.OVERFLOW
