"""Summaries that match a query: their ids and times first, then a few of them whole."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

import msgspec

from .query_rows import SummaryRow, fetch_records

if TYPE_CHECKING:
    import sqlite3


MAX_SUMMARIES: Final = 100_000
"""Of the newest: two numbers each. Nobody scrolls further, and words find what is older."""


class SummaryConditions(msgspec.Struct, frozen=True):
    """Conditions that all must be met; an empty one is none."""

    match: str = ""  # an expression of FTS5
    exclude: str = ""  # an expression of FTS5 that must not match
    kinds: tuple[str, ...] = ()
    agent_types: tuple[str, ...] = ()  # parts of agent types, casefolded; one is met
    sessions: tuple[str, ...] | None = None
    since_ms: int | None = None  # milliseconds since 1970
    excluded_uuids: tuple[str, ...] = ()  # uuids of lines that are shown as something else


def find_summary_ids(
    db: sqlite3.Connection, conditions: SummaryConditions, limit: int = MAX_SUMMARIES
) -> list[tuple[int, int]]:
    """List ids and times (0 where unknown) of what meets all conditions, newest first."""
    where, values = _conditions(conditions)
    sql = _FIND.format(joins=_TYPE_JOINS if conditions.agent_types else "", where=where)
    return [(row[0], row[1] or 0) for row in db.execute(sql, [*values, limit])]


def fetch_summaries(db: sqlite3.Connection, ids: Sequence[int]) -> list[SummaryRow]:
    """Return whole summaries in no particular order; ids that no longer exist are left out."""
    return fetch_records(SummaryRow, db, _READ, [json.dumps(list(ids))])


def summary_agent_types(db: sqlite3.Connection) -> list[str]:
    """Name the types of the agents that returned something, the most frequent first."""
    return [row[0] for row in db.execute(_AGENT_TYPES)]


def summary_location(db: sqlite3.Connection, summary_id: int) -> tuple[str, str, int] | None:
    """Return a summary's file below projects/, its kind, and the byte offset of its line."""
    row = db.execute(_LOCATION, [summary_id]).fetchone()
    return None if row is None else (str(row[0]), str(row[1]), int(row[2]))


def _conditions(conditions: SummaryConditions) -> tuple[str, list[Any]]:
    found: list[tuple[str, Any]] = []
    if conditions.match:
        found.append((f"s.summary_id IN ({_MATCHING})", conditions.match))
    if conditions.exclude:
        found.append((f"s.summary_id NOT IN ({_MATCHING})", conditions.exclude))
    if conditions.kinds:
        found.append(("s.kind IN (SELECT value FROM json_each(?))", json.dumps(conditions.kinds)))
    if conditions.agent_types:
        found.append((_OF_TYPE, json.dumps(conditions.agent_types)))
    if conditions.sessions is not None:
        found.append(
            ("f.session_id IN (SELECT value FROM json_each(?))", json.dumps(conditions.sessions))
        )
    if conditions.since_ms is not None:
        found.append(("s.at >= ?", conditions.since_ms))
    if conditions.excluded_uuids:
        found.append(
            (
                "s.uuid NOT IN (SELECT value FROM json_each(?))",
                json.dumps(conditions.excluded_uuids),
            )
        )
    return " AND ".join(["1", *(sql for sql, _ in found)]), [value for _, value in found]


_MATCHING: Final = "SELECT rowid FROM summary_fts WHERE summary_fts MATCH ?"

_TYPE: Final = "COALESCE(NULLIF(m.agent_type, ''), l.agent_type)"

_OF_TYPE: Final = f"""EXISTS (
    SELECT 1 FROM json_each(?) WHERE instr(lower({_TYPE}), value) > 0)"""

_TYPE_JOINS: Final = """
LEFT JOIN agent_meta m ON m.session_id = f.session_id AND m.agent_id = s.agent_id
LEFT JOIN launch l ON l.rowid = (SELECT x.rowid FROM agent_return t
    JOIN launch x ON x.file_id = t.file_id AND x.tool_use_id = t.tool_use_id
    WHERE t.file_id = s.file_id AND t.agent_id = s.agent_id LIMIT 1)
"""

# A fork copies its history: the same line stands in two files and is shown once, in
# the session that wrote it first.
_WRITTEN_FIRST: Final = """NOT EXISTS (
    SELECT 1 FROM summary o JOIN file g USING (file_id)
    LEFT JOIN session a ON a.file_id = o.file_id
    LEFT JOIN session b ON b.file_id = s.file_id
    WHERE o.uuid = s.uuid AND o.file_id <> s.file_id
    AND (a.forked_from IS NOT NULL, COALESCE(a.opened_at, 0), g.path)
        < (b.forked_from IS NOT NULL, COALESCE(b.opened_at, 0), f.path))
"""

# summary_time has the order: nothing is sorted.
_FIND: Final = f"""
SELECT s.summary_id, s.at FROM summary s JOIN file f USING (file_id) {{joins}}
WHERE {{where}} AND {_WRITTEN_FIRST}
ORDER BY s.at DESC, s.summary_id DESC LIMIT ?
"""

_READ: Final = f"""
SELECT s.summary_id, s.kind, f.session_id, s.agent_id, {_TYPE},
    COALESCE(NULLIF(m.description, ''), l.description), s.at, s.lines, n.tokens, s.text
FROM summary s JOIN file f USING (file_id)
LEFT JOIN estimate n ON n.summary_id = s.summary_id
{_TYPE_JOINS}
WHERE s.summary_id IN (SELECT value FROM json_each(?))
"""

_AGENT_TYPES: Final = f"""
SELECT {_TYPE} AS type FROM summary s JOIN file f USING (file_id) {_TYPE_JOINS}
WHERE s.kind = 'agent' AND type IS NOT NULL GROUP BY type ORDER BY COUNT(*) DESC, type
"""

_LOCATION: Final = """
SELECT f.path, s.kind, s.offset FROM summary s JOIN file f USING (file_id) WHERE summary_id = ?
"""
