"""A list of rows of which some can be folded: by the keys, or by a click on their sign."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from textual.content import Content
from textual.message import Message

from .row_list import RowList

if TYPE_CHECKING:
    from collections.abc import Mapping

    from textual import events


class FoldList(RowList):
    """Says which row's sign was clicked; who shows the rows folds them."""

    @dataclass
    class Folded(Message):
        """A person wants to fold a row, or to unfold it."""

        pane: FoldList
        key: str

    def __init__(self, *, id: str, number: str, name: str) -> None:  # noqa: A002 -- Textual's
        super().__init__(id=id, number=number, name=name)
        self._fold_cells: Mapping[str, int] = {}
        self._head = Content("")

    def show_folds(self, cells: Mapping[str, int]) -> None:
        """Say at which cell of which rows there is a sign to click at."""
        self._fold_cells = cells

    def show_head(self, head: Content) -> None:
        """Write the line above the rows, where it says something else now."""
        if not head.is_same(self._head):
            self._head = head
            super().show_head(head)

    def mark(self, key: str) -> None:
        """Mark a row, where it is shown."""
        for place, row in enumerate(self._shown):
            if row.key == key:
                self.rows.highlighted = place

    def on_click(self, event: events.Click) -> None:
        """Fold where the sign was clicked."""
        row = event.style.meta.get("option")
        place = event.get_content_offset(self.rows)
        if not isinstance(row, int) or place is None or row >= len(self._shown):
            return
        key = self._shown[row].key
        cell = self._fold_cells.get(key)
        if cell is not None and cell <= place.x <= cell + 1:
            event.stop()
            self.post_message(self.Folded(self, key))
