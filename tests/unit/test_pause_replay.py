"""What the replay of pauses counts: each outcome of a warning, priced by hand."""

from __future__ import annotations

import pytest
from ctxtop.core.model.claude_models import FIVE_MINUTES_MS, MILLION, make_price

from ..bench.bench_pauses import (
    ASKING_TOKENS,
    MODEL,
    NOTICE_MS,
    SUMMARY_TOKENS,
    Outcome,
    Request,
    Session,
    heeds_all,
    knows,
    price_of,
    replay_all,
)

SMALL = 20_000
"""Tokens after a compaction."""


def request(at: int, read: int, written: int, *, ends_turn: bool = True) -> Request:
    return Request(at, MODEL, 0, read, written, lasts_hour=False, ends_turn=ends_turn)


FIRST = request(0, 0, 10_000, ends_turn=False)
LARGE = request(1_000, 10_000, 50_000)
COLD = request(1_000 + 2 * FIVE_MINUTES_MS, 0, 61_000, ends_turn=False)
PRICE = price_of(LARGE) or make_price(0, 0)
COST = 60_000 * PRICE.read + ASKING_TOKENS * PRICE.input + SUMMARY_TOKENS * PRICE.output


def replay(*requests: Request, threshold: int = 0) -> Outcome:
    return replay_all([Session(requests, FIRST.tokens)], SMALL, threshold, heeds_all)


def test_a_pause_past_the_lifetime_saves_what_is_not_written_again() -> None:
    after = request(COLD.at + 1_000, 61_000, 100, ends_turn=False)
    found = replay(FIRST, LARGE, COLD, after)
    assert (found.right, found.in_time, found.never) == (1, 0, 0)
    assert found.saved_tokens == 40_000
    assert found.saved_usd == pytest.approx(40_000 * PRICE.write_5m / MILLION)
    assert found.later_usd == pytest.approx(40_000 * PRICE.read / MILLION)
    assert found.right_cost_usd == pytest.approx(COST / MILLION)
    assert found.needless_cost_usd == 0


def test_a_person_who_comes_back_in_time_has_paid_for_a_summary() -> None:
    back = request(LARGE.at + FIVE_MINUTES_MS - NOTICE_MS + 1, 60_000, 100, ends_turn=False)
    found = replay(FIRST, LARGE, back)
    assert (found.right, found.in_time, found.never) == (0, 1, 0)
    again = (SMALL - FIRST.tokens) * (PRICE.write_5m - PRICE.read)
    assert found.needless_cost_usd == pytest.approx((COST + again) / MILLION)


def test_a_session_that_is_never_gone_on_with_is_pure_cost() -> None:
    found = replay(FIRST, LARGE)
    assert (found.right, found.in_time, found.never) == (0, 0, 1)
    assert found.net_usd == pytest.approx(-COST / MILLION)


@pytest.mark.parametrize(
    "requests",
    [
        pytest.param((FIRST, LARGE, request(2_000, 60_000, 0, ends_turn=False)), id="no pause"),
        pytest.param((FIRST, request(1_000, 10_000, 50_000, ends_turn=False)), id="in a turn"),
        pytest.param((FIRST, request(1_000, 10_000, 2_000)), id="as small as it can be"),
    ],
)
def test_nothing_is_warned_of(requests: tuple[Request, ...]) -> None:
    found = replay(*requests)
    assert found == Outcome()


def test_a_session_below_the_threshold_is_not_warned_of() -> None:
    assert replay(FIRST, LARGE, COLD, threshold=60_001) == Outcome()


def test_who_knows_compacts_before_what_is_lost_alone() -> None:
    sessions = [Session(each, FIRST.tokens) for each in ((FIRST, LARGE, COLD), (FIRST, LARGE))]
    found = replay_all(sessions, SMALL, 0, knows)
    assert (found.right, found.never) == (1, 0)
    assert found.needless_cost_usd == 0
