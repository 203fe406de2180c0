"""What was set aside, with the time by which it was: the log's questions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from .records import records

if TYPE_CHECKING:
    import sqlite3


class AsideRow(msgspec.Struct, frozen=True):
    """A line that could not be read."""

    log: str | None
    """None for a transcript's; else which of ctxtop's own logs."""
    path: str
    """Below the projects folder, or the name of the log's file."""
    offset: int
    length: int
    reason: str
    file_at: int
    """When its file was last written, in ms since 1970: the line is no newer."""


class TypeRow(msgspec.Struct, frozen=True):
    """A type of lines, or an event of hooks, that this version does not know."""

    type: str
    lines: int
    last_at: int
    """When it was last seen at the latest, in ms since 1970."""


def newest_aside(db: sqlite3.Connection, most: int) -> list[AsideRow]:
    """List lines that were set aside, those of the files written last first."""
    return records(AsideRow, db, _ASIDE, [most])


def unknown_rows(db: sqlite3.Connection) -> list[TypeRow]:
    """Count what is kept and not known, the most lines first."""
    return records(TypeRow, db, _UNKNOWN, [])


_ASIDE: Final = """
SELECT NULL AS log, path, b.offset, length, reason, mtime_ns / 1000000 AS file_at
FROM bad_line b JOIN file USING (file_id)
UNION ALL
SELECT log, name, b.offset, length, reason, mtime_ns / 1000000
FROM log_bad_line b JOIN log_part USING (part_id)
ORDER BY file_at DESC, path, 3 LIMIT ?
"""

_UNKNOWN: Final = """
SELECT type, SUM(c.lines) AS lines, MAX(mtime_ns) / 1000000 AS last_at
FROM line_count c JOIN file USING (file_id) WHERE known = 0 GROUP BY type
UNION ALL
SELECT 'hook ' || event, COUNT(*), MAX(at) FROM hook_event WHERE known = 0 GROUP BY event
ORDER BY 2 DESC, 1
"""
