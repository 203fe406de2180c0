"""The sessions, one line each."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..session_rows import lay_out, session_line, shown_age
from .row_list import Row, RowList

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ...core.sessions import Session
    from ..session_rows import Layout

Look = tuple["Session", "Layout", str]
"""All that a line shows."""


class SessionPane(RowList):
    """Pane 1."""

    def __init__(self, *, id: str, number: str, name: str) -> None:  # noqa: A002 -- Textual's
        super().__init__(id=id, number=number, name=name)
        self._drawn: dict[str, tuple[Look, Row]] = {}

    def show(self, sessions: Sequence[Session], now_ms: int) -> None:
        """Draw these sessions in this order; a line that says what it said is kept."""
        layout = lay_out(self.room)
        self.show_head(layout.head)
        drawn = {session.session_id: self._draw(session, layout, now_ms) for session in sessions}
        self._drawn = drawn
        self.show_rows([row for _, row in drawn.values()])

    def _draw(self, session: Session, layout: Layout, now_ms: int) -> tuple[Look, Row]:
        look = session, layout, shown_age(session, now_ms)
        before = self._drawn.get(session.session_id)
        if before and before[0] == look:
            return before
        return look, Row(session.session_id, session_line(session, layout, now_ms))
