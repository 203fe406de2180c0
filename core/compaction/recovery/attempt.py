"""One attempt at a recovery: under a lock that is released whatever happens (R002-11)."""

from __future__ import annotations

import os
import secrets
import time
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Final, Protocol

from ...processes import is_running, start_of
from ..plan import Refusal
from .run import (
    AT_WORK,
    Holder,
    Run,
    cancel,
    detect,
    is_lost,
    lock,
    next_step,
    obstacle,
    succeed,
    wait_for_lock,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from .run import Found
    from .settings import RecoverySettings, Step


class Keep(Protocol):
    """Where runs are kept: `core.store.recovery_rows.change_run` on an open store."""

    def __call__(self, session_id: str, change: Callable[[Run | None], Run], /) -> Run:
        """Change a session's run in one transaction, and give it."""
        ...


class NotNowError(Exception):
    """No attempt may begin; `refusal` says why and what to do."""

    def __init__(self, refusal: Refusal) -> None:
        super().__init__(f"{refusal.why}: {refusal.what_to_do}")
        self.refusal: Final = refusal


class Attempt:
    """The steps of one attempt; made by `attempt`."""

    def __init__(
        self,
        run: Run,
        store_run: Keep,
        settings: RecoverySettings,
        now: Callable[[], int],
    ) -> None:
        self.run = run
        self._store_run: Final = store_run
        self._settings: Final = settings
        self._now: Final = now
        self._lock_mark: Final = run.holder.mark if run.holder else ""

    def next_step(self) -> Step | None:
        """Go on to the next step; None where the attempt is over."""
        self._change(lambda run: next_step(run, self._now(), self._settings))
        return self.run.step

    def succeed(
        self, *, truncated: int = 0, reverted: str | None = None, receipt: str | None = None
    ) -> None:
        """Note that the step was carried out and verified."""
        self._change(
            lambda run: succeed(
                run, self._now(), truncated=truncated, reverted=reverted, receipt=receipt
            )
        )

    def release(self) -> None:
        """End what is still under way; a lock of somebody else's is left alone."""
        if self.run.state in AT_WORK:
            with suppress(NotNowError):
                self._change(lambda run: cancel(run, self._now()))

    def _change(self, change: Callable[[Run], Run]) -> None:
        self.run = self._store_run(
            self.run.found.session_id, lambda run: change(self._own_run(run))
        )

    def _own_run(self, run: Run | None) -> Run:
        if run is None or run.holder is None or run.holder.mark != self._lock_mark:
            raise NotNowError(
                Refusal(
                    "lock_lost",
                    "another process has taken over this recovery",
                    "look at the session before you try again",
                )
            )
        return run


@contextmanager
def attempt(
    store_run: Keep,
    session_refusal: Found,
    steps: tuple[Step, ...],
    settings: RecoverySettings,
    now: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
) -> Iterator[Attempt]:
    """Hold the lock of a session that is idle; raises NotNowError where none may begin.

    The lock of a process that has ended is taken over.
    """
    mine = Holder(os.getpid(), start_of(os.getpid()) or 0.0, secrets.token_hex(8))

    def begin(before: Run | None) -> Run:
        moment = now()
        run = detect(
            freed(before, moment) if before else None, session_refusal, steps, moment, settings
        )
        refusal = obstacle(run, moment, settings)
        if refusal:
            raise NotNowError(refusal)
        return lock(wait_for_lock(run, moment), mine, moment, settings)

    held = Attempt(store_run(session_refusal.session_id, begin), store_run, settings, now)
    try:
        yield held
    finally:
        held.release()


def freed(run: Run, now_ms: int) -> Run:
    """Cancel a run whose process has gone: nobody else would release its lock."""
    if run.holder is None:
        return run
    is_alive = is_running(run.holder.pid, run.holder.start)
    return cancel(run, now_ms) if is_lost(run, now_ms, holder_is_alive=is_alive) else run
