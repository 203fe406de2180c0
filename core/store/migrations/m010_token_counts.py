"""What the growth of contexts taught of token counts, and texts that were counted."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .known import migrations

if TYPE_CHECKING:
    from sqlite_utils import Database


@migrations()
def m010_token_counts(db: Database) -> None:
    """Carry it out."""
    db.executescript(
        """
        CREATE TABLE growth (
            file_id INTEGER NOT NULL REFERENCES file ON DELETE CASCADE,
            offset INTEGER NOT NULL,
            answer INTEGER NOT NULL,
            at INTEGER NOT NULL,
            model TEXT NOT NULL,
            prose INTEGER NOT NULL,
            code INTEGER NOT NULL,
            json INTEGER NOT NULL,
            other INTEGER NOT NULL,
            fixed INTEGER NOT NULL,
            growth INTEGER NOT NULL,
            PRIMARY KEY (file_id, offset)
        ) STRICT, WITHOUT ROWID;

        CREATE TABLE learnt (
            file_id INTEGER PRIMARY KEY REFERENCES file ON DELETE CASCADE,
            offset INTEGER NOT NULL,
            seen INTEGER NOT NULL
        ) STRICT;

        CREATE TABLE text_count (
            key INTEGER PRIMARY KEY,
            turn INTEGER NOT NULL,
            kind TEXT NOT NULL,
            plain INTEGER NOT NULL,
            older INTEGER NOT NULL,
            newer INTEGER NOT NULL
        ) STRICT;
        """
    )
