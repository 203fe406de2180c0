"""Reads the plan's limits and what used them, for a command, a page or the dashboard's header."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from sqlite3 import Connection
from typing import Final

import msgspec

from ..measure.limit_use import (
    PercentSize,
    Spent,
    WindowShares,
    learn_percent_sizes,
    price_answers,
    share_use,
)
from ..measure.plan_limits import (
    DAY_MS,
    LimitReading,
    PlanLimit,
    WindowUse,
    is_forgotten,
    is_near_limit,
    measure_limits,
)
from ..model.answer_rows import LimitRow
from ..model.claude_models import PriceRate, find_price
from ..store.queries.limit_queries import agent_types, answers_since, limit_rows, limits_fingerprint

REFRESH_MS: Final = 60_000  # after which a projection is made again although nothing was reported


LEARN_FROM_MS: Final = 7 * DAY_MS
"""Of the newest readings, how much a percent has been: a longer history may be another plan's."""

LEARN_MS: Final = 10 * 60_000
"""After which a dashboard learns again what one percent has been: a median hardly moves."""


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


def read_sessions_near_limits(db: Connection) -> frozenset[str]:
    """List the sessions whose client was last told that a limit is near."""
    newest = {(row.session_id, row.window): _to_reading(row) for row in limit_rows(db)}
    return frozenset(each.session_id for each in newest.values() if is_near_limit(each))


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
    readings = _by_window(limit_rows(db))
    if not readings:
        return LimitsReport()
    limits = measure_limits((each for listed in readings.values() for each in listed), now_ms)
    since = now_ms - LEARN_FROM_MS
    starts = [each.starts_at for each in limits if each.starts_at is not None]
    spent = price_answers(answers_since(db, min([since, *starts])), custom_prices)
    shares = {
        each.window: share_use(_spent_since(spent, each.starts_at))
        for each in limits
        if each.starts_at is not None and not each.is_stale(now_ms)
    }
    sizes = _learn_sizes(readings, spent, since, custom_prices)
    agents = {agent.name for each in shares.values() for agent in each.agents}
    return LimitsReport(limits, shares, sizes, agent_types(db, agents))


def read_percent_sizes(
    db: Connection, now_ms: int, custom_prices: Mapping[str, str]
) -> tuple[PercentSize, ...]:
    """Learn how much a percent of each window has been; empty if no limits are reported."""
    rows = limit_rows(db)
    if all(is_forgotten(row.resets_at, now_ms) for row in rows):
        return ()
    since = now_ms - LEARN_FROM_MS
    spent = price_answers(answers_since(db, since), custom_prices)
    return _learn_sizes(_by_window(rows), spent, since, custom_prices)


def _by_window(rows: Iterable[LimitRow]) -> dict[str, list[LimitReading]]:
    readings: defaultdict[str, list[LimitReading]] = defaultdict(list)
    for row in rows:
        readings[row.window].append(_to_reading(row))
    return readings


def _learn_sizes(
    readings: Mapping[str, Sequence[LimitReading]],
    spent: Sequence[Spent],
    since_ms: int,
    custom_prices: Mapping[str, str],
) -> tuple[PercentSize, ...]:
    def input_price(model: str) -> float | None:
        price = find_price(model, PriceRate.STANDARD, custom_prices)
        return price.input if price else None

    return tuple(
        size
        for window, listed in readings.items()
        for size in learn_percent_sizes(
            window,
            WindowUse.of_readings(each for each in listed if each.at >= since_ms),
            spent,
            input_price,
        )
    )


def _spent_since(spent: Sequence[Spent], since_ms: int) -> list[Spent]:
    return [each for each in spent if each.answer.at >= since_ms]


class LimitsMonitor:
    """Reads the limits through one connection; what has not changed is not read again."""

    def __init__(self, db: Connection) -> None:
        self._db: Final = db
        self._read_for: tuple[object, ...] = ()
        self._limits: tuple[PlanLimit, ...] = ()
        self._learnt_for: tuple[object, ...] = ()
        self.percent_sizes: tuple[PercentSize, ...] = ()

    def read(self, now_ms: int) -> tuple[PlanLimit, ...]:
        fingerprint = limits_fingerprint(self._db)
        if fingerprint is None:
            return ()
        read_for = (fingerprint, now_ms // REFRESH_MS)
        if read_for != self._read_for:
            self._limits = read_plan_limits(self._db, now_ms)
            self._read_for = read_for
        return self._limits

    def learn_percent_sizes(self, now_ms: int, custom_prices: Mapping[str, str]) -> bool:
        """Learn how much a percent has been, if that was long ago; return whether it changed."""
        learn_for = (now_ms // LEARN_MS, custom_prices)
        if learn_for == self._learnt_for or limits_fingerprint(self._db) is None:
            return False
        before, self._learnt_for = self.percent_sizes, learn_for
        self.percent_sizes = read_percent_sizes(self._db, now_ms, custom_prices)
        return self.percent_sizes != before
