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
from ..base.keymap import bind, bind_hidden
from ..base.messages import FleetView
from ..page_kit.dialogs import CANCEL_LABEL
from ..page_kit.page import Page, text_width
from ..text import plan_text
from ..text.formats import fit_left, fit_right, shorten, tokens
from ..text.text_lines import join_lines, quiet
from ..widgets.text_pane import Reader

if TYPE_CHECKING:
    from ...core.actions.session_access import ActionFailure, ResumeResult
    from ...core.actions.session_recovery import Recovery
    from ...core.model.problem import Problem


STEP_CELLS: Final = 18
MAX_OPERATIONS: Final = 12  # the largest are listed
MIN_TEXT_CELLS: Final = 20


def recovery_lines(recovery: Recovery, width: int) -> Content:
    first, *more = (one_line(each) for each in plan_text.recovery_cause_lines(recovery))
    return join_lines(
        Content.styled(shorten(first, width), "bold $level-emergency"),
        *(Content.styled(shorten(each, width), "$foreground") for each in more),
        Content(""),
        *_step_lines(recovery, width),
        Content(""),
        *_operation_lines(recovery, width),
        *_prompt_lines(recovery, width),
    )


def _step_lines(recovery: Recovery, width: int) -> Iterator[Content]:
    proposals = {each.step: each for each in recovery.choice.proposals}
    room = max(MIN_TEXT_CELLS, width - STEP_CELLS - 2)
    for step in recovery.steps:
        proposal = proposals.get(step)
        name = fit_left(step.value, STEP_CELLS)
        if proposal is None:
            yield quiet(f"· {name}{plan_text.unused_step_text(recovery)}")
            continue
        if proposal.insufficient is None:
            what = shorten(plan_text.step_effect(recovery, proposal), room)
            yield Content.styled(f"✓ {name}{what}", "bold $level-calm")
            continue
        why = proposal.insufficient.why
        if proposal.insufficient.check == "confirm":
            sign, style, why = "?", "bold $level-warning", f"{why}; a allows it"
        else:
            sign, style, why = "✗", "$foreground", f"{why}{plan_text.step_hint(proposal)}"
        first, *more = wrap(one_line(why), room) or [""]
        yield Content.styled(f"{sign} {name}{first}", style)
        for each in more:
            yield Content.styled(f"  {' ' * STEP_CELLS}{each}", style)


def _operation_lines(recovery: Recovery, width: int) -> Iterator[Content]:
    plan = recovery.choice.plan
    if plan is None:
        yield Content.styled("no recovery step frees enough", "bold $level-warning")
        yield quiet("compact it with c, or start a new session")
        return
    largest = sorted(plan.operations, key=lambda each: -each.tokens_saved)
    for each in largest[:MAX_OPERATIONS]:
        line = "end" if each.line is None else f"{each.line:,}"
        what = fit_left(one_line(each.what), max(MIN_TEXT_CELLS, width - 20))
        yield Content(f"{fit_right(line, 7)}  {what} {fit_right(tokens(each.tokens_saved), 9)}")
    if (rest := len(largest) - MAX_OPERATIONS) > 0:
        yield quiet(f"         and {rest:,} smaller ones")
    yield Content("")
    yield quiet("in a fork: the session is unchanged, u undoes it")


def _prompt_lines(recovery: Recovery, width: int) -> Iterator[Content]:
    chosen = recovery.choice.chosen
    if chosen and chosen.prompt:
        yield Content("")
        yield quiet("to ask again there:")
        lines = wrap(one_line(chosen.prompt), max(MIN_TEXT_CELLS, width))
        yield from map(Content, lines[:MAX_OPERATIONS])


READING_TEXT = "reading the transcript …"


class RecoverScreen(Page):
    """Shows what each step would do; the session itself is never changed."""

    CSS_PATH = "recover.tcss"
    BINDINGS: ClassVar[list[BindingType]] = [
        bind("f", "mend", "Recover in a fork", "apply it in a fork", "mend"),
        bind("a", "allow", "Allow", "allow the step that needs confirmation", "allow"),
        bind_hidden("y", "copy", "Copy", "copy this text", "copy"),
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
            yield Button("Recover in a fork", id="mend", variant="primary", compact=True)
            yield Button("Allow the next step", id="allow", compact=True)
            yield Button(CANCEL_LABEL, id="leave", compact=True)

    def on_mount(self) -> None:
        self.query_one("#page").focus()
        self._plan()

    def show_view(self, view: FleetView) -> None:
        """Plan again if the session has been resumed."""
        session = view.session(self.session_id)
        if session is not None:
            before, self._session = self._session, session
            if session.last_activity_at != before.last_activity_at:
                self._plan()

    def _plan(self) -> None:
        places, session, confirmed = self.app.places, self._session, self._confirmed

        def preview(db: sqlite3.Connection) -> Recovery | ActionFailure:
            from ...collectors.session_target import open_session_at
            from ...core.actions import session_recovery

            access = open_session_at(places, session)
            return session_recovery.try_preview_recovery(access, db, confirmed)

        self._message = READING_TEXT
        self._draw()
        self.look_up(preview, self._show_plan)

    def _show_plan(self, found: Recovery | ActionFailure | Problem) -> None:
        from ...core.actions.session_recovery import Recovery

        self._recovery = found if isinstance(found, Recovery) else None
        self._message = "" if self._recovery else str(found)
        self._draw()

    # What the user does.

    @on(Button.Pressed)
    async def _press(self, event: Button.Pressed) -> None:
        event.stop()
        await self.run_action(str(event.button.id))

    @property
    def _step_to_confirm(self) -> tuple[RecoveryStep, str] | None:
        """The step that needs confirmation, and why."""
        for each in self._recovery.choice.proposals if self._recovery else ():
            if each.insufficient and each.insufficient.check == "confirm":
                return each.step, each.insufficient.why
        return None

    def action_allow(self) -> None:
        """Allow the step that needs confirmation, once the user has read what it loses."""
        if self._step_to_confirm is None:
            self.app.toast("no step needs confirmation")
            return
        step, why = self._step_to_confirm
        what = (
            f"{shorten(self._session.title, 60)}: the step “{step}” loses something:"
            f" {why}.\n\n"
            "For now it is only planned. It is applied in a fork, and the session stays unchanged."
        )

        def allow() -> None:
            self._confirmed |= {step}
            self._plan()

        self.app.confirm("Allow a step", what, f"Allow {step}", allow)

    def action_mend(self) -> None:
        if self._recovery is None or self._recovery.choice.plan is None:
            self.app.toast("no recovery step frees enough yet")
            return
        self.app.session_actions.recover(self._session, self._confirmed, self._show_result)
        self._draw()

    def _show_result(
        self, found: tuple[Recovery, ResumeResult | None] | ActionFailure | Problem
    ) -> None:
        if not self.is_attached:
            return
        if isinstance(found, tuple):
            receipt = found[0].receipt
            if receipt is not None and self.app.screen is self:
                self.app.open_receipt(receipt.receipt_id, self._session.title)
            self._plan()
        else:
            self._message = str(found)
            self._draw()

    def action_copy(self) -> None:
        self.app.copy(self._content().plain, "the recovery")

    # Drawing.

    def _content(self) -> Content:
        running = self.app.session_actions.running(self._session.session_id)
        words = f"{running} …" if running else self._message
        message = Content.styled(one_line(words), "$level-warning" if words else "")
        if self._recovery is None:
            return message
        report = recovery_lines(self._recovery, max(0, text_width(self.size.width)))
        return Content("\n\n").join([report, message]) if words else report

    def _draw(self) -> None:
        if not self.is_attached:
            return
        self.query_one("#steps", Static).update(self._content())
        recovery, step = self._recovery, self._step_to_confirm
        is_idle = self.app.session_actions.running(self._session.session_id) is None
        is_planned = recovery is not None and recovery.choice.plan is not None
        self.query_one("#mend", Button).disabled = not (is_planned and is_idle)
        allow = self.query_one("#allow", Button)
        allow.display = step is not None
        if step is not None:
            allow.label = Content(f"Allow {step[0]}")

    def on_resize(self) -> None:
        self._draw()
