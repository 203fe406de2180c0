"""Where claude-memory's saves stand, project by project; it follows what happens."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ..saves_report import saves_report
from .reading import ReadingScreen

if TYPE_CHECKING:
    from ...core.saves.report import SavesReport
    from ..view import View

CRUMB: Final = "saves of claude-memory"

MARGINS: Final = 6
"""Cells beside the text: the page's padding and its scroll bar."""

WIDEST: Final = 110
"""Cells of a line: as the style sheet's."""


class SavesScreen(ReadingScreen):
    """Shows the saves of a view, and of each newer one."""

    def __init__(self, saves: SavesReport | None, width: int, now_ms: int) -> None:
        self._width: Final = min(width - MARGINS, WIDEST)
        super().__init__(CRUMB, content=saves_report(saves, self._width, now_ms))

    def show_view(self, view: View) -> None:
        """Show what a newer view says."""
        content = saves_report(view.saves, self._width, view.now_ms)
        if content.plain != self._content.plain:
            self.show(content)
