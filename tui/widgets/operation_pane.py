"""The operations of a plan: what is marked can be switched by key, or by a click on its box."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from textual.message import Message

from ..operation_rows import BOX_CELLS, head_line, item_line
from .row_list import Row, RowList

if TYPE_CHECKING:
    from collections.abc import Sequence

    from textual import events

    from ..operation_rows import Item


class OperationPane(RowList):
    """Shows items, and tells which of them is to be switched."""

    @dataclass
    class Switched(Message):
        """A person wants a row on or off."""

        item: Item

    def __init__(self, *, id: str) -> None:  # noqa: A002 -- Textual's
        super().__init__(id=id, number="", name="Operations")
        self._items: dict[str, Item] = {}

    @property
    def marked(self) -> Item | None:
        """The marked row."""
        return self._items.get(self.key or "")

    def show(self, items: Sequence[Item]) -> None:
        """Draw these rows; those that say what they said are kept."""
        width = self.row_width
        self._items = {each.key: each for each in items}
        self.show_header(head_line(width))
        self.show_rows([Row(each.key, item_line(each, width)) for each in items])

    def switch_marked(self) -> None:
        """Tell that the marked row is to be switched."""
        if self.marked is not None:
            self.post_message(self.Switched(self.marked))

    def on_click(self, event: events.Click) -> None:
        """Switch where the click hit a box; the rows have marked the one below it."""
        found = self.clicked(event)
        if found and found[1] < BOX_CELLS:
            self.switch_marked()
