"""What summaries of older clients call the conversations that end in a line."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .known import migrations

if TYPE_CHECKING:
    from sqlite_utils import Database


@migrations()
def m029_leaf_titles(db: Database) -> None:
    """Carry it out: what can be read again is, for the titles in it."""
    db.executescript(
        """
        CREATE TABLE leaf_title (
            file_id INTEGER NOT NULL REFERENCES file ON DELETE CASCADE,
            leaf_uuid TEXT NOT NULL,
            title TEXT NOT NULL,
            PRIMARY KEY (file_id, leaf_uuid)
        ) STRICT, WITHOUT ROWID;
        CREATE INDEX leaf_title_leaf ON leaf_title (leaf_uuid);
        ALTER TABLE session ADD COLUMN leaf_uuid TEXT;
        DELETE FROM file WHERE gone = 0;
        """
    )
