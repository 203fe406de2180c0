"""Thousands of summaries as a list by days that reads and draws only the rows in sight."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Final

from msgspec.structs import replace
from textual import events
from textual.binding import BindingType
from textual.content import Content
from textual.geometry import Size
from textual.message import Message
from textual.reactive import reactive
from textual.scroll_view import ScrollView
from textual.strip import Strip
from textual.visual import Visual

from ....core.model.findings import ComplianceVerdict
from ....core.model.rule import ListedRule
from ....core.summaries.summary_search import SummaryQuery
from ....core.transcript.filter_language import DAY_MS, start_of_day
from ...base.keymap import bind, bind_hidden
from ...base.messages import CoalescingMessage
from ...text import formats, summary_text
from ...text.compliance_text import VERDICT_SIGNS
from ...text.text_lines import HIT_STYLE
from ...widgets.text_pane import movement_bindings
from .summary_screen import with_token_count

if TYPE_CHECKING:
    from ....core.model.findings import RunVerdict
    from ....core.model.stored_rows import SummaryRow


WIDE_CELLS: Final = 70  # from which a row is two lines; below it is three
CHARS_BEFORE_HIT: Final = 24  # that a snippet has before its first hit
SNIPPET_CHARS: Final = 400  # more than any row is wide
SIZE_CELLS: Final = 21  # room for 12,345 lines ≈172 k
_SIGN_CELLS: Final = 3  # of the mark and the kind's sign
_END_CELLS: Final = 8  # of the verdict's sign and the time


@dataclass(frozen=True, slots=True)
class SummaryPreview:
    """What a row shows of a summary."""

    row: SummaryRow  # without its text
    snippet: str
    spans: tuple[tuple[int, int], ...] = ()  # what was searched for, in the snippet
    rule: ListedRule | None = None


def make_preview(
    row: SummaryRow, search: SummaryQuery, rule: ListedRule | None = None
) -> SummaryPreview:
    """Return what a list row shows: the text around the first hit, or the beginning."""
    known = replace(with_token_count(row), text="")
    text, hits = row.text, search.hits(row.text)
    if not hits:
        return SummaryPreview(
            known,
            summary_text.summary_beginning(text[: summary_text.BEGINNING_CHARS])[:SNIPPET_CHARS],
            rule=rule,
        )
    first = hits[0][0]
    start = max(0, first - CHARS_BEFORE_HIT)
    if start:
        # At the beginning of a word, if there is one.
        space = text.find(" ", start, first)
        start = space + 1 if space >= 0 else start
    around = " ".join(text[start : start + SNIPPET_CHARS].split())
    snippet = f"… {around}" if start else around
    return SummaryPreview(known, snippet, tuple(search.hits(snippet)), rule)


def summary_row_lines(
    preview: SummaryPreview,
    session_label: str,
    verdict: ComplianceVerdict | None,
    width: int,
    mark: str = " ",
) -> list[Content]:
    """Draw a row; `session_label` names session and project, `mark` is a marked row's sign."""
    row = preview.row
    style = summary_text.KIND_STYLES.get(row.kind, "$foreground")
    passed = VERDICT_SIGNS[verdict] if verdict is not None else " "
    size = f"{formats.plural(row.lines, 'line')} ≈{formats.tokens(row.estimated_tokens)}"
    name = summary_text.summary_name(row)
    if preview.rule is not None:
        name += f": {summary_text.rule_state(preview.rule)}"
    start = ((mark, "bold $accent"), (f"{summary_text.KIND_SIGNS.get(row.kind, '?')} ", style))
    end = (
        (f" {passed} ", "$broken" if passed == "✗" else "$level-calm"),
        (formats.fit_right(formats.time_of_day(row.at), _END_CELLS - 3), "$quiet"),
    )
    if width >= WIDE_CELLS:
        room = width - _SIGN_CELLS - _END_CELLS - SIZE_CELLS
        cells = room // 2
        first = Content.assemble(
            *start,
            (formats.fit_left(name, cells), style),
            (f" {formats.fit_left(session_label, room - cells - 1)}", "$quiet"),
            (formats.fit_right(size, SIZE_CELLS), "$quiet"),
            *end,
        )
        return [first, _snippet_line(preview, width)]
    name_cells = max(0, width - _SIGN_CELLS - _END_CELLS)
    first = Content.assemble(*start, (formats.fit_left(name, name_cells), style), *end)
    room = max(0, width - _SIGN_CELLS - len(size) - 1)
    second = Content.styled(f"   {formats.fit_left(session_label, room)} {size}", "$quiet")
    return [first, second, _snippet_line(preview, width)]


def _snippet_line(preview: SummaryPreview, width: int) -> Content:
    cells = max(0, width - 3)
    words = Content.styled(preview.snippet, "$foreground")
    for start, end in preview.spans:
        words = words.stylize(HIT_STYLE, start, end)
    return Content("   ") + words.truncate(cells, ellipsis=True).pad_right(
        max(0, cells - words.cell_length)
    )


@dataclass(frozen=True, slots=True)
class SummaryDay:
    """The summaries of one day, newest first."""

    label: str
    first: int  # index of its first one among all
    count: int
    line: int  # of its heading


@dataclass(frozen=True, slots=True)
class SummaryListLayout:
    days: tuple[SummaryDay, ...]
    height: int  # lines of a row
    count: int

    @property
    def lines(self) -> int:
        return len(self.days) + self.count * self.height

    def locate(self, line: int) -> tuple[SummaryDay, int | None, int] | None:
        """Return the day, the index of the summary, and the line within it.

        The index is None on the heading of a day. The result is None outside the list.
        """
        if not 0 <= line < self.lines:
            return None
        day = self.days[bisect_right(self.days, line, key=lambda day: day.line) - 1]
        inside = line - day.line - 1
        if inside < 0:
            return day, None, 0
        return day, day.first + inside // self.height, inside % self.height

    def line_of(self, place: int) -> int:
        day = self.days[bisect_right(self.days, place, key=lambda day: day.first) - 1]
        return day.line + 1 + (place - day.first) * self.height


def lay_out_days(places: Sequence[tuple[int, int]], width: int, now_ms: int) -> SummaryListLayout:
    """Group summaries by local days; `places` are ids and times, newest first."""
    height = 2 if width >= WIDE_CELLS else 3
    starts: list[tuple[int, int]] = []
    for number, (_, at) in enumerate(places):
        if not starts or at < starts[-1][1]:
            starts.append((number, _start_of_day(at)))
    ends = [first for first, _ in starts[1:]] + [len(places)]
    days = tuple(
        SummaryDay(day_name(day, now_ms), first, end - first, number + first * height)
        for number, ((first, day), end) in enumerate(zip(starts, ends, strict=False))
    )
    return SummaryListLayout(days, height, len(places))


def day_line(day: SummaryDay, width: int) -> Content:
    count = f" {day.count:,}"
    label = formats.shorten(day.label, max(0, width - len(count) - 1))
    rest = max(0, width - len(label) - len(count) - 1)
    line = f" {'─' * rest}"
    return Content.assemble((label, "bold $primary"), (line, "$pane"), (count, "$quiet"))


def day_name(day_ms: int, now_ms: int) -> str:
    if day_ms <= 0:
        return "time unknown"
    day, today = formats.local_datetime(day_ms), formats.local_datetime(now_ms)
    if day is None or today is None:
        return "invalid time"
    near = {0: "Today, ", 1: "Yesterday, "}.get((today.date() - day.date()).days, "")
    year = "" if day.year == today.year else f" {day.year}"
    return f"{near}{day:%A} {day.day} {day:%B}{year}"


def _start_of_day(at: int) -> int:
    """Return the start of the local day in ms, of the UTC day if no calendar has the time."""
    if at <= 0:
        return 0
    try:
        return start_of_day(at)
    except (ValueError, OverflowError, OSError):
        return at - at % DAY_MS


READ_BATCH: Final = 64  # summaries that are read at once
SELECTED_SIGN: Final = "▪"

MAX_PREVIEWS: Final = 4_096  # kept, about 1 kB each; then those out of sight are read again


class SummaryList(ScrollView, can_focus=True):
    """The list; a person marks rows in it and opens them."""

    COMPONENT_CLASSES: ClassVar[set[str]] = {"summary-list--cursor", "summary-list--blurred"}
    BINDINGS: ClassVar[list[BindingType]] = [
        bind("enter", "open", "Open", "open", "open"),
        *movement_bindings(),
        bind_hidden("space", "mark", "Mark", "mark to compare or export", "mark"),
    ]

    place: reactive[int] = reactive(0, repaint=False)  # index of the row with the cursor

    class Moved(CoalescingMessage):
        """The cursor is on another summary."""

    @dataclass
    class Opened(Message):
        summary_id: int

    class SelectionChanged(Message):
        """Other summaries are marked."""

    @dataclass
    class PreviewsMissing(Message):
        """These are in sight and were not read yet."""

        ids: list[int]

    def __init__(
        self,
        session_label: Callable[[str], str],
        verdict: Callable[[str, str | None], RunVerdict | None],
        *,
        id: str,  # noqa: A002 -- Textual's
    ) -> None:
        """`session_label` names a session by its id, `verdict` takes a session's and an agent's."""
        super().__init__(id=id)
        self._session_label: Final = session_label
        self._verdict: Final = verdict
        self._places: Sequence[tuple[int, int]] = ()
        self._layout = SummaryListLayout((), 2, 0)
        self._now_ms = 0
        self._previews: dict[int, SummaryPreview] = {}
        self._asked: set[int] = set()
        self._strips: dict[tuple[int, str], list[Strip]] = {}
        self._width = 0
        self.selected: dict[int, None] = {}
        """The marked summaries, in the order in which they were marked."""

    @property
    def summary_id(self) -> int | None:
        return self._places[self.place][0] if self.place < len(self._places) else None

    @property
    def ids(self) -> list[int]:
        return [summary_id for summary_id, _ in self._places]

    def show(self, places: Sequence[tuple[int, int]], now_ms: int) -> None:
        """Show these, newest first; the cursor's summary keeps the cursor and its line."""
        before = self.summary_id
        top = round(self.scroll_offset.y)
        above = self._layout.line_of(self.place) - top if before is not None else 0
        at = next((n for n, (summary_id, _) in enumerate(places) if summary_id == before), None)
        at_top = self.place == 0 and (at is None or top <= 1)
        self._places, self._now_ms = places, now_ms
        self._lay_out()
        if at is None:
            at = min(self.place, max(0, len(places) - 1)) if before is not None else 0
        if at_top:
            # The newest was in sight: newer ones are shown.
            self._jump(0)
        elif places and 0 <= above < max(1, self.scrollable_content_region.height):
            self._jump(self._layout.line_of(at) - above)
        self.set_reactive(SummaryList.place, at)
        if self.summary_id is not None and self.summary_id != before:
            self.post_message(self.Moved())
        self.refresh()

    def _jump(self, line: int) -> None:
        self.scroll_to(y=line, animate=False, immediate=True)

    def clear_previews(self) -> None:
        """Read again what is in sight: the search or the texts have changed."""
        self._previews.clear()
        self._asked.clear()
        self.redraw()

    def redraw(self) -> None:
        """Draw the rows again: a session's name, a verdict or a mark has changed."""
        self._strips.clear()
        self.refresh()

    def add_previews(self, previews: Iterable[SummaryPreview]) -> None:
        if len(self._previews) > MAX_PREVIEWS:
            self._previews.clear()
        for preview in previews:
            self._previews[preview.row.summary_id] = preview
            self._asked.discard(preview.row.summary_id)
        self.redraw()

    # Drawing.

    def render_line(self, y: int) -> Strip:
        found = self._layout.locate(self.scroll_offset.y + y)
        if found is None:
            return Strip.blank(self.size.width, self.visual_style.rich_style)
        day, place, inside = found
        if place is None:
            return self._draw(day_line(day, self._width), "")
        state = ""
        if place == self.place:
            state = "summary-list--cursor" if self.has_focus else "summary-list--blurred"
        key = self._places[place][0], state
        strips = self._strips.get(key)
        if strips is None:
            strips = [self._draw(line, state) for line in self._row_lines(place)]
            if key[0] in self._previews:
                self._strips[key] = strips
        return strips[inside]

    def _draw(self, content: Content, state: str) -> Strip:
        width = self.size.width
        style = self.get_visual_style(state) if state else self.visual_style
        (strip, *_) = Visual.to_strips(self, content, width, 1, style, pad=True)
        return strip.crop_extend(0, width, style.rich_style)

    def _row_lines(self, place: int) -> list[Content]:
        summary_id = self._places[place][0]
        preview = self._previews.get(summary_id)
        if preview is None:
            self._ask_previews(place)
            return [Content.styled("   …", "$quiet")] + [Content("")] * (self._layout.height - 1)
        row = preview.row
        verdict = self._verdict(row.session_id, row.agent_id)
        return summary_row_lines(
            preview,
            self._session_label(row.session_id),
            verdict.verdict if verdict else None,
            self._width,
            SELECTED_SIGN if summary_id in self.selected else " ",
        )

    def _ask_previews(self, place: int) -> None:
        start = place - place % READ_BATCH
        known = self._previews.keys() | self._asked
        batch = self._places[start : start + READ_BATCH]
        missing = [summary_id for summary_id, _ in batch if summary_id not in known]
        if missing:
            self._asked.update(missing)
            self.post_message(self.PreviewsMissing(missing))

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
        self.redraw()
        super().notify_style_update()

    # Actions.

    def validate_place(self, place: int) -> int:
        return max(0, min(place, len(self._places) - 1))

    def watch_place(self) -> None:
        """Keep the cursor in sight, and post Moved."""
        self._keep_in_sight()
        self.refresh()
        if self.summary_id is not None:
            self.post_message(self.Moved())

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
            self._jump(first)
        elif end > top + height:
            self._jump(end - height)

    def action_move(self, by: int) -> None:
        self.place += by

    def action_edge(self, place: int) -> None:
        self.place = place if place >= 0 else len(self._places) - 1

    def action_page(self, by: int) -> None:
        rows = max(1, self.scrollable_content_region.height // self._layout.height - 1)
        self.place += by * rows

    def action_open(self) -> None:
        if self.summary_id is not None:
            self.post_message(self.Opened(self.summary_id))

    def action_mark(self) -> None:
        """Mark or unmark the summary with the cursor, and move to the next."""
        summary_id = self.summary_id
        if summary_id is None:
            return
        if summary_id in self.selected:
            del self.selected[summary_id]
        else:
            self.selected[summary_id] = None
        self._redraw_marks()
        self.place += 1

    def clear_selection(self) -> None:
        self.selected.clear()
        self._redraw_marks()

    def _redraw_marks(self) -> None:
        self.redraw()
        self.post_message(self.SelectionChanged())

    def on_click(self, event: events.Click) -> None:
        """Move the cursor to the row that was clicked; a double click opens it."""
        found = self._layout.locate(round(self.scroll_offset.y) + event.y)
        if found is None or found[1] is None:
            return
        if found[1] != self.place:
            self.place = found[1]
        elif event.chain > 1:
            self.action_open()
