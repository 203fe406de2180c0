"""A session's page: its context over its turns, the breakdown, the sources of its numbers."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, ClassVar, Final

from textual import on
from textual.binding import BindingType
from textual.containers import Horizontal, VerticalScroll
from textual.content import Content
from textual.timer import Timer
from textual.widget import Widget
from textual.widgets import Static

from ....core.measure.composition import ContextItem
from ....core.measure.timeline import Timeline, TimelineTurn
from ....core.model.session import Session
from ....core.transcript.sanitize import one_line
from ...keymap import bind, bind_hidden
from ...messages import FleetView
from ...text.text_lines import SHORT_TAB_NAMES, SessionTab
from ...text.timeline_text import turn_events_line, turn_line
from ...widgets.header_footer import TabBar
from ...widgets.row_list import RowList, Rows
from ...widgets.timeline_picture import TimelineMove
from ...widgets.timeline_view import TimelineView, timeline_keys
from ..page import Page
from . import session_tabs as sections
from .compaction_rows import find_compaction, find_steering
from .context_breakdown import find_item, first_item_key, item_detail, row_category
from .session_details import (
    SessionDetails,
    TurnDetails,
    TurnDetailsCache,
    read_session_details,
    read_turn_details,
)
from .session_tabs import find_warning, session_header

if TYPE_CHECKING:
    from ....core.model.agent import Agent
    from ....core.model.problem import Problem


CURSOR_SETTLE_S: Final = 0.12  # the cursor stands still for so long before a file is read for it
TABS: Final = tuple(SessionTab)


class SessionScreen(Page):
    """Shows the shell at once, what the store has within a frame, then what the file tells."""

    CSS_PATH = "session.tcss"
    HORIZONTAL_BREAKPOINTS = [(0, "-narrow"), (110, "-wide")]  # noqa: RUF012 -- Textual's
    VERTICAL_BREAKPOINTS = [  # noqa: RUF012
        (0, "-tiny"),
        (16, "-short"),
        (22, "-low"),
        (34, "-tall"),
        (50, "-high"),
    ]
    BINDINGS: ClassVar[list[BindingType]] = [
        *timeline_keys("timeline", priority=True),
        *(
            bind_hidden(
                str(place), f"part({place - 1})", part, f"show: {part}", f"part_{part.lower()}"
            )
            for place, part in enumerate(TABS, 1)
        ),
        bind_hidden("tab", "next_part(1)", "Next", "the next part", "next_part", key_display="⇥"),
        bind_hidden("shift+tab", "next_part(-1)", "Before", "the part before", "part_before"),
        bind(
            "y",
            "copy",
            "Copy",
            "copy what is marked; of a compaction what was forgotten, as a prompt",
            "copy",
        ),
    ]

    def __init__(self, session: Session) -> None:
        super().__init__(session.title, session_id=session.session_id)
        self._session = session
        self._agents: tuple[Agent, ...] = ()
        self._known: SessionDetails | None = None
        self._timeline: Timeline | None = None
        self._moments: Final = TurnDetailsCache()
        self._last: TurnDetails | None = None
        """The moment that was shown last: rows stay while others are looked up."""
        self._part = SessionTab.BREAKDOWN
        self._keys: list[str] = []
        """Of the rows that are shown, in their order."""
        self._places: Final[dict[SessionTab, tuple[str | None, float]]] = {}
        self._texts: Final[dict[int, str]] = {}
        self._resting: Timer | None = None
        self._is_asking = False
        self._is_stale = False

    def compose_page(self) -> Iterable[Widget]:
        yield Static(id="head", markup=False)
        yield TimelineView(id="timeline")
        yield Static(id="turn", markup=False)
        yield Static(id="happened", markup=False)
        yield TabBar([str(place) for place, _ in enumerate(TABS, 1)], id="parts")
        with Horizontal(id="body"):
            yield RowList(id="rows", number="", name="")
            with VerticalScroll(id="beside", can_focus=False):
                yield Static(id="detail", markup=False)

    def on_mount(self) -> None:
        self._graph.can_focus = False
        self._rows.rows.focus()
        self.draw()
        self._read()

    @property
    def is_complete(self) -> bool:
        """All that was asked for is shown."""
        return (
            self._known is not None
            and self._timeline is not None
            and self._moments.get(self._past) is not None
            and not self._is_asking
            and self._resting is None
        )

    @property
    def details(self) -> SessionDetails:
        return self._known or SessionDetails()

    @property
    def tab(self) -> SessionTab:
        return self._part

    @property
    def turn_details(self) -> TurnDetails | None:
        """What is known of the turn that is looked at; of the one before while it is looked up.

        None where nothing was looked up yet.
        """
        return self._last

    # What is known.

    def show_view(self, view: FleetView) -> None:
        """Ask again where the session has changed."""
        found = next((each for each in view.sessions if each.session_id == self.session_id), None)
        agents = view.agents if view.request.session_id == self.session_id else self._agents
        if found is None or (found == self._session and agents == self._agents):
            return
        grown = found.last_activity_at != self._session.last_activity_at
        self._session, self._agents = found, agents
        self.set_crumbs(found.title)
        self._is_stale = self._is_stale or grown
        self._read()

    def _read(self) -> None:
        from ....core.store.readers.timeline_reader import read_timeline

        session, before, known = self._session, self._timeline, self._known
        owner, policies = (session.session_id, None), self.app.feed.policies
        failed = frozenset(
            each.agent_id for each in self._agents if each.compliance and each.compliance.failed
        )
        self.ask(
            lambda db: (
                read_session_details(db, session, policies, known),
                read_timeline(db, owner, session.context, failed, before),
            ),
            self._take,
        )

    def _take(self, found: tuple[SessionDetails, Timeline]) -> None:
        from ....core.measure.timeline import is_continuation, with_current_context

        before, self._known, self._timeline = self._timeline, *found
        if before is not None and not is_continuation(self._timeline, before):
            # The file was written anew: its places are others.
            self._moments.clear()
            self._texts.clear()
            self._last = None
        now = self._session
        self._graph.show(with_current_context(self._timeline, now.context, now.last_activity_at))
        self.draw()
        self._rest()

    # The turn that is looked at.

    @on(TimelineView.Scrubbed)
    def _scrubbed(self) -> None:
        self.draw()
        self._rest()

    def action_timeline(self, move: str) -> None:
        self._graph.move(TimelineMove(move))

    def _rest(self) -> None:
        """Look the turn up once the cursor stands still."""
        if self._resting is not None:
            self._resting.stop()
        self._resting = self.set_timer(CURSOR_SETTLE_S, self._look_up)

    def _look_up(self) -> None:
        self._resting = None
        past, newest = self._past, self._newest
        is_known = self._moments.get(past) is not None and not (past is None and self._is_stale)
        if is_known or self._is_asking:
            return
        self._is_asking = True
        if past is None:
            self._is_stale = False
        session_id, projects = self._session.session_id, self.app.places.folder.projects
        self.look_up(
            lambda db: read_turn_details(db, projects, session_id, newest, past),
            lambda found: self._take_moment(past, found),
        )

    def _take_moment(self, past: TimelineTurn | None, found: TurnDetails | Problem) -> None:
        self._is_asking = False
        self._moments.put(
            past, found if isinstance(found, TurnDetails) else TurnDetails(problem=str(found))
        )
        self.draw()
        # Meanwhile another turn may be looked at.
        self._look_up()

    @property
    def _past(self) -> TimelineTurn | None:
        """The turn that is looked at; None where that is now."""
        timeline, turn = self._graph.timeline, self._graph.turn
        return timeline.turns[turn] if timeline and turn is not None else None

    @property
    def _newest(self) -> TimelineTurn | None:
        timeline = self._timeline
        return timeline.turns[-1] if timeline and timeline.turns else None

    # Drawing.

    def on_resize(self) -> None:
        self.call_after_refresh(self.draw)

    @on(RowList.Highlighted)
    def _draw_detail(self) -> None:
        shown = self._shown()
        key = self._rows.key
        detail = (
            sections.tab_detail(self._part, shown, key, self._beside_width) if key else Content("")
        )
        item = self._item
        if item is not None and self._part is SessionTab.ITEMS:
            detail = item_detail(item, self._text_of(item))
        self.query_one("#detail", Static).update(detail)

    @on(RowList.Highlighted)
    def _scroll_detail_home(self) -> None:
        self.query_one("#beside").scroll_home(animate=False)

    def draw(self) -> None:
        if not self.is_attached:
            return
        timeline, turn = self._graph.timeline, self._graph.turn
        moment, width = self._moments.get(self._past), self.size.width
        self._last = moment or self._last
        self.query_one("#head", Static).update(
            session_header(self._session, self._past, width, self.app.now_ms())
        )
        if timeline is not None and timeline.turns:
            calls = moment.calls if moment else None
            self.query_one("#turn", Static).update(turn_line(timeline, turn, width - 2))
            self.query_one("#happened", Static).update(turn_events_line(timeline, turn, calls))
        self._draw_rows()

    def _draw_rows(self) -> None:
        shown, rows = self._shown(), self._rows
        listing = sections.tab_listing(self._part, shown, rows.row_width or self.size.width)
        is_read = self._moments.get(self._past) is not None or shown.moment is None
        note = "" if is_read else sections.READING_TRANSCRIPT
        rows.set_titles(Content(sections.tab_title(self._part, shown)), Content(note))
        rows.empty = listing.empty
        rows.show_header(listing.head)
        rows.show_rows(listing.rows)
        self._keys = [row.key for row in listing.rows]
        named = [
            f"{name} {count}" if count else name
            for name, count in zip(TABS, sections.tab_counts(shown), strict=True)
        ]
        self.query_one(TabBar).show(TABS.index(self._part), named, TABS, SHORT_TAB_NAMES)
        self._draw_detail()

    def _shown(self) -> sections.SessionTabData:
        return sections.SessionTabData(
            session=self._session,
            details=self.details,
            moment=self.turn_details,
            is_past=self._past is not None,
            now_ms=self.app.now_ms(),
        )

    @property
    def _graph(self) -> TimelineView:
        return self.query_one(TimelineView)

    @property
    def _rows(self) -> RowList:
        return self.query_one("#rows", RowList)

    @property
    def _beside_width(self) -> int:
        return max(1, self.query_one("#beside").scrollable_content_region.width)

    # The parts.

    @on(TabBar.Chosen)
    def _choose_part(self, event: TabBar.Chosen) -> None:
        self.action_part(event.place)

    def action_next_part(self, step: int) -> None:
        self.action_part((TABS.index(self._part) + step) % len(TABS))

    def action_part(self, place: int) -> None:
        self._open_part(TABS[place])

    def _mark(self, key: str | None) -> None:
        """Mark a row, where it is there."""
        if key in self._keys:
            self._rows.rows.highlighted = self._keys.index(key)

    def _open_part(self, part: SessionTab, key: str | None = None) -> None:
        rows = self._rows
        self._places[self._part] = (rows.key, rows.rows.scroll_offset.y)
        self._part = part
        self._draw_rows()
        marked, scrolled = self._places.get(part, (None, 0.0))
        self._mark(key or marked)
        rows.rows.scroll_to(y=scrolled, animate=False)
        rows.rows.focus()
        self._draw_detail()

    @on(Rows.RoomChanged)
    def _draw_for_room(self) -> None:
        self._draw_rows()

    @on(RowList.Opened)
    def _open(self, event: RowList.Opened) -> None:
        """Show more of the marked row, which is another thing in each part."""
        shown = self._shown()
        if self._part is SessionTab.BREAKDOWN and shown.composition is not None:
            key = first_item_key(shown.composition, row_category(event.key))
            if key is not None:
                self._open_part(SessionTab.ITEMS, key)
        elif self._part is SessionTab.COMPACTIONS:
            self._open_lens(event.key)
        elif self._part is SessionTab.WARNINGS:
            self._go_to_warning(event.key)
        else:
            self._read_whole(event.key)

    def _read_whole(self, key: str) -> None:
        from ..page import ReadingScreen

        item = self._item
        if self._part is SessionTab.ITEMS and item is not None:
            content, name = item_detail(item, self._text_of(item)), item.name
        else:
            width = self.size.width
            content, name = (
                sections.tab_detail(self._part, self._shown(), key, width),
                str(self._part),
            )
        title, session_id = self._session.title, self.session_id
        self.app.push_screen(ReadingScreen(title, name, content=content, session_id=session_id))

    def _open_lens(self, key: str) -> None:
        from .compaction_detail_screen import CompactionDetailScreen

        found = find_compaction(self.details, key)
        if found is not None:
            row, told = found
            asked = find_steering(self.details, key)
            self.app.push_screen(CompactionDetailScreen(self._session, row, told, asked))

    def _go_to_warning(self, key: str) -> None:
        one, timeline = find_warning(self.details.warnings, key), self._graph.timeline
        if one is None or timeline is None:
            return
        point = one.warning.point
        place = next(
            (n for n, turn in enumerate(timeline.turns) if turn.message_id == point.mark), None
        )
        if place is not None:
            self._graph.move_to(place)

    # The largest items' texts.

    @property
    def _item(self) -> ContextItem | None:
        moment, key = self.turn_details, self._rows.key
        if moment is None or moment.composition is None or key is None:
            return None
        return find_item(moment.composition, key)

    def _text_of(self, item: ContextItem) -> str:
        if item.line is None:
            return ""
        found = self._texts.get(item.line)
        if found is not None:
            return found
        self._texts[item.line] = sections.READING_TRANSCRIPT
        session_id, projects, line = (
            self._session.session_id,
            self.app.places.folder.projects,
            item.line,
        )
        self.look_up(
            lambda db: sections.read_item_text(db, projects, session_id, line),
            lambda text: self._take_text(line, text),
        )
        return sections.READING_TRANSCRIPT

    def _take_text(self, line: int, text: str | Problem) -> None:
        self._texts[line] = str(text)
        self._draw_detail()

    def action_copy(self) -> None:
        key = self._rows.key
        if key is not None:
            text, what = sections.tab_copy_text(self._part, self._shown(), key)
            self.app.copy(text, what)
        else:
            self.app.copy(self._session.session_id, f"id of {one_line(self._session.title)}")
