"""A session's page: its context over its turns, and tabs for what fills it and more."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable
from typing import TYPE_CHECKING, ClassVar, Final

from textual import on
from textual.binding import BindingType
from textual.containers import Horizontal, VerticalScroll
from textual.content import Content
from textual.timer import Timer
from textual.widget import Widget
from textual.widgets import Static

from ....core.measure.composition import CategoryShare, ContextItem
from ....core.measure.prompt_cache.cache_ledger import CacheLedger, CacheMiss
from ....core.measure.timeline import Timeline, TimelineTurn
from ....core.model.session import Session
from ....core.store.warning_log import ContextWarning
from ....core.transcript.sanitize import one_line
from ...base.keymap import bind, bind_hidden
from ...base.messages import FleetView
from ...conversation.conversation_pane import ConversationPane
from ...conversation.conversation_reading import ConversationPlace
from ...conversation.conversation_rows import ContextScale
from ...entities.compactions import ReportedCompaction
from ...entities.context_breakdown import item_detail
from ...entities.timeline_picture import TimelineMove
from ...entities.timeline_text import turn_events_line, turn_line
from ...page_kit.page import Page, ReadingScreen
from ...page_kit.terminal_actions import terminal_keys
from ...text.cache_text import miss_events
from ...widgets.header_footer import TabBar
from ...widgets.row_list import RowList, Rows
from ...widgets.timeline_view import TimelineView, timeline_keys
from . import session_tabs
from .cache_pane import read_session_ledger
from .compaction_screen import CompactionDetailScreen
from .session_tabs import (
    READING_TRANSCRIPT,
    SHORT_TAB_NAMES,
    SessionDetails,
    SessionTab,
    SessionTabData,
    TurnDetails,
)

if TYPE_CHECKING:
    from ....core.model.agent import Agent
    from ....core.model.problem import Problem


CURSOR_SETTLE_S: Final = 0.12  # how long the cursor rests before a file is read for its turn
CACHED_TURNS: Final = 64  # turns whose details are kept: going back and forth reads no file again
TABS: Final = tuple(SessionTab)


TAB_IDS: Final = (
    *("fills", "items", "compactions", "warnings", "evidence", "about", "conversation", "cache"),
)
"""In the ids of the tabs' keys, which people have in their settings: they do not change."""


class SessionScreen(Page):
    """Opens at once, then shows what the store has, then what the transcript has."""

    CSS_PATH = "session.tcss"
    HORIZONTAL_BREAKPOINTS = [(0, "-narrow"), (110, "-wide")]  # noqa: RUF012 -- Textual's
    VERTICAL_BREAKPOINTS = [  # noqa: RUF012
        (0, "-tiny"),
        (16, "-short"),
        (22, "-low"),
        (34, "-tall"),
        (50, "-high"),
    ]
    KEYS_IF_ROOM = ("compact", "answer", "resume", "terminal", "zoom", "copy")
    BINDINGS: ClassVar[list[BindingType]] = [
        *timeline_keys("timeline", priority=True),
        *(
            bind_hidden(str(n), f"tab({n - 1})", tab, f"show: {tab}", f"part_{name}")
            for n, (tab, name) in enumerate(zip(TABS, TAB_IDS, strict=True), 1)
        ),
        bind_hidden("tab", "next_tab(1)", "Next", "next tab", "next_part", key_display="⇥"),
        bind_hidden("shift+tab", "next_tab(-1)", "Previous", "previous tab", "part_before"),
        bind("v", "view_turn", "Conversation", "read this turn's conversation", "view_turn"),
        bind("v", "view_timeline", "Timeline", "back, with the timeline at this turn", "view_turn"),
        bind_hidden("z", "zoom", "Zoom", "show or hide the timeline", "zoom"),
        *terminal_keys(),
        bind_hidden(
            "y",
            "copy",
            "Copy",
            "copy the selection, or what a compaction lost, as a prompt",
            "copy",
        ),
    ]

    def __init__(self, session: Session, conversation: ConversationPlace | None = None) -> None:
        """With `conversation`, open the Conversation tab there."""
        super().__init__(session.title, session_id=session.session_id)
        self._session = session
        self._wanted_place = conversation
        self._tab_before = SessionTab.BREAKDOWN  # to which the Conversation tab goes back
        self._agents: tuple[Agent, ...] = ()
        self._details: SessionDetails | None = None
        self._timeline: Timeline | None = None
        self._ledger: CacheLedger | None = None
        self._turns: Final[dict[int | None, TurnDetails]] = {}
        """The details of turns by their offset in the transcript; None is now."""
        self._shown_turn: TurnDetails | None = None  # stays while another turn is looked up
        self._item_texts: Final[dict[int, str]] = {}  # by line
        self._settling: Timer | None = None
        self._is_reading_turn = False
        self._is_stale = False  # the current turn has changed since it was read
        self.tab = SessionTab.BREAKDOWN
        self._cursors: Final[dict[SessionTab, tuple[str | None, float]]] = {}
        """Of tabs that are not open: the row's key and the scroll position."""

    def compose_page(self) -> Iterable[Widget]:
        yield Static(id="head", markup=False)
        yield TimelineView(id="timeline")
        yield Static(id="turn", markup=False)
        yield Static(id="happened", markup=False)
        yield TabBar([str(n) for n, _ in enumerate(TABS, 1)], id="parts")
        with Horizontal(id="body"):
            yield RowList(id="rows", number="", name="")
            with VerticalScroll(id="beside", can_focus=False):
                yield Static(id="detail", markup=False)

    def on_mount(self) -> None:
        self._graph.can_focus = False
        self._rows.rows.focus()
        if self._wanted_place is not None:
            self.open_conversation(self._wanted_place)
        self.draw()
        self._read()

    @property
    def _graph(self) -> TimelineView:
        return self.query_one(TimelineView)

    @property
    def _rows(self) -> RowList:
        return self.query_one("#rows", RowList)

    @property
    def _conversation(self) -> ConversationPane | None:
        return next(iter(self.query(ConversationPane)), None)

    # Reading.

    def show_view(self, view: FleetView) -> None:
        """Read again if the session has changed."""
        session = next((each for each in view.sessions if each.session_id == self.session_id), None)
        agents = view.agents if view.request.session_id == self.session_id else self._agents
        if session is None or (session == self._session and agents == self._agents):
            return
        self._is_stale |= session.last_activity_at != self._session.last_activity_at
        self._session, self._agents = session, agents
        if (pane := self._conversation) is not None:
            pane.set_scale(self._scale(pane.place.agent_id))
            pane.read_news()
        self.set_crumbs(session.title)
        self._read()

    def _read(self) -> None:
        from ....core.readers.timeline_reader import read_timeline

        session, timeline, details = self._session, self._timeline, self._details
        owner, policies = (session.session_id, None), self.app.feed.policies
        failed = frozenset(
            each.agent_id for each in self._agents if each.compliance and each.compliance.failed
        )
        self.ask(
            lambda db: (
                session_tabs.read_session_details(db, session, policies, details),
                read_timeline(db, owner, session.context, failed, timeline),
            ),
            self._show_details,
        )
        self._read_ledger()

    def _read_ledger(self) -> None:
        session_id, places, known = self._session.session_id, self.app.places, self._ledger
        prices = self.app.feed.policies.for_project(self._session.project_root)
        self.look_up(
            lambda db: read_session_ledger(
                db,
                places.folder.projects,
                places.store,
                session_id,
                prices.strings_by_name("price"),
                known,
            ),
            self._keep_ledger,
            replaces="ledger",
        )

    def _keep_ledger(self, found: CacheLedger | Problem) -> None:
        if not isinstance(found, CacheLedger):
            self.show_problem(one_line(str(found)))
            return
        self._ledger = found
        self._show_timeline()

    def _show_details(self, found: tuple[SessionDetails, Timeline]) -> None:
        from ....core.measure.timeline import is_continuation

        previous, self._details, self._timeline = self._timeline, *found
        if previous is not None and not is_continuation(self._timeline, previous):
            # The file was rewritten, so offsets and lines have changed.
            self._turns.clear()
            self._item_texts.clear()
            self._shown_turn = None
        self._show_timeline()

    def _show_timeline(self) -> None:
        from ....core.measure.timeline import with_current_context, with_events

        timeline, now = self._timeline, self._session
        if timeline is None:
            return
        marked = with_events(timeline, miss_events(timeline, self._ledger or CacheLedger()))
        self._graph.show(with_current_context(marked, now.context, now.last_activity_at))
        self._show_turn()

    @property
    def _past(self) -> TimelineTurn | None:
        """The turn under the cursor; None for now."""
        timeline, turn = self._graph.timeline, self._graph.turn
        return timeline.turns[turn] if timeline and turn is not None else None

    @on(TimelineView.Scrubbed)
    def _show_turn(self) -> None:
        """Draw for the turn under the cursor, and read its details once the cursor rests."""
        self.draw()
        self._read_turn_soon()

    def _read_turn_soon(self) -> None:
        if self._settling is not None:
            self._settling.stop()
        self._settling = self.set_timer(CURSOR_SETTLE_S, self._read_turn)

    def _read_turn(self) -> None:
        self._settling = None
        if self.tab is SessionTab.CONVERSATION:
            return  # a composition is read for seconds, and nothing here shows it
        past, timeline = self._past, self._timeline
        is_known = _turn_key(past) in self._turns and not (past is None and self._is_stale)
        if is_known or self._is_reading_turn:
            return
        self._is_reading_turn = True
        if past is None:
            self._is_stale = False
        newest = timeline.turns[-1] if timeline and timeline.turns else None
        session, projects = self._session, self.app.places.folder.projects
        policy = self.app.feed.policies.for_project(session.project_root)
        large = policy.count("tools.warn_result_chars")
        self.look_up(
            lambda db: session_tabs.read_turn_details(db, projects, session, newest, past, large),
            lambda found: self._keep_turn(past, found),
        )

    def _keep_turn(self, past: TimelineTurn | None, found: TurnDetails | Problem) -> None:
        self._is_reading_turn = False
        key = _turn_key(past)
        self._turns.pop(key, None)
        if not isinstance(found, TurnDetails):
            found = TurnDetails(problem=str(found))
        self._turns[key] = found
        if len(self._turns) > CACHED_TURNS:
            self._turns.pop(next(iter(self._turns)))
        self.draw()
        # The cursor may have moved to another turn meanwhile.
        self._read_turn()

    # Drawing.

    def on_resize(self) -> None:
        self.call_after_refresh(self.draw)

    def draw(self) -> None:
        if not self.is_attached:
            return
        timeline, turn = self._graph.timeline, self._graph.turn
        details, width = self._turns.get(_turn_key(self._past)), self.size.width
        self._shown_turn = details or self._shown_turn
        header = session_tabs.session_header(self._session, self._past, width, self.app.now_ms())
        self.query_one("#head", Static).update(header)
        if timeline is not None and timeline.turns:
            calls = details.calls if details else None
            self.query_one("#turn", Static).update(turn_line(timeline, turn, width - 2))
            self.query_one("#happened", Static).update(turn_events_line(timeline, turn, calls))
        self._draw_rows()

    @on(Rows.RoomChanged)
    def _draw_rows(self) -> None:
        data, rows = self._shown(), self._rows
        names = session_tabs.tab_names(data)
        self.query_one(TabBar).show(TABS.index(self.tab), names, TABS, SHORT_TAB_NAMES)
        if self.tab is SessionTab.CONVERSATION:
            return
        listing = session_tabs.tab_listing(self.tab, data, rows.row_width or self.size.width)
        is_read = _turn_key(self._past) in self._turns or data.turn is None
        note = "" if is_read else READING_TRANSCRIPT
        rows.set_titles(Content(session_tabs.tab_title(self.tab, data)), Content(note))
        rows.empty = listing.empty
        rows.show_header(listing.head)
        rows.show_rows(listing.rows)
        self._draw_detail()

    @on(RowList.Highlighted)
    def _draw_detail(self) -> None:
        width = max(1, self.query_one("#beside").scrollable_content_region.width)
        self.query_one("#detail", Static).update(self._detail(width))

    @on(RowList.Highlighted)
    def _scroll_detail_home(self) -> None:
        self.query_one("#beside").scroll_home(animate=False)

    def _shown(self) -> SessionTabData:
        details, past = self._details or SessionDetails(), self._past is not None
        limits = self.app.view.limits if self.app.view else ()
        now_ms, turn = self.app.now_ms(), self._shown_turn
        return SessionTabData(self._session, details, turn, past, now_ms, self._ledger, limits)

    def _detail(self, width: int) -> Content:
        """Describe the marked row."""
        item = self._rows.item
        if isinstance(item, ContextItem):
            return item_detail(item, self._item_text(item))
        return session_tabs.row_detail(self._shown(), item, width)

    def _item_text(self, item: ContextItem) -> str:
        """Return the beginning of an item; it is looked up the first time."""
        line = item.line
        if line is None or line in self._item_texts:
            return self._item_texts[line] if line is not None else ""
        self._item_texts[line] = READING_TRANSCRIPT
        session_id, projects = self._session.session_id, self.app.places.folder.projects

        def keep(text: str | Problem) -> None:
            self._item_texts[line] = str(text)
            self._draw_detail()

        self.look_up(lambda db: session_tabs.read_item_text(db, projects, session_id, line), keep)
        return READING_TRANSCRIPT

    # What the user does.

    def action_timeline(self, move: str) -> None:
        self._graph.move(TimelineMove(move))

    @on(TabBar.Chosen)
    def _choose_tab(self, event: TabBar.Chosen) -> None:
        self._open_tab(TABS[event.place])

    def action_tab(self, place: int) -> None:
        self._open_tab(TABS[place])

    def action_next_tab(self, step: int) -> None:
        self._open_tab(TABS[(TABS.index(self.tab) + step) % len(TABS)])

    def _open_tab(self, tab: SessionTab, key: str | None = None) -> None:
        """Open a tab with the cursor on the row `key`, else where it was there."""
        if tab is SessionTab.CONVERSATION:
            self._show_conversation()
            return
        rows = self._rows
        if self.tab is SessionTab.CONVERSATION:
            self._hide_conversation()
        else:
            self._cursors[self.tab] = (rows.key, rows.rows.scroll_offset.y)
        self.tab = tab
        self._draw_rows()
        previous_key, scrolled = self._cursors.get(tab, (None, 0.0))
        rows.highlight(key or previous_key)
        rows.rows.scroll_to(y=scrolled, animate=False)
        rows.rows.focus()
        self._draw_detail()

    # The Conversation tab.

    def open_conversation(self, place: ConversationPlace) -> None:
        """Show a place in the conversation of the session, or of one of its agents."""
        pane = self._conversation
        if pane is None:
            pane = ConversationPane(place, self._scale(place.agent_id), self._pane_title(place))
            self.mount(pane, after="#body")
        else:
            pane.border_title = self._pane_title(place)
            pane.set_scale(self._scale(place.agent_id))
            pane.go_to(place)
        if self.tab is not SessionTab.CONVERSATION:
            rows = self._rows
            self._cursors[self.tab] = (rows.key, rows.rows.scroll_offset.y)
            self._tab_before = self.tab
        self.tab = SessionTab.CONVERSATION
        self.add_class("-conversation")
        self._draw_rows()
        self.call_after_refresh(self._focus_conversation)

    def _focus_conversation(self) -> None:
        if self.tab is SessionTab.CONVERSATION and (pane := self._conversation) is not None:
            pane.view.focus()

    def _show_conversation(self) -> None:
        """Show the conversation where it was, at first at its end."""
        pane = self._conversation
        self.open_conversation(pane.place if pane else ConversationPlace(self._session.session_id))

    def _hide_conversation(self) -> None:
        self.remove_class("-conversation", "-reading")
        self._read_turn_soon()

    def _scale(self, agent_id: str | None) -> ContextScale:
        agents = (each.context for each in self._agents if each.agent_id == agent_id)
        return ContextScale.of(next(agents, None) if agent_id else self._session.context)

    def _pane_title(self, place: ConversationPlace) -> str:
        if place.agent_id is None:
            return "Conversation"
        agents = (each for each in self._agents if each.agent_id == place.agent_id)
        agent = next(agents, None)
        name = f"{agent.agent_type}: {agent.description}" if agent else place.agent_id
        return f"Conversation of agent {one_line(name)}"

    def action_view_turn(self) -> None:
        """Show the conversation at the turn under the timeline's cursor."""
        past = self._past
        offset = past.offset if past else None
        self.open_conversation(ConversationPlace(self._session.session_id, None, offset))

    def action_view_timeline(self) -> None:
        """Go back to the tab before, with the timeline at the turn of the conversation."""
        pane = self._conversation
        place = pane.place if pane else None
        self._open_tab(self._tab_before)
        if place is not None and place.agent_id is None and place.offset is not None:
            self._move_timeline_to(place.offset)

    def _move_timeline_to(self, offset: int) -> None:
        turns = self._timeline.turns if self._timeline else ()
        if turns:
            # A prompt precedes the answer to it.
            turn = bisect_left(turns, offset, key=lambda each: each.last_offset)
            self._graph.move_to(min(turn, len(turns) - 1))

    def action_zoom(self) -> None:
        self.toggle_class("-reading")

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Leave Home and End to the conversation while it is shown."""
        shows_conversation = self.tab is SessionTab.CONVERSATION
        if action == "timeline" and parameters[0] in {TimelineMove.FIRST, TimelineMove.NEWEST}:
            return not shows_conversation
        if action in {"view_timeline", "zoom"}:
            return shows_conversation
        if action == "view_turn":
            return not shows_conversation
        return super().check_action(action, parameters)

    def action_leave(self) -> None:
        pane = self._conversation
        shown = pane is not None and self.tab is SessionTab.CONVERSATION
        if not (pane is not None and shown and pane.end_search()):
            super().action_leave()

    @on(RowList.Opened)
    def _open(self) -> None:
        item, data = self._rows.item, self._shown()
        if isinstance(item, CategoryShare):
            rows = session_tabs.tab_listing(SessionTab.ITEMS, data, 100).rows
            for row in rows:
                if isinstance(row.item, ContextItem) and row.item.kind == item.name:
                    self._open_tab(SessionTab.ITEMS, row.key)
                    return
        elif isinstance(item, ReportedCompaction):
            self.app.push_screen(CompactionDetailScreen(self._session, item))
        elif isinstance(item, ContextWarning):
            self._go_to_turn(item.warning.point.mark)
        elif isinstance(item, CacheMiss) and item.request.agent_id is None:
            self._go_to_turn(item.request.message_id)
        else:
            name = item.name if isinstance(item, ContextItem) else str(self.tab)
            title, content = self._session.title, self._detail(self.size.width)
            screen = ReadingScreen(title, name, content=content, session_id=self.session_id)
            self.app.push_screen(screen)

    def _go_to_turn(self, message_id: str) -> None:
        """Move the cursor of the timeline to an answer."""
        timeline = self._graph.timeline
        for place, turn in enumerate(timeline.turns if timeline else ()):
            if turn.message_id == message_id:
                self._graph.move_to(place)
                return

    def action_copy(self) -> None:
        pane, rows = self._conversation, self._rows
        if pane is not None and self.tab is SessionTab.CONVERSATION:
            if copied := pane.copy_text():
                self.app.copy(*copied)
            return
        if rows.key is None:
            self.app.copy(self._session.session_id, f"id of {one_line(self._session.title)}")
            return
        copied = session_tabs.row_copy_text(rows.item)
        if copied is None:
            shown = session_tabs.tab_listing(self.tab, self._shown(), 100).rows
            copied = "\n".join(row.content.plain.rstrip() for row in shown), "the list"
        self.app.copy(*copied)


def _turn_key(turn: TimelineTurn | None) -> int | None:
    return None if turn is None else turn.last_offset
