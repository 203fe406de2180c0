"""What tells whether an agent compressed its result: markers, blocks, skills it was given."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .known import migrations

if TYPE_CHECKING:
    from sqlite_utils import Database


@migrations()
def m012_compliance(db: Database) -> None:
    """Carry it out."""
    db.executescript(
        """
        CREATE TABLE marker (
            file_id INTEGER NOT NULL REFERENCES file ON DELETE CASCADE,
            line TEXT NOT NULL,
            offset INTEGER NOT NULL,
            at INTEGER,
            origin TEXT NOT NULL,
            message_id TEXT,
            text TEXT,
            PRIMARY KEY (file_id, line)
        ) STRICT, WITHOUT ROWID;

        CREATE TABLE feedback (
            file_id INTEGER NOT NULL REFERENCES file ON DELETE CASCADE,
            line TEXT NOT NULL,
            offset INTEGER NOT NULL,
            at INTEGER,
            text TEXT NOT NULL,
            PRIMARY KEY (file_id, line)
        ) STRICT, WITHOUT ROWID;

        CREATE TABLE given_skill (
            file_id INTEGER NOT NULL REFERENCES file ON DELETE CASCADE,
            line TEXT NOT NULL,
            offset INTEGER NOT NULL,
            at INTEGER,
            name TEXT NOT NULL,
            PRIMARY KEY (file_id, line)
        ) STRICT, WITHOUT ROWID;

        -- What can be read again is; only agents' own files hold any of this.
        DELETE FROM file WHERE kind = 'agent' AND gone = 0;
        """
    )
