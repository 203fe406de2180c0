"""One recovery from the refusal to its end, as a state that survives a restart (2.2.3).

    detected → pending → locked → strategy → … → succeeded | exhausted | timed_out | cancelled

Every function takes a run and gives the next one; none of them looks at a clock or a process.
Times are milliseconds since 1970.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Final

import msgspec
from msgspec.structs import replace

from ..limit_errors import LimitErrorType  # noqa: TC001 -- msgspec reads it
from ..plan import Refusal
from .settings import Step

if TYPE_CHECKING:
    from .settings import RecoverySettings, RetrySettings

RESET_MS: Final = 300_000
"""After this long without an attempt the counting begins anew (R002-12)."""


LOST_MS: Final = 600_000
"""Five times the window of an attempt: whoever holds a lock this long has lost it."""


class State(StrEnum):
    """Where a recovery stands."""

    DETECTED = "detected"
    PENDING = "pending"
    """Nobody is at work in the session (002-49)."""
    LOCKED = "locked"
    STRATEGY = "strategy"
    SUCCEEDED = "succeeded"
    EXHAUSTED = "exhausted"
    TIMED_OUT = "timed_out"
    CANCELLED = "cancelled"


OVER: Final = frozenset({State.SUCCEEDED, State.EXHAUSTED, State.TIMED_OUT, State.CANCELLED})
AT_WORK: Final = frozenset({State.LOCKED, State.STRATEGY})
"""A process holds the lock (002-100)."""

FOLLOWING: Final = {
    State.DETECTED: frozenset({State.PENDING, State.CANCELLED}),
    State.PENDING: frozenset({State.LOCKED, State.CANCELLED}),
    State.LOCKED: frozenset({State.STRATEGY, State.EXHAUSTED, State.TIMED_OUT, State.CANCELLED}),
    State.STRATEGY: frozenset({State.STRATEGY, *OVER}),
    **dict.fromkeys(OVER, frozenset({State.DETECTED})),
}
"""What may come after each state: there is always something."""


class NotAllowedError(ValueError):
    """A run was to do what its state does not allow."""


class Found(msgspec.Struct, frozen=True):
    """A refusal that a session ended in."""

    session_id: str
    key: str
    """Tells this refusal from the session's others: the uuid of its line."""
    error_type: LimitErrorType
    current_tokens: int | None = None
    max_tokens: int | None = None
    message_index: int | None = None
    line: int | None = None
    """Of the transcript, counted from 1."""


class Counters(msgspec.Struct, frozen=True):
    """What was done so far (002-84, 002-92, 002-101)."""

    attempts: int = 0
    truncated: int = 0
    """Results."""
    emptied: int = 0
    """Times that empty messages were mended."""
    reverted: int = 0
    last_reverted: str | None = None
    """Uuid of the prompt before which the session was cut."""


class Holder(msgspec.Struct, frozen=True):
    """The process that has the lock; a number alone may be another's by now."""

    pid: int
    start: float
    """Seconds since 1970 at which it began."""
    mark: str
    """Of this one attempt."""


class Run(msgspec.Struct, frozen=True):
    """A session's recovery."""

    found: Found
    state: State
    steps: tuple[Step, ...]
    detected_at: int
    changed_at: int
    place: int = -1
    """Of the step at work, among `steps`."""
    counters: Counters = Counters()
    began_at: int | None = None
    """Of the last attempt."""
    cool_until: int = 0
    holder: Holder | None = None
    receipt: str | None = None
    """Of what was done last."""

    @property
    def step(self) -> Step | None:
        """The step that is carried out now."""
        return self.steps[self.place] if self.state is State.STRATEGY else None


def detect(
    before: Run | None,
    refusal: Found,
    steps: tuple[Step, ...],
    now_ms: int,
    settings: RecoverySettings,
) -> Run:
    """Note a refusal (002-48); what is under way for it goes on."""
    if before is not None and before.state not in OVER and before.found == refusal:
        return before
    if before is not None and before.state in AT_WORK:
        return before
    return Run(
        found=refusal,
        state=State.DETECTED,
        steps=steps,
        detected_at=now_ms,
        changed_at=now_ms,
        counters=_kept(before, refusal, now_ms, settings) if before else Counters(),
        began_at=before.began_at if before else None,
        cool_until=before.cool_until if before else 0,
        receipt=before.receipt if before and before.found.key == refusal.key else None,
    )


def wait_for_lock(run: Run, now_ms: int) -> Run:
    """Note that the session is idle: it may be recovered (002-12)."""
    return run if run.state is State.PENDING else _to(run, State.PENDING, now_ms)


def obstacle(run: Run, now_ms: int, settings: RecoverySettings) -> Refusal | None:
    """Say why an attempt may not begin now; None where it may."""
    if run.state in AT_WORK:
        holder = run.holder.pid if run.holder else "another one"
        return Refusal(
            "in_progress",
            f"recovery already running in process {holder}",
            "wait until it has ended",
        )
    if run.counters.attempts >= settings.retry.max_attempts:
        return Refusal(
            "attempts",
            f"{run.counters.attempts} attempts were made, the most there may be",
            f"try again in {RESET_MS // 60_000} minutes, or begin a new session",
        )
    wait_ms = ready_at(run, settings) - now_ms
    if wait_ms <= 0:
        return None
    why = "the last attempt has only just begun"
    if run.receipt is not None:
        why = f"it was mended just now: receipt {run.receipt}"
    return Refusal("cooldown", why, f"try again in {-(-wait_ms // 1000)} s")


def ready_at(run: Run, settings: RecoverySettings) -> int:
    """Say when the next attempt may begin: after the cooldown and the back-off."""
    if run.began_at is None or not run.counters.attempts:
        return run.cool_until
    waited = run.began_at + delay_ms(run.counters.attempts - 1, settings.retry)
    return max(run.cool_until, waited)


def delay_ms(attempt: int, retry: RetrySettings) -> int:
    """Say how long to wait after an attempt, counted from 0 (002-97)."""
    # A power of a large attempt would be no number any more; the cap is reached long before.
    growth = retry.factor ** min(attempt, 64)
    return int(min(retry.initial_ms * growth, retry.max_ms))


def lock(run: Run, holder: Holder, now_ms: int, settings: RecoverySettings) -> Run:
    """Take the lock; the cooldown counts from here, so that failures cool down too (R002-06)."""
    locked = _to(run, State.LOCKED, now_ms)
    counters = replace(run.counters, attempts=run.counters.attempts + 1)
    return replace(
        locked,
        holder=holder,
        place=-1,
        counters=counters,
        began_at=now_ms,
        cool_until=now_ms + settings.cooldown_ms,
    )


def next_step(run: Run, now_ms: int, settings: RecoverySettings) -> Run:
    """Go on to the next step that may still be used, or end where there is none."""
    began = run.changed_at if run.began_at is None else run.began_at
    if now_ms - began >= settings.retry.window_ms:
        return _over(run, State.TIMED_OUT, now_ms)
    for place in range(run.place + 1, len(run.steps)):
        if is_left(run.steps[place], run.counters, settings):
            return replace(_to(run, State.STRATEGY, now_ms), place=place)
    return _over(run, State.EXHAUSTED, now_ms)


def succeed(
    run: Run,
    now_ms: int,
    *,
    truncated: int = 0,
    reverted: str | None = None,
    receipt: str | None = None,
) -> Run:
    """Note that the step mended the session, and what it did."""
    step = run.step
    counters = replace(
        run.counters,
        truncated=run.counters.truncated + truncated,
        emptied=run.counters.emptied + (step is Step.FIX_EMPTY),
        reverted=run.counters.reverted + (step is Step.REVERT),
        last_reverted=reverted or run.counters.last_reverted,
    )
    ended = _over(run, State.SUCCEEDED, now_ms)
    return replace(ended, counters=counters, receipt=receipt)


def cancel(run: Run, now_ms: int) -> Run:
    """End a run that cannot go on: an error, or a process that has gone (R002-11)."""
    return run if run.state in OVER else _over(run, State.CANCELLED, now_ms)


def is_lost(run: Run, now_ms: int, *, holder_is_alive: bool) -> bool:
    """Say whether a lock is to be taken from its holder: it ended, or never released it."""
    return run.state in AT_WORK and (not holder_is_alive or now_ms - run.changed_at >= LOST_MS)


def is_left(step: Step, counters: Counters, settings: RecoverySettings) -> bool:
    """Say whether a step may still be used (002-60, 002-64, 002-82, R002-15)."""
    if step in {Step.TRUNCATE, Step.AGGRESSIVE}:
        return counters.truncated < settings.max_truncate
    if step is Step.FIX_EMPTY:
        return counters.emptied < settings.max_empty_fix
    return step is not Step.REVERT or counters.reverted < settings.max_revert


def _kept(before: Run, found: Found, now_ms: int, settings: RecoverySettings) -> Counters:
    """Forget the counters whose time is over (002-102).

    Reverts are counted until the session has gone on after the last that was allowed: they
    must not eat up a conversation (002-85).
    """
    counted, went_on = before.counters, before.found.key != found.key
    if before.began_at is not None and now_ms - before.began_at >= RESET_MS:
        counted = replace(counted, attempts=0, truncated=0)
    if not went_on:
        return counted
    if before.state is State.SUCCEEDED:
        counted = replace(counted, emptied=0)
    if counted.truncated >= settings.max_truncate:
        counted = replace(counted, truncated=0)
    if counted.reverted >= settings.max_revert:
        counted = replace(counted, reverted=0, last_reverted=None)
    return counted


def _to(run: Run, state: State, now_ms: int) -> Run:
    if state not in FOLLOWING[run.state]:
        raise NotAllowedError(f"{run.state} is not followed by {state}")
    return replace(run, state=state, changed_at=now_ms)


def _over(run: Run, state: State, now_ms: int) -> Run:
    return replace(_to(run, state, now_ms), holder=None, place=-1)
