"""What the module inside the client pushes: measurements, and the usage of turns."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .known import migrations

if TYPE_CHECKING:
    from sqlite_utils import Database


@migrations()
def m013_measurements(db: Database) -> None:
    """Carry it out."""
    db.executescript(
        """
        CREATE TABLE measurement (
            part_id INTEGER NOT NULL REFERENCES log_part ON DELETE CASCADE,
            offset INTEGER NOT NULL,
            at INTEGER NOT NULL,
            kind TEXT NOT NULL,
            session_id TEXT NOT NULL,
            agent_id TEXT,
            model TEXT,
            asked_model TEXT,
            context_tokens INTEGER,
            window_tokens INTEGER,
            percent INTEGER,
            cost_usd REAL,
            turn_id TEXT,
            input_tokens INTEGER,
            cache_creation_tokens INTEGER,
            cache_read_tokens INTEGER,
            output_tokens INTEGER,
            duration_ms INTEGER,
            aborted INTEGER,
            detail TEXT NOT NULL,
            PRIMARY KEY (part_id, offset)
        ) STRICT, WITHOUT ROWID;
        CREATE INDEX measurement_session ON measurement (session_id, at);
        ALTER TABLE window_seen ADD COLUMN measured INTEGER NOT NULL DEFAULT 0;
        """
    )
