"""What a person does to a session from any page: it goes on when the page is left."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from textual.content import Content

from .formats import middle, one_line, tokens
from .worker import Worker

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable, Collection

    from ..collectors.asking.outcome import Outcome
    from ..collectors.folder import Trouble
    from ..collectors.recovering import Recovery
    from ..collectors.resuming import Resumed
    from ..core.compaction.plan import Plan
    from ..core.compaction.receipts import Mode, Receipt
    from ..core.compaction.recovery.settings import Step
    from ..core.compaction.stage import Stage
    from ..core.compaction.undo import Undone
    from ..core.sessions import Session
    from .app import CtxtopApp
    from .applying import NotDone

TOAST_S: Final = 10.0
"""How it ended is worth more time than a notice."""

TITLE_CELLS: Final = 40


class Acts:
    """Starts each act once, and tells how it ended wherever a person is by then."""

    def __init__(self, app: CtxtopApp) -> None:
        self._app: Final = app
        self._running: Final[dict[str, str]] = {}
        # The client takes minutes: what else is to be written does not wait for it.
        self._client_worker: Final = Worker("ctxtop asks", app.post_message)

    def running(self, session_id: str) -> str | None:
        """Say what is being done to a session; None where nothing is."""
        return self._running.get(session_id)

    def apply(
        self,
        session: Session,
        plan: Plan,
        mode: Mode,
        on_stage: Callable[[Stage], None],
        on_done: Callable[[Receipt | NotDone | Trouble], None],
    ) -> None:
        """Carry a plan out; `hear` is told each stage, `done` how it ended."""
        from .applying import apply
        from .receipt_words import MODES

        app = self._app

        def tell(stage: Stage) -> None:
            app.file_worker.call_in_app(lambda: on_stage(stage))

        def take(found: Receipt | NotDone | Trouble) -> None:
            from ..core.compaction.receipts import Receipt

            self._running.pop(session.session_id, None)
            if isinstance(found, Receipt):
                freed = found.plan.before_tokens - found.plan.after_tokens
                checks = f"{len(found.verified)} checks passed; u takes it back"
                how = f"{MODES[mode]}: ≈ {tokens(freed)} tokens freed, {checks}"
                self._notify_end(_named(session), how)
            else:
                self._notify_failure(_named(session), found)
            on_done(found)

        if self._begin(session, "it is being written"):
            app.file_worker.submit(lambda: apply(app.places, session, plan, mode, tell), take)

    def ask_client(
        self,
        session: Session,
        instructions: str,
        on_done: Callable[[Outcome | NotDone | Trouble], None],
    ) -> None:
        """Let the client compact a session; it may take minutes."""
        from .applying import ask_client

        app = self._app

        def take(found: Outcome | NotDone | Trouble) -> None:
            from ..collectors.asking.outcome import Outcome

            self._running.pop(session.session_id, None)
            if isinstance(found, Outcome):
                sizes = f"{tokens(found.pre_tokens)} → {tokens(found.post_tokens)}"
                how = f"compacted by Claude Code via {found.via.value}: {sizes}"
                self._notify_end(_named(session), how)
            else:
                self._notify_failure(_named(session), found)
            on_done(found)

        if self._begin(session, "Claude Code was asked to /compact"):
            self._notify(_named(session), "Claude Code was asked to /compact; it may take minutes")
            self._client_worker.submit(lambda: ask_client(app.places, session, instructions), take)

    def recover(
        self,
        session: Session,
        confirmed: frozenset[Step],
        on_done: Callable[[tuple[Recovery, Resumed | None] | NotDone | Trouble], None],
    ) -> None:
        """Mend a session in a fork."""
        app = self._app

        def work() -> tuple[Recovery, Resumed | None] | NotDone:
            from .mending import mend_or_why

            return mend_or_why(app.places, session, confirmed)

        def take(found: tuple[Recovery, Resumed | None] | NotDone | Trouble) -> None:
            self._running.pop(session.session_id, None)
            if isinstance(found, tuple):
                chosen = found[0].choice.chosen
                step = chosen.step if chosen else "a step"
                self._notify_end(_named(session), f"mended by {step} in a fork; u takes it back")
            else:
                self._notify_failure(_named(session), found)
            on_done(found)

        if self._begin(session, "it is being mended"):
            app.file_worker.submit(work, take)

    def undo_last(self) -> None:
        """Offer to take back the newest receipt that stands."""
        from .receipt_words import newest_standing

        def take(found: Receipt | Trouble | None) -> None:
            from ..collectors.folder import Trouble

            if isinstance(found, Trouble):
                self._notify_failure("undo", found)
            elif found is None:
                self._notify("nothing to undo", "no receipt stands; R shows all")
            else:
                self.undo(found, None, lambda _: None)

        store = self._app.places.store

        def question(db: sqlite3.Connection) -> Receipt | None:
            del db
            return newest_standing(store)

        self._app.feed.slow_queries.query(question, take)

    def undo(
        self,
        receipt: Receipt,
        numbers: Collection[int] | None,
        on_done: Callable[[Undone | NotDone | Trouble], None],
    ) -> None:
        """Say what will be taken back, and do it where that is confirmed."""
        from ..collectors.subjects import state_folder
        from .receipt_words import undo_words, why_not_undoable
        from .screens.confirm import ConfirmScreen

        app = self._app
        title = self._title_of(receipt.session_id)

        def answer(yes: bool | None) -> None:  # noqa: FBT001 -- Textual's form
            if yes:
                self._undo(receipt, numbers, title, on_done)

        def ask(why_not: str | Trouble | None) -> None:
            if why_not is not None:
                self._notify("cannot be undone", str(why_not), failed=True)
                return
            what = Content(undo_words(receipt, numbers, title))
            app.push_screen(ConfirmScreen("Undo", what, "Take it back"), answer)

        state = state_folder(app.places.store)
        app.feed.slow_queries.query(lambda _: why_not_undoable(receipt, state), ask)

    def _undo(
        self,
        receipt: Receipt,
        numbers: Collection[int] | None,
        title: str,
        on_done: Callable[[Undone | NotDone | Trouble], None],
    ) -> None:
        from .applying import take_back

        app = self._app

        def take(found: Undone | NotDone | Trouble) -> None:
            from ..core.compaction.undo import Undone

            if isinstance(found, Undone):
                count = f"{len(found.undone)} of {len(receipt.plan.operations)} operations"
                self._notify_end(title, f"took back {count}; receipt {receipt.receipt_id}")
            else:
                self._notify_failure(title, found)
            on_done(found)

        app.file_worker.submit(lambda: take_back(app.places, receipt, numbers), take)

    def _title_of(self, session_id: str) -> str:
        sessions = self._app.view.sessions if self._app.view else ()
        titles = (each.title for each in sessions if each.session_id == session_id)
        return middle(next(titles, session_id[:8]), TITLE_CELLS)

    def _begin(self, session: Session, what: str) -> bool:
        running = self.running(session.session_id)
        if running is not None:
            self._notify(_named(session), f"wait: {running}", failed=True)
            return False
        self._running[session.session_id] = what
        return True

    def _notify(self, title: str, words: str, *, failed: bool = False) -> None:
        self._app.notify(
            one_line(words),
            title=one_line(title),
            severity="error" if failed else "information",
            timeout=TOAST_S,
            markup=False,
        )

    def _notify_end(self, title: str, words: str, *, failed: bool = False) -> None:
        self._notify(title, words, failed=failed)
        # Who looks elsewhere meanwhile is told there.
        self._app.notifier.log_end(title, words, failed=failed)

    def _notify_failure(self, title: str, found: NotDone | Trouble) -> None:
        why = getattr(found, "why", None)
        self._notify_end(title, "; ".join(why) if why else str(found), failed=True)


def _named(session: Session) -> str:
    return middle(session.title, TITLE_CELLS)
