"""Actions on a session that outlive their page: compact, recover, undo, ask the client."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, Final

from textual.content import Content

from ..core.transcript.sanitize import one_line
from .background_queries import WorkerThread
from .text.formats import shorten_middle, tokens

if TYPE_CHECKING:
    from ..core.actions.session_access import ActionFailure, ClientCompactResult, ResumeResult
    from ..core.actions.session_recovery import Recovery
    from ..core.compaction.apply import ApplyStage
    from ..core.compaction.plan import CompactionPlan
    from ..core.compaction.receipts import ApplyMode, CompactionReceipt
    from ..core.compaction.recovery.recovery_settings import RecoveryStep
    from ..core.compaction.undo import UndoResult
    from ..core.model.problem import Problem
    from ..core.model.session import Session
    from .app_base import AppBase


RESULT_TOAST_S: Final = 10.0
"""How it ended is worth more time than a notice."""

TITLE_CELLS: Final = 40


class SessionActions:
    """Starts each act once, and tells how it ended wherever a person is by then."""

    def __init__(self, app: AppBase) -> None:
        self._app: Final = app
        self._running: Final[dict[str, str]] = {}
        # The client takes minutes: what else is to be written does not wait for it.
        self._client_worker: Final = WorkerThread("ctxtop asks", app)

    def running(self, session_id: str) -> str | None:
        """Return the action that is running on a session; None if there is none."""
        return self._running.get(session_id)

    def apply(
        self,
        session: Session,
        plan: CompactionPlan,
        mode: ApplyMode,
        on_stage: Callable[[ApplyStage], None],
        on_done: Callable[[CompactionReceipt | ActionFailure | Problem], None],
    ) -> None:
        """Carry a plan out; `on_stage` receives each stage, `on_done` how it ended."""
        from ..collectors.session_target import session_target
        from ..core.actions.session_compaction import apply_compaction
        from .screens.history.receipt_history import MODE_NAMES

        app = self._app

        def tell(stage: ApplyStage) -> None:
            app.call_later(on_stage, stage)

        def take(found: CompactionReceipt | ActionFailure | Problem) -> None:
            from ..core.compaction.receipts import CompactionReceipt

            self._running.pop(session.session_id, None)
            if isinstance(found, CompactionReceipt):
                freed = found.plan.tokens_saved
                checks = f"{len(found.verified)} checks passed; u takes it back"
                how = f"{MODE_NAMES[mode]}: ≈ {tokens(freed)} tokens freed, {checks}"
                self._notify_end(_short_title(session), how)
            else:
                self._notify_failure(_short_title(session), found)
            on_done(found)

        if self._begin(session, "it is being written"):
            target = session_target(app.places.folder, app.places.store, session)
            app.file_worker.submit(lambda: apply_compaction(target, plan, mode, tell), take)

    def ask_client(
        self,
        session: Session,
        instructions: str,
        on_done: Callable[[ClientCompactResult | ActionFailure | Problem], None],
    ) -> None:
        """Compact a session with the client; it may take minutes."""
        app = self._app

        def work() -> ClientCompactResult | ActionFailure:
            from ..collectors.session_target import open_session_at
            from ..core.actions import session_compaction
            from ..core.actions.session_access import Via

            access = open_session_at(app.places, session)
            return session_compaction.compact_with_client(access, Via.AUTO, instructions)

        def take(found: ClientCompactResult | ActionFailure | Problem) -> None:
            from ..core.actions.session_access import ClientCompactResult

            self._running.pop(session.session_id, None)
            if isinstance(found, ClientCompactResult):
                sizes = f"{tokens(found.pre_tokens)} → {tokens(found.post_tokens)}"
                how = f"compacted by Claude Code via {found.via.value}: {sizes}"
                self._notify_end(_short_title(session), how)
            else:
                self._notify_failure(_short_title(session), found)
            on_done(found)

        if self._begin(session, "Claude Code was asked to /compact"):
            self._notify(
                _short_title(session), "Claude Code was asked to /compact; it may take minutes"
            )
            self._client_worker.submit(work, take)

    def recover(
        self,
        session: Session,
        confirmed: frozenset[RecoveryStep],
        on_done: Callable[[tuple[Recovery, ResumeResult | None] | ActionFailure | Problem], None],
    ) -> None:
        """Mend a session in a fork."""
        app = self._app

        def work() -> tuple[Recovery, ResumeResult | None] | ActionFailure:
            from ..collectors.session_target import open_session_at
            from ..core.actions.session_recovery import try_run_recovery

            return try_run_recovery(open_session_at(app.places, session), confirmed)

        def take(found: tuple[Recovery, ResumeResult | None] | ActionFailure | Problem) -> None:
            self._running.pop(session.session_id, None)
            if isinstance(found, tuple):
                chosen = found[0].choice.chosen
                step = chosen.step if chosen else "a step"
                self._notify_end(
                    _short_title(session), f"mended by {step} in a fork; u takes it back"
                )
            else:
                self._notify_failure(_short_title(session), found)
            on_done(found)

        if self._begin(session, "it is being mended"):
            app.file_worker.submit(work, take)

    def undo_last(self) -> None:
        """Offer to take back the newest receipt that stands."""
        from ..core.actions.session_compaction import newest_undoable

        def take(found: CompactionReceipt | Problem | None) -> None:
            from ..core.model.problem import Problem

            if isinstance(found, Problem):
                self._notify_failure("undo", found)
            elif found is None:
                self._notify("nothing to undo", "no receipt stands; R shows all")
            else:
                self.undo(found, None, lambda _: None)

        store = self._app.places.store

        self._app.lookup_worker.submit(lambda: newest_undoable(store), take)

    def undo(
        self,
        receipt: CompactionReceipt,
        numbers: Collection[int] | None,
        on_done: Callable[[UndoResult | ActionFailure | Problem], None],
    ) -> None:
        """Show what would be undone, and undo it once the user confirms."""
        from ..core.actions.session_compaction import undo_obstacle
        from ..core.store.database import state_folder
        from .screens.confirm_screen import ConfirmScreen
        from .screens.history.receipt_history import undo_question

        app = self._app
        title = self._title_of(receipt.session_id)

        def answer(yes: bool | None) -> None:  # noqa: FBT001 -- Textual's form
            if yes:
                self._undo(receipt, numbers, title, on_done)

        def ask(why_not: str | Problem | None) -> None:
            if why_not is not None:
                self._notify("cannot be undone", str(why_not), failed=True)
                return
            what = Content(undo_question(receipt, numbers, title))
            app.push_screen(ConfirmScreen("Undo", what, "Take it back"), answer)

        state = state_folder(app.places.store)
        app.lookup_worker.submit(lambda: undo_obstacle(receipt, state), ask)

    def _undo(
        self,
        receipt: CompactionReceipt,
        numbers: Collection[int] | None,
        title: str,
        on_done: Callable[[UndoResult | ActionFailure | Problem], None],
    ) -> None:
        from ..collectors.session_target import receipt_target
        from ..core.actions.session_compaction import undo_receipt

        app = self._app
        target = receipt_target(app.places.folder, app.places.store, receipt)

        def take(found: UndoResult | ActionFailure | Problem) -> None:
            from ..core.compaction.undo import UndoResult

            if isinstance(found, UndoResult):
                count = f"{len(found.undone)} of {len(receipt.plan.operations)} operations"
                self._notify_end(title, f"took back {count}; receipt {receipt.receipt_id}")
            else:
                self._notify_failure(title, found)
            on_done(found)

        app.file_worker.submit(lambda: undo_receipt(target, receipt, numbers), take)

    def _title_of(self, session_id: str) -> str:
        sessions = self._app.view.sessions if self._app.view else ()
        titles = (each.title for each in sessions if each.session_id == session_id)
        return shorten_middle(next(titles, session_id[:8]), TITLE_CELLS)

    def _begin(self, session: Session, what: str) -> bool:
        running = self.running(session.session_id)
        if running is not None:
            self._notify(_short_title(session), f"wait: {running}", failed=True)
            return False
        self._running[session.session_id] = what
        return True

    def _notify(self, title: str, words: str, *, failed: bool = False) -> None:
        self._app.notify(
            one_line(words),
            title=one_line(title),
            severity="error" if failed else "information",
            timeout=RESULT_TOAST_S,
            markup=False,
        )

    def _notify_end(self, title: str, words: str, *, failed: bool = False) -> None:
        self._notify(title, words, failed=failed)
        # Who looks elsewhere meanwhile is told there.
        self._app.report_end(title, words, failed=failed)

    def _notify_failure(self, title: str, found: ActionFailure | Problem) -> None:
        why = getattr(found, "why", None)
        self._notify_end(title, "; ".join(why) if why else str(found), failed=True)


def _short_title(session: Session) -> str:
    return shorten_middle(session.title, TITLE_CELLS)
