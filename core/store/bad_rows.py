"""Lines that were set aside: all are counted, and some of them are kept to be looked at."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from msgspec.structs import astuple

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Sequence

    from .facts import BadLine

KEPT_A_FILE: Final = 100
"""Rows of one file: whoever looks for the cause finds it in the first; a file that is no
transcript has a million."""

KEPT_IN_ALL: Final = 10_000
"""Rows of all files together; a sound folder of 100,000 sessions has a few hundred."""


def add_bad_lines(
    db: sqlite3.Connection, file_id: int, lines: Sequence[BadLine], count: int
) -> None:
    """Count lines of a transcript that were set aside, and keep the first of the file's."""
    if count:
        db.execute("UPDATE file SET bad_lines = bad_lines + ? WHERE file_id = ?", (count, file_id))
        _keep(db, "bad_line", "file_id", file_id, lines)


def add_bad_records(db: sqlite3.Connection, part_id: int, lines: Sequence[BadLine]) -> None:
    """Count lines of one of ctxtop's own logs that were set aside, and keep the first."""
    if lines:
        db.execute(
            "UPDATE log_part SET bad_lines = bad_lines + ? WHERE part_id = ?", (len(lines), part_id)
        )
        _keep(db, "log_bad_line", "part_id", part_id, lines)


def _keep(db: sqlite3.Connection, table: str, key: str, of: int, bad: Sequence[BadLine]) -> None:
    of_file, in_all = db.execute(
        f"SELECT (SELECT COUNT(*) FROM {table} WHERE {key} = ?), (SELECT COUNT(*) FROM {table})",
        (of,),
    ).fetchone()
    room = max(0, min(KEPT_A_FILE - of_file, KEPT_IN_ALL - in_all))
    db.executemany(
        f"INSERT OR IGNORE INTO {table} VALUES (?, ?, ?, ?)",
        [(of, *astuple(line)) for line in bad[:room]],
    )
