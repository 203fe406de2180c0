"""Where each session began: its newest line may stand in any folder that it walked into."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .known import migrations

if TYPE_CHECKING:
    from sqlite_utils import Database


@migrations()
def m020_project_root(db: Database) -> None:
    """Add the folders, and read again what can be read again for them."""
    db.execute("ALTER TABLE session ADD COLUMN began_in TEXT")
    db.execute("ALTER TABLE session ADD COLUMN launched_in TEXT")
    db.execute("DELETE FROM file WHERE gone = 0")
