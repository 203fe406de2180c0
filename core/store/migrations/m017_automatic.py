"""What an automatic run left, and the receipt of what it did."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .known import migrations

if TYPE_CHECKING:
    from sqlite_utils import Database


@migrations()
def m017_automatic(db: Database) -> None:
    """Carry it out."""
    db.executescript(
        """
        ALTER TABLE automatic_run ADD COLUMN left_tokens INTEGER;
        ALTER TABLE automatic_run ADD COLUMN receipt TEXT;
        """
    )
