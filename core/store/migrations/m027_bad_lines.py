"""Counts of the lines that were set aside, of which only some are kept; bounds of all texts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ..transcript_records import MAX_BAD_LINES_PER_FILE
from .known import migrations

if TYPE_CHECKING:
    from sqlite_utils import Database


@migrations()
def m027_bad_lines(db: Database) -> None:
    """Carry it out: what can be read again is, with today's bounds for its texts."""
    db.execute("DELETE FROM file WHERE gone = 0")
    for parts, lines, key in _TABLES:
        db.execute(f"ALTER TABLE {parts} ADD COLUMN bad_lines INTEGER NOT NULL DEFAULT 0")
        db.execute(
            f"UPDATE {parts} SET bad_lines ="
            f" (SELECT COUNT(*) FROM {lines} b WHERE b.{key} = {parts}.{key})"
        )
        db.execute(
            f"DELETE FROM {lines} WHERE rowid IN (SELECT rowid FROM (SELECT rowid,"
            f" ROW_NUMBER() OVER (PARTITION BY {key} ORDER BY offset) AS place FROM {lines})"
            f" WHERE place > {MAX_BAD_LINES_PER_FILE})"
        )


_TABLES: Final = (("file", "bad_line", "file_id"), ("log_part", "log_bad_line", "part_id"))
