"""What the next prompt of a session writes to the prompt cache again, now and after it expires."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import TYPE_CHECKING, Final

import msgspec

from .claude_models import FIVE_MINUTES_MS, HOUR_MS, MILLION, find_price, prompt_rate

if TYPE_CHECKING:
    from .session_activity import (
        PromptCache,  # with the store's records, which a policy does not need
    )


CLOCK_SLACK_MS: Final = 60_000  # by which clocks of two machines may differ
DEFAULT_NOTICE_S: Final = 120  # time to write a hand-off or to compact
DEFAULT_NOTICE_MS: Final = DEFAULT_NOTICE_S * 1000

DEFAULT_MIN_TOKENS: Final = 20_000
"""Instructions and tools alone: a session that is started anew writes as much."""

DEFAULT_NOTIFY_TOKENS: Final = 100_000
"""From half a dollar on with the client's default model: worth being interrupted for."""


class ColdLimits(msgspec.Struct, frozen=True):
    """What a policy says of cold prompts."""

    min_tokens: int = DEFAULT_MIN_TOKENS  # less is not shown
    notify_tokens: int = DEFAULT_NOTIFY_TOKENS  # less does not notify; 0 for never
    notice_ms: int = DEFAULT_NOTICE_MS  # how long before its end a cache is going cold


DEFAULT_LIMITS: Final = ColdLimits()


class CacheState(StrEnum):
    WARM = "warm"
    GOING_COLD = "going_cold"  # it expires within the notice time
    COLD = "cold"
    UNKNOWN = "unknown"


class RewriteCost(msgspec.Struct, frozen=True):
    """US dollars by the table of prices or the policy's own: always an estimate."""

    usd: float  # to write the cache's tokens again, for as long as they lasted
    warm_usd: float  # to read them while they are cached


class ColdPrompt(msgspec.Struct, frozen=True):
    state: CacheState
    tokens: int | None  # that a prompt writes again once the cache has expired
    cost: RewriteCost | None  # of these tokens; None if the model has no price
    seconds_left: int | None  # until the cache expires; 0 once it has, None if unknown
    lifetime_ms: int | None
    estimated: bool  # when it expires; else by the client
    tokens_estimated: bool  # by the last answer's tokens; else by the client

    @property
    def usd(self) -> float | None:
        """The cost of a prompt sent after the cache has expired, without its answer."""
        return self.cost.usd if self.cost else None

    @property
    def tokens_now(self) -> int | None:
        """The tokens that a prompt sent now writes again: none while they are cached."""
        if self.state is CacheState.UNKNOWN:
            return None
        return self.tokens if self.state is CacheState.COLD else 0

    def matters(self, min_tokens: int) -> bool:
        """Return whether what would be written again is large enough to be shown."""
        if self.state is CacheState.UNKNOWN or not self.tokens:
            return False
        return self.tokens >= min_tokens


NO_COLD_PROMPT: Final = ColdPrompt(
    CacheState.UNKNOWN, None, None, None, None, estimated=True, tokens_estimated=True
)


def find_cold_prompt(
    cache: PromptCache, cost: RewriteCost | None, now_ms: int, notice_ms: int = DEFAULT_NOTICE_MS
) -> ColdPrompt:
    """Return what a prompt sent now or later finds; `cost` is that of the cache's tokens."""
    if cache.expires_at is None:
        return NO_COLD_PROMPT
    if cache.expires_at - now_ms > (cache.lifetime_ms or HOUR_MS) + CLOCK_SLACK_MS:
        # Its last answer is dated in the future: by an unknown clock.
        return NO_COLD_PROMPT
    left_ms = max(0, cache.expires_at - now_ms)
    state = CacheState.WARM
    if not cache.is_warm(now_ms):
        state, left_ms = CacheState.COLD, 0
    elif left_ms <= notice_ms:
        state = CacheState.GOING_COLD
    return ColdPrompt(
        state,
        cache.tokens,
        cost,
        # A second that has begun is still left.
        -(-left_ms // 1000),
        cache.lifetime_ms,
        estimated=cache.estimated,
        tokens_estimated=cache.tokens_estimated,
    )


def price_rewrite(
    tokens: int | None,
    model: str | None,
    lifetime_ms: int | None,
    custom_prices: Mapping[str, str],
) -> RewriteCost | None:
    """Price the writing and the reading of a prompt of this size; None without size or price.

    `custom_prices` are by the start of a model's name, as in `find_price`. A lifetime that is not
    known counts as five minutes, the cheaper one.
    """
    if not tokens or not model:
        return None
    price = find_price(model, prompt_rate(tokens), custom_prices)
    if price is None:
        return None
    lasts_an_hour = (lifetime_ms or FIVE_MINUTES_MS) >= HOUR_MS
    write = price.write_1h if lasts_an_hour else price.write_5m
    return RewriteCost(tokens * write / MILLION, tokens * price.read / MILLION)


def price_cache(
    cache: PromptCache, model: str | None, custom_prices: Mapping[str, str]
) -> RewriteCost | None:
    return price_rewrite(cache.tokens, model, cache.lifetime_ms, custom_prices)
