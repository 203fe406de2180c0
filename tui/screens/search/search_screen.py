"""The search page: finds prompts and answers as you type, and opens them."""

import sqlite3
from collections.abc import Callable, Iterable
from functools import partial
from typing import ClassVar, Final

from textual import events, on
from textual.binding import BindingType
from textual.containers import Horizontal
from textual.content import Content
from textual.timer import Timer
from textual.widget import Widget

from ....collectors.claude_code.turn_finder import (
    FIRST_TURNS,
    SearchHit,
    SearchResults,
    search_turns,
)
from ....core.model.problem import Problem
from ....core.model.session import Session
from ....core.transcript.sanitize import one_line
from ....core.transcript.turn_search import TurnRole, parse_turn_query
from ...base.keymap import bind, bind_hidden
from ...base.messages import FleetView, OpenConversation
from ...conversation.conversation_pane import CURSOR_SETTLE_S, ConversationPane, show_conversation
from ...conversation.conversation_reading import ConversationPlace
from ...conversation.conversation_rows import ContextScale
from ...page_kit.page import BROAD_CELLS, FilteredPage, RefreshingQuery
from ...text.formats import fit_left, fit_right, local_time
from ...text.listing import LazyRow
from ...text.session_text import marked_title
from ...text.text_lines import HIT_STYLE
from ...widgets.controls import FilterBar
from ...widgets.row_list import RowList

CRUMB: Final = "search"
PLACEHOLDER: Final = 'words "a phrase" -not project: since:7d role:prompt session:'
MAX_HITS: Final = 100  # nobody reads further: another word narrows the search
MAX_TURNS: Final = 50_000  # to read after the first results; a key pressed meanwhile waits for them
INDEXING_REFRESH_S: Final = 1.0  # between two searches while transcripts are being indexed

EMPTY_TEXT: Final = "Type words to search the prompts and answers of all sessions."
LOST_TEXT: Final = (
    "The transcript of this session was deleted or never saved: Claude Code's history has only what"
    " was typed. y copies it."
)
_ROLE_STYLES: Final = {
    TurnRole.PROMPT: "$level-calm",
    TurnRole.ANSWER: "$accent",
    TurnRole.AGENT: "$level-notice",
}


class SearchScreen(FilteredPage):
    CSS_PATH = "search.tcss"
    HORIZONTAL_BREAKPOINTS = [(0, "-narrow"), (BROAD_CELLS, "-broad")]  # noqa: RUF012 -- Textual's
    KEEPS_BAR = True
    OPENS_FIELD = True
    KEYS_IF_ROOM = ("copy",)
    BINDINGS: ClassVar[list[BindingType]] = [
        bind(
            "slash",
            "filter",
            "Search",
            "search: words, phrases, -not, project: since: role: session:",
            "filter",
            key_display="/",
        ),
        bind_hidden("y", "copy", "Copy", "copy the excerpt", "copy"),
    ]

    def __init__(self) -> None:
        super().__init__(CRUMB)
        self._sessions: dict[str, Session] = {}
        self._results: SearchResults | None = None
        self._hits: dict[str, SearchHit] = {}  # by row key
        self._problem = ""
        self._shown: SearchHit | None = None  # whose conversation is beside the list
        self._settling: Timer | None = None  # until the conversation of the marked hit is read
        self._max_turns = FIRST_TURNS
        self._query: Final = RefreshingQuery(self, self._make_query, self._take_results)

    def compose_page(self) -> Iterable[Widget]:
        yield FilterBar(PLACEHOLDER)
        with Horizontal(id="body"):
            yield RowList(id="hits", number="", name="Search")

    def on_mount(self) -> None:
        self.action_filter()
        self._draw_results()
        self._query.refresh_now()
        self.set_interval(INDEXING_REFRESH_S, self._refresh_while_indexing)

    @property
    def _list(self) -> RowList:
        return self.query_one(RowList)

    def show_view(self, view: FleetView) -> None:
        """Search again: a conversation may have grown."""
        self._sessions = {each.session_id: each for each in view.sessions}
        self._query.refresh_soon()

    def _refresh_while_indexing(self) -> None:
        if self._results is not None and not self._results.progress.is_complete:
            self._query.refresh_soon()

    @on(FilterBar.Typed)
    def _search_typed(self) -> None:
        self._max_turns = FIRST_TURNS
        self._query.refresh_now()

    def draw(self) -> None:
        if self.is_attached:
            self._draw_results()

    # The search runs in the lookup thread; while it runs, only the last words wait.

    def _make_query(self) -> Callable[[sqlite3.Connection], SearchResults]:
        # Not `words`, which has no space at its end: a space completes the last word.
        query = parse_turn_query(self.query_one(FilterBar).value, self.app.now_ms())
        projects = {each.session_id: each.project for each in self._sessions.values()}
        # Without words it only reports how complete the index is.
        limit = 0 if query.is_empty or query.problems else MAX_HITS
        folder, max_turns = self.app.places.folder, self._max_turns
        return lambda db: search_turns(db, folder, query, projects, limit, max_turns)

    def _take_results(self, found: SearchResults | Problem) -> None:
        if isinstance(found, SearchResults):
            self._results, self._problem = found, ""
            if found.is_partial and self._max_turns < MAX_TURNS:
                self._max_turns = MAX_TURNS
                self._query.refresh_now()
        else:
            self._problem = one_line(str(found))
        self._draw_results()

    def show_problem(self, words: str) -> None:
        self._problem = words
        self._draw_results()

    # The list.

    def _draw_results(self) -> None:
        found, pane = self._results, self._list
        hits = found.hits if found else ()
        self._hits = {f"{hit.path}:{hit.offset}": hit for hit in hits}
        width, now_ms = pane.row_width, self.app.now_ms()
        pane.empty = self._empty_text()
        pane.show_rows(
            [
                _hit_row(key, hit, self._sessions.get(hit.session_id), width, now_ms)
                for key, hit in self._hits.items()
            ]
        )
        self._draw_titles()
        self._show_conversation_soon()

    def _empty_text(self) -> str:
        found = self._results
        if self._problem:
            return self._problem
        if found is None or found.query.is_empty:
            return EMPTY_TEXT
        return f"Nothing matches “{one_line(self.words)}”."

    def _draw_titles(self) -> None:
        found = self._results
        errors = found.query.problems if found else ()
        self.query_one(FilterBar).show_error(one_line(" ".join(errors)))
        if found is None:
            return
        more = "+" if found.is_cut or found.is_partial else ""
        count = f" · {len(found.hits):,}{more}" if not found.query.is_empty else ""
        self._list.set_titles(Content(f"Search{count}"), Content(self._progress_text(found)))

    def _progress_text(self, found: SearchResults) -> str:
        """Explain why there may be more hits than are listed."""
        indexing = "" if found.progress.is_complete else f"indexing {found.progress}"
        searching = ""
        if found.is_partial:
            is_first = self._query.is_running
            searching = "searching …" if is_first else "only the newest turns searched: add words"
        return " · ".join(filter(None, (indexing, searching)))

    # The conversation beside the list, in a broad window.

    @on(RowList.Highlighted)
    @on(events.Resize)
    def _show_conversation_soon(self) -> None:
        if self._settling is not None:
            self._settling.stop()
        self._settling = self.set_timer(CURSOR_SETTLE_S, self._show_conversation)

    def _show_conversation(self) -> None:
        hit = self._hits.get(self._list.key or "")
        for pane in self.query(ConversationPane):
            pane.visible = hit is not None and not hit.is_lost
        if hit is None or hit.is_lost or hit == self._shown or self.size.width < BROAD_CELLS:
            return
        self._shown = hit
        session = self._sessions.get(hit.session_id)
        scale = ContextScale.of(session.context if session and not hit.agent_id else None)
        place = ConversationPlace(hit.session_id, hit.agent_id, hit.offset, _found_words(hit))
        show_conversation(self.query_one("#body"), place, scale)

    # Keys.

    def action_filter(self) -> None:
        self.query_one(FilterBar).open(self.words)

    def focus_list(self) -> None:
        self._list.rows.focus()

    def clear_filters(self) -> None:
        super().clear_filters()
        self.query_one(FilterBar).set_words("")
        self._query.refresh_now()

    @on(RowList.Opened)
    def _open(self, opened: RowList.Opened) -> None:
        hit = self._hits.get(opened.key)
        if hit is not None and hit.is_lost:
            self.app.notify(LOST_TEXT, severity="warning")
        elif hit is not None:
            words = _found_words(hit)
            self.post_message(OpenConversation(hit.session_id, hit.agent_id, hit.offset, words))

    def action_copy(self) -> None:
        hit = self._hits.get(self._list.key or "")
        if hit is not None:
            self.app.copy(hit.excerpt.text, "the excerpt")


def _found_words(hit: SearchHit) -> tuple[str, ...]:
    text = hit.excerpt.text
    return tuple(sorted({text[begin:end] for begin, end in hit.excerpt.matches}))


_TIME_CELLS: Final = 12
_ROLE_CELLS: Final = 6
_INDENT: Final = "  "


def _hit_row(key: str, hit: SearchHit, session: Session | None, width: int, now_ms: int) -> LazyRow:
    title = marked_title(session) if session else hit.session_id[:8]
    project = session.project if session else hit.project
    if hit.is_lost:
        title = f"deleted session {hit.session_id[:8]}"
    where = one_line(f"{title} · {project}" if project else title)
    look = (hit, where, width, local_time(hit.at, now_ms))
    return LazyRow(key, look, partial(_hit_lines, hit, where, width, now_ms), height=2)


def _hit_lines(hit: SearchHit, where: str, width: int, now_ms: int) -> Content:
    room = max(0, width - _TIME_CELLS - _ROLE_CELLS - 2)
    head = Content.assemble(
        (fit_right(local_time(hit.at, now_ms), _TIME_CELLS), "$quiet"),
        (f" {fit_left(hit.role.value, _ROLE_CELLS)} ", _ROLE_STYLES[hit.role]),
        (fit_left(where, room), "bold"),
    )
    excerpt = Content.styled(hit.excerpt.text, "$foreground")
    for begin, end in hit.excerpt.matches:
        excerpt = excerpt.stylize(HIT_STYLE, begin, end)
    cells = max(0, width - len(_INDENT))
    return Content("\n").join([head, Content(_INDENT) + excerpt.truncate(cells, ellipsis=True)])
