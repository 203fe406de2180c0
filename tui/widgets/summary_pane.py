"""What agents returned and what compactions kept, newest first."""

from __future__ import annotations

from typing import TYPE_CHECKING

from textual.content import Content

from ..summary_rows import summary_lines
from .row_list import Row, RowList

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ...core.store.rows import SummaryRow


class SummaryPane(RowList):
    """Pane 3."""

    def show(self, rows: Sequence[SummaryRow], titles: Mapping[str, str], now_ms: int) -> None:
        """Draw these summaries in this order; `titles` names their sessions."""
        self.show_head(Content(""))
        self.show_rows(
            [
                Row(str(row.summary_id), summary_lines(row, titles, self.room, now_ms))
                for row in rows
            ]
        )
