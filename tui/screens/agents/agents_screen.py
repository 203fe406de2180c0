"""The agents' page: the agents of one, of the live or of all sessions; types; findings."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import ClassVar, Final

from textual import on
from textual.binding import Binding, BindingType
from textual.containers import Horizontal
from textual.content import Content
from textual.widget import Widget
from textual.widgets import ContentSwitcher, Static

from ....core.model.agent import Agent
from ....core.model.problem import Problem
from ....core.model.session import Session
from ....core.transcript.sanitize import one_line
from ...messages import FleetView
from ...widgets.filter_bar import FilterBar
from ...widgets.header_footer import TabBar
from ...widgets.row_list import FoldList, RowList, Rows
from ...widgets.text_pane import Pager
from ..fleet.fleet_actions import ZoomableScreen
from ..page import Page, RefreshingQuery
from .agent_details import AgentDetails, read_agent_details
from .agent_tabs import AgentTreePane, FindingPane, TabArrangement, TabData, TabPane, TypePane
from .agents_table import (
    NONCOMPLIANT_WORD,
    AgentScope,
    AgentsOverview,
    agent_row_key,
    read_agents_overview,
    toggle_word,
)

CRUMB: Final = "agents"

DETAIL_FRAME: Final = 4  # cells of the detail's border, its padding, and its scroll bar
TABS: Final = ("agents", "types", "findings")


class AgentsScreen(Page, ZoomableScreen):
    """Three tabs over one reading; the marked row's report stands beside or below."""

    CSS_PATH = "agents.tcss"
    ZOOMED_PANES = "#lists, #detail"
    HORIZONTAL_BREAKPOINTS = [(0, "-narrow"), (110, "-beside")]  # noqa: RUF012 -- Textual's
    VERTICAL_BREAKPOINTS = [(0, "-short"), (36, "-tall")]  # noqa: RUF012
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("1", "tab('agents')", "Agents", show=False, tooltip="the tree", id="agents_tab"),
        Binding("2", "tab('types')", "Types", show=False, tooltip="by type", id="types_tab"),
        Binding(
            "3",
            "tab('findings')",
            "Findings",
            show=False,
            tooltip="what reviewers found",
            id="findings_tab",
        ),
        Binding("a", "scope", "Scope", tooltip="of this session, the live ones, all", id="scope"),
        Binding("slash", "filter", "Filter", key_display="/", tooltip="filter", id="filter"),
        Binding(
            "v", "broke", "Broke", show=False, tooltip="only those that broke a rule", id="broke"
        ),
        Binding("s", "sort", "Sort", show=False, tooltip="sort: started, newest …", id="sort"),
        Binding(
            "left", "fold", "Fold", show=False, tooltip="fold, or go to what it is below", id="fold"
        ),
        Binding("right", "unfold", "Unfold", show=False, tooltip="unfold", id="unfold"),
        Binding(
            "y", "copy", "Copy", show=False, tooltip="copy the result, or the finding", id="copy"
        ),
        Binding("x", "export", "Export", tooltip="export what is shown as Markdown", id="export"),
        Binding("z", "zoom", "Zoom", show=False, tooltip="the report alone, or both", id="zoom"),
        Binding("escape", "back", "Back", key_display="Esc", tooltip="back", id="back"),
    ]

    def __init__(self, session: Session | None, agent_type: str = "") -> None:
        """Show a session's agents, or all runs of a type."""
        crumbs = [session.title] if session else []
        named = [f"runs of {agent_type}"] if agent_type else []
        super().__init__(*crumbs, CRUMB, *named, session_id=session.session_id if session else None)
        first = AgentScope.SESSION if session else AgentScope.ALL if agent_type else AgentScope.LIVE
        words = f"type:{agent_type}" if agent_type else ""
        self._standings: Final = {
            "agents": TabArrangement(first, words),
            "types": TabArrangement(AgentScope.ALL),
            "findings": TabArrangement(first),
        }
        self._own_words: Final = words
        """What the page is about: not taken away by Esc."""
        self._tab = "agents"
        self._gathered: dict[AgentScope, AgentsOverview] = {}
        self._details: Final[dict[str, AgentDetails]] = {}
        self._report = Content("")
        self._shown_key: str | None = None
        self._reading: Final = RefreshingQuery(self, self._question, self._take)
        self._looking: Final = RefreshingQuery(self, self._detail_question, self._take_detail)

    def compose_page(self) -> Iterable[Widget]:
        """Lay out the tabs, the lists, and the report."""
        yield TabBar(id="tabs")
        with Horizontal(id="body"):
            with ContentSwitcher(initial=self._tab, id="lists"):
                yield AgentTreePane()
                yield TypePane()
                yield FindingPane()
            with Pager(id="detail"):
                yield Static(id="report", markup=False)
        yield FilterBar()

    def on_mount(self) -> None:
        """Read, and say so meanwhile."""
        for pane in self.query(TabPane):
            pane.empty = "reading …"
        self._pane.rows.focus()
        self._reading.refresh_now()
        self.draw()

    @property
    def _pane(self) -> TabPane:
        return self.query_one(f"#{self._tab}", TabPane)

    @property
    def _standing(self) -> TabArrangement:
        return self._standings[self._tab]

    @property
    def _sessions(self) -> Sequence[Session]:
        return self.app.view.sessions if self.app.view else ()

    # What is read.

    def show_view(self, view: FleetView) -> None:
        """Read again where there may be something new."""
        del view
        if self.is_attached:
            self._reading.refresh_soon()

    def _question(self) -> Callable[[sqlite3.Connection], AgentsOverview]:
        return partial(
            read_agents_overview,
            scope=self._standing.scope,
            session_id=self.session_id,
            sessions=self._sessions,
            policies=self.app.feed.policies,
        )

    def _take(self, found: AgentsOverview | Problem) -> None:
        if isinstance(found, Problem):
            self._pane.empty = one_line(str(found))
            return
        self._gathered[found.scope] = found
        self.draw()
        self._looking.refresh_soon()
        if self._standing.scope is not found.scope:
            self._reading.refresh_now()

    def _detail_question(self) -> Callable[[sqlite3.Connection], tuple[str, AgentDetails] | None]:
        agent = self._agent
        if agent is None:
            return lambda _: None
        key, projects = agent_row_key(agent), self.app.places.folder.projects
        return lambda db: (key, read_agent_details(db, projects, agent))

    def _take_detail(self, found: tuple[str, AgentDetails] | Problem | None) -> None:
        if isinstance(found, tuple):
            # One is kept: another one's is read in a few milliseconds.
            self._details.clear()
            self._details[found[0]] = found[1]
            self._draw_report()
        agent = self._agent
        if agent is not None and agent_row_key(agent) not in self._details:
            self._looking.refresh_soon()

    @property
    def _agent(self) -> Agent | None:
        return self.query_one(AgentTreePane).marked_agent if self._tab == "agents" else None

    # Drawing.

    def draw(self) -> None:
        """Draw the tab that is shown."""
        gathered = self._gathered.get(self._standing.scope)
        if gathered is not None:
            now_ms = self.app.now_ms()
            self._pane.draw(
                TabData(gathered, self._sessions, self._standing, now_ms, self._details)
            )
        self._draw_tabs()
        self._draw_report()

    def _draw_tabs(self) -> None:
        words = []
        for number, name in zip("¹²³", TABS, strict=True):
            words.append(f"{number} {name.capitalize()}{self._count(name)}")
        standing = self._standing
        order = standing.order.value if self._tab == "agents" else ""
        filtered = f"/{standing.filter_text}" if standing.filter_text else ""
        note = " · ".join(filter(None, (standing.scope.value, order, filtered)))
        self.query_one(TabBar).show(TABS.index(self._tab), words, note=note)

    def _count(self, name: str) -> str:
        standing = self._standings[name]
        gathered = self._gathered.get(standing.scope)
        if gathered is None:
            return ""
        pane = self.query_one(f"#{name}", TabPane)
        count = pane.count_all(gathered)
        return f" {pane.count():,} of {count:,}" if standing.filter_text else f" {count:,}"

    def _draw_report(self) -> None:
        detail = self.query_one("#detail", Pager)
        if not detail.display:
            return
        pane = self._pane
        report = pane.report(max(1, detail.size.width - DETAIL_FRAME))
        report = report or Content("")
        if not report.is_same(self._report):
            # An update is a layout of all that scrolls.
            self._report = report
            self.query_one("#report", Static).update(report)
        key = f"{self._tab} {pane.key}"
        if key != self._shown_key:
            self._shown_key = key
            detail.scroll_home(animate=False)

    # What a person does.

    def action_tab(self, name: str) -> None:
        """Go to a tab; each keeps its own place, scope and filter."""
        self._leave_filter()
        self._tab = name
        self.query_one("#lists", ContentSwitcher).current = name
        self.zoom(None)
        self._pane.rows.focus()
        self._read_scope()
        # The list has its size only after it was laid out.
        self.call_after_refresh(self.draw)

    def action_scope(self) -> None:
        """Show those of other sessions: this one's, the live ones', all."""
        scopes = [each for each in AgentScope if self.session_id or each is not AgentScope.SESSION]
        place = scopes.index(self._standing.scope)
        self._standing.scope = scopes[(place + 1) % len(scopes)]
        self._read_scope()
        self.draw()

    def _read_scope(self) -> None:
        if self._standing.scope not in self._gathered:
            self._pane.empty = "reading …"
            self._pane.show_rows([])
            self._reading.refresh_now()
        else:
            self._reading.refresh_soon()

    def action_sort(self) -> None:
        """Sort agents in another way."""
        self._standing.order = self._standing.order.next
        self.draw()

    def action_broke(self) -> None:
        """Show only those that broke a rule, or all again."""
        if self._tab != "findings":
            self._standing.filter_text = toggle_word(self._standing.filter_text, NONCOMPLIANT_WORD)
            self.draw()

    def action_fold(self) -> None:
        """Fold the marked row; where it cannot be, go to the one that it is below."""
        pane, key = self._pane, self._pane.key
        if key is None:
            return
        if key in pane.foldable() and key not in self._standing.folded:
            self._standing.folded.add(key)
            self.draw()
        elif above := pane.parent_of(key):
            pane.highlight(above)

    def action_unfold(self) -> None:
        """Show what is below the marked row."""
        key = self._pane.key
        if key in self._standing.folded:
            self._standing.folded.discard(key)
            self.draw()

    @on(FoldList.Folded)
    def _fold(self, event: FoldList.Folded) -> None:
        self._standing.folded ^= {event.key}
        self.draw()

    def action_copy(self) -> None:
        """Copy the marked row's text."""
        found = self._pane.copy_text()
        if found:
            self.app.copy(*found)

    def action_export(self) -> None:
        """Ask where what is shown is to go."""
        from ..dialogs import ExportChoice, ExportScreen

        document = self._pane.document()
        if document:
            choice = ExportChoice(f"the {self._tab} that are shown", self._tab, lambda: (document,))
            self.app.push_screen(ExportScreen(self._tab, (choice,), self._tab, self.app.now_ms()))
        else:
            self.app.notify("there is nothing to export", markup=False)

    def action_zoom(self) -> None:
        """Show the report alone, or beside the list again."""
        detail = self.query_one("#detail")
        self.zoom(None if self.zoomed else detail)
        if self.zoomed:
            detail.focus()
        else:
            self._pane.rows.focus()
        self.call_after_refresh(self.draw)

    def action_filter(self) -> None:
        """Type a filter."""
        said = (
            "words, severity:, file:, type:, project:, -not …"
            if self._tab == "findings"
            else "words, type:, verdict:, model:, is:running, broke:, -not …"
        )
        self.query_one(FilterBar).open(self._standing.filter_text, said)

    def action_back(self) -> None:
        """Undo the last step: the report alone, the filter; then leave."""
        if self.zoomed:
            self.action_zoom()
        elif not self._pane.rows.has_focus:
            self._pane.rows.focus()
        elif self._standing.filter_text != self._base_words:
            self._standing.filter_text = self._base_words
            self.draw()
        else:
            self.action_leave()

    @property
    def _base_words(self) -> str:
        return self._own_words if self._tab == "agents" else ""

    # What the widgets say.

    @on(TabBar.Chosen)
    def _click_tab(self, event: TabBar.Chosen) -> None:
        self.action_tab(TABS[event.place])

    @on(FilterBar.Typed)
    def _type(self, event: FilterBar.Typed) -> None:
        self._standing.filter_text = one_line(event.words)
        self.draw()

    @on(FilterBar.Cleared)
    def _clear(self) -> None:
        self._standing.filter_text = self._base_words
        self._leave_filter()
        self.draw()

    @on(FilterBar.Done)
    def _leave_filter(self) -> None:
        # The line of the tabs says the words that stand.
        self.query_one(FilterBar).display = False
        self._pane.rows.focus()

    @on(RowList.Highlighted)
    def _mark(self) -> None:
        self._draw_report()
        if self.query_one("#detail").display:
            self._looking.refresh_now()

    @on(RowList.Opened)
    def _open(self, event: RowList.Opened) -> None:
        if self._tab == "types":
            self.app.push_screen(AgentsScreen(None, event.key))
        elif self._tab == "agents":
            self._open_agent_row(event.key)
        else:
            self._open_finding(event.key)

    def _open_agent_row(self, key: str) -> None:
        line = self.query_one(AgentTreePane).line(key)
        if line is None:
            return
        if line.branch is not None:
            self._open_agent(line.branch.agent)
        elif line.session is not None:
            self.app.open_session(line.session)

    def _open_finding(self, key: str) -> None:
        line = self.query_one(FindingPane).line(key)
        if line is None:
            return
        if line.finding is None:
            self._fold(FoldList.Folded(self._pane, key))
            return
        said = line.finding.reviews[0]
        gathered = self._gathered[self._standing.scope]
        for agent in gathered.agents:
            if (agent.session_id, agent.agent_id) == (said.session_id, said.agent_id):
                self._open_agent(agent)
                return

    def _open_agent(self, agent: Agent) -> None:
        titles = {each.session_id: each.title for each in self._sessions}
        self.app.open_agent(agent, titles.get(agent.session_id, agent.session_id[:8]))

    @on(Rows.RoomChanged)
    def _draw_for_room(self) -> None:
        self.draw()
