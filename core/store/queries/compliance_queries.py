"""What agents' results are judged by: final messages, markers, stop feedback and skills."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

import msgspec

from .query_rows import RecordT, fetch_records, in_condition

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


class MarkerRow(msgspec.Struct, frozen=True):
    """A line with the marker."""

    file_id: int
    offset: int
    origin: str
    message_id: str | None
    text: str | None


class StopFeedbackRow(msgspec.Struct, frozen=True):
    """What a hook told an agent that wanted to stop."""

    file_id: int
    offset: int
    at: int | None
    text: str


class GivenSkillRow(msgspec.Struct, frozen=True):
    """A skill that an agent was given."""

    file_id: int
    offset: int
    name: str


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


def markers(db: sqlite3.Connection, session_ids: Iterable[str] | None = None) -> list[MarkerRow]:
    """List the lines with the marker, in the order of their files."""
    return _of_agents(MarkerRow, "marker", "t.origin, t.message_id, t.text", db, session_ids)


def stop_feedback(
    db: sqlite3.Connection, session_ids: Iterable[str] | None = None
) -> list[StopFeedbackRow]:
    """List what hooks told agents, in the order of their files."""
    return _of_agents(StopFeedbackRow, "feedback", "t.at, t.text", db, session_ids)


def given_skills(
    db: sqlite3.Connection, session_ids: Iterable[str] | None = None
) -> list[GivenSkillRow]:
    """List the skills that agents were given, in the order of their files."""
    return _of_agents(GivenSkillRow, "given_skill", "t.name", db, session_ids)


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
    asked = [name for skill in skills for name in (skill, skill)]
    given = " OR ".join(["t.name = ? OR t.name LIKE '%:' || ?"] * (len(asked) // 2))
    sql = _SESSIONS_WITH_AGENTS.format(of_type=of_type, given=given or "0")
    values = [*names, *names, *asked]
    return frozenset(str(row[0]) for row in db.execute(sql, values))


def _of_agents(
    kind: type[RecordT],
    table: str,
    columns: str,
    db: sqlite3.Connection,
    only: Iterable[str] | None,
) -> list[RecordT]:
    where, values = in_condition("f.session_id", only)
    sql = (
        f"SELECT t.file_id, t.offset, {columns} FROM {table} t JOIN file f USING (file_id)"
        f" WHERE {where} ORDER BY t.file_id, t.offset"
    )
    return fetch_records(kind, db, sql, values)


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
