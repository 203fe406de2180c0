"""A page whose plan can be carried out: in a fork, in place, or by the client itself."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, ClassVar, Final

from textual import on
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.widgets import Button

from ...core.compaction.receipts import Mode
from ..applying import mode_in_place, why_not_in_place
from ..formats import one_line
from ..plan_report import in_place_words, refusal_words
from ..plan_words import what_to_do
from ..widgets.apply_bar import ApplyBar, Standing
from .page import Page

if TYPE_CHECKING:
    import sqlite3

    from ...collectors.asking.outcome import Outcome
    from ...collectors.folder import Trouble
    from ...core.compaction.plan import Plan, Refusal
    from ...core.compaction.receipts import Receipt
    from ...core.compaction.stage import Stage
    from ...core.sessions import Session
    from ..applying import NotDone

LOOK_S: Final = 10.0
"""How often it is looked whether the session may be changed itself by now."""

_PASSING: Final = frozenset({"idle", "agent"})
"""Checks that pass by themselves, without anything that is seen to happen."""


class ActingPage(Page):
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
        self.plan: Plan | None = None
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
        """Say something in passing."""
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
        self._apply(Mode.FORK)

    def action_in_place(self) -> None:
        """Change the session itself, where nobody has it open and a person confirms it."""
        from .confirm import ConfirmScreen

        ready = self._ready_plan()
        if ready is None:
            return
        if self._in_place is not None:
            self.show_message(f"not in place: {self._in_place.why}; {what_to_do(self._in_place)}")
            return
        what = in_place_words(ready, self.session, self.app.places.folder.projects)
        mode = mode_in_place(ready)

        def answer(yes: bool | None) -> None:  # noqa: FBT001 -- Textual's form
            if yes:
                self._apply(mode)

        title, action = "Write in place", "Change the session itself"
        screen = ConfirmScreen(title, Content(what), action)
        self.app.push_screen(screen, answer)

    def action_ask(self) -> None:
        """Let Claude Code compact it, with words of a person's."""
        from .ask_client import AskClientScreen

        def answer(words: str | None) -> None:
            if words is not None:
                self.app.session_actions.ask_client(self.session, words, self._client_asked)
                self.draw_buttons()

        self.app.push_screen(AskClientScreen(self.session), answer)

    def _client_asked(self, found: Outcome | NotDone | Trouble) -> None:
        if self.is_attached:
            self.schedule_plan()
            self.draw_buttons()

    def _ready_plan(self) -> Plan | None:
        """Give the plan that may be carried out; else say why there is none."""
        plan = self.plan
        if self.is_writing:
            self.show_message(f"wait: {self.app.session_actions.running(self.session.session_id)}")
        elif self.is_stale or plan is None:
            self.show_message(self.problem or "wait: the plan is still worked out")
        elif plan.refused:
            self.show_message(refusal_words(plan.refused[0]))
        elif not plan.operations:
            self.show_message("nothing is on: space takes an operation in")
        else:
            return plan
        return None

    def _apply(self, mode: Mode) -> None:
        ready = self._ready_plan()
        if ready is None:
            return
        self._stages, self._failure = [], ""
        self.app.session_actions.apply(self.session, ready, mode, self._hear_stage, self._applied)
        self.draw_buttons()

    def _hear_stage(self, stage: Stage) -> None:
        self._stages.append(stage.value)
        if self.is_attached:
            self.draw_buttons()

    def _applied(self, found: Receipt | NotDone | Trouble) -> None:
        from ...core.compaction.receipts import Receipt
        from .receipt import ReceiptScreen

        if not self.is_attached:
            return
        self._stages = []
        self._in_place_checked = False
        if isinstance(found, Receipt):
            if self.app.screen is self:
                self.app.push_screen(ReceiptScreen(found.receipt_id, self.session.title, 0))
        else:
            self._failure = "; ".join(getattr(found, "why", None) or (str(found),))
        self.schedule_plan()
        self.draw_buttons()

    def recheck_in_place(self) -> None:
        """Look once more where time alone may have changed the answer."""
        if self._in_place is not None and self._in_place.check in _PASSING:
            self.check_in_place()

    def check_in_place(self) -> None:
        """Look whether the session may be changed itself."""
        if self.is_writing:
            return
        self._in_place_checked = True
        places, session = self.app.places, self.session

        def question(db: sqlite3.Connection) -> Refusal | None:
            del db
            return why_not_in_place(places, session)

        self.look_up(question, self._take_in_place)

    def _take_in_place(self, found: Refusal | Trouble | None) -> None:
        from ...core.compaction.plan import Refusal

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
            Standing(
                can_apply=is_good and not self.is_stale,
                in_place=self._in_place,
                running=running,
                stages=tuple(self._stages) if running else (),
                problem=self.problem or self._failure,
            )
        )
