"""The main screen: all sessions, the marked one's agents, and what was returned and kept."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar, Final

from textual import on
from textual.binding import Binding, BindingType
from textual.containers import Horizontal
from textual.content import Content
from textual.reactive import reactive
from textual.screen import Screen
from textual.widgets import Footer, OptionList, Static

from ..formats import one_line
from ..selection import Order, select
from ..view import View, Wish
from ..widgets.agent_pane import LEADER, AgentPane
from ..widgets.filter_bar import FilterBar
from ..widgets.row_list import RowList, Rows
from ..widgets.session_pane import SessionPane
from ..widgets.status_line import Standing, State, StatusLine
from ..widgets.summary_pane import SummaryPane

if TYPE_CHECKING:
    from textual import events
    from textual.app import ComposeResult

    from ...collectors.folder import Trouble
    from ...collectors.listener import Progress
    from ...core.agents import Agent
    from ...core.sessions import Session
    from ...core.store.rows import SummaryRow
    from ..app import CtxtopApp

AGES_S: Final = 10.0
"""How often the ages are drawn again while nothing happens."""

SMALL: Final = (60, 18)
"""Cells and lines below which one pane is shown at a time, and a line says so."""


class FleetScreen(Screen[None]):
    """Three panes over one view."""

    app: CtxtopApp

    HORIZONTAL_BREAKPOINTS = [(0, "-narrow"), (100, "-wide")]  # noqa: RUF012 -- Textual's
    VERTICAL_BREAKPOINTS = [(0, "-short"), (SMALL[1], "-tall")]  # noqa: RUF012
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding(
            "slash",
            "filter",
            "Filter",
            key_display="/",
            tooltip="filter sessions; in the summaries: search all",
            id="filter",
        ),
        Binding("s", "sort", "Sort", tooltip="sort: by need, fullest, newest, by name", id="sort"),
        Binding(
            "p", "pause", "Pause", tooltip="stand still, or go on; nothing is missed", id="pause"
        ),
        Binding(
            "y", "copy", "Copy", tooltip="copy: a session's id, a result, a summary", id="copy"
        ),
        Binding(
            "z", "zoom", "Zoom", show=False, tooltip="this pane alone, or all again", id="zoom"
        ),
        Binding("1", "pane('sessions')", "Sessions", show=False, tooltip="sessions", id="pane_1"),
        Binding("2", "pane('agents')", "Agents", show=False, tooltip="agents", id="pane_2"),
        Binding(
            "3", "pane('summaries')", "Summaries", show=False, tooltip="summaries", id="pane_3"
        ),
        Binding(
            "escape",
            "back",
            "Back",
            show=False,
            key_display="Esc",
            tooltip="back: zoom, filter, then to the sessions",
            id="back",
        ),
    ]

    paused: reactive[bool] = reactive(False)  # noqa: FBT003
    order: reactive[Order] = reactive(Order.NEED)
    words: reactive[str] = reactive("")
    """The sessions' filter."""
    search: reactive[str] = reactive("")
    """The summaries' search."""

    def __init__(self, source: str) -> None:
        super().__init__()
        self._source: Final = source
        self._view: View | None = None
        self._waiting: View | None = None
        self._shown: list[Session] = []
        self._agents: tuple[Agent, ...] = ()
        self._titles: dict[str, str] = {}
        self._stopped = False
        self._scan = ""
        self._troubles: dict[str, Trouble] = {}
        self._pane = "sessions"

    def compose(self) -> ComposeResult:
        """Lay out the panes."""
        yield StatusLine(id="status")
        yield Static(id="trouble", markup=False)
        yield SessionPane(id="sessions", number="¹", name="Sessions")
        with Horizontal(id="lower"):
            yield AgentPane(id="agents", number="²", name="Agents")
            yield SummaryPane(id="summaries", number="³", name="Summaries")
        yield FilterBar()
        yield Footer(show_command_palette=False)

    def on_mount(self) -> None:
        """Say what is going on before anything was read."""
        self.query_one(SessionPane).empty = "reading what Claude Code has written …"
        self.query_one(AgentPane).empty = "no session is marked"
        self.query_one(SummaryPane).empty = "nothing was returned or kept yet"
        self.query_one(FilterBar).display = False
        self.query_one("#trouble").display = False
        self.add_class("-lower-agents")
        self.set_interval(AGES_S, self.draw)
        self.query_one(SessionPane).rows.focus()
        self._draw_status()

    @property
    def marked(self) -> str | None:
        """The id of the session that is marked."""
        return self.query_one(SessionPane).key if self.is_attached else None

    @property
    def has_read_all(self) -> bool:
        """The first scan is over and on the screen."""
        return self._view is not None and self._view.scanned

    # What the feed says.

    def show_view(self, view: View) -> None:
        """Show a newer view; while paused, keep it, and show only what a person asks for."""
        if not self.is_attached:
            return
        shown = self._view
        if self.paused:
            self._waiting = view
            if shown is None or shown.wish == view.wish:
                return
            # Another session was marked, or another word searched for.
            view = replace(shown, agents=view.agents, summaries=view.summaries, wish=view.wish)
        self._view = view
        if view.scanned:
            self._scan = ""
        sessions = self.query_one(SessionPane)
        untouched = (shown is None or not shown.scanned) and not sessions.rows.highlighted
        self.draw(view.now_ms)
        if untouched:
            sessions.mark_first()

    def show_progress(self, progress: Progress) -> None:
        """Show how far a scan has come; a short one is not worth a word."""
        done = progress.files >= progress.files_in_all
        share = progress.bytes / progress.bytes_in_all if progress.bytes_in_all else 0.0
        self._scan = (
            ""
            if done
            else f"reading {progress.files} of {progress.files_in_all} files, {share:.0%}"
        )
        self._draw_status()

    def show_trouble(self, trouble: Trouble) -> None:
        """Keep a trouble in sight until it has ended."""
        self._troubles.pop(trouble.place, None)
        self._troubles[trouble.place] = trouble
        self._draw_trouble()

    def end_trouble(self, place: str) -> None:
        """Forget a trouble."""
        if self._troubles.pop(place, None):
            self._draw_trouble()

    def show_stop(self) -> None:
        """Say that what is shown stays as it is."""
        self._stopped = True
        self._draw_status()

    # Drawing.

    def draw(self, now_ms: int | None = None) -> None:
        """Draw all panes from the view that is kept."""
        view = self._view
        if view is None or not self.is_attached:
            return
        now = now_ms if now_ms is not None else self.app.now_ms()
        if self.paused:
            now = view.now_ms
        self._shown = select(view.sessions, self.words, self.order)
        sessions = self.query_one(SessionPane)
        sessions.empty = self._empty_words(view)
        sessions.show(self._shown, now)
        sessions.border_subtitle = self.order.value if self.order is not Order.NEED else ""
        if view.wish.session_id == sessions.key:
            self._agents = view.agents
            self.query_one(AgentPane).show(self._session(sessions.key), view.agents, now)
        self._titles = {session.session_id: session.title for session in view.sessions}
        summaries = self.query_one(SummaryPane)
        summaries.empty = (
            f"no summary has the words “{self.search}”; Esc shows all"
            if self.search
            else "nothing was returned or kept yet"
        )
        summaries.border_subtitle = Content(f"/{self.search}") if self.search else ""
        summaries.show(view.summaries, self._titles, now)
        self._wish()
        self._draw_status()

    def _empty_words(self, view: View) -> str:
        if self.words:
            return f"no session matches “{self.words}”; Esc shows all"
        if not view.scanned:
            return "reading what Claude Code has written …"
        return (
            f"No sessions yet in {one_line(str(self.app.places.config_dir))}.\n"
            "Start `claude` in a project and it appears here; `ctxtop demo` shows how that looks."
        )

    def _draw_status(self) -> None:
        if not self.is_attached:
            return
        view = self._view
        sessions = view.sessions if view else ()
        notes = []
        if self.words and view:
            notes.append(f"{len(self._shown)} match “{self.words}”")
        if self.order is not Order.NEED:
            notes.append(f"by {self.order.value}")
        small = self.size.width < SMALL[0] or self.size.height < SMALL[1]
        if small:
            notes.append("small: 1 2 3 switch panes")
        self.query_one(StatusLine).standing = Standing(
            source=self._source,
            state=self._state(),
            # Where there is no room for both, how to see the rest is worth more than a count.
            sessions=len(sessions) if view and not small else None,
            live=0 if small else sum(session.live for session in sessions),
            lag_s=view.lag_s if view and not small else None,
            scan=self._scan,
            notes=" · ".join(notes),
            warnings=sum(
                session.live and (session.context.ratio or 0.0) >= WARNED for session in sessions
            ),
        )

    def _state(self) -> State:
        if self._stopped:
            return State.STOPPED
        return State.PAUSED if self.paused else State.LIVE

    def _draw_trouble(self) -> None:
        """Give the newest trouble lines of its own: a path alone can be longer than one."""
        if not self.is_attached:
            return
        newest = next(reversed(self._troubles.values()), None)
        line = self.query_one("#trouble", Static)
        line.display = newest is not None
        others = len(self._troubles) - 1
        more = f" (and {others} more)" if others > 0 else ""
        line.update(one_line(f"✗ {newest}{more}"))

    def _session(self, session_id: str | None) -> Session | None:
        for session in self._shown:
            if session.session_id == session_id:
                return session
        return None

    def _wish(self) -> None:
        self.app.feed.show(Wish(self.query_one(SessionPane).key, self.search))

    # What a person does.

    def action_pane(self, name: str) -> None:
        """Go to a pane; where only one fits, show it."""
        self._pane = name
        if name != "sessions":
            self.set_class(name == "agents", "-lower-agents")
        self.set_class(name != "sessions", "-below")
        self.query_one(f"#{name}", RowList).rows.focus()

    def action_filter(self) -> None:
        """Filter the sessions, or search the summaries, by the pane that has the focus."""
        bar = self.query_one(FilterBar)
        searching = self._pane == "summaries"
        bar.placeholder = (
            "words in any summary" if searching else "title, project, model, live, high, !not …"
        )
        with self.prevent(FilterBar.Typed):
            bar.value = self.search if searching else self.words
        bar.display = True
        bar.focus()

    def action_sort(self) -> None:
        """Sort the sessions in another way."""
        self.order = self.order.next

    def action_pause(self) -> None:
        """Stand still; what happens meanwhile is read and shown afterwards."""
        self.paused = not self.paused

    def action_zoom(self) -> None:
        """Give the pane that has the focus the whole screen, or give it back."""
        if self.maximized:
            self.minimize()
        else:
            self.maximize(self.query_one(f"#{self._pane}", RowList))

    def action_back(self) -> None:
        """Undo the last step: zoom, filter, then go back to the sessions; never leave."""
        if self.maximized:
            self.minimize()
        elif self._pane == "summaries" and self.search:
            self.search = ""
        elif self._pane == "sessions" and self.words:
            self.words = ""
        elif self._pane != "sessions":
            self.action_pane("sessions")
        self._hide_empty_bar()

    def action_copy(self) -> None:
        """Copy what is marked: a session's id, an agent's result, a summary."""
        pane = self.query_one(f"#{self._pane}", RowList)
        key = pane.key
        if key is None:
            return
        if self._pane == "sessions":
            self.app.copy(key, f"session id {key}")
        elif self._pane == "summaries":
            row = self._summary(key)
            if row:
                self.app.copy(row.text, "the whole summary")
        elif key == LEADER:
            session_id = self.query_one(SessionPane).key or ""
            self.app.copy(session_id, f"session id {session_id}")
        else:
            agent = self._agent(key)
            text = (agent.result.text if agent and agent.result else None) or key
            self.app.copy(text, f"result of {agent.agent_type}" if agent else key)

    def _agent(self, agent_id: str) -> Agent | None:
        return next((agent for agent in self._agents if agent.agent_id == agent_id), None)

    def _summary(self, key: str) -> SummaryRow | None:
        rows = self._view.summaries if self._view else ()
        return next((row for row in rows if str(row.summary_id) == key), None)

    def _title(self, session_id: str) -> str:
        return self._titles.get(session_id, session_id[:8])

    # What the widgets say.

    @on(RowList.Marked, "#sessions")
    def _mark_session(self) -> None:
        self._wish()

    @on(RowList.Opened)
    def _open(self, event: RowList.Opened) -> None:
        if event.pane.id == "sessions" or event.key == LEADER:
            session = self._session(self.query_one(SessionPane).key)
            if session:
                self.app.open_session(session)
        elif event.pane.id == "summaries":
            row = self._summary(event.key)
            if row:
                self.app.open_summary(row, self._title(row.session_id))
        else:
            agent = self._agent(event.key)
            if agent:
                self.app.open_agent(agent, self._title(agent.session_id))

    @on(FilterBar.Typed)
    def _type(self, event: FilterBar.Typed) -> None:
        if self._pane == "summaries":
            self.search = one_line(event.words)
        else:
            self.words = one_line(event.words)

    @on(FilterBar.Left)
    def _leave_bar(self) -> None:
        self.query_one(f"#{self._pane}", RowList).rows.focus()
        self._hide_empty_bar()

    @on(FilterBar.Cleared)
    def _clear_bar(self) -> None:
        with self.prevent(FilterBar.Typed):
            self.query_one(FilterBar).value = ""
        if self._pane == "summaries":
            self.search = ""
        else:
            self.words = ""
        self._leave_bar()

    def _hide_empty_bar(self) -> None:
        words = self.search if self._pane == "summaries" else self.words
        if not words:
            self.query_one(FilterBar).display = False

    def on_descendant_focus(self, event: events.DescendantFocus) -> None:
        """Remember which pane has the focus."""
        for pane in event.widget.ancestors:
            if isinstance(pane, RowList) and pane.id:
                self._pane = pane.id

    @on(Rows.RoomChanged)
    def _draw_for_room(self) -> None:
        self.draw()

    def watch_maximized(self) -> None:
        """Draw for the room after a zoom: two at once leave a pane without word of its size."""
        self.call_after_refresh(self.draw)

    def watch_order(self) -> None:
        """Draw in the new order."""
        self.draw()

    def watch_words(self) -> None:
        """Draw what matches."""
        self.draw()

    def watch_search(self) -> None:
        """Ask for what matches."""
        if self._view:
            self._wish()

    def watch_paused(self, paused: bool) -> None:  # noqa: FBT001 -- Textual's form
        """Show what came while the screen stood still."""
        if not paused and self._waiting:
            self._view, self._waiting = self._waiting, None
            self.draw()
        elif self.is_mounted:
            self._draw_status()

    @on(OptionList.OptionHighlighted)
    def _stop_here(self, event: OptionList.OptionHighlighted) -> None:
        event.stop()


WARNED: Final = 0.80
"""Ratio from which a live session is counted as a warning."""
