"""A list of rows of which some can be folded: by the keys, or by a click on their sign."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

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

    def show_folds(self, cells: Mapping[str, int]) -> None:
        """Say at which cell of which rows there is a sign to click at."""
        self._fold_cells = cells

    def on_click(self, event: events.Click) -> None:
        """Fold where the sign was clicked."""
        found = self.clicked(event)
        cell = self._fold_cells.get(found[0]) if found else None
        if found and cell is not None and cell <= found[1] <= cell + 1:
            event.stop()
            self.post_message(self.Folded(self, found[0]))
