"""The table of sessions: the columns that fit a width, its header, a line for each session."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import pairwise
from typing import Final

from textual.content import Content

from ....core.measure.activity import ActivityKind
from ....core.measure.levels import PlacedThreshold
from ....core.model.session import Session, SessionStatus
from ....core.store.readers.fleet_reader import fill_ratio
from ...tables import Cell, Column, fitting_columns, total_cells
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
from ...text.text_lines import FOLD_SIGNS, Drawing, ScreenColumn, header_line, item_line
from .session_arrangement import ProjectHeading, SessionOrder

MAX_BAR_CELLS: Final = 40  # cells; a longer bar is not read more exactly
MIN_TITLE_CELLS: Final = 20  # cells; a shorter title no longer tells one session from another
MAX_TITLE_CELLS: Final = 56  # cells; hardly any title is longer
AGE_CELLS: Final = 6  # 59 min, with a space before it
COLUMN_GAP: Final = 1

ESSENTIAL_PRIORITY: Final = 3
"""Columns of a higher priority come only where the bar, the title and the state have grown too."""

COMFORTABLE_SPARE: Final = 14  # cells by which those grow first


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

    columns: tuple[ScreenColumn[SessionLine], ...]

    @property
    def width(self) -> int:
        return total_cells(self.columns, COLUMN_GAP)

    @property
    def columns_when_refused(self) -> tuple[ScreenColumn[SessionLine], ...]:
        """The same with one wide cell from the bar to what is left: for words instead of them."""
        gauges = [column for column in self.columns if column.name in _REFUSAL_COLUMNS]
        wide = total_cells(gauges, COLUMN_GAP)
        return tuple(
            replace(column, cells=wide) if column.name == "gauge" else column
            for column in self.columns
            if column.name == "gauge" or column.name not in _REFUSAL_COLUMNS
        )

    def header(
        self, lines: Iterable[PlacedThreshold] = (), order: SessionOrder | None = None
    ) -> Content:
        """Write the line above the rows; it names the marks of the bars, which are at `lines`."""
        sorted_by = order.column if order else None
        heads = (
            _gauge_header(column, tuple(lines)).stylize(style)
            if column.name == "gauge"
            else header_line([column], style=style)
            for column in self.columns
            for style in ("bold $foreground" if column.name == sorted_by else "$quiet",)
        )
        return Content(" " * COLUMN_GAP).join(heads)

    def order_at(self, x: int) -> SessionOrder | None:
        """Return the order that a click on the header selects, None if there is none."""
        start = 0
        for column in self.columns:
            if start <= x < start + column.cells + COLUMN_GAP:
                return _ORDERS.get(column.name)
            start += column.cells + COLUMN_GAP
        return None


@lru_cache(maxsize=16)
def lay_out_columns(width: int) -> SessionTableLayout:
    """Choose columns for a width; what is left over makes some of them longer."""
    columns = fitting_columns(_COLUMNS, width, _comfortable_width)
    # What cannot go must fit all the same: then the title gives, never the bar.
    spare = max(width - total_cells(columns, COLUMN_GAP), -MIN_TITLE_CELLS)
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


def _comfortable_width(columns: Sequence[ScreenColumn[SessionLine]]) -> int:
    """Count the cells with which these columns are worth having: the bar comes before many."""
    many = any(column.priority > ESSENTIAL_PRIORITY for column in columns)
    return total_cells(columns, COLUMN_GAP) + (COMFORTABLE_SPARE if many else 0)


def _gauge_header(column: ScreenColumn[SessionLine], lines: tuple[PlacedThreshold, ...]) -> Content:
    """Write each mark's percentage above it, then what the trigger's line means."""
    marks = sorted(mark_cells(lines, column.cells - PERCENT_CELLS).items())
    names = [f"{line.at * 100:.0f}" for _, line in marks]
    words = column.header
    starts = [cell for cell, _ in marks]
    if all(later - start > 2 for start, later in pairwise([len(words) - 2, *starts])):
        for start, name in zip(starts, names, strict=True):
            words = f"{words:<{start}}{name}"
    elif marks:
        words = f"{words:<{max(starts[0], len(words) + 1)}}{'/'.join(names)}"
    legend = f" {TRIGGER_MARK}trigger"
    if marks and len(words) + len(legend) <= column.cells:
        words += legend
    return Content(fit_left(words, column.cells))


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


@dataclass(frozen=True, slots=True)
class SessionLine:
    """A session as it is drawn at one moment."""

    session: Session
    now_ms: int
    flags: SessionFlags = SessionFlags()


def session_line(
    session: Session,
    layout: SessionTableLayout,
    now_ms: int,
    flags: SessionFlags = SessionFlags(),
) -> Content:
    columns = layout.columns_when_refused if session.too_long else layout.columns
    return item_line(columns, SessionLine(session, now_ms, flags), " " * COLUMN_GAP)


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
    sign = FOLD_SIGNS[heading.folded]
    name = fit_left(heading.project, min(len(heading.project) * 2, width - 2 - told)).rstrip()
    line = Content.assemble((f"{sign} ", "$accent"), (name, "bold $accent"), *parts)
    return line + " " * max(0, width - line.cell_length)


def status_sign(session: Session) -> tuple[str, str]:
    """Return the sign and the style of the status of a session."""
    return (
        SESSION_SIGNS[SessionStatus.TOO_LONG] if session.too_long else SESSION_SIGNS[session.status]
    )


def _sign(line: SessionLine) -> Cell | Drawing:
    sign, style = status_sign(line.session)
    if not (line.flags.selected or line.flags.pinned):
        return Cell(sign, style)
    more = SELECTED_SIGN if line.flags.selected else PINNED_SIGN
    return lambda _: Content.assemble((sign, style), (more, "bold $accent"))


def _title(line: SessionLine) -> Cell:
    return Cell(line.session.title, "bold $foreground" if line.session.live else "$foreground")


def _doing(line: SessionLine) -> Drawing:
    session = line.session

    def draw(cells: int) -> Content:
        room = cells - AGE_CELLS - 1
        took = fit_right(doing_age(session, line.now_ms), AGE_CELLS)
        words = fit_left(doing_text(session, room), room)
        return Content.assemble((words, _doing_style(session)), " ", (took, "$quiet"))

    return draw


def _doing_style(session: Session) -> str:
    asked = session.activity is not None and session.activity.kind is ActivityKind.PERSON
    if session.status is SessionStatus.WAITING or (session.live and asked):
        return "bold $level-warning"
    return "$foreground" if session.status in _AT_WORK or session.activity else "$quiet"


def _gauge(line: SessionLine) -> Drawing:
    refused = line.session.too_long
    if refused is None:
        return lambda cells: gauge(line.session.context, cells - PERCENT_CELLS)
    choices = ["too long — r recovers", "too long"]
    if refused.prompt_tokens and refused.limit_tokens:
        size = f"too long: {refused.prompt_tokens:,} of {refused.limit_tokens:,}"
        share = f"too long, {percent(refused.prompt_tokens / refused.limit_tokens)}"
        choices = [f"{size} — r recovers", size, share, "too long"]
    return lambda cells: Cell(longest_fitting(choices, cells), "bold $level-emergency")


def _fill(line: SessionLine) -> Cell:
    context = line.session.context
    style = "$quiet" if context.tokens is None else "$foreground"
    return Cell(tokens_of_window(context), style)


def _trigger(line: SessionLine) -> Cell:
    """Return the context size as a share of the auto-compact trigger."""
    context = line.session.context
    if context.trigger is None or context.tokens is None:
        return Cell("")
    if not context.trigger.tokens:
        return Cell("not armed", "$quiet")
    return Cell(percent(context.trigger_ratio), "$foreground")


def _until(line: SessionLine) -> Cell | Drawing:
    """Return the turns left, blank for a session that has ended."""
    session = line.session
    trigger = session.context.trigger
    end = session.outlook.end if session.live else None
    choices = turns_left_texts(end, is_trigger=bool(trigger and trigger.tokens))
    if not choices:
        return Cell(NOTHING if session.live else "", "$quiet")
    return lambda cells: Cell(longest_fitting(choices, cells), "$foreground")


def _trail(line: SessionLine) -> Drawing:
    contexts = line.session.recent_contexts
    return lambda cells: Cell(fit_right(history_sparkline(contexts, cells), cells), "$pane")


def _level(line: SessionLine) -> Cell:
    level = line.session.context.level
    return Cell(level.value if level else "", LEVEL_STYLES[level])


def _agents(line: SessionLine) -> Cell:
    failed = line.session.agents_noncompliant
    style = "$level-warning" if failed else "$foreground"
    return Cell(agent_count(line.session.agents, failed), style)


def _compactions(line: SessionLine) -> Cell:
    count = line.session.compactions
    return Cell(f"↻{count}" if count else "", "$foreground")


def _cost(line: SessionLine) -> Drawing:
    return lambda cells: Cell(longest_fitting(cost_texts(line.session.cost), cells), "$foreground")


def _cache(line: SessionLine) -> Drawing:
    session, now_ms = line.session, line.now_ms
    style = "$foreground" if session.cache.is_warm(now_ms) else "$quiet"
    return lambda cells: Cell(longest_fitting(cache_texts(session, now_ms), cells), style)


_COLUMNS: Final[Sequence[ScreenColumn[SessionLine]]] = (
    Column("", _sign, cells=2, name="sign"),
    Column("session", _title, cells=MIN_TITLE_CELLS, name="title"),
    Column(
        "project",
        lambda line: Cell(line.session.project, "$quiet"),
        cells=12,
        priority=7,
        name="project",
    ),
    Column(
        "model",
        lambda line: Cell(model_name(line.session.model), "$quiet"),
        cells=10,
        priority=6,
        name="model",
    ),
    Column("now", _doing, cells=14, name="doing"),
    Column("context", _gauge, cells=MIN_GAUGE_CELLS + PERCENT_CELLS, name="gauge"),
    Column("tokens", _fill, right=True, cells=15, priority=8, name="fill"),
    Column("level", _level, cells=9, priority=10, name="level"),
    Column("trigger", _trigger, right=True, cells=9, priority=9, name="trigger"),
    Column("turns left", _until, right=True, cells=11, priority=1, name="until"),
    Column("trail", _trail, cells=8, priority=3, name="trail"),
    Column("agents", _agents, right=True, cells=6, priority=2, name="agents"),
    Column("↻", _compactions, right=True, cells=3, priority=2, name="compactions"),
    Column("cost", _cost, right=True, cells=8, priority=4, name="cost"),
    Column("cache", _cache, cells=5, priority=5, name="cache"),
)

_ORDERS: Final = {
    "sign": SessionOrder.ATTENTION,
    "title": SessionOrder.NAME,
    "project": SessionOrder.NAME,
    "model": SessionOrder.NAME,
    "doing": SessionOrder.NEWEST,
    "gauge": SessionOrder.FULLEST,
    "fill": SessionOrder.FULLEST,
    "level": SessionOrder.FULLEST,
    "trigger": SessionOrder.FULLEST,
    "until": SessionOrder.SOONEST,
    "agents": SessionOrder.NONCOMPLIANT,
    "compactions": SessionOrder.COMPACTIONS,
    "cost": SessionOrder.COSTLIEST,
}
"""What a click on a column's header sorts by."""
