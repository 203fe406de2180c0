"""A session as one line, and a project's heading above its sessions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from textual.content import Content

from ..core.activity import DoingKind
from ..core.fleet import fullness
from ..core.sessions import Status
from .compliance_words import agent_count
from .formats import NOTHING, fit, fit_right, model, percent
from .gauge import LEVEL_STYLES, PERCENT_CELLS, fill, gauge
from .session_columns import AGE_CELLS, GAP
from .session_words import (
    cache_words,
    cost_words,
    doing_words,
    fitting,
    shown_age,
    trail_words,
    turns_words,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..core.sessions import Session
    from .selection import Heading
    from .session_columns import Layout

PICKED: Final = "◆"
PINNED: Final = "↑"

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

_AT_WORK: Final = frozenset({Status.BUSY, Status.ACTIVE})


@dataclass(frozen=True, slots=True)
class Flags:
    """What a person said of a session."""

    selected: bool = False
    pinned: bool = False


def session_line(
    session: Session,
    layout: Layout,
    now_ms: int,
    flags: Flags = Flags(),
) -> Content:
    """Write a session's line."""
    columns = layout.columns_when_refused if session.too_long else layout.columns
    cells = [_CELLS[column.name](session, column.cells, now_ms) for column in columns]
    if flags.selected or flags.pinned:
        sign = PICKED if flags.selected else PINNED
        cells[0] = Content.assemble(_sign(session), (sign, "bold $accent"))
    return Content(" " * GAP).join(cells)


def heading_line(heading: Heading, width: int) -> Content:
    """Write a project's line: how many, who waits, the fullest, and what they have cost."""
    fullest = heading.fullest
    count = len(heading.sessions)
    cost = next(iter(cost_words(heading.cost)), "")
    said = [
        (f"{count} session{'' if count == 1 else 's'}", "$quiet"),
        (f"▲ {heading.waiting} waiting" if heading.waiting else "", "bold $level-warning"),
        (f"{heading.live} live" if heading.live else "", "$quiet"),
        (f"fullest {percent(fullness(fullest))}", LEVEL_STYLES[fullest.context.level]),
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
    name = fit(heading.project, min(len(heading.project) * 2, width - 2 - told)).rstrip()
    line = Content.assemble((f"{sign} ", "$accent"), (name, "bold $accent"), *parts)
    return line + " " * max(0, width - line.cell_length)


def status_sign(session: Session) -> tuple[str, str]:
    """Tell what a session is doing: a sign and its style."""
    return SESSION_SIGNS[Status.TOO_LONG] if session.too_long else SESSION_SIGNS[session.status]


def _sign(session: Session) -> tuple[str, str]:
    return status_sign(session)


def _sign_cell(session: Session, cells: int, now_ms: int) -> Content:
    sign, style = _sign(session)
    return Content.styled(fit(sign, cells), style)


def _title(session: Session, cells: int, now_ms: int) -> Content:
    style = "bold $foreground" if session.live else "$foreground"
    return Content.styled(fit(session.title, cells), style)


def _project(session: Session, cells: int, now_ms: int) -> Content:
    return Content.styled(fit(session.project, cells), "$quiet")


def _model(session: Session, cells: int, now_ms: int) -> Content:
    return Content.styled(fit(model(session.model), cells), "$quiet")


def _doing(session: Session, cells: int, now_ms: int) -> Content:
    """Say what it does, and at the right edge for how long."""
    words = doing_words(session, cells - AGE_CELLS - 1)
    took = fit_right(shown_age(session, now_ms), AGE_CELLS)
    return Content.assemble(
        (fit(words, cells - AGE_CELLS - 1), _doing_style(session)), " ", (took, "$quiet")
    )


def _doing_style(session: Session) -> str:
    asked = session.activity is not None and session.activity.kind is DoingKind.PERSON
    if session.status is Status.WAITING or (session.live and asked):
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
    return Content.styled(fit(fitting(choices, cells), cells), "bold $level-emergency")


def _fill(session: Session, cells: int, now_ms: int) -> Content:
    style = "$quiet" if session.context.tokens is None else "$foreground"
    return Content.styled(fit_right(fill(session.context), cells), style)


def _trigger(session: Session, cells: int, now_ms: int) -> Content:
    """Tell the counter against the trigger."""
    trigger = session.context.trigger
    if trigger is None or session.context.tokens is None:
        return Content(" " * cells)
    words = percent(session.context.trigger_ratio) if trigger.tokens else "not armed"
    return Content.styled(fit_right(words, cells), "$foreground" if trigger.tokens else "$quiet")


def _until(session: Session, cells: int, now_ms: int) -> Content:
    """Tell the turns that are left of a live session: of one that is over nobody waits for it."""
    trigger = session.context.trigger
    end = session.outlook.end if session.live else None
    choices = turns_words(end, is_trigger=bool(trigger and trigger.tokens))
    words = fitting(choices, cells) if choices else NOTHING if session.live else ""
    return Content.styled(fit_right(words, cells), "$foreground" if choices else "$quiet")


def _trail(session: Session, cells: int, now_ms: int) -> Content:
    return Content.styled(fit_right(trail_words(session.recent_contexts, cells), cells), "$pane")


def _level(session: Session, cells: int, now_ms: int) -> Content:
    level = session.context.level
    return Content.styled(fit(level.value if level else "", cells), LEVEL_STYLES[level])


def _agents(session: Session, cells: int, now_ms: int) -> Content:
    words = agent_count(session.agents, session.agents_noncompliant)
    style = "$level-warning" if session.agents_noncompliant else "$foreground"
    return Content.styled(fit_right(words, cells), style)


def _compactions(session: Session, cells: int, now_ms: int) -> Content:
    count = session.compactions
    return Content.styled(fit_right(f"↻{count}" if count else "", cells), "$foreground")


def _cost(session: Session, cells: int, now_ms: int) -> Content:
    return Content.styled(fit_right(fitting(cost_words(session.cost), cells), cells), "$foreground")


def _cache(session: Session, cells: int, now_ms: int) -> Content:
    style = "$foreground" if session.cache.is_warm(now_ms) else "$quiet"
    return Content.styled(fit(fitting(cache_words(session, now_ms), cells), cells), style)


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
