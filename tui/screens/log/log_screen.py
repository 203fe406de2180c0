"""The log page: events of the past and of now, following the end."""

from collections.abc import Iterable
from functools import partial
from typing import ClassVar, Final

from rich.cells import cell_len
from textual import on
from textual.binding import BindingType
from textual.content import Content
from textual.reactive import reactive
from textual.widget import Widget

from ....core.model.problem import Problem
from ....core.transcript.sanitize import one_line
from ...keymap import bind, bind_hidden
from ...messages import FleetView
from ...notifications import EventSeverity
from ...text.formats import date_time_seconds, fit_left, fit_right, local_time
from ...widgets.controls import FilterBar
from ...widgets.row_list import LazyRow, RowList
from ..page import FilteredPage, ReadingScreen
from . import event_log

REFRESH_S: Final = 2.0  # for the store; this run's events are shown at once
EMPTY_TEXT: Final = "no entries yet"


class LogScreen(FilteredPage):
    """The newest event is at the end; a cursor at the end stays there."""

    BINDINGS: ClassVar[list[BindingType]] = [
        bind("l", "least", "Level", "all, warnings, or problems only", "log_level"),
        bind("p", "pause", "Pause", "pause or resume", "pause"),
        bind_hidden("y", "copy", "Copy", "copy the full entry", "copy"),
    ]

    least: reactive[event_log.LogLevel] = reactive(event_log.LogLevel.ALL)
    paused: reactive[bool] = reactive(False)  # noqa: FBT003

    def __init__(self) -> None:
        super().__init__("log")
        self._past: tuple[event_log.LogEvent, ...] | None = None
        self._shown: dict[str, event_log.LogEvent] = {}
        self._frozen: list[event_log.LogEvent] | None = None
        self._count = -1
        self._seen: FleetView | None = None
        self._problem = ""

    def compose_page(self) -> Iterable[Widget]:
        yield RowList(id="log", name="Log", empty="reading the log …")
        yield FilterBar('words "a phrase" -without')

    def on_mount(self) -> None:
        self._refresh()
        self.set_interval(REFRESH_S, self._refresh)

    @property
    def is_at_end(self) -> bool:
        """The cursor is on the newest event, or there is none."""
        cursor, count = self.row_list.rows.highlighted, len(self._shown)
        return cursor is None or cursor >= count - 1

    def _refresh(self) -> None:
        view, count = self.app.view, self.app.event_log.count
        # Views come when the store has more.
        if not self.paused and (self._seen is not view or self._count != count):
            self._seen = view
            store = self.app.places.store
            self.look_up(lambda db: event_log.read_event_history(db, store), self._show)

    def _show(self, found: tuple[event_log.LogEvent, ...] | Problem) -> None:
        count = self.app.event_log.count
        if not isinstance(found, tuple):
            self._problem = one_line(str(found))
            self._past = self._past or ()
        elif found == self._past and count == self._count:
            return
        else:
            self._past, self._problem = found, ""
        self._count = count
        self.draw()

    def _events(self) -> list[event_log.LogEvent]:
        if self._frozen is not None:
            return self._frozen
        now = self.app.event_log.all
        # The store repeats the problems of this run.
        repeated = {f"trouble {event.where}" for event in now if event.source == "trouble"}
        past = [event for event in self._past or () if event.key not in repeated]
        return event_log.newest_events([*past, *now], event_log.MAX_HISTORY)

    def draw(self) -> None:
        """Draw what matches; the cursor stays on its event, or at the end."""
        if not self.is_attached or self._past is None:
            return
        follows, now_ms = self.is_at_end, self.app.now_ms()
        events = self._events()
        matching = event_log.filter_events(events, self.words, self.least)
        pane = self.row_list
        width = pane.row_width
        self._shown = {event.key: event for event in matching}
        pane.empty = "no entry matches; Esc shows all" if events else self._problem or EMPTY_TEXT
        pane.show_header(_event_header(width))
        pane.show_rows([_event_row(event, width, now_ms) for event in matching])
        if follows and matching:
            pane.rows.highlighted = len(matching) - 1
            pane.rows.scroll_end(animate=False)
        self._draw_title(len(matching), len(events))

    def _draw_title(self, shown: int, total: int) -> None:
        count = f"{shown:,} of {total:,}" if shown != total else f"{total:,}"
        state = "follows the end" if self.is_at_end else "G: to the end"
        if self.paused:
            state = "paused: p resumes"
        parts = (self.least.label, f"/{self.words}" if self.words else "", state)
        subtitle = " · ".join(filter(None, parts))
        self.row_list.set_titles(Content(f"Log · {count}"), Content(subtitle))

    def action_least(self) -> None:
        self.least = self.least.next

    def action_pause(self) -> None:
        """Pause; what happens meanwhile is there afterwards."""
        self._frozen = None if self.paused else self._events()
        self.paused = not self.paused
        self._refresh()

    def action_copy(self) -> None:
        event = self._shown.get(self.row_list.key or "")
        if event:
            self.app.copy(_event_details(event).plain, "the entry")

    @property
    def is_filtered(self) -> bool:
        return super().is_filtered or self.least is not event_log.LogLevel.ALL

    def clear_filters(self) -> None:
        super().clear_filters()
        self.least = event_log.LogLevel.ALL

    @on(RowList.Opened)
    def _open(self, opened: RowList.Opened) -> None:
        event = self._shown.get(opened.key)
        if event:
            self.app.push_screen(ReadingScreen("log", event.where, content=_event_details(event)))

    @on(RowList.Highlighted)
    def _on_cursor(self) -> None:
        self._draw_title(len(self._shown), len(self._events()))

    def watch_least(self) -> None:
        self.draw()

    def watch_paused(self) -> None:
        self.draw()


def _event_row(event: event_log.LogEvent, width: int, now_ms: int) -> LazyRow:
    """Return an event's row, which is rendered when it is seen."""
    look = (event, width, local_time(event.at, now_ms))
    return LazyRow(event.key, look, partial(_event_line, event, width, now_ms))


_TIME_CELLS: Final = 12
_SOURCE_CELLS: Final = 10
_MIN_WHERE_CELLS: Final = 12
_MAX_WHERE_CELLS: Final = 44
SOURCE_FROM_CELLS: Final = 72  # a narrower row leaves the source out


def _source_and_where(source: str, where: str, width: int) -> tuple[str, str]:
    """Return the two columns with the blank after each."""
    cells = min(max(_MIN_WHERE_CELLS, (width - _TIME_CELLS) // 3), _MAX_WHERE_CELLS)
    shown = f"{fit_left(source, _SOURCE_CELLS)} " if width >= SOURCE_FROM_CELLS else ""
    return shown, f"{fit_left(where, cells)} "


def _event_header(width: int) -> Content:
    source, where = _source_and_where("who", "where", width)
    return Content.styled(f"{fit_left('when', _TIME_CELLS)}   {source}{where}what", "$quiet")


def _event_line(event: event_log.LogEvent, width: int, now_ms: int) -> Content:
    sign, style = event_log.WEIGHT_SIGNS[event.weight]
    source, where = _source_and_where(event.source, event.where, width)
    rest = max(0, width - _TIME_CELLS - 3 - cell_len(source) - cell_len(where))
    text_style = "$foreground" if event.weight is EventSeverity.NOTE else style
    return Content.assemble(
        (fit_right(local_time(event.at, now_ms), _TIME_CELLS), "$quiet"),
        (f" {sign} ", style),
        (source, "$quiet"),
        (where, "bold"),
        (fit_left(event.text, rest), text_style),
    )


def _event_details(event: event_log.LogEvent) -> Content:
    sign, style = event_log.WEIGHT_SIGNS[event.weight]
    facts = {"when": date_time_seconds(event.at), "who": event.source, "where": event.where}
    lines = [
        Content.styled(f"{sign} {event.text}", style),
        Content(""),
        *(Content.assemble((f"{label:<9}", "$quiet"), text) for label, text in facts.items()),
    ]
    if event.detail:
        lines += [Content(""), Content(event.detail)]
    return Content("\n").join(lines)
