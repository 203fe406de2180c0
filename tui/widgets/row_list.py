"""A list of rows with a head: one widget a pane, however many rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from textual import events, on
from textual.containers import Vertical
from textual.message import Message
from textual.reactive import reactive
from textual.widgets import Static

from .rows import AnyRow, LateRow, Row, Rows

if TYPE_CHECKING:
    from collections.abc import Sequence

    from textual.app import ComposeResult
    from textual.content import Content

__all__ = ["AnyRow", "LateRow", "Row", "RowList", "Rows"]


class RowList(Vertical):
    """A pane: its title on the border, a head line, rows, and words where there are none."""

    ALLOW_MAXIMIZE = True
    empty: reactive[str] = reactive("")
    """What to say, and to do, where there are no rows."""

    @dataclass
    class Highlighted(Message):
        """Another row is marked."""

        pane: RowList
        key: str

        @property
        def control(self) -> RowList:
            """The pane, for selectors."""
            return self.pane

    @dataclass
    class Opened(Message):
        """A person wants to see a row whole."""

        pane: RowList
        key: str

        @property
        def control(self) -> RowList:
            """The pane, for selectors."""
            return self.pane

    @dataclass
    class HeaderClicked(Message):
        """A person clicked on the head, so many cells from its left edge."""

        pane: RowList
        x: int

        @property
        def control(self) -> RowList:
            """The pane, for selectors."""
            return self.pane

    def __init__(self, *, id: str, number: str, name: str) -> None:  # noqa: A002 -- Textual's
        super().__init__(id=id, name=name)
        self.border_title = f"{number} {name}"
        self._room = 0
        self._head: Content | None = None
        self._titles: tuple[Content | None, Content | None] = (None, None)

    def compose(self) -> ComposeResult:
        """Lay out the head, the rows and the empty words."""
        yield Static(classes="head", markup=False)
        yield Rows()
        yield Static(classes="empty", markup=False)

    @property
    def rows(self) -> Rows:
        """The list itself, which takes the focus."""
        return self.query_one(Rows)

    @property
    def shown(self) -> Sequence[AnyRow]:
        """All rows, in order."""
        return self.rows.shown

    def clicked(self, event: events.Click) -> tuple[str, int] | None:
        """Say which row was clicked, by its key, and at which cell; None beside the rows."""
        place = event.get_content_offset(self.rows)
        index = self.rows.row_at(place.y + self.rows.scroll_offset.y) if place else None
        return None if place is None or index is None else (self.shown[index].key, place.x)

    @property
    def row_width(self) -> int:
        """Cells that a row may take, or could take when the pane was last seen."""
        self._room = self.rows.scrollable_content_region.width or self._room
        return self._room

    @property
    def key(self) -> str | None:
        """The marked row's key."""
        rows = self.rows
        return None if rows.highlighted is None else rows.shown[rows.highlighted].key

    def watch_empty(self, words: str) -> None:
        """Show the words where there are no rows."""
        if self.is_mounted:
            self.query_one(".empty", Static).update(words)

    def set_titles(self, title: Content | None = None, subtitle: Content | None = None) -> None:
        """Write the border's words; None leaves them, and the same ones draw nothing again."""
        before = self._titles
        if title is not None and not (before[0] and before[0].is_same(title)):
            self.border_title = title
        if subtitle is not None and not (before[1] and before[1].is_same(subtitle)):
            self.border_subtitle = subtitle
        self._titles = (title or before[0], subtitle if subtitle is not None else before[1])

    def show_header(self, head: Content) -> None:
        """Write the line above the rows."""
        if self._head is None or not head.is_same(self._head):
            self._head = head
            self.query_one(".head", Static).update(head)

    def show_rows(self, rows: Sequence[AnyRow]) -> None:
        """Show these rows; the mark stays on its row, and only what changed is drawn."""
        marked = self.key
        self.set_class(not rows, "-empty")
        self.rows.show(rows)
        if self.key is not None and self.key != marked:
            self.post_message(self.Highlighted(self, self.key))

    def highlight(self, key: str | None) -> None:
        """Mark the row of this key, where there is one."""
        found = next((n for n, row in enumerate(self.rows.shown) if row.key == key), None)
        if found is not None:
            self.rows.highlighted = found

    def highlight_first(self) -> None:
        """Mark the first row: where nobody has chosen one, the mark is not kept on its row."""
        self.rows.action_edge(0)

    @on(Rows.Highlighted)
    def _tell_marked(self, event: Rows.Highlighted) -> None:
        event.stop()
        if self.key is not None:
            self.post_message(self.Highlighted(self, self.key))

    @on(Rows.Opened)
    def _tell_opened(self, event: Rows.Opened) -> None:
        event.stop()
        if self.key is not None:
            self.post_message(self.Opened(self, self.key))

    @on(events.Click, ".head")
    def _tell_head_clicked(self, event: events.Click) -> None:
        self.post_message(self.HeaderClicked(self, event.x))
