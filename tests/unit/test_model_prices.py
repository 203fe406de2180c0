"""Prices, windows and answer sizes by model are the client's own, as it printed them (2.1.332)."""

from __future__ import annotations

from typing import Final

import pytest
from ctxtop.core.model.claude_models import (
    PriceRate,
    dollars_by_kind,
    find_price,
    max_output_tokens,
    prompt_rate,
    table_window,
)
from ctxtop.core.model.transcript_records import ChargeRecord

LARGE, SMALL = 1_000_000, 200_000


def cost(model: str, read: int = 7_001, rate: PriceRate = PriceRate.STANDARD) -> float:
    """Price the answer of which every model was asked in the lab."""
    rate |= prompt_rate(1_000 + 8_004 + read)
    used = ChargeRecord(model, rate, 1_000, 8_004, 5_003, read, 2_003, web_searches=3)
    price = find_price(model, rate)
    assert price is not None
    return sum(dollars_by_kind(used, price).values())


CLIENT: Final = (
    ("claude-opus-5-5", 0.1304892, 0.2309784, LARGE, 128_000),
    ("claude-sonnet-5-5", 0.0802446, 0.0802446, LARGE, 128_000),
    ("claude-haiku-5-5", 0.032547235, 0.032547235, LARGE, 128_000),
    ("claude-fable-5-2", 0.2295782, 0.4291564, LARGE, 128_000),
    ("claude-mythos-5-2", 0.2295782, 0.4291564, LARGE, 128_000),
    ("claude-fable-5-1", 0.27947275, 0.27947275, LARGE, 64_000),
    ("claude-mythos-5-1", 0.27947275, 0.27947275, LARGE, 64_000),
    ("claude-opus-5", 0.15736175, 0.2847235, LARGE, 64_000),
    ("claude-sonnet-5", 0.0809447, 0.0809447, LARGE, 64_000),
    ("claude-fable-5", 0.2847235, 0.2847235, LARGE, 64_000),
    ("claude-mythos-5", 0.2847235, 0.2847235, LARGE, 64_000),
    ("claude-mythos-preview", 0.1304892, 0.1304892, LARGE, 32_000),
    ("claude-opus-4-8", 0.15736175, 0.2847235, LARGE, 64_000),
    ("claude-opus-4-7", 0.15736175, 0.7941705, LARGE, 64_000),
    ("claude-opus-4-6", 0.15736175, 0.7941705, SMALL, 64_000),
    ("claude-opus-4-6[1m]", 0.15736175, 0.7941705, LARGE, 64_000),
    ("claude-sonnet-4-6", 0.10641705, 0.10641705, SMALL, 32_000),
    ("claude-sonnet-4-6[1m]", 0.10641705, 0.10641705, LARGE, 32_000),
    ("claude-opus-4-5", 0.15736175, 0.15736175, SMALL, 32_000),
    ("claude-sonnet-4-5-20250929", 0.10641705, 0.10641705, SMALL, 32_000),
    ("claude-sonnet-4-5-20250929[1m]", 0.10641705, 0.10641705, LARGE, 32_000),
    ("claude-haiku-4-5-20251001", 0.05547235, 0.05547235, SMALL, 32_000),
    ("claude-sonnet-4-20250514", 0.10641705, 0.10641705, SMALL, 32_000),
    ("claude-sonnet-4-0", 0.10641705, 0.10641705, SMALL, 32_000),
    ("claude-3-7-sonnet-20250219", 0.10641705, 0.10641705, SMALL, 32_000),
    ("claude-3-7-sonnet-latest", 0.10641705, 0.10641705, SMALL, 32_000),
    ("claude-3-5-sonnet-20241022", 0.10641705, 0.10641705, SMALL, 8_192),
    ("claude-3-5-haiku-20241022", 0.05037788, 0.05037788, SMALL, 8_192),
    ("claude-3-opus-20240229", 0.1304892, 0.1304892, SMALL, 4_096),
)
"""Model, dollars at standard speed and in fast mode, window, largest answer."""


@pytest.mark.parametrize(("model", "standard", "fast", "window", "output"), CLIENT)
def test_a_model_is_as_the_client_says(
    model: str, standard: float, fast: float, window: int, output: int
) -> None:
    assert cost(model) == pytest.approx(standard)
    assert cost(model, rate=PriceRate.FAST) == pytest.approx(fast)
    assert (table_window(model), max_output_tokens(model)) == (window, output)


@pytest.mark.parametrize(
    ("model", "read", "expected"),
    [
        ("claude-opus-5-5", 250_001, 0.1790892),
        ("claude-haiku-5-5", 150_001, 0.049886175),
        ("claude-haiku-5-5", 250_001, 0.054886175),
        ("claude-sonnet-4-6[1m]", 250_001, 0.17931705),
        ("claude-sonnet-4-5-20250929[1m]", 250_001, 0.17931705),
    ],
)
def test_long_prompts_cost_what_the_client_says(model: str, read: int, expected: float) -> None:
    assert cost(model, read) == pytest.approx(expected)
    if "opus" not in model:  # which alone of these has a price of fast mode
        assert cost(model, read, PriceRate.FAST) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("model", "window", "output"),
    [("claude-3-haiku-20240307", SMALL, 4_096), ("claude-3-sonnet-20240229", SMALL, 8_192)],
)
def test_windows_of_models_that_the_client_has_no_price_of(
    model: str, window: int, output: int
) -> None:
    assert (table_window(model), max_output_tokens(model)) == (window, output)


def test_an_answer_made_in_the_us_alone_costs_a_tenth_more_but_not_its_searches() -> None:
    plain, us = cost("claude-opus-5-5"), cost("claude-opus-5-5", rate=PriceRate.US)
    assert us == pytest.approx((plain - 0.03) * 1.1 + 0.03)


def test_a_persons_own_price_is_for_every_rate() -> None:
    own = {"claude-opus": "4/20"}
    prices = [
        find_price("claude-opus-5-5", rate, own) for rate in (PriceRate.STANDARD, PriceRate.FAST)
    ]
    assert prices[0] == prices[1]
