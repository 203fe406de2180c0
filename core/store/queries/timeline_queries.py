"""The events of one context in the order of its file, and the newest events of all for the log."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec

from ..transcript_records import ApiErrorRecord, LaunchRecord, MicrocompactionRecord
from .agent_queries import RUNNING_STATUSES
from .query_rows import columns, fetch_records

if TYPE_CHECKING:
    import sqlite3


class TimelineAnswerRow(msgspec.Struct, frozen=True, gc=False):
    """An answer of the API."""

    offset: int
    last_offset: int  # of the last line that belongs to it
    message_id: str  # its message id, which stays when the file is written anew
    at: int | None
    model: str
    tokens: int  # what the model saw
    output_tokens: int
    tool_calls: int  # tools that it called
    is_estimate: int = 0  # 1 where an edit of ctxtop lowered `tokens`: they are an estimate


class TimelineBoundaryRow(msgspec.Struct, frozen=True):
    """A compaction."""

    offset: int
    uuid: str
    at: int | None
    trigger: str | None
    pre_tokens: int | None
    post_tokens: int | None
    next_tokens: int | None = None  # what the first answer after it held; None while there is none
    estimated_next_tokens: int | None = None  # estimate of that, while there is none


class TimelineReturnRow(msgspec.Struct, frozen=True):
    """What an agent gave back, or its end."""

    offset: int
    at: int | None
    agent_id: str
    status: str
    agent_type: str | None  # none where neither the call that started it nor its meta.json is known
    description: str | None


def answers(
    db: sqlite3.Connection, session_id: str, agent_id: str | None = None, since: int = 0
) -> list[TimelineAnswerRow]:
    """List the answers of one context, from a byte offset on."""
    return fetch_records(
        TimelineAnswerRow, db, _ANSWERS, _context_values(session_id, agent_id, since)
    )


def boundaries(
    db: sqlite3.Connection, session_id: str, agent_id: str | None = None
) -> list[TimelineBoundaryRow]:
    """List the compactions of one context."""
    return fetch_records(
        TimelineBoundaryRow, db, _TIMELINE_BOUNDARIES, _context_values(session_id, agent_id)
    )


def microcompactions(
    db: sqlite3.Connection, session_id: str, agent_id: str | None = None
) -> list[MicrocompactionRecord]:
    """List the microcompactions of one context."""
    return fetch_records(
        MicrocompactionRecord, db, _MICROCOMPACTIONS, _context_values(session_id, agent_id)
    )


def api_errors(
    db: sqlite3.Connection, session_id: str, agent_id: str | None = None
) -> list[ApiErrorRecord]:
    """List the refused answers of one context."""
    return fetch_records(ApiErrorRecord, db, _API_ERRORS, _context_values(session_id, agent_id))


def launches(
    db: sqlite3.Connection, session_id: str, agent_id: str | None = None
) -> list[LaunchRecord]:
    """List the calls of one context that started agents."""
    return fetch_records(LaunchRecord, db, _LAUNCHES, _context_values(session_id, agent_id))


def returns(
    db: sqlite3.Connection, session_id: str, agent_id: str | None = None
) -> list[TimelineReturnRow]:
    """List what came back of agents into one context."""
    return fetch_records(TimelineReturnRow, db, _RETURNS, _context_values(session_id, agent_id))


def _context_values(session_id: str, agent_id: str | None, since: int = 0) -> dict[str, Any]:
    return {"session_id": session_id, "agent_id": agent_id, "since": since}


# As in session_queries.fill_history: of a session in two folders the newer file counts.
_CONTEXT_FILE: Final = """
WITH chosen AS (
    SELECT file_id FROM file WHERE session_id = :session_id
        AND ((:agent_id IS NULL AND kind = 'session') OR agent_id = :agent_id)
    ORDER BY gone, mtime_ns DESC, path LIMIT 1
)
"""

# An agent without a file of its own is told by its lines in its parent's: as steps, or aside.
_ANSWERS: Final = f"""
{_CONTEXT_FILE}
SELECT offset, last_offset, message_id, at, model, context_tokens, output_tokens,
    LENGTH(tools) - LENGTH(REPLACE(tools, ',', '')), lowered
FROM (
    SELECT offset, last_offset, message_id, at, model, context_tokens, output_tokens, tools,
        lowered FROM response
        WHERE file_id = (SELECT file_id FROM chosen) AND offset >= :since
        AND (sidechain = 0 OR :agent_id IS NOT NULL)
    UNION ALL
    SELECT s.offset, s.last_offset, s.message_id, s.at, s.model, s.context_tokens,
        s.output_tokens, s.tools, 0
        FROM step s JOIN file f USING (file_id)
        WHERE f.session_id = :session_id AND s.agent_id = :agent_id AND s.offset >= :since
        AND NOT EXISTS (SELECT 1 FROM chosen)
        AND f.file_id = (SELECT o.file_id FROM file o WHERE o.session_id = f.session_id
            AND o.kind = f.kind AND o.agent_id IS f.agent_id
            ORDER BY o.gone, o.mtime_ns DESC, o.path LIMIT 1)
    UNION ALL
    SELECT r.offset, r.last_offset, r.message_id, r.at, r.model, r.context_tokens,
        r.output_tokens, r.tools, r.lowered
        FROM response r JOIN file f USING (file_id)
        WHERE f.session_id = :session_id AND r.sidechain = 1 AND r.offset >= :since AND EXISTS (
            SELECT 1 FROM aside_line a WHERE a.file_id = r.file_id
            AND a.message_id = r.message_id AND printf('aside-%016x', a.root) = :agent_id)
        AND f.file_id = (SELECT o.file_id FROM file o WHERE o.session_id = f.session_id
            AND o.kind = f.kind AND o.agent_id IS f.agent_id
            ORDER BY o.gone, o.mtime_ns DESC, o.path LIMIT 1)
)
ORDER BY offset
"""

NEXT_ANSWER_TOKENS: Final = """
    (SELECT r.context_tokens FROM response r JOIN file o USING (file_id)
        WHERE r.file_id = b.file_id AND r.offset > b.offset
        AND (r.sidechain = 0 OR o.kind = 'agent')
        AND r.offset < COALESCE((SELECT MIN(n.offset) FROM boundary n
            WHERE n.file_id = b.file_id AND n.offset > b.offset), r.offset + 1)
        ORDER BY r.offset LIMIT 1)
"""
"""What the first answer after the boundary `b` held, where it came before the next one."""

_TIMELINE_BOUNDARIES: Final = f"""
{_CONTEXT_FILE}
SELECT b.offset, b.uuid, b.at, b.trigger, b.pre_tokens, b.post_tokens,
       {NEXT_ANSWER_TOKENS}, l.tokens
FROM boundary b
LEFT JOIN compaction_left l ON l.file_id = b.file_id AND l.offset = b.offset
WHERE b.file_id = (SELECT file_id FROM chosen) ORDER BY b.offset
"""

_MICROCOMPACTIONS: Final = f"""
{_CONTEXT_FILE}
SELECT {columns(MicrocompactionRecord)} FROM clearing
WHERE file_id = (SELECT file_id FROM chosen) ORDER BY offset
"""

_API_ERRORS: Final = f"""
{_CONTEXT_FILE}
SELECT {columns(ApiErrorRecord)} FROM api_error
WHERE file_id = (SELECT file_id FROM chosen) ORDER BY offset
"""

_LAUNCHES: Final = f"""
{_CONTEXT_FILE}
SELECT {columns(LaunchRecord)} FROM launch
WHERE file_id = (SELECT file_id FROM chosen) ORDER BY offset
"""

# A notification of an agent in the background need not name the call that started it: another
# line about the same agent does, or its meta.json.
_RETURNS: Final = f"""
{_CONTEXT_FILE}
SELECT t.offset, t.at, t.agent_id, t.status,
    COALESCE(l.agent_type, k.agent_type, NULLIF(m.agent_type, '')),
    COALESCE(l.description, k.description, NULLIF(m.description, ''))
FROM agent_return t
LEFT JOIN launch l ON l.file_id = t.file_id AND l.tool_use_id = t.tool_use_id
LEFT JOIN launch k ON k.file_id = t.file_id AND k.tool_use_id = (
    SELECT o.tool_use_id FROM agent_return o
    JOIN launch x ON x.file_id = o.file_id AND x.tool_use_id = o.tool_use_id
    WHERE o.file_id = t.file_id AND o.agent_id = t.agent_id LIMIT 1)
LEFT JOIN agent_meta m ON m.path = (
    SELECT x.path FROM agent_meta x
    WHERE x.session_id = :session_id AND x.agent_id = t.agent_id ORDER BY x.path LIMIT 1)
WHERE t.file_id = (SELECT file_id FROM chosen)
    AND t.status NOT IN ({RUNNING_STATUSES}, 'shut_down')
ORDER BY t.offset
"""


class BadLineRow(msgspec.Struct, frozen=True):
    """A line that could not be read."""

    log: str | None  # none for a transcript's; else which of ctxtop's own logs
    session_id: str | None
    path: str  # below the projects folder, or the name of the log's file
    offset: int
    length: int
    reason: str
    file_at: int  # when its file was last written, in ms since 1970: the line is no newer


class UnknownTypeRow(msgspec.Struct, frozen=True):
    """A type of lines, or an event of hooks, that this version does not know."""

    type: str
    lines: int
    last_at: int  # when it was last seen at the latest, in ms since 1970


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
    next_tokens: int | None = None  # what the first answer after it held; None while there is none
    estimated_next_tokens: int | None = None  # estimate of that, while there is none


def newest_boundaries(db: sqlite3.Connection, limit: int) -> list[BoundaryRow]:
    """List the newest compactions, newest first; one that a fork has copied is its writer's."""
    found: dict[str, BoundaryRow] = {}
    for row in fetch_records(BoundaryRow, db, _NEWEST_BOUNDARIES, [limit]):
        # What has no uuid is called after its place, which other files have too.
        key = f"{row.session_id} {row.uuid}" if row.uuid.startswith("at ") else row.uuid
        found.setdefault(key, row)
    return list(found.values())


def newest_bad_lines(db: sqlite3.Connection, limit: int) -> list[BadLineRow]:
    """List lines that were set aside, those of the files written last first."""
    return fetch_records(BadLineRow, db, _NEWEST_BAD_LINES, [limit])


def unknown_type_rows(db: sqlite3.Connection) -> list[UnknownTypeRow]:
    """Count what is kept and not known, the most lines first."""
    return fetch_records(UnknownTypeRow, db, _UNKNOWN_TYPE_ROWS, [])


_NEWEST_BOUNDARIES: Final = f"""
SELECT f.session_id, f.agent_id, b.uuid, b.at, trigger, pre_tokens, post_tokens, kept_messages,
    {NEXT_ANSWER_TOKENS}, l.tokens
FROM boundary b JOIN file f USING (file_id) LEFT JOIN session s USING (file_id)
LEFT JOIN compaction_left l ON l.file_id = b.file_id AND l.offset = b.offset
ORDER BY b.at DESC, s.forked_from IS NOT NULL, f.path LIMIT ?
"""

_NEWEST_BAD_LINES: Final = """
SELECT NULL AS log, session_id, path, b.offset, length, reason, mtime_ns / 1000000 AS file_at
FROM bad_line b JOIN file USING (file_id)
UNION ALL
SELECT log, NULL, name, b.offset, length, reason, mtime_ns / 1000000
FROM log_bad_line b JOIN log_part USING (part_id)
ORDER BY file_at DESC, path, 4 LIMIT ?
"""

_UNKNOWN_TYPE_ROWS: Final = """
SELECT type, SUM(c.lines) AS lines, MAX(mtime_ns) / 1000000 AS last_at
FROM line_count c JOIN file USING (file_id) WHERE known = 0 GROUP BY type
UNION ALL
SELECT 'hook ' || event, COUNT(*), MAX(at) FROM hook_event WHERE known = 0 GROUP BY event
ORDER BY 2 DESC, 1
"""


class ApiErrorRow(msgspec.Struct, frozen=True):
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


def newest_api_errors(db: sqlite3.Connection, limit: int) -> list[ApiErrorRow]:
    """List the newest refusals, newest first; one that forks have copied stands once."""
    return fetch_records(ApiErrorRow, db, _NEWEST_API_ERRORS, [limit])


_NEWEST_API_ERRORS: Final = """
SELECT session_id, agent_id, path, offset, at, kind, detail, prompt_tokens, limit_tokens FROM (
    SELECT f.session_id, f.agent_id, f.path, e.*, ROW_NUMBER() OVER (
        PARTITION BY COALESCE(e.at, e.file_id || ' ' || e.offset), e.kind, e.detail
        ORDER BY s.forked_from IS NOT NULL, s.opened_at, f.path) AS place
    FROM api_error e JOIN file f USING (file_id) LEFT JOIN session s USING (file_id)
) WHERE place = 1 ORDER BY at DESC, path, offset DESC LIMIT ?
"""
