import pytest
from ctxtop.core.model.claude_models import FIVE_MINUTES_MS, HOUR_MS
from ctxtop.core.model.cold_prompt import (
    NO_COLD_PROMPT,
    CacheState,
    RewriteCost,
    find_cold_prompt,
    price_cache,
    price_rewrite,
)
from ctxtop.core.model.session_activity import UNKNOWN_CACHE, PromptCache

EXPIRES_MS = 1_800_000_000_000
CACHE = PromptCache(EXPIRES_MS, tokens=225_000, lifetime_ms=HOUR_MS)
MODEL = "claude-opus-5-5"  # 4 dollars per million, for an hour 8


@pytest.mark.parametrize(
    ("before_ms", "state", "seconds", "tokens_now"),
    [
        (120_001, CacheState.WARM, 121, 0),
        (120_000, CacheState.GOING_COLD, 120, 0),
        (1, CacheState.GOING_COLD, 1, 0),
        (0, CacheState.COLD, 0, 225_000),
        (-HOUR_MS, CacheState.COLD, 0, 225_000),
    ],
)
def test_a_cache_goes_cold_within_the_notice_time(
    before_ms: int, state: CacheState, seconds: int, tokens_now: int
) -> None:
    found = find_cold_prompt(CACHE, None, EXPIRES_MS - before_ms, notice_ms=120_000)
    assert (found.state, found.seconds_left) == (state, seconds)
    assert (found.tokens, found.tokens_now) == (225_000, tokens_now)


def test_nothing_is_known_of_a_session_without_a_cache() -> None:
    found = find_cold_prompt(UNKNOWN_CACHE, None, EXPIRES_MS)
    assert found == NO_COLD_PROMPT
    assert found.tokens_now is None
    assert not found.matters(0)


def test_another_model_finds_a_cold_cache_at_once() -> None:
    other = PromptCache(EXPIRES_MS, tokens=9, is_for_next_model=False)
    found = find_cold_prompt(other, None, EXPIRES_MS - HOUR_MS)
    assert (found.state, found.seconds_left, found.tokens_now) == (CacheState.COLD, 0, 9)


@pytest.mark.parametrize(
    ("lifetime_ms", "usd"), [(FIVE_MINUTES_MS, 1.125), (HOUR_MS, 1.8), (None, 1.125)]
)
def test_a_rewrite_has_the_price_of_the_lifetime_that_was_last_written(
    lifetime_ms: int | None, usd: float
) -> None:
    cost = price_rewrite(225_000, MODEL, lifetime_ms, {})
    assert cost is not None
    assert (cost.usd, cost.warm_usd) == pytest.approx((usd, 0.045))


def test_the_policys_prices_count_and_so_does_the_prompts_length() -> None:
    assert price_cache(CACHE, MODEL, {"claude-opus": "100/1"}) == RewriteCost(45.0, 2.25)
    by_length = [
        cost.usd / tokens * 1_000_000
        for tokens in (100_000, 100_001, 200_001)
        if (cost := price_rewrite(tokens, "claude-haiku-5-5", HOUR_MS, {}))
    ]
    assert by_length == pytest.approx([0.2, 1.0, 1.0])


def test_without_size_or_price_there_is_no_cost() -> None:
    assert price_rewrite(None, MODEL, HOUR_MS, {}) is None
    assert price_rewrite(5, None, HOUR_MS, {}) is None
    assert price_rewrite(5, "somebody-elses-model", HOUR_MS, {}) is None


def test_a_small_rewrite_does_not_matter() -> None:
    found = find_cold_prompt(CACHE, None, EXPIRES_MS)
    assert found.matters(225_000)
    assert not found.matters(225_001)


def test_an_answer_from_the_future_tells_nothing_of_the_cache() -> None:
    lifetime = CACHE.lifetime_ms or 0
    assert find_cold_prompt(CACHE, None, EXPIRES_MS - lifetime - 30_000).state is CacheState.WARM
    ahead = find_cold_prompt(CACHE, None, EXPIRES_MS - lifetime - 3 * 3_600_000)
    assert (ahead.state, ahead.seconds_left) == (CacheState.UNKNOWN, None)
