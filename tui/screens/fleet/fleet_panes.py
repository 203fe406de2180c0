"""The fleet's four panes: sessions, agents, summaries, and the marked session's context."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final

from textual.app import ComposeResult
from textual.containers import Horizontal
from textual.content import Content
from textual.message import Message
from textual.style import Style
from textual.timer import Timer

from ....core.measure.composition import CategoryShare, Composition, ContextItem
from ....core.measure.levels import PlacedThreshold
from ....core.model.agent import Agent
from ....core.model.session import Session
from ....core.store.queries.query_rows import SummaryRow
from ....core.transcript.sanitize import one_line
from ...text.formats import age, fit_left, fit_right, percent, shorten_middle, tokens
from ...text.gauge import EIGHTHS, FULL_CELL
from ...text.session_text import (
    MIN_SHARE,
    cache_texts,
    composition_total_text,
    doing_age,
    longest_fitting,
    share_tokens_text,
)
from ...text.summary_text import summary_lines
from ...widgets.row_list import LazyRow, Row, RowList
from ..agents.agent_tree import agent_line, build_agent_tree, measure_tree, session_root_line
from .session_arrangement import (
    HEADING_PREFIX,
    ProjectHeading,
    SessionArrangement,
    SessionListEntry,
    SessionOrder,
)
from .session_table import (
    SessionFlags,
    SessionTableLayout,
    lay_out_columns,
    project_line,
    session_line,
)

if TYPE_CHECKING:
    from ....core.model.problem import Problem
    from ...messages import FleetView


ROWS_PER_PAGE: Final = 1_000
"""Rows that are laid out at a time: nobody reads further, and each costs time at every change."""

MORE_KEY: Final = f"{HEADING_PREFIX}{HEADING_PREFIX}more"
"""The key of the row that shows the next page: a heading's, of a project that cannot be."""

_NO_FLAGS: Final = SessionFlags()


class SessionPane(RowList):
    def __init__(self, *, id: str, number: str, name: str) -> None:  # noqa: A002 -- Textual's
        super().__init__(id=id, number=number, name=name)
        self._drawn: dict[str, LazyRow] = {}
        self._most = ROWS_PER_PAGE

    @property
    def session_id(self) -> str | None:
        """The marked session; None where a heading is marked."""
        key = self.key
        return None if key is None or key.startswith(HEADING_PREFIX) else key

    @property
    def project(self) -> str | None:
        key = self.key
        is_heading = key is not None and key.startswith(HEADING_PREFIX) and key != MORE_KEY
        return key.removeprefix(HEADING_PREFIX) if key and is_heading else None

    def show_more(self) -> None:
        """Lay out one page more from the next drawing on."""
        self._most += ROWS_PER_PAGE

    def mark_heading(self, project: str) -> None:
        self.highlight(f"{HEADING_PREFIX}{project}")

    def show(
        self, entries: Sequence[SessionListEntry], arrangement: SessionArrangement, now_ms: int
    ) -> None:
        """Draw these in this order; a line that says what it said is kept."""
        page = entries[: self._most]
        sessions = (each for each in page if not isinstance(each, ProjectHeading))
        layout, room = lay_out_columns(self.row_width), self.row_width
        self.show_header(layout.header(_common_levels(sessions), arrangement.order))
        rows = [
            self._kept(
                _project_row(entry, room)
                if isinstance(entry, ProjectHeading)
                else _session_row(entry, layout, arrangement, now_ms)
            )
            for entry in page
        ]
        if len(entries) > self._most:
            rows.append(_more_row(len(entries) - self._most))
        self._drawn = {row.key: row for row in rows}
        self.show_rows(rows)

    def order_at(self, x: int) -> SessionOrder | None:
        """Return the order that a click on the header selects, None if there is none."""
        return lay_out_columns(self.row_width).order_at(x)

    def _kept(self, row: LazyRow) -> LazyRow:
        before = self._drawn.get(row.key)
        return before if before is not None and before.looks_like(row) else row


def _project_row(heading: ProjectHeading, room: int) -> LazyRow:
    return LazyRow(heading.key, (heading, room), partial(project_line, heading, room))


def _more_row(count: int) -> LazyRow:
    words = f"… {count:,} more: ⏎ shows the next {min(count, ROWS_PER_PAGE):,}, / filters"
    return LazyRow(MORE_KEY, words, lambda: Content.styled(words, "$quiet"))


def _session_row(
    session: Session, layout: SessionTableLayout, how: SessionArrangement, now_ms: int
) -> LazyRow:
    name = session.session_id
    flags = _NO_FLAGS
    if how.selected or how.pins:
        flags = SessionFlags(name in how.selected, name in how.pins)
    # All that a line shows.
    look = session, layout, flags, doing_age(session, now_ms), cache_texts(session, now_ms)
    return LazyRow(name, look, partial(session_line, session, layout, now_ms, flags))


def _common_levels(sessions: Iterable[Session]) -> tuple[PlacedThreshold, ...]:
    """Name the marks that stand in one place in every bar."""
    # Sessions of one kind share their lines, and to compare what lines hold takes long.
    shared = {id(lines): lines for lines in (session.context.thresholds for session in sessions)}
    every = set(shared.values())
    if not every:
        return ()
    first, *others = every
    return tuple(line for line in first if all(line in lines for lines in others))


AGENT_TITLE_FRAME: Final = 16  # cells of the border's title beside the session's own
SESSION_ROW_KEY: Final = "/"
"""Key of the root; an agent's id is part of a file's name, which never has it."""


class AgentPane(RowList):
    def __init__(self, *, id: str, number: str, name: str) -> None:  # noqa: A002 -- Textual's
        super().__init__(id=id, number=number, name=name)
        self._drawn: tuple[object, ...] = ()

    def show(self, session: Session | None, agents: Sequence[Agent], now_ms: int) -> None:
        """Draw the tree of one session; the same tree is not drawn again."""
        look = session, tuple(agents), self.row_width, now_ms
        if look == self._drawn:
            return
        self._drawn = look
        self.show_header(Content(""))
        if session is None or not agents:
            self.set_titles(Content("² Agents"))
            self.empty = "no session is marked" if session is None else "no agents in this session"
            self.show_rows([])
            return
        title = shorten_middle(session.title, max(0, self.row_width - AGENT_TITLE_FRAME))
        self.set_titles(Content(f'² Agents of "{title}"'))
        rows = [Row(SESSION_ROW_KEY, session_root_line(session, self.row_width))]
        branches = build_agent_tree(agents)
        columns = measure_tree(branches)
        rows += [
            Row(branch.agent.agent_id, agent_line(branch, self.row_width, now_ms, columns))
            for branch in branches
        ]
        self.show_rows(rows)


SUMMARY_ROW_LINES: Final = 2  # of a row


class SummaryPane(RowList):
    def show(self, rows: Sequence[SummaryRow], titles: Mapping[str, str], now_ms: int) -> None:
        """Draw these summaries in this order; `titles` names their sessions."""
        self.show_header(Content(""))
        room = self.row_width
        self.show_rows([_summary_row(row, titles, room, now_ms) for row in rows])


def _summary_row(row: SummaryRow, titles: Mapping[str, str], room: int, now_ms: int) -> LazyRow:
    since = age(row.at, now_ms)
    # All that its lines show; a stored summary's text stays as it is.
    look = row.summary_id, row.estimated_tokens, titles.get(row.session_id), since, room
    write = partial(summary_lines, row, titles, room, now_ms)
    return LazyRow(str(row.summary_id), look, write, SUMMARY_ROW_LINES)


CATEGORY_CELLS: Final = 18
SHARE_PERCENT_CELLS: Final = 5
SHARE_TOKEN_CELLS: Final = 8
MIN_SHARE_BAR: Final = 4
MAX_ITEMS: Final = 20  # of the largest; the session's page has more


def context_lines(found: Composition, width: int) -> Iterator[Content]:
    """Write the lines, each `width` cells long."""
    short = f"{tokens(found.total_tokens)} tokens in context"
    yield Content.styled(
        fit_left(longest_fitting((composition_total_text(found), short), width), width), "$quiet"
    )
    for share in found.categories:
        if share.share >= MIN_SHARE:
            yield _category_line(share, width)
    for item in found.largest[:MAX_ITEMS]:
        yield _item_line(item, width)


def _category_line(share: CategoryShare, width: int) -> Content:
    room = width - CATEGORY_CELLS - SHARE_PERCENT_CELLS - SHARE_TOKEN_CELLS - 1
    bar = max(room, 0) if room >= MIN_SHARE_BAR else 0
    name = max(0, width - bar - SHARE_PERCENT_CELLS - SHARE_TOKEN_CELLS - 1)
    return Content.assemble(
        (fit_left(share.name, name), "$foreground"),
        " ",
        (fit_left(_share_bar(share.share, bar), bar), "$accent"),
        (fit_right(percent(share.share), SHARE_PERCENT_CELLS), "$foreground"),
        (fit_right(share_tokens_text(share), SHARE_TOKEN_CELLS), "$quiet"),
    )


def _share_bar(share: float, cells: int) -> str:
    eighths = round(min(max(share, 0.0), 1.0) * cells * 8)
    full, rest = divmod(max(eighths, 1) if share > 0 and cells else eighths, 8)
    return FULL_CELL * full + (EIGHTHS[rest] if rest else "")


def _item_line(item: ContextItem, width: int) -> Content:
    size = fit_right(f"≈{tokens(item.tokens)}", SHARE_TOKEN_CELLS)
    overtaken = f" {item.superseded}" if item.superseded else ""
    room = max(0, width - len(size) - 2)
    said = min(len(overtaken), room // 2)
    return Content.assemble(
        (f"  {fit_left(item.name, room - said)}", "$foreground"),
        (fit_left(overtaken, said), "$level-notice"),
        (size, "$quiet"),
    )


SETTLE_S: Final = 0.3
"""How long the mark stays before its session is taken apart: a person only passes others."""

REFRESH_S: Final = 5.0  # between two looks at a session that grows: each reads its transcript
CACHED_SESSIONS: Final = 32  # sessions whose answers are kept
CONTEXT_TITLE_FRAME: Final = 22  # cells of the border's title beside the session's own
SessionState = tuple[str, int | None, int | None]
"""A session as it was taken apart: its id, its tokens, when it last did anything."""


class ContextPane(RowList):
    @dataclass
    class CompositionRequested(Message):
        """The marked session is to be taken apart."""

        session: Session

    def __init__(self, *, id: str, number: str, name: str) -> None:  # noqa: A002 -- Textual's
        super().__init__(id=id, number=number, name=name)
        self._found: dict[str, tuple[SessionState, Composition | str]] = {}
        self._session: Session | None = None
        self._asked: SessionState | None = None
        self._timer: Timer | None = None
        self._drawn: tuple[object, ...] = ()

    def show(self, session: Session | None) -> None:
        """Show what is known of a session, and ask for more where that is older."""
        moved = self._id_of(session) != self._id_of(self._session)
        self._session = session
        if moved and self._timer is not None:
            self._timer.stop()
            self._timer = None
        self._draw()
        if session is None or not self.region.height or self._is_known(session):
            return
        if self._timer is None:
            first = session.session_id not in self._found
            self._timer = self.set_timer(SETTLE_S if first or moved else REFRESH_S, self._ask)

    def show_composition(self, session: Session, found: Composition | Problem) -> None:
        """Show how a session was taken apart, or why it cannot be."""
        from ....core.model.problem import Problem

        told = one_line(found.what) if isinstance(found, Problem) else found
        self._found.pop(session.session_id, None)
        self._found[session.session_id] = (_session_state(session), told)
        while len(self._found) > CACHED_SESSIONS:
            self._found.pop(next(iter(self._found)))
        self._draw()

    def _ask(self) -> None:
        self._timer = None
        session = self._session
        if session is not None and self._asked != _session_state(session):
            self._asked = _session_state(session)
            self.post_message(self.CompositionRequested(session))

    def _is_known(self, session: Session) -> bool:
        known = self._found.get(session.session_id)
        return known is not None and known[0] == _session_state(session)

    def _id_of(self, session: Session | None) -> str:
        return session.session_id if session else ""

    def _draw(self) -> None:
        session = self._session
        found = self._found.get(session.session_id, (None, ""))[1] if session else ""
        look = session and session.title, found, self.row_width
        if look == self._drawn:
            return
        self._drawn = look
        self.show_header(Content(""))
        title = (
            shorten_middle(session.title, max(0, self.row_width - CONTEXT_TITLE_FRAME))
            if session
            else ""
        )
        self.set_titles(Content(f'⁴ What fills "{title}"' if session else "⁴ What fills it"))
        if isinstance(found, str):
            waiting = "looking into its transcript …" if session else "no session is marked"
            self.empty = found or waiting
            self.show_rows([])
            return
        lines = enumerate(context_lines(found, self.row_width))
        self.show_rows([Row(str(number), line) for number, line in lines])


def _session_state(session: Session) -> SessionState:
    return session.session_id, session.context.tokens, session.last_activity_at


PANE_NUMBERS: Final = {"sessions": "¹", "agents": "²", "summaries": "³", "fills": "⁴"}
"""Each pane's id, which is its name too, and its number."""


class LowerPanes(Horizontal):
    """Agents, summaries, and what fills the marked session."""

    def __init__(self) -> None:
        super().__init__(id="lower")
        self._agents: tuple[Agent, ...] = ()
        self._summaries: tuple[SummaryRow, ...] = ()

    def compose(self) -> ComposeResult:
        yield AgentPane(id="agents", number="²", name="Agents")
        yield SummaryPane(id="summaries", number="³", name="Summaries")
        yield ContextPane(id="fills", number="⁴", name="What fills it")

    def on_mount(self) -> None:
        self.query_one(AgentPane).empty = "no session is marked"
        self.query_one(SummaryPane).empty = "nothing was returned or kept yet"

    def show_session(self, session: Session | None, view: FleetView, now_ms: int) -> None:
        if view.request.session_id == (session.session_id if session else None):
            self._agents = view.agents
            self.query_one(AgentPane).show(session, view.agents, now_ms)
        self.query_one(ContextPane).show(session)

    def show_summaries(
        self, view: FleetView, titles: Mapping[str, str], search: str, now_ms: int
    ) -> None:
        """Show what was returned and kept, as far as it has the searched words."""
        self._summaries = view.summaries
        pane = self.query_one(SummaryPane)
        pane.empty = (
            f"no summary has the words “{search}”; Esc shows all"
            if search
            else "nothing was returned or kept yet"
        )
        pane.set_titles(Content(f"³ Summaries /{search}" if search else "³ Summaries"))
        pane.show(view.summaries, titles, now_ms)

    def name_panes(self, *, narrow: bool, short: bool) -> None:
        """Where panes share a place, name them all on the border: a click turns to one."""
        names = [name for name in PANE_NUMBERS if short or name != "sessions"]
        tabs = Content("  ").join(
            Content.styled(
                f"{PANE_NUMBERS[name]} {name}",
                Style.from_meta({"@click": f"screen.pane('{name}')"}),
            )
            for name in names
        )
        for pane in self.query(RowList):
            pane.set_titles(subtitle=tabs if narrow or short else Content(""))

    def agent(self, key: str) -> Agent | None:
        return next((agent for agent in self._agents if agent.agent_id == key), None)

    def summary(self, key: str | None) -> SummaryRow | None:
        return next((row for row in self._summaries if str(row.summary_id) == key), None)

    def copy_text(self, pane: str, key: str) -> tuple[str, str]:
        """Return the text to copy and a name for it, both empty for the session's own row."""
        if pane == "fills":
            lines = (row.content.plain.rstrip() for row in self.query_one(ContextPane).rows.shown)
            return "\n".join(lines), "what fills it"
        if pane == "summaries":
            row = self.summary(key)
            return (row.text, "the whole summary") if row else ("", "")
        if key == SESSION_ROW_KEY:
            return "", ""
        agent = self.agent(key)
        text = (agent.result.text if agent and agent.result else None) or key
        return text, f"result of {agent.agent_type}" if agent else key
