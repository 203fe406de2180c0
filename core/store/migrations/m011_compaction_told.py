"""What is told of each compaction beside the client's own numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .known import migrations

if TYPE_CHECKING:
    from sqlite_utils import Database


@migrations()
def m011_compaction_told(db: Database) -> None:
    """Carry it out."""
    db.executescript(
        """
        CREATE TABLE compaction_told (
            file_id INTEGER NOT NULL REFERENCES file ON DELETE CASCADE,
            offset INTEGER NOT NULL,
            version INTEGER NOT NULL,
            told TEXT NOT NULL,
            PRIMARY KEY (file_id, offset)
        ) STRICT;
        CREATE INDEX boundary_line ON boundary (uuid);
        """
    )
