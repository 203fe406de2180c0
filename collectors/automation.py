"""Asking open, idle sessions to compact where their project has opted in (T-10)."""

from __future__ import annotations

import time
from threading import Thread
from typing import TYPE_CHECKING, Final

import msgspec

from ..core.store.recovery_rows import (
    AutomaticRun,
    automatic_runs,
    begin_automatic,
    clean_runs,
    end_automatic,
)
from .asking.outcome import NotCompactedError, Via, Why

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..core.sessions import Session
    from ..core.store.writer import Writer
    from .asking.ask import Subject
    from .asking.outcome import Outcome
    from .folder import ClaudeFolder
    from .policy_files import PolicyFiles

    Ask = Callable[[Subject, Via, str], Outcome]

LOOK_MS: Final = 10_000
"""Between two looks: a threshold that was crossed a moment ago is no emergency."""

REMEMBERED_MS: Final = 3_600_000
"""Longer than the breaker is open."""

CLEAN_MS: Final = 3_600_000

LOST_MS: Final = 900_000
"""A run of another ctxtop that has not ended after this long will not: asking takes 300 s."""


class _Ended(msgspec.Struct, frozen=True):
    run: AutomaticRun
    outcome: str


class Automation:
    """Begins at most one run at a time; it belongs to the collector's thread.

    The client is asked in a thread of its own, for it may take minutes; how it ended is kept
    at the next look.
    """

    def __init__(
        self,
        folder: ClaudeFolder,
        writer: Writer,
        files: PolicyFiles,
        ask: Ask | None = None,
        now: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
    ) -> None:
        self._folder: Final = folder
        self._writer: Final = writer
        self._files: Final = files
        self._ask: Final = ask or _ask_client
        self._now: Final = now
        self._looked_at = 0
        self._cleaned_at = 0
        self._thread: Thread | None = None
        self._ended: list[_Ended] = []

    def look(self) -> None:
        """Keep how the last run ended, and begin one where a project wants it and all is well."""
        self._keep_ended()
        moment = self._now()
        if moment - self._looked_at < LOOK_MS:
            return
        self._looked_at = moment
        if moment - self._cleaned_at >= CLEAN_MS:
            self._cleaned_at = moment
            clean_runs(self._writer.connection, moment)
        if self._thread is None and self._is_wanted():
            self._begin_first(moment)

    def wait(self, seconds: float) -> None:
        """Wait for a run that is under way, and keep how it ended."""
        if self._thread is not None:
            self._thread.join(seconds)
        self._keep_ended()

    def _is_wanted(self) -> bool:
        from ..core.compaction.automation import may_act  # with all that it needs

        return any(may_act(each).compact for each in self._files.policies.projects.values())

    def _begin_first(self, moment: int) -> None:
        from ..core import fleet
        from ..core.compaction.automation import Situation, should_act

        db, policies = self._writer.connection, self._files.policies
        runs = automatic_runs(db, moment - REMEMBERED_MS)
        for session in fleet.read_sessions(db, moment, None, policies):
            own = [each for each in runs if each.session_id == session.session_id]
            situation = Situation(
                context=session.context,
                status=session.status,
                is_open=session.live,
                now_ms=moment,
                runs=tuple(each.at for each in own),
                is_running=any(each.outcome is None and moment - each.at < LOST_MS for each in own),
            )
            decision = should_act(policies.of(session.cwd), situation)
            if decision.compact:
                run = AutomaticRun(session.session_id, moment, decision.reason)
                self._begin(session, run, max(situation.runs, default=0))
                return

    def _begin(self, session: Session, run: AutomaticRun, last: int) -> None:
        from .asking.ask import Subject

        # Before the attempt: one that fails cools down as well (R002-06).
        if not begin_automatic(self._writer.connection, run, last):
            return
        subject = Subject(
            session_id=session.session_id,
            transcript=self._folder.projects / session.path,
            cwd=session.cwd,
            folder=self._folder,
            store=self._writer.path,
            config_dir=self._folder.root,
        )
        # A daemon: ending ctxtop does not wait for a client that summarises.
        self._thread = Thread(target=self._run, args=(subject, run), daemon=True)
        self._thread.start()

    def _run(self, subject: Subject, run: AutomaticRun) -> None:
        try:
            outcome = self._ask(subject, Via.PLUGIN, "")
        except (NotCompactedError, OSError) as error:
            self._ended.append(_Ended(run, f"failed: {error}"))
        else:
            sizes = f"{outcome.pre_tokens} to {outcome.post_tokens} tokens"
            self._ended.append(_Ended(run, f"compacted via {outcome.via}: {sizes}"))

    def _keep_ended(self) -> None:
        if self._thread is not None and not self._thread.is_alive():
            self._thread = None
        while self._ended:
            ended = self._ended.pop()
            end_automatic(self._writer.connection, ended.run, ended.outcome, self._now())


def _ask_client(subject: Subject, via: Via, text: str) -> Outcome:
    """Ask by the plugin, or where it is not there by tmux: never by a run of our own.

    A run of `claude -p` would be for a session that nobody has open, and costs money that
    nobody sees.
    """
    from .asking.ask import ask_to_compact

    try:
        return ask_to_compact(subject, via, text)
    except NotCompactedError as error:
        if error.why is not Why.UNSAFE:
            raise
        return ask_to_compact(subject, Via.TMUX, text)
