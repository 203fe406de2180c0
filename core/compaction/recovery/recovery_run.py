"""One recovery: the refusal, the stored state until its end, the attempts under its lock."""

from __future__ import annotations

import os
import secrets
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from enum import StrEnum
from typing import Any, Final, Protocol

import msgspec
from msgspec.structs import replace

from ...host import is_running, process_start_time
from ...transcript.conversation import Entry, Role
from ..plan import Refusal
from .limit_errors import LimitErrorType, TokenLimitRefusal, parse_limit_error
from .recovery_settings import RecoveryRetry, RecoverySettings, RecoveryStep

COUNTER_RESET_MS: Final = 300_000
"""After this long without an attempt the counting begins anew (R002-12)."""


LOCK_LOST_MS: Final = 600_000
"""Five times the window of an attempt: whoever holds a lock this long has lost it."""


class RecoveryState(StrEnum):
    DETECTED = "detected"
    PENDING = "pending"  # nobody is at work in the session (002-49)
    LOCKED = "locked"
    STRATEGY = "strategy"
    SUCCEEDED = "succeeded"
    EXHAUSTED = "exhausted"
    TIMED_OUT = "timed_out"
    CANCELLED = "cancelled"


FINISHED_STATES: Final = frozenset(
    {
        RecoveryState.SUCCEEDED,
        RecoveryState.EXHAUSTED,
        RecoveryState.TIMED_OUT,
        RecoveryState.CANCELLED,
    }
)
LOCKED_STATES: Final = frozenset({RecoveryState.LOCKED, RecoveryState.STRATEGY})
"""A process holds the lock (002-100)."""

NEXT_STATES: Final = {
    RecoveryState.DETECTED: frozenset({RecoveryState.PENDING, RecoveryState.CANCELLED}),
    RecoveryState.PENDING: frozenset({RecoveryState.LOCKED, RecoveryState.CANCELLED}),
    RecoveryState.LOCKED: frozenset(
        {
            RecoveryState.STRATEGY,
            RecoveryState.EXHAUSTED,
            RecoveryState.TIMED_OUT,
            RecoveryState.CANCELLED,
        }
    ),
    RecoveryState.STRATEGY: frozenset({RecoveryState.STRATEGY, *FINISHED_STATES}),
    **dict.fromkeys(FINISHED_STATES, frozenset({RecoveryState.DETECTED})),
}
"""What may come after each state: there is always something."""


class StateTransitionError(ValueError):
    """A run was to do what its state does not allow."""


class SessionRefusal(msgspec.Struct, frozen=True):
    """A refusal that a session ended in."""

    session_id: str
    key: str  # the uuid of the refusal's line, which no other refusal of the session has
    error_type: LimitErrorType
    current_tokens: int | None = None
    max_tokens: int | None = None
    message_index: int | None = None
    line: int | None = None  # of the transcript, counted from 1


class RecoveryCounters(msgspec.Struct, frozen=True):
    """What was done so far (002-84, 002-92, 002-101)."""

    attempts: int = 0
    truncated: int = 0  # results
    emptied: int = 0  # times that empty messages were mended
    reverted: int = 0
    last_reverted: str | None = None  # uuid of the prompt before which the session was cut


class LockHolder(msgspec.Struct, frozen=True):
    """The process that has the lock; a number alone may be another's by now."""

    pid: int
    start: float  # seconds since 1970 at which it began
    mark: str  # of this one attempt


class RecoveryRun(msgspec.Struct, frozen=True):
    found: SessionRefusal
    state: RecoveryState
    steps: tuple[RecoveryStep, ...]
    detected_at: int
    changed_at: int
    place: int = -1  # of the step at work, among `steps`
    counters: RecoveryCounters = RecoveryCounters()
    began_at: int | None = None  # of the last attempt
    cool_until: int = 0
    holder: LockHolder | None = None
    receipt: str | None = None  # of what was done last

    @property
    def step(self) -> RecoveryStep | None:
        """The step that is carried out now."""
        return self.steps[self.place] if self.state is RecoveryState.STRATEGY else None


def record_refusal(
    before: RecoveryRun | None,
    refusal: SessionRefusal,
    steps: tuple[RecoveryStep, ...],
    now_ms: int,
    settings: RecoverySettings,
) -> RecoveryRun:
    """Note a refusal (002-48); what is under way for it goes on."""
    if before is not None and before.state not in FINISHED_STATES and before.found == refusal:
        return before
    if before is not None and before.state in LOCKED_STATES:
        return before
    return RecoveryRun(
        found=refusal,
        state=RecoveryState.DETECTED,
        steps=steps,
        detected_at=now_ms,
        changed_at=now_ms,
        counters=_carried_counters(before, refusal, now_ms, settings)
        if before
        else RecoveryCounters(),
        began_at=before.began_at if before else None,
        cool_until=before.cool_until if before else 0,
        receipt=before.receipt if before and before.found.key == refusal.key else None,
    )


def mark_pending(run: RecoveryRun, now_ms: int) -> RecoveryRun:
    """Note that the session is idle: it may be recovered (002-12)."""
    return (
        run
        if run.state is RecoveryState.PENDING
        else _change_state(run, RecoveryState.PENDING, now_ms)
    )


def find_attempt_obstacle(
    run: RecoveryRun, now_ms: int, settings: RecoverySettings
) -> Refusal | None:
    """Return why no attempt may begin now; None if one may."""
    if run.state in LOCKED_STATES:
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
            f"try again in {COUNTER_RESET_MS // 60_000} minutes, or begin a new session",
        )
    wait_ms = next_attempt_at(run, settings) - now_ms
    if wait_ms <= 0:
        return None
    why = "the last attempt has only just begun"
    if run.receipt is not None:
        why = f"it was mended just now: receipt {run.receipt}"
    return Refusal("cooldown", why, f"try again in {-(-wait_ms // 1000)} s")


def next_attempt_at(run: RecoveryRun, settings: RecoverySettings) -> int:
    """Return the time in ms of the next attempt: after the cooldown and the back-off."""
    if run.began_at is None or not run.counters.attempts:
        return run.cool_until
    waited = run.began_at + retry_delay_ms(run.counters.attempts - 1, settings.retry)
    return max(run.cool_until, waited)


def retry_delay_ms(attempt: int, retry: RecoveryRetry) -> int:
    """Return how long to wait after an attempt, counted from 0 (002-97)."""
    # A power of a large attempt would be no number any more; the cap is reached long before.
    growth = retry.factor ** min(attempt, 64)
    return int(min(retry.initial_ms * growth, retry.max_ms))


def take_run_lock(
    run: RecoveryRun, holder: LockHolder, now_ms: int, settings: RecoverySettings
) -> RecoveryRun:
    """Acquire the lock; the cooldown starts here, so that failures cool down too (R002-06)."""
    locked = _change_state(run, RecoveryState.LOCKED, now_ms)
    counters = replace(run.counters, attempts=run.counters.attempts + 1)
    return replace(
        locked,
        holder=holder,
        place=-1,
        counters=counters,
        began_at=now_ms,
        cool_until=now_ms + settings.cooldown_ms,
    )


def advance_run(run: RecoveryRun, now_ms: int, settings: RecoverySettings) -> RecoveryRun:
    """Go on to the next step that may still be used, or end where there is none."""
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
    """Note that the step mended the session, and what it did."""
    step = run.step
    counters = replace(
        run.counters,
        truncated=run.counters.truncated + truncated,
        emptied=run.counters.emptied + (step is RecoveryStep.FIX_EMPTY),
        reverted=run.counters.reverted + (step is RecoveryStep.REVERT),
        last_reverted=reverted or run.counters.last_reverted,
    )
    ended = _end_run(run, RecoveryState.SUCCEEDED, now_ms)
    return replace(ended, counters=counters, receipt=receipt)


def cancel_run(run: RecoveryRun, now_ms: int) -> RecoveryRun:
    """End a run that cannot go on: an error, or a process that has gone (R002-11)."""
    return run if run.state in FINISHED_STATES else _end_run(run, RecoveryState.CANCELLED, now_ms)


def is_lock_lost(run: RecoveryRun, now_ms: int, *, holder_is_alive: bool) -> bool:
    """Whether a lock can be taken over: its holder ended, or held it for LOCK_LOST_MS."""
    return run.state in LOCKED_STATES and (
        not holder_is_alive or now_ms - run.changed_at >= LOCK_LOST_MS
    )


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
    before: RecoveryRun, found: SessionRefusal, now_ms: int, settings: RecoverySettings
) -> RecoveryCounters:
    """Forget the counters whose time is over (002-102).

    Reverts are counted until the session has gone on after the last that was allowed: they
    must not eat up a conversation (002-85).
    """
    counted, went_on = before.counters, before.found.key != found.key
    if before.began_at is not None and now_ms - before.began_at >= COUNTER_RESET_MS:
        counted = replace(counted, attempts=0, truncated=0)
    if not went_on:
        return counted
    if before.state is RecoveryState.SUCCEEDED:
        counted = replace(counted, emptied=0)
    if counted.truncated >= settings.max_truncate:
        counted = replace(counted, truncated=0)
    if counted.reverted >= settings.max_revert:
        counted = replace(counted, reverted=0, last_reverted=None)
    return counted


def _change_state(run: RecoveryRun, state: RecoveryState, now_ms: int) -> RecoveryRun:
    if state not in NEXT_STATES[run.state]:
        raise StateTransitionError(f"{run.state} is not followed by {state}")
    return replace(run, state=state, changed_at=now_ms)


def _end_run(run: RecoveryRun, state: RecoveryState, now_ms: int) -> RecoveryRun:
    return replace(_change_state(run, state, now_ms), holder=None, place=-1)


def parse_recoverable_error(error: object) -> TokenLimitRefusal | None:
    """Read an error that recovery is for: of a request's size, or of an empty message."""
    parsed = parse_limit_error(error)
    if parsed is None:
        return None
    is_empty = parsed.error_type is LimitErrorType.NON_EMPTY_CONTENT
    return parsed if is_empty or parsed.exceeds_window else None


def final_refusal(entries: Sequence[Entry]) -> Entry | None:
    """Return the refusal that only prompts follow; None if the session continued."""
    for entry in reversed(entries):
        if entry.boundary is not None:
            return None
        if entry.role is Role.ASSISTANT and not entry.sidechain:
            return entry if entry.hidden else None
    return None


def find_refusal(
    session_id: str, entries: Sequence[Entry], decode_line: Callable[[int], Any]
) -> SessionRefusal | None:
    """Read what a session ended in; `value` decodes a line by its number.

    None where it did not end in a refusal for its size or for an empty message.
    """
    entry = final_refusal(entries)
    line = decode_line(entry.line) if entry else None
    if entry is None or not isinstance(line, dict):
        return None
    said = {
        "message": "\n".join(piece.text for piece in entry.parts),
        "error": line.get("error"),
        "details": line.get("errorDetails"),
    }
    parsed = parse_recoverable_error(said)
    if parsed is None:
        return None
    return SessionRefusal(
        session_id=session_id,
        key=entry.uuid or f"line {entry.line}",
        error_type=parsed.error_type,
        current_tokens=parsed.current_tokens,
        max_tokens=parsed.max_tokens,
        message_index=parsed.message_index,
        line=entry.line,
    )


class RunStore(Protocol):
    """Where runs are kept: `core.store.automation_records.update_recovery` on an open store."""

    def __call__(
        self, session_id: str, change: Callable[[RecoveryRun | None], RecoveryRun], /
    ) -> RecoveryRun:
        """Change a session's run in one transaction, and give it."""
        ...


class AttemptRefusedError(Exception):
    """No attempt may begin; `refusal` says why and what to do."""

    def __init__(self, refusal: Refusal) -> None:
        super().__init__(f"{refusal.why}: {refusal.what_to_do}")
        self.refusal: Final = refusal


class RecoveryAttempt:
    """The steps of one attempt; made by `attempt`."""

    def __init__(
        self,
        run: RecoveryRun,
        store_run: RunStore,
        settings: RecoverySettings,
        now: Callable[[], int],
    ) -> None:
        self.run = run
        self._store_run: Final = store_run
        self._settings: Final = settings
        self._now: Final = now
        self._lock_mark: Final = run.holder.mark if run.holder else ""

    def next_step(self) -> RecoveryStep | None:
        """Go on to the next step; None where the attempt is over."""
        self._change(lambda run: advance_run(run, self._now(), self._settings))
        return self.run.step

    def succeed(
        self, *, truncated: int = 0, reverted: str | None = None, receipt: str | None = None
    ) -> None:
        """Note that the step was carried out and verified."""
        self._change(
            lambda run: finish_run(
                run, self._now(), truncated=truncated, reverted=reverted, receipt=receipt
            )
        )

    def release(self) -> None:
        """End what is still under way; a lock of somebody else's is left alone."""
        if self.run.state in LOCKED_STATES:
            with suppress(AttemptRefusedError):
                self._change(lambda run: cancel_run(run, self._now()))

    def _change(self, change: Callable[[RecoveryRun], RecoveryRun]) -> None:
        self.run = self._store_run(
            self.run.found.session_id, lambda run: change(self._own_run(run))
        )

    def _own_run(self, run: RecoveryRun | None) -> RecoveryRun:
        if run is None or run.holder is None or run.holder.mark != self._lock_mark:
            raise AttemptRefusedError(
                Refusal(
                    "lock_lost",
                    "another process has taken over this recovery",
                    "look at the session before you try again",
                )
            )
        return run


@contextmanager
def begin_attempt(
    store_run: RunStore,
    session_refusal: SessionRefusal,
    steps: tuple[RecoveryStep, ...],
    settings: RecoverySettings,
    now: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
) -> Iterator[RecoveryAttempt]:
    """Hold the lock of a session that is idle; raises AttemptRefusedError where none may begin.

    The lock of a process that has ended is taken over.
    """
    mine = LockHolder(os.getpid(), process_start_time(os.getpid()) or 0.0, secrets.token_hex(8))

    def begin(before: RecoveryRun | None) -> RecoveryRun:
        moment = now()
        run = record_refusal(
            release_dead_holder(before, moment) if before else None,
            session_refusal,
            steps,
            moment,
            settings,
        )
        refusal = find_attempt_obstacle(run, moment, settings)
        if refusal:
            raise AttemptRefusedError(refusal)
        return take_run_lock(mark_pending(run, moment), mine, moment, settings)

    held = RecoveryAttempt(store_run(session_refusal.session_id, begin), store_run, settings, now)
    try:
        yield held
    finally:
        held.release()


def release_dead_holder(run: RecoveryRun, now_ms: int) -> RecoveryRun:
    """Cancel a run whose process has gone: nobody else would release its lock."""
    if run.holder is None:
        return run
    is_alive = is_running(run.holder.pid, run.holder.start)
    return cancel_run(run, now_ms) if is_lock_lost(run, now_ms, holder_is_alive=is_alive) else run
