"""What stands after a context's last answer, and what tells its window and trigger."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .known import migrations

if TYPE_CHECKING:
    from sqlite_utils import Database


@migrations()
def m008_additions(db: Database) -> None:
    """Carry it out."""
    db.executescript(
        """
        CREATE TABLE addition (
            file_id INTEGER NOT NULL REFERENCES file ON DELETE CASCADE,
            offset INTEGER NOT NULL,
            message INTEGER,
            tokens INTEGER NOT NULL,
            PRIMARY KEY (file_id, offset)
        ) STRICT, WITHOUT ROWID;

        CREATE TABLE context_report (
            file_id INTEGER NOT NULL REFERENCES file ON DELETE CASCADE,
            offset INTEGER NOT NULL,
            at INTEGER,
            model TEXT NOT NULL,
            total_tokens INTEGER NOT NULL,
            window_tokens INTEGER NOT NULL,
            buffer_tokens INTEGER,
            PRIMARY KEY (file_id, offset)
        ) STRICT, WITHOUT ROWID;

        ALTER TABLE response ADD COLUMN last_output_tokens INTEGER;
        ALTER TABLE session ADD COLUMN model_offset INTEGER;

        CREATE TABLE client_environment (
            session_id TEXT NOT NULL,
            name TEXT NOT NULL,
            value TEXT NOT NULL,
            PRIMARY KEY (session_id, name)
        ) STRICT, WITHOUT ROWID;

        -- What can be read again is: of older rows nobody knows what stands after them.
        DELETE FROM file WHERE gone = 0;
        """
    )
