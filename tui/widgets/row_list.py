"""The one list: rows of text under a header; only lines in sight are drawn; rows can fold."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import ClassVar, Final

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

from ..keymap import bind
from ..messages import CoalescingMessage, WidgetMessage
from .text_pane import movement_bindings

_ROW_CLASS: Final = "rows--row"
_CURRENT_ROW_CLASS: Final = "rows--marked"


@dataclass(frozen=True, slots=True)
class Row:
    """A row's key, which it keeps when its place or words change, and its words."""

    key: str
    content: Content

    @property
    def height(self) -> int:
        return self.content.plain.count("\n") + 1

    def looks_like(self, other: Row | LazyRow) -> bool:
        return isinstance(other, Row) and self.content.is_same(other.content)


@dataclass(frozen=True, slots=True)
class Listing:
    """What a list shows."""

    rows: tuple[Row, ...]
    head: Content
    empty: str  # what to say, and to do, where there is nothing


class LazyRow:
    """A row that is written when it is first seen; two of one look say the same."""

    __slots__ = ("_content", "_write", "appearance", "height", "key")

    def __init__(
        self, key: str, look: object, write: Callable[[], Content], height: int = 1
    ) -> None:
        self.key: Final = key
        self.appearance: Final = look
        self.height: Final = height
        """Lines that it takes."""
        self._write: Final = write
        self._content: Content | None = None

    @property
    def content(self) -> Content:
        if self._content is None:
            self._content = self._write()
        return self._content

    def looks_like(self, other: Row | LazyRow) -> bool:
        return self is other or (isinstance(other, LazyRow) and self.appearance == other.appearance)


AnyRow = Row | LazyRow


class Rows(ScrollView, can_focus=True, inherit_bindings=False):
    """The rows; keys of less and vi beside the arrows, and a click only marks."""

    ALLOW_SELECT = False
    COMPONENT_CLASSES: ClassVar[set[str]] = {_ROW_CLASS, _CURRENT_ROW_CLASS}
    BINDINGS: ClassVar[list[BindingType]] = [
        bind("enter", "select", "Open", "show it whole", "open", key_display="⏎"),
        *movement_bindings(),
    ]

    highlighted: reactive[int | None] = reactive(None, init=False)  # the place of the marked row

    class RoomChanged(CoalescingMessage):
        """Rows may be longer now, or must be shorter; it is drawn once for all panes."""

    class Highlighted(Message):
        pass

    class Opened(Message):
        """A person wants to see the marked row whole."""

    def __init__(self) -> None:
        super().__init__()
        self._rows: list[AnyRow] = []
        self._starts: list[int] = [0]
        """The first line of each row, and the line after the last one."""
        self._strips: dict[str, tuple[AnyRow, int, dict[str, list[Strip]]]] = {}

    @property
    def shown(self) -> Sequence[AnyRow]:
        return self._rows

    def show(self, rows: Sequence[AnyRow]) -> None:
        """Show these rows; the mark stays on its row, and only what changed is drawn."""
        before, marked = self._rows, self.highlighted
        key = before[marked].key if marked is not None and marked < len(before) else None
        was_seen = marked is not None and self._is_seen(marked)
        heights = [row.height for row in rows]
        changed = self._changes(rows) if len(before) == len(rows) else None
        self._rows = list(rows)
        starts = [0, *accumulate(heights)]
        if changed is None or starts != self._starts:
            self._starts = starts
            self._measure()
            self.refresh()
        else:
            for index in self._in_sight(changed):
                self._refresh_row(index)
        keys = {row.key for row in rows}
        self._strips = {name: each for name, each in self._strips.items() if name in keys}
        self._restore_highlight(key, was_seen=was_seen)

    def _changes(self, rows: Sequence[AnyRow]) -> list[int]:
        return [
            index
            for index, (old, new) in enumerate(zip(self._rows, rows, strict=True))
            if old is not new and not (old.key == new.key and new.looks_like(old))
        ]

    def _restore_highlight(self, key: str | None, *, was_seen: bool) -> None:
        """Mark the row of this key, or the first where it is gone or nobody has marked one."""
        if not self._rows:
            self.set_reactive(Rows.highlighted, None)
            return
        marked = self.highlighted
        found = next((n for n, row in enumerate(self._rows) if row.key == key), 0)
        if found == marked:
            return
        self.set_reactive(Rows.highlighted, found)
        for index in (marked, found):
            if index is not None:
                self._refresh_row(index)
        if was_seen and not self._is_seen(found):
            self._bring_into_sight(found)

    # What a person does.

    def action_select(self) -> None:
        if self.highlighted is not None:
            self.post_message(self.Opened())

    def action_move(self, by: int) -> None:
        """Mark a row further down or up, round the ends."""
        self._go(0 if self.highlighted is None else self.highlighted + by)

    def action_edge(self, place: int) -> None:
        self._go(place)

    def action_page(self, by: int) -> None:
        line = self._starts[self.highlighted or 0] + by * self._height
        self._go(self.row_at(max(0, min(line, self._starts[-1] - 1))) or 0)

    def _go(self, index: int) -> None:
        if self._rows:
            self.highlighted = index % len(self._rows)

    def watch_highlighted(self, before: int | None, now: int | None) -> None:
        for index in (before, now):
            if index is not None:
                self._refresh_row(index)
        if now is not None and now < len(self._rows):
            self._bring_into_sight(now)
            self.post_message(self.Highlighted())

    async def _on_click(self, event: events.Click) -> None:
        index = self.row_at(event.y + self.scroll_offset.y)
        if index is None:
            return
        self.highlighted = index
        if event.chain > 1:
            self.action_select()

    def on_resize(self) -> None:
        """Post RoomChanged on every resize: of the terminal, by a zoom, or when a pane is shown.

        This includes a resize to the same width, because rows may have been drawn for another
        width in between.
        """
        self._measure()
        self.post_message(self.RoomChanged())

    def notify_style_update(self) -> None:
        self._strips.clear()
        self.refresh()
        super().notify_style_update()

    # Drawing.

    def row_at(self, line: int) -> int | None:
        """Return the index of the row at a line, None if there is none.

        Lines are counted from the first line of the first row.
        """
        if not 0 <= line < self._starts[-1]:
            return None
        return bisect_right(self._starts, line) - 1

    def render_line(self, y: int) -> Strip:
        line = y + self.scroll_offset.y
        index = self.row_at(line)
        if index is None:
            return Strip.blank(self._width, self.get_visual_style(_ROW_CLASS).rich_style)
        strips = self._drawn(index, _CURRENT_ROW_CLASS if index == self.highlighted else "")
        return strips[line - self._starts[index]]

    def _drawn(self, index: int, state: str) -> list[Strip]:
        row, width = self._rows[index], self._width
        known = self._strips.get(row.key)
        if known is None or known[1] != width or not row.looks_like(known[0]):
            known = (row, width, {})
            self._strips[row.key] = known
        # The cursor is of another colour where the pane has the focus.
        name = f"{state}{self.has_focus}" if state else ""
        strips = known[2].get(name)
        if strips is None:
            style = self.get_visual_style(*((_ROW_CLASS, state) if state else (_ROW_CLASS,)))
            drawn = Visual.to_strips(self, row.content, width, row.height, style)
            strips = [each.adjust_cell_length(width, style.rich_style) for each in drawn]
            missing = row.height - len(strips)
            strips += [Strip.blank(width, style.rich_style)] * missing
            known[2][name] = strips
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

    def _is_seen(self, index: int) -> bool:
        top = self.scroll_offset.y
        return index < len(self._rows) and top <= self._starts[index] < top + self._height

    def _in_sight(self, rows: Iterable[int]) -> list[int]:
        """Leave out the rows of which no line is seen."""
        top = self.scroll_offset.y
        end = top + self._height
        return [n for n in rows if self._starts[n] < end and self._starts[n + 1] > top]

    def _refresh_row(self, index: int) -> None:
        if index < len(self._rows):
            region = self._region(index)
            self.refresh_lines(region.y, region.height)

    def _bring_into_sight(self, index: int) -> None:
        self.scroll_to_region(self._region(index), animate=False, force=True, immediate=True)


class RowList(Vertical):
    """A pane: its title on the border, a head line, rows, and words where there are none."""

    ALLOW_MAXIMIZE = True
    empty: reactive[str] = reactive("")  # what to say, and to do, where there are no rows

    @dataclass
    class Highlighted(WidgetMessage["RowList"]):
        """Another row is marked."""

        key: str

    @dataclass
    class Opened(WidgetMessage["RowList"]):
        """A person wants to see a row whole."""

        key: str

    @dataclass
    class HeaderClicked(WidgetMessage["RowList"]):
        """A person clicked on the head, so many cells from its left edge."""

        x: int

    def __init__(self, *, id: str, number: str, name: str) -> None:  # noqa: A002 -- Textual's
        super().__init__(id=id, name=name)
        self.border_title = f"{number} {name}"
        self._room = 0
        self._head: Content | None = None
        self._titles: tuple[Content | None, Content | None] = (None, None)

    def compose(self) -> ComposeResult:
        yield Static(classes="head", markup=False)
        yield Rows()
        yield Static(classes="empty", markup=False)

    @property
    def rows(self) -> Rows:
        """The list itself, which takes the focus."""
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
        """Cells that a row may take, or could take when the pane was last seen."""
        self._room = self.rows.scrollable_content_region.width or self._room
        return self._room

    @property
    def key(self) -> str | None:
        rows = self.rows
        return None if rows.highlighted is None else rows.shown[rows.highlighted].key

    def watch_empty(self, words: str) -> None:
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


class FoldList(RowList):
    """Says which row's sign was clicked; who shows the rows folds them."""

    @dataclass
    class Folded(WidgetMessage["FoldList"]):
        """A person wants to fold a row, or to unfold it."""

        key: str

    def __init__(self, *, id: str, number: str, name: str) -> None:  # noqa: A002 -- Textual's
        super().__init__(id=id, number=number, name=name)
        self._fold_cells: Mapping[str, int] = {}

    def show_folds(self, cells: Mapping[str, int]) -> None:
        """Set the cell of the clickable fold sign in each row, by row key."""
        self._fold_cells = cells

    def on_click(self, event: events.Click) -> None:
        found = self.clicked(event)
        cell = self._fold_cells.get(found[0]) if found else None
        if found and cell is not None and cell <= found[1] <= cell + 1:
            event.stop()
            self.post_message(self.Folded(self, found[0]))
