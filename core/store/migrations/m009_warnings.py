"""The log of warnings, and how far fills were judged for it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .known import migrations

if TYPE_CHECKING:
    from sqlite_utils import Database


@migrations()
def m009_warnings(db: Database) -> None:
    """Carry it out; the agent '' is the session itself."""
    db.executescript(
        """
        CREATE TABLE warning (
            warning_id INTEGER PRIMARY KEY,
            session_id TEXT NOT NULL,
            agent_id TEXT NOT NULL,
            threshold TEXT NOT NULL,
            level TEXT NOT NULL,
            line_ratio REAL NOT NULL,
            ratio REAL NOT NULL,
            tokens INTEGER NOT NULL,
            window_tokens INTEGER NOT NULL,
            at INTEGER,
            path TEXT NOT NULL,
            offset INTEGER NOT NULL,
            mark TEXT NOT NULL,
            logged_at INTEGER NOT NULL,
            cleared_at INTEGER,
            cleared_mark TEXT,
            UNIQUE (session_id, agent_id, threshold, mark)
        ) STRICT;

        CREATE TABLE judged_context (
            session_id TEXT NOT NULL,
            agent_id TEXT NOT NULL,
            offset INTEGER NOT NULL,
            mark TEXT NOT NULL,
            at INTEGER,
            PRIMARY KEY (session_id, agent_id)
        ) STRICT, WITHOUT ROWID;

        CREATE TABLE judged_file (
            file_id INTEGER PRIMARY KEY REFERENCES file ON DELETE CASCADE,
            offset INTEGER NOT NULL
        ) STRICT;
        """
    )
