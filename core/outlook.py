"""Until when: how far a context is from its next threshold and from where it is compacted."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

import msgspec
from msgspec.structs import replace

from .forecast import OWN_TURNS, Forecast, Prior, forecast, make_prior
from .forecast_calibration import SHIPPED
from .store import queries
from .store.forecast_rows import stored_calibration

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterator, Sequence

    from .context import Context
    from .levels import Level
    from .store.rows import FillRow


PRIOR_SESSIONS: Final = 30
"""Sessions that are asked how contexts grow: enough for `forecast.PRIOR_TURNS` turns."""


_ROUNDING: Final = 1e-6
"""0.7 of 1,000,000 is 700,000.0000000001: products this close are the same."""


class Ahead(msgspec.Struct, frozen=True):
    """The next threshold that a context has not reached."""

    level: Level
    threshold: float
    """Share of the window."""
    tokens: int
    forecast: Forecast | None


class Outlook(msgspec.Struct, frozen=True):
    """What lies ahead of a context."""

    end: Forecast | None
    """To the trigger, or to the window's end where the trigger is not armed."""
    next_threshold: Ahead | None
    """None above the last threshold, and where nothing is known."""


NO_OUTLOOK = Outlook(None, None)


def read_prior(db: sqlite3.Connection) -> Prior:
    """Gather from the newest sessions of the store how contexts grow, and how sure that is."""
    prior = make_prior(read_histories(db))
    return replace(prior, calibration=stored_calibration(db) or SHIPPED)


def read_histories(db: sqlite3.Connection) -> Iterator[list[FillRow]]:
    """Read how the newest sessions of the store grew, newest first."""
    files = queries.newest_files(db, PRIOR_SESSIONS)
    return (read_growth(db, file_id) for file_id in files)


def read_growth(db: sqlite3.Connection, file_id: int) -> list[FillRow]:
    """Read as much of a session's past as a forecast asks."""
    return queries.recent_fill(db, file_id, OWN_TURNS)


def look_ahead(context: Context, rows: Sequence[FillRow], prior: Prior | None) -> Outlook:
    """Forecast from a context's own growth (`queries.fill`) and that of others.

    The client compares its counter with the trigger, and answers tell the fill: the trigger
    is nearer by what the counter is ahead of it.
    """
    fill, numbers = context.tokens, context.token_counts
    if fill is None or numbers.fill is None:
        return NO_OUTLOOK
    ahead_of_fill = (numbers.counter or fill) - numbers.fill
    armed = context.trigger.tokens if context.trigger else None
    end = context.window.tokens if armed is None else armed - ahead_of_fill
    return Outlook(forecast(rows, end, prior), _ahead(context, rows, prior))


def _ahead(context: Context, rows: Sequence[FillRow], prior: Prior | None) -> Ahead | None:
    for line in context.thresholds:
        if not line.is_reached(context.ratio or 0.0):
            tokens = math.ceil(line.at * context.window.tokens - _ROUNDING)
            return Ahead(line.level, line.at, tokens, forecast(rows, tokens, prior))
    return None
