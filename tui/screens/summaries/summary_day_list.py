"""Thousands of summaries as a list by days that reads and draws only the rows in sight."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import ClassVar, Final

from textual import events
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.geometry import Size
from textual.message import Message
from textual.reactive import reactive
from textual.scroll_view import ScrollView
from textual.strip import Strip
from textual.visual import Visual

from ....core.compliance.findings import ComplianceVerdict
from ...messages import CoalescingMessage
from ...widgets.text_pane import movement_bindings
from .summary_report import (
    SummaryListLayout,
    SummaryPreview,
    day_line,
    lay_out_days,
    summary_row_lines,
)

READ_BATCH: Final = 64  # summaries that are read at once
SELECTED_SIGN: Final = "▪"

MAX_PREVIEWS: Final = 4_096
"""Rows that are remembered: about 1 kB each; then those out of sight are read again."""


@dataclass(frozen=True, slots=True)
class SummaryLookups:
    """What the page knows of a row beside its head."""

    session_label: Callable[[str], str]  # names a session's title and project
    verdict: Callable[[str, str | None], ComplianceVerdict | None]
    """Of an agent, by its session and its id."""


class SummaryList(ScrollView, can_focus=True):
    """The list; a person marks rows in it and opens them."""

    COMPONENT_CLASSES: ClassVar[set[str]] = {"summary-list--cursor", "summary-list--blurred"}
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "open", "Open", key_display="⏎", tooltip="read it whole", id="open"),
        *movement_bindings(),
        Binding(
            "space",
            "mark",
            "Mark",
            show=False,
            tooltip="mark it, to compare or to export",
            id="mark",
        ),
    ]

    place: reactive[int] = reactive(0, repaint=False)  # of the row with the cursor, among all

    @dataclass
    class Moved(CoalescingMessage):
        """The cursor stands on another summary."""

        summary_id: int

    @dataclass
    class Opened(Message):
        """A person wants to read a summary whole."""

        summary_id: int

    @dataclass
    class SelectionChanged(Message):
        """Other summaries are marked."""

    @dataclass
    class PreviewsMissing(Message):
        """These are in sight and were not read yet."""

        ids: list[int]

    def __init__(self, known: SummaryLookups, *, id: str) -> None:  # noqa: A002 -- Textual's
        super().__init__(id=id)
        self._known: Final = known
        self._places: Sequence[tuple[int, int]] = ()
        self._layout = SummaryListLayout((), 2, 0)
        self._now_ms = 0
        self._heads: dict[int, SummaryPreview] = {}
        self._asked: set[int] = set()
        self._drawn: dict[int, list[Content]] = {}
        self._strips: dict[tuple[int, int, str], Strip] = {}
        self._width = 0
        self.selected: dict[int, None] = {}
        """The marked summaries, in the order in which they were marked."""

    @property
    def summary_id(self) -> int | None:
        """The summary with the cursor."""
        return self._places[self.place][0] if self.place < len(self._places) else None

    @property
    def ids(self) -> list[int]:
        """All that the list shows."""
        return [summary_id for summary_id, _ in self._places]

    def show(self, places: Sequence[tuple[int, int]], now_ms: int) -> None:
        """Show these, newest first; the cursor stays on its summary, which stays where it is."""
        before = self.summary_id
        height = self.scrollable_content_region.height
        top = round(self.scroll_offset.y)
        above = self._layout.line_of(self.place) - top if before is not None else 0
        at = next((n for n, (each, _) in enumerate(places) if each == before), None)
        follows = at is None or (self.place == 0 and top <= 1)
        self._places = places
        self._now_ms = now_ms
        self._lay_out()
        if at is None:
            at = min(self.place, max(0, len(places) - 1)) if before is not None else 0
        if follows and self.place == 0:
            # Who looks at the newest sees what is newer.
            self.scroll_to(y=0, animate=False, immediate=True)
        elif places and 0 <= above < max(1, height):
            self.scroll_to(y=self._layout.line_of(at) - above, animate=False, immediate=True)
        self.set_reactive(SummaryList.place, at)
        if self.summary_id is not None and self.summary_id != before:
            self.post_message(self.Moved(self.summary_id))
        self.refresh()

    def clear_previews(self) -> None:
        """Read again what is in sight: what was searched for, or the texts, have changed."""
        self._heads.clear()
        self._asked.clear()
        self.redraw()

    def redraw(self) -> None:
        """Draw the rows again: what is known beside them has changed."""
        self._drawn.clear()
        self._strips.clear()
        self.refresh()

    def add_previews(self, heads: Iterable[SummaryPreview]) -> None:
        """Keep what was read."""
        if len(self._heads) > MAX_PREVIEWS:
            self._heads.clear()
        for head in heads:
            self._heads[head.summary_id] = head
            self._asked.discard(head.summary_id)
        self.redraw()

    # Drawing.

    def render_line(self, y: int) -> Strip:
        """Draw one line of what is in sight."""
        width = self.size.width
        found = self._layout.locate(self.scroll_offset.y + y)
        if found is None:
            return Strip.blank(width, self.visual_style.rich_style)
        day, place, inside = found
        if place is None:
            return self._strip(day_line(day, self._width), "")
        name = ""
        if place == self.place:
            name = "summary-list--cursor" if self.has_focus else "summary-list--blurred"
        summary_id, _ = self._places[place]
        if summary_id not in self._heads:
            return self._strip(self._row(place, inside), name)
        key = summary_id, inside, name
        strip = self._strips.get(key)
        if strip is None:
            strip = self._strips[key] = self._strip(self._row(place, inside), name)
        return strip

    def _strip(self, content: Content, name: str) -> Strip:
        width = self.size.width
        style = self.get_visual_style(name) if name else self.visual_style
        (strip, *_) = Visual.to_strips(self, content, width, 1, style, pad=True)
        return strip.crop_extend(0, width, style.rich_style)

    def _row(self, place: int, inside: int) -> Content:
        summary_id, _ = self._places[place]
        head = self._heads.get(summary_id)
        if head is None:
            self._miss(place)
            return Content.styled("   …" if inside == 0 else "", "$quiet")
        lines = self._drawn.get(summary_id)
        if lines is None:
            lines = summary_row_lines(
                head,
                self._known.session_label(head.session_id),
                self._known.verdict(head.session_id, head.agent_id),
                self._width,
                SELECTED_SIGN if summary_id in self.selected else " ",
            )
            self._drawn[summary_id] = lines
        return lines[inside] if inside < len(lines) else Content("")

    def _miss(self, place: int) -> None:
        start = place - place % READ_BATCH
        ids = [
            each
            for each, _ in self._places[start : start + READ_BATCH]
            if each not in self._heads and each not in self._asked
        ]
        if ids:
            self._asked.update(ids)
            self.post_message(self.PreviewsMissing(ids))

    def _lay_out(self) -> None:
        self._width = self.scrollable_content_region.width
        self._layout = lay_out_days(self._places, self._width, self._now_ms)
        self.virtual_size = Size(self._width, self._layout.lines)

    def on_resize(self) -> None:
        """Lay the rows out for another width; the one with the cursor stays in sight."""
        if self.scrollable_content_region.width != self._width:
            self._lay_out()
            self.redraw()
        self._keep_in_sight()

    def notify_style_update(self) -> None:
        """Draw in the colours of another theme."""
        self._strips.clear()
        self.refresh()
        super().notify_style_update()

    def on_focus(self) -> None:
        """Show where the keys go."""
        self.refresh()

    def on_blur(self) -> None:
        """Show that the keys go elsewhere."""
        self.refresh()

    # What a person does.

    def validate_place(self, place: int) -> int:
        """Stay on the rows."""
        return max(0, min(place, len(self._places) - 1))

    def watch_place(self) -> None:
        """Keep the cursor in sight, and tell where it stands."""
        self._keep_in_sight()
        self.refresh()
        if self.summary_id is not None:
            self.post_message(self.Moved(self.summary_id))

    def _keep_in_sight(self) -> None:
        height = self.scrollable_content_region.height
        if not self._places or height < 1:
            return
        # The day's heading is in sight with the first of its rows.
        start = self._layout.line_of(self.place)
        above = self._layout.locate(start - 1)
        first = start - 1 if above and above[1] is None else start
        end = start + self._layout.height
        top = round(self.scroll_offset.y)
        if first < top:
            self.scroll_to(y=first, animate=False, immediate=True)
        elif end > top + height:
            self.scroll_to(y=end - height, animate=False, immediate=True)

    def action_move(self, by: int) -> None:
        """Go up or down."""
        self.place += by

    def action_edge(self, place: int) -> None:
        """Go to the first or the last."""
        self.place = place if place >= 0 else len(self._places) - 1

    def action_page(self, by: int) -> None:
        """Go a page up or down."""
        rows = max(1, self.scrollable_content_region.height // self._layout.height - 1)
        self.place += by * rows

    def action_open(self) -> None:
        """Ask to read the summary with the cursor."""
        if self.summary_id is not None:
            self.post_message(self.Opened(self.summary_id))

    def action_mark(self) -> None:
        """Mark the summary with the cursor or take its mark away, and go on to the next."""
        chosen = self.summary_id
        if chosen is None:
            return
        if chosen in self.selected:
            del self.selected[chosen]
        else:
            self.selected[chosen] = None
        self.redraw()
        self.post_message(self.SelectionChanged())
        self.place += 1

    def clear_selection(self) -> None:
        self.selected.clear()
        self.redraw()
        self.post_message(self.SelectionChanged())

    def on_click(self, event: events.Click) -> None:
        """Mark the row that was clicked; a second click opens it."""
        found = self._layout.locate(round(self.scroll_offset.y) + event.y)
        if found is None or found[1] is None:
            return
        if found[1] != self.place:
            self.place = found[1]
        elif event.chain > 1:
            self.action_open()
