"""Rows of a file that is read in parts: a cursor, a scroll bar over the whole file, search hits."""

from __future__ import annotations

import re
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import ClassVar, Final, Protocol

from rich.segment import Segment
from textual import events
from textual.binding import BindingType
from textual.content import Content
from textual.geometry import Region
from textual.reactive import reactive
from textual.strip import Strip
from textual.visual import Visual
from textual.widget import Widget

from ..base.keymap import bind, bind_hidden
from ..base.messages import WidgetMessage
from ..text.text_lines import HIT_STYLE, highlight_matches
from .text_pane import (
    CONTEXT_LINES_ABOVE,
    PAGER_PAGE_DOWN_KEYS,
    SizeWatch,
    movement_bindings,
)

READ_AHEAD_ROWS: Final = 150  # rows beyond the screen from which more is asked for
WHEEL_ROWS: Final = 3
_CURSOR_CLASS: Final = "conversation--cursor"
_THUMB_CLASS: Final = "conversation--thumb"
_TRACK_CLASS: Final = "conversation--track"
MAX_CACHED_STRIPS: Final = 2_000


class ViewRow(Protocol):
    """A row; its anchor stays the same when rows are added before it."""

    @property
    def content(self) -> Content: ...

    @property
    def anchor(self) -> Hashable: ...

    @property
    def offset(self) -> int:
        """Bytes of the file before it."""
        ...


class ConversationView(Widget, can_focus=True):
    """Draws the rows in sight, and asks for more before an end of them comes into sight."""

    ALLOW_SELECT = False
    COMPONENT_CLASSES: ClassVar[set[str]] = {_CURSOR_CLASS, _THUMB_CLASS, _TRACK_CLASS}
    DEFAULT_CSS = """
    ConversationView {
        height: 1fr;
        background: $background;
        text-wrap: nowrap;

        & > .conversation--cursor {
            color: $block-cursor-blurred-foreground;
            background: $block-cursor-blurred-background;
        }
        &:focus > .conversation--cursor {
            color: $block-cursor-foreground;
            background: $block-cursor-background;
            text-style: $block-cursor-text-style;
        }
        & > .conversation--thumb { color: $primary; }
        & > .conversation--track { color: $pane; }
    }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        bind("enter", "unfold", "Unfold", "unfold or fold this step", "open", key_display="⏎"),
        *movement_bindings(PAGER_PAGE_DOWN_KEYS),
        bind_hidden("n", "hit(1)", "Next", "next match, or next prompt", "next_match"),
        bind_hidden(
            "N", "hit(-1)", "Previous", "previous match, or previous prompt", "match_before"
        ),
    ]

    empty: reactive[str] = reactive("")  # shown instead of rows: why there are none

    @dataclass
    class MoreNeeded(WidgetMessage["ConversationView"]):
        """One end of the rows is near: -1 is the first row, 1 the last."""

        side: int

    @dataclass
    class EdgeChosen(WidgetMessage["ConversationView"]):
        """The user goes to the start of the file, 0, or its end, -1."""

        place: int

    @dataclass
    class PlaceChosen(WidgetMessage["ConversationView"]):
        """The user clicked the scroll bar, at a share of the file."""

        share: float

    @dataclass
    class Toggled(WidgetMessage["ConversationView"]):
        """Enter or a click on the row of the cursor."""

    @dataclass
    class StepAsked(WidgetMessage["ConversationView"]):
        """The user goes to the next or previous match or prompt."""

        by: int

    class Resized(WidgetMessage["ConversationView"]):
        """The rows must be wrapped for another width."""

    class Moved(WidgetMessage["ConversationView"]):
        """The cursor is on another row, or other rows are in sight."""

    def __init__(self, *, id: str) -> None:  # noqa: A002 -- Textual's
        super().__init__(id=id)
        self._size_watch: Final = SizeWatch(self)
        self.auto_links = False  # Textual looks for links in every line, and there are none
        self.rows: Sequence[ViewRow] = ()
        self.top = 0  # the first row in sight
        self.cursor = 0
        self.file_size = 0
        self._pattern: re.Pattern[str] | None = None
        self._strips: dict[tuple[Hashable, bool, bool], tuple[Content, Strip]] = {}

    # What is shown.

    @property
    def row_width(self) -> int:
        return max(1, self.size.width - 1)

    @property
    def row(self) -> ViewRow | None:
        """The row under the cursor."""
        return self.rows[self.cursor] if self.cursor < len(self.rows) else None

    @property
    def is_at_end(self) -> bool:
        return self.cursor >= len(self.rows) - 1

    def show(self, rows: Sequence[ViewRow], file_size: int) -> None:
        """Show these rows; those in sight stay where they are, if they still exist."""
        above = self.cursor - self.top
        anchor = self.row.anchor if self.row else None
        self.rows, self.file_size = rows, file_size
        found = next((n for n, row in enumerate(rows) if row.anchor == anchor), None)
        self.cursor = min(self.cursor, max(0, len(rows) - 1)) if found is None else found
        self._set_top(self.cursor - above)
        self.refresh()
        # What is there is painted first.
        self.call_after_refresh(self._ask_for_more)

    def go_to(self, place: int) -> None:
        """Put the cursor on a row, with some rows above it."""
        self.cursor = max(0, min(place, len(self.rows) - 1))
        self._set_top(self.cursor - CONTEXT_LINES_ABOVE)
        self._show_move()

    def go_to_end(self) -> None:
        self.cursor = max(0, len(self.rows) - 1)
        self._set_top(len(self.rows))
        self._show_move()

    def mark_hits(self, pattern: re.Pattern[str] | None) -> None:
        self._pattern = pattern
        self._strips.clear()
        self.refresh()

    def _set_top(self, top: int) -> None:
        # A view that is not laid out yet has no height, and is drawn before it hears of its size.
        self.top = max(0, min(top, len(self.rows) - max(1, self.size.height)))

    def _show_move(self) -> None:
        self._keep_cursor_in_sight()
        self.refresh()
        self.post_message(self.Moved(self))
        self.call_after_refresh(self._ask_for_more)

    def _keep_cursor_in_sight(self) -> None:
        height = self.size.height
        if not height:
            return  # hidden, or not laid out yet
        if self.cursor < self.top:
            self._set_top(self.cursor)
        elif self.cursor >= self.top + height:
            self._set_top(self.cursor - height + 1)

    def _ask_for_more(self) -> None:
        if not self.size.height:
            return  # hidden: nothing is in sight
        if self.top < READ_AHEAD_ROWS:
            self.post_message(self.MoreNeeded(self, -1))
        if len(self.rows) - self.top - self.size.height < READ_AHEAD_ROWS:
            self.post_message(self.MoreNeeded(self, 1))

    # What the user does.

    def action_move(self, by: int) -> None:
        self.cursor = max(0, min(self.cursor + by, len(self.rows) - 1))
        self._show_move()

    def action_page(self, by: int) -> None:
        rows = by * max(1, self.size.height - 1)
        above = self.cursor - self.top
        self._set_top(self.top + rows)
        is_last = by > 0 and self.top >= len(self.rows) - self.size.height
        is_first = by < 0 and self.top == 0
        wanted = self.cursor + rows if is_last or is_first else self.top + above
        self.cursor = max(0, min(wanted, len(self.rows) - 1))
        self._show_move()

    def action_edge(self, place: int) -> None:
        self.post_message(self.EdgeChosen(self, place))

    def action_unfold(self) -> None:
        self.post_message(self.Toggled(self))

    def action_hit(self, by: int) -> None:
        self.post_message(self.StepAsked(self, by))

    def on_click(self, event: events.Click) -> None:
        if event.x >= self.row_width:
            self.post_message(self.PlaceChosen(self, event.y / max(1, self.size.height - 1)))
        elif self.top + event.y < len(self.rows):
            self.cursor = self.top + event.y
            self._show_move()
            self.post_message(self.Toggled(self))

    def on_mouse_scroll_down(self, event: events.MouseScrollDown) -> None:
        self._scroll(event, WHEEL_ROWS)

    def on_mouse_scroll_up(self, event: events.MouseScrollUp) -> None:
        self._scroll(event, -WHEEL_ROWS)

    def _scroll(self, event: events.MouseEvent, rows: int) -> None:
        event.stop()
        event.prevent_default()
        self._set_top(self.top + rows)
        last = self.top + max(0, self.size.height - 1)
        self.cursor = max(self.top, min(self.cursor, last, len(self.rows) - 1))
        self._show_move()

    # Drawing.

    def render_lines(self, crop: Region) -> list[Strip]:
        self._size_watch.check()
        return super().render_lines(crop)

    def render_line(self, y: int) -> Strip:
        place = self.top + y
        if place < len(self.rows):
            line = self._row_strip(self.rows[place], is_cursor=place == self.cursor)
        elif y == 0 and not self.rows:
            line = self._draw_row(Content.styled(self.empty, "$quiet"), is_cursor=False)
        else:
            line = Strip.blank(self.row_width, self.visual_style.rich_style)
        return Strip.join([line, self._scroll_bar_cell(y)])

    def _row_strip(self, row: ViewRow, *, is_cursor: bool) -> Strip:
        key = (row.anchor, is_cursor and self.has_focus, is_cursor)
        cached = self._strips.get(key)
        if cached is not None and cached[0] is row.content:
            return cached[1]
        if len(self._strips) > MAX_CACHED_STRIPS:
            self._strips.clear()
        strip = self._draw_row(row.content, is_cursor=is_cursor)
        self._strips[key] = (row.content, strip)
        return strip

    def _draw_row(self, content: Content, *, is_cursor: bool) -> Strip:
        width = self.row_width
        style = self.get_visual_style(_CURSOR_CLASS) if is_cursor else self.visual_style
        marked = highlight_matches(content, self._pattern, HIT_STYLE)
        (strip, *_) = Visual.to_strips(self, marked, width, 1, style, pad=True)
        return strip.crop_extend(0, width, style.rich_style)

    def _scroll_bar_cell(self, y: int) -> Strip:
        first, last = self._thumb()
        is_thumb = first <= y <= last
        style = self.get_visual_style(_THUMB_CLASS if is_thumb else _TRACK_CLASS)
        return Strip([Segment("┃" if is_thumb else "│", style.rich_style)], 1)

    def _thumb(self) -> tuple[int, int]:
        """Return the first and last line of the scroll bar's thumb, for the rows in sight."""
        if not self.rows or not self.file_size:
            return 0, self.size.height
        bottom = min(self.top + self.size.height, len(self.rows)) - 1
        lines = self.size.height - 1
        first = round(self.rows[self.top].offset / self.file_size * lines)
        last = round(self.rows[bottom].offset / self.file_size * lines)
        return first, max(first, last)

    def on_resize(self, event: events.Resize) -> None:
        self._size_watch.receive(event)
        self._strips.clear()
        self._set_top(self.top)
        self._keep_cursor_in_sight()
        self.post_message(self.Resized(self))

    def notify_style_update(self) -> None:
        self._strips.clear()
        self.refresh()
        super().notify_style_update()
