"""Start automatic compactions and recoveries where the user has turned them on (T-10).

A session that nobody has open is changed by ctxtop; one that is open and idle only by its client.
Every change has a receipt, and the user is notified.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from threading import Thread
from typing import TYPE_CHECKING, Final

import msgspec

from ..compaction.recovery.limit_errors import LimitErrorType
from ..model.problem import Problem
from ..store.automation_records import (
    AUTOMATIC_RUN_TIMEOUT_MS,
    AutomaticRunRecord,
    begin_automatic_run,
    clean_up_runs,
    context_range_since,
    end_automatic_run,
    read_automatic_runs,
    read_recovery,
)

Notify = Callable[[Problem], None]

if TYPE_CHECKING:
    from ..compaction.automation_rules import AutomationDecision, AutomationInput
    from ..model.session import Session
    from ..policy.policy import Policy
    from ..policy.resolve import Policies
    from ..store.writer import Writer
    from .automatic_actions import ActionResult, AutomaticAction
    from .session_access import SessionAccess

    RunAction = Callable[[AutomaticAction], ActionResult]
    OpenSession = Callable[[Session, Policy, str], SessionAccess]
    """Opens a session for automation; the text is the reason that its receipt records."""


AUTOMATIC_SUFFIX: Final = "by itself"
"""Ends the place of a notice that tells what was done without being asked for."""

CHECK_INTERVAL_MS: Final = 10_000
"""Between two looks: a threshold that was crossed a moment ago is no emergency."""

RUN_HISTORY_MS: Final = 30 * 24 * 3_600_000
"""A session is compacted once more only when it has grown since the last time."""

CLEANUP_INTERVAL_MS: Final = 3_600_000


class ActionRunners(msgspec.Struct, frozen=True):
    """How it is done, and where it is told."""

    compact: RunAction
    recover: RunAction
    notify: Notify


class _EndedRun(msgspec.Struct, frozen=True):
    run: AutomaticRunRecord
    act: AutomaticAction
    result: ActionResult | None  # none where it broke off


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
        writer: Writer,
        policies: Callable[[], Policies],
        open_session: OpenSession,
        runners: ActionRunners,
        now: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
    ) -> None:
        self._writer: Final = writer
        self._policies: Final = policies
        self._open_session: Final = open_session
        self._runners: Final = runners
        self._now: Final = now
        self._checked_at = 0
        self._cleaned_at = 0
        self._thread: Thread | None = None
        self._ended: list[_EndedRun] = []
        self._waits: dict[str, _Wait] = {}
        self._notified: set[tuple[str, str]] = set()
        """Sessions and the checks of which was told."""

    def tick(self) -> None:
        """Keep how the last run ended, and begin one where the person wants it and all is well."""
        self._store_ended_runs()
        moment = self._now()
        if moment - self._checked_at < CHECK_INTERVAL_MS:
            return
        self._checked_at = moment
        if moment - self._cleaned_at >= CLEANUP_INTERVAL_MS:
            self._cleaned_at = moment
            clean_up_runs(self._writer.connection, moment)
        if self._thread is None and self._is_enabled():
            self._begin_first(moment)

    def wait(self, seconds: float) -> None:
        """Wait for a run that is under way, and keep how it ended."""
        if self._thread is not None:
            self._thread.join(seconds)
        self._store_ended_runs()

    def _is_enabled(self) -> bool:
        from ..compaction.automation_rules import check_automation_enabled  # with all that it needs

        return any(check_automation_enabled(each).allowed for each in self._policies().all)

    def _begin_first(self, moment: int) -> None:
        from ..compaction.automation_rules import check_automation_enabled, decide_compaction
        from ..compaction.recovery.limit_errors import parse_recoverable_error
        from ..store.readers import fleet_reader

        db, policies = self._writer.connection, self._policies()
        runs = read_automatic_runs(db, moment - RUN_HISTORY_MS)
        for session in fleet_reader.read_sessions(db, moment, None, policies):
            policy = policies.for_project(session.project_root)
            if not check_automation_enabled(policy).allowed or self._waits_for(session, moment):
                continue
            own = [each for each in runs if each.session_id == session.session_id]
            situation = self._situation(session, own, moment)
            error = parse_recoverable_error(session.refusal)
            if error is not None:
                begun = self._begin_recovery(session, policy, situation, error.error_type)
            else:
                verdict = decide_compaction(policy, situation)
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

    def _situation(
        self, session: Session, own: list[AutomaticRunRecord], moment: int
    ) -> AutomationInput:
        from ..compaction.automation_rules import AutomationInput, PastRun

        def before(run: AutomaticRunRecord) -> PastRun:
            if run.left_tokens is None:
                return PastRun(run.at)
            least, newest = context_range_since(self._writer.connection, run.session_id, run.at)
            return PastRun(run.at, run.left_tokens, least, newest)

        return AutomationInput(
            context=session.context,
            status=session.status,
            is_open=session.live,
            now_ms=moment,
            last_written_at=session.last_activity_at,
            runs=tuple(before(each) for each in own),
            is_run_active=any(
                each.outcome is None and moment - each.at < AUTOMATIC_RUN_TIMEOUT_MS for each in own
            ),
        )

    def _begin_recovery(
        self, session: Session, policy: Policy, situation: AutomationInput, ended_in: LimitErrorType
    ) -> bool:
        """Mend what ended in a refusal, once for each refusal (002-37)."""
        from ..compaction.automation_rules import decide_recovery

        run = read_recovery(self._writer.connection, session.session_id)
        done_at = run.changed_at if run else None
        verdict = decide_recovery(policy, situation, done_at)
        return verdict.allowed and self._begin(
            session, policy, situation, f"it ended in {ended_in}", self._runners.recover
        )

    def _begin(
        self,
        session: Session,
        policy: Policy,
        situation: AutomationInput,
        reason: str,
        action: RunAction,
    ) -> bool:
        from .automatic_actions import AutomaticAction

        if self._is_fork(session):
            until = situation.now_ms + RUN_HISTORY_MS
            self._waits[session.session_id] = _Wait(session.last_activity_at, until)
            return False
        run = AutomaticRunRecord(session.session_id, situation.now_ms, reason)
        last = max((each.began_at for each in situation.runs), default=0)
        # Before the attempt: one that fails cools down as well (R002-06).
        if not begin_automatic_run(self._writer.connection, run, last):
            return False
        act = AutomaticAction(self._open_session(session, policy, reason), situation)
        # A daemon: ending ctxtop does not wait, and the next one settles what it left.
        self._thread = Thread(target=self._run, args=(act, run, action), daemon=True)
        self._thread.start()
        return True

    def _is_fork(self, session: Session) -> bool:
        """Whether the session is a fork of ours, unused since: nothing more needs to be done."""
        from ..compaction.receipts import ReceiptStore
        from ..store.database import state_folder

        written = ReceiptStore(state_folder(self._writer.path)).for_session(session.session_id)
        return any(
            each.new_session_id == session.session_id and each.at >= (session.last_activity_at or 0)
            for each in written
        )

    def _run(self, act: AutomaticAction, run: AutomaticRunRecord, action: RunAction) -> None:
        done: ActionResult | None = None
        try:
            done = action(act)
        finally:
            self._ended.append(_EndedRun(run, act, done))

    def _store_ended_runs(self) -> None:
        if self._thread is not None and not self._thread.is_alive():
            self._thread = None
        while self._ended:
            ended = self._ended.pop()
            self._store_run(ended)

    def _store_run(self, ended: _EndedRun) -> None:
        done, session = ended.result, ended.act.session
        run = msgspec.structs.replace(
            ended.run,
            outcome=done.outcome if done else "broken off",
            ended_at=self._now(),
            left_tokens=done.left_tokens if done else None,
            receipt=done.receipt if done else None,
        )
        end_automatic_run(self._writer.connection, run)
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

    def _notify_refusal(self, session: Session, verdict: AutomationDecision) -> None:
        if verdict.is_reported:
            start = session.session_id[:8]
            what = f"not compacted by itself: {verdict.why}"
            command = "trigger" if session.live else "compact"
            notice = Problem(f"session {start}", what, f"`ctxtop {command} {start}`")
            self._notify_once(session.session_id, verdict.check, notice)

    def _notify_once(self, session_id: str, check: str, notice: Problem) -> None:
        if (session_id, check) not in self._notified:
            self._notified.add((session_id, check))
            self._runners.notify(notice)

    def _forget_notified(self, session_id: str) -> None:
        """Forget which obstacles were reported, so that they are reported again next time."""
        self._notified = {each for each in self._notified if each[0] != session_id}


def is_automatic_notice(notice: Problem) -> bool:
    """Whether a notice reports an automatic run that took an action."""
    return notice.where.endswith(AUTOMATIC_SUFFIX)


def default_runners(notify: Notify) -> ActionRunners:
    """Do it as ctxtop does."""

    def compact(act: AutomaticAction) -> ActionResult:
        from .automatic_actions import compact_automatically

        return compact_automatically(act)

    def mend(act: AutomaticAction) -> ActionResult:
        from .automatic_actions import recover_automatically

        return recover_automatically(act)

    return ActionRunners(compact, mend, notify)
