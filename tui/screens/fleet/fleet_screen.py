"""The main screen: all sessions; the agents and the context of the marked one; summaries."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Final

from textual import events, on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.content import Content
from textual.reactive import reactive
from textual.widget import Widget

from ....core.model.session import Session, SessionStatus
from ....core.transcript.sanitize import one_line
from ...background_queries import query_store
from ...messages import FleetView, ViewRequest
from ...text.session_text import read_context_composition
from ...widgets.filter_bar import FilterBar
from ...widgets.header_footer import FeedState, FleetStatus, KeyLine, ProblemLine, StatusLine
from ...widgets.row_list import RowList, Rows
from ..page import Page
from .fleet_actions import ARRANGEMENT_KEYS, FLEET_KEYS, ArrangementActions, ZoomableScreen
from .fleet_panes import (
    MORE_KEY,
    PANE_NUMBERS,
    SESSION_ROW_KEY,
    ContextPane,
    LowerPanes,
    SessionPane,
)
from .session_arrangement import ArrangedSessions, SessionArrangement, arrange_sessions
from .session_filter import completion_choices

if TYPE_CHECKING:
    from ....collectors.claude_code.collector_thread import ScanProgress
    from ....core.measure.composition import Composition
    from ....core.model.problem import Problem


WARNING_RATIO: Final = 0.80  # ratio from which a live session is counted as a warning
_AT_WORK: Final = frozenset({SessionStatus.BUSY, SessionStatus.ACTIVE})


def fleet_status(
    source: str, state: FeedState, view: FleetView | None, scan: str, notes: str
) -> FleetStatus:
    """Count the sessions, those at work, those that wait for a person, and those nearly full."""
    if view is None:
        return FleetStatus(source=source, state=state, scan=scan, notes=notes)
    sessions = view.sessions
    live = [each for each in sessions if each.live]
    if view.unread and not scan:
        scan = f"read {len(sessions):,} of {len(sessions) + view.unread:,} sessions"
    return FleetStatus(
        source=source,
        state=state,
        sessions=len(sessions),
        live=len(live),
        working=sum(each.status in _AT_WORK for each in live),
        waiting=sum(each.status is SessionStatus.WAITING for each in live),
        lag_s=view.lag_s,
        scan=scan,
        notes=notes,
        warnings=sum(_is_warned(each) for each in live),
    )


def list_notes(arrangement: SessionArrangement, matching: int) -> str:
    """Describe the filter and the selection, empty if there is neither."""
    notes = []
    if arrangement.filter_text:
        notes.append(f"{matching} match “{arrangement.filter_text}”")
    if arrangement.selected:
        notes.append(f"{len(arrangement.selected)} marked")
    return " · ".join(notes)


def no_sessions_message(arrangement: SessionArrangement, view: FleetView, config_dir: Path) -> str:
    """Explain why no session is shown, and what to do."""
    if arrangement.filter_text:
        return f"no session matches “{arrangement.filter_text}”; Esc shows all"
    if not view.scanned:
        return "reading what Claude Code has written …"
    return (
        f"No sessions yet in {one_line(str(config_dir))}.\n"
        "Start `claude` in a project and it appears here; `ctxtop demo` shows how that looks."
    )


def _is_warned(session: Session) -> bool:
    return (session.context.ratio or 0.0) >= WARNING_RATIO


AGE_REFRESH_S: Final = 10.0
"""How often the ages are drawn again: nothing moves unless something happened."""

SMALL_SCREEN: Final = (60, 18)
"""Cells and lines below which one pane is shown at a time, and a line says so."""


class FleetScreen(ArrangementActions, ZoomableScreen):
    ZOOMED_PANES = "RowList, LowerPanes"

    CSS_PATH = Path(__file__).with_name("fleet.tcss")
    HORIZONTAL_BREAKPOINTS = [(0, "-narrow"), (100, "-wide")]  # noqa: RUF012 -- Textual's
    VERTICAL_BREAKPOINTS = [(0, "-short"), (SMALL_SCREEN[1], "-tall")]  # noqa: RUF012
    BINDINGS: ClassVar[list[BindingType]] = [*ARRANGEMENT_KEYS, *FLEET_KEYS]

    paused: reactive[bool] = reactive(False)  # noqa: FBT003
    search: reactive[str] = reactive("")  # in the summaries

    def __init__(self, source: str) -> None:
        super().__init__()
        self._source: Final = source
        self._view: FleetView | None = None
        self._waiting: FleetView | None = None
        self._arranged = ArrangedSessions((), ())
        self._arranged_of: tuple[Session, ...] | None = None
        self._asked: tuple[object, ...] = ()
        """What the list was arranged by: the arrangement, and the moment where a filter asks."""
        self._titles: dict[str, str] = {}
        self._titled: tuple[Session, ...] = ()
        """Whose titles these are."""
        self._ages_at = 0
        """The moment that ages are told for."""
        self._drawn: tuple[object, ...] = ()
        """All that the panes were drawn from."""
        self._stopped = False
        self._scan = ""
        self._pane = "sessions"

    def compose(self) -> ComposeResult:
        yield StatusLine(id="status")
        yield ProblemLine()
        yield SessionPane(id="sessions", number="¹", name="Sessions")
        yield LowerPanes()
        yield FilterBar()
        yield KeyLine()

    def on_mount(self) -> None:
        self.query_one(SessionPane).empty = "reading what Claude Code has written …"
        self.add_class("-lower-agents")
        self.restore_arrangement()
        self.set_interval(AGE_REFRESH_S, self._tick)
        self.query_one(SessionPane).rows.focus()
        self._draw_status()

    @property
    def marked(self) -> str | None:
        return self.query_one(SessionPane).session_id if self.is_attached else None

    @property
    def marked_project(self) -> str | None:
        """The project of the marked row, where the sessions have the focus."""
        pane = self.query_one(SessionPane)
        session = self._session(pane.session_id)
        return None if self._pane != "sessions" else session.project if session else pane.project

    @property
    def shown(self) -> tuple[Session, ...]:
        """The sessions that match, in their order."""
        return self._arranged.sessions

    @property
    def has_read_all(self) -> bool:
        """The first scan is over and on the screen."""
        return self._view is not None and self._view.scanned

    # What the feed says.

    def show_view(self, view: FleetView) -> None:
        """Show a newer view; while paused, keep it, and show only what a person asks for."""
        if not self.is_attached:
            return
        shown = self._view
        if self.paused:
            self._waiting = view
            if shown is None or shown.request == view.request:
                return
            # Another session was marked, or another word searched for.
            view = replace(
                shown, agents=view.agents, summaries=view.summaries, request=view.request
            )
        self._view = view
        if view.scanned:
            self._scan = ""
        sessions = self.query_one(SessionPane)
        first = shown is None or not shown.scanned
        if first:
            self._ages_at = view.now_ms
        untouched = first and not sessions.rows.highlighted
        self.draw()
        if untouched:
            sessions.highlight_first()

    def show_progress(self, progress: ScanProgress) -> None:
        """Show how far a scan has come; a short one is not worth a word."""
        done = progress.files_read >= progress.files_total
        share = progress.bytes_read / progress.bytes_total if progress.bytes_total else 0.0
        self._scan = (
            ""
            if done
            else f"reading {progress.files_read} of {progress.files_total} files, {share:.0%}"
        )
        self._draw_status()

    def show_problem(self, trouble: Problem) -> None:
        """Keep a trouble in sight until it has ended."""
        if self.is_attached:
            self.query_one(ProblemLine).show_problem(trouble)

    def resolve_problem(self, place: str) -> None:
        if self.is_attached:
            self.query_one(ProblemLine).resolve(place)

    def show_stop(self) -> None:
        """Show in the status line that the data is no longer updated."""
        self._stopped = True
        self._draw_status()

    # Drawing.

    def _tick(self) -> None:
        if not self.paused:
            self._ages_at = self.app.now_ms()
            self.draw()

    def draw(self) -> None:
        """Draw all panes from the view that is kept; a pane draws only what changed."""
        view = self._view
        if view is None or not self.is_attached or self._is_covered:
            return
        lower = self.query_one(LowerPanes)
        look = (
            view,
            self.arrangement,
            self.search,
            self._ages_at,
            self.classes,
            self._rooms(),
            self.marked,
        )
        if look != self._drawn:
            self._draw_sessions(view)
            lower.show_session(self._session(self.marked), view, self._ages_at)
            if not self._drawn or view.sessions is not self._titled:
                self._titles = {each.session_id: each.title for each in view.sessions}
                self._titled = view.sessions
            lower.show_summaries(view, self._titles, self.search, self._ages_at)
            lower.name_panes(narrow=self.has_class("-narrow"), short=self.has_class("-short"))
            self._drawn = (*look[:-1], self.marked)
        self._wish()
        self._draw_status()

    @property
    def _is_covered(self) -> bool:
        """A page hides all of it: it is drawn again when the page is left."""
        return any(isinstance(screen, Page) for screen in self.app.screen_stack)

    def on_screen_resume(self) -> None:
        self.draw()

    def _rooms(self) -> tuple[int, ...]:
        return tuple(pane.row_width for pane in self.query(RowList))

    def _draw_sessions(self, view: FleetView) -> None:
        pane, how = self.query_one(SessionPane), self.arrangement
        self.query_one(FilterBar).show_error(how.filter.error)
        marked = pane.session_id
        asked = how, self._ages_at if how.filter.tests else 0
        if view.sessions is not self._arranged_of or asked != self._asked:
            self._arranged = arrange_sessions(view.sessions, how, self._ages_at)
            self._arranged_of, self._asked = view.sessions, asked
        pane.empty = no_sessions_message(how, view, self.app.places.config_dir)
        pane.show(self._arranged.entries, how, self._ages_at)
        pane.set_titles(subtitle=Content(f"sort: {how.order.value} ▾"))
        if marked and marked != pane.session_id and (session := self._session(marked)):
            # It is under a heading that is folded.
            pane.mark_heading(session.project)

    def _draw_status(self) -> None:
        if not self.is_attached:
            return
        notes = list_notes(self.arrangement, len(self._arranged.sessions))
        view = self._view
        if self.size.width < SMALL_SCREEN[0] or self.size.height < SMALL_SCREEN[1]:
            # Where there is no room for both, how to see the rest is worth more than a count.
            notes, view = notes or "1 2 3 4 switch panes", None
        standing = fleet_status(self._source, self._state(), view, self._scan, notes)
        self.query_one(StatusLine).status = standing

    def _state(self) -> FeedState:
        if self._stopped:
            return FeedState.STOPPED
        return FeedState.PAUSED if self.paused else FeedState.LIVE

    def _session(self, session_id: str | None) -> Session | None:
        for session in self._arranged.sessions:
            if session.session_id == session_id:
                return session
        return None

    def _wish(self) -> None:
        self.app.feed.request_view(ViewRequest(self.marked, self.search))

    # What a person does.

    def action_pane(self, name: str) -> None:
        """Go to a pane; where only some fit, show it."""
        self._pane = name
        if name != "sessions":
            for other in PANE_NUMBERS:
                self.set_class(other == name, f"-lower-{other}")
        if name in {"summaries", "fills"}:
            self.set_class(name == "fills", "-fills")
        self.set_class(name != "sessions", "-below")
        pane = self.query_one(f"#{name}", RowList)
        if self.zoomed:
            self.zoom(pane)
        pane.rows.focus()

    def action_filter(self) -> None:
        """Filter the sessions, or search the summaries, by the pane that has the focus."""
        bar = self.query_one(FilterBar)
        if self._pane == "summaries":
            bar.open(self.search, "words in any summary", None)
            return
        view = self._view
        bar.open(
            self.arrangement.filter_text,
            "words -not level:high+ model:opus project:shop is:waiting broke: >80%",
            completion_choices(view.sessions if view else ()),
        )

    def action_pause(self) -> None:
        """Stand still; what happens meanwhile is read and shown afterwards."""
        self.paused = not self.paused

    def action_zoom(self) -> None:
        """Zoom the active pane to the whole screen, or restore the layout."""
        self.zoom(None if self.zoomed else self.query_one(f"#{self._pane}", RowList))

    def zoom(self, pane: Widget | None) -> None:
        """Draw for the room: two zooms at once leave a pane without word of its size."""
        super().zoom(pane)
        self.call_after_refresh(self.draw)

    def action_back(self) -> None:
        """Undo the last step: zoom, filter, marks, then go back to the sessions; never leave."""
        if self.zoomed:
            self.zoom(None)
        elif self._pane == "summaries" and self.search:
            self.search = ""
        elif self._pane == "sessions" and self.arrangement.filter_text:
            self.arrangement = self.arrangement.with_filter("")
        elif self._pane == "sessions" and self.arrangement.selected:
            self.arrangement = replace(self.arrangement, selected=frozenset())
        elif self._pane != "sessions":
            self.action_pane("sessions")
        self._hide_empty_bar()

    def action_copy(self) -> None:
        """Copy what is marked: ids of sessions, an agent's result, a summary."""
        key = self.query_one(f"#{self._pane}", RowList).key
        if self._pane == "sessions":
            self._copy_ids()
        elif key is not None:
            text, what = self.query_one(LowerPanes).copy_text(self._pane, key)
            if text:
                self.app.copy(text, what)
            elif self.marked:
                self.app.copy(self.marked, f"session id {self.marked}")

    def _copy_ids(self) -> None:
        shown = [session.session_id for session in self._arranged.sessions]
        picked = [name for name in shown if name in self.arrangement.selected]
        names = picked or ([self.marked] if self.marked else [])
        if names:
            what = f"session id {names[0]}" if len(names) == 1 else f"{len(names)} session ids"
            self.app.copy("\n".join(names), what)

    # What the widgets say.

    @on(RowList.Highlighted, "#sessions")
    def _mark_session(self) -> None:
        self.query_one(ContextPane).show(self._session(self.marked))
        self._wish()

    @on(RowList.Opened)
    def _open(self, event: RowList.Opened) -> None:
        pane = event.widget
        if isinstance(pane, SessionPane) and event.key == MORE_KEY:
            first_new = len(pane.shown) - 1
            pane.show_more()
            self._drawn = ()
            self.draw()
            pane.rows.highlighted = first_new
        elif isinstance(pane, SessionPane) and pane.project is not None:
            self.arrangement = self.arrangement.with_folded(
                pane.project, folded=pane.project not in self.arrangement.folded
            )
        elif pane.id in {"sessions", "fills"} or event.key == SESSION_ROW_KEY:
            session = self._session(self.marked)
            if session:
                self.app.open_session(session)
        elif pane.id == "summaries":
            row = self.query_one(LowerPanes).summary(event.key)
            if row:
                self.app.open_summary(row, self._titles.get(row.session_id, row.session_id[:8]))
        else:
            agent = self.query_one(LowerPanes).agent(event.key)
            if agent:
                self.app.open_agent(agent, self._titles.get(agent.session_id, ""))

    @on(RowList.HeaderClicked, "#sessions")
    def _sort_by_head(self, event: RowList.HeaderClicked) -> None:
        order = self.query_one(SessionPane).order_at(event.x)
        if order is not None:
            self.sort_by(order)

    @on(ContextPane.CompositionRequested)
    def _look_into(self, event: ContextPane.CompositionRequested) -> None:
        session, places = event.session, self.app.places

        def read() -> Composition | Problem:
            projects = places.folder.projects
            return query_store(
                places, lambda db: read_context_composition(db, projects, session.session_id)
            )

        def take(found: Composition | Problem) -> None:
            if self.is_attached:
                self.query_one(ContextPane).show_composition(session, found)

        self.app.lookup_worker.submit(read, take)

    @on(FilterBar.Typed)
    def _type(self, event: FilterBar.Typed) -> None:
        if self._pane == "summaries":
            self.search = one_line(event.words)
        else:
            self.arrangement = self.arrangement.with_filter(one_line(event.words))

    @on(FilterBar.Done)
    def _leave_bar(self) -> None:
        self.query_one(f"#{self._pane}", RowList).rows.focus()
        self._hide_empty_bar()

    @on(FilterBar.Cleared)
    def _clear_bar(self) -> None:
        self.query_one(FilterBar).set_words("")
        if self._pane == "summaries":
            self.search = ""
        else:
            self.arrangement = self.arrangement.with_filter("")
        self._leave_bar()

    def _hide_empty_bar(self) -> None:
        words = self.search if self._pane == "summaries" else self.arrangement.filter_text
        if not words:
            self.query_one(FilterBar).display = False

    def on_descendant_focus(self, event: events.DescendantFocus) -> None:
        for pane in event.widget.ancestors:
            if isinstance(pane, RowList) and pane.id:
                self._pane = pane.id

    @on(Rows.RoomChanged)
    def _draw_for_room(self) -> None:
        self.draw()

    def watch_search(self) -> None:
        if self._view:
            self._wish()

    def watch_paused(self, paused: bool) -> None:  # noqa: FBT001 -- Textual's form
        """Show what came while the screen stood still."""
        if not paused and self._waiting:
            self._view, self._waiting = self._waiting, None
            self._ages_at = self.app.now_ms()
            self.draw()
        elif self.is_mounted:
            self._draw_status()
