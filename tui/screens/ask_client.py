"""Asking the client itself to compact a session: what happens, and words for its summary."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Final

from textual import on
from textual.containers import Horizontal, VerticalScroll
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Button, Input, Static

from ..formats import middle
from .confirm import LEAVE, answer_keys

if TYPE_CHECKING:
    from textual.app import ComposeResult
    from textual.binding import BindingType

    from ...core.sessions import Session

TITLE_CELLS: Final = 50


class AskClientScreen(ModalScreen[str | None]):
    """Answers with the words, which may be none; None where a person leaves it alone."""

    BINDINGS: ClassVar[list[BindingType]] = [*answer_keys("escape")]

    def __init__(self, session: Session) -> None:
        super().__init__()
        self._session: Final = session

    def compose(self) -> ComposeResult:
        """Lay out the words, a line to type in, and two buttons."""
        title = middle(self._session.title, TITLE_CELLS)
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
                yield Button(LEAVE, id="safe", compact=True)
                yield Button("Ask Claude Code", id="action", variant="warning", compact=True)

    def on_mount(self) -> None:
        """Let Enter be the safe answer."""
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
