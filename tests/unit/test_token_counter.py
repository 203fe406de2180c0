"""Tokens that the API has not counted yet, and the limit that they are held against."""

from __future__ import annotations

import pytest
from ctxtop.core.compaction import compression_decision
from ctxtop.core.compaction.compression_decision import (
    CounterSettings,
    CountingMethod,
    LimitSettings,
    TokenCount,
    count_message_tokens,
    count_text_tokens,
    count_tokens,
    model_limit,
    usage_ratio,
)

from .talk import calls, prompt, results

CHARS4 = CounterSettings(CountingMethod.CHARS4)


@pytest.mark.parametrize("text", [None, 5, b"bytes", ["list"], {"a": 1}, ""])
def test_what_is_no_text_has_no_tokens(text: object) -> None:
    assert count_tokens(text) == 0


def test_a_text_is_counted_with_the_table() -> None:
    assert count_text_tokens("hello world") == TokenCount(2, estimated=False)


@pytest.mark.parametrize("error", [OSError, ValueError])
def test_without_the_table_characters_are_counted(
    monkeypatch: pytest.MonkeyPatch, error: type[Exception]
) -> None:
    def fail(_: str) -> int:
        raise error

    monkeypatch.setattr(compression_decision, "estimate_tokens", fail)

    assert count_text_tokens("abcde") == TokenCount(2, estimated=True)
    assert count_message_tokens([prompt("abcde")]) == TokenCount(6, estimated=True)


def test_characters_may_be_counted_by_choice() -> None:
    assert count_text_tokens("abcde", CountingMethod.CHARS4) == TokenCount(2, estimated=True)


@pytest.mark.parametrize(("text", "tokens"), [("한국어", 2), ("abcdefgh", 2), ("한국어abcd", 3)])
def test_korean_takes_more_tokens(text: str, tokens: int) -> None:
    assert count_text_tokens(text, CountingMethod.SCRIPT) == TokenCount(tokens, estimated=True)


def test_a_message_costs_four_tokens_and_its_calls_and_results_count() -> None:
    assert count_message_tokens([prompt("")]).tokens == 4
    # Read and {} are a token each in characters; "what it said" are three, after Read.
    assert count_message_tokens([calls("a"), results("a")], CHARS4).tokens == 4 + 2 + 4 + 4


@pytest.mark.parametrize(
    ("model", "limit"),
    [
        ("claude-haiku-4-5-20251001", 160_000),
        ("claude-opus-5-5", 800_000),
        ("claude-sonnet-4-5[1m]", 800_000),
        ("gpt-4", 100_000),
        (None, 100_000),
    ],
)
def test_a_limit_is_a_safe_share_of_the_window(model: str | None, limit: int) -> None:
    assert model_limit(model) == limit


def test_a_limit_can_be_set_but_not_to_nothing() -> None:
    settings = LimitSettings().with_limit("gpt-4", 8_000).with_limit("gpt-4", 0)

    assert model_limit("gpt-4", settings.with_limit("gpt-4", -1)) == 8_000
    assert model_limit("gpt-4") == 100_000


def test_the_whole_window_may_be_the_limit() -> None:
    assert model_limit("claude-opus-5-5", LimitSettings(safety_factor=1.0)) == 1_000_000


def test_usage_is_a_share_of_the_limit() -> None:
    assert usage_ratio([prompt("a" * 4 * 99_996)], None, settings=CHARS4) == 1.0
    assert usage_ratio([], "claude-opus-5-5") == 0.0
