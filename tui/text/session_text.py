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
    """Choose the first text that fits; if none does, the last one is cut."""
    fitting = next((each for each in choices if cell_len(each) <= cells), "")
    return fitting or (shorten_middle(choices[-1], cells) if choices else "")


def doing_text(session: Session, cells: int) -> str:
    """Describe what a session does or waits for, in at most `cells` cells."""
    activity = session.activity if session.live else None
    if activity is None:
        return longest_fitting(_STATUS_TEXTS[session.status], cells)
    if activity.kind is ActivityKind.MODEL:
        return longest_fitting(("thinking", "thinks"), cells)
    if activity.kind is ActivityKind.PERSON:
        return _waiting_text(activity, cells)
    return _with_detail(activity, cells)


MIN_REQUEST_CELLS: Final = 10  # less of what the user is asked for says less than that they are


def _waiting_text(activity: Activity, cells: int) -> str:
    start = "waits: "
    room = cells - len(start)
    if activity.what and room >= MIN_REQUEST_CELLS:
        return start + _with_detail(activity, room)
    return longest_fitting(_STATUS_TEXTS[SessionStatus.WAITING], cells)


MIN_DETAIL_CELLS: Final = 6  # less of a command or a file is not understood


def _with_detail(activity: Activity, cells: int) -> str:
    room = cells - cell_len(activity.what) - 1
    if activity.detail and room >= MIN_DETAIL_CELLS:
        return f"{activity.what} {shorten_middle(activity.detail, room)}"
    return shorten_middle(activity.what, cells)


def doing_age(session: Session, now_ms: int) -> str:
    since = session.activity.since if session.activity and session.live else None
    return age(session.last_activity_at if since is None else since, now_ms)


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
    sign = "≈" * cache.estimated
    if not warm:
        return (f"{sign}cold",)
    return (f"{sign}warm {duration(cache.expires_at - now_ms)}", f"{sign}warm")


def cost_texts(cost: SessionCost | None) -> tuple[str, ...]:
    """Format what a session has cost, with + if some answers have no price; longest first."""
    if cost is None:
        return ()
    sign, more = "≈" * cost.estimated, "+" * cost.partial
    whole = f"${cost.usd:,.0f}"
    exact = f"${cost.usd:,.2f}" if cost.usd < WHOLE_DOLLARS_FROM else whole
    return (f"{sign} {exact}{more}".lstrip(), f"{sign}{whole}{more}")


WHOLE_DOLLARS_FROM: Final = 100  # US dollars from which cents are not shown
MIN_RANGE_SHARE: Final = 0.25
"""Of the largest context: growth by less does not fill a cell, else every tremor looks steep."""


def history_sparkline(history: Sequence[int], cells: int) -> str:
    """Draw the newest contexts, starting at the smallest of them."""
    shown = history[-cells:] if cells > 0 else ()
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


SHARE_CELLS: Final = 24  # a share's bar: a cell is four percent


def composition_total_text(found: Composition) -> str:
    text = f"{'≈' * found.estimated}{tokens(found.total_tokens)} tokens in context"
    text += " (estimated: not measured yet)" if found.estimated else " (measured)"
    is_sent = found.source is CompositionSource.REQUESTS
    text += ", from recorded requests" if is_sent else ", from the transcript"
    if found.later_tokens:
        text += f", then ≈{tokens(found.later_tokens)} more"
    if found.read_bytes is not None:
        megabytes = f"{found.read_bytes / 1e6:,.0f} MB"
        text += f"; of the large transcript only the last {megabytes} were read"
    return text


MIN_SHARE: Final = 0.01  # of the whole; smaller parts are only in `--json`
MAX_PARTS: Final = 5  # lines below a category


def largest_parts(share: CategoryShare) -> list[CategoryShare]:
    return [part for part in share.parts if part.share >= MIN_SHARE][:MAX_PARTS]


def share_tokens_text(share: CategoryShare) -> str:
    return f"{'≈' * share.estimated}{tokens(share.tokens)}"
