"""The sessions, one line each."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..session_rows import lay_out, session_line
from .row_list import Row, RowList

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ...core.sessions import Session


class SessionPane(RowList):
    """Pane 1."""

    def show(self, sessions: Sequence[Session], now_ms: int) -> None:
        """Draw these sessions in this order."""
        layout = lay_out(self.room)
        self.show_head(layout.head)
        self.show_rows(
            [Row(session.session_id, session_line(session, layout, now_ms)) for session in sessions]
        )
