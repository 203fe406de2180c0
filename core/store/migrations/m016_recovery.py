"""What recovery and automation remember from one run of ctxtop to the next."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .known import migrations

if TYPE_CHECKING:
    from sqlite_utils import Database


@migrations()
def m016_recovery(db: Database) -> None:
    """Carry it out."""
    db.executescript(
        """
        CREATE TABLE recovery_run (
            session_id TEXT PRIMARY KEY,
            changed_at INTEGER NOT NULL,
            run TEXT NOT NULL
        ) STRICT, WITHOUT ROWID;
        CREATE TABLE automatic_run (
            session_id TEXT NOT NULL,
            at INTEGER NOT NULL,
            reason TEXT NOT NULL,
            outcome TEXT,
            ended_at INTEGER,
            PRIMARY KEY (session_id, at)
        ) STRICT, WITHOUT ROWID;
        """
    )
