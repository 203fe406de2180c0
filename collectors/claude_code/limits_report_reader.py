"""Reads the plan's limits, with what part of each window cache misses took, by cause."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from pathlib import Path

from msgspec.structs import replace

from ...core.measure.limit_use import add_causes
from ...core.readers.limits_reader import LimitsReport, read_limits_report
from .cache_ledger_reader import read_cache_ledger


def read_limits_with_causes(
    db: sqlite3.Connection,
    projects: Path,
    store: Path,
    custom_prices: Mapping[str, str],
    now_ms: int,
) -> LimitsReport:
    report = read_limits_report(db, now_ms, custom_prices)
    starts = {
        each.window: each.starts_at
        for each in report.limits
        if each.window in report.shares and each.starts_at is not None
    }
    if not starts:
        return report
    since = min(starts.values())
    misses = read_cache_ledger(db, projects, store, custom_prices, since_ms=since).misses
    shares = {
        window: add_causes(report.shares[window], misses, start) for window, start in starts.items()
    }
    return replace(report, shares=shares)
