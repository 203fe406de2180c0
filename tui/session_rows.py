"""A session as one line: which columns fit, and what stands in them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from textual.content import Content

from ..core.sessions import Status
from .compliance_words import agent_count
from .formats import age, fit, fit_right, model, percent, turns_left
from .gauge import LEVEL_STYLES, PERCENT_CELLS, SHORTEST, fill, gauge

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..core.sessions import Session

LONGEST_BAR: Final = 30
"""Cells; a longer bar is not read more exactly."""

SHORTEST_TITLE: Final = 20
"""Cells; a shorter title no longer tells one session from another."""

SESSION_SIGNS: Final = {
    Status.BUSY: ("●", "$level-calm"),
    Status.ACTIVE: ("●", "$level-calm"),
    Status.WAITING: ("▲", "bold $level-warning"),
    Status.IDLE: ("○", "$foreground"),
    Status.TOO_LONG: ("✗", "bold $level-emergency"),
    Status.ENDED: (" ", "$quiet"),
    Status.GONE: ("†", "$quiet"),
}
"""State is never told by colour alone."""


@dataclass(frozen=True, slots=True)
class Column:
    """A column of the table: its head, its cells, and how soon it goes when room is short."""

    name: str
    head: str
    cells: int
    rank: int
    """Columns of the highest rank go first; rank 0 stays."""


_COLUMNS: Final = (
    Column("mark", "", 1, 0),
    Column("title", "session", SHORTEST_TITLE, 0),
    Column("project", "project", 13, 6),
    Column("model", "model", 11, 5),
    Column("gauge", "context", SHORTEST + PERCENT_CELLS, 0),
    Column("level", "level", 9, 4),
    Column("fill", "tokens", 15, 2),
    Column("until", "trigger ≈turns", 14, 3),
    Column("agents", "agents", 6, 3),
    Column("compactions", "↻", 3, 3),
    Column("age", "age", 6, 1),
)
_GAP: Final = 1
_ONE_STATEMENT: Final = frozenset({"gauge", "level", "fill", "until"})
_RIGHT: Final = frozenset({"fill", "until", "agents", "compactions", "age"})


@dataclass(frozen=True, slots=True)
class Layout:
    """The columns that fit a width, in order."""

    columns: tuple[Column, ...]

    @property
    def merged(self) -> tuple[Column, ...]:
        """The same with one wide cell from the bar to the tokens: for words instead of them."""
        gauges = [column for column in self.columns if column.name in _ONE_STATEMENT]
        wide = Column("gauge", "", sum(one.cells for one in gauges) + _GAP * (len(gauges) - 1), 0)
        return tuple(
            wide if column.name == "gauge" else column
            for column in self.columns
            if column.name == "gauge" or column.name not in _ONE_STATEMENT
        )

    @property
    def head(self) -> Content:
        """The line above the rows."""
        cells = (
            (fit_right if column.name in _RIGHT else fit)(column.head, column.cells)
            for column in self.columns
        )
        return Content.styled(" ".join(cells), "$quiet")


def lay_out(width: int) -> Layout:
    """Choose columns for a width; the title and the bar share what is left over."""
    columns = list(_COLUMNS)
    while _needed(columns) > width and any(column.rank for column in columns):
        highest = max(column.rank for column in columns)
        columns = [column for column in columns if column.rank != highest]
    # What cannot go must fit all the same: then the title gives, never the bar.
    spare = max(width - _needed(columns), -SHORTEST_TITLE)
    longer_bar = min(max(0, spare * 2 // 5), LONGEST_BAR - SHORTEST)
    extra = {"gauge": longer_bar, "title": spare - longer_bar}
    return Layout(
        tuple(
            Column(column.name, column.head, column.cells + extra.get(column.name, 0), column.rank)
            for column in columns
        )
    )


def session_line(session: Session, layout: Layout, now_ms: int) -> Content:
    """Write a session's line."""
    columns = layout.merged if session.too_long else layout.columns
    return Content(" ").join(
        _CELLS[column.name](session, column.cells, now_ms) for column in columns
    )


def shown_age(session: Session, now_ms: int) -> str:
    """Tell how long ago a session did anything, as its line does."""
    last = session.last_activity_at
    return age(None if last is None else now_ms - last)


def status_mark(session: Session) -> tuple[str, str]:
    """Tell what a session is doing: a sign and its style."""
    return SESSION_SIGNS[session.status]


def _needed(columns: list[Column]) -> int:
    return sum(column.cells for column in columns) + _GAP * (len(columns) - 1)


def _mark(session: Session, cells: int, now_ms: int) -> Content:
    sign, style = SESSION_SIGNS[Status.TOO_LONG] if session.too_long else status_mark(session)
    return Content.styled(fit(sign, cells), style)


def _title(session: Session, cells: int, now_ms: int) -> Content:
    style = "bold $foreground" if session.live else "$foreground"
    return Content.styled(fit(session.title, cells), style)


def _project(session: Session, cells: int, now_ms: int) -> Content:
    return Content.styled(fit(session.project, cells), "$quiet")


def _model(session: Session, cells: int, now_ms: int) -> Content:
    return Content.styled(fit(model(session.model), cells), "$quiet")


def _gauge(session: Session, cells: int, now_ms: int) -> Content:
    refused = session.too_long
    if refused is None:
        return gauge(session.context, cells - PERCENT_CELLS)
    words = "too long"
    if refused.prompt_tokens and refused.limit_tokens:
        words = f"too long: {refused.prompt_tokens:,} of {refused.limit_tokens:,}"
        if len(words) > cells:
            words = f"too long, {percent(refused.prompt_tokens / refused.limit_tokens)}"
    return Content.styled(fit(words, cells), "bold $level-emergency")


def _fill(session: Session, cells: int, now_ms: int) -> Content:
    style = "$quiet" if session.context.tokens is None else "$foreground"
    return Content.styled(fit_right(fill(session.context), cells), style)


def _until(session: Session, cells: int, now_ms: int) -> Content:
    """Tell the counter against the trigger, and of a live session the turns that are left."""
    trigger = session.context.trigger
    if trigger is None or session.context.tokens is None:
        return Content.styled(fit_right("", cells), "$quiet")
    # Of a session that is over nobody waits for the end.
    left = turns_left(session.outlook.end) if session.live and session.outlook.end else ""
    way = percent(session.context.trigger_ratio) if trigger.tokens else "not armed"
    words = f"{way} {left}" if left and trigger.tokens else way
    return Content.styled(fit_right(words, cells), "$foreground" if trigger.tokens else "$quiet")


def _level(session: Session, cells: int, now_ms: int) -> Content:
    level = session.context.level
    return Content.styled(fit(level.value if level else "", cells), LEVEL_STYLES[level])


def _agents(session: Session, cells: int, now_ms: int) -> Content:
    words = agent_count(session.agents, session.agents_failed)
    style = "$level-warning" if session.agents_failed else "$foreground"
    return Content.styled(fit_right(words, cells), style)


def _compactions(session: Session, cells: int, now_ms: int) -> Content:
    count = session.compactions
    return Content.styled(fit_right(f"↻{count}" if count else "", cells), "$foreground")


def _age(session: Session, cells: int, now_ms: int) -> Content:
    return Content.styled(fit_right(shown_age(session, now_ms), cells), "$quiet")


_CELLS: Final[dict[str, Callable[[Session, int, int], Content]]] = {
    "mark": _mark,
    "title": _title,
    "project": _project,
    "model": _model,
    "gauge": _gauge,
    "fill": _fill,
    "until": _until,
    "level": _level,
    "agents": _agents,
    "compactions": _compactions,
    "age": _age,
}
