"""A page: a screen above the fleet with its breadcrumbs, its keys and its queries."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, ClassVar, Final, Generic, TypeVar

from textual import on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.content import Content
from textual.css.types import Display
from textual.reactive import reactive
from textual.screen import Screen
from textual.widget import Widget
from textual.widgets import Static

from ...core.transcript.sanitize import one_line
from ..base.background_queries import WorkerThread, query_store
from ..base.keymap import bind, bind_hidden
from ..base.messages import FleetView
from ..widgets.controls import FilterBar
from ..widgets.header_footer import Crumbs, KeyLine
from ..widgets.row_list import RowList, Rows
from ..widgets.text_pane import Reader

if TYPE_CHECKING:
    from ...core.model.problem import Problem
    from ..app_state.dashboard import Dashboard


Answer = TypeVar("Answer")


class ZoomableScreen(Screen[None]):
    """A screen of panes; Textual's own maximizing would style all of it again, twice."""

    ZOOMED_PANES: ClassVar[str] = ""  # selects the panes and the containers of panes

    zoomed: Widget | None = None  # the pane that fills the screen

    def zoom(self, pane: Widget | None) -> None:
        """Zoom in on `pane`; None restores the style sheet's layout."""
        self.zoomed = pane
        for each in self.query(self.ZOOMED_PANES):
            shown: Display = "block" if pane and each in pane.ancestors_with_self else "none"
            each.styles.inline.display = shown if pane else None


REFRESH_PAUSE_FACTOR: Final = 10  # at most a tenth of the time: the thread has other queries
MIN_REFRESH_S: Final = 0.2  # between two queries that the user did not ask for


class RefreshingQuery(Generic[Answer]):
    """Keeps one answer of a page as new as its views; one query runs at a time."""

    def __init__(
        self,
        page: Page,
        make_query: Callable[[], Callable[[sqlite3.Connection], Answer]],
        on_result: Callable[[Answer | Problem], None],
    ) -> None:
        """`make_query` is called each time the query starts."""
        self._page: Final = page
        self._make_query: Final = make_query
        self._on_result: Final = on_result
        self._started_at: float | None = None
        self._is_stale = False
        self._is_next = False  # a query that was asked for starts when the running one ends
        self._is_pausing = False

    @property
    def is_running(self) -> bool:
        return self._started_at is not None

    def refresh_now(self) -> None:
        """Query at once, or as soon as the running query ends."""
        if self._started_at is not None:
            self._is_next = True
            return
        self._is_stale = self._is_next = False
        self._started_at = time.monotonic()
        self._page.look_up(self._make_query(), self._handle_result)

    def refresh_soon(self) -> None:
        """Query when the pause is over, because there may be something new."""
        if self._started_at is None and not self._is_pausing:
            self.refresh_now()
        else:
            self._is_stale = True

    def _handle_result(self, answer: Answer | Problem) -> None:
        took = time.monotonic() - (self._started_at or time.monotonic())
        self._started_at = None
        if self._is_next:
            self.refresh_now()
        self._on_result(answer)
        self._is_pausing = True
        self._page.set_timer(max(MIN_REFRESH_S, REFRESH_PAUSE_FACTOR * took), self._end_pause)

    def _end_pause(self) -> None:
        self._is_pausing = False
        if self._is_stale and self._started_at is None:
            self.refresh_now()


HOME: Final = "sessions"  # the first crumb, to which Esc leads in the end


class Page(Screen[None]):
    """A subclass composes what is between breadcrumbs and keys."""

    app: Dashboard

    BINDINGS: ClassVar[list[BindingType]] = [
        bind("escape", "leave", "Back", "back", "back", key_display="Esc")
    ]

    KEYS_IF_ROOM: ClassVar[Sequence[str]] = ()  # ids of hidden keys that the key line shows too
    OPENS_FIELD: ClassVar[bool] = False  # a text field takes the keys as soon as it opens

    def __init__(self, *crumbs: str, session_id: str | None = None) -> None:
        super().__init__()
        self._crumbs: tuple[str, ...] = (HOME, *crumbs)
        self.session_id: Final = session_id  # none if the page is not about a session

    @property
    def crumbs(self) -> tuple[str, ...]:
        """The path to this page, itself at the end."""
        return self._crumbs

    @property
    def row_list(self) -> RowList:
        """The list of a page that has one."""
        return self.query_one(RowList)

    def compose(self) -> ComposeResult:
        yield Crumbs(self.crumbs)
        yield from self.compose_page()
        yield KeyLine(if_room=self.KEYS_IF_ROOM)

    def compose_page(self) -> Iterable[Widget]:
        return ()

    def on_mount(self) -> None:
        self.app.leave_toasts()

    def on_screen_resume(self) -> None:
        if self.app.view is not None:
            self.show_view(self.app.view)

    def show_view(self, view: FleetView) -> None:
        """Show a newer view without moving the cursor or the scroll position."""

    def set_crumbs(self, *crumbs: str) -> None:
        self._crumbs = (HOME, *crumbs)
        for shown in self.query(Crumbs):
            shown.path = self.crumbs

    @on(Crumbs.Chosen)
    def _go_back(self, event: Crumbs.Chosen) -> None:
        event.stop()
        self.app.go_back(self.crumbs[: event.place + 1], self.session_id)

    def action_leave(self) -> None:
        self.app.pop_screen()

    # Queries in the background; a page that was left gets no answer.

    def ask(
        self,
        question: Callable[[sqlite3.Connection], Answer],
        take: Callable[[Answer], None],
        *,
        replaces: str = "",
    ) -> None:
        """Query the store for what it answers within a frame."""
        from ...core.model.problem import Problem

        def take_answer(found: Answer | Problem) -> None:
            if isinstance(found, Problem):
                self.show_problem(one_line(str(found)))
            else:
                take(found)

        work = partial(query_store, self.app.places, question)
        self.work_out(work, take_answer, self.app.quick_worker, replaces=replaces)

    def show_problem(self, words: str) -> None:
        """Show why a query of `ask` has no answer."""
        self.app.toast(words)

    def look_up(
        self,
        question: Callable[[sqlite3.Connection], Answer],
        take: Callable[[Answer | Problem], None],
        *,
        replaces: str = "",
    ) -> None:
        """Query the store for what takes longer."""
        self.work_out(partial(query_store, self.app.places, question), take, replaces=replaces)

    def work_out(
        self,
        work: Callable[[], Answer],
        take: Callable[[Answer | Problem], None],
        worker: WorkerThread | None = None,
        *,
        replaces: str = "",
    ) -> None:
        """Do work in another thread, by default in that for what takes longer than a frame."""

        def take_if_attached(found: Answer | Problem) -> None:
            if self.is_attached:
                take(found)

        (worker or self.app.lookup_worker).submit(work, take_if_attached, replaces=replaces)


BROAD_CELLS: Final = 160  # of a screen, from which there is room for an item beside its list

TEXT_MARGIN_CELLS: Final = 6  # beside the text: the page's padding and its scroll bar
MAX_TEXT_CELLS: Final = 110  # of a line, as in the style sheet


def text_width(screen_width: int) -> int:
    """Return the cells of a line of text to read on a screen of some width."""
    return min(screen_width - TEXT_MARGIN_CELLS, MAX_TEXT_CELLS)


class ReadingScreen(Page):
    """Shows a text."""

    BINDINGS: ClassVar[list[BindingType]] = [
        bind_hidden("enter", "leave", "Back", "back", "done"),
        bind("y", "copy", "Copy", "copy the full text", "copy"),
    ]

    def __init__(self, *crumbs: str, content: Content, session_id: str | None = None) -> None:
        super().__init__(*crumbs, session_id=session_id)
        self._content = content

    def compose_page(self) -> Iterable[Widget]:
        yield Reader(Static(self._content, id="text"), id="page")

    def on_mount(self) -> None:
        self.query_one("#page").focus()

    def show(self, content: Content) -> None:
        """Replace the text."""
        self._content = content
        if self.is_attached:
            self.query_one("#text", Static).update(content)

    def action_copy(self) -> None:
        self.app.copy(self._content.plain, "the full text")


class FilteredPage(Page):
    """`/` filters, Esc clears the filter and then goes back; a subclass draws what matches."""

    BINDINGS: ClassVar[list[BindingType]] = [
        bind("slash", "filter", "Filter", "show only what matches", "filter", key_display="/")
    ]

    KEEPS_BAR: ClassVar[bool] = False  # shows the bar while there are no words

    words: reactive[str] = reactive("")

    @on(Rows.RoomChanged)
    def _draw_for_room(self) -> None:
        self.draw()

    def watch_words(self) -> None:
        self.draw()

    def draw(self) -> None:
        """Draw what matches, if the page is mounted."""

    @property
    def is_filtered(self) -> bool:
        """Whether a part of the list is hidden."""
        return bool(self.words)

    def clear_filters(self) -> None:
        self.words = ""

    def focus_list(self) -> None:
        self.query_one(Rows).focus()

    def action_filter(self) -> None:
        self.query_one(FilterBar).open(self.words)

    def action_leave(self) -> None:
        if self.is_filtered:
            self.clear_filters()
            self._leave_bar()
        else:
            super().action_leave()

    @on(FilterBar.Typed)
    def _type(self, event: FilterBar.Typed) -> None:
        self.words = one_line(event.words)

    @on(FilterBar.Done)
    def _leave_bar(self) -> None:
        self.focus_list()
        self.query_one(FilterBar).display = self.KEEPS_BAR or bool(self.words)

    @on(FilterBar.Cleared)
    def _clear_bar(self) -> None:
        self.words = ""
        self._leave_bar()
