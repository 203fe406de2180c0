"""What one context's timeline is made of, in the order of its file."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec

from .agent_queries import NO_ENDS
from .records import records

if TYPE_CHECKING:
    import sqlite3


class AnswerRow(msgspec.Struct, frozen=True, gc=False):
    """An answer of the API."""

    offset: int
    last_offset: int
    """Of the last line that belongs to it."""
    message_id: str
    """Its message id, which stays when the file is written anew."""
    at: int | None
    model: str
    tokens: int
    """What the model saw."""
    output_tokens: int
    tool_calls: int
    """Tools that it called."""
    is_estimate: int = 0
    """1 where an edit of ctxtop lowered `tokens`: they are an estimate."""


class CutRow(msgspec.Struct, frozen=True):
    """A compaction."""

    offset: int
    uuid: str
    at: int | None
    trigger: str | None
    pre_tokens: int | None
    post_tokens: int | None
    next_tokens: int | None = None
    """What the first answer after it held; None while there is none."""
    estimated_next_tokens: int | None = None
    """Estimate of that, while there is none."""


class ClearingRow(msgspec.Struct, frozen=True):
    """A microcompaction."""

    offset: int
    at: int | None
    saved_tokens: int | None
    results: int
    attachments: int


class RefusalRow(msgspec.Struct, frozen=True):
    """An answer that the API refused."""

    offset: int
    at: int | None
    detail: str


class LaunchRow(msgspec.Struct, frozen=True):
    """A call that started an agent."""

    offset: int
    at: int | None
    agent_type: str
    description: str


class ReturnRow(msgspec.Struct, frozen=True):
    """What an agent gave back, or its end."""

    offset: int
    at: int | None
    agent_id: str
    status: str
    agent_type: str | None
    """None where neither the call that started it nor its meta.json is known."""
    description: str | None


def answers(
    db: sqlite3.Connection, session_id: str, agent_id: str | None = None, since: int = 0
) -> list[AnswerRow]:
    """List the answers of one context, from a byte offset on."""
    return records(AnswerRow, db, _ANSWERS, _asked(session_id, agent_id, since))


def cuts(db: sqlite3.Connection, session_id: str, agent_id: str | None = None) -> list[CutRow]:
    """List the compactions of one context."""
    return records(CutRow, db, _CUTS, _asked(session_id, agent_id))


def clearings(
    db: sqlite3.Connection, session_id: str, agent_id: str | None = None
) -> list[ClearingRow]:
    """List the microcompactions of one context."""
    return records(ClearingRow, db, _CLEARINGS, _asked(session_id, agent_id))


def refusals(
    db: sqlite3.Connection, session_id: str, agent_id: str | None = None
) -> list[RefusalRow]:
    """List the refused answers of one context."""
    return records(RefusalRow, db, _REFUSALS, _asked(session_id, agent_id))


def launches(
    db: sqlite3.Connection, session_id: str, agent_id: str | None = None
) -> list[LaunchRow]:
    """List the calls of one context that started agents."""
    return records(LaunchRow, db, _LAUNCHES, _asked(session_id, agent_id))


def returns(
    db: sqlite3.Connection, session_id: str, agent_id: str | None = None
) -> list[ReturnRow]:
    """List what came back of agents into one context."""
    return records(ReturnRow, db, _RETURNS, _asked(session_id, agent_id))


def _asked(session_id: str, agent_id: str | None, since: int = 0) -> dict[str, Any]:
    return {"session_id": session_id, "agent_id": agent_id, "since": since}


# As queries.fill: a session that stands in two folders is told by its newer file.
_CHOSEN: Final = """
WITH chosen AS (
    SELECT file_id FROM file WHERE session_id = :session_id
        AND ((:agent_id IS NULL AND kind = 'session') OR agent_id = :agent_id)
    ORDER BY gone, mtime_ns DESC, path LIMIT 1
)
"""

# An agent without a file of its own is told by its lines in its parent's: as steps, or aside.
_ANSWERS: Final = f"""
{_CHOSEN}
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

NEXT_ANSWER: Final = """
    (SELECT r.context_tokens FROM response r JOIN file o USING (file_id)
        WHERE r.file_id = b.file_id AND r.offset > b.offset
        AND (r.sidechain = 0 OR o.kind = 'agent')
        AND r.offset < COALESCE((SELECT MIN(n.offset) FROM boundary n
            WHERE n.file_id = b.file_id AND n.offset > b.offset), r.offset + 1)
        ORDER BY r.offset LIMIT 1)
"""
"""What the first answer after the boundary `b` held, where it came before the next one."""

_CUTS: Final = f"""
{_CHOSEN}
SELECT b.offset, b.uuid, b.at, b.trigger, b.pre_tokens, b.post_tokens, {NEXT_ANSWER}, l.tokens
FROM boundary b
LEFT JOIN compaction_left l ON l.file_id = b.file_id AND l.offset = b.offset
WHERE b.file_id = (SELECT file_id FROM chosen) ORDER BY b.offset
"""

_CLEARINGS: Final = f"""
{_CHOSEN}
SELECT offset, at, saved_tokens, results, attachments FROM clearing
WHERE file_id = (SELECT file_id FROM chosen) ORDER BY offset
"""

_REFUSALS: Final = f"""
{_CHOSEN}
SELECT offset, at, detail FROM api_error
WHERE file_id = (SELECT file_id FROM chosen) ORDER BY offset
"""

_LAUNCHES: Final = f"""
{_CHOSEN}
SELECT offset, at, agent_type, description FROM launch
WHERE file_id = (SELECT file_id FROM chosen) ORDER BY offset
"""

# A notification of an agent in the background need not name the call that started it: another
# line about the same agent does, or its meta.json.
_RETURNS: Final = f"""
{_CHOSEN}
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
    AND t.status NOT IN ({NO_ENDS}, 'shut_down')
ORDER BY t.offset
"""
