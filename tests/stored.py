"""What the store has, for tests that look at all of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ctxtop.core.readers.summary_reader import find_summaries, read_summary_rows
from ctxtop.core.summaries.summary_search import SummaryCriteria

if TYPE_CHECKING:
    import sqlite3

    from ctxtop.core.model.stored_rows import SummaryRow


def stored_summaries(db: sqlite3.Connection, search: str = "") -> list[SummaryRow]:
    """The texts that were returned or kept, newest first."""
    found = find_summaries(db, (), SummaryCriteria(query=search), {}, 0)
    return read_summary_rows(db, (), found.ids)
