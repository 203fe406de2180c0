"""What the store holds of ctxtop's own logs, for tests that look into it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import sqlite3


def log_rows(db: sqlite3.Connection, table: str, session_id: str) -> list[Any]:
    """The rows of a session, oldest first, with their columns as attributes."""
    rows = db.execute(
        f"SELECT * FROM {table} WHERE session_id = ? ORDER BY at, part_id, offset", [session_id]
    )
    return [SimpleNamespace(**dict(row)) for row in rows]
