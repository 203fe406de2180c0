"""The keys and the signs of what is on the screen, made from what the screen itself has."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Final

from textual import on
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Input, Static

from ..formats import one_line
from ..help_text import KeyHelp, help_text
from ..widgets.pager import Reader

if TYPE_CHECKING:
    from collections.abc import Sequence

    from textual.app import ComposeResult


class HelpScreen(ModalScreen[None]):
    """Every key of the screen below, and every sign; what is typed after / finds some."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,question_mark,q,enter", "close", "Close", key_display="Esc", id="close"),
        Binding("slash", "find", "Find", show=False, id="find"),
    ]

    def __init__(self, title: str, keys: Sequence[KeyHelp]) -> None:
        """Explain the keys of a screen with this title."""
        super().__init__()
        self._title: Final = title
        self._keys: Final = keys

    def compose(self) -> ComposeResult:
        """Lay out the words below the line in which some are looked for."""
        with Vertical(id="help"):
            yield Input(placeholder="a key, a sign, a word …", id="find", compact=True)
            with Reader(id="keys"):
                yield Static(self._text(""))

    def on_mount(self) -> None:
        """Name the box, and let the keys scroll it."""
        box = self.query_one("#help")
        box.border_title = Content(f"Help: {one_line(self._title)}")
        box.border_subtitle = "/ finds, Esc closes"
        self.query_one("#find").display = False
        self.query_one("#keys").focus()

    def action_find(self) -> None:
        """Open the line."""
        line = self.query_one("#find", Input)
        line.display = True
        line.focus()

    def action_close(self) -> None:
        """Close the line, then the help."""
        line = self.query_one("#find", Input)
        if line.display and line.value:
            line.value = ""
            line.display = False
            self.query_one("#keys").focus()
        else:
            self.dismiss()

    @on(Input.Changed)
    def _find(self, event: Input.Changed) -> None:
        event.stop()
        self.query_one("#keys Static", Static).update(self._text(event.value))
        self.query_one("#keys").scroll_home(animate=False)

    @on(Input.Submitted)
    def _found(self, event: Input.Submitted) -> None:
        event.stop()
        self.query_one("#keys").focus()

    def _text(self, words: str) -> Content:
        return help_text(self._keys, words)
