"""The page of one agent; and the agents' page with tabs for agents, types and findings."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, ClassVar, Final

from msgspec.structs import replace
from textual import events, on
from textual.binding import BindingType
from textual.containers import Horizontal
from textual.content import Content
from textual.widget import Widget
from textual.widgets import ContentSwitcher, Static

from ....core.model.agent import Agent, AgentStatus
from ....core.model.problem import Problem
from ....core.model.session import Session
from ....core.transcript.sanitize import one_line
from ...base.keymap import bind, bind_hidden
from ...base.messages import FleetView, OpenConversation
from ...conversation.conversation_pane import ConversationPane, show_conversation
from ...conversation.conversation_reading import ConversationPlace
from ...conversation.conversation_rows import ContextScale
from ...entities.agent_tree import agent_row_key
from ...page_kit.page import (
    BROAD_CELLS,
    Page,
    ReadingScreen,
    RefreshingQuery,
    ZoomableScreen,
    text_width,
)
from ...text.markdown_text import TextForm
from ...widgets.controls import FilterBar
from ...widgets.header_footer import TabBar
from ...widgets.row_list import FoldList, RowList, Rows
from ...widgets.text_pane import Pager
from .agent_report import (
    NO_DETAILS,
    AgentDetails,
    agent_report,
    agent_result_text,
    read_agent_details,
    read_injection_choice,
)
from .agent_tabs import (
    ORDER_HEADERS,
    AgentTreePane,
    FindingPane,
    TabArrangement,
    TabData,
    TabPane,
    TypePane,
)
from .agents_overview import (
    EMPTY_SCOPE_NOTES,
    NONCOMPLIANT_WORD,
    AgentOrder,
    AgentScope,
    AgentsOverview,
    close_zombie,
    read_agents_overview,
    toggle_word,
)

if TYPE_CHECKING:
    from ....core.injection.context_selection import Injection


class AgentScreen(ReadingScreen):
    """An agent's verdict, result, task, context, and what was injected; follows the agent."""

    CSS_PATH = "agents.tcss"
    HORIZONTAL_BREAKPOINTS = [(0, "-narrow"), (BROAD_CELLS, "-broad")]  # noqa: RUF012 -- Textual's
    KEYS_IF_ROOM = ("source",)
    BINDINGS: ClassVar[list[BindingType]] = [
        bind("y", "copy", "Copy", "copy the result", "copy"),
        bind("v", "view_conversation", "Conversation", "read its conversation", "view_turn"),
        bind_hidden("W", "source", "As written", "as Markdown, or as written", "source"),
    ]

    def __init__(self, agent: Agent, title: str, width: int, now_ms: int) -> None:
        """Show an agent of the session called `title`, on a screen of `width` cells."""
        self._agent = agent
        self._detail = NO_DETAILS
        self._width = self._report_width(width)
        self._form = TextForm.RENDERED
        self._reading: Final = RefreshingQuery(self, self._query, self._take)
        name = f"{agent.agent_type} {agent.description}"
        report = agent_report(agent, NO_DETAILS, self._width, now_ms)
        super().__init__(title, name, content=report, session_id=agent.session_id)

    def compose_page(self) -> Iterable[Widget]:
        with Horizontal(id="body"):
            yield from super().compose_page()

    def on_mount(self) -> None:
        super().on_mount()
        self._reading.refresh_now()
        self._ask_choice()

    def on_resize(self, event: events.Resize) -> None:
        self._width = self._report_width(event.size.width)
        self._draw()
        body, agent = self.query_one("#body"), self._agent
        if self._shows_conversation(event.size.width) and not body.query(ConversationPane):
            # From its start: it ends with the result, which the report shows.
            place = ConversationPlace(agent.session_id, agent.agent_id, 0)
            show_conversation(body, place, ContextScale.of(agent.context))

    def _shows_conversation(self, screen_width: int) -> bool:
        """Whether its conversation is shown beside the report: there is one, and there is room."""
        return screen_width >= BROAD_CELLS and self._agent.last_message is not None

    def _report_width(self, screen_width: int) -> int:
        is_half = self._shows_conversation(screen_width)
        return text_width(screen_width // 2 if is_half else screen_width)

    def show_view(self, view: FleetView) -> None:
        del view
        if self.is_attached:
            self._reading.refresh_soon()

    def action_copy(self) -> None:
        """Copy its result, or its id if there is none."""
        agent = self._agent
        if text := agent_result_text(agent):
            self.app.copy(text, f"result of {agent.agent_type}")
        else:
            self.app.copy(agent.agent_id, f"id of {agent.agent_type}")

    def action_source(self) -> None:
        self._form = self._form.next
        self._draw()

    def action_view_conversation(self) -> None:
        self.post_message(OpenConversation(self._agent.session_id, self._agent.agent_id, None))

    def _ask_choice(self) -> None:
        agent, policies = self._agent, self.app.feed.policies
        projects = self.app.places.folder.projects
        session = self.app.find_session(agent.session_id)
        if session is not None:
            self.look_up(
                lambda db: read_injection_choice(db, projects, agent, session, policies),
                self._take_choice,
            )

    def _take_choice(self, found: Injection | Problem | None) -> None:
        if found is not None and not isinstance(found, Problem):
            self._detail = replace(self._detail, injection_choice=found)
            self._draw()

    def _query(self) -> Callable[[sqlite3.Connection], tuple[Agent, AgentDetails]]:
        sessions, agent = self.app.sessions, self._agent
        policies, projects = self.app.feed.policies, self.app.places.folder.projects
        now_ms = self.app.now_ms()

        def read(db: sqlite3.Connection) -> tuple[Agent, AgentDetails]:
            from ....core.readers.fleet_reader import read_agents

            found = read_agents(db, sessions, now_ms, [agent.session_id], policies)
            newest = next((each for each in found if each.agent_id == agent.agent_id), agent)
            return newest, read_agent_details(db, projects, newest)

        return read

    def _take(self, found: tuple[Agent, AgentDetails] | Problem) -> None:
        if not isinstance(found, Problem):
            self._agent, detail = found
            self._detail = replace(detail, injection_choice=self._detail.injection_choice)
            self._draw()

    def _draw(self) -> None:
        now_ms = self.app.now_ms()
        report = agent_report(self._agent, self._detail, self._width, now_ms, self._form)
        if not report.is_same(self._content):
            self.show(report)


CRUMB: Final = "agents"

DETAIL_FRAME: Final = 4  # cells of the detail's border, its padding, and its scroll bar
TABS: Final = ("agents", "types", "findings")


class AgentsScreen(Page, ZoomableScreen):
    """Three tabs over one reading; the marked row's report stands beside or below."""

    CSS_PATH = "agents.tcss"
    ZOOMED_PANES = "#lists, #detail"
    HORIZONTAL_BREAKPOINTS = [(0, "-narrow"), (110, "-beside"), (BROAD_CELLS, "-broad")]  # noqa: RUF012 -- Textual's
    VERTICAL_BREAKPOINTS = [(0, "-short"), (36, "-tall")]  # noqa: RUF012
    KEYS_IF_ROOM = ("sort", "broke", "copy", "zoom")
    BINDINGS: ClassVar[list[BindingType]] = [
        bind_hidden("1", "tab('agents')", "Agents", "the tree", "agents_tab"),
        bind_hidden("2", "tab('types')", "Types", "by type", "types_tab"),
        bind_hidden("3", "tab('findings')", "Findings", "reviewers' findings", "findings_tab"),
        bind("a", "scope", "Scope", "agents of this session, of live ones, or of all", "scope"),
        bind("slash", "filter", "Filter", "filter", "filter"),
        bind_hidden("v", "broke", "Noncompliant", "noncompliant agents only", "broke"),
        bind_hidden("s", "sort", "Sort", "sort: started, newest …", "sort"),
        bind_hidden("left", "fold", "Fold", "collapse, or go to the parent", "fold"),
        bind_hidden("right", "unfold", "Unfold", "unfold", "unfold"),
        bind_hidden("y", "copy", "Copy", "copy the result, or the finding", "copy"),
        bind("x", "export", "Export", "export what is shown as Markdown", "export"),
        bind_hidden("X", "close_agent", "Close", "close an agent that fell silent", "close_agent"),
        bind_hidden("z", "zoom", "Zoom", "maximize the report", "zoom"),
        bind_hidden("W", "source", "As written", "as Markdown, or as written", "source"),
        bind("escape", "back", "Back", "back", "back"),
    ]

    def __init__(self, session: Session | None, agent_type: str = "") -> None:
        """Show a session's agents, or all runs of a type."""
        crumbs = [session.title] if session else []
        named = [f"runs of {agent_type}"] if agent_type else []
        super().__init__(*crumbs, CRUMB, *named, session_id=session.session_id if session else None)
        first = AgentScope.SESSION if session else AgentScope.ALL if agent_type else AgentScope.LIVE
        words = f"type:{agent_type}" if agent_type else ""
        self._arrangements: Final = {
            "agents": TabArrangement(first, words),
            "types": TabArrangement(AgentScope.ALL),
            "findings": TabArrangement(first),
        }
        self._is_scope_chosen = bool(agent_type)
        self._own_words: Final = words  # what the page is about: Esc does not remove it
        self._tab = "agents"
        self._overviews: dict[AgentScope, AgentsOverview] = {}
        self._details: Final[dict[str, AgentDetails]] = {}
        self._report = Content("")
        self._form = TextForm.RENDERED
        self._shown_key: str | None = None
        self._reading: Final = RefreshingQuery(self, self._overview_query, self._take_overview)
        self._detail_reading: Final = RefreshingQuery(self, self._detail_query, self._take_detail)

    def compose_page(self) -> Iterable[Widget]:
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
        for pane in self.query(TabPane):
            pane.empty = "reading …"
        self._pane.rows.focus()
        self._reading.refresh_now()
        self.draw()

    @property
    def _pane(self) -> TabPane:
        return self.query_one(f"#{self._tab}", TabPane)

    @property
    def _arrangement(self) -> TabArrangement:
        return self._arrangements[self._tab]

    # Reading.

    def show_view(self, view: FleetView) -> None:
        del view
        if self.is_attached:
            self._reading.refresh_soon()

    def _overview_query(self) -> Callable[[sqlite3.Connection], AgentsOverview]:
        scope, sessions = self._arrangement.scope, self.app.sessions
        policies, session_id = self.app.feed.policies, self.session_id
        now_ms = self.app.now_ms()
        return lambda db: read_agents_overview(db, scope, session_id, sessions, now_ms, policies)

    def _take_overview(self, found: AgentsOverview | Problem) -> None:
        if isinstance(found, Problem):
            self._pane.empty = one_line(str(found))
            return
        self._overviews[found.scope] = found
        if not found.agents and self._widen_scope(found.scope):
            return
        self.draw()
        self._detail_reading.refresh_soon()
        if self._arrangement.scope is not found.scope:
            self._reading.refresh_now()

    def _widen_scope(self, empty: AgentScope) -> bool:
        """Go to the next larger scope if the page was opened with an empty one.

        A scope that the user chose stays.
        """
        if self._is_scope_chosen or empty is AgentScope.ALL:
            return False
        scopes = tuple(AgentScope)
        wider = scopes[scopes.index(empty) + 1]
        for each in self._arrangements.values():
            if each.scope is empty:
                each.scope, each.empty_scopes = wider, (*each.empty_scopes, empty)
        self._reading.refresh_now()
        return True

    def _detail_query(self) -> Callable[[sqlite3.Connection], tuple[str, AgentDetails] | None]:
        agent = self._agent
        if agent is None:
            return lambda _: None
        key, projects = agent_row_key(agent), self.app.places.folder.projects
        return lambda db: (key, read_agent_details(db, projects, agent))

    def _take_detail(self, found: tuple[str, AgentDetails] | Problem | None) -> None:
        if isinstance(found, tuple):
            # Only one is kept: another agent's details are read in a few milliseconds.
            self._details.clear()
            self._details[found[0]] = found[1]
            self._draw_report()
        agent = self._agent
        if agent is not None and agent_row_key(agent) not in self._details:
            self._detail_reading.refresh_soon()

    @property
    def _agent(self) -> Agent | None:
        return self.query_one(AgentTreePane).marked_agent if self._tab == "agents" else None

    # Drawing.

    @on(Rows.RoomChanged)
    def draw(self) -> None:
        overview, arrangement = self._overviews.get(self._arrangement.scope), self._arrangement
        if overview is not None:
            now_ms = self.app.now_ms()
            self._pane.draw(
                TabData(overview, self.app.sessions, arrangement, now_ms, self._details, self._form)
            )
        self._draw_tabs()
        self._draw_report()

    def _draw_tabs(self) -> None:
        titles = [
            f"{number} {name.capitalize()}{self._count(name)}"
            for number, name in zip("¹²³", TABS, strict=True)
        ]
        arrangement = self._arrangement
        order = arrangement.order.value if self._tab == "agents" else ""
        words = f"/{arrangement.filter_text}" if arrangement.filter_text else ""
        empty = ", ".join(EMPTY_SCOPE_NOTES[each] for each in arrangement.empty_scopes)
        scope = f"{arrangement.scope.value} ({empty})" if empty else arrangement.scope.value
        note = " · ".join(filter(None, (scope, order, words)))
        self.query_one(TabBar).show(TABS.index(self._tab), titles, note=note)

    def _count(self, tab: str) -> str:
        arrangement = self._arrangements[tab]
        overview = self._overviews.get(arrangement.scope)
        if overview is None:
            return ""
        matching = self.query_one(f"#{tab}", TabPane).count()
        shown = f" {matching:,} of" if arrangement.filter_text else ""
        return f"{shown} {overview.count(tab):,}"

    def _draw_report(self) -> None:
        detail = self.query_one("#detail", Pager)
        if not detail.display:
            return
        pane = self._pane
        report = pane.report(max(1, detail.size.width - DETAIL_FRAME)) or Content("")
        if not report.is_same(self._report):
            # An update lays out all that scrolls.
            self._report = report
            self.query_one("#report", Static).update(report)
        key = f"{self._tab} {pane.key}"
        if key != self._shown_key:
            self._shown_key = key
            detail.scroll_home(animate=False)

    # Actions.

    def action_tab(self, name: str) -> None:
        """Go to a tab; each keeps its own cursor, scope and filter."""
        self._leave_filter()
        self._tab = name
        self.query_one("#lists", ContentSwitcher).current = name
        self.zoom(None)
        self._pane.rows.focus()
        self._read_scope()
        # The list has its size only after it was laid out.
        self.call_after_refresh(self.draw)

    def action_scope(self) -> None:
        scopes = [each for each in AgentScope if self.session_id or each is not AgentScope.SESSION]
        place = scopes.index(self._arrangement.scope)
        self._is_scope_chosen = True
        self._arrangement.empty_scopes = ()
        self._arrangement.scope = scopes[(place + 1) % len(scopes)]
        self._read_scope()
        self.draw()

    def _read_scope(self) -> None:
        if self._arrangement.scope not in self._overviews:
            self._pane.empty = "reading …"
            self._pane.show_rows([])
            self._reading.refresh_now()
        else:
            self._reading.refresh_soon()

    def action_source(self) -> None:
        self._form = self._form.next
        self.draw()

    def action_sort(self) -> None:
        self._set_order(self._arrangement.order.next)

    def _set_order(self, order: AgentOrder) -> None:
        self._arrangement.order = order
        self.draw()
        self._pane.highlight_first()

    @on(RowList.HeaderClicked, "#agents")
    def _sort_by_column(self, event: RowList.HeaderClicked) -> None:
        """Sort by the clicked column; a second click sorts by start again."""
        orders = {header: order for order, header in ORDER_HEADERS.items()}
        order = orders.get(event.column.header)
        if order is not None:
            is_second = order is self._arrangement.order
            self._set_order(AgentOrder.STARTED if is_second else order)

    def action_broke(self) -> None:
        if self._tab != "findings":
            self._set_words(toggle_word(self._arrangement.filter_text, NONCOMPLIANT_WORD))

    def action_fold(self) -> None:
        """Fold the marked row; if it cannot be folded, go to the one above it in the tree."""
        pane, key = self._pane, self._pane.key
        if key is None:
            return
        if key in pane.fold_cells and key not in self._arrangement.folded:
            self._arrangement.folded.add(key)
            self.draw()
        elif above := pane.parent_of(key):
            pane.highlight(above)

    def action_unfold(self) -> None:
        key = self._pane.key
        if key in self._arrangement.folded:
            self._arrangement.folded.discard(key)
            self.draw()

    @on(FoldList.Folded)
    def _fold(self, event: FoldList.Folded) -> None:
        self._arrangement.folded ^= {event.key}
        self.draw()

    def action_copy(self) -> None:
        found = self._pane.copy_text()
        if found:
            self.app.copy(*found)

    def action_close_agent(self) -> None:
        """Close the marked agent if it is a zombie; it opens again when it writes."""
        agent = self._agent
        if agent is None or agent.status is not AgentStatus.ZOMBIE:
            self.app.toast("only a zombie is closed: an agent silent for 30 minutes")
            return
        places, now_ms = self.app.places, self.app.now_ms()
        self.work_out(lambda: close_zombie(places, agent, now_ms), self._take_closed)

    def _take_closed(self, found: Agent | Problem) -> None:
        if isinstance(found, Problem):
            self.app.toast(one_line(str(found)))
        else:
            self.app.toast(f"closed {found.agent_type}; it opens again if it writes")
            self._reading.refresh_now()

    def action_export(self) -> None:
        from ...page_kit.dialogs import ExportChoice, ExportScreen

        document = self._pane.document()
        if document:
            choice = ExportChoice(f"the {self._tab} that are shown", self._tab, lambda: (document,))
            self.app.push_screen(ExportScreen(self._tab, (choice,), self._tab, self.app.now_ms()))
        else:
            self.app.toast("there is nothing to export")

    def action_zoom(self) -> None:
        detail = self.query_one("#detail")
        self.zoom(None if self.zoomed else detail)
        (detail if self.zoomed else self._pane.rows).focus()
        self.call_after_refresh(self.draw)

    def action_filter(self) -> None:
        placeholder = (
            "words, severity:, file:, type:, project:, -not …"
            if self._tab == "findings"
            else "words, type:, verdict:, model:, is:running, noncompliant:, -not …"
        )
        self.query_one(FilterBar).open(self._arrangement.filter_text, placeholder)

    def action_back(self) -> None:
        """Undo the last step: the report alone, the filter; then leave."""
        if self.zoomed:
            self.action_zoom()
        elif not self._pane.rows.has_focus:
            self._pane.rows.focus()
        elif self._arrangement.filter_text != self._base_words:
            self._set_words(self._base_words)
        else:
            self.action_leave()

    @property
    def _base_words(self) -> str:
        return self._own_words if self._tab == "agents" else ""

    def _set_words(self, words: str) -> None:
        self._arrangement.filter_text = words
        self.draw()

    # Messages of the widgets.

    @on(TabBar.Chosen)
    def _click_tab(self, event: TabBar.Chosen) -> None:
        self.action_tab(TABS[event.place])

    @on(FilterBar.Typed)
    def _type(self, event: FilterBar.Typed) -> None:
        self._set_words(one_line(event.words))

    @on(FilterBar.Cleared)
    def _clear_filter(self) -> None:
        self._leave_filter()
        self._set_words(self._base_words)

    @on(FilterBar.Done)
    def _leave_filter(self) -> None:
        # The line of the tabs shows the filter.
        self.query_one(FilterBar).display = False
        self._pane.rows.focus()

    @on(RowList.Highlighted)
    def _mark(self) -> None:
        self._draw_report()
        if self.query_one("#detail").display:
            self._detail_reading.refresh_now()

    @on(RowList.Opened)
    def _open(self, event: RowList.Opened) -> None:
        if self._tab == "types":
            self.app.push_screen(AgentsScreen(None, event.key))
        elif self._tab == "findings":
            self._open_finding(event.key)
        elif row := self.query_one(AgentTreePane).tree_row(event.key):
            if row.branch is not None:
                self._open_agent(row.branch.agent)
            elif row.session is not None:
                self.app.open_session(row.session)

    def _open_finding(self, key: str) -> None:
        row = self.query_one(FindingPane).finding_row(key)
        if row is None:
            return
        if row.finding is None:
            self._fold(FoldList.Folded(self._pane, key))
            return
        review = row.finding.reviews[0]
        for agent in self._overviews[self._arrangement.scope].agents:
            if (agent.session_id, agent.agent_id) == (review.session_id, review.agent_id):
                self._open_agent(agent)
                return

    def _open_agent(self, agent: Agent) -> None:
        self.app.open_agent(agent, self.app.title_of(agent.session_id))
