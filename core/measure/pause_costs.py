"""What leaving, compacting or starting over costs, with a warm and with a cold prompt cache."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Final

import msgspec

from ..model.claude_models import (
    CACHE_WRITE_1H_FACTOR,
    CACHE_WRITE_5M_FACTOR,
    MILLION,
    OUTPUT_FACTOR,
    TokenPrice,
    cache_read_factor,
    find_price,
    prompt_rate,
)
from ..model.pause_ways import DEFAULT_REQUESTS, DEFAULT_REREAD_TOKENS, PauseWay

BASE_TOKENS: Final = 30_000
"""System prompt, tools and project instructions, which every way keeps: the first request of
recorded sessions had 32,500 tokens or more in three of four cases, with its prompt."""

CLIENT_SUMMARY_TOKENS: Final = 8_000  # that the client's compaction writes and leaves, at most
NOTE_SHARE: Final = 0.08  # of the context: the size of a hand-off note (`summary.max_tokens`)
MAX_NOTE_TOKENS: Final = 12_000


class CostUnit(StrEnum):
    USD = "usd"
    INPUT_TOKENS = "input_tokens"  # uncached ones, for models without a price


class TokenRates(msgspec.Struct, frozen=True):
    """What one token costs, in one unit."""

    write: float  # to the prompt cache
    read: float  # from it
    output: float


class PricedModel(msgspec.Struct, frozen=True):
    model: str | None
    lasts_an_hour: bool = False  # what is written to its cache, rather than five minutes
    custom_prices: Mapping[str, str] = {}  # by the start of a model's name

    @property
    def unit(self) -> CostUnit:
        return CostUnit.USD if self._price(0) else CostUnit.INPUT_TOKENS

    def rates(self, tokens: int) -> TokenRates:
        """Return the rates for a prompt of this size."""
        price = self._price(tokens)
        if price is None:
            write = CACHE_WRITE_1H_FACTOR if self.lasts_an_hour else CACHE_WRITE_5M_FACTOR
            return TokenRates(write, cache_read_factor(self.model), OUTPUT_FACTOR)
        write = price.write_1h if self.lasts_an_hour else price.write_5m
        return TokenRates(write / MILLION, price.read / MILLION, price.output / MILLION)

    def _price(self, tokens: int) -> TokenPrice | None:
        if self.model is None:
            return None
        return find_price(self.model, prompt_rate(tokens), self.custom_prices)


class PlannedSize(msgspec.Struct, frozen=True):
    """A plan's own count of the context, and how much stays in a warm cache; in tokens."""

    before_tokens: int
    after_tokens: int
    unmoved_tokens: int


class WayCosts(msgspec.Struct, frozen=True):
    """What one way costs, each up to and with the session's next request, in one unit."""

    way: PauseWay
    now: float  # carried out and gone on with while the cache is warm
    cold: float  # both after it has expired
    paused: float  # carried out while it is warm, gone on with after it has expired
    later: float  # each request after that
    break_even: float | None = None
    """Later requests after which doing it now has cost no more than leaving; None for never."""
    break_even_cold: float | None = None  # the same if both are done after it has expired

    def total(self, first: float, requests: int) -> float:
        """Return what `requests` requests cost, of which `first` is up to and with the first."""
        return first + max(0, requests - 1) * self.later


class PauseCosts(msgspec.Struct, frozen=True):
    """The ways by name; all of it is estimated, for models' prices and sizes are."""

    unit: CostUnit
    requests: int  # over which the ways are compared
    expires_at: int | None  # of the cache, in ms since 1970; None if unknown
    expires_estimated: bool  # not reported by the client
    ways: Mapping[PauseWay, WayCosts]
    percent_dollars: Mapping[str, float] = {}  # as in `Session`; empty unless it is in dollars

    @property
    def leave(self) -> WayCosts:
        return self.ways[PauseWay.LEAVE]

    def paused_total(self, way: PauseWay) -> float:
        """Return the cost of doing it now and going on after the cache has expired."""
        return self.ways[way].total(self.ways[way].paused, self.requests)

    def paused_saving(self, way: PauseWay) -> float:
        """Return how much less that costs than leaving the session as it is."""
        return self.paused_total(PauseWay.LEAVE) - self.paused_total(way)


class PauseQuestion(msgspec.Struct, frozen=True):
    context_tokens: int
    priced: PricedModel
    expires_at: int | None = None
    expires_estimated: bool = True
    plan: PlannedSize | None = None
    percent_dollars: Mapping[str, float] = {}  # as in `Session`
    requests: int = DEFAULT_REQUESTS
    reread_tokens: int = DEFAULT_REREAD_TOKENS


def compare_ways(question: PauseQuestion) -> PauseCosts:
    """Price every way; the answers themselves cost the same in each, and are left out."""
    leave = _leave(question)
    others = [_client(question), _hand_off(question)]
    if question.plan is not None:
        others.append(_plan(question, question.plan))
    ways = [leave, *(_with_break_even(each, leave) for each in others)]
    unit = question.priced.unit
    return PauseCosts(
        unit,
        question.requests,
        question.expires_at,
        question.expires_estimated,
        {each.way: each for each in ways},
        question.percent_dollars if unit is CostUnit.USD else {},
    )


def _leave(question: PauseQuestion) -> WayCosts:
    tokens = question.context_tokens
    rates = question.priced.rates(tokens)
    read, write = tokens * rates.read, tokens * rates.write
    return WayCosts(PauseWay.LEAVE, now=read, cold=write, paused=write, later=read)


def _plan(question: PauseQuestion, plan: PlannedSize) -> WayCosts:
    """Price a plan: everything after its first change is written to the cache again."""
    rates = question.priced.rates(plan.after_tokens)
    unmoved = min(plan.unmoved_tokens, plan.after_tokens)
    write = plan.after_tokens * rates.write
    return WayCosts(
        PauseWay.PLAN,
        now=unmoved * rates.read + (plan.after_tokens - unmoved) * rates.write,
        cold=write,
        paused=write,
        later=plan.after_tokens * rates.read,
    )


def _client(question: PauseQuestion) -> WayCosts:
    """Price /compact: one request reads the whole context and writes a summary of it."""
    whole = question.context_tokens
    base = min(BASE_TOKENS, whole)
    left = base + CLIENT_SUMMARY_TOKENS
    before, after = question.priced.rates(whole), question.priced.rates(left)
    summary = CLIENT_SUMMARY_TOKENS * before.output
    next_warm = base * after.read + CLIENT_SUMMARY_TOKENS * after.write
    return WayCosts(
        PauseWay.CLIENT,
        now=whole * before.read + summary + next_warm,
        # The request that summarizes writes the base again, and the next one reads it.
        cold=whole * before.write + summary + next_warm,
        paused=whole * before.read + summary + left * after.write,
        later=left * after.read,
    )


def _hand_off(question: PauseQuestion) -> WayCosts:
    """Price a new session: it writes its own prompt and the note, and reads files again.

    ctxtop writes the note by rules, which costs nothing.
    """
    whole = question.context_tokens
    note = min(MAX_NOTE_TOKENS, round(whole * NOTE_SHARE))
    size = min(BASE_TOKENS, whole) + note + question.reread_tokens
    rates = question.priced.rates(size)
    first = size * rates.write
    return WayCosts(PauseWay.HAND_OFF, now=first, cold=first, paused=first, later=size * rates.read)


def _with_break_even(way: WayCosts, leave: WayCosts) -> WayCosts:
    saved = leave.later - way.later
    return msgspec.structs.replace(
        way,
        break_even=_requests(way.now - leave.now, saved),
        break_even_cold=_requests(way.cold - leave.cold, saved),
    )


def _requests(extra: float, saved: float) -> float | None:
    if extra <= 0:
        return 0.0
    return extra / saved if saved > 0 else None
