"""A session in words: what it does, the turns left, its cost; and the header of its page.

Several functions return the same text from long to short: a cell takes the longest that fits.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from msgspec.structs import replace
from rich.cells import cell_len
from textual.content import Content

from ...core.measure.activity import ActivityKind
from ...core.model.context import ContextState
from ...core.model.session import SessionStatus
from ...core.transcript.sanitize import one_line
from .formats import duration, model_name, percent, shorten_middle, tokens, turns_left
from .gauge import gauge, tokens_of_window
from .meters import sparkline

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ...core.measure.activity import Activity, SessionCost
    from ...core.measure.forecast import Forecast
    from ...core.measure.timeline import TimelineTurn
    from ...core.model.session import Session


MIN_DETAIL_CELLS: Final = 6
"""Cells; less of a command or a file tells nothing."""

MIN_REQUEST_CELLS: Final = 10
"""Cells; less of what a person is asked for tells less than that it is asked."""

MIN_RANGE_SHARE: Final = 0.25
"""Of the largest context: growth by less does not fill a cell, else every tremble looks steep."""

_WHOLE_DOLLARS_FROM: Final = 100
"""US dollars from which cents are not read any more."""

_STATUS_TEXTS: Final = {
    SessionStatus.WAITING: ("waits for you", "waits"),
    SessionStatus.BUSY: ("working",),
    SessionStatus.ACTIVE: ("working",),
    SessionStatus.IDLE: ("idle",),
    SessionStatus.TOO_LONG: ("stuck",),
    SessionStatus.ENDED: ("ended",),
    SessionStatus.GONE: ("file is gone", "gone"),
}


def longest_fitting(choices: Sequence[str], cells: int) -> str:
    """Choose the first words that fit; the last ones are cut where none does."""
    return next((each for each in choices if cell_len(each) <= cells), "") or (
        shorten_middle(choices[-1], cells) if choices else ""
    )


def doing_text(session: Session, cells: int) -> str:
    """Describe what a session does or waits for, in at most `cells` cells."""
    doing = session.activity
    if doing is None or not session.live:
        return longest_fitting(_STATUS_TEXTS[session.status], cells)
    if doing.kind is ActivityKind.MODEL:
        return longest_fitting(("thinking", "thinks"), cells)
    if doing.kind is ActivityKind.PERSON:
        return _waiting_text(doing, cells)
    return _with_detail(doing.what, doing.detail, cells)


def _waiting_text(doing: Activity, cells: int) -> str:
    """Describe a wait for the user, with what it is for if there is room."""
    start = "waits: "
    room = cells - len(start)
    if doing.what and room >= MIN_REQUEST_CELLS:
        return start + _with_detail(doing.what, doing.detail, room)
    return longest_fitting(_STATUS_TEXTS[SessionStatus.WAITING], cells)


def _with_detail(what: str, detail: str, cells: int) -> str:
    room = cells - cell_len(what) - 1
    return (
        f"{what} {shorten_middle(detail, room)}"
        if detail and room >= MIN_DETAIL_CELLS
        else shorten_middle(what, cells)
    )


def doing_since(session: Session) -> int | None:
    """Return when the current activity began (ms since 1970), else the last activity's time."""
    doing = session.activity if session.live else None
    return doing.since if doing and doing.since is not None else session.last_activity_at


def doing_age(session: Session, now_ms: int) -> str:
    """Format how long the current activity has lasted."""
    began = doing_since(session)
    return duration(None if began is None else now_ms - began)


def turns_left_texts(forecast: Forecast | None, *, is_trigger: bool) -> tuple[str, ...]:
    """Format the turns left until auto-compact, or until the window is full; longest first."""
    if forecast is None:
        return ()
    number = turns_left(forecast)
    counted = number.replace("≈", "≈ ")
    unit = "turn" if number == "≈1" else "turns"
    if is_trigger:
        return (f"{counted} {unit}", counted, number)
    return (f"{counted} {unit} to full", f"{counted} to full", f"{number} full", number)


def cache_texts(session: Session, now_ms: int) -> tuple[str, ...]:
    """Format whether the next request still hits the cache, and for how long; longest first."""
    cache = session.cache
    warm = cache.is_warm(now_ms)
    if warm is None or cache.expires_at is None:
        return ()
    sign = "≈" if cache.estimated else ""
    if not warm:
        return (f"{sign}cold",)
    return (f"{sign}warm {duration(cache.expires_at - now_ms)}", f"{sign}warm")


def cost_texts(cost: SessionCost | None) -> tuple[str, ...]:
    """Write what a session has cost; + where some answers have no price."""
    if cost is None:
        return ()
    sign = "≈ " if cost.estimated else ""
    more = "+" if cost.partial else ""
    return (f"{sign}{dollars(cost.usd)}{more}", f"{sign.strip()}${cost.usd:,.0f}{more}")


def dollars(usd: float) -> str:
    """Write an amount: $0.04, $1.20, $1,204."""
    return f"${usd:,.2f}" if usd < _WHOLE_DOLLARS_FROM else f"${usd:,.0f}"


def history_sparkline(trail: Sequence[int], cells: int) -> str:
    """Draw how the newest contexts went, from the smallest of them on."""
    shown = trail[-cells:] if cells > 0 else ()
    peak = max(shown, default=0)
    if peak <= 0:
        return ""
    low = min(shown)
    return sparkline([each - low for each in shown], cells, max(peak - low, MIN_RANGE_SHARE * peak))


MIN_HEADER_BAR: Final = 20
"""Cells of the bar."""

HEADER_TEXT_CELLS: Final = 76
"""Cells beside it, about."""

MAX_HEADER_BAR: Final = 60

HEADER_DOING_CELLS: Final = 30
"""Cells of what it does."""

HEADER_SEPARATOR: Final = "  ·  "


def session_header(session: Session, past: TimelineTurn | None, width: int, now_ms: int) -> Content:
    """Draw the gauge as it is, or as it was at a turn, and say what lies ahead."""
    context = session.context
    if past is not None:
        context = replace(context, tokens=past.tokens, state=ContextState.MEASURED)
    cells = min(MAX_HEADER_BAR, max(MIN_HEADER_BAR, width - HEADER_TEXT_CELLS))
    drawn = Content.assemble(" ", gauge(context, cells))
    if drawn.cell_length + 2 + cell_len(tokens_of_window(context)) <= width:
        drawn = Content.assemble(drawn, "  ", (tokens_of_window(context), "bold"))
    for said in _past_facts(session) if past is not None else _current_facts(session, now_ms):
        if drawn.cell_length + len(HEADER_SEPARATOR) + cell_len(said) <= width:
            drawn = Content.assemble(drawn, (HEADER_SEPARATOR, "$bar-mark"), (said, "$quiet"))
    return drawn


def _past_facts(session: Session) -> list[str]:
    return [f"as it was; now {percent(session.context.ratio)}", "end goes to now"]


def _current_facts(session: Session, now_ms: int) -> list[str]:
    end, trigger = session.outlook.end, session.context.trigger
    said = []
    if end:
        where = "compaction" if trigger and trigger.tokens else "the end"
        said.append(f"{turns_left(end)} turns to {where}")
    elif trigger and trigger.tokens:
        said.append(f"compacts at {tokens(trigger.tokens)}")
    said.append(doing_text(session, HEADER_DOING_CELLS))
    said += cache_texts(session, now_ms)[:1]
    said += cost_texts(session.cost)[:1]
    return [*said, one_line(model_name(session.model))]
