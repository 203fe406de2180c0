"""A page: a whole screen above the fleet with its breadcrumbs, its keys and its queries."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, ClassVar, Final, Generic, TypeVar

from textual import on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.content import Content
from textual.reactive import reactive
from textual.screen import Screen
from textual.widget import Widget
from textual.widgets import Static

from ...core.transcript.sanitize import one_line
from ..background_queries import WorkerThread, query_store
from ..keymap import bind, bind_hidden
from ..messages import FleetView
from ..widgets.filter_bar import FilterBar
from ..widgets.header_footer import Crumbs, KeyLine
from ..widgets.row_list import Rows
from ..widgets.text_pane import Reader

if TYPE_CHECKING:
    from ...core.model.problem import Problem
    from ..dashboard import Dashboard


Answer = TypeVar("Answer")

REFRESH_PAUSE_FACTOR: Final = 10
"""Of the time at most a tenth is spent on asking again: the lookup's thread answers others too."""

MIN_REFRESH_S: Final = 0.2  # between two questions that nobody asked by hand


class RefreshingQuery(Generic[Answer]):
    """Keeps one answer of a page as new as its views; one question is on its way at a time."""

    def __init__(
        self,
        page: Page,
        make_query: Callable[[], Callable[[sqlite3.Connection], Answer]],
        on_result: Callable[[Answer | Problem], None],
    ) -> None:
        """Follow; `question` makes the question of the moment at which it is asked."""
        self._page: Final = page
        self._question: Final = make_query
        self._take: Final = on_result
        self._asked_at: float | None = None
        self._is_stale = False
        self._waits = False

    def refresh_now(self) -> None:
        """Ask at once, or as soon as the last answer is there: a person wants to see it."""
        if self._asked_at is not None:
            self._is_stale = True
            return
        self._is_stale = False
        self._asked_at = time.monotonic()
        self._page.look_up(self._question(), self._on_result)

    def refresh_soon(self) -> None:
        """Ask again when it is time to: there may be something new."""
        if self._asked_at is None and not self._waits:
            self.refresh_now()
        else:
            self._is_stale = True

    def _on_result(self, answer: Answer | Problem) -> None:
        took = time.monotonic() - (self._asked_at or time.monotonic())
        self._asked_at = None
        self._take(answer)
        self._waits = True
        self._page.set_timer(max(MIN_REFRESH_S, REFRESH_PAUSE_FACTOR * took), self._on_timer)

    def _on_timer(self) -> None:
        self._waits = False
        if self._is_stale:
            self.refresh_now()


HOME: Final = "sessions"  # the first crumb: where Esc leads to in the end


class Page(Screen[None]):
    """Esc goes back to what lies below; a subclass composes what stands between."""

    app: Dashboard

    BINDINGS: ClassVar[list[BindingType]] = [
        bind("escape", "leave", "Back", "back", "back", key_display="Esc"),
    ]

    def __init__(self, *crumbs: str, session_id: str | None = None) -> None:
        super().__init__()
        self._crumbs: tuple[str, ...] = (HOME, *crumbs)
        self.session_id: Final = session_id
        """Whose page this is; None where it is no session's."""

    @property
    def crumbs(self) -> tuple[str, ...]:
        return self._crumbs

    def compose(self) -> ComposeResult:
        yield Crumbs(self.crumbs)
        yield from self.compose_page()
        yield KeyLine()

    def compose_page(self) -> Iterable[Widget]:
        return ()

    def on_screen_resume(self) -> None:
        """Show what came while another screen lay above."""
        if self.app.view is not None:
            self.show_view(self.app.view)

    def show_view(self, view: FleetView) -> None:
        """Show a newer view without moving the cursor or the scroll position."""

    def set_crumbs(self, *crumbs: str) -> None:
        """Change the crumbs after the first."""
        self._crumbs = (HOME, *crumbs)
        for shown in self.query(Crumbs):
            shown.path = self.crumbs

    @on(Crumbs.Chosen)
    def _go_back(self, event: Crumbs.Chosen) -> None:
        event.stop()
        self.app.go_back(self.crumbs[: event.place + 1], self.session_id)

    def ask(
        self,
        question: Callable[[sqlite3.Connection], Answer],
        take: Callable[[Answer], None],
        *,
        replaces: str = "",
    ) -> None:
        """Ask the store what it answers within a frame; a page that was left takes nothing."""
        from ...core.model.problem import Problem

        def take_answer(found: Answer | Problem) -> None:
            if isinstance(found, Problem):
                self.show_problem(one_line(str(found)))
            else:
                take(found)

        places = self.app.places
        self._submit(
            self.app.quick_worker, lambda: query_store(places, question), take_answer, replaces
        )

    def show_problem(self, words: str) -> None:
        self.notify(words, markup=False)

    def look_up(
        self,
        question: Callable[[sqlite3.Connection], Answer],
        take: Callable[[Answer | Problem], None],
        *,
        replaces: str = "",
    ) -> None:
        """Ask the store what takes longer; a page that was left takes nothing."""
        places = self.app.places
        self.work_out(lambda: query_store(places, question), take, replaces=replaces)

    def work_out(
        self,
        work: Callable[[], Answer],
        take: Callable[[Answer | Problem], None],
        *,
        replaces: str = "",
    ) -> None:
        """Work without the store for longer than a frame; a page that was left takes nothing."""
        self._submit(self.app.lookup_worker, work, take, replaces)

    def _submit(
        self,
        worker: WorkerThread,
        work: Callable[[], Answer],
        take: Callable[[Answer | Problem], None],
        replaces: str,
    ) -> None:
        def take_here(found: Answer | Problem) -> None:
            if self.is_attached:
                take(found)

        worker.submit(work, take_here, replaces=replaces)

    def action_leave(self) -> None:
        self.app.pop_screen()


TEXT_MARGIN_CELLS: Final = 6  # cells beside the text: the page's padding and its scroll bar
MAX_TEXT_CELLS: Final = 110  # cells of a line: as the style sheet's


def text_width(screen_width: int) -> int:
    """Return the cells that a line of text to read may take on a screen of some width."""
    return min(screen_width - TEXT_MARGIN_CELLS, MAX_TEXT_CELLS)


class ReadingScreen(Page):
    """Shows a text; Esc goes back."""

    BINDINGS: ClassVar[list[BindingType]] = [
        bind_hidden("enter", "leave", "Back", "back", "done"),
        bind("y", "copy", "Copy", "copy the whole text", "copy"),
    ]

    def __init__(self, *crumbs: str, content: Content, session_id: str | None = None) -> None:
        super().__init__(*crumbs, session_id=session_id)
        self._content = content

    def compose_page(self) -> Iterable[Widget]:
        yield Reader(Static(self._content, id="text"), id="page")

    def on_mount(self) -> None:
        self.query_one("#page").focus()

    def show(self, content: Content) -> None:
        """Show another text in its place; a screen that is left already shows nothing."""
        self._content = content
        if self.is_attached:
            self.query_one("#text", Static).update(content)

    def action_copy(self) -> None:
        self.app.copy(self._content.plain, "the whole text")


class FilteredPage(Page):
    """`/` filters, Esc shows all again and then goes back; a subclass draws what matches."""

    BINDINGS: ClassVar[list[BindingType]] = [
        bind("slash", "filter", "Filter", "show what has these words", "filter", key_display="/"),
    ]

    words: reactive[str] = reactive("")

    def draw(self) -> None:
        pass

    @property
    def is_filtered(self) -> bool:
        """Something keeps a part of the list from being shown."""
        return bool(self.words)

    def clear_filters(self) -> None:
        self.words = ""

    def action_filter(self) -> None:
        self.query_one(FilterBar).open(self.words)

    def action_leave(self) -> None:
        """Show all again, then go back."""
        if self.is_filtered:
            self.clear_filters()
            self._leave_bar()
        else:
            super().action_leave()

    @on(FilterBar.Typed)
    def _type(self, event: FilterBar.Typed) -> None:
        self.words = one_line(event.words)

    def focus_list(self) -> None:
        self.query_one(Rows).focus()

    @on(FilterBar.Done)
    def _leave_bar(self) -> None:
        self.focus_list()
        self.query_one(FilterBar).display = bool(self.words)

    @on(FilterBar.Cleared)
    def _clear_bar(self) -> None:
        self.words = ""
        self._leave_bar()

    @on(Rows.RoomChanged)
    def _draw_for_room(self) -> None:
        self.draw()

    def watch_words(self) -> None:
        self.draw()
