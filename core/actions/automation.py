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

from ..model.problem import Problem
from ..store import automation_records
from ..store.automation_records import AutomaticRunRecord
from ..store.bulkhead import FAILED, bulkhead
from .stored_recoveries import AUTOMATIC_RUN_TIMEOUT_MS, clean_up_runs, read_recovery

Notify = Callable[[Problem], None]

if TYPE_CHECKING:
    from ..compaction.automation_rules import AutomationDecision, AutomationInput, PastRun
    from ..model.counting_rule import CountingRule
    from ..model.session import Session
    from ..policy.policy import Policy
    from ..policy.resolve import Policies
    from ..store.writer import Writer
    from .automatic_actions import ActionResult, AutomaticAction
    from .session_access import SessionAccess

    RunAction = Callable[[AutomaticAction], ActionResult]
    OpenSession = Callable[[Session, Policy, str], SessionAccess]
    """Opens a session for automation; the text is the reason that its receipt records."""


AUTOMATIC_SUFFIX: Final = "automatically"  # ends the place of a notice about what nobody asked for

CHECK_INTERVAL_MS: Final = 10_000  # a threshold that was crossed a moment ago is no emergency
RUN_HISTORY_MS: Final = 30 * 24 * 3_600_000  # a session has to grow before it is compacted again
CLEANUP_INTERVAL_MS: Final = 3_600_000


class ActionRunners(msgspec.Struct, frozen=True):
    compact: RunAction
    recover: RunAction
    recompact: RunAction
    notify: Notify


class Automation:
    """Begins at most one run at a time; it belongs to the collector's thread.

    A run takes seconds, or minutes if the client is asked: it has a thread of its own, and its
    end is stored and reported at the next tick.
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
        self._ended: list[tuple[AutomaticRunRecord, Session, ActionResult | None]] = []
        """Runs with their results; None for one that broke off."""
        self._waits: dict[str, tuple[int | None, int]] = {}
        """By session: when it was last active, and until when to wait if it stays so."""
        self._notified: set[tuple[str, str]] = set()  # sessions and checks

    def tick(self) -> None:
        """Store how the last run ended, and begin one if the user wants it and all is well."""
        self._store_ended_runs()
        now_ms = self._now()
        # A clock that was set back must not stop it until that time has come again.
        if 0 <= now_ms - self._checked_at < CHECK_INTERVAL_MS:
            return
        self._checked_at = now_ms
        if not 0 <= now_ms - self._cleaned_at < CLEANUP_INTERVAL_MS:
            self._cleaned_at = now_ms
            clean_up_runs(self._writer.connection, now_ms)
        if self._thread is None:
            self._begin_first(now_ms)

    def wait(self, seconds: float) -> None:
        if self._thread is not None:
            self._thread.join(seconds)
        self._store_ended_runs()

    def _begin_first(self, now_ms: int) -> None:
        from ..compaction.automation_rules import check_automation_enabled  # with all that it needs

        db, policies = self._writer.connection, self._policies()
        if not any(check_automation_enabled(each).allowed for each in policies.all):
            return
        from ..readers import fleet_reader

        runs = automation_records.read_automatic_runs(db, now_ms - RUN_HISTORY_MS)
        for session in fleet_reader.read_sessions(db, now_ms, None, policies):
            policy = policies.for_project(session.project_root)
            active_at, until = self._waits.get(session.session_id, (None, 0))
            is_waiting = active_at == session.last_activity_at and now_ms < until
            # A recovered session continues in its fork: what is done to it is lost.
            is_over = is_waiting or session.problem or session.recovered_in is not None
            if is_over or not check_automation_enabled(policy).allowed:
                continue
            own = [run for run in runs if run.session_id == session.session_id]
            place = f"automation of {fleet_reader.session_place(session.session_id)}"
            with bulkhead(place, FAILED, self._writer.path):
                if self._begin_one(session, policy, own, now_ms):
                    return

    def _begin_one(
        self, session: Session, policy: Policy, own: list[AutomaticRunRecord], now_ms: int
    ) -> bool:
        situation = self._situation(session, own, now_ms)
        if session.is_silent and self._begin_recompaction(session, policy, situation, own):
            return True
        return self._begin_if_due(session, policy, situation)

    def _begin_recompaction(
        self,
        session: Session,
        policy: Policy,
        situation: AutomationInput,
        own: list[AutomaticRunRecord],
    ) -> bool:
        from ..compaction.automation_rules import RECOMPACT_REASON, decide_recompaction

        attempts = sum(run.reason == RECOMPACT_REASON for run in own)
        if not decide_recompaction(policy, situation, attempts).allowed:
            return False
        recompact = self._runners.recompact
        return self._begin(session, policy, situation, RECOMPACT_REASON, recompact)

    def _begin_if_due(self, session: Session, policy: Policy, situation: AutomationInput) -> bool:
        from ..compaction.automation_rules import decide_compaction, decide_recovery
        from ..compaction.recovery.limit_errors import parse_recoverable_error
        from ..store.queries import context_queries

        error = parse_recoverable_error(session.refusal)
        if error is None:
            decision = decide_compaction(policy, situation)
            if decision.allowed:
                # Only if nothing else refuses: counting reads all answers since a compaction.
                found = context_queries.count_messages(self._writer.connection, session.session_id)
                situation = msgspec.structs.replace(situation, messages=found)
                decision = decide_compaction(policy, situation)
            self._notify_refusal(session, decision)
            reason, action = decision.why, self._runners.compact
        else:
            # Once for each refusal (002-37).
            run = read_recovery(self._writer.connection, session.session_id)
            decision = decide_recovery(policy, situation, run.changed_at if run else None)
            reason, action = f"it ended in {error.error_type}", self._runners.recover
        return decision.allowed and self._begin(session, policy, situation, reason, action)

    def _situation(
        self, session: Session, own: list[AutomaticRunRecord], now_ms: int
    ) -> AutomationInput:
        from ..compaction.automation_rules import AutomationInput

        return AutomationInput(
            context=session.context,
            status=session.status,
            is_open=session.live,
            now_ms=now_ms,
            last_written_at=session.last_activity_at,
            runs=tuple(self._past_run(run, session.context.counting) for run in own),
            is_run_active=any(
                run.outcome is None and now_ms - run.at < AUTOMATIC_RUN_TIMEOUT_MS for run in own
            ),
        )

    def _past_run(self, run: AutomaticRunRecord, counting: CountingRule) -> PastRun:
        from ..compaction.automation_rules import POSTPONED_CHECKS, PastRun

        db, session_id = self._writer.connection, run.session_id
        least, newest = automation_records.context_range_since(db, session_id, run.at, counting)
        past = PastRun(run.at, run.left_tokens, least, newest)
        was_tried = run.failed_check is not None and run.failed_check not in POSTPONED_CHECKS
        if not was_tried:
            return past
        failed_at = automation_records.context_before(db, session_id, run.at, counting)
        return msgspec.structs.replace(past, failed_at_tokens=failed_at)

    def _begin(
        self,
        session: Session,
        policy: Policy,
        situation: AutomationInput,
        reason: str,
        action: RunAction,
    ) -> bool:
        from .automatic_actions import AutomaticAction

        if self._is_unused_fork(session):
            until = situation.now_ms + RUN_HISTORY_MS
            self._waits[session.session_id] = session.last_activity_at, until
            return False
        run = AutomaticRunRecord(session.session_id, situation.now_ms, reason)
        last = max((each.began_at for each in situation.runs), default=0)
        # Before the attempt: one that fails cools down as well (R002-06).
        if not automation_records.begin_automatic_run(self._writer.connection, run, last):
            return False
        act = AutomaticAction(self._open_session(session, policy, reason), situation)
        # A daemon: ending ctxtop does not wait, and the next one recovers what it left.
        self._thread = Thread(target=self._run, args=(act, run, action), daemon=True)
        self._thread.start()
        return True

    def _is_unused_fork(self, session: Session) -> bool:
        """Whether the session is a fork of ours, unused since: nothing more needs to be done."""
        from ..compaction.receipts import ReceiptStore
        from ..store.database import state_folder

        receipts = ReceiptStore(state_folder(self._writer.path)).for_session(session.session_id)
        active_at = session.last_activity_at or 0
        return any(
            receipt.new_session_id == session.session_id and receipt.at >= active_at
            for receipt in receipts
        )

    def _run(self, act: AutomaticAction, run: AutomaticRunRecord, action: RunAction) -> None:
        result: ActionResult | None = None
        with bulkhead(f"automation of session {run.session_id}", FAILED, self._writer.path):
            result = action(act)
        self._ended.append((run, act.session, result))

    def _store_ended_runs(self) -> None:
        if self._thread is not None and not self._thread.is_alive():
            self._thread = None
        while self._ended:
            run, session, result = self._ended.pop()
            ended = msgspec.structs.replace(
                run,
                outcome=result.outcome if result else "interrupted",
                ended_at=self._now(),
                left_tokens=result.left_tokens if result else None,
                receipt=result.receipt if result else None,
            )
            automation_records.end_automatic_run(self._writer.connection, ended)
            if result is not None:
                self._report(session, result)

    def _report(self, session: Session, result: ActionResult) -> None:
        session_id = session.session_id
        if result.retry_at:
            self._waits[session_id] = session.last_activity_at, result.retry_at
        if result.check is None:
            # Report again next time what prevented it earlier.
            self._notified = {each for each in self._notified if each[0] != session_id}
            self._runners.notify(result.notice)
        else:
            self._notify_once(session_id, result.check, result.notice)

    def _notify_refusal(self, session: Session, decision: AutomationDecision) -> None:
        if decision.is_reported:
            start = session.session_id[:8]
            what = f"not compacted automatically: {decision.why}"
            command = "trigger" if session.live else "compact"
            notice = Problem(f"session {start}", what, f"`ctxtop {command} {start}`")
            self._notify_once(session.session_id, decision.check, notice)

    def _notify_once(self, session_id: str, check: str, notice: Problem) -> None:
        if (session_id, check) not in self._notified:
            self._notified.add((session_id, check))
            self._runners.notify(notice)


def is_automatic_notice(notice: Problem) -> bool:
    return notice.where.endswith(AUTOMATIC_SUFFIX)


def default_runners(notify: Notify) -> ActionRunners:
    def compact(act: AutomaticAction) -> ActionResult:
        from .automatic_actions import compact_automatically

        return compact_automatically(act)

    def recover(act: AutomaticAction) -> ActionResult:
        from .automatic_actions import recover_automatically

        return recover_automatically(act)

    def recompact(act: AutomaticAction) -> ActionResult:
        from .automatic_actions import recompact_automatically

        return recompact_automatically(act)

    return ActionRunners(compact, recover, recompact, notify)
