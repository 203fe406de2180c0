"""Making sessions smaller, and mending them, by itself where the person wants it (T-10).

Only sessions that nobody has open; what is done is a receipt, and a person is told.
"""

from __future__ import annotations

import time
from threading import Thread
from typing import TYPE_CHECKING, Final

import msgspec

from ..core.store.recovery_rows import (
    LOST_MS,
    AutomaticRun,
    answered_since,
    automatic_runs,
    begin_automatic,
    clean_runs,
    end_automatic,
    read_run,
)
from .folder import Trouble

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..core.compaction.automation import Situation, Verdict
    from ..core.compaction.limit_errors import LimitErrorType
    from ..core.policy.policy import Policy
    from ..core.sessions import Session
    from ..core.store.writer import Writer
    from .acting import Act, Done
    from .folder import ClaudeFolder
    from .policy_files import PolicyFiles

    CarryOut = Callable[[Act], Done]
    Noted = Callable[[Trouble], None]

BY_ITSELF: Final = "by itself"
"""Ends the place of a notice that tells what was done without being asked for."""

LOOK_MS: Final = 10_000
"""Between two looks: a threshold that was crossed a moment ago is no emergency."""

REMEMBERED_MS: Final = 30 * 24 * 3_600_000
"""A session is compacted once more only when it has grown since the last time."""

CLEAN_MS: Final = 3_600_000


class Ways(msgspec.Struct, frozen=True):
    """How it is done, and where it is told."""

    compact: CarryOut
    recover: CarryOut
    notify: Noted


class _Ended(msgspec.Struct, frozen=True):
    run: AutomaticRun
    act: Act
    result: Done | None
    """None where it broke off."""


class _Wait(msgspec.Struct, frozen=True):
    active_at: int | None
    until: int


class Automation:
    """Begins at most one run at a time; it belongs to the collector's thread.

    What is done takes seconds, or minutes where the client is asked: it has a thread of its
    own, and how it ended is kept and told at the next look.
    """

    def __init__(
        self,
        folder: ClaudeFolder,
        writer: Writer,
        files: PolicyFiles,
        runners: Ways,
        now: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
    ) -> None:
        self._folder: Final = folder
        self._writer: Final = writer
        self._files: Final = files
        self._runners: Final = runners
        self._now: Final = now
        self._checked_at = 0
        self._cleaned_at = 0
        self._thread: Thread | None = None
        self._ended: list[_Ended] = []
        self._waits: dict[str, _Wait] = {}
        self._notified: set[tuple[str, str]] = set()
        """Sessions and the checks of which was told."""

    def tick(self) -> None:
        """Keep how the last run ended, and begin one where the person wants it and all is well."""
        self._store_ended_runs()
        moment = self._now()
        if moment - self._checked_at < LOOK_MS:
            return
        self._checked_at = moment
        if moment - self._cleaned_at >= CLEAN_MS:
            self._cleaned_at = moment
            clean_runs(self._writer.connection, moment)
        if self._thread is None and self._is_enabled():
            self._begin_first(moment)

    def wait(self, seconds: float) -> None:
        """Wait for a run that is under way, and keep how it ended."""
        if self._thread is not None:
            self._thread.join(seconds)
        self._store_ended_runs()

    def _is_enabled(self) -> bool:
        from ..core.compaction.automation import may_act  # with all that it needs

        return any(may_act(each).allowed for each in self._files.policies.acting.all)

    def _begin_first(self, moment: int) -> None:
        from ..core import fleet
        from ..core.compaction.automation import may_act, should_act
        from ..core.compaction.recovery.detection import mendable

        db, policies = self._writer.connection, self._files.policies.acting
        runs = automatic_runs(db, moment - REMEMBERED_MS)
        for session in fleet.read_sessions(db, moment, None, policies):
            policy = policies.for_project(session.project_root)
            if not may_act(policy).allowed or self._waits_for(session, moment):
                continue
            own = [each for each in runs if each.session_id == session.session_id]
            situation = self._situation(session, own, moment)
            error = mendable(session.refusal)
            if error is not None:
                begun = self._begin_recovery(session, policy, situation, error.error_type)
            else:
                verdict = should_act(policy, situation)
                self._notify_refusal(session, verdict)
                begun = verdict.allowed and self._begin(
                    session, policy, situation, verdict.why, self._runners.compact
                )
            if begun:
                return

    def _waits_for(self, session: Session, moment: int) -> bool:
        wait = self._waits.get(session.session_id)
        if wait is None or wait.active_at != session.last_activity_at:
            return False
        return moment < wait.until

    def _situation(self, session: Session, own: list[AutomaticRun], moment: int) -> Situation:
        from ..core.compaction.automation import Before, Situation

        def before(run: AutomaticRun) -> Before:
            if run.left_tokens is None:
                return Before(run.at)
            least, newest = answered_since(self._writer.connection, run.session_id, run.at)
            return Before(run.at, run.left_tokens, least, newest)

        return Situation(
            context=session.context,
            status=session.status,
            is_open=session.live,
            now_ms=moment,
            last_written_at=session.last_activity_at,
            runs=tuple(before(each) for each in own),
            is_run_active=any(each.outcome is None and moment - each.at < LOST_MS for each in own),
        )

    def _begin_recovery(
        self, session: Session, policy: Policy, situation: Situation, ended_in: LimitErrorType
    ) -> bool:
        """Mend what ended in a refusal, once for each refusal (002-37)."""
        from ..core.compaction.automation import should_mend

        run = read_run(self._writer.connection, session.session_id)
        done_at = run.changed_at if run else None
        verdict = should_mend(policy, situation, done_at)
        return verdict.allowed and self._begin(
            session, policy, situation, f"it ended in {ended_in}", self._runners.recover
        )

    def _begin(
        self,
        session: Session,
        policy: Policy,
        situation: Situation,
        reason: str,
        action: CarryOut,
    ) -> bool:
        from .acting import Act

        if self._is_fork(session):
            until = situation.now_ms + REMEMBERED_MS
            self._waits[session.session_id] = _Wait(session.last_activity_at, until)
            return False
        run = AutomaticRun(session.session_id, situation.now_ms, reason)
        last = max((each.began_at for each in situation.runs), default=0)
        # Before the attempt: one that fails cools down as well (R002-06).
        if not begin_automatic(self._writer.connection, run, last):
            return False
        act = Act(session, policy, situation, reason, self._folder, self._writer.path)
        # A daemon: ending ctxtop does not wait, and the next one settles what it left.
        self._thread = Thread(target=self._run, args=(act, run, action), daemon=True)
        self._thread.start()
        return True

    def _is_fork(self, session: Session) -> bool:
        """Say whether it is a fork of ours that nobody has gone on with yet: it was dealt with."""
        from ..core.compaction.receipts import Receipts
        from .subjects import state_folder

        written = Receipts(state_folder(self._writer.path)).for_session(session.session_id)
        return any(
            each.new_session_id == session.session_id and each.at >= (session.last_activity_at or 0)
            for each in written
        )

    def _run(self, act: Act, run: AutomaticRun, action: CarryOut) -> None:
        done: Done | None = None
        try:
            done = action(act)
        finally:
            self._ended.append(_Ended(run, act, done))

    def _store_ended_runs(self) -> None:
        if self._thread is not None and not self._thread.is_alive():
            self._thread = None
        while self._ended:
            ended = self._ended.pop()
            self._store_run(ended)

    def _store_run(self, ended: _Ended) -> None:
        done, session = ended.result, ended.act.session
        run = msgspec.structs.replace(
            ended.run,
            outcome=done.outcome if done else "broken off",
            ended_at=self._now(),
            left_tokens=done.left_tokens if done else None,
            receipt=done.receipt if done else None,
        )
        end_automatic(self._writer.connection, run)
        if done is None:
            return
        if done.retry_at:
            wait = _Wait(session.last_activity_at, done.retry_at)
            self._waits[session.session_id] = wait
        if done.check is None:
            self._forget_notified(session.session_id)
            self._runners.notify(done.notice)
        else:
            self._notify_once(session.session_id, done.check, done.notice)

    def _notify_refusal(self, session: Session, verdict: Verdict) -> None:
        if verdict.is_reported:
            start = session.session_id[:8]
            what = f"not compacted by itself: {verdict.why}"
            command = "trigger" if session.live else "compact"
            notice = Trouble(f"session {start}", what, f"`ctxtop {command} {start}`")
            self._notify_once(session.session_id, verdict.check, notice)

    def _notify_once(self, session_id: str, check: str, notice: Trouble) -> None:
        if (session_id, check) not in self._notified:
            self._notified.add((session_id, check))
            self._runners.notify(notice)

    def _forget_notified(self, session_id: str) -> None:
        """Tell anew of what stands in the way next time."""
        self._notified = {each for each in self._notified if each[0] != session_id}


def is_by_itself(notice: Trouble) -> bool:
    """Say whether a notice tells of an automatic run that did something."""
    return notice.where.endswith(BY_ITSELF)


def own_ways(notify: Noted) -> Ways:
    """Do it as ctxtop does."""

    def compact(act: Act) -> Done:
        from .acting import compact_by_itself

        return compact_by_itself(act)

    def mend(act: Act) -> Done:
        from .acting import mend_by_itself

        return mend_by_itself(act)

    return Ways(compact, mend, notify)
