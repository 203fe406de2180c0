"""The fleet's table: which columns fit a width, and the lines of sessions and projects."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import accumulate, pairwise
from typing import Final

from textual.content import Content

from ....core.measure.activity import ActivityKind
from ....core.measure.levels import PlacedThreshold
from ....core.model.session import Session, SessionStatus
from ...tables import Cell, Column, fitting_columns, total_cells
from ...text import formats, gauge, session_text
from ...text.compliance_text import agent_count
from ...text.formats import fit_left, fit_right, percent
from ...text.gauge import LEVEL_STYLES, PERCENT_CELLS
from ...text.session_text import cache_texts, cost_texts, longest_fitting
from ...text.text_lines import FOLD_SIGNS, Drawing, ScreenColumn, header_line, item_line
from .session_list import AT_WORK, ProjectHeading, SessionOrder

MAX_BAR_CELLS: Final = 40  # a longer bar is not read more exactly
MIN_TITLE_CELLS: Final = 20  # a shorter title no longer tells one session from another
MAX_TITLE_CELLS: Final = 56  # hardly any title is longer
AGE_CELLS: Final = 6  # 59 min, with a space before it
COLUMN_GAP: Final = " "

ESSENTIAL_PRIORITY: Final = 3  # columns of a higher priority need room for a longer bar too
COMFORTABLE_SPARE: Final = 14  # cells by which those are longer then

_REFUSAL_COLUMNS: Final = frozenset({"gauge", "level", "fill", "trigger", "until", "trail"})
"""Columns that a refused prompt's text replaces."""

_GROWTH: Final = (
    # Spare cells go to these columns, so many at a time, up to a length; then to the next group.
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
    columns: tuple[ScreenColumn[SessionLine], ...]

    @property
    def width(self) -> int:
        return total_cells(self.columns, len(COLUMN_GAP))

    @property
    def columns_when_refused(self) -> tuple[ScreenColumn[SessionLine], ...]:
        """The columns with one wide cell of text in place of the gauge and all about it."""
        replaced = [column for column in self.columns if column.name in _REFUSAL_COLUMNS]
        cells = total_cells(replaced, len(COLUMN_GAP))
        return tuple(
            replace(column, cells=cells) if column.name == "gauge" else column
            for column in self.columns
            if column.name == "gauge" or column.name not in _REFUSAL_COLUMNS
        )

    def header(
        self, thresholds: Iterable[PlacedThreshold] = (), order: SessionOrder | None = None
    ) -> Content:
        """Write the header; above the bars it has the percentages of `thresholds`."""
        sort_column = next((name for name, each in _ORDERS.items() if each is order), "")
        headers = []
        for column in self.columns:
            is_sorted = column.header and column.name == sort_column
            style = "bold $foreground" if is_sorted else "$quiet"
            if column.name == "gauge":
                headers.append(_gauge_header(column, tuple(thresholds)).stylize(style))
            else:
                headers.append(header_line([column], style=style))
        return Content(COLUMN_GAP).join(headers)

    def order_at(self, x: int) -> SessionOrder | None:
        """Return the order that a click on the header selects, None if there is none."""
        ends = accumulate(column.cells + len(COLUMN_GAP) for column in self.columns)
        names = (column.name for column, end in zip(self.columns, ends, strict=True) if x < end)
        return _ORDERS.get(next(names, "")) if x >= 0 else None


@lru_cache(maxsize=16)
def lay_out_columns(width: int) -> SessionTableLayout:
    """Choose columns for a width, and lengthen some of them by what is left over."""
    columns = fitting_columns(_COLUMNS, width, _comfortable_width)
    # If the columns that stay do not fit either, the title is shortened, never the bar.
    spare = max(width - total_cells(columns, len(COLUMN_GAP)), -MIN_TITLE_CELLS)
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
                added = min(share, spare, most - cells[name])
                cells[name] += added
                spare -= added
            growing = [each for each in growing if cells[each[0]] < each[2]]
    cells["title"] += spare


def _comfortable_width(columns: Sequence[ScreenColumn[SessionLine]]) -> int:
    """Count the cells that make these columns worthwhile: a longer bar precedes more columns."""
    many = any(column.priority > ESSENTIAL_PRIORITY for column in columns)
    return total_cells(columns, len(COLUMN_GAP)) + (COMFORTABLE_SPARE if many else 0)


def _gauge_header(
    column: ScreenColumn[SessionLine], thresholds: tuple[PlacedThreshold, ...]
) -> Content:
    """Write each mark's percentage above it, then the legend of the trigger's line."""
    marks = sorted(gauge.mark_cells(thresholds, column.cells - PERCENT_CELLS).items())
    names = [f"{threshold.at * 100:.0f}" for _, threshold in marks]
    words = column.header
    starts = [cell for cell, _ in marks]
    if all(later - start > 2 for start, later in pairwise([len(words) - 2, *starts])):
        for start, name in zip(starts, names, strict=True):
            words = f"{words:<{start}}{name}"
    elif marks:
        words = f"{words:<{max(starts[0], len(words) + 1)}}{'/'.join(names)}"
    legend = f" {gauge.TRIGGER_MARK}trigger"
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
}  # each has a sign, because colour alone is not enough


@dataclass(frozen=True, slots=True)
class SessionLine:
    session: Session
    now_ms: int
    selected: bool
    pinned: bool


def session_line(
    session: Session,
    layout: SessionTableLayout,
    now_ms: int,
    *,
    selected: bool = False,
    pinned: bool = False,
) -> Content:
    columns = layout.columns_when_refused if session.too_long else layout.columns
    return item_line(columns, SessionLine(session, now_ms, selected, pinned), COLUMN_GAP)


def project_line(heading: ProjectHeading, width: int) -> Content:
    fullest, count = heading.fullest, len(heading.sessions)
    facts = [
        (f"{count} session{'' if count == 1 else 's'}", "$quiet"),
        (f"▲ {heading.waiting} waiting" if heading.waiting else "", "bold $level-warning"),
        (f"{heading.live} live" if heading.live else "", "$quiet"),
        (f"fullest {percent(fullest.fill_ratio)}", LEVEL_STYLES[fullest.context.level]),
        (next(iter(cost_texts(heading.cost)), ""), "$quiet"),
    ]
    parts: list[tuple[str, str]] = []
    room = width - 2 - min(len(heading.project) + 1, max(8, width // 3))
    for text, style in facts:
        if text and len(text) + 3 <= room:
            parts += [(" · ", "$quiet"), (text, style)]
            room -= len(text) + 3
    used = sum(len(text) for text, _ in parts)
    name = fit_left(heading.project, min(len(heading.project) * 2, width - 2 - used)).rstrip()
    sign = (f"{FOLD_SIGNS[heading.folded]} ", "$accent")
    line = Content.assemble(sign, (name, "bold $accent"), *parts)
    return line + " " * max(0, width - line.cell_length)


def _sign(line: SessionLine) -> Cell | Drawing:
    is_refused = line.session.too_long
    sign = SESSION_SIGNS[SessionStatus.TOO_LONG if is_refused else line.session.status]
    if not (line.selected or line.pinned):
        return Cell(*sign)
    flag = SELECTED_SIGN if line.selected else PINNED_SIGN
    return lambda _: Content.assemble(sign, (flag, "bold $accent"))


def _title(line: SessionLine) -> Cell:
    return Cell(line.session.title, "bold $foreground" if line.session.live else "$foreground")


def _doing(line: SessionLine) -> Drawing:
    """Draw the activity, with its duration at the right edge."""
    session = line.session
    activity = session.activity
    is_asking = session.live and activity is not None and activity.kind is ActivityKind.PERSON
    style = "$foreground" if session.status in AT_WORK or activity else "$quiet"
    if session.status is SessionStatus.WAITING or is_asking:
        style = "bold $level-warning"

    def draw(cells: int) -> Content:
        room = cells - AGE_CELLS - 1
        took = fit_right(session_text.doing_age(session, line.now_ms), AGE_CELLS)
        text = fit_left(session_text.doing_text(session, room), room)
        return Content.assemble((text, style), " ", (took, "$quiet"))

    return draw


def _gauge(line: SessionLine) -> Drawing:
    refused = line.session.too_long
    if refused is None:
        return lambda cells: gauge.gauge(line.session.context, cells - PERCENT_CELLS)
    texts = ["too long — r recovers", "too long"]
    if refused.prompt_tokens and refused.limit_tokens:
        size = f"too long: {refused.prompt_tokens:,} of {refused.limit_tokens:,}"
        share = f"too long, {percent(refused.prompt_tokens / refused.limit_tokens)}"
        texts = [f"{size} — r recovers", size, share, "too long"]
    return _longest(texts, "bold $level-emergency")


def _longest(texts: Sequence[str], style: str = "$foreground") -> Drawing:
    return lambda cells: Cell(longest_fitting(texts, cells), style)


def _fill(line: SessionLine) -> Cell:
    context = line.session.context
    style = "$quiet" if context.tokens is None else "$foreground"
    return Cell(formats.tokens_of_window(context), style)


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
    texts = session_text.turns_left_texts(end, is_trigger=bool(trigger and trigger.tokens))
    return _longest(texts) if texts else Cell(formats.NOTHING if session.live else "", "$quiet")


def _trail(line: SessionLine) -> Drawing:
    contexts = line.session.recent_contexts
    return lambda cells: Cell(
        fit_right(session_text.history_sparkline(contexts, cells), cells), "$pane"
    )


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


def _cache(line: SessionLine) -> Drawing:
    session, now_ms = line.session, line.now_ms
    is_warm = session.cache.is_warm(now_ms)
    return _longest(cache_texts(session, now_ms), "$foreground" if is_warm else "$quiet")


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
        lambda line: Cell(formats.model_name(line.session.model), "$quiet"),
        cells=10,
        priority=6,
        name="model",
    ),
    Column("now", _doing, cells=14, name="doing"),
    Column("context", _gauge, cells=gauge.MIN_GAUGE_CELLS + PERCENT_CELLS, name="gauge"),
    Column("tokens", _fill, right=True, cells=15, priority=8, name="fill"),
    Column("level", _level, cells=9, priority=10, name="level"),
    Column("trigger", _trigger, right=True, cells=9, priority=9, name="trigger"),
    Column("turns left", _until, right=True, cells=11, priority=1, name="until"),
    Column("trail", _trail, cells=8, priority=3, name="trail"),
    Column("agents", _agents, right=True, cells=6, priority=2, name="agents"),
    Column("↻", _compactions, right=True, cells=3, priority=2, name="compactions"),
    Column(
        "cost",
        lambda line: _longest(cost_texts(line.session.cost)),
        right=True,
        cells=8,
        priority=4,
        name="cost",
    ),
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
}  # what a click on a column's header sorts by; the first column of an order shows it
