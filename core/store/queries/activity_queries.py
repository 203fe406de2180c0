"""What sessions are doing."""

import json
from collections.abc import Iterable
from sqlite3 import Connection
from typing import Final

from ...model.answer_rows import ActivityRow
from .query_rows import fetch_records


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
    m.at, m.cost_usd, f.cost_usd, f.cost_offset > COALESCE(answered, -1),
    v.has_shell,
    IIF(t.event = 'Stop', COALESCE(json_array_length(t.detail, '$.given.background_tasks'),
        json_extract(t.detail, '$.cut.background_tasks')), NULL),
    IIF(t.event = 'Stop', json_extract(t.detail, '$.given.background_tasks[0].type'), NULL),
    IIF(v.session_id IS NULL, NULL, (SELECT MAX(COALESCE(q.last_at, b.at))
        FROM agent_return b JOIN file o USING (file_id)
        LEFT JOIN file a ON a.session_id = o.session_id AND a.agent_id = b.agent_id
            AND a.kind = 'agent'
        LEFT JOIN session q ON q.file_id = a.file_id
        WHERE o.session_id = f.session_id AND b.status = 'async_launched'
        AND q.turn IS NOT 'ended' AND NOT EXISTS (
            SELECT 1 FROM agent_return e JOIN file y USING (file_id)
            WHERE e.agent_id = b.agent_id AND y.session_id = f.session_id
            AND e.status <> 'async_launched')
        AND NOT EXISTS (SELECT 1 FROM agent_meta m WHERE m.session_id = f.session_id
            AND m.agent_id = b.agent_id AND m.finished = 1)))
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
LEFT JOIN hook_event t ON v.session_id IS NOT NULL AND (t.part_id, t.offset) = (
    SELECT x.part_id, x.offset FROM hook_event x
    WHERE x.session_id = f.session_id AND x.agent_id IS NULL
        AND x.event IN ('Stop', 'UserPromptSubmit', 'SessionStart', 'SessionEnd')
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
