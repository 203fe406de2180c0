"""The main screen: all sessions; the agents and the context of one of them; summaries."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Final

from msgspec import structs
from textual import events, on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.content import Content
from textual.reactive import reactive
from textual.widget import Widget

from ....core.model.agent import Agent
from ....core.model.session import Session, SessionStatus
from ....core.model.stored_rows import SummaryRow
from ....core.store.bulkhead import NOT_SHOWN, bulkhead
from ....core.transcript.sanitize import one_line
from ...base.background_queries import query_store
from ...base.keymap import bind, bind_hidden
from ...base.messages import FleetView, ViewRequest
from ...page_kit.page import Page, ZoomableScreen
from ...page_kit.terminal_actions import TERMINAL, terminal_keys
from ...text.session_text import read_context_composition
from ...widgets.controls import FilterBar
from ...widgets.header_footer import (
    WARNING_RATIO,
    FeedState,
    FleetStatus,
    KeyLine,
    ProblemLine,
    StatusLine,
)
from ...widgets.row_list import RowList, Rows
from . import fleet_panes, session_filter, session_list, session_table
from .fleet_panes import ContextPane, LowerPanes, SessionDetail, SessionPane
from .session_list import (
    ArrangedSessions,
    EndedHeading,
    ProjectHeading,
    SessionArrangement,
    SessionOrder,
)

if TYPE_CHECKING:
    from ....collectors.collector_thread import ScanProgress
    from ....core.measure.composition import Composition
    from ....core.model.problem import Problem
    from ...app_state.dashboard import Dashboard


AGE_REFRESH_S: Final = (
    10.0  # how often ages are drawn again: nothing moves unless something happens
)
SMALL_SCREEN: Final = (60, 18)  # cells and lines below which one pane is shown at a time
READING: Final = "reading transcripts …"


KEYS_IF_ROOM: Final = ("answer", "resume", "view_turn", "search", "waiting", "undo", "policy")


class FleetScreen(ZoomableScreen):
    app: Dashboard

    ZOOMED_PANES = "RowList, LowerPanes"

    CSS_PATH = Path(__file__).with_name("fleet.tcss")
    HORIZONTAL_BREAKPOINTS = [(0, "-narrow"), (100, "-wide")]  # noqa: RUF012 -- Textual's
    VERTICAL_BREAKPOINTS = [(0, "-short"), (SMALL_SCREEN[1], "-tall")]  # noqa: RUF012
    BINDINGS: ClassVar[list[BindingType]] = [
        bind("s", "sort", "Sort", "change the sort order", "sort"),
        bind_hidden("o", "group", "Group", "group by project, or one list", "group"),
        bind_hidden(
            "space", "pick", "Mark", "mark; y copies the ids of all marked sessions", "pick"
        ),
        bind_hidden("b", "pin", "Pin", "pin to the top", "pin"),
        bind_hidden("left", "fold(True)", "Fold", "collapse the project", "fold"),
        bind_hidden("right", "fold(False)", "Unfold", "expand it", "unfold"),
        bind_hidden(
            "B",
            "pause_sessions",
            "Break",
            "pause idle sessions before a break",
            "pause_sessions",
        ),
        bind("c", "app.go('compact')", "Compact", "plan a compaction of this session", "compact"),
        bind(
            "slash",
            "filter",
            "Filter",
            "filter sessions, or search summaries",
            "filter",
            key_display="/",
        ),
        bind_hidden("v", "app.view_conversation", "Read", "read the conversation", "view_turn"),
        bind_hidden("p", "pause", "Pause", "pause or resume updates", "pause"),
        bind_hidden("y", "copy", "Copy", "copy the session id, result or summary", "copy"),
        bind_hidden("z", "zoom", "Zoom", "maximize this pane", "zoom"),
        bind_hidden("1", "pane('sessions')", "Sessions", "sessions", "pane_1"),
        bind_hidden("2", "pane('agents')", "Agents", "agents", "pane_2"),
        bind_hidden("3", "pane('summaries')", "Summaries", "summaries", "pane_3"),
        bind_hidden("4", "pane('fills')", "Breakdown", "breakdown", "pane_4"),
        *terminal_keys(TERMINAL),
        bind_hidden("u", "app.undo", "Undo", "undo the last change", "undo"),
        bind_hidden(
            "escape",
            "back",
            "Back",
            "back: zoom, filter, marks, then sessions",
            "back",
            key_display="Esc",
        ),
    ]

    arrangement: reactive[SessionArrangement] = reactive(SessionArrangement())
    paused: reactive[bool] = reactive(False)  # noqa: FBT003
    search: reactive[str] = reactive("")  # in the summaries

    def __init__(self, source: str) -> None:
        super().__init__()
        self._source: Final = source
        self._view: FleetView | None = None
        self._waiting: FleetView | None = None  # the newest view while paused
        self._arranged = ArrangedSessions((), ())
        self._arranged_from: tuple[object, ...] = ()
        """The sessions, the arrangement, and the time if a filter asks for it."""
        self._titles: dict[str, str] = {}
        self._titles_of: tuple[Session, ...] = ()
        self._ages_at = 0  # ms since 1970; the time for which ages are shown
        self._drawn: tuple[object, ...] = ()  # what the panes were drawn from
        self._is_stopped = False
        self._scan = ""
        self._pane = "sessions"  # the id of the pane with the focus

    def compose(self) -> ComposeResult:
        yield StatusLine(id="status")
        yield ProblemLine()
        yield SessionPane()
        yield SessionDetail()
        yield LowerPanes()
        yield FilterBar()
        yield KeyLine(if_room=KEYS_IF_ROOM)

    def on_mount(self) -> None:
        self._sessions.empty = READING
        self.add_class("-lower-agents")
        state = self.app.ui_state
        order = SessionOrder.from_word(state.order)
        arrangement = SessionArrangement(
            order=order, grouped=state.grouped, ended_folded=state.ended_folded, pins=state.pins
        )
        self.set_reactive(FleetScreen.arrangement, arrangement)
        self.set_interval(AGE_REFRESH_S, self._refresh_ages)
        self._sessions.rows.focus()
        self._draw_status()

    @property
    def _sessions(self) -> SessionPane:
        return self.query_one(SessionPane)

    @property
    def marked(self) -> str | None:
        session = self._sessions.session if self.is_attached else None
        return session.session_id if session else None

    @property
    def shown(self) -> tuple[Session, ...]:
        return self._arranged.sessions

    # The feed's messages.

    def show_view(self, view: FleetView) -> None:
        """Show a newer view; while paused, keep it, and show only what the user asks for."""
        if not self.is_attached:
            return
        shown = self._view
        if self.paused:
            self._waiting = view
            if shown is None or shown.request == view.request:
                return
            # The cursor is on another session, or another word is searched for.
            agents, summaries, request = view.agents, view.summaries, view.request
            view = structs.replace(shown, agents=agents, summaries=summaries, request=request)
        self._view = view
        if view.scanned:
            self._scan = ""
        is_first = shown is None or not shown.scanned
        if is_first:
            self._ages_at = view.now_ms
        panes = self._sessions, self.query_one("#summaries", RowList)
        untouched = [pane for pane in panes if is_first and not pane.rows.highlighted]
        self.draw()
        for pane in untouched:
            pane.highlight_first()

    def show_progress(self, progress: ScanProgress) -> None:
        files, total = progress.files_read, progress.files_total
        share = progress.bytes_read / progress.bytes_total if progress.bytes_total else 0.0
        self._scan = "" if files >= total else f"reading {files} of {total} files, {share:.0%}"
        if self.is_attached and not (self._view and self._view.scanned):
            self._sessions.empty = self._scan or READING
        self._draw_status()

    def show_problem(self, problem: Problem) -> None:
        if self.is_attached:
            self.query_one(ProblemLine).show_problem(problem)

    def resolve_problem(self, place: str) -> None:
        if self.is_attached:
            self.query_one(ProblemLine).resolve(place)

    def show_stop(self) -> None:
        self._is_stopped = True
        self._draw_status()

    # Drawing.

    def _refresh_ages(self) -> None:
        if not self.paused:
            self._ages_at = self.app.now_ms()
            self.draw()

    @on(Rows.RoomChanged)
    def draw(self) -> None:
        """Draw all panes from the current view; a pane draws only what changed."""
        view = self._view
        # A page hides the fleet, which is drawn again when the page is left.
        is_covered = any(isinstance(screen, Page) for screen in self.app.screen_stack)
        if view is None or not self.is_attached or is_covered:
            return
        widths = tuple(pane.row_width for pane in self.query(RowList))
        look = (view, self.arrangement, self.search, self._ages_at, self.classes, widths)
        if (*look, self.marked) != self._drawn:
            with bulkhead("the list of sessions", NOT_SHOWN):
                self._draw_sessions(view)
            with bulkhead("the panes of a session", NOT_SHOWN):
                self._draw_session(view)
            with bulkhead("the list of summaries", NOT_SHOWN):
                self._draw_summaries(view)
            self._drawn = (*look, self.marked)
        self._request_view()
        with bulkhead("the status line", NOT_SHOWN):
            self._draw_status()

    def _draw_session(self, view: FleetView) -> None:
        session = self._sessions.session
        self.query_one(SessionDetail).show(session, self._ages_at)
        self.query_one(LowerPanes).show_session(session, view, self._ages_at)

    def _draw_summaries(self, view: FleetView) -> None:
        lower = self.query_one(LowerPanes)
        if not self._drawn or view.sessions is not self._titles_of:
            self._titles = {each.session_id: each.title for each in view.sessions}
            self._titles_of = view.sessions
        lower.show_summaries(view, self._titles, self.search, self._ages_at)
        lower.name_panes(narrow=self.has_class("-narrow"), short=self.has_class("-short"))

    def on_screen_resume(self) -> None:
        self.draw()

    def _draw_sessions(self, view: FleetView) -> None:
        pane, arrangement = self._sessions, self.arrangement
        self.query_one(FilterBar).show_error(arrangement.filter.error)
        marked = pane.session
        arranged_from = (arrangement, self._ages_at if arrangement.filter.tests else 0)
        if self._arranged_from[1:] != arranged_from or self._arranged_from[0] is not view.sessions:
            self._arranged = session_list.arrange_readable(
                view.sessions, arrangement, self._ages_at
            )
            self._arranged_from = (view.sessions, *arranged_from)
        pane.empty = self._empty_text(view)
        pane.show(self._arranged.entries, arrangement, self._ages_at)
        pane.set_titles(subtitle=Content(f"sort: {arrangement.order.value} ▾"))
        is_moved = marked is not None and self.marked != marked.session_id
        if marked and is_moved and any(each.session_id == marked.session_id for each in self.shown):
            # If the filter still shows it, it is under a folded heading now.
            pane.highlight(self._heading_key(marked))

    def _heading_key(self, session: Session) -> str:
        if self.arrangement.grouped:
            return f"{session_list.HEADING_PREFIX}{session.project}"
        return session_list.ENDED_KEY

    def _empty_text(self, view: FleetView) -> str:
        if self.arrangement.filter_text:
            return f"no session matches “{self.arrangement.filter_text}”; Esc shows all"
        if not view.scanned:
            return self._scan or READING
        return (
            f"No sessions yet in {one_line(str(self.app.places.config_dir))}.\n"
            "Start `claude` in a project and it appears here, or try `ctxtop demo`."
        )

    def _draw_status(self) -> None:
        if not self.is_attached:
            return
        arrangement, notes, view = self.arrangement, [], self._view
        if arrangement.filter_text:
            notes.append(f"{len(self.shown)} match “{arrangement.filter_text}”")
        if arrangement.selected:
            notes.append(f"{len(arrangement.selected)} marked")
        if self.size.width < SMALL_SCREEN[0] or self.size.height < SMALL_SCREEN[1]:
            # Without room for both, how to see the other panes is worth more than counts.
            notes, view = notes or ["1 2 3 4 switch panes"], None
        status = FleetStatus(self._source, self._state, scan=self._scan, notes=" · ".join(notes))
        self.query_one(StatusLine).status = (
            _with_counts(status, view, self._ages_at) if view else status
        )

    @property
    def _state(self) -> FeedState:
        if self._is_stopped:
            return FeedState.STOPPED
        return FeedState.PAUSED if self.paused else FeedState.LIVE

    def _request_view(self) -> None:
        self.app.feed.request_view(ViewRequest(self.marked, self.search))

    # The arrangement of the sessions.

    def watch_arrangement(self, before: SessionArrangement, now: SessionArrangement) -> None:
        """Draw the new arrangement, and save what is restored at the next start."""
        self.draw()
        if before.order is not now.order:
            self._sessions.highlight_first()
        if before.remembered != now.remembered:
            self.app.update_ui_state(**now.remembered)

    def action_sort(self) -> None:
        self.arrangement = replace(self.arrangement, order=self.arrangement.order.next)

    @on(RowList.HeaderClicked, "#sessions")
    def _sort_by_column(self, event: RowList.HeaderClicked) -> None:
        """Sort by the clicked column; a second click restores the default order."""
        order = session_table.COLUMN_ORDERS.get(event.column.name)
        if order is not None:
            is_second = order is self.arrangement.order
            order = SessionOrder.ATTENTION if is_second else order
            self.arrangement = replace(self.arrangement, order=order)

    def action_group(self) -> None:
        self.arrangement = replace(self.arrangement, grouped=not self.arrangement.grouped)

    def action_fold(self, folded: bool) -> None:  # noqa: FBT001 -- an action's argument
        project = self._sessions.project
        if self._pane == "sessions" and not self.arrangement.grouped:
            self._fold_ended(folded)
        elif self._pane == "sessions" and self.arrangement.grouped and project is not None:
            self.arrangement = self.arrangement.with_folded(project, folded=folded)

    def _fold_ended(self, folded: bool) -> None:  # noqa: FBT001 -- an action's argument
        session = self._sessions.session
        has_ended = session is not None and session in self._arranged.ended
        if self._sessions.ended is not None or has_ended:
            self.arrangement = replace(self.arrangement, ended_folded=folded)

    def action_pick(self) -> None:
        if self.marked:
            self.arrangement = self.arrangement.toggle_selected(self.marked)

    def action_pause_sessions(self) -> None:
        """Offer to pause the marked sessions, or all that are open."""
        selected = self.arrangement.selected
        sessions = self._view.sessions if self._view else ()
        chosen = [
            each.session_id
            for each in sessions
            if (each.session_id in selected if selected else each.live)
        ]
        if chosen:
            self.app.pause_sessions(chosen)
        else:
            self.app.toast("no session is open")

    def action_pin(self) -> None:
        if self.marked:
            self.arrangement = self.arrangement.toggle_pinned(self.marked)

    def mark_session(self, session: Session) -> bool:
        """Move the cursor to a session; returns False if the list does not show it."""
        self.action_pane("sessions")
        self.arrangement = self.arrangement.with_folded(session.project, folded=False)
        self._sessions.highlight(session.session_id)
        return self.marked == session.session_id

    # The panes.

    @property
    def _active_pane(self) -> RowList:
        return self.query_one(f"#{self._pane}", RowList)

    def action_pane(self, name: str) -> None:
        """Go to a pane, and show it if only some fit."""
        self._pane = name
        if name != "sessions":
            for other in fleet_panes.PANE_NUMBERS:
                self.set_class(other == name, f"-lower-{other}")
        if name in {"summaries", "fills"}:
            self.set_class(name == "fills", "-fills")
        self.set_class(name != "sessions", "-below")
        if self.zoomed:
            self.zoom(self._active_pane)
        self._active_pane.rows.focus()

    def on_descendant_focus(self, event: events.DescendantFocus) -> None:
        for pane in event.widget.ancestors:
            if isinstance(pane, RowList) and pane.id:
                self._pane = pane.id

    def action_pause(self) -> None:
        self.paused = not self.paused

    def watch_paused(self, paused: bool) -> None:  # noqa: FBT001 -- Textual's form
        if not paused and self._waiting:
            self._view, self._waiting = self._waiting, None
            self._refresh_ages()
        elif self.is_mounted:
            self._draw_status()

    def action_zoom(self) -> None:
        self.zoom(None if self.zoomed else self._active_pane)

    def zoom(self, pane: Widget | None) -> None:
        super().zoom(pane)
        # After two zooms at once a pane is not told its size.
        self.call_after_refresh(self.draw)

    def action_back(self) -> None:
        """Undo the last step: zoom, filter, marks, then go back to the sessions; never leave."""
        if self.zoomed:
            self.zoom(None)
        elif self._words:
            self._set_words("")
        elif self._pane == "sessions" and self.arrangement.selected:
            self.arrangement = replace(self.arrangement, selected=frozenset())
        elif self._pane != "sessions":
            self.action_pane("sessions")
        self._hide_empty_bar()

    def action_copy(self) -> None:
        pane = self._active_pane
        item = pane.item
        if self._pane == "sessions":
            self._copy_ids()
        elif self._pane == "fills":
            lines = [row.content.plain.rstrip() for row in pane.shown]
            if lines:
                self.app.copy("\n".join(lines), "breakdown")
        elif isinstance(item, SummaryRow):
            self.app.copy(item.text, "open the summary")
        elif isinstance(item, Agent):
            text = item.result.text if item.result else ""
            self.app.copy(text or item.agent_id, f"result of {item.agent_type}")
        elif pane.key and self.marked:
            self.app.copy(self.marked, f"session id {self.marked}")

    def _copy_ids(self) -> None:
        selected = self.arrangement.selected
        ids = [each.session_id for each in self.shown if each.session_id in selected]
        ids = ids or ([self.marked] if self.marked else [])
        if ids:
            what = f"session id {ids[0]}" if len(ids) == 1 else f"{len(ids)} session ids"
            self.app.copy("\n".join(ids), what)

    @on(RowList.Highlighted, "#sessions")
    def _show_marked_session(self) -> None:
        self.query_one(SessionDetail).show(self._sessions.session, self._ages_at)
        self.query_one(ContextPane).show(self._sessions.session)
        self._request_view()

    @on(RowList.Opened)
    def _open(self, event: RowList.Opened) -> None:
        pane, item = event.widget, event.widget.item
        if isinstance(pane, SessionPane) and event.key == fleet_panes.MORE_KEY:
            first_new = len(pane.shown) - 1
            pane.show_more()
            self._drawn = ()
            self.draw()
            pane.rows.highlighted = first_new
        elif isinstance(item, ProjectHeading):
            folded = item.project not in self.arrangement.folded
            self.arrangement = self.arrangement.with_folded(item.project, folded=folded)
        elif isinstance(item, EndedHeading):
            # What is hidden of them is shown before they are folded.
            folded = not item.folded and not item.hidden
            self.arrangement = replace(self.arrangement, ended_folded=folded)
        elif isinstance(item, SummaryRow):
            self.app.open_summary(item, self._titles.get(item.session_id, item.session_id[:8]))
        elif isinstance(item, Agent):
            self.app.open_agent(item, self._titles.get(item.session_id, ""))
        elif session := self._sessions.session:
            self.app.open_session(session)

    @on(ContextPane.CompositionRequested)
    def _read_composition(self, event: ContextPane.CompositionRequested) -> None:
        session, places = event.session, self.app.places
        projects = places.folder.projects

        def show(found: Composition | Problem) -> None:
            if self.is_attached:
                self.query_one(ContextPane).show_composition(session, found)

        self.app.lookup_worker.submit(
            lambda: query_store(places, lambda db: read_context_composition(db, projects, session)),
            show,
        )

    # The filter of the sessions, or the search in the summaries.

    @property
    def _words(self) -> str:
        """The search of the summaries, or the filter of the sessions, if such a pane is active."""
        words = {"summaries": self.search, "sessions": self.arrangement.filter_text}
        return words.get(self._pane, "")

    def _set_words(self, words: str) -> None:
        if self._pane == "summaries":
            self.search = words
        else:
            self.arrangement = self.arrangement.with_filter(words)

    def action_filter(self) -> None:
        bar = self.query_one(FilterBar)
        if self._pane == "summaries":
            bar.open(self.search, "search all summaries")
            return
        choices = session_filter.completion_choices(self._view.sessions if self._view else ())
        bar.open(
            self.arrangement.filter_text,
            "words -not level:high+ model:opus project:shop is:waiting noncompliant: >80%",
            partial(session_filter.complete_filter, choices=choices),
        )

    @on(StatusLine.CountClicked)
    def _show_counted(self, event: StatusLine.CountClicked) -> None:
        self.action_pane("sessions")
        bar = self.query_one(FilterBar)
        bar.set_words(event.words)
        bar.display = bool(event.words)
        self._set_words(event.words)

    @on(FilterBar.Typed)
    def _type(self, event: FilterBar.Typed) -> None:
        self._set_words(one_line(event.words))

    @on(FilterBar.Done)
    def _leave_bar(self) -> None:
        self._active_pane.rows.focus()
        self._hide_empty_bar()

    @on(FilterBar.Cleared)
    def _clear_bar(self) -> None:
        self.query_one(FilterBar).set_words("")
        self._set_words("")
        self._leave_bar()

    def _hide_empty_bar(self) -> None:
        words = self.search if self._pane == "summaries" else self.arrangement.filter_text
        if not words:
            self.query_one(FilterBar).display = False

    def watch_search(self) -> None:
        if self._view:
            self._request_view()


def _with_counts(status: FleetStatus, view: FleetView, now_ms: int) -> FleetStatus:
    """Count the sessions, those at work, those that wait for the user, and those nearly full."""
    sessions, scan = view.sessions, status.scan
    live = [each for each in sessions if each.live]
    if view.unread and not scan:
        scan = f"read {len(sessions):,} of {len(sessions) + view.unread:,} sessions"
    return structs.replace(
        status,
        sessions=len(sessions),
        live=len(live),
        working=sum(each.is_working for each in live),
        waiting=sum(each.status is SessionStatus.WAITING for each in live),
        lag_s=view.lag_s,
        scan=scan,
        warnings=sum((each.context.limit_ratio or 0.0) >= WARNING_RATIO for each in live),
        limits=_header_limits(view, max(now_ms, view.now_ms)),
    )


def _header_limits(view: FleetView, now_ms: int) -> Sequence[Sequence[tuple[str, str]]]:
    if not view.limits:
        return ()
    from ...text.limits_text import header_limits  # not before the first paint

    return header_limits(view.limits, now_ms)
