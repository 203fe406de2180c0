"""A text that has to be seen before it is approved."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from textual import events
from textual.app import ComposeResult
from textual.containers import VerticalScroll
from textual.content import Content
from textual.widgets import Static

from ..base.messages import WidgetMessage
from ..text.whole_text import NOTE, whole_text

NOTE_STYLE: Final = "bold $background on $level-notice"

StyledText = str | tuple[str, str]  # a text, or one with its style
Description = str | Sequence[StyledText]  # of what is approved; texts are joined as they are


def whole_content(description: Description) -> Content:
    """Draw texts as they are, with what is not seen written out."""
    parts = (description,) if isinstance(description, str) else description
    return Content("").join(map(_drawn, parts))


def _drawn(part: StyledText) -> Content:
    text, style = (part, "$foreground") if isinstance(part, str) else part
    content = Content.styled(whole_text(text), style)
    for match in NOTE.finditer(content.plain):
        content = content.stylize(NOTE_STYLE, *match.span())
    return content


class WholeTextPane(VerticalScroll, can_focus=False):
    """Knows which of its rows have been on the screen, from the first one on without a gap."""

    @dataclass
    class RowsShown(WidgetMessage["WholeTextPane"]):
        """Posted when other rows have been seen, or other ones are left."""

    def __init__(self, description: Description, *, id: str) -> None:  # noqa: A002 -- Textual's
        super().__init__(id=id)
        self._content: Final = whole_content(description)
        self._rows_seen = 0
        self._width = 0  # in which they were seen: another width has other rows
        self.is_seen = False  # stays true: the text does not change
        self._known: tuple[int, int] | None = None  # what was posted

    def compose(self) -> ComposeResult:
        yield Static(self._content)

    @property
    def rows_left(self) -> int:
        """How many rows below those that were seen are left."""
        return 0 if self.is_seen else max(1, self.virtual_size.height - self._rows_seen)

    def on_resize(self, _event: events.Resize) -> None:
        self.note_rows()

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        super().watch_scroll_y(old_value, new_value)
        self.note_rows()

    def note_rows(self) -> None:
        """Note what is on the screen once it has been painted."""
        self.call_after_refresh(self._note_rows)

    def _note_rows(self) -> None:
        """Note the rows that are on the screen now: those within this pane and the terminal."""
        if not self.is_attached or not self.screen.is_current:
            return
        placed = self.screen.find_widget(self)
        visible, region = placed.visible_region, placed.region
        if visible.width < region.width:
            return
        if region.width != self._width:
            self._width, self._rows_seen = region.width, 0
        first = round(self.scroll_offset.y) + visible.y - region.y
        if visible.height and first <= self._rows_seen:
            self._rows_seen = max(self._rows_seen, first + visible.height)
        self.is_seen |= bool(region.height) and self._rows_seen >= self.virtual_size.height
        known = self.rows_left, round(self.max_scroll_y)
        if known != self._known:
            self._known = known
            self.post_message(self.RowsShown(self))
