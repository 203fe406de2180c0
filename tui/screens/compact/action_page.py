"""A page whose plan can be applied: in a fork, in place, or by Claude Code itself."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, ClassVar, Final

from textual import on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.widgets import Button, Input

from ....core.actions.session_access import ActionFailure, ClientCompactResult
from ....core.actions.session_compaction import in_place_mode, in_place_refusal
from ....core.compaction.apply import ApplyStage
from ....core.compaction.plan import CompactionPlan, Refusal
from ....core.compaction.receipts import ApplyMode, CompactionReceipt
from ....core.model.session import Session
from ...base.keymap import bind, bind_hidden
from ...page_kit.dialogs import CANCEL_ID, YesNoScreen
from ...page_kit.page import Page
from ...text.formats import shorten
from ...text.plan_report import in_place_question, refusal_text
from ...text.plan_text import screen_advice
from .compact_panes import ApplyBar, ApplyState

if TYPE_CHECKING:
    from ....core.model.problem import Problem


TITLE_CELLS: Final = 50


class AskClientScreen(YesNoScreen[str | None]):
    """Returns the instructions, which may be empty; None if a person cancels."""

    def __init__(self, session: Session) -> None:
        title = shorten(session.title, TITLE_CELLS)
        where = "in its own window" if session.live else "in a separate run"
        what = (
            f"Claude Code is asked to /compact “{title}”, {where}: its model writes a"
            " summary, which costs a request, and ctxtop cannot undo it.\n\n"
            "What should the summary keep? (optional)"
        )
        super().__init__("Ask Claude Code to /compact", what, "Ask Claude Code")

    def compose_input(self) -> ComposeResult:
        yield Input(id="words", placeholder="the decisions about the tax API", compact=True)

    @on(Input.Submitted)
    def _focus_answers(self) -> None:
        self.query_one(f"#{CANCEL_ID}").focus()

    def result_of(self, choice_id: str) -> str | None:
        words = self.query_one("#words", Input).value.strip()
        return None if choice_id == CANCEL_ID else words


IN_PLACE_CHECK_S: Final = 10.0  # how often a session is checked that could not be changed itself

_TRANSIENT_CHECKS: Final = frozenset({"idle", "agent"})  # pass after some time, without any event


class ActionPage(Page):
    """Carries out the plan that a subclass holds; what has begun continues when it is left."""

    BINDINGS: ClassVar[list[BindingType]] = [
        bind("f", "fork", "Fork", "write a fork; the session stays unchanged", "fork"),
        bind("i", "in_place", "In place", "change the session itself", "in_place"),
        bind_hidden("d", "ask", "/compact", "ask Claude Code to /compact", "ask_client"),
    ]

    def __init__(self, session: Session, crumb: str) -> None:
        super().__init__(session.title, crumb, session_id=session.session_id)
        self.session = session
        self.plan: CompactionPlan | None = None  # the newest
        self.is_stale = True  # the plan is not for the current options or transcript
        self.problem = ""  # why there is no newer plan
        self.failure = ""  # why the last action failed
        self._in_place: Refusal | None = None
        self._in_place_checked = False
        self._stages: list[str] = []

    @abstractmethod
    def schedule_plan(self) -> None:
        """Plan again: the session may have changed."""

    @property
    def running(self) -> str | None:
        """What is being done to the session, by this page or by another one."""
        return self.app.session_actions.running(self.session.session_id)

    @on(Button.Pressed)
    def _press(self, event: Button.Pressed) -> None:
        event.stop()
        actions = {
            "fork": self.action_fork,
            "in_place": self.action_in_place,
            "ask": self.action_ask,
            "leave": self.action_leave,
        }
        actions[event.button.id or "leave"]()

    def action_fork(self) -> None:
        self._apply(ApplyMode.FORK)

    def action_in_place(self) -> None:
        """Change the session itself, if no client has it open and a person confirms it."""
        plan = self._ready_plan()
        if plan is None:
            return
        if self._in_place is not None:
            why = f"{self._in_place.why}; {screen_advice(self._in_place)}"
            self.app.toast(f"not in place: {why}")
            return
        what = in_place_question(plan, self.session, self.app.places.folder.projects)
        title, action = "Write in place", "Change the session itself"
        self.app.confirm(title, what, action, lambda: self._apply(in_place_mode(plan)))

    def action_ask(self) -> None:
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
        if self.running is not None:
            self.app.toast(f"wait: {self.running}")
        elif self.is_stale or plan is None:
            self.app.toast(self.problem or "the plan is not ready yet: wait a moment")
        elif plan.refused:
            self.app.toast(refusal_text(plan.refused[0]))
        elif not plan.operations:
            self.app.toast("nothing is selected: space selects an operation")
        else:
            return plan
        return None

    def _apply(self, mode: ApplyMode) -> None:
        plan = self._ready_plan()
        if plan is None:
            return
        self._stages, self.failure = [], ""
        self.app.session_actions.apply(self.session, plan, mode, self._add_stage, self._applied)
        self.draw_buttons()

    def _add_stage(self, stage: ApplyStage) -> None:
        self._stages.append(stage.value)
        self.draw_buttons()

    def _applied(self, found: CompactionReceipt | ActionFailure | Problem) -> None:
        if not self.is_attached:
            return
        self._stages = []
        self._in_place_checked = False
        if not isinstance(found, CompactionReceipt):
            self.failure = str(found)
        elif self.app.screen is self:
            self.app.open_receipt(found.receipt_id, self.session.title)
        self.schedule_plan()
        self.draw_buttons()

    def recheck_in_place(self) -> None:
        """Check again if time alone may have changed the answer."""
        if self._in_place is not None and self._in_place.check in _TRANSIENT_CHECKS:
            self.check_in_place()

    def check_in_place(self) -> None:
        if self.running is not None:
            return
        self._in_place_checked = True
        places, session = self.app.places, self.session
        policy = self.app.feed.policies.common

        def check() -> Refusal | None:
            from ....collectors.session_target import session_target

            return in_place_refusal(session_target(places.folder, places.store, session, policy))

        self.work_out(check, self._take_in_place)

    def _take_in_place(self, found: Refusal | Problem | None) -> None:
        if found is not None and not isinstance(found, Refusal):
            found = Refusal("file", str(found), "a fork may still be possible")
        self._in_place = found
        self.draw_buttons()

    def draw_buttons(self) -> None:
        if not self.is_attached:
            return
        plan, running = self.plan, self.running
        is_good = plan is not None and not plan.refused and bool(plan.operations)
        self.query_one(ApplyBar).show(
            ApplyState(
                can_apply=is_good and not self.is_stale,
                in_place=self._in_place,
                running=running,
                stages=tuple(self._stages) if running else (),
                problem=self.problem or self.failure,
            )
        )
