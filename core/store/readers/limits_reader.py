"""Reads the plan's limits and what used them, for a command, a page or the dashboard's header."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from sqlite3 import Connection
from typing import Final

import msgspec

from ...measure.limit_use import (
    PercentSize,
    Spent,
    WindowShares,
    learn_percent_sizes,
    price_answers,
    share_use,
)
from ...measure.models import find_price
from ...measure.plan_limits import LimitReading, PlanLimit, WindowUse, measure_limits
from ..queries.limit_queries import (
    LimitRow,
    agent_types,
    answers_since,
    limit_rows,
    limits_fingerprint,
)

REFRESH_MS: Final = 60_000  # after which a projection is made again although nothing was reported


class LimitsReport(msgspec.Struct, frozen=True):
    limits: tuple[PlanLimit, ...] = ()
    shares: Mapping[str, WindowShares] = msgspec.field(default_factory=dict)  # by window
    percent_sizes: tuple[PercentSize, ...] = ()
    agent_types: Mapping[str, str] = msgspec.field(default_factory=dict)  # by id, as far as known

    def percent_sizes_of(self, window: str) -> list[PercentSize]:
        return [each for each in self.percent_sizes if each.window == window]


def read_plan_limits(db: Connection, now_ms: int) -> tuple[PlanLimit, ...]:
    """Measure the windows that a client reported; empty if none did."""
    return measure_limits(map(_to_reading, limit_rows(db)), now_ms)


def _to_reading(row: LimitRow) -> LimitReading:
    return LimitReading(
        row.window,
        row.session_id,
        row.at,
        row.last_at,
        round(row.used_percentage / 100, 6),
        row.resets_at,
        row.answered_at,
        row.before_at,
    )


def read_limits_report(
    db: Connection, now_ms: int, custom_prices: Mapping[str, str]
) -> LimitsReport:
    """Read the limits, who used the windows that are open, and how much a percent has been."""
    readings: defaultdict[str, list[LimitReading]] = defaultdict(list)
    for row in limit_rows(db):
        readings[row.window].append(_to_reading(row))
    if not readings:
        return LimitsReport()
    limits = measure_limits((each for listed in readings.values() for each in listed), now_ms)
    since = min(listed[0].at for listed in readings.values())
    starts = [each.starts_at for each in limits if each.starts_at is not None]
    spent = price_answers(answers_since(db, min([since, *starts])), custom_prices)
    shares = {
        each.window: share_use(_spent_since(spent, each.starts_at))
        for each in limits
        if each.starts_at is not None and not each.is_stale(now_ms)
    }

    def input_price(model: str) -> float | None:
        price = find_price(model, 0, custom_prices)
        return price.input if price else None

    sizes = [
        size
        for window, listed in readings.items()
        for size in learn_percent_sizes(window, WindowUse.of_readings(listed), spent, input_price)
    ]
    agents = {agent.name for each in shares.values() for agent in each.agents}
    return LimitsReport(limits, shares, tuple(sizes), agent_types(db, agents))


def _spent_since(spent: Sequence[Spent], since_ms: int) -> list[Spent]:
    return [each for each in spent if each.answer.at >= since_ms]


class LimitsMonitor:
    """Reads the limits through one connection; what has not changed is not read again."""

    def __init__(self, db: Connection) -> None:
        self._db: Final = db
        self._read_for: tuple[object, ...] = ()
        self._limits: tuple[PlanLimit, ...] = ()

    def read(self, now_ms: int) -> tuple[PlanLimit, ...]:
        fingerprint = limits_fingerprint(self._db)
        if fingerprint is None:
            return ()
        read_for = (fingerprint, now_ms // REFRESH_MS)
        if read_for != self._read_for:
            self._limits = read_plan_limits(self._db, now_ms)
            self._read_for = read_for
        return self._limits
