"""Recover a session whose prompt was too long: what each step would do, then in a fork."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator
from textwrap import wrap
from typing import TYPE_CHECKING, ClassVar, Final

from textual import on
from textual.binding import BindingType
from textual.containers import Horizontal
from textual.content import Content
from textual.widget import Widget
from textual.widgets import Button, Static

from ...core.compaction.recovery.recovery_run import RecoveryStep
from ...core.model.session import Session
from ...core.transcript.sanitize import one_line
from ..keymap import bind, bind_hidden
from ..messages import FleetView
from ..text.formats import fit_left, fit_right, shorten_middle, tokens
from ..text.plan_text import recovery_cause_lines, step_effect, step_hint, unused_step_text
from ..widgets.text_pane import Reader
from .page import Page

if TYPE_CHECKING:
    from ...core.actions.session_access import ActionFailure, ResumeResult
    from ...core.actions.session_recovery import Recovery
    from ...core.model.problem import Problem


STEP_CELLS: Final = 18
MAX_OPERATIONS: Final = 12  # operations that are named, the largest
MIN_TEXT_CELLS: Final = 20


def recovery_lines(recovery: Recovery, width: int) -> Content:
    """Render a recovery in lines of `width` cells."""
    first, *more = (one_line(each) for each in recovery_cause_lines(recovery))
    lines = [
        Content.styled(shorten_middle(first, width), "bold $level-emergency"),
        *(Content.styled(shorten_middle(each, width), "$foreground") for each in more),
        Content(""),
        *_step_lines(recovery, width),
        Content(""),
        *_operation_lines(recovery, width),
        *_prompt_lines(recovery, width),
    ]
    return Content("\n").join(lines)


def _step_lines(recovery: Recovery, width: int) -> Iterator[Content]:
    tried = {each.step: each for each in recovery.choice.proposals}
    room = max(MIN_TEXT_CELLS, width - STEP_CELLS - 2)
    for step in recovery.steps:
        proposal = tried.get(step)
        name = fit_left(step.value, STEP_CELLS)
        if proposal is None:
            yield Content.styled(f"· {name}{unused_step_text(recovery)}", "$quiet")
            continue
        if proposal.insufficient is None:
            what = shorten_middle(step_effect(recovery, proposal), room)
            yield Content.styled(f"✓ {name}{what}", "bold $level-calm")
            continue
        asks = proposal.insufficient.check == "confirm"
        why = (
            proposal.insufficient.why
            if asks
            else f"{proposal.insufficient.why}{step_hint(proposal)}"
        )
        sign, style = ("?", "bold $level-warning") if asks else ("✗", "$foreground")
        said = f"{why}; a allows it" if asks else why
        first, *more = wrap(one_line(said), room) or [""]
        yield Content.styled(f"{sign} {name}{first}", style)
        for each in more:
            yield Content.styled(f"  {' ' * STEP_CELLS}{each}", style)


def _operation_lines(recovery: Recovery, width: int) -> Iterator[Content]:
    plan = recovery.choice.plan
    if plan is None:
        yield Content.styled("no step suffices", "bold $level-warning")
        yield Content.styled("c makes it smaller in another way, or begin a new session", "$quiet")
        return
    largest = sorted(plan.operations, key=lambda each: -each.tokens_saved)
    for each in largest[:MAX_OPERATIONS]:
        line = "end" if each.line is None else f"{each.line:,}"
        what = fit_left(one_line(each.what), max(MIN_TEXT_CELLS, width - 20))
        yield Content(f"{fit_right(line, 7)}  {what} {fit_right(tokens(each.tokens_saved), 9)}")
    if len(largest) > MAX_OPERATIONS:
        yield Content.styled(
            f"         and {len(largest) - MAX_OPERATIONS:,} smaller ones", "$quiet"
        )
    yield Content("")
    yield Content.styled("in a fork: the session itself stays as it is, u takes it back", "$quiet")


def _prompt_lines(recovery: Recovery, width: int) -> Iterator[Content]:
    chosen = recovery.choice.chosen
    if chosen and chosen.prompt:
        yield Content("")
        yield Content.styled("to ask again there:", "$quiet")
        for each in wrap(one_line(chosen.prompt), max(MIN_TEXT_CELLS, width))[:MAX_OPERATIONS]:
            yield Content(each)


READING_TEXT = "its transcript is being read …"


class RecoverScreen(Page):
    """Says what each step would do; the session itself stays as it is, whatever is done."""

    CSS_PATH = "recover.tcss"
    BINDINGS: ClassVar[list[BindingType]] = [
        bind("f", "mend", "Mend in a fork", "do it, in a session of its own", "mend"),
        bind("a", "allow", "Allow", "allow the step that asks first", "allow"),
        bind_hidden("y", "copy", "Copy", "copy what stands here", "copy"),
    ]

    def __init__(self, session: Session) -> None:
        super().__init__(session.title, "recover", session_id=session.session_id)
        self._session = session
        self._confirmed: frozenset[RecoveryStep] = frozenset()
        self._recovery: Recovery | None = None
        self._message = READING_TEXT

    def compose_page(self) -> Iterable[Widget]:
        yield Reader(Static(id="steps"), id="page")
        with Horizontal(id="do"):
            yield Button("Mend in a fork", id="mend", variant="primary", compact=True)
            yield Button("Allow the next step", id="allow", compact=True)
            yield Button("Leave it alone", id="leave", compact=True)

    def on_mount(self) -> None:
        self._draw()
        self.query_one("#page").focus()
        self._plan()

    def show_view(self, view: FleetView) -> None:
        """Follow the session: what somebody went on with is looked at anew."""
        known = next((each for each in view.sessions if each.session_id == self.session_id), None)
        if known is None or known == self._session:
            return
        before, self._session = self._session, known
        if known.last_activity_at != before.last_activity_at:
            self._plan()

    def _plan(self) -> None:
        places, session, confirmed = self.app.places, self._session, self._confirmed

        def question(db: sqlite3.Connection) -> Recovery | ActionFailure:
            from ...collectors.session_target import open_session_at
            from ...core.actions import session_recovery

            access = open_session_at(places, session)
            return session_recovery.try_preview_recovery(access, db, confirmed)

        self._message = READING_TEXT
        self._draw()
        self.look_up(question, self._take)

    def _take(self, found: Recovery | ActionFailure | Problem) -> None:
        from ...core.actions.session_recovery import Recovery

        if isinstance(found, Recovery):
            self._recovery, self._message = found, ""
        else:
            self._recovery = None
            self._message = str(found)
        self._draw()

    # What a person does.

    @on(Button.Pressed)
    def _press(self, event: Button.Pressed) -> None:
        event.stop()
        acts = {"mend": self.action_mend, "allow": self.action_allow}
        acts.get(event.button.id or "", self.action_leave)()

    def action_allow(self) -> None:
        """Allow the step that asks first, once a person has read what it loses."""
        from .dialogs import confirm

        step = self._step_to_confirm
        if step is None:
            self.app.notify("no step asks first", markup=False)
            return
        why = next(
            each.insufficient.why
            for each in (self._recovery.choice.proposals if self._recovery else ())
            if each.step is step and each.insufficient
        )
        what = (
            f"{shorten_middle(self._session.title, 60)}: the step “{step}” loses something:"
            f" {why}.\n\n"
            "It is only planned now; it is done in a fork, and the session itself stays."
        )

        def allow() -> None:
            self._confirmed |= {step}
            self._plan()

        confirm(self.app, "Allow a step", Content(what), f"Allow {step}", allow)

    def action_mend(self) -> None:
        if self._recovery is None or self._recovery.choice.plan is None:
            self.app.notify("no step suffices yet", markup=False)
            return
        self.app.session_actions.recover(self._session, self._confirmed, self._mended)
        self._draw()

    def _mended(
        self, found: tuple[Recovery, ResumeResult | None] | ActionFailure | Problem
    ) -> None:
        from .history.receipt_screen import ReceiptScreen

        if not self.is_attached:
            return
        if isinstance(found, tuple):
            receipt = found[0].receipt
            if receipt is not None and self.app.screen is self:
                self.app.push_screen(ReceiptScreen(receipt.receipt_id, self._session.title, 0))
            self._plan()
        else:
            self._message = str(found)
            self._draw()

    def action_copy(self) -> None:
        self.app.copy(self._content().plain, "the recovery")

    # Drawing.

    @property
    def _step_to_confirm(self) -> RecoveryStep | None:
        tried = self._recovery.choice.proposals if self._recovery else ()
        return next(
            (
                each.step
                for each in tried
                if each.insufficient and each.insufficient.check == "confirm"
            ),
            None,
        )

    def _content(self) -> Content:
        running = self.app.session_actions.running(self._session.session_id)
        words = f"{running} …" if running else self._message
        width = max(0, self.size.width - 6)
        said = Content.styled(one_line(words), "$level-warning" if words else "")
        if self._recovery is None:
            return said
        report = recovery_lines(self._recovery, width)
        return Content("\n\n").join([report, said]) if words else report

    def _draw(self) -> None:
        if not self.is_attached:
            return
        self.query_one("#steps", Static).update(self._content())
        recovery = self._recovery
        is_idle = self.app.session_actions.running(self._session.session_id) is None
        can = recovery is not None and recovery.choice.plan is not None and is_idle
        self.query_one("#mend", Button).disabled = not can
        allow = self.query_one("#allow", Button)
        allow.display = self._step_to_confirm is not None
        if self._step_to_confirm is not None:
            allow.label = Content(f"Allow {self._step_to_confirm}")

    def on_resize(self) -> None:
        self._draw()
