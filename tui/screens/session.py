"""What is known of one session: from the store at once, and what fills it once it is read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from textual.content import Content

from ..composition_report import composition_report
from ..formats import one_line
from ..session_report import session_report
from .reading import ReadingScreen

if TYPE_CHECKING:
    import sqlite3
    from pathlib import Path

    from ...collectors.folder import Trouble
    from ..session_report import Known

BEING_READ: Final = "its transcript is being read …"

MARGINS: Final = 6
"""Cells beside the text: the page's padding and its scroll bar."""

WIDEST: Final = 110
"""Cells of a line: as the style sheet's."""


class SessionScreen(ReadingScreen):
    """Shows the report, and takes the context apart meanwhile."""

    def __init__(self, known: Known, width: int, now_ms: int) -> None:
        self._known: Final = known
        self._width: Final = min(width - MARGINS, WIDEST)
        self._now_ms: Final = now_ms
        super().__init__(
            known.session.title,
            content=self._report(_quiet(BEING_READ)),
            session_id=known.session.session_id,
        )

    def on_mount(self) -> None:
        """Ask what fills it."""
        super().on_mount()
        session_id, projects = self._known.session.session_id, self.app.places.folder.projects
        width = self._width
        self.look_up(lambda db: _filling(db, projects, session_id, width), self._fill)

    def _fill(self, found: Content | Trouble) -> None:
        filling = found if isinstance(found, Content) else _quiet(str(found))
        self.show(self._report(filling))

    def _report(self, filling: Content) -> Content:
        return session_report(self._known, filling, self._width, self._now_ms)


def _filling(db: sqlite3.Connection, projects: Path, session_id: str, width: int) -> Content:
    from ...collectors.composing import NothingToComposeError, read_composition

    try:
        return composition_report(read_composition(db, projects, session_id), width)
    except NothingToComposeError as error:
        return _quiet(str(error))


def _quiet(words: str) -> Content:
    return Content.styled(f"  {one_line(words)}", "$quiet")
