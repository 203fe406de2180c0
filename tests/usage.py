"""The tokens of each session's answers, as the store adds them up."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ctxtop.core.store.queries.spending_queries import model_usage, usage_by_session

if TYPE_CHECKING:
    import sqlite3

    from ctxtop.core.model.stored_rows import UsageRow


def usage_of_sessions(db: sqlite3.Connection) -> list[UsageRow]:
    """Without what is only in `progress` lines."""
    rows = [each for each in model_usage(db) if not each.is_progress]
    return list(usage_by_session(rows).values())


def progress_usage(db: sqlite3.Connection) -> list[UsageRow]:
    """The part that is only in `progress` lines."""
    return list(usage_by_session(each for each in model_usage(db) if each.is_progress).values())
