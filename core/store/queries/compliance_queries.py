"""What agents' results are judged by: final messages, markers, stop feedback and skills."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

import msgspec

from .query_rows import RecordT, columns, fetch_records, in_condition

if TYPE_CHECKING:
    import sqlite3


class FinalMessageRow(msgspec.Struct, frozen=True):
    """An agent's own file, and the last words in it."""

    file_id: int
    session_id: str
    agent_id: str
    text: str | None
    message_id: str | None
    offset: int | None
    first_answer_offset: int | None  # byte offset of its first answer
    retry_tokens: int | None
    """Spent by its requests after it was first blocked; None where it never was."""


class SubagentStopRow(msgspec.Struct, frozen=True):
    """The SubagentStop records of one agent."""

    session_id: str
    agent_id: str
    stops: int
    was_released: int  # one of them says `stop_hook_active`


def final_messages(
    db: sqlite3.Connection, session_ids: Iterable[str] | None = None
) -> list[FinalMessageRow]:
    """List the agents that have a file of their own, of all sessions or of those named."""
    where, values = in_condition("f.session_id", session_ids)
    return fetch_records(FinalMessageRow, db, _FINAL_MESSAGES.format(where=where), values)


def agent_records(
    db: sqlite3.Connection,
    kind: type[RecordT],
    table: str,
    session_ids: Iterable[str] | None = None,
) -> list[tuple[int, RecordT]]:
    """List the records in a table with their file ids, in the order of the files."""
    where, values = in_condition("f.session_id", session_ids)
    sql = (
        f"SELECT t.file_id, {columns(kind, 't.')} FROM {table} t JOIN file f USING (file_id)"
        f" WHERE {where} ORDER BY t.file_id, t.offset"
    )
    return [(file_id, kind(*row)) for file_id, *row in db.execute(sql, values)]


def subagent_stops(
    db: sqlite3.Connection, session_ids: Iterable[str] | None = None
) -> list[SubagentStopRow]:
    """Count the SubagentStop records of agents in ctxtop's own log."""
    where, values = in_condition("session_id", session_ids)
    return fetch_records(SubagentStopRow, db, _SUBAGENT_STOPS.format(where=where), values)


def definitions_fingerprint(db: sqlite3.Connection) -> tuple[object, ...]:
    """Return a value that changes when a definition of an agent or a skill does."""
    sql = "SELECT COUNT(*), SUM(gone), MAX(mtime_ns), SUM(mtime_ns % 1000003) FROM definition"
    return tuple(db.execute(sql).fetchone())


def sessions_with_agents(
    db: sqlite3.Connection, types: Iterable[str], skills: Iterable[str]
) -> frozenset[str]:
    """Name the sessions with an agent of one of these types, or that was asked for such a skill."""
    of_type, names = in_condition("agent_type", types)
    skill_names = [name for skill in skills for name in (skill, skill)]
    given = " OR ".join(["t.name = ? OR t.name LIKE '%:' || ?"] * (len(skill_names) // 2))
    sql = _SESSIONS_WITH_AGENTS.format(of_type=of_type, given=given or "0")
    return frozenset(str(row[0]) for row in db.execute(sql, [*names, *names, *skill_names]))


# Of two files of one agent the one that is there, or the newest: as in agent_queries.
_FINAL_MESSAGES: Final = """
SELECT f.file_id, f.session_id, f.agent_id, p.text, p.message_id, p.offset,
    (SELECT MIN(r.offset) FROM response r WHERE r.file_id = f.file_id),
    (SELECT SUM(r.input_tokens + r.cache_creation_tokens + r.cache_read_tokens + r.output_tokens)
        FROM response r WHERE r.file_id = f.file_id AND r.offset >
            (SELECT MIN(b.offset) FROM feedback b WHERE b.file_id = f.file_id))
FROM file f LEFT JOIN reply p USING (file_id)
WHERE f.kind = 'agent' AND {where} AND NOT EXISTS (
    SELECT 1 FROM file o WHERE o.session_id = f.session_id AND o.agent_id = f.agent_id
        AND (o.gone, -o.mtime_ns, o.path) < (f.gone, -f.mtime_ns, f.path))
"""

_SUBAGENT_STOPS: Final = """
SELECT session_id, agent_id, COUNT(*),
    MAX(json_extract(detail, '$.given.stop_hook_active') IS 1)
FROM hook_event
WHERE event = 'SubagentStop' AND agent_id IS NOT NULL AND session_id IS NOT NULL AND {where}
GROUP BY session_id, agent_id
"""

_SESSIONS_WITH_AGENTS: Final = """
SELECT session_id FROM agent_meta WHERE {of_type}
UNION SELECT f.session_id FROM launch JOIN file f USING (file_id) WHERE {of_type}
UNION SELECT f.session_id FROM launch JOIN file f USING (file_id) WHERE skill IS NOT NULL
UNION SELECT f.session_id FROM given_skill t JOIN file f USING (file_id) WHERE {given}
"""
