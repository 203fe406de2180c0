"""A recovery's states: what may follow what, and that there is always a way out."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from ctxtop.core.compaction.recovery.limit_errors import LimitErrorType, SessionRefusal
from ctxtop.core.compaction.recovery.recovery_run import (
    COUNTER_RESET_MS,
    FINISHED_STATES,
    LOCK_LOST_MS,
    LOCKED_STATES,
    NEXT_STATES,
    LockHolder,
    RecoveryCounters,
    RecoveryRetry,
    RecoveryRun,
    RecoverySettings,
    RecoveryState,
    RecoveryStep,
    StateTransitionError,
    advance_run,
    cancel_run,
    find_attempt_obstacle,
    finish_run,
    is_lock_lost,
    mark_pending,
    next_attempt_at,
    record_refusal,
    retry_delay_ms,
    take_run_lock,
)
from hypothesis import settings as few
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

NOW = 1_795_000_000_000
ME = LockHolder(7, 1.0, "mark")
SETTINGS = RecoverySettings()
FOUND = SessionRefusal("s1", "line-9", LimitErrorType.TOKEN_LIMIT, 210_000, 200_000)
STEPS = SETTINGS.step_order


def pending(run: RecoveryRun | None = None, now: int = NOW) -> RecoveryRun:
    return mark_pending(run or record_refusal(None, FOUND, STEPS, now, SETTINGS), now)


def locked(now: int = NOW) -> RecoveryRun:
    return take_run_lock(pending(now=now), ME, now, SETTINGS)


def code(run: RecoveryRun, now: int) -> str | None:
    refusal = find_attempt_obstacle(run, now, SETTINGS)
    return refusal.check if refusal else None


def test_from_the_refusal_to_success() -> None:
    """2.2.3: detected → pending → locked → strategy → succeeded."""
    seen = record_refusal(None, FOUND, STEPS, NOW, SETTINGS)
    first = advance_run(locked(), NOW, SETTINGS)
    second = advance_run(first, NOW + 1, SETTINGS)
    ended = finish_run(second, NOW + 2, truncated=2, receipt="r1")
    assert [seen.state, pending().state, locked().state] == ["detected", "pending", "locked"]
    assert (first.step, second.step) == (RecoveryStep.FIX_EMPTY, RecoveryStep.TRUNCATE)
    assert (ended.state, ended.receipt, ended.holder) == (RecoveryState.SUCCEEDED, "r1", None)
    assert ended.counters == RecoveryCounters(attempts=1, truncated=2)


def test_the_steps_end() -> None:
    """002-60: each step once, then it is exhausted."""
    run = locked()
    steps = []
    while (run := advance_run(run, NOW, SETTINGS)).step:
        steps.append(run.step)
    assert tuple(steps) == STEPS
    assert (run.state, run.holder) == (RecoveryState.EXHAUSTED, None)


def test_the_window_of_all_steps() -> None:
    """R002-12: 120 s for everything."""
    run = advance_run(locked(), NOW + 119_999, SETTINGS)
    assert run.state is RecoveryState.STRATEGY
    assert advance_run(run, NOW + 120_000, SETTINGS).state is RecoveryState.TIMED_OUT


@pytest.mark.parametrize("state", RecoveryState)
def test_every_state_has_a_way_out(state: RecoveryState) -> None:
    assert NEXT_STATES[state]
    assert state in FINISHED_STATES or RecoveryState.CANCELLED in NEXT_STATES[state]


def test_what_is_not_allowed_is_refused() -> None:
    seen = record_refusal(None, FOUND, STEPS, NOW, SETTINGS)
    with pytest.raises(StateTransitionError):
        take_run_lock(seen, ME, NOW, SETTINGS)
    with pytest.raises(StateTransitionError):
        finish_run(pending(), NOW)


def test_the_back_off() -> None:
    """002-94 to 002-97: 2 s, 4 s, 8 s, and never above 30 s."""
    assert [retry_delay_ms(each, RecoveryRetry()) for each in range(3)] == [2000, 4000, 8000]
    assert retry_delay_ms(3, RecoveryRetry()) == 16_000
    assert retry_delay_ms(4, RecoveryRetry()) == 30_000
    assert retry_delay_ms(10_000, RecoveryRetry()) == 30_000


def test_the_cooldown_is_set_before_the_attempt() -> None:
    """R002-06: an attempt that fails cools down as well."""
    run = cancel_run(locked(), NOW + 10)
    again = record_refusal(run, FOUND, STEPS, NOW + 20, SETTINGS)
    assert run.cool_until == NOW + 60_000
    assert code(pending(again), NOW + 59_999) == "cooldown"
    assert code(pending(again), NOW + 60_000) is None


def test_the_back_off_counts_where_there_is_no_cooldown() -> None:
    quick = msgspec.structs.replace(SETTINGS, cooldown_ms=0)
    run = take_run_lock(pending(), ME, NOW, quick)
    assert next_attempt_at(run, quick) == NOW + 2000


def test_a_second_one_is_told_that_it_runs() -> None:
    """002-100 and R002-11."""
    assert code(locked(), NOW) == "in_progress"
    assert record_refusal(
        locked(), msgspec.structs.replace(FOUND, key="new"), (), NOW, SETTINGS
    ) == (locked())


def test_two_attempts_and_then_none_for_five_minutes() -> None:
    """002-93, R002-12."""
    run: RecoveryRun | None = None
    for attempt in range(2):
        at = NOW + attempt * 60_000
        run = cancel_run(
            take_run_lock(
                pending(record_refusal(run, FOUND, STEPS, at, SETTINGS)), ME, at, SETTINGS
            ),
            at,
        )
    assert run is not None
    last = NOW + 60_000
    soon = record_refusal(run, FOUND, STEPS, last + COUNTER_RESET_MS - 1, SETTINGS)
    later = record_refusal(run, FOUND, STEPS, last + COUNTER_RESET_MS, SETTINGS)
    assert code(soon, last + COUNTER_RESET_MS - 1) == "attempts"
    assert code(later, last + COUNTER_RESET_MS) is None


def used(**counters: Any) -> RecoveryRun:  # noqa: ANN401 -- of any kind
    return msgspec.structs.replace(locked(), counters=RecoveryCounters(attempts=1, **counters))


@pytest.mark.parametrize(
    ("counters", "left_out"),
    [
        ({"truncated": 20}, RecoveryStep.TRUNCATE),  # 002-64
        ({"emptied": 3}, RecoveryStep.FIX_EMPTY),  # R002-15
        ({"reverted": 3}, RecoveryStep.REVERT),  # 002-82, 002-85
    ],
)
def test_a_step_that_is_used_up_is_left_out(
    counters: dict[str, int], left_out: RecoveryStep
) -> None:
    run, steps = used(**counters), []
    while (run := advance_run(run, NOW, SETTINGS)).step:
        steps.append(run.step)
    assert steps == [each for each in STEPS if each is not left_out]


def test_what_is_forgotten_and_when() -> None:
    """002-102: by success, or when it was used up and the session has gone on."""
    other = msgspec.structs.replace(FOUND, key="another")
    full = RecoveryCounters(attempts=1, truncated=20, emptied=2, reverted=3, last_reverted="u")
    ended = msgspec.structs.replace(
        finish_run(advance_run(locked(), NOW, SETTINGS), NOW), counters=full
    )
    same = record_refusal(ended, FOUND, STEPS, NOW + 1, SETTINGS).counters
    went_on = record_refusal(ended, other, STEPS, NOW + 1, SETTINGS).counters
    assert same == full
    assert went_on == RecoveryCounters(attempts=1)


def test_a_lost_lock_is_recognized() -> None:
    run = locked()
    assert not is_lock_lost(run, NOW + 1, holder_is_alive=True)
    assert is_lock_lost(run, NOW + 1, holder_is_alive=False)
    assert is_lock_lost(run, NOW + LOCK_LOST_MS, holder_is_alive=True)
    assert not is_lock_lost(pending(), NOW + LOCK_LOST_MS, holder_is_alive=False)


def test_a_run_is_kept_as_it_is() -> None:
    run = advance_run(locked(), NOW, SETTINGS)
    assert msgspec.json.decode(msgspec.json.encode(run), type=RecoveryRun) == run


class Machine(RuleBasedStateMachine):
    """Anything that may happen to a session, in any order."""

    def __init__(self) -> None:
        super().__init__()
        self.now = NOW
        self.run: RecoveryRun | None = None
        self.key = 0

    @rule(ms=st.integers(0, 400_000))
    def wait(self, ms: int) -> None:
        self.now += ms

    @rule(anew=st.booleans())
    def refused(self, *, anew: bool) -> None:
        self.key += anew
        found = msgspec.structs.replace(FOUND, key=str(self.key))
        before = self.run
        self.run = record_refusal(before, found, STEPS, self.now, SETTINGS)
        if before and before.state in LOCKED_STATES:
            assert self.run == before

    @precondition(
        lambda self: self.run and self.run.state in {RecoveryState.DETECTED, RecoveryState.PENDING}
    )
    @rule()
    def idle(self) -> None:
        assert self.run
        run = mark_pending(self.run, self.now)
        if find_attempt_obstacle(run, self.now, SETTINGS) is None:
            began = run.began_at
            self.run = take_run_lock(run, ME, self.now, SETTINGS)
            assert began is None or self.now - began >= SETTINGS.cooldown_ms
            assert self.run.cool_until == self.now + SETTINGS.cooldown_ms

    @precondition(lambda self: self.run and self.run.state in LOCKED_STATES)
    @rule()
    def step(self) -> None:
        assert self.run
        self.run = advance_run(self.run, self.now, SETTINGS)

    @precondition(lambda self: self.run and self.run.state is RecoveryState.STRATEGY)
    @rule(truncated=st.integers(0, 20))
    def mended(self, truncated: int) -> None:
        assert self.run
        self.run = finish_run(self.run, self.now, truncated=truncated)

    @precondition(lambda self: self.run)
    @rule()
    def died(self) -> None:
        assert self.run
        if is_lock_lost(self.run, self.now, holder_is_alive=False):
            self.run = cancel_run(self.run, self.now)

    @invariant()
    def only_who_works_holds_the_lock(self) -> None:
        if self.run:
            assert (self.run.holder is not None) == (self.run.state in LOCKED_STATES)

    @invariant()
    def there_is_always_a_way_out(self) -> None:
        if self.run and self.run.state not in FINISHED_STATES:
            assert cancel_run(self.run, self.now).state is RecoveryState.CANCELLED

    @invariant()
    def no_more_than_may_be(self) -> None:
        if self.run:
            assert self.run.counters.attempts <= SETTINGS.retry.max_attempts
            assert self.run.counters.reverted <= SETTINGS.max_revert
            assert self.run.counters.emptied <= SETTINGS.max_empty_fix


Machine.TestCase.settings = few(max_examples=60, stateful_step_count=40, deadline=None)
TestMachine = Machine.TestCase
