"""A text to read whole: a result, a summary, what is known of a session."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Final

from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.content import Content
from textual.screen import Screen
from textual.widgets import Footer, Static

if TYPE_CHECKING:
    from textual.app import ComposeResult

    from ..app import CtxtopApp


class ReadingScreen(Screen[None]):
    """Shows a text; Esc goes back."""

    app: CtxtopApp

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,enter", "app.pop_screen", "Back", key_display="Esc", tooltip="back"),
        Binding("y", "copy", "Copy", tooltip="copy the whole text"),
        Binding("j,down", "scroll('down')", "Down", show=False, tooltip="down"),
        Binding("k,up", "scroll('up')", "Up", show=False, tooltip="up"),
        Binding(
            "ctrl+d,pagedown,space",
            "scroll('page_down')",
            "Page down",
            show=False,
            tooltip="a page down",
        ),
        Binding("ctrl+u,pageup", "scroll('page_up')", "Page up", show=False, tooltip="a page up"),
        Binding("g,home", "scroll('home')", "Top", show=False, tooltip="first"),
        Binding("G,end", "scroll('end')", "Bottom", show=False, tooltip="last"),
    ]

    def __init__(self, crumbs: str, content: Content) -> None:
        super().__init__()
        self._crumbs: Final = crumbs
        self._content = content

    def compose(self) -> ComposeResult:
        """Lay out the text under its crumbs."""
        yield Static(Content(f" {self._crumbs}"), classes="crumbs")
        with VerticalScroll(id="page"):
            yield Static(self._content, id="text")
        yield Footer(show_command_palette=False)

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
