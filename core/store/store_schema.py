"""The version of the store's tables, and what is carried over from a store of an older version."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from sqlite_utils import Database

SCHEMA_VERSION: Final = 1
"""Of schema.sql, kept as `PRAGMA user_version`; raised with every change that is not a comment."""

TABLES_WITH_FILE_ID: Final = (
    "session",
    "response",
    "model_use",
    "boundary",
    "clearing",
    "api_error",
    "launch",
    "agent_return",
    "reply",
    "summary",
    "line_count",
    "bad_line",
    "aside_line",
    "step_agent",
    "step",
    "leaf_title",
    "request",
    "request_part",
    "addition",
    "context_report",
    "compaction_told",
    "compaction_left",
    "stop_block",
    "stop_hook",
    "memory_note",
    "save_noise",
    "growth",
    "learnt",
    "judged_file",
    "marker",
    "feedback",
    "given_skill",
    "open_call",
    "spending",
    "shared_response",
)
"""Tables whose rows belong to one file: read again, they are made again."""


LASTING_TABLES: Final = ("client_run", "automatic_run", "recovery_run", "warning")
"""Without the first three an upgrade would reset the limits of what ctxtop does by itself."""


def carry_over(connection: sqlite3.Connection, older: Path) -> None:
    """Copy the lasting tables of an older store, as far as both have their columns.

    A store that cannot be read, or a table whose rows no longer fit, is left out.
    """
    from sqlite_utils import Database  # takes 100 ms, more than all that opens a store

    db = Database(connection)
    try:
        db.attach("older", older)
    except sqlite3.Error:
        return
    try:
        for table in LASTING_TABLES:
            _copy(db, connection, table)
    finally:
        connection.execute("DETACH older")


def _copy(db: Database, connection: sqlite3.Connection, table: str) -> None:
    rows = db.query("SELECT name FROM pragma_table_info(?, 'older')", [table])
    older = {row["name"] for row in rows}
    columns = ", ".join(f'"{name}"' for name in db.table(table).columns_dict if name in older)
    if not columns:
        return
    try:
        connection.execute(
            f"INSERT OR IGNORE INTO main.{table} ({columns}) SELECT {columns} FROM older.{table}"
        )
    except sqlite3.Error:
        return
