"""Last lines without a line end, and what tells that a file was edited in place."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .known import migrations

if TYPE_CHECKING:
    from sqlite_utils import Database


@migrations()
def m023_last_lines(db: Database) -> None:
    """Carry it out; a file whose last line was kept back looks changed, and is looked at again."""
    db.execute("ALTER TABLE file ADD COLUMN ctime_ns INTEGER NOT NULL DEFAULT 0")
    db.execute("ALTER TABLE file ADD COLUMN places TEXT NOT NULL DEFAULT ''")
    db.execute("UPDATE file SET size = offset WHERE size > offset")
