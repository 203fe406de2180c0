"""What sessions are doing, what they spent, and which sessions they are related to."""

import json
from collections.abc import Iterable
from sqlite3 import Connection
from typing import Final

import msgspec

from .query_rows import SessionIds, UsageRow, fetch_records


class ActivityRow(msgspec.Struct, frozen=True):
    """The newest event of each kind in one session; times are ms since 1970, None if unknown."""

    file_id: int
    turn: str | None  # one of `TurnState`
    turn_at: int | None
    call_name: str | None  # the newest tool call of the last answer that has no result
    call_detail: str | None
    call_at: int | None
    live_status: str | None
    waiting_for: str | None
    live_updated_at: int | None
    hook_event: str | None  # the newest event of the session itself
    hook_at: int | None
    hook_tool: str | None
    hook_kind: str | None  # a notification's type
    resume_tokens: int | None  # in context, where that event is a resume
    resume_expired: int | None  # the client holds its cache for expired
    answer_at: int | None  # of the last answer after the last boundary
    cached_tokens: int  # that this answer wrote to the cache or read from it
    cache_1h_tokens: int | None  # by the newest answer that wrote to the cache, for an hour
    status_at: int | None  # last time of this snapshot
    status_cache_warm: int | None
    status_cache_expires_at: int | None
    status_cache_ttl_ms: int | None
    status_cache_cold_tokens: int | None
    status_cost_usd: float | None
    measured_at: int | None
    measured_cost_usd: float | None
    transcript_cost_usd: float | None  # by the transcript's newest `cost-state`
    is_transcript_cost_newer: int | None  # it comes after the last answer


def activity(db: Connection, file_ids: Iterable[int]) -> list[ActivityRow]:
    return fetch_records(ActivityRow, db, _ACTIVITY, [json.dumps(list(file_ids))])


# A call before the last answer or a later prompt was never answered: its client was stopped.
# Hooks of agents name the agent. A snapshot of the status line that says nothing
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
    IIF(h.event = 'SessionStart' AND json_type(h.detail, '$.given.context_tokens') = 'integer'
            AND json_extract(h.detail, '$.given.context_tokens') BETWEEN 0 AND 1000000000,
        json_extract(h.detail, '$.given.context_tokens'), NULL),
    IIF(h.event = 'SessionStart',
        CAST(json_extract(h.detail, '$.given.prompt_cache_likely_expired') AS INTEGER), NULL),
    r.at, COALESCE(r.cache_creation_tokens + r.cache_read_tokens, 0),
    (SELECT w.cache_1h_tokens FROM response w WHERE w.file_id = f.file_id AND w.sidechain = 0
        AND w.cache_creation_tokens > 0 ORDER BY w.offset DESC LIMIT 1),
    p.last_at, p.cache_warm, p.cache_expires_at, p.cache_ttl_ms, p.cache_cold_tokens, p.cost_usd,
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


class ModelUsageRow(UsageRow, frozen=True):
    """The usage of one model in a session, with its agents'."""

    model: str
    band: int  # 0 for prompts up to 100,000 tokens, 1 up to 200,000, 2 above
    cache_1h_tokens: int  # of those that were written to the cache


def model_usage(db: Connection, session_ids: SessionIds = None) -> list[ModelUsageRow]:
    """Add up the answers by session and model, of every session or of those named.

    Every message of the store counts once.
    """
    sql = f"""{_COUNTED_ONCE}
        SELECT session_id, SUM(input_tokens), SUM(cache_creation_tokens), SUM(cache_read_tokens),
            SUM(output_tokens), SUM(responses), model, band, SUM(cache_1h_tokens)
        FROM once GROUP BY session_id, model, band HAVING SUM(responses) > 0"""
    return _read_usage(db, sql, session_ids)


def progress_model_usage(db: Connection, session_ids: SessionIds = None) -> list[ModelUsageRow]:
    """Add up, by session and model, the answers that are only in `progress` lines (up to 2.1.9x).

    These are agents' answers; those that are in an agent's file or a sidechain too are part of
    `model_usage`. How long their cache lives is not recorded.
    """
    sql = f"""{_PROGRESS_ONCE}
        SELECT owner, SUM(input_tokens), SUM(cache_creation_tokens), SUM(cache_read_tokens),
            SUM(output_tokens), COUNT(*), model, band, 0
        FROM c WHERE place = 1 AND {{owned}} GROUP BY owner, model, band"""
    return _read_usage(db, sql, session_ids)


def _read_usage(db: Connection, sql: str, session_ids: SessionIds) -> list[ModelUsageRow]:
    if session_ids is None:
        return fetch_records(ModelUsageRow, db, sql.format(wanted=_ALL_FILES, owned=1))
    sql = sql.format(wanted=_FILES_OF_SESSIONS, owned=_OF_SESSIONS)
    return fetch_records(ModelUsageRow, db, sql, {"only": json.dumps(list(session_ids))})


def usage_by_session(rows: Iterable[ModelUsageRow]) -> dict[str, UsageRow]:
    """Add up the usage of all models, for each session that has any."""
    by_session: dict[str, list[ModelUsageRow]] = {}
    for row in rows:
        by_session.setdefault(row.session_id, []).append(row)
    counts = UsageRow.__struct_fields__[1:]
    return {
        session_id: UsageRow(
            session_id, *(sum(getattr(row, name) for row in rows) for name in counts)
        )
        for session_id, rows in by_session.items()
    }


_ALL_FILES: Final = "SELECT file_id, session_id FROM file"
_FILES_OF_SESSIONS: Final = """SELECT f.file_id, f.session_id
    FROM json_each(:only) j CROSS JOIN file f ON f.session_id = j.value"""
_OF_SESSIONS: Final = "c.owner IN (SELECT value FROM json_each(:only))"


# Triggers keep the sums by file. Of several copies of a message the one with the most output is
# complete (early lines have a placeholder); it counts for the session that was opened first and
# is not a fork. Most messages are in one file only: only shared ones are subtracted from their
# files' sums and added to their owner's.
_COUNTED_ONCE: Final = """
WITH wanted AS MATERIALIZED ({wanted}),
copies AS MATERIALIZED (
    SELECT r.*, f.session_id,
        ROW_NUMBER() OVER (PARTITION BY r.message_id ORDER BY r.output_tokens DESC, f.path)
            AS place,
        FIRST_VALUE(f.session_id) OVER (PARTITION BY r.message_id
            ORDER BY s.forked_from IS NOT NULL, s.opened_at, f.path) AS owner,
        (r.context_tokens > 100000) + (r.context_tokens > 200000) AS band
    FROM (SELECT DISTINCT message_id FROM wanted CROSS JOIN shared_response USING (file_id)) x
    CROSS JOIN shared_response y USING (message_id)
    CROSS JOIN response r USING (message_id, file_id)
    JOIN file f USING (file_id) LEFT JOIN session s USING (file_id)
),
once AS (
    SELECT w.session_id, p.model, p.band, p.input_tokens, p.cache_creation_tokens,
        p.cache_1h_tokens, p.cache_read_tokens, p.output_tokens, p.responses
    FROM wanted w CROSS JOIN spending p USING (file_id)
    UNION ALL
    SELECT w.session_id, c.model, c.band, -c.input_tokens, -c.cache_creation_tokens,
        -c.cache_1h_tokens, -c.cache_read_tokens, -c.output_tokens, -1
    FROM copies c JOIN wanted w USING (file_id)
    UNION ALL
    SELECT c.owner, c.model, c.band, c.input_tokens, c.cache_creation_tokens,
        c.cache_1h_tokens, c.cache_read_tokens, c.output_tokens, 1
    FROM copies c WHERE c.place = 1 AND {owned}
)
"""

# An answer may have several copies (a line for each block, a fork's history): the complete one
# counts, for the session that was opened first and is not a fork.
_PROGRESS_ONCE: Final = """
WITH wanted AS MATERIALIZED ({wanted}),
c AS (
    SELECT s.*, ROW_NUMBER() OVER (PARTITION BY s.message_id
            ORDER BY s.output_tokens DESC, f.path) AS place,
        FIRST_VALUE(f.session_id) OVER (PARTITION BY s.message_id
            ORDER BY x.forked_from IS NOT NULL, x.opened_at, f.path) AS owner,
        (s.context_tokens > 100000) + (s.context_tokens > 200000) AS band
    FROM (SELECT DISTINCT message_id FROM wanted CROSS JOIN step USING (file_id)) m
    CROSS JOIN step s USING (message_id)
    JOIN file f ON f.file_id = s.file_id LEFT JOIN session x ON x.file_id = s.file_id
    WHERE NOT EXISTS (SELECT 1 FROM response r WHERE r.message_id = s.message_id)
)
"""
