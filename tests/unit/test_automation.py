"""When a session is compacted without being asked: never, unless everything says so (T-10)."""

from __future__ import annotations

from typing import Any

import pytest
from ctxtop.core.claims import Source
from ctxtop.core.compaction.automation import (
    BREAKER_MS,
    RUNS_WITHIN_MS,
    Situation,
    break_even,
    breaker_until,
    should_act,
)
from ctxtop.core.context import Context, ContextState
from ctxtop.core.policy.layers import Given, resolve
from ctxtop.core.policy.policy import Origin, Policy
from ctxtop.core.sessions import Status
from ctxtop.core.window import Window
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

NOW = 1_795_000_000_000
MINUTE = 60_000


def policy(origin: Origin = Origin.PROJECT_FILE, **values: object) -> Policy:
    said = [Given("mode", "auto", origin, "here")]
    said += [
        Given(name.replace("__", "."), value, Origin.PROJECT_FILE, "here")
        for name, value in values.items()
    ]
    return resolve(said)


OPTED_IN = policy()


def context(tokens: int | None = 175_000, source: Source = Source.TABLE) -> Context:
    window = Window(200_000, source)
    state = ContextState.UNKNOWN if tokens is None else ContextState.MEASURED
    return Context(tokens, state, window, lines=OPTED_IN.lines(Window(200_000, Source.TABLE)))


READY = Situation(context(), Status.IDLE, is_open=True, now_ms=NOW)


def test_all_is_well() -> None:
    decision = should_act(OPTED_IN, READY)
    assert decision.compact
    assert "88% of its window is in use" in decision.reason


@pytest.mark.parametrize(
    ("other", "why"),
    [
        (resolve(()), "mode is not auto"),
        (policy(Origin.USER_FILE), "only in the project's own file"),
        (policy(Origin.ENVIRONMENT), "only in the project's own file"),
        (policy(Origin.COMMAND_LINE), "only in the project's own file"),
        (resolve([Given("preset", "omo-2.6", Origin.PROJECT_FILE, "")]), "not in the preset"),
        (policy(disabled_modules=["preemptive"]), "is disabled"),
        (policy(compact__min_tokens=180_000), "175,000 tokens are fewer than 180,000"),
        (policy(threshold=[]), "no threshold of the policy asks for it"),
    ],
)
def test_a_policy_that_does_not_want_it(other: Policy, why: str) -> None:
    decision = should_act(other, READY)
    assert not decision.compact
    assert why in decision.reason


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"status": Status.BUSY}, "not idle but busy"),
        ({"status": Status.WAITING}, "not idle but waiting"),
        ({"status": Status.ACTIVE}, "not idle but active"),
        ({"status": Status.TOO_LONG}, "not idle but too_long"),
        ({"is_open": False}, "nobody has it open"),
        ({"is_running": True}, "a run is under way"),
        ({"context": context(None)}, "what is in its context is not known"),
        ({"context": context(175_000, Source.ASSUMED)}, "its window is not known"),
        ({"context": context(49_999)}, "49,999 tokens are fewer than 50,000"),
        ({"context": context(169_999)}, "85% of its window is below 85%"),
        ({"runs": (NOW - 59_999,)}, "it cools down for 1 s more"),
        ({"runs": (NOW - 6 * MINUTE, NOW - 4 * MINUTE, NOW - 2 * MINUTE)}, "3 runs in 5 minutes"),
    ],
)
def test_a_session_that_is_left_alone(changes: dict[str, Any], why: str) -> None:
    decision = should_act(OPTED_IN, replace(READY, **changes))
    assert not decision.compact
    assert why in decision.reason


def test_the_threshold_is_inclusive() -> None:
    assert should_act(OPTED_IN, replace(READY, context=context(170_000))).compact


def test_the_cooldown_ends() -> None:
    assert should_act(OPTED_IN, replace(READY, runs=(NOW - MINUTE,))).compact


def test_the_breaker() -> None:
    """Three runs in five minutes; half an hour from the last one."""
    close, wide = (0, 1, RUNS_WITHIN_MS - 1), (0, 1, RUNS_WITHIN_MS)
    assert breaker_until(close) == RUNS_WITHIN_MS - 1 + BREAKER_MS
    assert breaker_until(wide) is None
    assert breaker_until(()) is None
    until = NOW + BREAKER_MS
    runs = (NOW - 2 * MINUTE, NOW - MINUTE, NOW)
    assert not should_act(OPTED_IN, replace(READY, runs=runs, now_ms=until - 1)).compact
    assert should_act(OPTED_IN, replace(READY, runs=runs, now_ms=until)).compact


def test_what_does_not_pay() -> None:
    """Twenty requests at most, or it is urgent; of 20,000 tokens little is left to save."""
    small = policy(compact__min_tokens=10_000)

    def filled(tokens: int, window: int) -> Context:
        seen = Window(window, Source.TABLE)
        return Context(tokens, ContextState.MEASURED, seen, lines=small.lines(seen))

    dear = should_act(small, replace(READY, context=filled(17_500, 20_000)))
    urgent = should_act(small, replace(READY, context=filled(18_000, 20_000)))
    assert not dear.compact
    assert "only after 53 requests" in dear.reason
    assert urgent.compact


def test_the_price() -> None:
    """8,000 tokens written (5) and cached (1.25), against a tenth of what is read less."""
    assert break_even(108_000) == pytest.approx(8_000 * 6.25 / (0.1 * 100_000))
    assert break_even(8_000) is None


@given(
    st.sampled_from(Status),
    st.booleans(),
    st.none() | st.integers(0, 250_000),
    st.sampled_from(Source),
    st.lists(st.integers(0, 3_600_000), max_size=6),
    st.sampled_from(Origin),
)
def test_it_acts_only_where_everything_is_given(
    status: Status,
    is_open: bool,
    tokens: int | None,
    source: Source,
    ages: list[int],
    origin: Origin,
) -> None:
    runs = tuple(sorted(NOW - age for age in ages))
    now = Situation(context(tokens, source), status, is_open, NOW, runs)
    if should_act(policy(origin), now).compact:
        assert origin is Origin.PROJECT_FILE
        assert status is Status.IDLE
        assert is_open
        assert tokens is not None
        assert tokens >= 170_000
        assert source is not Source.ASSUMED
        assert not runs or NOW - runs[-1] >= 60_000
        until = breaker_until(runs)
        assert until is None or until <= NOW
