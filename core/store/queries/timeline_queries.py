"""The events of one context in the order of its file, and the newest events of all for the log."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec

from .agent_queries import RUNNING_STATUSES
from .query_rows import CompactionRow, RecordT, columns, fetch_records

if TYPE_CHECKING:
    import sqlite3


class TimelineAnswerRow(msgspec.Struct, frozen=True, gc=False):
    """An answer of the API."""

    offset: int
    last_offset: int  # of the last line that belongs to it
    message_id: str  # it stays the same when the file is rewritten
    at: int | None
    model: str
    tokens: int  # what the model saw
    output_tokens: int
    tool_calls: int
    is_estimate: int = 0  # 1 if an edit of ctxtop lowered `tokens`, which makes it an estimate


class TimelineReturnRow(msgspec.Struct, frozen=True):
    """What an agent returned, or its end."""

    offset: int
    at: int | None
    agent_id: str
    status: str
    agent_type: str | None  # None if neither the call that started it nor its meta.json is known
    description: str | None


def answers(
    db: sqlite3.Connection, session_id: str, agent_id: str | None = None, since: int = 0
) -> list[TimelineAnswerRow]:
    """List the answers of one context, from a byte offset on."""
    values = {"session_id": session_id, "agent_id": agent_id, "since": since}
    return fetch_records(TimelineAnswerRow, db, _ANSWERS, values)


def boundaries(db: sqlite3.Connection, session_id: str, agent_id: str | None) -> list[Any]:
    """List the compactions of one context: offset, then the fields of a TimelineCompaction."""
    return db.execute(_BOUNDARIES, {"session_id": session_id, "agent_id": agent_id}).fetchall()


def context_records(
    db: sqlite3.Connection,
    kind: type[RecordT],
    table: str,
    session_id: str,
    agent_id: str | None = None,
) -> list[RecordT]:
    """List the records of one context in a table, in the order of its file."""
    sql = f"""{CONTEXT_FILE} SELECT {columns(kind)} FROM {table}
        WHERE file_id = (SELECT file_id FROM chosen) ORDER BY offset"""
    return fetch_records(kind, db, sql, {"session_id": session_id, "agent_id": agent_id})


def returns(
    db: sqlite3.Connection, session_id: str, agent_id: str | None = None
) -> list[TimelineReturnRow]:
    """List what agents returned into one context."""
    values = {"session_id": session_id, "agent_id": agent_id}
    return fetch_records(TimelineReturnRow, db, _RETURNS, values)


CONTEXT_FILE: Final = """
WITH chosen AS (
    SELECT file_id FROM file WHERE session_id = :session_id
        AND ((:agent_id IS NULL AND kind = 'session') OR agent_id = :agent_id)
    ORDER BY gone, mtime_ns DESC, path LIMIT 1
)
"""
"""The transcript of a context; if a session is in two folders, the newer file."""

_IS_NEWEST_COPY: Final = """f.file_id = (SELECT o.file_id FROM file o
    WHERE o.session_id = f.session_id AND o.kind = f.kind AND o.agent_id IS f.agent_id
    ORDER BY o.gone, o.mtime_ns DESC, o.path LIMIT 1)"""

_ANSWER_COLUMNS: Final = ", ".join(
    f"r.{name}"
    for name in (
        *("file_id", "offset", "last_offset", "message_id", "at", "model", "context_tokens"),
        *("output_tokens", "tools"),
    )
)

# An agent without a file of its own has its lines in its parent's: as steps, or in a sidechain.
CONTEXT_ANSWERS: Final = f"""{CONTEXT_FILE},
answer AS (
    SELECT {_ANSWER_COLUMNS}, r.lowered FROM response r
        WHERE r.file_id = (SELECT file_id FROM chosen) AND r.offset >= :since
        AND (r.sidechain = 0 OR :agent_id IS NOT NULL)
    UNION ALL
    SELECT {_ANSWER_COLUMNS}, 0 FROM step r JOIN file f USING (file_id)
        WHERE f.session_id = :session_id AND r.agent_id = :agent_id AND r.offset >= :since
        AND NOT EXISTS (SELECT 1 FROM chosen) AND {_IS_NEWEST_COPY}
    UNION ALL
    SELECT {_ANSWER_COLUMNS}, r.lowered FROM response r JOIN file f USING (file_id)
        WHERE f.session_id = :session_id AND r.sidechain = 1 AND r.offset >= :since AND EXISTS (
            SELECT 1 FROM aside_line a WHERE a.file_id = r.file_id
            AND a.message_id = r.message_id AND printf('aside-%016x', a.root) = :agent_id)
        AND {_IS_NEWEST_COPY}
)
"""

_ANSWERS: Final = f"""{CONTEXT_ANSWERS}
SELECT offset, last_offset, message_id, at, model, context_tokens, output_tokens,
    LENGTH(tools) - LENGTH(REPLACE(tools, ',', '')), lowered
FROM answer ORDER BY offset
"""

NEXT_ANSWER_TOKENS: Final = """
    (SELECT r.context_tokens FROM response r JOIN file o USING (file_id)
        WHERE r.file_id = b.file_id AND r.offset > b.offset
        AND (r.sidechain = 0 OR o.kind = 'agent')
        AND r.offset < COALESCE((SELECT MIN(n.offset) FROM boundary n
            WHERE n.file_id = b.file_id AND n.offset > b.offset), r.offset + 1)
        ORDER BY r.offset LIMIT 1)
"""
"""What the first answer after the boundary `b` held, if it came before the next boundary."""

_BOUNDARIES: Final = f"""{CONTEXT_FILE}
SELECT b.offset, b.at, b.pre_tokens, b.post_tokens, b.trigger, b.uuid,
       {NEXT_ANSWER_TOKENS}, l.tokens
FROM boundary b
LEFT JOIN compaction_left l ON l.file_id = b.file_id AND l.offset = b.offset
WHERE b.file_id = (SELECT file_id FROM chosen) ORDER BY b.offset
"""

# A notification of a background agent need not name the call that started it: another
# line about the same agent does, or its meta.json.
_RETURNS: Final = f"""
{CONTEXT_FILE}
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

    log: str | None  # which of ctxtop's own logs; None for a transcript
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


def newest_boundaries(db: sqlite3.Connection, limit: int) -> list[CompactionRow]:
    """List the newest compactions without their summaries, newest first.

    One that a fork has copied belongs to the session that wrote it.
    """
    found: dict[str, CompactionRow] = {}
    for row in fetch_records(CompactionRow, db, _NEWEST_BOUNDARIES, [limit]):
        # What has no uuid is named after its place, which other files have too.
        key = f"{row.session_id} {row.uuid}" if row.uuid.startswith("at ") else row.uuid
        found.setdefault(key, row)
    return list(found.values())


def newest_bad_lines(db: sqlite3.Connection, limit: int) -> list[BadLineRow]:
    """List bad lines, those of the files that were written last first."""
    return fetch_records(BadLineRow, db, _NEWEST_BAD_LINES, [limit])


def unknown_type_rows(db: sqlite3.Connection) -> list[UnknownTypeRow]:
    """Count the lines and events of unknown types, the most first."""
    return fetch_records(UnknownTypeRow, db, _UNKNOWN_TYPE_ROWS, [])


_NEWEST_BOUNDARIES: Final = f"""
SELECT f.session_id, f.agent_id, b.uuid, b.at, trigger, pre_tokens, post_tokens, dropped_tokens,
    duration_ms, kept_messages, NULL, NULL, {NEXT_ANSWER_TOKENS}, l.tokens
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
    """List the newest refusals, newest first; one that forks have copied once."""
    return fetch_records(ApiErrorRow, db, _NEWEST_API_ERRORS, [limit])


_NEWEST_API_ERRORS: Final = """
SELECT session_id, agent_id, path, offset, at, kind, detail, prompt_tokens, limit_tokens FROM (
    SELECT f.session_id, f.agent_id, f.path, e.*, ROW_NUMBER() OVER (
        PARTITION BY COALESCE(e.at, e.file_id || ' ' || e.offset), e.kind, e.detail
        ORDER BY s.forked_from IS NOT NULL, s.opened_at, f.path) AS place
    FROM api_error e JOIN file f USING (file_id) LEFT JOIN session s USING (file_id)
) WHERE place = 1 ORDER BY at DESC, path, offset DESC LIMIT ?
"""
