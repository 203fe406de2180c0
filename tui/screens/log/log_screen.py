"""The log page: events of the past and of now, following the end."""

from collections.abc import Iterable, Sequence
from functools import partial
from typing import ClassVar, Final

from textual import on
from textual.binding import BindingType
from textual.content import Content
from textual.reactive import reactive
from textual.widget import Widget

from ....core.model.problem import Problem
from ....core.saves.project_saves import EMPTY_SAVES_REPORT
from ....core.transcript.sanitize import one_line
from ...base.keymap import bind, bind_hidden
from ...base.messages import FleetView
from ...entities import event_log
from ...page_kit.page import FilteredPage, ReadingScreen
from ...text.formats import date_time_seconds, local_time
from ...text.listing import LazyRow
from ...text.severity import EventSeverity
from ...text.tables import ANY_WIDTH, Cell, Column
from ...text.text_lines import ScreenColumn, grow_columns, item_line
from ...widgets.controls import FilterBar
from ...widgets.row_list import RowList

REFRESH_S: Final = 2.0  # for the store; this run's events are shown at once
EMPTY_TEXT: Final = "no entries yet"


class LogScreen(FilteredPage):
    """The newest event is at the end; a cursor at the end stays there."""

    KEYS_IF_ROOM = ("copy",)
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
            store, saves = self.app.places.store, view.saves if view else None
            known = saves or EMPTY_SAVES_REPORT
            self.look_up(lambda db: event_log.read_event_history(db, store, known), self._show)

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
        repeated = {f"problem {event.where}" for event in now if event.source == "problem"}
        past = [event for event in self._past or () if event.key not in repeated]
        return event_log.newest_events([*past, *now], event_log.MAX_HISTORY)

    def draw(self) -> None:
        """Draw what matches; the cursor stays on its event, or at the end."""
        if not self.is_attached or self._past is None:
            return
        pane, now_ms = self.row_list, self.app.now_ms()
        events = self._events()
        matching = event_log.filter_events(events, self.words, self.least)
        columns = _event_columns(matching, pane.row_width, now_ms)
        pane.show_columns(columns)
        follows = self.is_at_end and pane.order is None
        matching = pane.in_order(matching)
        self._shown = {event.key: event for event in matching}
        pane.empty = "no entry matches; Esc shows all" if events else self._problem or EMPTY_TEXT
        pane.show_rows([_event_row(event, columns, now_ms) for event in matching])
        if follows and matching:
            pane.rows.highlighted = len(matching) - 1
            pane.rows.scroll_end(animate=False)
        self._draw_title(len(matching), len(events))

    def _draw_title(self, shown: int, total: int) -> None:
        count = f"{shown:,} of {total:,}" if shown != total else f"{total:,}"
        state = "follows the end" if self.is_at_end else "G: to the end"
        if (order := self.row_list.order) is not None:
            state = f"sorted by {order.header}"
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


_FULL_TIME_FROM_CELLS: Final = 140


def _event_columns(
    events: Sequence[event_log.LogEvent], width: int, now_ms: int
) -> list[ScreenColumn[event_log.LogEvent]]:
    is_full = width >= _FULL_TIME_FROM_CELLS

    def when(event: event_log.LogEvent) -> Cell:
        text = date_time_seconds(event.at) if is_full else local_time(event.at, now_ms)
        return Cell(text, "$quiet")

    def what(event: event_log.LogEvent) -> Cell:
        _, style = event_log.SEVERITY_SIGNS[event.severity]
        return Cell(event.text, "$foreground" if event.severity is EventSeverity.NOTE else style)

    columns: list[ScreenColumn[event_log.LogEvent]] = [
        Column(
            "when",
            when,
            right=True,
            cells=19 if is_full else 12,
            tooltip="the time; the newest is at the end",
            sort_key=lambda event: event.at,
        ),
        Column(
            "",
            lambda event: Cell(*event_log.SEVERITY_SIGNS[event.severity]),
            cells=1,
            tooltip="how serious it is",
        ),
        Column(
            "who",
            lambda event: Cell(event.source, "$quiet"),
            cells=10,
            priority=1,
            tooltip="the part that reports it",
            sort_key=lambda event: event.source,
        ),
        Column(
            "where",
            lambda event: Cell(event.where, "bold"),
            cells=19,
            grows_to=ANY_WIDTH,
            tooltip="the file or the session",
            sort_key=lambda event: event.where,
        ),
        Column(
            "what",
            what,
            cells=28,
            grows_to=ANY_WIDTH,
            tooltip="what happened",
            sort_key=lambda event: event.text,
        ),
    ]
    return grow_columns(columns, events, width)


def _event_row(
    event: event_log.LogEvent, columns: Sequence[ScreenColumn[event_log.LogEvent]], now_ms: int
) -> LazyRow:
    """Return an event's row, which is rendered when it is seen."""
    look = (event, tuple(column.cells for column in columns), local_time(event.at, now_ms))
    return LazyRow(event.key, look, partial(item_line, columns, event))


def _event_details(event: event_log.LogEvent) -> Content:
    sign, style = event_log.SEVERITY_SIGNS[event.severity]
    facts = {"when": date_time_seconds(event.at), "who": event.source, "where": event.where}
    lines = [
        Content.styled(f"{sign} {event.text}", style),
        Content(""),
        *(Content.assemble((f"{label:<9}", "$quiet"), text) for label, text in facts.items()),
    ]
    if event.detail:
        lines += [Content(""), Content(event.detail)]
    return Content("\n").join(lines)
