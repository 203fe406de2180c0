"""What the client cleared by itself, and contexts of which ctxtop knows an estimate alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .known import migrations

if TYPE_CHECKING:
    from sqlite_utils import Database


@migrations()
def m024_clearings(db: Database) -> None:
    """Carry it out."""
    db.executescript(
        """
        CREATE TABLE clearing (
            file_id INTEGER NOT NULL REFERENCES file ON DELETE CASCADE,
            offset INTEGER NOT NULL,
            uuid TEXT NOT NULL,
            at INTEGER,
            trigger TEXT,
            pre_tokens INTEGER,
            saved_tokens INTEGER,
            results INTEGER NOT NULL,
            attachments INTEGER NOT NULL,
            PRIMARY KEY (file_id, offset)
        ) STRICT, WITHOUT ROWID;
        -- What the next request will hold after a compaction that no answer follows yet.
        CREATE TABLE compaction_left (
            file_id INTEGER PRIMARY KEY REFERENCES file ON DELETE CASCADE,
            offset INTEGER NOT NULL,
            read_to INTEGER NOT NULL,
            tokens INTEGER
        ) STRICT;
        ALTER TABLE response ADD COLUMN lowered INTEGER NOT NULL DEFAULT 0;

        -- What can be read again is: of older rows nobody knows either.
        DELETE FROM file WHERE gone = 0;
        """
    )
