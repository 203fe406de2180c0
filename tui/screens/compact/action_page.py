"""A page whose plan can be applied: in a fork, in place, or by Claude Code itself."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, ClassVar, Final

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, VerticalScroll
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Button, Input, Static

from ....core.actions.session_access import ActionFailure, ClientCompactResult
from ....core.actions.session_compaction import in_place_mode, in_place_refusal
from ....core.compaction.apply import ApplyStage
from ....core.compaction.plan import CompactionPlan, Refusal
from ....core.compaction.receipts import ApplyMode, CompactionReceipt
from ....core.model.session import Session
from ....core.transcript.sanitize import one_line
from ...text.formats import shorten_middle
from ...text.plan_report import in_place_question, refusal_text
from ...text.plan_text import screen_advice
from ..dialogs import CANCEL_LABEL, confirm, dialog_bindings
from ..page import Page
from .compact_panes import ApplyBar, ApplyState

if TYPE_CHECKING:
    from ....core.model.problem import Problem


TITLE_CELLS: Final = 50


class AskClientScreen(ModalScreen[str | None]):
    """Answers with the words, which may be none; None where a person leaves it alone."""

    BINDINGS: ClassVar[list[BindingType]] = [*dialog_bindings("escape")]

    def __init__(self, session: Session) -> None:
        super().__init__()
        self._session: Final = session

    def compose(self) -> ComposeResult:
        """Lay out the words, a line to type in, and two buttons."""
        title = shorten_middle(self._session.title, TITLE_CELLS)
        where = "in its own window" if self._session.live else "in a run of its own"
        what = (
            f"Claude Code is asked to /compact “{title}”, {where}: it writes a summary with its"
            " model, which costs a request and cannot be taken back by ctxtop.\n\n"
            "What the summary should keep, if you want to say so:"
        )
        with VerticalScroll(id="confirm"):
            yield Static(Content(what))
            yield Input(id="words", placeholder="the decisions about the tax API", compact=True)
            with Horizontal(id="answers"):
                yield Button(CANCEL_LABEL, id="safe", compact=True)
                yield Button("Ask Claude Code", id="action", variant="warning", compact=True)

    def on_mount(self) -> None:
        """Focus the safe answer, so that Enter alone changes nothing."""
        self.query_one("#confirm").border_title = "Ask Claude Code to /compact"
        self.query_one("#safe").focus()

    @on(Input.Submitted)
    def _go_on(self) -> None:
        self.query_one("#safe").focus()

    @on(Button.Pressed)
    def _answer(self, event: Button.Pressed) -> None:
        event.stop()
        words = self.query_one("#words", Input).value.strip()
        self.dismiss(words if event.button.id == "action" else None)

    def action_leave(self) -> None:
        """Change nothing."""
        self.dismiss(None)


IN_PLACE_CHECK_S: Final = 10.0
"""How often it is looked whether the session may be changed itself by now."""

_TRANSIENT_CHECKS: Final = frozenset({"idle", "agent"})
"""Checks that pass by themselves, without anything that is seen to happen."""


class ActionPage(Page):
    """Carries out the plan that a subclass holds; what is begun goes on when it is left."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("f", "fork", "Fork", tooltip="write a fork; the session stays as it is", id="fork"),
        Binding("i", "in_place", "In place", tooltip="change the session itself", id="in_place"),
        Binding(
            "d",
            "ask",
            "/compact",
            show=False,
            tooltip="let Claude Code do it: /compact",
            id="ask_client",
        ),
    ]

    def __init__(self, session: Session, crumb: str) -> None:
        super().__init__(session.title, crumb, session_id=session.session_id)
        self.session = session
        self.plan: CompactionPlan | None = None
        """The newest."""
        self.is_stale = True
        """It is not what is wanted any more, or not what the transcript is."""
        self.problem = ""
        """Why there is no newer one."""
        self._failure = ""
        self._in_place: Refusal | None = None
        self._in_place_checked = False
        self._stages: list[str] = []

    @abstractmethod
    def schedule_plan(self) -> None:
        """Plan anew: the session may have been changed."""

    @property
    def is_writing(self) -> bool:
        """Something is being done to the session, by this page or by another one."""
        return self.app.session_actions.running(self.session.session_id) is not None

    def clear_failure(self) -> None:
        """Something else is wanted: how the last act ended is over."""
        self._failure = ""

    def show_message(self, words: str) -> None:
        self.app.notify(one_line(words), markup=False)

    @on(Button.Pressed)
    def _press(self, event: Button.Pressed) -> None:
        event.stop()
        act = {
            "fork": self.action_fork,
            "in_place": self.action_in_place,
            "ask": self.action_ask,
            "leave": self.action_leave,
        }[event.button.id or "leave"]
        act()

    def action_fork(self) -> None:
        """Write a fork: the session itself stays as it is."""
        self._apply(ApplyMode.FORK)

    def action_in_place(self) -> None:
        """Change the session itself, where nobody has it open and a person confirms it."""
        ready = self._ready_plan()
        if ready is None:
            return
        if self._in_place is not None:
            self.show_message(
                f"not in place: {self._in_place.why}; {screen_advice(self._in_place)}"
            )
            return
        what = in_place_question(ready, self.session, self.app.places.folder.projects)
        title, action = "Write in place", "Change the session itself"
        confirm(self.app, title, Content(what), action, lambda: self._apply(in_place_mode(ready)))

    def action_ask(self) -> None:
        """Ask Claude Code to compact, with instructions that the user types."""

        def answer(words: str | None) -> None:
            if words is not None:
                self.app.session_actions.ask_client(self.session, words, self._client_asked)
                self.draw_buttons()

        self.app.push_screen(AskClientScreen(self.session), answer)

    def _client_asked(self, found: ClientCompactResult | ActionFailure | Problem) -> None:
        if self.is_attached:
            self.schedule_plan()
            self.draw_buttons()

    def _ready_plan(self) -> CompactionPlan | None:
        """Return the plan if it can be applied; otherwise show why not and return None."""
        plan = self.plan
        if self.is_writing:
            self.show_message(f"wait: {self.app.session_actions.running(self.session.session_id)}")
        elif self.is_stale or plan is None:
            self.show_message(self.problem or "wait: the plan is still worked out")
        elif plan.refused:
            self.show_message(refusal_text(plan.refused[0]))
        elif not plan.operations:
            self.show_message("nothing is on: space takes an operation in")
        else:
            return plan
        return None

    def _apply(self, mode: ApplyMode) -> None:
        ready = self._ready_plan()
        if ready is None:
            return
        self._stages, self._failure = [], ""
        self.app.session_actions.apply(self.session, ready, mode, self._hear_stage, self._applied)
        self.draw_buttons()

    def _hear_stage(self, stage: ApplyStage) -> None:
        self._stages.append(stage.value)
        if self.is_attached:
            self.draw_buttons()

    def _applied(self, found: CompactionReceipt | ActionFailure | Problem) -> None:
        from ....core.compaction.receipts import CompactionReceipt
        from ..history.receipt_screen import ReceiptScreen

        if not self.is_attached:
            return
        self._stages = []
        self._in_place_checked = False
        if isinstance(found, CompactionReceipt):
            if self.app.screen is self:
                self.app.push_screen(ReceiptScreen(found.receipt_id, self.session.title, 0))
        else:
            self._failure = str(found)
        self.schedule_plan()
        self.draw_buttons()

    def recheck_in_place(self) -> None:
        """Look once more where time alone may have changed the answer."""
        if self._in_place is not None and self._in_place.check in _TRANSIENT_CHECKS:
            self.check_in_place()

    def check_in_place(self) -> None:
        """Look whether the session may be changed itself."""
        if self.is_writing:
            return
        self._in_place_checked = True
        places, session = self.app.places, self.session

        def check() -> Refusal | None:
            from ....collectors.session_target import session_target

            return in_place_refusal(session_target(places.folder, places.store, session))

        self.work_out(check, self._take_in_place)

    def _take_in_place(self, found: Refusal | Problem | None) -> None:
        from ....core.compaction.plan import Refusal

        if found is None or isinstance(found, Refusal):
            self._in_place = found
        else:
            self._in_place = Refusal("file", str(found), "a fork may do")
        self.draw_buttons()

    def draw_buttons(self) -> None:
        """Show what may be done now, and how far it has come."""
        if not self.is_attached:
            return
        plan = self.plan
        is_good = plan is not None and not plan.refused and bool(plan.operations)
        running = self.app.session_actions.running(self.session.session_id)
        self.query_one(ApplyBar).show(
            ApplyState(
                can_apply=is_good and not self.is_stale,
                in_place=self._in_place,
                running=running,
                stages=tuple(self._stages) if running else (),
                problem=self.problem or self._failure,
            )
        )
