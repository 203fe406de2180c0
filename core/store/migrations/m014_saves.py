"""What saves left in transcripts, what their files held word for word, and who makes them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .known import migrations

if TYPE_CHECKING:
    from sqlite_utils import Database


@migrations()
def m014_saves(db: Database) -> None:
    """Carry it out."""
    db.executescript(
        """
        -- The line by which the client tells a session what a Stop hook kept it for.
        CREATE TABLE stop_block (
            file_id INTEGER NOT NULL REFERENCES file ON DELETE CASCADE,
            offset INTEGER NOT NULL,
            uuid TEXT NOT NULL,
            at INTEGER,
            text TEXT NOT NULL,
            lines INTEGER NOT NULL,
            chars INTEGER NOT NULL,
            PRIMARY KEY (file_id, offset)
        ) STRICT, WITHOUT ROWID;

        CREATE TABLE stop_hook (
            file_id INTEGER NOT NULL REFERENCES file ON DELETE CASCADE,
            offset INTEGER NOT NULL,
            at INTEGER,
            hooks INTEGER NOT NULL,
            blocked INTEGER NOT NULL,
            duration_ms INTEGER,
            commands TEXT NOT NULL,
            PRIMARY KEY (file_id, offset)
        ) STRICT, WITHOUT ROWID;

        CREATE TABLE memory_note (
            file_id INTEGER NOT NULL REFERENCES file ON DELETE CASCADE,
            offset INTEGER NOT NULL,
            at INTEGER,
            text TEXT NOT NULL,
            PRIMARY KEY (file_id, offset)
        ) STRICT, WITHOUT ROWID;

        CREATE TABLE save_noise (
            file_id INTEGER NOT NULL REFERENCES file ON DELETE CASCADE,
            offset INTEGER NOT NULL,
            version INTEGER NOT NULL,
            read_to INTEGER NOT NULL,
            closed INTEGER NOT NULL,
            noise TEXT,
            PRIMARY KEY (file_id, offset)
        ) STRICT, WITHOUT ROWID;

        CREATE TABLE save_raw (
            version INTEGER PRIMARY KEY REFERENCES save_file ON DELETE CASCADE,
            raw BLOB NOT NULL,
            cut INTEGER NOT NULL
        ) STRICT;

        CREATE TABLE save_plugin (
            install_path TEXT PRIMARY KEY,
            plugin_id TEXT NOT NULL,
            version TEXT,
            mark TEXT NOT NULL,
            skill_takes_file INTEGER,
            triage_writes_file INTEGER,
            has_orchestrator INTEGER NOT NULL
        ) STRICT;

        -- What can be read again is: older rows do not know these lines and contents.
        DELETE FROM save_file WHERE gone = 0;
        DELETE FROM file WHERE gone = 0;
        """
    )
