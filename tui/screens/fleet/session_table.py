"""The fleet's table: its columns, and the lines of sessions and headings."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Final

import msgspec
from rich.cells import cell_len
from textual.content import Content

from ....core.model.attention import Attention, attention
from ....core.model.cold_prompt import CacheState
from ....core.model.levels import PlacedThreshold
from ....core.model.session import Session, SessionStatus
from ....core.model.session_activity import ActivityKind
from ....core.transcript.sanitize import one_line
from ...text import formats, gauge, session_text
from ...text.column_headers import SORTED_SIGNS
from ...text.formats import fit_left, percent, plural, shorten_end
from ...text.gauge import LEVEL_STYLES, PERCENT_CELLS
from ...text.session_text import (
    CACHE_CELLS,
    PINNED_SIGN,
    SELECTED_SIGN,
    SESSION_SIGNS,
    agent_count,
    cache_texts,
    cost_texts,
    longest_fitting,
)
from ...text.tables import Cell, Column
from ...text.text_lines import FOLD_SIGNS, Drawing, ScreenColumn, item_line, matched_text
from .session_list import EndedHeading, ProjectHeading, SessionOrder
from .table_layout import (
    COLUMN_GAP,
    MAX_BAR_CELLS,
    MAX_STATE_CELLS,
    MAX_TITLE_CELLS,
    MIN_CACHE_CELLS,
    MIN_TITLE_CELLS,
    TALL_BAR_CELLS,
    Growth,
    Needs,
    TableLayout,
    lay_out,
)

AGE_CELLS: Final = 6  # 59 min, with a space before it
MAX_NEED_CELLS: Final = 24  # a branch or a project that needs more is cut

_NUMBER_COLUMNS: Final = ("gauge", "level", "fill", "trigger", "until", "trail")
"""Columns that a text replaces if a prompt was refused, or if the numbers could not be read."""

WARM_CELLS: Final = 12  # ≈warm 59 min
NEED_STEP: Final = 4  # cells: a column does not move with every letter of a state


def measure_needs(sessions: Iterable[Session], now_ms: int) -> dict[str, int]:
    """Count the cells that the columns of these sessions need; what nobody has needs none."""
    shown = list(sessions)
    states = [session_text.state_text(each, MAX_STATE_CELLS, now_ms) for each in shown]
    projects = {each.project for each in shown}
    return {
        "doing": _step(max(map(len, states), default=0) + AGE_CELLS + 1),
        "title": _step(max((cell_len(each.title) for each in shown), default=0), MAX_TITLE_CELLS),
        "until": max((len(session_text.turns_left_text(each)) for each in shown), default=0),
        "branch": _step(max((len(each.git_branch or "") for each in shown), default=0)),
        "project": _step(max(map(len, projects))) if len(projects) > 1 else 0,
        "agents": max((each.agents for each in shown), default=0),
        "compactions": max((each.compactions for each in shown), default=0),
        "prompt": max((len(each.last_prompt or "") for each in shown), default=0),
        "cache": max(map(_cache_cells, shown), default=0),
    }


def _cache_cells(session: Session) -> int:
    """Count the cells of what is said once its cache has expired."""
    expires_at = session.cache.expires_at
    texts = () if expires_at is None else cache_texts(session, expires_at)
    return max(map(cell_len, texts), default=0)


def _step(cells: int, most: int = MAX_STATE_CELLS) -> int:
    return min(-(-cells // NEED_STEP) * NEED_STEP, most)


def _growth(needs: Needs) -> Growth:
    wide = {name: min(needs.get(name, 99), MAX_NEED_CELLS) for name in ("branch", "project")}
    cache = needs.get("cache", 0)
    tall, longest = (cells + PERCENT_CELLS for cells in (TALL_BAR_CELLS, MAX_BAR_CELLS))
    return (
        (("doing", needs.get("doing", MAX_STATE_CELLS)), ("gauge", tall)),
        (
            ("branch", wide["branch"]),
            ("project", wide["project"]),
            ("cache", min(max(cache, WARM_CELLS), CACHE_CELLS)),
        ),
        (("prompt", min(needs.get("prompt", 99), 60)), ("title", 90), ("model", 13)),
        (("gauge", longest), ("until", 11), ("cost", 9), ("trail", 16)),
        (("cache", cache),),
    )


BY_WINDOW: Final = "context"
BY_LIMIT: Final = "of limit"
BY_EITHER: Final = "of window or limit"


def measured_by(sessions: Iterable[Session]) -> str:
    """Name what the bars of these sessions are full at: their windows, or their settings' limit."""
    limited = {bool(each.context.window.limit) for each in sessions}
    if len(limited) > 1:
        return BY_EITHER
    return BY_LIMIT if True in limited else BY_WINDOW


class SessionTableLayout(TableLayout["SessionLine"], frozen=True):
    @property
    def columns_with_text(self) -> tuple[ScreenColumn[SessionLine], ...]:
        """The columns with one wide cell of text in place of the gauge and all about it."""
        return self.merge_columns(_NUMBER_COLUMNS, "gauge")

    def session_header(
        self,
        thresholds: Iterable[PlacedThreshold] = (),
        order: SessionOrder | None = None,
        measured_by: str = BY_WINDOW,
    ) -> Content:
        """Write the header; `measured_by` names what the bars are full at."""
        column = next((name for name, each in COLUMN_ORDERS.items() if each is order), "")
        columns = tuple(
            msgspec.structs.replace(each, header=measured_by) if each.name == "gauge" else each
            for each in self.columns
        )
        named = msgspec.structs.replace(self, columns=columns)
        return named.header(thresholds, column, SORTED_SIGNS[order is SessionOrder.NAME])


def lay_out_columns(width: int, needs: Needs | None = None) -> SessionTableLayout:
    """Choose columns for a width, by default for sessions that have something in every one."""
    layout: SessionTableLayout = _lay_out_columns(width, tuple(sorted((needs or {}).items())))
    return layout


@lru_cache(maxsize=16)
def _lay_out_columns(width: int, needs: tuple[tuple[str, int], ...]) -> SessionTableLayout:
    wanted = {"doing": MAX_STATE_CELLS, **dict(needs)}
    return SessionTableLayout(lay_out(_COLUMNS, width, wanted, _growth(wanted)).columns)


class SessionLine(msgspec.Struct, frozen=True):
    session: Session
    now_ms: int
    selected: bool = False
    pinned: bool = False
    matched: re.Pattern[str] | None = None  # what a filter's words match

    @property
    def is_quiet(self) -> bool:
        return attention(self.session, self.now_ms) is Attention.ENDED

    def style(self, style: str = "$foreground") -> str:
        """Return a style; a session that has ended is dim, whatever its fill."""
        return "$quiet" if self.is_quiet else style

    def text(self, text: str, style: str) -> Drawing:
        """Draw a text with what the filter matched in it."""
        return lambda cells: matched_text(text, cells, self.matched, self.style(style))


def session_line(line: SessionLine, layout: SessionTableLayout) -> Content:
    has_text = line.session.too_long or line.session.problem
    return item_line(layout.columns_with_text if has_text else layout.columns, line, COLUMN_GAP)


def ended_line(heading: EndedHeading, width: int) -> Content:
    text = f"{FOLD_SIGNS[heading.folded]} ended · {len(heading.sessions):,}"
    if heading.hidden:
        text += f" · {plural(heading.hidden, 'undone fork')} folded"
    return Content.styled(fit_left(text, width), "$quiet")


def project_line(heading: ProjectHeading, width: int) -> Content:
    fullest, count = heading.fullest, len(heading.sessions)
    facts = [
        (f"{count} session{'' if count == 1 else 's'}", "$quiet"),
        (f"▲ {heading.waiting} waiting" if heading.waiting else "", "bold $waiting"),
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
    status = SessionStatus.TOO_LONG if line.session.too_long else line.session.status
    sign = SESSION_SIGNS[SessionStatus.UNREAD if line.session.problem else status]
    sign = (sign[0], line.style(sign[1]))
    if not (line.selected or line.pinned):
        return Cell(*sign)
    flag = SELECTED_SIGN if line.selected else PINNED_SIGN
    return lambda _: Content.assemble(sign, (flag, "bold $accent"))


def _title(line: SessionLine) -> Drawing:
    title = session_text.marked_title(line.session)
    return line.text(title, "bold $foreground" if line.session.live else "$foreground")


def _doing(line: SessionLine) -> Drawing:
    """Draw the activity, with its duration at the right edge."""
    session = line.session
    activity = session.activity
    is_asking = session.live and activity is not None and activity.kind is ActivityKind.PERSON
    style = "$foreground" if session.is_working or activity else "$quiet"
    if session.status is SessionStatus.WAITING or is_asking:
        style = "bold $waiting"
    elif session.status is SessionStatus.IDLE and session_text.cold_texts(session, line.now_ms):
        style = "$level-notice"

    def draw(cells: int) -> Content:
        took = session_text.doing_age(session, line.now_ms)
        room = max(0, cells - len(took) - 1)
        text = fit_left(session_text.state_text(session, room, line.now_ms), room)
        return Content.assemble((text, line.style(style)), " ", (took, "$quiet"))

    return draw


def _gauge(line: SessionLine) -> Drawing:
    refused, problem = line.session.too_long, one_line(line.session.problem)
    if problem:
        return lambda cells: Cell(shorten_end(problem, cells), line.style("bold $level-emergency"))
    if refused is None:
        draw = gauge.quiet_gauge if line.is_quiet else gauge.gauge
        return lambda cells: draw(line.session.context, cells - PERCENT_CELLS)
    texts = ["too long — r recovers", "too long"]
    if refused.prompt_tokens and refused.limit_tokens:
        size = f"too long: {refused.prompt_tokens:,} of {refused.limit_tokens:,}"
        share = f"too long, {percent(refused.prompt_tokens / refused.limit_tokens)}"
        texts = [f"{size} — r recovers", f"{share} — r recovers", share, "too long"]
    return _longest(texts, line.style("bold $level-emergency"))


def _longest(texts: Sequence[str], style: str = "$foreground") -> Drawing:
    return lambda cells: Cell(longest_fitting(texts, cells), style)


def _fill(line: SessionLine) -> Drawing:
    context = line.session.context
    style = "$quiet" if context.tokens is None else "$foreground"
    text = formats.tokens_of_window(context)
    return _longest((text, text.removesuffix(formats.LIMIT_WORD)), line.style(style))


def _trigger(line: SessionLine) -> Cell:
    """Return what is left until Claude Code auto-compacts."""
    context = line.session.context
    if context.trigger is None or context.tokens is None:
        return Cell("")
    if context.trigger.is_passed:
        return Cell("did not run", "$level-warning")
    if not context.trigger.tokens:
        return Cell("not armed", "$quiet")
    return Cell(formats.tokens(context.trigger_left), line.style())


def _until(line: SessionLine) -> Cell:
    """Return the turns left, blank for a session that has ended."""
    text = session_text.turns_left_text(line.session)
    nothing = formats.NOTHING if line.session.live else ""
    return Cell(text, "$foreground") if text else Cell(nothing, "$quiet")


def _trail(line: SessionLine) -> Drawing:
    return lambda cells: Cell(session_text.history_sparkline(line.session, cells), "$quiet")


def _level(line: SessionLine) -> Cell:
    level = line.session.context.level
    return Cell(level.value if level else "", line.style(LEVEL_STYLES[level]))


def _agents(line: SessionLine) -> Cell:
    failed = line.session.agents_noncompliant
    return Cell(
        agent_count(line.session.agents, failed), line.style("$broken" if failed else "$foreground")
    )


def _compactions(line: SessionLine) -> Cell:
    count = line.session.compactions
    return Cell(f"{count}" if count else "", line.style())


def _cache(line: SessionLine) -> Drawing:
    session, now_ms = line.session, line.now_ms
    prompt = session.cold_prompt(now_ms)
    style = "$foreground" if session.live and session.cache.is_warm(now_ms) else "$quiet"
    if session.live and session_text.is_rewrite_shown(session, prompt):
        style = _CACHE_STYLES.get(prompt.state, style)
    return _longest(cache_texts(session, now_ms), style)


_CACHE_STYLES: Final = {
    CacheState.GOING_COLD: "bold $waiting",
    CacheState.COLD: "$level-notice",
}  # where the next prompt writes much again


def _cost(line: SessionLine) -> Drawing:
    return _longest(cost_texts(line.session.cost), line.style())


_COLUMNS: Final[Sequence[ScreenColumn[SessionLine]]] = (
    Column("", _sign, cells=2, name="sign", tooltip="the state; click to sort by attention"),
    Column("session", _title, cells=MIN_TITLE_CELLS, name="title", tooltip="the session's title"),
    Column(
        "project",
        lambda line: line.text(line.session.project, "$quiet"),
        cells=10,
        priority=8,
        name="project",
        tooltip="the folder; for a worktree, with its project",
    ),
    Column(
        "branch",
        lambda line: line.text(line.session.git_branch or "", "$quiet"),
        cells=10,
        priority=2,
        name="branch",
        tooltip="the git branch at the last prompt",
    ),
    Column(
        "model",
        lambda line: line.text(formats.model_name(line.session.model), "$quiet"),
        cells=10,
        priority=5,
        name="model",
        tooltip="the model of the last answer",
    ),
    Column("state", _doing, cells=14, name="doing", tooltip="what it does or waits for, and since"),
    Column(
        BY_WINDOW,
        _gauge,
        cells=gauge.MIN_GAUGE_CELLS + PERCENT_CELLS,
        name="gauge",
        tooltip="share of the context window, or of the limit that your settings set; ▏ is where"
        " Claude Code auto-compacts",
    ),
    Column(
        "tokens",
        _fill,
        right=True,
        cells=15,
        priority=10,
        name="fill",
        tooltip="tokens in context, of the window or of the limit that your settings set",
    ),
    Column("level", _level, cells=10, priority=12, name="level", tooltip="the warning level"),
    Column(
        "trigger",
        _trigger,
        right=True,
        cells=9,
        priority=11,
        name="trigger",
        tooltip="tokens until Claude Code auto-compacts, by its own counter",
    ),
    Column(
        "left",
        _until,
        right=True,
        cells=9,
        priority=1,
        name="until",
        tooltip="turns until Claude Code auto-compacts, or until the window is full",
    ),
    Column(
        "history",
        _trail,
        cells=8,
        priority=13,
        name="trail",
        tooltip="the context after the last turns, from 0 to the window",
    ),
    Column(
        "agents",
        _agents,
        right=True,
        cells=6,
        priority=4,
        name="agents",
        tooltip="agents; ✗ noncompliant results",
    ),
    Column(
        "compactions",
        _compactions,
        right=True,
        cells=11,
        priority=9,
        name="compactions",
        tooltip="compactions so far",
    ),
    Column(
        "cost",
        _cost,
        right=True,
        cells=6,
        priority=3,
        name="cost",
        tooltip="US dollars at the API's prices",
    ),
    Column(
        "cache",
        _cache,
        cells=MIN_CACHE_CELLS,
        priority=6,
        name="cache",
        tooltip="whether the next prompt still hits the prompt cache, or what it writes again",
    ),
    Column(
        "last prompt",
        lambda line: line.text(line.session.last_prompt or "", "$quiet"),
        cells=16,
        priority=7,
        name="prompt",
        tooltip="the last prompt",
    ),
)

COLUMN_ORDERS: Final = {
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
