"""The tokens of each session's answers, as the store adds them up."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ctxtop.core.store.queries.activity_queries import (
    model_usage,
    progress_model_usage,
    usage_by_session,
)

if TYPE_CHECKING:
    import sqlite3

    from ctxtop.core.store.queries.query_rows import UsageRow


def usage_of_sessions(db: sqlite3.Connection) -> list[UsageRow]:
    return list(usage_by_session(model_usage(db)).values())


def progress_usage(db: sqlite3.Connection) -> list[UsageRow]:
    """The part that is only in `progress` lines."""
    return list(usage_by_session(progress_model_usage(db)).values())
