"""What is in flight in sessions, how warm their caches are, and what the client says they cost."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

import msgspec

from .records import records

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterable


class ActivityRow(msgspec.Struct, frozen=True):
    """The newest word of each kind on one session; times in ms since 1970, None where unsaid."""

    file_id: int
    turn: str | None
    """One of facts.Turn."""
    turn_at: int | None
    call_name: str | None
    """The newest tool call of the last answer that has no result."""
    call_detail: str | None
    call_at: int | None
    live_status: str | None
    waiting_for: str | None
    live_updated_at: int | None
    hook_event: str | None
    """The newest that hooks were told of the session itself."""
    hook_at: int | None
    hook_tool: str | None
    hook_kind: str | None
    """A notification's type."""
    answer_at: int | None
    """Of the last answer after the last boundary."""
    cached_tokens: int
    """That this answer wrote to the cache or read from it."""
    cache_1h_tokens: int | None
    """Of the newest answer that wrote to the cache, what it wrote for an hour."""
    status_at: int | None
    """Until when the client told its status line this."""
    status_cache_warm: int | None
    status_cache_expires_at: int | None
    status_cost_usd: float | None
    measured_at: int | None
    measured_cost_usd: float | None
    transcript_cost_usd: float | None
    """By the transcript's newest `cost-state`."""
    is_transcript_cost_newer: int | None
    """It stands after the last answer."""


def activity(db: sqlite3.Connection, file_ids: Iterable[int]) -> list[ActivityRow]:
    """Read what is in flight in the sessions of these files."""
    return records(ActivityRow, db, _ACTIVITY, [json.dumps(list(file_ids))])


# A call that stands before the last answer or a later prompt was never answered: its client
# was stopped. Hooks of agents name the agent. A snapshot of the status line that says nothing
# of a cache or a cost is passed over.
_ACTIVITY: Final = """
WITH base AS MATERIALIZED (
    SELECT f.file_id, f.session_id, s.turn, s.turn_at, s.turn_offset, s.cost_usd, s.cost_offset,
        (SELECT MAX(offset) FROM response r WHERE r.file_id = f.file_id AND r.sidechain = 0)
            AS answered,
        (SELECT MAX(offset) FROM boundary b WHERE b.file_id = f.file_id) AS cut
    FROM json_each(?) j CROSS JOIN file f ON f.file_id = j.value
    LEFT JOIN session s USING (file_id)
)
SELECT f.file_id, f.turn, f.turn_at, c.name, c.detail, c.at,
    v.status, v.waiting_for, v.updated_at,
    h.event, h.at, h.tool_name, json_extract(h.detail, '$.given.notification_type'),
    r.at, COALESCE(r.cache_creation_tokens + r.cache_read_tokens, 0),
    (SELECT w.cache_1h_tokens FROM response w WHERE w.file_id = f.file_id AND w.sidechain = 0
        AND w.cache_creation_tokens > 0 ORDER BY w.offset DESC LIMIT 1),
    p.last_at, p.cache_warm, p.cache_expires_at, p.cost_usd,
    m.at, m.cost_usd, f.cost_usd, f.cost_offset > COALESCE(answered, -1)
FROM base f
LEFT JOIN open_call c ON c.file_id = f.file_id AND c.tool_use_id = (
    SELECT x.tool_use_id FROM open_call x WHERE x.file_id = f.file_id AND x.offset >= answered
        AND NOT (f.turn IN ('asked', 'over') AND f.turn_offset > x.offset)
    ORDER BY x.offset DESC LIMIT 1)
LEFT JOIN live v ON v.session_id = f.session_id
LEFT JOIN hook_event h ON (h.part_id, h.offset) = (
    SELECT x.part_id, x.offset FROM hook_event x
    WHERE x.session_id = f.session_id AND x.agent_id IS NULL
    ORDER BY x.at DESC, x.part_id DESC, x.offset DESC LIMIT 1)
LEFT JOIN response r ON r.file_id = f.file_id AND r.offset = f.answered
    AND f.answered > COALESCE(f.cut, -1)
LEFT JOIN status_snapshot p ON (p.part_id, p.offset) = (
    SELECT x.part_id, x.offset FROM status_snapshot x WHERE x.session_id = f.session_id
    ORDER BY x.at DESC, x.part_id DESC, x.offset DESC LIMIT 1)
LEFT JOIN measurement m ON (m.part_id, m.offset) = (
    SELECT x.part_id, x.offset FROM measurement x
    WHERE x.session_id = f.session_id AND x.cost_usd IS NOT NULL
    ORDER BY x.at DESC, x.part_id DESC, x.offset DESC LIMIT 1)
"""
