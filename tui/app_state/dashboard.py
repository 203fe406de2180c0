"""What screens use of the app: its places and workers, pages to open, and actions on sessions."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Sequence
from functools import cached_property, partial
from typing import TYPE_CHECKING, Final, Protocol, TypeVar

from msgspec.structs import replace
from textual.notifications import Notification, Notify

from ...core.transcript.sanitize import one_line
from ..base.background_queries import WorkerThread
from ..base.type_ahead import TypeAheadApp
from ..base.ui_state import UiState, UiStateFile
from ..text.formats import shorten, toast_text, tokens, tokens_before_and_after
from .toasts import EVENT_SEVERITIES, OWN_SOURCE, TOAST_S, Notice, Toast, join_toast, make_toast

if TYPE_CHECKING:
    from textual.notifications import SeverityLevel

    from ...collectors.locations.places import Places
    from ...core.actions.session_access import ActionFailure, ClientCompactResult, ResumeResult
    from ...core.actions.session_recovery import Recovery
    from ...core.compaction.apply import ApplyStage
    from ...core.compaction.plan import CompactionPlan
    from ...core.compaction.receipts import ApplyMode, CompactionReceipt
    from ...core.compaction.recovery.recovery_run import RecoveryStep
    from ...core.compaction.undo import UndoResult
    from ...core.model.agent import Agent
    from ...core.model.problem import Problem
    from ...core.model.session import Session
    from ...core.model.stored_rows import SummaryRow
    from ..base.messages import FleetView
    from ..entities.event_log import EventLog
    from ..widgets.whole_text_pane import Description
    from .feed import Feed


COPIED_PREVIEW_CHARS: Final = 60  # shown in a toast: not every terminal supports the clipboard


class Dashboard(TypeAheadApp):
    """The app as its screens see it; it names no screen, so that screens can name it."""

    NOTIFICATION_TIMEOUT = TOAST_S

    places: Places
    feed: Feed
    file_worker: WorkerThread  # changes files, one change after the other
    lookup_worker: WorkerThread  # reads what takes longer than a frame
    quick_worker: WorkerThread  # asks the store what it answers within a frame
    view: FleetView | None = None  # the newest
    session_actions: SessionActions
    state_file: UiStateFile
    ui_state = UiState()
    _toast: Toast | None = None  # that is shown
    is_left_for_demo = False  # the demo is opened next, and then the dashboard again

    @cached_property
    def event_log(self) -> EventLog:
        from ..entities.event_log import EventLog  # after the first paint

        return EventLog()

    @property
    def sessions(self) -> tuple[Session, ...]:
        """The sessions of the newest view."""
        return self.view.sessions if self.view else ()

    def find_session(self, session_id: str | None) -> Session | None:
        return self.view.session(session_id) if self.view else None

    def title_of(self, session_id: str) -> str:
        """Return a session's title, or the start of its id if it is not in the view."""
        session = self.find_session(session_id)
        return session.title if session else session_id[:8]

    def now_ms(self) -> int:
        """Return milliseconds since 1970."""
        return time.time_ns() // 1_000_000

    def notify(
        self,
        message: str,
        *,
        title: str = "",
        severity: SeverityLevel = "information",
        timeout: float | None = None,
        markup: bool = False,
    ) -> None:
        """Show a toast as Textual does, but parse nothing in it as markup."""
        seconds = self.NOTIFICATION_TIMEOUT if timeout is None else timeout
        self.tell(Notice(message, one_line(title), severity, seconds=seconds))

    def toast(
        self,
        words: str,
        title: str = "",
        severity: SeverityLevel = "information",
        source: str | None = OWN_SOURCE,
    ) -> None:
        """Show the first lines of a text; the log gets all of it, from `source`."""
        shown, title = toast_text(words), one_line(title)
        self.tell(Notice(shown, title, severity, source, words))

    def tell(self, *notices: Notice) -> None:
        """Show notices in the one toast there is, and keep them in the log.

        All that the user is told comes here. The log has some events itself: their notices
        have no source.
        """
        for each in notices:
            if each.source is not None:
                severity, where = EVENT_SEVERITIES[each.severity], each.title or OWN_SOURCE
                text = each.words or each.text
                self.event_log.add(self.now_ms(), severity, each.source, where, text)
        toast = join_toast(self._toast, notices)
        self.clear_notifications()
        self._toast = toast
        self.post_message(Notify(toast))

    def clear_notifications(self) -> None:
        self._toast = None
        super().clear_notifications()

    def _unnotify(self, notification: Notification, refresh: bool = True) -> None:  # noqa: FBT001, FBT002 -- Textual's
        if notification is self._toast:
            # A click has closed it: what it said joins nothing.
            self._toast = None
        super()._unnotify(notification, refresh)

    def leave_toasts(self) -> None:
        """Remove what another page was told."""
        left = self._toast
        if left is None:
            return
        recent = tuple(each for each in left.notices if each.is_recent)
        if len(recent) == len(left.notices):
            return
        left.is_replaced = True
        self.clear_notifications()
        if recent:
            self._toast = make_toast(recent)
            self._notifications.add(self._toast)
            self._refresh_notifications()

    def copy(self, text: str, what: str) -> None:
        self.copy_to_clipboard(text)
        preview = one_line(text)[:COPIED_PREVIEW_CHARS]
        title = one_line(f"copied {what}")[:COPIED_PREVIEW_CHARS]
        self.toast(preview, title)

    def update_ui_state(self, **changes: object) -> None:
        """Change fields of the state, and write the file in the background."""
        before, self.ui_state = self.ui_state, replace(self.ui_state, **changes)
        if self.ui_state != before:
            write = partial(self.state_file.write_changes, before, self.ui_state)
            self.file_worker.submit(write, self._check_saved)

    def _check_saved(self, found: UiState | Problem) -> None:
        # The state itself stays, because a newer change may be on its way already.
        if not isinstance(found, UiState):
            self.toast(str(found))

    def confirm(
        self, title: str, what: Description, action_label: str, on_yes: Callable[[], None]
    ) -> None:
        """Ask the user, and call `on_yes` if they agree."""
        raise NotImplementedError

    @property
    def current_session(self) -> Session | None:
        """The session whose page is open, else the one under the cursor."""
        raise NotImplementedError

    def go_back(self, crumbs: tuple[str, ...], session_id: str | None) -> None:
        """Go back to the page of a breadcrumb; to the session or the fleet if it is not open."""
        raise NotImplementedError

    def open_session(self, session: Session) -> None:
        raise NotImplementedError

    def pause_sessions(self, session_ids: Sequence[str]) -> None:
        """Offer to bring sessions to rest before a break."""
        raise NotImplementedError

    def open_agent(self, agent: Agent, title: str) -> None:
        raise NotImplementedError

    def open_summary(self, row: SummaryRow, title: str) -> None:
        raise NotImplementedError

    def open_receipt(self, receipt_id: str, title: str) -> None:
        """Show what was done to a session, whose title is given."""
        raise NotImplementedError


TITLE_CELLS: Final = 40

Result = TypeVar("Result")
OnDone = Callable[["Result | ActionFailure | Problem"], None]


class ShowEnd(Protocol):
    """Shows the end of an action, logs it, and notifies outside of the dashboard."""

    def __call__(self, title: str, text: str, *, failed: bool) -> None: ...


class SessionActions:
    """Compacting, recovering and undoing, one action at a time on each session."""

    def __init__(self, app: Dashboard, show_end: ShowEnd) -> None:
        self._app: Final = app
        self._show_end: Final = show_end
        self._running: Final[dict[str, str]] = {}
        # The client takes minutes, and changes of files must not wait for it.
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
        on_done: OnDone[CompactionReceipt],
    ) -> None:
        """Carry a plan out; `on_stage` receives each stage, `on_done` the result."""
        from ...collectors.session_target import session_target
        from ...core.actions.session_compaction import apply_compaction
        from ..entities.receipt_history import MODE_NAMES

        app = self._app
        policy = app.feed.policies.common
        target = session_target(app.places.folder, app.places.store, session, policy)

        def work() -> CompactionReceipt | ActionFailure:
            return apply_compaction(target, plan, mode, partial(app.call_later, on_stage))

        def freed_text(receipt: CompactionReceipt) -> str:
            freed = f"≈ {tokens(receipt.plan.tokens_saved)} tokens freed"
            checks = f"{len(receipt.verified)} checks passed; u undoes it"
            return f"{MODE_NAMES[mode]}: {freed}, {checks}"

        self._start(session, "being written", work, freed_text, on_done)

    def ask_client(
        self, session: Session, instructions: str, on_done: OnDone[ClientCompactResult]
    ) -> None:
        """Compact a session with the client; it may take minutes."""
        app = self._app

        def work() -> ClientCompactResult | ActionFailure:
            from ...collectors.session_target import open_session_at
            from ...core.actions import session_compaction
            from ...core.actions.session_access import Via

            access = open_session_at(app.places, session)
            return session_compaction.compact_with_client(access, Via.AUTO, instructions)

        def sizes_text(result: ClientCompactResult) -> str:
            sizes = tokens_before_and_after(result)
            return f"compacted by Claude Code via {result.via.value}: {sizes}"

        what = "Claude Code was asked to /compact"
        if self._start(session, what, work, sizes_text, on_done, self._client_worker):
            self._notify(short_title(session), f"{what}; it may take minutes")

    def recover(
        self,
        session: Session,
        confirmed: frozenset[RecoveryStep],
        on_done: OnDone[tuple[Recovery, ResumeResult | None]],
    ) -> None:
        app = self._app

        def work() -> tuple[Recovery, ResumeResult | None] | ActionFailure:
            from ...collectors.session_target import open_session_at
            from ...core.actions.session_recovery import try_run_recovery

            return try_run_recovery(open_session_at(app.places, session), confirmed)

        def step_text(found: tuple[Recovery, ResumeResult | None]) -> str:
            chosen = found[0].choice.chosen
            step = chosen.step if chosen else "a step"
            return f"recovered with {step} in a fork; u undoes it"

        self._start(session, "being repaired", work, step_text, on_done)

    def undo_last(self) -> None:
        """Offer to undo the newest receipt that can be undone."""
        from ...core.actions.session_compaction import newest_undoable

        def offer(found: CompactionReceipt | Problem | None) -> None:
            from ...core.model.problem import Problem

            if isinstance(found, Problem):
                self._show_end("undo", str(found), failed=True)
            elif found is None:
                self._notify("nothing to undo", "no change can be undone; R lists them all")
            else:
                self.undo(found, None, lambda _: None)

        store = self._app.places.store
        self._app.lookup_worker.submit(lambda: newest_undoable(store), offer)

    def undo(
        self,
        receipt: CompactionReceipt,
        numbers: Collection[int] | None,
        on_done: OnDone[UndoResult],
    ) -> None:
        """Show what would be undone, and undo it once the user confirms."""
        from ...core.actions.session_compaction import undo_obstacle
        from ...core.store.database import state_folder
        from ..entities.receipt_history import undo_question

        app = self._app
        title = shorten(app.title_of(receipt.session_id), TITLE_CELLS)

        def ask(obstacle: str | Problem | None) -> None:
            if obstacle is not None:
                self._notify("cannot be undone", str(obstacle), failed=True)
                return
            question = undo_question(receipt, numbers, title)
            undo = partial(self._undo, receipt, numbers, title, on_done)
            app.confirm("Undo", question, "Undo", undo)

        state = state_folder(app.places.store)
        app.lookup_worker.submit(lambda: undo_obstacle(receipt, state), ask)

    def _undo(
        self,
        receipt: CompactionReceipt,
        numbers: Collection[int] | None,
        title: str,
        on_done: OnDone[UndoResult],
    ) -> None:
        from ...collectors.session_target import receipt_target
        from ...core.actions.session_compaction import undo_receipt

        app = self._app
        target = receipt_target(app.places.folder, app.places.store, receipt)

        def count_text(result: UndoResult) -> str:
            count = f"{len(result.undone)} of {len(receipt.plan.operations)} operations"
            return f"undid {count}; receipt {receipt.receipt_id}"

        def finish(found: UndoResult | ActionFailure | Problem) -> None:
            self._notify_result(title, found, count_text)
            on_done(found)

        app.file_worker.submit(lambda: undo_receipt(target, receipt, numbers), finish)

    def _start(
        self,
        session: Session,
        what: str,
        work: Callable[[], Result | ActionFailure],
        success_text: Callable[[Result], str],
        on_done: OnDone[Result],
        worker: WorkerThread | None = None,
    ) -> bool:
        """Start an action and show its result; returns False while another one is running."""
        session_id, title = session.session_id, short_title(session)
        if running := self.running(session_id):
            self._notify(title, f"wait: {running}", failed=True)
            return False
        self._running[session_id] = what

        def finish(found: Result | ActionFailure | Problem) -> None:
            self._running.pop(session_id, None)
            self._notify_result(title, found, success_text)
            on_done(found)

        (worker or self._app.file_worker).submit(work, finish)
        return True

    def _notify(self, title: str, words: str, *, failed: bool = False) -> None:
        self._app.toast(words, title, "error" if failed else "information")

    def _notify_result(
        self,
        title: str,
        found: Result | ActionFailure | Problem,
        success_text: Callable[[Result], str],
    ) -> None:
        from ...core.actions.session_access import ActionFailure
        from ...core.model.problem import Problem

        if isinstance(found, (ActionFailure, Problem)):
            self._show_end(title, str(found), failed=True)
        else:
            self._show_end(title, success_text(found), failed=False)


def short_title(session: Session) -> str:
    return shorten(session.title, TITLE_CELLS)
