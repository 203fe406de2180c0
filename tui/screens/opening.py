"""The first frame: one line, drawn before anything that takes long to import."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from textual.screen import Screen

from ..widgets.status_line import Standing, StatusLine

if TYPE_CHECKING:
    from textual.app import ComposeResult


class OpeningScreen(Screen[None]):
    """Lies below the fleet and is seen for a moment."""

    def __init__(self, source: str) -> None:
        super().__init__()
        self._source: Final = source

    def compose(self) -> ComposeResult:
        """Show the same line as the fleet does."""
        line = StatusLine(id="status")
        line.set_reactive(StatusLine.standing, Standing(source=self._source, scan="opening"))
        yield line
