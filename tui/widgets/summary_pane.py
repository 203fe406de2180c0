"""What agents returned and what compactions kept, newest first."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from textual.content import Content

from ..formats import age
from ..summary_rows import summary_lines
from .row_list import LateRow, RowList

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ...core.store.rows import SummaryRow

LINES: Final = 2
"""Of a row."""


class SummaryPane(RowList):
    """Pane 3."""

    def show(self, rows: Sequence[SummaryRow], titles: Mapping[str, str], now_ms: int) -> None:
        """Draw these summaries in this order; `titles` names their sessions."""
        self.show_header(Content(""))
        room = self.row_width
        self.show_rows([_late(row, titles, room, now_ms) for row in rows])


def _late(row: SummaryRow, titles: Mapping[str, str], room: int, now_ms: int) -> LateRow:
    since = age(None if row.at is None else now_ms - row.at)
    # All that its lines show; a stored summary's text stays as it is.
    look = row.summary_id, row.estimated_tokens, titles.get(row.session_id), since, room
    write = partial(summary_lines, row, titles, room, now_ms)
    return LateRow(str(row.summary_id), look, write, LINES)
