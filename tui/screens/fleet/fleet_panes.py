"""The fleet's four panes: sessions, agents, summaries, and the context of a session."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final

from rich.cells import cell_len
from textual.app import ComposeResult
from textual.containers import Horizontal
from textual.content import Content
from textual.message import Message
from textual.style import Style
from textual.timer import Timer
from textual.widgets import Static

from ....core.model.agent import Agent
from ....core.model.attention import attention
from ....core.model.levels import PlacedThreshold
from ....core.model.session import Session
from ....core.model.stored_rows import SummaryRow
from ....core.store.bulkhead import FAILED, NOT_SHOWN, bulkhead
from ....core.transcript.filter_language import split_filter
from ....core.transcript.sanitize import one_line
from ...entities.agent_tree import agent_line, build_agent_tree, measure_tree, session_root_line
from ...text import session_text
from ...text.formats import age, fit_left, fit_right, shorten_end, tokens
from ...text.gauge import EIGHTHS, FULL_CELL, limit_thresholds
from ...text.listing import LazyRow, Row
from ...text.summary_text import summary_lines
from ...text.text_lines import highlight_matches, lost_line, match_pattern
from ...widgets.row_list import RowList
from . import session_list, session_table
from .session_list import EndedHeading, ProjectHeading, SessionArrangement
from .session_table import SessionLine, SessionTableLayout
from .table_layout import COLUMN_GAP

if TYPE_CHECKING:
    from ....core.measure.composition import CategoryShare, Composition, ContextItem
    from ....core.model.problem import Problem
    from ...base.messages import FleetView


ROWS_PER_PAGE: Final = 1_000  # rows laid out at a time: each costs time at every change
MEASURED_ROWS: Final = 200  # rows that decide how wide columns are: all that a screen can show
MEASURE_MS: Final = 10_000  # between two measurements of the same rows: their ages grow slowly
MORE_KEY: Final = f"{session_list.HEADING_PREFIX}{session_list.HEADING_PREFIX}more"
"""The key of the row that shows the next page: no project's heading has it."""


class SessionPane(RowList):
    def __init__(self) -> None:
        super().__init__(id="sessions", number="¹", name="Sessions")
        self._drawn: dict[str, LazyRow] = {}
        self._most = ROWS_PER_PAGE
        self._needs: dict[str, int] = {}  # what the columns needed so far: none moves back
        self._measured: tuple[list[Session], int] | None = None  # and the time in MEASURE_MS

    @property
    def session(self) -> Session | None:
        """The session under the cursor; None on a heading."""
        return self.item if isinstance(self.item, Session) else None

    @property
    def ended(self) -> EndedHeading | None:
        """The heading of the ended sessions, if it is under the cursor."""
        return self.item if isinstance(self.item, EndedHeading) else None

    @property
    def project(self) -> str | None:
        """The project of the heading or the session under the cursor."""
        item = self.item
        return item.project if isinstance(item, (Session, ProjectHeading)) else None

    def show_more(self) -> None:
        self._most += ROWS_PER_PAGE

    def show(
        self,
        entries: Sequence[session_list.SessionListEntry],
        arrangement: SessionArrangement,
        now_ms: int,
    ) -> None:
        """Show these entries; rows that look the same are reused."""
        page, width = entries[: self._most], self.row_width
        sessions = [each for each in page if isinstance(each, Session)]
        self._measure_needs(sessions[:MEASURED_ROWS], now_ms)
        layout = session_table.lay_out_columns(width, self._needs)
        self.set_columns(layout.columns, len(COLUMN_GAP))
        named = session_table.measured_by(sessions)
        marks = _common_thresholds(sessions)
        self.show_header(layout.session_header(marks, arrangement.order, named))
        matched = match_pattern(arrangement.filter.words)
        rows = []
        for entry in page:
            if isinstance(entry, Session):
                line = SessionLine(
                    entry,
                    now_ms,
                    selected=entry.session_id in arrangement.selected,
                    pinned=entry.session_id in arrangement.pins,
                    matched=matched,
                )
                row = _session_row(line, layout)
            else:
                row = _heading_row(entry, width)
            drawn = self._drawn.get(row.key)
            rows.append(drawn if drawn is not None and drawn.looks_like(row) else row)
        if (rest := len(entries) - self._most) > 0:
            words = f"… {rest:,} more: ⏎ shows the next {min(rest, ROWS_PER_PAGE):,}, / filters"
            rows.append(LazyRow(MORE_KEY, words, partial(Content.styled, words, "$quiet")))
        self._drawn = {row.key: row for row in rows}
        self.show_rows(rows)

    def _measure_needs(self, sessions: list[Session], now_ms: int) -> None:
        measured = sessions, now_ms // MEASURE_MS
        if measured == self._measured:
            return
        self._measured = measured
        with bulkhead("the columns of the fleet", FAILED):
            for name, cells in session_table.measure_needs(sessions, now_ms).items():
                self._needs[name] = max(cells, self._needs.get(name, 0))


def _session_row(line: SessionLine, layout: SessionTableLayout) -> LazyRow:
    session, now_ms = line.session, line.now_ms
    with bulkhead(f"row {session.session_id}", NOT_SHOWN):
        # Everything that the line shows.
        age_text = session_text.doing_age(session, now_ms)
        cache = session_text.cache_texts(session, now_ms)
        flags = line.selected, line.pinned, line.matched, attention(session, now_ms)
        look = session, layout, flags, age_text, cache
        write = partial(session_table.session_line, line, layout)
        return LazyRow(session.session_id, look, write, item=session)
    return LazyRow(session.session_id, session, lost_line, item=session)


def _heading_row(heading: ProjectHeading | EndedHeading, width: int) -> LazyRow:
    if isinstance(heading, ProjectHeading):
        write = partial(session_table.project_line, heading, width)
    else:
        write = partial(session_table.ended_line, heading, width)
    return LazyRow(heading.key, (heading, width), write, item=heading)


def _common_thresholds(sessions: Iterable[Session]) -> tuple[PlacedThreshold, ...]:
    """Return the thresholds whose marks are in the same place in every bar, as shares of it."""
    # Sessions of one kind share their thresholds, and comparing these takes long.
    contexts = (session.context for session in sessions)
    shared = {(id(each.thresholds), each.window.limit): each for each in contexts}
    different = set(map(limit_thresholds, shared.values()))
    if not different:
        return ()
    first, *others = different
    return tuple(each for each in first if all(each in thresholds for thresholds in others))


AGENT_TITLE_FRAME: Final = 16  # cells of the border's title beside the session's own
SESSION_ROW_KEY: Final = "/"  # the root's key; an agent's id, part of a file's name, never is it


class AgentPane(RowList):
    def __init__(self) -> None:
        super().__init__(id="agents", number="²", name="Agents")
        self.empty = NO_SESSION
        self._drawn: tuple[object, ...] = ()

    def show(self, session: Session | None, agents: Sequence[Agent], now_ms: int) -> None:
        """Draw the tree of a session's agents, unless it looks the same."""
        width = self.row_width
        look = session, tuple(agents), width, now_ms
        if look == self._drawn:
            return
        self._drawn = look
        if session is None or not agents:
            self.set_titles(Content("² Agents"))
            self.empty = NO_SESSION if session is None else "no agents in this session"
            self.show_rows([])
            return
        title = shorten_end(session.title, max(0, width - AGENT_TITLE_FRAME))
        self.set_titles(Content(f'² Agents of "{title}"'))
        branches = build_agent_tree(agents)
        columns = measure_tree(branches)
        rows = [Row(SESSION_ROW_KEY, session_root_line(session, width))]
        rows += [
            Row(branch.agent.agent_id, agent_line(branch, width, now_ms, columns), branch.agent)
            for branch in branches
        ]
        self.show_rows(rows)


NO_SESSION: Final = "no session is selected"
NO_SUMMARY: Final = "no summaries yet"
SUMMARY_ROW_LINES: Final = 2

CATEGORY_CELLS: Final = 18
SHARE_PERCENT_CELLS: Final = 5
SHARE_TOKEN_CELLS: Final = 8
MIN_SHARE_BAR: Final = 4
MAX_ITEMS: Final = 20  # of the largest; the session's page has more


def context_lines(composition: Composition, window_tokens: int, width: int) -> Iterator[Content]:
    short = f"{tokens(composition.total_tokens)} tokens in context"
    texts = (session_text.composition_total_text(composition), short)
    yield Content.styled(fit_left(session_text.longest_fitting(texts, width), width), "$quiet")
    largest = max((share.tokens for share in composition.categories), default=0)
    for share in composition.categories:
        if share.share >= session_text.MIN_SHARE:
            yield _category_line(share, largest, window_tokens, width)
    for item in composition.largest[:MAX_ITEMS]:
        yield _item_line(item, width)


def _category_line(share: CategoryShare, largest: int, window_tokens: int, width: int) -> Content:
    room = width - CATEGORY_CELLS - SHARE_PERCENT_CELLS - SHARE_TOKEN_CELLS - 1
    cells = max(room, 0) if room >= MIN_SHARE_BAR else 0
    name = max(0, width - cells - SHARE_PERCENT_CELLS - SHARE_TOKEN_CELLS - 1)
    eighths = round(max(share.tokens, 0) / (largest or 1) * cells * 8)
    full, rest = divmod(max(eighths, 1) if share.tokens > 0 and cells else eighths, 8)
    bar = FULL_CELL * full + (EIGHTHS[rest] if rest else "")
    of_window = session_text.window_percent(share.tokens, window_tokens)
    return Content.assemble(
        (fit_left(share.name, name), "$foreground"),
        " ",
        (fit_left(bar, cells), "$accent"),
        (fit_right(of_window, SHARE_PERCENT_CELLS), "$foreground"),
        (fit_right(session_text.share_tokens_text(share), SHARE_TOKEN_CELLS), "$quiet"),
    )


def _item_line(item: ContextItem, width: int) -> Content:
    size = fit_right(f"≈{tokens(item.tokens)}", SHARE_TOKEN_CELLS)
    superseded = f" {item.superseded}" if item.superseded else ""
    room = max(0, width - len(size) - 2)
    superseded_cells = min(len(superseded), room // 2)
    return Content.assemble(
        (f"  {fit_left(item.name, room - superseded_cells)}", "$foreground"),
        (fit_left(superseded, superseded_cells), "$level-notice"),
        (size, "$quiet"),
    )


SETTLE_S: Final = 0.3  # how long the cursor rests before a context is read: often it only passes
REFRESH_S: Final = 5.0  # between two readings of a session that grows: each reads its transcript
CACHED_SESSIONS: Final = 32
CONTEXT_TITLE_FRAME: Final = 22  # cells of the border's title beside the session's own
SessionState = tuple[str, int | None, int | None]  # id, tokens, last activity


class ContextPane(RowList):
    @dataclass
    class CompositionRequested(Message):
        session: Session

    def __init__(self) -> None:
        super().__init__(id="fills", number="⁴", name="Breakdown")
        self._compositions: dict[str, tuple[SessionState, Composition | str]] = {}
        self._session: Session | None = None
        self._requested: SessionState | None = None
        self._timer: Timer | None = None
        self._drawn: tuple[object, ...] = ()

    def show(self, session: Session | None) -> None:
        """Show what is known about a session's context, and request it if that is outdated."""
        previous, self._session = self._session, session
        has_moved = (session and session.session_id) != (previous and previous.session_id)
        if has_moved and self._timer is not None:
            self._timer.stop()
            self._timer = None
        self._draw()
        if session is None or not self.region.height:
            return
        known = self._compositions.get(session.session_id)
        if self._timer is None and (known is None or known[0] != _session_state(session)):
            delay = SETTLE_S if known is None or has_moved else REFRESH_S
            self._timer = self.set_timer(delay, self._request)

    def show_composition(self, session: Session, found: Composition | Problem) -> None:
        from ....core.model.problem import Problem

        shown = one_line(found.what) if isinstance(found, Problem) else found
        self._compositions.pop(session.session_id, None)
        self._compositions[session.session_id] = (_session_state(session), shown)
        while len(self._compositions) > CACHED_SESSIONS:
            self._compositions.pop(next(iter(self._compositions)))
        self._draw()

    def _request(self) -> None:
        self._timer = None
        session = self._session
        if session is not None and self._requested != _session_state(session):
            self._requested = _session_state(session)
            self.post_message(self.CompositionRequested(session))

    def _draw(self) -> None:
        session, width = self._session, self.row_width
        known = self._compositions.get(session.session_id, (None, ""))[1] if session else ""
        look = session and session.title, known, width
        if look == self._drawn:
            return
        self._drawn = look
        name = "it"
        if session:
            name = f'"{shorten_end(session.title, max(0, width - CONTEXT_TITLE_FRAME))}"'
        self.set_titles(Content(f"⁴ Breakdown of {name}"))
        if isinstance(known, str):
            self.empty = known or ("reading its transcript …" if session else NO_SESSION)
            self.show_rows([])
            return
        window = session.context.window.tokens if session else 0
        lines = context_lines(known, window, width)
        self.show_rows([Row(str(n), line) for n, line in enumerate(lines)])


def _session_state(session: Session) -> SessionState:
    return session.session_id, session.context.tokens, session.last_activity_at


MIN_FACT_CELLS: Final = 8  # less of a project, a branch or a prompt says nothing


def session_detail(session: Session, width: int, now_ms: int) -> Content:
    """Write the whole title, what is waited for, the project, the branch and the last prompt.

    Where the next prompt rewrites much to a cold cache, say so before the project.
    """
    parts = [(shorten_end(session.title, width), "bold $foreground")]
    room = width - cell_len(parts[0][0])
    for texts, style in session_text.session_facts(session, now_ms):
        if any(texts) and room >= MIN_FACT_CELLS + 3:
            shown = shorten_end(session_text.longest_fitting(texts, room - 3), room - 3)
            parts += [(" · ", "$quiet"), (shown, style)]
            room -= 3 + cell_len(shown)
    return Content.assemble(*parts)


class SessionDetail(Static):
    """The line under the list: what the row of the session under the cursor has no room for."""

    def __init__(self) -> None:
        super().__init__(id="detail", markup=False)
        self._drawn: tuple[Session | None, int, tuple[str, ...]] = (None, 0, ())

    def show(self, session: Session | None, now_ms: int) -> None:
        width = max(0, self.size.width - 2)  # its padding
        look = session, width, session_text.cold_texts(session, now_ms) if session else ()
        if look != self._drawn:
            self._drawn = look
            self.update(session_detail(session, width, now_ms) if session else "")


PANE_NAMES: Final = {
    "sessions": "Sessions",
    "agents": "Agents",
    "summaries": "Summaries",
    "fills": "Breakdown",
}
PANE_NUMBERS: Final = {"sessions": "¹", "agents": "²", "summaries": "³", "fills": "⁴"}
"""By the pane's id."""


class LowerPanes(Horizontal):
    def __init__(self) -> None:
        super().__init__(id="lower")

    def compose(self) -> ComposeResult:
        yield AgentPane()
        yield RowList(id="summaries", number="³", name="Summaries")
        yield ContextPane()

    def show_session(self, session: Session | None, view: FleetView, now_ms: int) -> None:
        if view.request.session_id == (session.session_id if session else None):
            self.query_one(AgentPane).show(session, view.agents, now_ms)
        self.query_one(ContextPane).show(session)

    def show_summaries(
        self, view: FleetView, titles: Mapping[str, str], search: str, now_ms: int
    ) -> None:
        """Show the view's summaries; `titles` are those of their sessions."""
        pane = self.query_one("#summaries", RowList)
        pane.empty = f"no summary has the words “{search}”; Esc shows all" if search else NO_SUMMARY
        pane.set_titles(Content(f"³ Summaries /{search}" if search else "³ Summaries"))
        width = pane.row_width
        matched = match_pattern(word.text for word in split_filter(search) if not word.is_negated)
        pane.show_rows(
            [_summary_row(row, titles, width, now_ms, matched) for row in view.summaries]
        )

    def name_panes(self, *, narrow: bool, short: bool) -> None:
        """If panes share a place, list them all as tabs on the border, to click on."""
        tabs = Content("  ").join(
            Content.styled(
                f"{number} {PANE_NAMES[name]}",
                Style.from_meta({"@click": f"screen.pane('{name}')"}),
            )
            for name, number in PANE_NUMBERS.items()
            if short or name != "sessions"
        )
        for pane in self.query(RowList):
            pane.set_titles(subtitle=tabs if narrow or short else Content(""))


def _summary_row(
    row: SummaryRow,
    titles: Mapping[str, str],
    width: int,
    now_ms: int,
    matched: re.Pattern[str] | None,
) -> LazyRow:
    # Everything that its lines show; the text of a stored summary never changes.
    title, age_text = titles.get(row.session_id), age(row.at, now_ms)
    look = row.summary_id, row.estimated_tokens, title, age_text, width, matched

    def write() -> Content:
        return highlight_matches(summary_lines(row, titles, width, now_ms), matched)

    return LazyRow(str(row.summary_id), look, write, SUMMARY_ROW_LINES, row)
