"""The one list: rows of text below a header, of which only visible lines are drawn."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, ClassVar, Final

from textual import events, on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.geometry import Region, Size
from textual.message import Message
from textual.reactive import reactive
from textual.scroll_view import ScrollView
from textual.strip import Strip
from textual.visual import Visual
from textual.widgets import Static

from ..base.keymap import bind
from ..base.messages import CoalescingMessage, WidgetMessage
from ..text.column_headers import ColumnOrder, column_at, header_line, next_order, sort_items
from ..text.listing import AnyRow
from ..text.tables import Column, Item
from .text_pane import SizeWatch, movement_bindings

_ROW_CLASS: Final = "rows--row"
_CURRENT_ROW_CLASS: Final = "rows--marked"


class Rows(ScrollView, can_focus=True, inherit_bindings=False):
    """The rows; besides the arrows it has keys of less and vi, and a click only marks."""

    ALLOW_SELECT = False
    COMPONENT_CLASSES: ClassVar[set[str]] = {_ROW_CLASS, _CURRENT_ROW_CLASS}
    BINDINGS: ClassVar[list[BindingType]] = [
        bind("enter", "select", "Open", "open", "open", key_display="⏎"),
        *movement_bindings(),
    ]

    highlighted: reactive[int | None] = reactive(None, init=False)  # the place of the marked row

    class RoomChanged(CoalescingMessage):
        """Rows must be drawn for another width or order; one message is enough for all panes."""

    class Highlighted(Message):
        pass

    class Opened(Message):
        pass

    def __init__(self) -> None:
        super().__init__()
        self.auto_links = False  # Textual looks for links in every row, and there are none
        self.shown: Sequence[AnyRow] = []  # all rows, in order
        self._size_watch: Final = SizeWatch(self)
        self._starts: list[int] = [0]  # the first line of each row, and the line after the last one
        self._strips: dict[str, tuple[AnyRow, int, dict[str, list[Strip]]]] = {}
        """By row key: the row, the width, and its strips by state."""

    def show(self, rows: Sequence[AnyRow]) -> None:
        """Show these rows; the mark stays on its row, and only what changed is drawn."""
        before, marked = self.shown, self.highlighted
        key = before[marked].key if marked is not None and marked < len(before) else None
        was_visible = marked is not None and self._is_visible(marked)
        starts = [0, *accumulate(row.height for row in rows)]
        self.shown = list(rows)
        if starts != self._starts:
            self._starts = starts
            self._measure()
            self.refresh()
        else:
            for index, (old, new) in enumerate(zip(before, rows, strict=True)):
                needs_no_drawing = old is new or not self._has_visible_line(index)
                if not needs_no_drawing and (old.key != new.key or not new.looks_like(old)):
                    self._refresh_row(index)
        keys = {row.key for row in rows}
        self._strips = {name: each for name, each in self._strips.items() if name in keys}
        self._restore_highlight(key, was_visible=was_visible)

    def _restore_highlight(self, key: str | None, *, was_visible: bool) -> None:
        """Mark the row of this key, or the first if it is gone or no row was marked."""
        if not self.shown:
            self.set_reactive(Rows.highlighted, None)
            return
        marked = self.highlighted
        place = next((n for n, row in enumerate(self.shown) if row.key == key), 0)
        if place == marked:
            return
        self.set_reactive(Rows.highlighted, place)
        for index in (marked, place):
            if index is not None:
                self._refresh_row(index)
        if was_visible and not self._is_visible(place):
            self._scroll_to_row(place)

    # What the user does.

    def action_select(self) -> None:
        if self.highlighted is not None:
            self.post_message(self.Opened())

    def action_move(self, by: int) -> None:
        """Mark a row further down or up, wrapping around at the ends."""
        self._go(0 if self.highlighted is None else self.highlighted + by)

    def action_edge(self, place: int) -> None:
        self._go(place)

    def action_page(self, by: int) -> None:
        line = self._starts[self.highlighted or 0] + by * self._height
        self._go(self.row_at(max(0, min(line, self._starts[-1] - 1))) or 0)

    def _go(self, index: int) -> None:
        if self.shown:
            self.highlighted = index % len(self.shown)

    def watch_highlighted(self, before: int | None, now: int | None) -> None:
        for index in (before, now):
            if index is not None:
                self._refresh_row(index)
        if now is not None and now < len(self.shown):
            self._scroll_to_row(now)
            self.post_message(self.Highlighted())

    async def _on_click(self, event: events.Click) -> None:
        index = self.row_at(event.y + self.scroll_offset.y)
        if index is not None:
            self.highlighted = index
            if event.chain > 1:
                self.action_select()

    def on_resize(self, event: events.Resize) -> None:
        """Post RoomChanged on every resize: of the terminal, by a zoom, or when a pane is shown.

        This includes a resize to the same width, because rows may have been drawn for another
        width in between.
        """
        self._size_watch.receive(event)
        self._measure()
        self.post_message(self.RoomChanged())

    def notify_style_update(self) -> None:
        self._strips.clear()
        self.refresh()
        super().notify_style_update()

    # Drawing.

    def row_at(self, line: int) -> int | None:
        """Return the index of the row at a line of the list, None if there is none."""
        return bisect_right(self._starts, line) - 1 if 0 <= line < self._starts[-1] else None

    def render_lines(self, crop: Region) -> list[Strip]:
        self._size_watch.check()
        return super().render_lines(crop)

    def render_line(self, y: int) -> Strip:
        line = y + self.scroll_offset.y
        index = self.row_at(line)
        if index is None:
            return Strip.blank(self._width, self.get_visual_style(_ROW_CLASS).rich_style)
        return self._row_strips(index)[line - self._starts[index]]

    def _row_strips(self, index: int) -> list[Strip]:
        row, width = self.shown[index], self._width
        cached = self._strips.get(row.key)
        if cached is None or cached[1] != width or not row.looks_like(cached[0]):
            cached = self._strips[row.key] = (row, width, {})
        classes: tuple[str, ...] = (_ROW_CLASS,)
        state = ""
        if index == self.highlighted:
            # The mark has another color while the list has the focus.
            classes, state = (_ROW_CLASS, _CURRENT_ROW_CLASS), f"marked {self.has_focus}"
        strips = cached[2].get(state)
        if strips is None:
            style = self.get_visual_style(*classes)
            drawn = Visual.to_strips(self, row.content, width, row.height, style)
            strips = [each.adjust_cell_length(width, style.rich_style) for each in drawn]
            strips += [Strip.blank(width, style.rich_style)] * (row.height - len(strips))
            cached[2][state] = strips
        return strips

    @property
    def _width(self) -> int:
        return self.scrollable_content_region.width

    @property
    def _height(self) -> int:
        return self.scrollable_content_region.height

    def _measure(self) -> None:
        self.virtual_size = Size(self._width, self._starts[-1])

    def _region(self, index: int) -> Region:
        start = self._starts[index]
        return Region(0, start, self._width, self._starts[index + 1] - start)

    def _is_visible(self, index: int) -> bool:
        """Whether the first line of a row is on the screen."""
        top = self.scroll_offset.y
        return index < len(self.shown) and top <= self._starts[index] < top + self._height

    def _has_visible_line(self, index: int) -> bool:
        top = self.scroll_offset.y
        return self._starts[index] < top + self._height and self._starts[index + 1] > top

    def _refresh_row(self, index: int) -> None:
        if index < len(self.shown):
            region = self._region(index)
            self.refresh_lines(region.y, region.height)

    def _scroll_to_row(self, index: int) -> None:
        self.scroll_to_region(self._region(index), animate=False, force=True, immediate=True)


class RowList(Vertical):
    """A pane: its title on the border, a header, and rows, or a text if there are none."""

    ALLOW_MAXIMIZE = True
    empty: reactive[str] = reactive("")  # shown instead of rows: why there are none, what to do

    @dataclass
    class Highlighted(WidgetMessage["RowList"]):
        key: str

    @dataclass
    class Opened(WidgetMessage["RowList"]):
        key: str

    @dataclass
    class HeaderClicked(WidgetMessage["RowList"]):
        """A column was clicked that the list cannot sort by itself."""

        column: Column[Any, Any]

    def __init__(
        self,
        *,
        id: str,  # noqa: A002 -- Textual's
        name: str,
        number: str = "",
        empty: str = "",
    ) -> None:
        super().__init__(id=id, name=name)
        self.set_reactive(RowList.empty, empty)
        self.border_title = f"{number} {name}"
        self._last_width = 0
        self._header: Content | None = None
        self._titles: tuple[Content | None, Content | None] = (None, None)
        self._columns: tuple[Column[Any, Any], ...] = ()
        self._gap = 0  # cells between two columns
        self.order: ColumnOrder | None = None  # None is that of the items
        self._is_sorted_anew = False

    def compose(self) -> ComposeResult:
        yield Static(classes="head", markup=False)
        yield Rows()
        yield Static(self.empty, classes="empty", markup=False)

    @property
    def rows(self) -> Rows:
        """The widget that takes the focus."""
        return self.query_one(Rows)

    @property
    def shown(self) -> Sequence[AnyRow]:
        return self.rows.shown

    def clicked(self, event: events.Click) -> tuple[str, int] | None:
        """Return the key of the clicked row and the cell in it, None outside the rows."""
        place = event.get_content_offset(self.rows)
        index = self.rows.row_at(place.y + self.rows.scroll_offset.y) if place else None
        return None if place is None or index is None else (self.shown[index].key, place.x)

    @property
    def row_width(self) -> int:
        """The width of rows in cells; while the pane is hidden, its last one."""
        self._last_width = self.rows.scrollable_content_region.width or self._last_width
        return self._last_width

    @property
    def item(self) -> object:
        """What the marked row is about."""
        place = self.rows.highlighted
        return None if place is None else self.shown[place].item

    @property
    def key(self) -> str | None:
        place = self.rows.highlighted
        return None if place is None else self.shown[place].key

    def watch_empty(self, text: str) -> None:
        if self.is_mounted:
            self.query_one(".empty", Static).update(text)

    def set_titles(self, title: Content | None = None, subtitle: Content | None = None) -> None:
        """Set the texts of the border; None keeps one, and an equal text draws nothing."""
        before = self._titles
        if title is not None and not (before[0] and before[0].is_same(title)):
            self.border_title = title
        if subtitle is not None and not (before[1] and before[1].is_same(subtitle)):
            self.border_subtitle = subtitle
        self._titles = (title or before[0], subtitle if subtitle is not None else before[1])

    def show_header(self, header: Content) -> None:
        if self._header is None or not header.is_same(self._header):
            self._header = header
            self.query_one(".head", Static).update(header)

    def show_columns(
        self, columns: Iterable[Column[Any, Any]], gap: str = " ", style: str = "$quiet"
    ) -> None:
        """Show the headers of a table: they have tooltips, and a click sorts by one."""
        self.set_columns(columns, len(gap))
        self.show_header(header_line(self._columns, gap, style, self.order))

    def set_columns(self, columns: Iterable[Column[Any, Any]], gap: int) -> None:
        """Set what the header's cells are about, with `gap` cells between two columns."""
        self._columns, self._gap = tuple(columns), gap

    def in_order(self, items: Iterable[Item]) -> list[Item]:
        """Sort items in the order that was chosen by a click; the columns are shown already."""
        return sort_items(items, self._columns, self.order)

    def show_rows(self, rows: Sequence[AnyRow]) -> None:
        """Show these rows; the mark stays on its row, and only what changed is drawn."""
        marked = self.key
        self.set_class(not rows, "-empty")
        self.rows.show(rows)
        if self._is_sorted_anew:
            self._is_sorted_anew = False
            self.highlight_first()
        if self.key != marked:
            self._post_highlighted()

    def highlight(self, key: str | None) -> None:
        """Mark the row of this key, if there is one."""
        place = next((n for n, row in enumerate(self.shown) if row.key == key), None)
        if place is not None:
            self.rows.highlighted = place

    def highlight_first(self) -> None:
        """Mark the first row and show it; after a sort, and while the user has marked none."""
        self.rows.action_edge(0)
        self.rows.scroll_home(animate=False, immediate=True)

    @on(events.MouseMove, ".head")
    def _explain_header(self, event: events.MouseMove) -> None:
        column = column_at(self._columns, self._gap, event.x)
        self.query_one(".head", Static).tooltip = column.tooltip or None if column else None

    @on(Rows.Highlighted)
    def _post_highlighted(self) -> None:
        if self.key is not None:
            self.post_message(self.Highlighted(self, self.key))

    @on(Rows.Opened)
    def _post_opened(self) -> None:
        if self.key is not None:
            self.post_message(self.Opened(self, self.key))

    @on(events.Click, ".head")
    def _sort(self, event: events.Click) -> None:
        column = column_at(self._columns, self._gap, event.x)
        if column is not None and column.sort_key is not None:
            self.order = next_order(self.order, column)
            self._is_sorted_anew = True
            self.post_message(Rows.RoomChanged())
        elif column is not None:
            self.post_message(self.HeaderClicked(self, column))


class FoldList(RowList):
    """Reports clicks on the fold signs of its rows."""

    @dataclass
    class Folded(WidgetMessage["FoldList"]):
        key: str

    def __init__(self, *, id: str, name: str, number: str = "") -> None:  # noqa: A002 -- Textual's
        super().__init__(id=id, name=name, number=number)
        self.fold_cells: Mapping[str, int] = {}  # of the fold sign in each row, by row key

    def on_click(self, event: events.Click) -> None:
        clicked = self.clicked(event)
        cell = self.fold_cells.get(clicked[0]) if clicked else None
        if clicked and cell is not None and cell <= clicked[1] <= cell + 1:
            event.stop()
            self.post_message(self.Folded(self, clicked[0]))
