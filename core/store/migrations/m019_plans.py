"""Plans that were made in plan mode, among the summaries."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .known import migrations

if TYPE_CHECKING:
    from sqlite_utils import Database


@migrations()
def m019_plans(db: Database) -> None:
    """Carry it out: what can be read again is, for the plans in it."""
    db.execute("DELETE FROM file WHERE gone = 0")
