"""Runs of the client that nobody asked for one by one: how many there were is remembered."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .known import migrations

if TYPE_CHECKING:
    from sqlite_utils import Database


@migrations()
def m021_client_runs(db: Database) -> None:
    """Make their table."""
    db.executescript(
        """
        CREATE TABLE client_run (
            session_id TEXT NOT NULL,
            at INTEGER NOT NULL -- ms since 1970
        ) STRICT;
        CREATE INDEX client_run_at ON client_run (at);
        """
    )
