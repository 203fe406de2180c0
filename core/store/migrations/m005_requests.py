"""What was really sent: by key and place, so that an engine reads a part when it needs it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .known import migrations

if TYPE_CHECKING:
    from sqlite_utils import Database


@migrations()
def m005_requests(db: Database) -> None:
    """Carry it out."""
    db.executescript(
        """
        CREATE TABLE request (
            file_id INTEGER NOT NULL REFERENCES file ON DELETE CASCADE,
            offset INTEGER NOT NULL,
            length INTEGER NOT NULL,
            request INTEGER NOT NULL,
            at INTEGER,
            model TEXT,
            query_source TEXT,
            shape INTEGER,
            base INTEGER,
            keep INTEGER NOT NULL,
            tail BLOB NOT NULL,
            PRIMARY KEY (file_id, offset)
        ) STRICT, WITHOUT ROWID;

        CREATE TABLE request_part (
            file_id INTEGER NOT NULL REFERENCES file ON DELETE CASCADE,
            part INTEGER NOT NULL,
            offset INTEGER NOT NULL,
            length INTEGER NOT NULL,
            kind TEXT NOT NULL,
            PRIMARY KEY (file_id, part)
        ) STRICT, WITHOUT ROWID;
        """
    )
