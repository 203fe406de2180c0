"""A text to read whole: a result, a summary, what is known of a session."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Final

from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.widgets import Static

from .page import Page

if TYPE_CHECKING:
    from collections.abc import Iterable

    from textual.content import Content
    from textual.widget import Widget

MARGINS: Final = 6
"""Cells beside the text: the page's padding and its scroll bar."""

WIDEST: Final = 110
"""Cells of a line: as the style sheet's."""


class ReadingScreen(Page):
    """Shows a text; Esc goes back."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "leave", "Back", show=False, tooltip="back", id="done"),
        Binding("y", "copy", "Copy", tooltip="copy the whole text", id="copy"),
        Binding("j,down", "scroll('down')", "Down", show=False, tooltip="down", id="down"),
        Binding("k,up", "scroll('up')", "Up", show=False, tooltip="up", id="up"),
        Binding(
            "ctrl+d,pagedown,space",
            "scroll('page_down')",
            "Page down",
            show=False,
            tooltip="a page down",
            id="page_down",
        ),
        Binding(
            "ctrl+u,pageup",
            "scroll('page_up')",
            "Page up",
            show=False,
            tooltip="a page up",
            id="page_up",
        ),
        Binding("g,home", "scroll('home')", "Top", show=False, tooltip="first", id="first"),
        Binding("G,end", "scroll('end')", "Bottom", show=False, tooltip="last", id="last"),
    ]

    def __init__(self, *crumbs: str, content: Content, session_id: str | None = None) -> None:
        super().__init__(*crumbs, session_id=session_id)
        self._content = content

    def compose_page(self) -> Iterable[Widget]:
        """Lay out the text."""
        yield VerticalScroll(Static(self._content, id="text"), id="page")

    def on_mount(self) -> None:
        """Let the keys scroll the page."""
        self.query_one("#page").focus()

    def show(self, content: Content) -> None:
        """Show another text in its place; a screen that is left already shows nothing."""
        self._content = content
        if self.is_attached:
            self.query_one("#text", Static).update(content)

    def action_copy(self) -> None:
        """Copy the whole text."""
        self.app.copy(self._content.plain, "the whole text")

    def action_scroll(self, where: str) -> None:
        """Scroll by a line, by a page, or to an end."""
        page = self.query_one("#page")
        getattr(page, f"scroll_{where}")(animate=False)
