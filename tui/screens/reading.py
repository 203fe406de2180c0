"""A text to read whole: a result, a summary, what is known of a session."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Final

from textual.binding import Binding, BindingType
from textual.widgets import Static

from ..widgets.pager import Reader
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
    ]

    def __init__(self, *crumbs: str, content: Content, session_id: str | None = None) -> None:
        super().__init__(*crumbs, session_id=session_id)
        self._content = content

    def compose_page(self) -> Iterable[Widget]:
        """Lay out the text."""
        yield Reader(Static(self._content, id="text"), id="page")

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
