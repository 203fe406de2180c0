"""A session in words: what it does, what fills its context, the turns left, its cost.

Several functions return the same text from long to short: a cell takes the longest that fits.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from rich.cells import cell_len

from ...core.measure.activity import Activity, ActivityKind, SessionCost
from ...core.measure.composition import CompositionSource
from ...core.measure.forecast import Forecast
from ...core.model.session import Session, SessionStatus
from .formats import age, duration, shorten_middle, sparkline, tokens, turns_left

if TYPE_CHECKING:
    from ...core.measure.composition import CategoryShare, Composition
    from ...core.model.problem import Problem


MIN_DETAIL_CELLS: Final = 6  # cells; less of a command or a file tells nothing
MIN_REQUEST_CELLS: Final = 10
"""Cells; less of what a person is asked for tells less than that it is asked."""

MIN_RANGE_SHARE: Final = 0.25
"""Of the largest context: growth by less does not fill a cell, else every tremble looks steep."""

_WHOLE_DOLLARS_FROM: Final = 100  # US dollars from which cents are not read any more
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
    return age(doing_since(session), now_ms)


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


def read_context_composition(
    db: sqlite3.Connection, projects: Path, session_id: str
) -> Composition | Problem:
    """Break down a session's context into categories; reads the transcript."""
    from ...collectors.claude_code.transcript_details import (
        TranscriptUnavailableError,
        read_composition,
    )
    from ...core.model.problem import Problem

    try:
        return read_composition(db, projects, session_id)
    except TranscriptUnavailableError as error:
        return Problem(session_id, str(error), "")


MIN_SHARE: Final = 0.01  # of the whole: a smaller part of a category gets no line; `--json` has all
MAX_PARTS: Final = 5  # lines below a category
SHARE_CELLS: Final = 24  # a share's bar: a cell is four of a hundred


def composition_total_text(found: Composition) -> str:
    """Format the total tokens, whether they were measured, and the breakdown's source."""
    sure = "estimated: nothing was measured yet" if found.estimated else "measured"
    how = (
        "as its requests were sent"
        if found.source is CompositionSource.REQUESTS
        else "by its transcript"
    )
    later = f", then ≈{tokens(found.later_tokens)} more" if found.later_tokens else ""
    sign = "≈" if found.estimated else ""
    cut = ""
    if found.read_bytes is not None:
        cut = f"; of the large transcript only the last {found.read_bytes / 1e6:,.0f} MB were read"
    return f"{sign}{tokens(found.total_tokens)} tokens in context ({sure}), {how}{later}{cut}"


def largest_parts(share: CategoryShare) -> list[CategoryShare]:
    """Choose the parts of a category that are worth a line."""
    return [part for part in share.parts if part.share >= MIN_SHARE][:MAX_PARTS]


def share_tokens_text(share: CategoryShare) -> str:
    """Write its tokens, with ≈ before an estimate."""
    return f"{'≈' if share.estimated else ''}{tokens(share.tokens)}"
