"""What is said of a session in a cell: what it does, what is left, what it costs.

Each is a list of the same words from long to short; a cell takes the longest that fits.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rich.cells import cell_len

from ..core.activity import DoingKind
from ..core.sessions import Status
from .formats import age, middle, turns_left

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..core.activity import Cost
    from ..core.forecast import Forecast
    from ..core.sessions import Session

SHORTEST_DETAIL: Final = 6
"""Cells; less of a command or a file tells nothing."""

LEVELS: Final = "▁▂▃▄▅▆▇█"

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
    doing = session.doing
    if doing is None or not session.live:
        return fitting(_WORDS[session.status], cells)
    if doing.kind is DoingKind.MODEL:
        return fitting(("thinking", "thinks"), cells)
    asked = doing.kind is DoingKind.PERSON
    start = "waits: " if asked else ""
    what = start + doing.what if doing.what else "waits for you" if asked else "tool"
    room = cells - cell_len(what) - 1
    if doing.detail and room >= SHORTEST_DETAIL:
        return f"{what} {middle(doing.detail, room)}"
    return fitting((what, "waits"), cells) if asked else middle(what, cells)


def since(session: Session) -> int | None:
    """Say when what a session does began, in ms since 1970; else when it last did anything."""
    doing = session.doing if session.live else None
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
    """Draw the newest contexts as a sparkline from 0 to the largest of them."""
    shown = trail[-cells:] if cells > 0 else ()
    peak = max(shown, default=0)
    if peak <= 0:
        return ""
    top = len(LEVELS) - 1
    return "".join(LEVELS[round(max(0, each) / peak * top)] for each in shown)
