"""A whole screen above the fleet: its crumbs, what it shows, its keys, and the newest view."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Final, TypeVar

from textual import on
from textual.binding import Binding, BindingType
from textual.screen import Screen

from ..widgets.crumbs import Crumbs
from ..widgets.key_line import KeyLine

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable, Iterable

    from textual.app import ComposeResult
    from textual.widget import Widget

    from ...collectors.folder import Trouble
    from ..app import CtxtopApp
    from ..view import View

Answer = TypeVar("Answer")

HOME: Final = "sessions"
"""The first crumb: where Esc leads to in the end."""


class Page(Screen[None]):
    """Esc goes back to what lies below; a subclass composes what stands between."""

    app: CtxtopApp

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "leave", "Back", key_display="Esc", tooltip="back", id="back"),
    ]

    def __init__(self, *crumbs: str, session_id: str | None = None) -> None:
        super().__init__()
        self._crumbs: tuple[str, ...] = (HOME, *crumbs)
        self.session_id: Final = session_id
        """Whose page this is; None where it is no session's."""

    @property
    def crumbs(self) -> tuple[str, ...]:
        """The way to this page, itself at the end."""
        return self._crumbs

    def compose(self) -> ComposeResult:
        """Lay out the crumbs, the page, and the keys."""
        yield Crumbs(self.crumbs)
        yield from self.compose_page()
        yield KeyLine()

    def compose_page(self) -> Iterable[Widget]:
        """Lay out what the page shows."""
        return ()

    def on_screen_resume(self) -> None:
        """Show what came while another screen lay above."""
        if self.app.view is not None:
            self.show_view(self.app.view)

    def show_view(self, view: View) -> None:
        """Take a newer view; what a person looks at keeps its place."""

    def set_crumbs(self, *crumbs: str) -> None:
        """Change the crumbs after the first."""
        self._crumbs = (HOME, *crumbs)
        for shown in self.query(Crumbs):
            shown.path = self.crumbs

    @on(Crumbs.Chosen)
    def _go_back(self, event: Crumbs.Chosen) -> None:
        event.stop()
        self.app.go_back(self.crumbs[: event.place + 1], self.session_id)

    def ask(
        self, question: Callable[[sqlite3.Connection], Answer], take: Callable[[Answer], None]
    ) -> None:
        """Ask the store what it answers within a frame; a page that was left takes nothing."""

        def take_here(answer: Answer) -> None:
            if self.is_attached:
                take(answer)

        self.app.feed.query(question, take_here)

    def look_up(
        self,
        question: Callable[[sqlite3.Connection], Answer],
        take: Callable[[Answer | Trouble], None],
    ) -> None:
        """Ask what takes longer; a page that was left takes nothing."""

        def take_here(answer: Answer | Trouble) -> None:
            if self.is_attached:
                take(answer)

        self.app.feed.slow_queries.query(question, take_here)

    def action_leave(self) -> None:
        """Go back."""
        self.app.pop_screen()
