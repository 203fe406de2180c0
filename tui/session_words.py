"""What is said of a session in a cell: what it does, what is left, what it costs.

Each is a list of the same words from long to short; a cell takes the longest that fits.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rich.cells import cell_len

from ..core.activity import DoingKind
from ..core.sessions import Status
from .formats import age, middle, turns_left
from .spark import spark

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..core.activity import Cost, Doing
    from ..core.forecast import Forecast
    from ..core.sessions import Session

SHORTEST_DETAIL: Final = 6
"""Cells; less of a command or a file tells nothing."""

SHORTEST_ASKED: Final = 10
"""Cells; less of what a person is asked for tells less than that it is asked."""

STEEPEST: Final = 0.25
"""Of the largest context: growth by less does not fill a cell, else every tremble looks steep."""

_CENTS_UNTIL: Final = 100
"""US dollars from which cents are not read any more."""

_WORDS: Final = {
    Status.WAITING: ("waits for you", "waits"),
    Status.BUSY: ("working",),
    Status.ACTIVE: ("working",),
    Status.IDLE: ("idle",),
    Status.TOO_LONG: ("stuck",),
    Status.ENDED: ("ended",),
    Status.GONE: ("file is gone", "gone"),
}


def fitting(choices: Sequence[str], cells: int) -> str:
    """Choose the first words that fit; the last ones are cut where none does."""
    return next((each for each in choices if cell_len(each) <= cells), "") or (
        middle(choices[-1], cells) if choices else ""
    )


def doing_words(session: Session, cells: int) -> str:
    """Say what a session does, or waits for, in so many cells."""
    doing = session.activity
    if doing is None or not session.live:
        return fitting(_WORDS[session.status], cells)
    if doing.kind is DoingKind.MODEL:
        return fitting(("thinking", "thinks"), cells)
    if doing.kind is DoingKind.PERSON:
        return _waits_words(doing, cells)
    return _with_detail(doing.what, doing.detail, cells)


def _waits_words(doing: Doing, cells: int) -> str:
    """Say that it waits for a person, and for what where there is room for it."""
    start = "waits: "
    room = cells - len(start)
    if doing.what and room >= SHORTEST_ASKED:
        return start + _with_detail(doing.what, doing.detail, room)
    return fitting(_WORDS[Status.WAITING], cells)


def _with_detail(what: str, detail: str, cells: int) -> str:
    room = cells - cell_len(what) - 1
    return (
        f"{what} {middle(detail, room)}"
        if detail and room >= SHORTEST_DETAIL
        else middle(what, cells)
    )


def since(session: Session) -> int | None:
    """Say when what a session does began, in ms since 1970; else when it last did anything."""
    doing = session.activity if session.live else None
    return doing.since if doing and doing.since is not None else session.last_activity_at


def shown_age(session: Session, now_ms: int) -> str:
    """Say for how long it does so."""
    began = since(session)
    return age(None if began is None else now_ms - began)


def turns_words(forecast: Forecast | None, *, is_trigger: bool) -> tuple[str, ...]:
    """Say how many turns are left until the client compacts, or until the window is full."""
    if forecast is None:
        return ()
    number = turns_left(forecast)
    counted = number.replace("≈", "≈ ")
    unit = "turn" if number == "≈1" else "turns"
    if is_trigger:
        return (f"{counted} {unit}", counted, number)
    return (f"{counted} {unit} to full", f"{counted} to full", f"{number} full", number)


def cache_words(session: Session, now_ms: int) -> tuple[str, ...]:
    """Say whether the next request is still read from the cache, and for how long."""
    cache = session.cache
    warm = cache.is_warm(now_ms)
    if warm is None or cache.expires_at is None:
        return ()
    sign = "≈" if cache.estimated else ""
    if not warm:
        return (f"{sign}cold",)
    return (f"{sign}warm {age(cache.expires_at - now_ms)}", f"{sign}warm")


def cost_words(cost: Cost | None) -> tuple[str, ...]:
    """Write what a session has cost; + where some answers have no price."""
    if cost is None:
        return ()
    sign = "≈ " if cost.estimated else ""
    more = "+" if cost.partial else ""
    return (f"{sign}{dollars(cost.usd)}{more}", f"{sign.strip()}${cost.usd:,.0f}{more}")


def dollars(usd: float) -> str:
    """Write an amount: $0.04, $1.20, $1,204."""
    return f"${usd:,.2f}" if usd < _CENTS_UNTIL else f"${usd:,.0f}"


def trail_words(trail: Sequence[int], cells: int) -> str:
    """Draw how the newest contexts went, from the smallest of them on."""
    shown = trail[-cells:] if cells > 0 else ()
    peak = max(shown, default=0)
    if peak <= 0:
        return ""
    low = min(shown)
    return spark([each - low for each in shown], cells, max(peak - low, STEEPEST * peak))
