"""Entries of the registry that were left behind, and what ctxtop itself changed last."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .known import migrations

if TYPE_CHECKING:
    from sqlite_utils import Database


@migrations()
def m028_registry_and_changes(db: Database) -> None:
    """Carry it out."""
    db.executescript(
        """
        CREATE TABLE left_open (
            session_id TEXT PRIMARY KEY
        ) STRICT, WITHOUT ROWID;
        CREATE TABLE changed_session (
            session_id TEXT PRIMARY KEY,
            at INTEGER NOT NULL
        ) STRICT, WITHOUT ROWID;
        """
    )
