"""The table of sessions: the columns that fit a width, its header, a line for each session."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import pairwise
from typing import Final

from textual.content import Content

from ....core.measure.activity import ActivityKind
from ....core.measure.levels import PlacedThreshold
from ....core.model.session import Session, SessionStatus
from ....core.store.readers.fleet_reader import fill_ratio
from ...text.compliance_text import agent_count
from ...text.formats import NOTHING, fit_left, fit_right, model_name, percent, tokens_of_window
from ...text.gauge import (
    LEVEL_STYLES,
    MIN_GAUGE_CELLS,
    PERCENT_CELLS,
    TRIGGER_MARK,
    gauge,
    mark_cells,
)
from ...text.session_text import (
    cache_texts,
    cost_texts,
    doing_age,
    doing_text,
    history_sparkline,
    longest_fitting,
    turns_left_texts,
)
from .session_arrangement import ProjectHeading, SessionOrder

MAX_BAR_CELLS: Final = 40
"""Cells; a longer bar is not read more exactly."""

MIN_TITLE_CELLS: Final = 20
"""Cells; a shorter title no longer tells one session from another."""

MAX_TITLE_CELLS: Final = 56
"""Cells; hardly any title is longer."""

AGE_CELLS: Final = 6
"""59 min, with a space before it."""

COLUMN_GAP: Final = 1

ESSENTIAL_RANK: Final = 3
"""Columns of a higher rank come only where the bar, the title and the state have grown too."""

COMFORTABLE_SPARE: Final = 14
"""Cells by which those grow first."""


@dataclass(frozen=True, slots=True)
class SessionColumn:
    """A column of the table: its head, its cells, and how soon it goes when room is short."""

    name: str
    head: str
    cells: int
    rank: int
    """Columns of the highest rank go first; rank 0 stays."""
    order: SessionOrder | None = None
    """What a click on its head sorts by."""
    right: bool = False
    """Its words stand at its right edge."""


_COLUMNS: Final = (
    SessionColumn("sign", "", 2, 0, SessionOrder.ATTENTION),
    SessionColumn("title", "session", MIN_TITLE_CELLS, 0, SessionOrder.NAME),
    SessionColumn("project", "project", 12, 7, SessionOrder.NAME),
    SessionColumn("model", "model", 10, 6, SessionOrder.NAME),
    SessionColumn("doing", "now", 14, 0, SessionOrder.NEWEST),
    SessionColumn("gauge", "context", MIN_GAUGE_CELLS + PERCENT_CELLS, 0, SessionOrder.FULLEST),
    SessionColumn("fill", "tokens", 15, 8, SessionOrder.FULLEST, right=True),
    SessionColumn("level", "level", 9, 10, SessionOrder.FULLEST),
    SessionColumn("trigger", "trigger", 9, 9, SessionOrder.FULLEST, right=True),
    SessionColumn("until", "turns left", 11, 1, SessionOrder.SOONEST, right=True),
    SessionColumn("trail", "trail", 8, 3),
    SessionColumn("agents", "agents", 6, 2, SessionOrder.NONCOMPLIANT, right=True),
    SessionColumn("compactions", "↻", 3, 2, SessionOrder.COMPACTIONS, right=True),
    SessionColumn("cost", "cost", 8, 4, SessionOrder.COSTLIEST, right=True),
    SessionColumn("cache", "cache", 5, 5),
)

_REFUSAL_COLUMNS: Final = frozenset({"gauge", "level", "fill", "trigger", "until", "trail"})
"""Columns that words take together where a prompt was refused."""

_GROWTH: Final = (
    # What is left over goes to these, so many cells at a time, up to a length; then to the next.
    (("gauge", 3, 18 + PERCENT_CELLS), ("doing", 3, 22), ("title", 2, 26), ("until", 1, 14)),
    (
        ("title", 4, MAX_TITLE_CELLS),
        ("gauge", 3, MAX_BAR_CELLS + PERCENT_CELLS),
        ("doing", 2, 44),
        ("until", 1, 20),
        ("trail", 1, 24),
        ("cache", 1, 12),
    ),
)


@dataclass(frozen=True, slots=True)
class SessionTableLayout:
    """The columns that fit a width, in order."""

    columns: tuple[SessionColumn, ...]

    @property
    def width(self) -> int:
        """Cells of a row."""
        return sum(column.cells for column in self.columns) + COLUMN_GAP * (len(self.columns) - 1)

    @property
    def columns_when_refused(self) -> tuple[SessionColumn, ...]:
        """The same with one wide cell from the bar to what is left: for words instead of them."""
        gauges = [column for column in self.columns if column.name in _REFUSAL_COLUMNS]
        wide = sum(one.cells for one in gauges) + COLUMN_GAP * (len(gauges) - 1)
        return tuple(
            replace(column, cells=wide) if column.name == "gauge" else column
            for column in self.columns
            if column.name == "gauge" or column.name not in _REFUSAL_COLUMNS
        )

    def header(
        self, lines: Iterable[PlacedThreshold] = (), order: SessionOrder | None = None
    ) -> Content:
        """Write the line above the rows; it names the marks of the bars, which are at `lines`."""
        cells = (_column_header(column, tuple(lines)) for column in self.columns)
        words = [
            (cell, "bold $foreground" if _is_sorted_by(column, order) else "$quiet")
            for column, cell in zip(self.columns, cells, strict=True)
        ]
        return Content(" " * COLUMN_GAP).join(Content.styled(*each) for each in words)

    def order_at(self, x: int) -> SessionOrder | None:
        """Return the order that a click on the header selects, None if there is none."""
        start = 0
        for column in self.columns:
            if start <= x < start + column.cells + COLUMN_GAP:
                return column.order
            start += column.cells + COLUMN_GAP
        return None


@lru_cache(maxsize=16)
def lay_out_columns(width: int) -> SessionTableLayout:
    """Choose columns for a width; what is left over makes some of them longer."""
    columns = list(_COLUMNS)
    while _comfortable_width(columns) > width and any(column.rank for column in columns):
        highest = max(column.rank for column in columns)
        columns = [column for column in columns if column.rank != highest]
    # What cannot go must fit all the same: then the title gives, never the bar.
    spare = max(width - _total_width(columns), -MIN_TITLE_CELLS)
    cells = {column.name: column.cells for column in columns}
    if spare < 0:
        cells["title"] += spare
    else:
        _grow_columns(cells, spare)
    return SessionTableLayout(
        tuple(replace(column, cells=cells[column.name]) for column in columns)
    )


def _grow_columns(cells: dict[str, int], spare: int) -> None:
    """Distribute spare cells over the columns that benefit most; the title gets the rest."""
    for step in _GROWTH:
        growing = [each for each in step if each[0] in cells]
        while spare and growing:
            for name, share, most in growing:
                given = min(share, spare, most - cells[name])
                cells[name] += given
                spare -= given
            growing = [each for each in growing if cells[each[0]] < each[2]]
    # Nothing tells more: the title takes it, so that a row is as wide as its pane.
    cells["title"] += spare


def _comfortable_width(columns: list[SessionColumn]) -> int:
    """Count the cells with which these columns are worth having: the bar comes before many."""
    many = any(column.rank > ESSENTIAL_RANK for column in columns)
    return _total_width(columns) + (COMFORTABLE_SPARE if many else 0)


def _total_width(columns: list[SessionColumn]) -> int:
    return sum(column.cells for column in columns) + COLUMN_GAP * (len(columns) - 1)


def _is_sorted_by(column: SessionColumn, order: SessionOrder | None) -> bool:
    return order is not None and column.name == order.column


def _column_header(column: SessionColumn, lines: tuple[PlacedThreshold, ...]) -> str:
    if column.name == "gauge":
        return _gauge_header(column, lines)
    return (fit_right if column.right else fit_left)(column.head, column.cells)


def _gauge_header(column: SessionColumn, lines: tuple[PlacedThreshold, ...]) -> str:
    """Write each mark's percentage above it, then what the trigger's line means."""
    marks = sorted(mark_cells(lines, column.cells - PERCENT_CELLS).items())
    names = [f"{line.at * 100:.0f}" for _, line in marks]
    words = column.head
    starts = [cell for cell, _ in marks]
    if all(later - start > 2 for start, later in pairwise([len(words) - 2, *starts])):
        for start, name in zip(starts, names, strict=True):
            words = f"{words:<{start}}{name}"
    elif marks:
        words = f"{words:<{max(starts[0], len(words) + 1)}}{'/'.join(names)}"
    legend = f" {TRIGGER_MARK}trigger"
    if marks and len(words) + len(legend) <= column.cells:
        words += legend
    return fit_left(words, column.cells)


SELECTED_SIGN: Final = "◆"
PINNED_SIGN: Final = "↑"

SESSION_SIGNS: Final = {
    SessionStatus.BUSY: ("●", "$level-calm"),
    SessionStatus.ACTIVE: ("●", "$level-calm"),
    SessionStatus.WAITING: ("▲", "bold $level-warning"),
    SessionStatus.IDLE: ("○", "$foreground"),
    SessionStatus.TOO_LONG: ("✗", "bold $level-emergency"),
    SessionStatus.ENDED: (" ", "$quiet"),
    SessionStatus.GONE: ("†", "$quiet"),
}
"""State is never told by colour alone."""

_AT_WORK: Final = frozenset({SessionStatus.BUSY, SessionStatus.ACTIVE})


@dataclass(frozen=True, slots=True)
class SessionFlags:
    """What a person said of a session."""

    selected: bool = False
    pinned: bool = False


def session_line(
    session: Session,
    layout: SessionTableLayout,
    now_ms: int,
    flags: SessionFlags = SessionFlags(),
) -> Content:
    """Write a session's line."""
    columns = layout.columns_when_refused if session.too_long else layout.columns
    cells = [_CELLS[column.name](session, column.cells, now_ms) for column in columns]
    if flags.selected or flags.pinned:
        sign = SELECTED_SIGN if flags.selected else PINNED_SIGN
        cells[0] = Content.assemble(_sign(session), (sign, "bold $accent"))
    return Content(" " * COLUMN_GAP).join(cells)


def project_line(heading: ProjectHeading, width: int) -> Content:
    """Write a project's line: how many, who waits, the fullest, and what they have cost."""
    fullest = heading.fullest
    count = len(heading.sessions)
    cost = next(iter(cost_texts(heading.cost)), "")
    said = [
        (f"{count} session{'' if count == 1 else 's'}", "$quiet"),
        (f"▲ {heading.waiting} waiting" if heading.waiting else "", "bold $level-warning"),
        (f"{heading.live} live" if heading.live else "", "$quiet"),
        (f"fullest {percent(fill_ratio(fullest))}", LEVEL_STYLES[fullest.context.level]),
        (cost, "$quiet"),
    ]
    parts: list[tuple[str, str]] = []
    room = width - 2 - min(len(heading.project) + 1, max(8, width // 3))
    for words, style in said:
        if words and len(words) + 3 <= room:
            parts += [(" · ", "$quiet"), (words, style)]
            room -= len(words) + 3
    told = sum(len(words) for words, _ in parts)
    sign = "▸" if heading.folded else "▾"
    name = fit_left(heading.project, min(len(heading.project) * 2, width - 2 - told)).rstrip()
    line = Content.assemble((f"{sign} ", "$accent"), (name, "bold $accent"), *parts)
    return line + " " * max(0, width - line.cell_length)


def status_sign(session: Session) -> tuple[str, str]:
    """Return the sign and the style of the status of a session."""
    return (
        SESSION_SIGNS[SessionStatus.TOO_LONG] if session.too_long else SESSION_SIGNS[session.status]
    )


def _sign(session: Session) -> tuple[str, str]:
    return status_sign(session)


def _sign_cell(session: Session, cells: int, now_ms: int) -> Content:
    sign, style = _sign(session)
    return Content.styled(fit_left(sign, cells), style)


def _title(session: Session, cells: int, now_ms: int) -> Content:
    style = "bold $foreground" if session.live else "$foreground"
    return Content.styled(fit_left(session.title, cells), style)


def _project(session: Session, cells: int, now_ms: int) -> Content:
    return Content.styled(fit_left(session.project, cells), "$quiet")


def _model(session: Session, cells: int, now_ms: int) -> Content:
    return Content.styled(fit_left(model_name(session.model), cells), "$quiet")


def _doing(session: Session, cells: int, now_ms: int) -> Content:
    """Render the activity, with its duration at the right edge."""
    words = doing_text(session, cells - AGE_CELLS - 1)
    took = fit_right(doing_age(session, now_ms), AGE_CELLS)
    return Content.assemble(
        (fit_left(words, cells - AGE_CELLS - 1), _doing_style(session)), " ", (took, "$quiet")
    )


def _doing_style(session: Session) -> str:
    asked = session.activity is not None and session.activity.kind is ActivityKind.PERSON
    if session.status is SessionStatus.WAITING or (session.live and asked):
        return "bold $level-warning"
    return "$foreground" if session.status in _AT_WORK or session.activity else "$quiet"


def _gauge(session: Session, cells: int, now_ms: int) -> Content:
    refused = session.too_long
    if refused is None:
        return gauge(session.context, cells - PERCENT_CELLS)
    choices = ["too long — r recovers", "too long"]
    if refused.prompt_tokens and refused.limit_tokens:
        size = f"too long: {refused.prompt_tokens:,} of {refused.limit_tokens:,}"
        share = f"too long, {percent(refused.prompt_tokens / refused.limit_tokens)}"
        choices = [f"{size} — r recovers", size, share, "too long"]
    return Content.styled(fit_left(longest_fitting(choices, cells), cells), "bold $level-emergency")


def _fill(session: Session, cells: int, now_ms: int) -> Content:
    style = "$quiet" if session.context.tokens is None else "$foreground"
    return Content.styled(fit_right(tokens_of_window(session.context), cells), style)


def _trigger(session: Session, cells: int, now_ms: int) -> Content:
    """Render the context size as a share of the auto-compact trigger."""
    trigger = session.context.trigger
    if trigger is None or session.context.tokens is None:
        return Content(" " * cells)
    words = percent(session.context.trigger_ratio) if trigger.tokens else "not armed"
    return Content.styled(fit_right(words, cells), "$foreground" if trigger.tokens else "$quiet")


def _until(session: Session, cells: int, now_ms: int) -> Content:
    """Render the turns left, blank for a session that has ended."""
    trigger = session.context.trigger
    end = session.outlook.end if session.live else None
    choices = turns_left_texts(end, is_trigger=bool(trigger and trigger.tokens))
    words = longest_fitting(choices, cells) if choices else NOTHING if session.live else ""
    return Content.styled(fit_right(words, cells), "$foreground" if choices else "$quiet")


def _trail(session: Session, cells: int, now_ms: int) -> Content:
    return Content.styled(
        fit_right(history_sparkline(session.recent_contexts, cells), cells), "$pane"
    )


def _level(session: Session, cells: int, now_ms: int) -> Content:
    level = session.context.level
    return Content.styled(fit_left(level.value if level else "", cells), LEVEL_STYLES[level])


def _agents(session: Session, cells: int, now_ms: int) -> Content:
    words = agent_count(session.agents, session.agents_noncompliant)
    style = "$level-warning" if session.agents_noncompliant else "$foreground"
    return Content.styled(fit_right(words, cells), style)


def _compactions(session: Session, cells: int, now_ms: int) -> Content:
    count = session.compactions
    return Content.styled(fit_right(f"↻{count}" if count else "", cells), "$foreground")


def _cost(session: Session, cells: int, now_ms: int) -> Content:
    return Content.styled(
        fit_right(longest_fitting(cost_texts(session.cost), cells), cells), "$foreground"
    )


def _cache(session: Session, cells: int, now_ms: int) -> Content:
    style = "$foreground" if session.cache.is_warm(now_ms) else "$quiet"
    return Content.styled(
        fit_left(longest_fitting(cache_texts(session, now_ms), cells), cells), style
    )


_CELLS: Final[dict[str, Callable[[Session, int, int], Content]]] = {
    "sign": _sign_cell,
    "title": _title,
    "project": _project,
    "model": _model,
    "doing": _doing,
    "gauge": _gauge,
    "fill": _fill,
    "trigger": _trigger,
    "level": _level,
    "until": _until,
    "trail": _trail,
    "agents": _agents,
    "compactions": _compactions,
    "cost": _cost,
    "cache": _cache,
}
