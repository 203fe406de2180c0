"""What the log asks: what was set aside, what is not known, where contexts were compacted."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from .records import records
from .timeline_queries import NEXT_ANSWER

if TYPE_CHECKING:
    import sqlite3


class AsideRow(msgspec.Struct, frozen=True):
    """A line that could not be read."""

    log: str | None
    """None for a transcript's; else which of ctxtop's own logs."""
    session_id: str | None
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


class BoundaryRow(msgspec.Struct, frozen=True):
    """A compaction without its summary; sizes are tokens."""

    session_id: str
    agent_id: str | None
    uuid: str
    at: int | None
    trigger: str | None
    pre_tokens: int | None
    post_tokens: int | None
    kept_messages: int | None
    next_tokens: int | None = None
    """What the first answer after it held; None while there is none."""
    estimated_next_tokens: int | None = None
    """Estimate of that, while there is none."""


def newest_boundaries(db: sqlite3.Connection, limit: int) -> list[BoundaryRow]:
    """List the newest compactions, newest first; one that a fork has copied is its writer's."""
    found: dict[str, BoundaryRow] = {}
    for row in records(BoundaryRow, db, _BOUNDARIES, [limit]):
        # What has no uuid is called after its place, which other files have too.
        key = f"{row.session_id} {row.uuid}" if row.uuid.startswith("at ") else row.uuid
        found.setdefault(key, row)
    return list(found.values())


def newest_aside(db: sqlite3.Connection, limit: int) -> list[AsideRow]:
    """List lines that were set aside, those of the files written last first."""
    return records(AsideRow, db, _ASIDE, [limit])


def unknown_rows(db: sqlite3.Connection) -> list[TypeRow]:
    """Count what is kept and not known, the most lines first."""
    return records(TypeRow, db, _UNKNOWN, [])


_BOUNDARIES: Final = f"""
SELECT f.session_id, f.agent_id, b.uuid, b.at, trigger, pre_tokens, post_tokens, kept_messages,
    {NEXT_ANSWER}, l.tokens
FROM boundary b JOIN file f USING (file_id) LEFT JOIN session s USING (file_id)
LEFT JOIN compaction_left l ON l.file_id = b.file_id AND l.offset = b.offset
ORDER BY b.at DESC, s.forked_from IS NOT NULL, f.path LIMIT ?
"""

_ASIDE: Final = """
SELECT NULL AS log, session_id, path, b.offset, length, reason, mtime_ns / 1000000 AS file_at
FROM bad_line b JOIN file USING (file_id)
UNION ALL
SELECT log, NULL, name, b.offset, length, reason, mtime_ns / 1000000
FROM log_bad_line b JOIN log_part USING (part_id)
ORDER BY file_at DESC, path, 4 LIMIT ?
"""

_UNKNOWN: Final = """
SELECT type, SUM(c.lines) AS lines, MAX(mtime_ns) / 1000000 AS last_at
FROM line_count c JOIN file USING (file_id) WHERE known = 0 GROUP BY type
UNION ALL
SELECT 'hook ' || event, COUNT(*), MAX(at) FROM hook_event WHERE known = 0 GROUP BY event
ORDER BY 2 DESC, 1
"""


class RefusalRow(msgspec.Struct, frozen=True):
    """An answer that the API refused; `at` in ms since 1970."""

    session_id: str
    agent_id: str | None
    path: str
    offset: int
    at: int | None
    kind: str
    detail: str
    prompt_tokens: int | None
    limit_tokens: int | None


def newest_refusals(db: sqlite3.Connection, limit: int) -> list[RefusalRow]:
    """List the newest refusals, newest first; one that forks have copied stands once."""
    return records(RefusalRow, db, _REFUSALS, [limit])


_REFUSALS: Final = """
SELECT session_id, agent_id, path, offset, at, kind, detail, prompt_tokens, limit_tokens FROM (
    SELECT f.session_id, f.agent_id, f.path, e.*, ROW_NUMBER() OVER (
        PARTITION BY COALESCE(e.at, e.file_id || ' ' || e.offset), e.kind, e.detail
        ORDER BY s.forked_from IS NOT NULL, s.opened_at, f.path) AS place
    FROM api_error e JOIN file f USING (file_id) LEFT JOIN session s USING (file_id)
) WHERE place = 1 ORDER BY at DESC, path, offset DESC LIMIT ?
"""
