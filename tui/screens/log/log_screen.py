"""The log page: events of the past and of now, following the end."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import ClassVar, Final

from textual import on
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.reactive import reactive
from textual.widget import Widget

from ....core.model.problem import Problem
from ....core.transcript.sanitize import one_line
from ...messages import FleetView
from ...notifications import EventSeverity
from ...text.formats import date_time_seconds, fit_left, fit_right, local_time
from ...widgets.controls import FilterBar
from ...widgets.row_list import LazyRow, RowList
from ..page import FilteredPage, ReadingScreen
from .event_log import (
    MAX_HISTORY,
    WEIGHT_SIGNS,
    LogEvent,
    LogLevel,
    filter_events,
    newest_events,
    read_event_history,
)

REFRESH_S: Final = 2.0
"""Between two looks into the store: what happens now is heard at once, without it."""

EMPTY_TEXT: Final = "nothing has happened yet: what is read, set aside or told appears here"


class LogScreen(FilteredPage):
    """The newest at the end; whoever stands at the end stays there."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("l", "least", "Level", tooltip="all, warnings, or troubles only", id="log_level"),
        Binding("p", "pause", "Pause", tooltip="stand still, or go on", id="pause"),
        Binding("y", "copy", "Copy", show=False, tooltip="copy the entry, whole", id="copy"),
    ]

    least: reactive[LogLevel] = reactive(LogLevel.ALL)
    paused: reactive[bool] = reactive(False)  # noqa: FBT003

    def __init__(self) -> None:
        super().__init__("log")
        self._past: tuple[LogEvent, ...] | None = None
        self._shown: dict[str, LogEvent] = {}
        self._frozen: list[LogEvent] | None = None
        self._count = -1
        self._seen: FleetView | None = None
        self._trouble = ""

    def compose_page(self) -> Iterable[Widget]:
        """Lay out the entries and the filter."""
        yield RowList(id="log", number="", name="Log")
        yield FilterBar('words "a phrase" -without')

    def on_mount(self) -> None:
        """Read the past, and look again from time to time."""
        self._list.empty = "reading what has happened …"
        self._list.rows.focus()
        self._look()
        self.set_interval(REFRESH_S, self._look)

    @property
    def _list(self) -> RowList:
        return self.query_one(RowList)

    @property
    def is_at_end(self) -> bool:
        """The newest entry is marked, or nothing is."""
        marked, count = self._list.rows.highlighted, len(self._shown)
        return marked is None or marked >= count - 1

    def _look(self) -> None:
        view, count = self.app.view, self.app.event_log.count
        # Views come when the store has more.
        if not self.paused and (self._seen is not view or self._count != count):
            self._seen = view
            store = self.app.places.store
            self.look_up(lambda db: read_event_history(db, store), self._take)

    def _take(self, found: tuple[LogEvent, ...] | Problem) -> None:
        happened = self.app.event_log
        if not isinstance(found, tuple):
            self._trouble = one_line(str(found))
            self._past = self._past or ()
        elif found == self._past and happened.count == self._count:
            return
        else:
            self._past, self._trouble = found, ""
        self._count = happened.count
        self.draw()

    def _entries(self) -> list[LogEvent]:
        if self._frozen is not None:
            return self._frozen
        now = self.app.event_log.all
        # Of a trouble that was heard of the store has the same words.
        heard = {f"trouble {each.where}" for each in now if each.source == "trouble"}
        past = [each for each in self._past or () if each.key not in heard]
        return newest_events([*past, *now], MAX_HISTORY)

    def draw(self) -> None:
        """Draw what matches; the mark stays on its entry, or at the end."""
        if not self.is_attached or self._past is None:
            return
        follows, now_ms = self.is_at_end, self.app.now_ms()
        entries = self._entries()
        chosen = filter_events(entries, self.words, self.least)
        pane = self._list
        width = pane.row_width
        self._shown = {each.key: each for each in chosen}
        pane.empty = "no entry matches; Esc shows all" if entries else self._trouble or EMPTY_TEXT
        pane.show_header(event_header(width))
        pane.show_rows([_event_row(each, width, now_ms) for each in chosen])
        if follows and chosen:
            pane.rows.highlighted = len(chosen) - 1
            pane.rows.scroll_end(animate=False)
        self._draw_title(len(chosen), len(entries))

    def _draw_title(self, shown: int, in_all: int) -> None:
        count = f"{shown:,} of {in_all:,}" if shown != in_all else f"{in_all:,}"
        parts = [self.least.label, f"/{self.words}" if self.words else ""]
        if self.paused:
            parts.append("paused: p goes on")
        else:
            parts.append("follows the end" if self.is_at_end else "G: to the end")
        said = " · ".join(each for each in parts if each)
        self._list.set_titles(Content(f"Log · {count}"), Content(said))

    # What a person does.

    def action_least(self) -> None:
        """Show what is worse, or all again."""
        self.least = self.least.next

    def action_pause(self) -> None:
        """Stand still; what happens meanwhile is there afterwards."""
        self._frozen = None if self.paused else self._entries()
        self.paused = not self.paused
        self._look()

    def action_copy(self) -> None:
        """Copy the marked entry, whole."""
        entry = self._shown.get(self._list.key or "")
        if entry:
            self.app.copy(event_details(entry).plain, "the entry")

    @property
    def is_filtered(self) -> bool:
        """Words or a level keep entries from being shown."""
        return super().is_filtered or self.least is not LogLevel.ALL

    def clear_filters(self) -> None:
        """Show all."""
        super().clear_filters()
        self.least = LogLevel.ALL

    @on(RowList.Opened)
    def _open(self, event: RowList.Opened) -> None:
        entry = self._shown.get(event.key)
        if entry:
            self.app.push_screen(ReadingScreen("log", entry.where, content=event_details(entry)))

    @on(RowList.Highlighted)
    def _mark(self) -> None:
        self._draw_title(len(self._shown), len(self._entries()))

    def watch_least(self) -> None:
        """Draw what is bad enough."""
        self.draw()

    def watch_paused(self) -> None:
        self.draw()


def _event_row(entry: LogEvent, width: int, now_ms: int) -> LazyRow:
    """Make an entry's row, which is written when it is seen."""
    look = (entry, width, local_time(entry.at, now_ms))
    return LazyRow(entry.key, look, partial(event_line, entry, width, now_ms))


_TIME_CELLS: Final = 12


_SOURCE_CELLS: Final = 10


_MIN_WHERE_CELLS: Final = 12


_MAX_WHERE_CELLS: Final = 44


SOURCE_FROM_CELLS: Final = 72
"""Cells below which the source of an entry goes: its words say as much."""


def event_header(width: int) -> Content:
    """Write the line above the entries."""
    where = _where_cells(width)
    source = f"{fit_left('who', _SOURCE_CELLS)} " if width >= SOURCE_FROM_CELLS else ""
    return Content.styled(
        f"{fit_left('when', _TIME_CELLS)}   {source}{fit_left('where', where)} what", "$quiet"
    )


def event_line(entry: LogEvent, width: int, now_ms: int) -> Content:
    """Write an entry's line for so many cells."""
    sign, style = WEIGHT_SIGNS[entry.weight]
    where = _where_cells(width)
    source = f"{fit_left(entry.source, _SOURCE_CELLS)} " if width >= SOURCE_FROM_CELLS else ""
    rest = max(0, width - _TIME_CELLS - 3 - len(source) - where - 1)
    words = "$foreground" if entry.weight is EventSeverity.NOTE else style
    return Content.assemble(
        (fit_right(local_time(entry.at, now_ms), _TIME_CELLS), "$quiet"),
        (f" {sign} ", style),
        (source, "$quiet"),
        (f"{fit_left(entry.where, where)} ", "bold"),
        (fit_left(entry.text, rest), words),
    )


def _where_cells(width: int) -> int:
    return min(max(_MIN_WHERE_CELLS, (width - _TIME_CELLS) // 3), _MAX_WHERE_CELLS)


def event_details(entry: LogEvent) -> Content:
    """Write all that is known of an entry."""
    sign, style = WEIGHT_SIGNS[entry.weight]
    at = date_time_seconds(entry.at)
    return Content("\n").join(
        [
            Content.assemble((f"{sign} {entry.text}", style)),
            Content(""),
            Content.assemble(("when     ", "$quiet"), at),
            Content.assemble(("who      ", "$quiet"), entry.source),
            Content.assemble(("where    ", "$quiet"), entry.where),
            *([Content(""), Content(entry.detail)] if entry.detail else []),
        ]
    )
