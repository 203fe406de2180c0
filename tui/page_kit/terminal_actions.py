"""Go to a session's terminal, answer its prompt, resume it; pause sessions before a break."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, ClassVar, Final

from textual.binding import Binding, BindingType

from ...core.archive.archive_mode import ArchiveMode
from ..app_state.dashboard import Dashboard, ShowEnd, short_title
from ..base.background_queries import WorkerThread, query_store
from ..base.keymap import bind, bind_hidden

if TYPE_CHECKING:
    import sqlite3

    from ...collectors.pause_targets import PausePreview
    from ...collectors.terminal.prompt_answer import Answer, PromptTarget, ProvedPrompt
    from ...collectors.terminal.session_resume import ResumePlace, ResumePlan
    from ...core.actions.session_pause import PauseResult
    from ...core.model.problem import Problem
    from ...core.model.session import Session


TERMINAL: Final = "terminal"
ANSWER: Final = "answer"
RESUME: Final = "resume"
# Ids of bindings, by which a page chooses those that its key line shows.

_TERMINAL_HELP: Final = "go to the terminal where this session is open"
_ANSWER_HELP: Final = "answer the permission prompt of this session"
_RESUME_HELP: Final = "resume this session with claude --resume"


def terminal_keys(*shown: str) -> tuple[Binding, ...]:
    """Return the bindings of a page for the session that it is about."""
    keys = (
        ("T", "app.go_to_terminal", "Terminal", _TERMINAL_HELP, TERMINAL),
        ("a", "app.answer", "Answer", _ANSWER_HELP, ANSWER),
        ("e", "app.resume", "Resume", _RESUME_HELP, RESUME),
    )
    return tuple(bind(*each, show=each[-1] in shown) for each in keys)


class TerminalApp(Dashboard):
    """The app's part that acts on the current session's terminal."""

    BINDINGS: ClassVar[list[BindingType]] = [
        bind_hidden("w", "next_waiting", "Waiting", "go to the next session that waits", "waiting"),
        bind_hidden("T", "go_to_terminal", "Terminal", _TERMINAL_HELP, TERMINAL),
        bind_hidden("e", "resume", "Resume", _RESUME_HELP, RESUME),
    ]

    terminal_actions: TerminalActions

    def show_session(self, session: Session) -> None:
        """Go to a session in the list of all; open its page if the list does not show it."""
        raise NotImplementedError

    def action_next_waiting(self) -> None:
        waiting = [session for session in self.sessions if session.is_waiting]
        if not waiting:
            self.toast("no session waits for you")
            return
        current = self.current_session
        ids = [session.session_id for session in waiting]
        place = ids.index(current.session_id) + 1 if current and current.session_id in ids else 0
        self.show_session(waiting[place % len(waiting)])

    def action_go_to_terminal(self) -> None:
        self._act(self.terminal_actions.go_to_terminal)

    def action_answer(self) -> None:
        self._act(self.terminal_actions.answer)

    def action_resume(self) -> None:
        self._act(self.terminal_actions.resume)

    def pause_sessions(self, session_ids: Sequence[str]) -> None:
        self.terminal_actions.pause(session_ids)

    @property
    def listed_session(self) -> Session | None:
        """The session of the row under the cursor, if the page lists rows of many sessions."""
        return self.find_session(getattr(self.screen, "listed_session_id", None))

    def _act(self, action: Callable[[Session], None]) -> None:
        session = self.listed_session or self.current_session
        if session is None:
            self.toast("no session is selected")
        else:
            action(session)


class TerminalActions:
    """What needs a session's client or tmux, done outside the screen's thread."""

    def __init__(self, app: Dashboard, show_end: ShowEnd) -> None:
        self._app: Final = app
        self._show_end: Final = show_end
        self._worker: Final = WorkerThread("ctxtop terminal", app)
        # Summaries take minutes: going to a terminal does not wait for them.
        self._pause_worker: Final = WorkerThread("ctxtop pauses", app)

    def go_to_terminal(self, session: Session) -> None:
        folder, session_id = self._app.places.folder, session.session_id

        def work() -> str | Exception:
            from ...collectors.terminal.session_jump import NoTerminalError, jump_to_session

            try:
                return jump_to_session(folder, session_id)
            except NoTerminalError as error:
                return error

        self._worker.submit(work, partial(self._show_jump, session))

    def _show_jump(self, session: Session, found: str | Exception | Problem) -> None:
        from ...collectors.terminal.session_jump import ElsewhereError

        if isinstance(found, ElsewhereError):
            self._app.copy_to_clipboard(found.command)
            self._notify(session, f"{found} (copied)")
        elif not isinstance(found, str):
            self._notify(session, str(found), failed=True)

    def answer(self, session: Session) -> None:
        """Show what the session's prompt asks for, and give the answer that is chosen."""
        app = self._app

        def work() -> tuple[PromptTarget, ProvedPrompt] | Exception:
            from ...collectors.locations.policy_files import read_acting_policy
            from ...collectors.terminal.permission_prompt import PromptRefusedError
            from ...collectors.terminal.prompt_answer import PromptTarget, prove_prompt

            folder = app.places.folder
            policy = read_acting_policy(app.places.policy, session.project_root)
            path = folder.projects / session.path
            target = PromptTarget(session.session_id, path, folder, policy)
            try:
                return target, prove_prompt(target)
            except PromptRefusedError as error:
                return error

        self._worker.submit(work, partial(self._ask_for_answer, session))

    def _ask_for_answer(
        self, session: Session, found: tuple[PromptTarget, ProvedPrompt] | Exception | Problem
    ) -> None:
        if not isinstance(found, tuple):
            self._notify(session, f"not answered: {found}", failed=True)
            return
        from ...collectors.terminal.prompt_answer import Answer
        from .terminal_dialogs import AnswerScreen

        target, shown = found

        def give(chosen: str | None) -> None:
            if chosen:
                self._give_answer(session, target, shown, Answer(chosen))

        self._app.push_screen(AnswerScreen(short_title(session), shown), give)

    def _give_answer(
        self, session: Session, target: PromptTarget, shown: ProvedPrompt, answer: Answer
    ) -> None:
        def work() -> str | Exception:
            from ...collectors.terminal.permission_prompt import PromptRefusedError
            from ...collectors.terminal.prompt_answer import answer_prompt

            try:
                answer_prompt(target, shown, answer)
            except PromptRefusedError as error:
                return error
            return f"answered {answer.value}: {shown.call.tool}"

        def report(found: str | Exception | Problem) -> None:
            failed = not isinstance(found, str)
            text = f"not answered: {found}" if failed else str(found)
            self._show_end(short_title(session), text, failed=failed)

        self._worker.submit(work, report)

    def resume(self, session: Session) -> None:
        """Offer the ways to resume a session that is not open, or to restore an archived one."""
        app = self._app
        if session.archived == ArchiveMode.ALL:
            from .archive_dialogs import offer_restore  # hardly any session needs it

            offer_restore(app, self._worker, session)
            return

        def work() -> ResumePlan | Exception:
            from ...collectors.terminal.session_resume import NotResumedError, plan_resume

            try:
                return plan_resume(app.places.folder, session)
            except NotResumedError as error:
                return error

        self._worker.submit(work, partial(self._ask_how_to_resume, session))

    def _ask_how_to_resume(self, session: Session, found: ResumePlan | Exception | Problem) -> None:
        from ...collectors.terminal.session_resume import ResumePlace, ResumePlan
        from ...collectors.terminal.tmux_panes import own_pane
        from ..text.session_text import resume_cost_text
        from .terminal_dialogs import COPY, ResumeScreen

        if not isinstance(found, ResumePlan):
            self._notify(session, f"not resumed: {found}", failed=True)
            return
        plan = found

        def carry_out(chosen: str | None) -> None:
            if chosen == COPY:
                self._app.copy(plan.command, "the resume command")
            elif chosen:
                self._resume_in_tmux(session, plan, ResumePlace(chosen))

        cost = resume_cost_text(session, self._app.now_ms())
        dialog = ResumeScreen(short_title(session), plan, cost, in_tmux=own_pane() is not None)
        self._app.push_screen(dialog, carry_out)

    def _resume_in_tmux(self, session: Session, plan: ResumePlan, place: ResumePlace) -> None:
        def work() -> str | Exception:
            from ...collectors.terminal.session_resume import NotResumedError, resume_in_tmux

            try:
                return resume_in_tmux(plan, place)
            except NotResumedError as error:
                return error

        def report(found: str | Exception | Problem) -> None:
            failed = not isinstance(found, str)
            text = f"not resumed: {found}" if failed else f"resumed in the tmux pane {found}"
            self._notify(session, text, failed=failed)

        self._worker.submit(work, report)

    def pause(self, session_ids: Sequence[str]) -> None:
        """Show what a pause of these sessions would do and cost, and do what is confirmed."""
        app, now_ms = self._app, self._app.now_ms()
        sizes = app.view.percent_sizes if app.view else ()

        def work() -> PausePreview | Problem:
            from ...collectors.pause_targets import preview_pauses
            from ...core.readers.fleet_reader import read_sessions

            places, policies = app.places, app.feed.policies

            def preview(db: sqlite3.Connection) -> PausePreview:
                sessions = read_sessions(db, now_ms, session_ids, policies, sizes)
                return preview_pauses(db, sessions, places, policies, now_ms)

            return query_store(places, preview)

        app.lookup_worker.submit(work, self._ask_to_pause)

    def _ask_to_pause(self, found: PausePreview | Problem) -> None:
        from ...collectors.pause_targets import PausePreview
        from .dialogs import ChoiceScreen
        from .terminal_dialogs import pause_description

        if not isinstance(found, PausePreview):
            self._app.toast(str(found), "pause", "error")
            return
        preview, title = found, "Pause sessions before a break"
        description = pause_description(preview.items, self._app.now_ms())
        if preview.acting:
            label = f"Pause {len(preview.acting)}"
            self._app.confirm(title, description, label, lambda: self._pause(preview))
        else:
            self._app.push_screen(ChoiceScreen(title, description, ()))

    def _pause(self, preview: PausePreview) -> None:
        app = self._app

        def work() -> None:
            from ...core.actions.session_pause import pause_all

            for result in pause_all(preview.targets(), app.now_ms):
                app.call_later(self._report_pause, result)

        def report_problem(found: Problem | None) -> None:
            if found is not None:
                app.toast(str(found), "pause", "error")

        count = len(preview.acting)
        app.toast(f"pausing {count} of {len(preview.items)}; it may take minutes", "pause")
        self._pause_worker.submit(work, report_problem)

    def _report_pause(self, result: PauseResult) -> None:
        session = result.item.session
        text = result.outcome if result.check is None else f"not paused: {result.outcome}"
        self._show_end(short_title(session), text, failed=result.is_failure)

    def _notify(self, session: Session, words: str, *, failed: bool = False) -> None:
        self._app.toast(words, short_title(session), "error" if failed else "information")
