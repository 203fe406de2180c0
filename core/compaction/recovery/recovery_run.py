"""One recovery: the policy's settings, the stored states, the attempts under its lock."""

from __future__ import annotations

import os
import secrets
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Final

import msgspec
from msgspec.structs import replace

from ...host import is_running, process_start_time
from ..plan import Refusal
from .limit_errors import LimitErrorType, SessionRefusal

if TYPE_CHECKING:
    from ...policy.policy import Policy


class RecoveryStep(StrEnum):
    """One way to recover a session, as `recovery.order` names it."""

    FIX_EMPTY = "fix_empty"
    DEDUP = "dedup"
    DCP = "dcp"  # prunes what is superseded
    TRUNCATE = "truncate_largest"
    AGGRESSIVE = "aggressive"
    SUMMARIZE = "summarize"
    REVERT = "revert"


class RecoveryRetry(msgspec.Struct, frozen=True):
    """How often and how fast to try again; milliseconds."""

    max_attempts: int = 2
    initial_ms: int = 2000
    factor: float = 2.0
    max_ms: int = 30_000
    window_ms: int = 120_000  # for all steps of one attempt together (R002-12)


class RecoverySettings(msgspec.Struct, frozen=True):
    """The policy's keys `recovery.*`, and the pause between two attempts."""

    step_order: tuple[RecoveryStep, ...] = (
        RecoveryStep.FIX_EMPTY,
        RecoveryStep.TRUNCATE,
        RecoveryStep.SUMMARIZE,
        RecoveryStep.REVERT,
    )
    aggressive: bool = False  # if not, that step is left out of any order (002-50, R002-14)
    prune_superseded: bool = False  # the same for the step DCP
    target_ratio: float = 0.5
    chars_per_token: int = 4
    max_truncate: int = 20
    min_output_chars: int = 500  # of a result; smaller ones are left alone
    max_revert: int = 3
    min_messages: int = 2  # that a revert leaves
    max_empty_fix: int = 3  # R002-15; the seed itself has no limit
    steps_to_confirm: frozenset[RecoveryStep] = frozenset({RecoveryStep.REVERT})
    cooldown_ms: int = 60_000  # R002-06
    retry: RecoveryRetry = RecoveryRetry()

    def needs_confirmation(self, step: RecoveryStep) -> bool:
        """Whether the user has to confirm a step; a revert always needs it (T-08)."""
        return step is RecoveryStep.REVERT or step in self.steps_to_confirm


def read_recovery_settings(policy: Policy) -> RecoverySettings:
    return RecoverySettings(
        step_order=tuple(map(RecoveryStep, policy.texts("recovery.order"))),
        aggressive=policy.flag("recovery.aggressive"),
        prune_superseded=policy.flag("recovery.dcp"),
        target_ratio=policy.number("recovery.target_ratio") or 0.0,
        chars_per_token=policy.integer("recovery.chars_per_token") or 1,
        max_truncate=policy.count("recovery.max_truncate"),
        min_output_chars=policy.count("recovery.min_output"),
        max_revert=policy.count("recovery.max_revert"),
        min_messages=policy.count("recovery.min_messages"),
        max_empty_fix=policy.count("recovery.max_empty_fix"),
        steps_to_confirm=frozenset(map(RecoveryStep, policy.texts("recovery.confirm"))),
        cooldown_ms=policy.count("compact.cooldown_s") * 1000,
        retry=RecoveryRetry(
            max_attempts=policy.count("recovery.retry.max"),
            initial_ms=policy.count("recovery.retry.initial_ms"),
            factor=policy.number("recovery.retry.factor") or 1.0,
            max_ms=policy.count("recovery.retry.max_ms"),
            window_ms=policy.count("recovery.retry.window_s") * 1000,
        ),
    )


def recovery_steps_for(
    error_type: LimitErrorType, settings: RecoverySettings
) -> tuple[RecoveryStep, ...]:
    """List the steps to try, each more severe than the one before it.

    If a message is empty, nothing is too large: only filling that message helps, or going back
    before it (002-45).
    """
    enabled = {
        RecoveryStep.AGGRESSIVE: settings.aggressive,
        RecoveryStep.DCP: settings.prune_superseded,
    }
    order = tuple(step for step in settings.step_order if enabled.get(step, True))
    if error_type is LimitErrorType.NON_EMPTY_CONTENT:
        return (RecoveryStep.FIX_EMPTY, *(step for step in order if step is RecoveryStep.REVERT))
    if error_type is LimitErrorType.BEDROCK and RecoveryStep.AGGRESSIVE in order:
        others = (step for step in order if step is not RecoveryStep.AGGRESSIVE)
        return (RecoveryStep.AGGRESSIVE, *others)
    return order


COUNTER_RESET_MS: Final = 300_000  # without an attempt; then counting starts again (R002-12)

LOCK_LOST_MS: Final = 600_000  # five times an attempt's window: by then its holder has lost it


class RecoveryState(StrEnum):
    DETECTED = "detected"
    PENDING = "pending"  # nobody is at work in the session (002-49)
    LOCKED = "locked"
    STRATEGY = "strategy"
    SUCCEEDED = "succeeded"
    EXHAUSTED = "exhausted"
    TIMED_OUT = "timed_out"
    CANCELLED = "cancelled"


_UNFINISHED_ENDS: Final = frozenset(
    {RecoveryState.EXHAUSTED, RecoveryState.TIMED_OUT, RecoveryState.CANCELLED}
)
FINISHED_STATES: Final = _UNFINISHED_ENDS | {RecoveryState.SUCCEEDED}
LOCKED_STATES: Final = frozenset({RecoveryState.LOCKED, RecoveryState.STRATEGY})  # 002-100
NEXT_STATES: Final = {
    RecoveryState.DETECTED: frozenset({RecoveryState.PENDING, RecoveryState.CANCELLED}),
    RecoveryState.PENDING: frozenset({RecoveryState.LOCKED, RecoveryState.CANCELLED}),
    RecoveryState.LOCKED: _UNFINISHED_ENDS | {RecoveryState.STRATEGY},
    RecoveryState.STRATEGY: FINISHED_STATES | {RecoveryState.STRATEGY},
    **dict.fromkeys(FINISHED_STATES, frozenset({RecoveryState.DETECTED})),
}
"""What may come after each state: there is always something."""


class StateTransitionError(ValueError):
    """A run's state does not allow what was to be done."""


class RecoveryCounters(msgspec.Struct, frozen=True):
    """What was done so far (002-84, 002-92, 002-101)."""

    attempts: int = 0
    truncated: int = 0  # results
    emptied: int = 0  # times that empty messages were filled
    reverted: int = 0
    last_reverted: str | None = None  # uuid of the prompt before which the session was cut


class LockHolder(msgspec.Struct, frozen=True):
    """The process that has the lock; by now its number alone may be another process's."""

    pid: int
    start: float  # seconds since 1970 at which it began
    mark: str  # of this one attempt


class RecoveryRun(msgspec.Struct, frozen=True):
    found: SessionRefusal
    state: RecoveryState
    steps: tuple[RecoveryStep, ...]
    changed_at: int
    place: int = -1  # of the current step among `steps`
    counters: RecoveryCounters = RecoveryCounters()
    began_at: int | None = None  # of the last attempt
    cool_until: int = 0
    holder: LockHolder | None = None
    receipt: str | None = None  # of what was done last

    @property
    def step(self) -> RecoveryStep | None:
        return self.steps[self.place] if self.state is RecoveryState.STRATEGY else None


def record_refusal(
    before: RecoveryRun | None,
    refusal: SessionRefusal,
    steps: tuple[RecoveryStep, ...],
    now_ms: int,
    settings: RecoverySettings,
) -> RecoveryRun:
    """Note a refusal (002-48); a run that is under way for it continues."""
    if before is None:
        return RecoveryRun(refusal, RecoveryState.DETECTED, steps, now_ms)
    is_unfinished = before.state not in FINISHED_STATES and before.found == refusal
    if is_unfinished or before.state in LOCKED_STATES:
        return before
    return RecoveryRun(
        found=refusal,
        state=RecoveryState.DETECTED,
        steps=steps,
        changed_at=now_ms,
        counters=_carried_counters(before, refusal, now_ms, settings),
        began_at=before.began_at,
        cool_until=before.cool_until,
        receipt=before.receipt if before.found.key == refusal.key else None,
    )


def mark_pending(run: RecoveryRun, now_ms: int) -> RecoveryRun:
    """Note that the session is idle: it may be recovered (002-12)."""
    if run.state is RecoveryState.PENDING:
        return run
    return _change_state(run, RecoveryState.PENDING, now_ms)


def find_attempt_obstacle(
    run: RecoveryRun, now_ms: int, settings: RecoverySettings
) -> Refusal | None:
    """Return why no attempt may begin now; None if one may."""
    if run.state in LOCKED_STATES:
        holder = run.holder.pid if run.holder else "another one"
        why = f"recovery already running in process {holder}"
        return Refusal("in_progress", why, "wait until it has ended")
    if run.counters.attempts >= settings.retry.max_attempts:
        return Refusal(
            "attempts",
            f"{run.counters.attempts} attempts were made, which is the limit",
            f"try again in {COUNTER_RESET_MS // 60_000} minutes, or start a new session",
        )
    wait_ms = next_attempt_at(run, settings) - now_ms
    if wait_ms <= 0:
        return None
    why = "the last attempt has just started"
    if run.receipt is not None:
        why = f"it was just recovered: receipt {run.receipt}"
    return Refusal("cooldown", why, f"try again in {-(-wait_ms // 1000)} s")


def next_attempt_at(run: RecoveryRun, settings: RecoverySettings) -> int:
    """Return the time in ms of the next attempt: after the cooldown and the back-off."""
    if run.began_at is None or not run.counters.attempts:
        return run.cool_until
    delay = retry_delay_ms(run.counters.attempts - 1, settings.retry)
    return max(run.cool_until, run.began_at + delay)


def retry_delay_ms(attempt: int, retry: RecoveryRetry) -> int:
    """Return how long to wait after an attempt, counted from 0 (002-97)."""
    # A power of a large attempt would overflow; the cap is reached long before.
    growth = retry.factor ** min(attempt, 64)
    return int(min(retry.initial_ms * growth, retry.max_ms))


def take_run_lock(
    run: RecoveryRun, holder: LockHolder, now_ms: int, settings: RecoverySettings
) -> RecoveryRun:
    """Acquire the lock; the cooldown starts here, so that failures cool down too (R002-06)."""
    return replace(
        _change_state(run, RecoveryState.LOCKED, now_ms),
        holder=holder,
        place=-1,
        counters=replace(run.counters, attempts=run.counters.attempts + 1),
        began_at=now_ms,
        cool_until=now_ms + settings.cooldown_ms,
    )


def advance_run(run: RecoveryRun, now_ms: int, settings: RecoverySettings) -> RecoveryRun:
    """Go to the next step that may still be used, or end the run if there is none."""
    began = run.changed_at if run.began_at is None else run.began_at
    if now_ms - began >= settings.retry.window_ms:
        return _end_run(run, RecoveryState.TIMED_OUT, now_ms)
    for place in range(run.place + 1, len(run.steps)):
        if is_step_available(run.steps[place], run.counters, settings):
            return replace(_change_state(run, RecoveryState.STRATEGY, now_ms), place=place)
    return _end_run(run, RecoveryState.EXHAUSTED, now_ms)


def finish_run(
    run: RecoveryRun,
    now_ms: int,
    *,
    truncated: int = 0,
    reverted: str | None = None,
    receipt: str | None = None,
) -> RecoveryRun:
    """Note that the step recovered the session, and what it did."""
    counters = replace(
        run.counters,
        truncated=run.counters.truncated + truncated,
        emptied=run.counters.emptied + (run.step is RecoveryStep.FIX_EMPTY),
        reverted=run.counters.reverted + (run.step is RecoveryStep.REVERT),
        last_reverted=reverted or run.counters.last_reverted,
    )
    ended = _end_run(run, RecoveryState.SUCCEEDED, now_ms)
    return replace(ended, counters=counters, receipt=receipt)


def cancel_run(run: RecoveryRun, now_ms: int) -> RecoveryRun:
    """End a run after an error, or because its process has ended (R002-11)."""
    return run if run.state in FINISHED_STATES else _end_run(run, RecoveryState.CANCELLED, now_ms)


def is_lock_lost(run: RecoveryRun, now_ms: int, *, holder_is_alive: bool) -> bool:
    """Whether a lock can be taken over: its holder ended, or held it for LOCK_LOST_MS."""
    is_old = now_ms - run.changed_at >= LOCK_LOST_MS
    return run.state in LOCKED_STATES and (is_old or not holder_is_alive)


def release_dead_holder(run: RecoveryRun, now_ms: int) -> RecoveryRun:
    """Cancel a run whose process has ended: nobody else would release its lock."""
    if run.holder is None:
        return run
    is_alive = is_running(run.holder.pid, run.holder.start)
    return cancel_run(run, now_ms) if is_lock_lost(run, now_ms, holder_is_alive=is_alive) else run


def is_step_available(
    step: RecoveryStep, counters: RecoveryCounters, settings: RecoverySettings
) -> bool:
    """Whether a step has uses left (002-60, 002-64, 002-82, R002-15)."""
    if step in {RecoveryStep.TRUNCATE, RecoveryStep.AGGRESSIVE}:
        return counters.truncated < settings.max_truncate
    if step is RecoveryStep.FIX_EMPTY:
        return counters.emptied < settings.max_empty_fix
    return step is not RecoveryStep.REVERT or counters.reverted < settings.max_revert


def _carried_counters(
    before: RecoveryRun, refusal: SessionRefusal, now_ms: int, settings: RecoverySettings
) -> RecoveryCounters:
    """Reset the counters whose time is over (002-102).

    Reverts are counted until the session has continued after the last that was allowed: they
    must not eat up a conversation (002-85).
    """
    counters = before.counters
    if before.began_at is not None and now_ms - before.began_at >= COUNTER_RESET_MS:
        counters = replace(counters, attempts=0, truncated=0)
    if before.found.key == refusal.key:
        return counters
    if before.state is RecoveryState.SUCCEEDED:
        counters = replace(counters, emptied=0)
    if counters.truncated >= settings.max_truncate:
        counters = replace(counters, truncated=0)
    if counters.reverted >= settings.max_revert:
        counters = replace(counters, reverted=0, last_reverted=None)
    return counters


def _change_state(run: RecoveryRun, state: RecoveryState, now_ms: int) -> RecoveryRun:
    if state not in NEXT_STATES[run.state]:
        raise StateTransitionError(f"{run.state} is not followed by {state}")
    return replace(run, state=state, changed_at=now_ms)


def _end_run(run: RecoveryRun, state: RecoveryState, now_ms: int) -> RecoveryRun:
    return replace(_change_state(run, state, now_ms), holder=None, place=-1)


RunStore = Callable[[str, Callable[[RecoveryRun | None], RecoveryRun]], RecoveryRun]
"""Changes a session's run in one transaction and returns it:
`core.actions.stored_recoveries.update_recovery` on an open store."""


class AttemptRefusedError(Exception):
    """No attempt may begin; `refusal` says why and what to do."""

    def __init__(self, refusal: Refusal) -> None:
        super().__init__(f"{refusal.why}: {refusal.what_to_do}")
        self.refusal: Final = refusal


@dataclass(slots=True)
class RecoveryAttempt:
    run: RecoveryRun
    lock_mark: str  # of this attempt
    store_run: RunStore
    settings: RecoverySettings
    now: Callable[[], int]

    def next_step(self) -> RecoveryStep | None:
        """Go to the next step; None if the attempt is over."""
        self._change(lambda run: advance_run(run, self.now(), self.settings))
        return self.run.step

    def succeed(
        self, *, truncated: int = 0, reverted: str | None = None, receipt: str | None = None
    ) -> None:
        self._change(
            lambda run: finish_run(
                run, self.now(), truncated=truncated, reverted=reverted, receipt=receipt
            )
        )

    def release(self) -> None:
        """End what is still under way; another process's lock is left alone."""
        if self.run.state in LOCKED_STATES:
            with suppress(AttemptRefusedError):
                self._change(lambda run: cancel_run(run, self.now()))

    def _change(self, change: Callable[[RecoveryRun], RecoveryRun]) -> None:
        def change_own(run: RecoveryRun | None) -> RecoveryRun:
            if run is None or run.holder is None or run.holder.mark != self.lock_mark:
                why = "another process has taken over this recovery"
                what_to_do = "check the session before you try again"
                raise AttemptRefusedError(Refusal("lock_lost", why, what_to_do))
            return change(run)

        self.run = self.store_run(self.run.found.session_id, change_own)


@contextmanager
def begin_attempt(
    store_run: RunStore,
    session_refusal: SessionRefusal,
    steps: tuple[RecoveryStep, ...],
    settings: RecoverySettings,
    now: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
) -> Iterator[RecoveryAttempt]:
    """Hold the lock of a session that is idle; the lock of a process that ended is taken over.

    Raises AttemptRefusedError if no attempt may begin.
    """
    holder = LockHolder(os.getpid(), process_start_time(os.getpid()) or 0.0, secrets.token_hex(8))

    def begin(before: RecoveryRun | None) -> RecoveryRun:
        now_ms = now()
        released = release_dead_holder(before, now_ms) if before else None
        run = record_refusal(released, session_refusal, steps, now_ms, settings)
        obstacle = find_attempt_obstacle(run, now_ms, settings)
        if obstacle:
            raise AttemptRefusedError(obstacle)
        return take_run_lock(mark_pending(run, now_ms), holder, now_ms, settings)

    run = store_run(session_refusal.session_id, begin)
    attempt = RecoveryAttempt(run, holder.mark, store_run, settings, now)
    try:
        yield attempt
    finally:
        attempt.release()
