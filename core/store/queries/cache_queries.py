"""Every answer with what it read from the prompt cache and wrote to it, for the cache ledger."""

from __future__ import annotations

import json
from collections.abc import Iterable
from sqlite3 import Connection
from typing import Final

from ...model.answer_rows import (
    CacheAnswerRow,
    FirstReadRow,
    SentRequestRow,
    SessionStart,
)
from .query_rows import LISTED, SessionIds, fetch_records
from .spending_queries import COPIES, FILES_OF_SESSIONS


def cache_answers(db: Connection, session_ids: SessionIds = None) -> list[CacheAnswerRow]:
    """List the answers of every session or of those named, by file in the order of its lines."""
    if session_ids is None:
        return fetch_records(CacheAnswerRow, db, _ANSWERS.format(wanted="SELECT file_id FROM file"))
    sql = _ANSWERS.format(wanted=FILES_OF_SESSIONS)
    return fetch_records(CacheAnswerRow, db, sql, {"only": json.dumps(list(session_ids))})


def first_reads(db: Connection) -> list[FirstReadRow]:
    sql = """SELECT f.path, r.model, r.client_version, f.agent_id IS NOT NULL, r.cache_read_tokens
        FROM file f JOIN response r USING (file_id)
        WHERE r.offset = (SELECT MIN(x.offset) FROM response x WHERE x.file_id = f.file_id)
            AND r.cache_read_tokens > 0"""
    return fetch_records(FirstReadRow, db, sql)


def sent_request(db: Connection, file_id: int, request: int) -> SentRequestRow | None:
    """Find a request in a file, or in another: a fork copies answers without their requests."""
    own = fetch_records(SentRequestRow, db, _REQUESTS.format("file_id = ?"), [request, file_id])
    other = own or fetch_records(SentRequestRow, db, _REQUESTS.format("1"), [request])
    return other[0] if other else None


_REQUESTS: Final = """SELECT file_id, f.path, r.offset, length, request, shape, base, keep, tail
    FROM request r JOIN file f USING (file_id) WHERE request = ? AND {} ORDER BY r.offset LIMIT 1"""


def sessions_since(db: Connection, since_ms: int) -> list[str]:
    """List the sessions with an answer, or an agent's, since then."""
    sql = """SELECT DISTINCT session_id FROM file JOIN session s USING (file_id)
        WHERE s.last_at >= ?"""
    return [row[0] for row in db.execute(sql, [since_ms])]


def session_starts(db: Connection, session_ids: Iterable[str]) -> list[SessionStart]:
    sql = f"""SELECT session_id, at, COALESCE(json_extract(detail, '$.given.source'), '')
        FROM hook_event WHERE event = 'SessionStart' AND session_id IN {LISTED} ORDER BY at"""
    return fetch_records(SessionStart, db, sql, [json.dumps(list(session_ids))])


# A copy of an answer counts as `model_usage` counts it.
_ANSWERS: Final = f"""
WITH wanted AS MATERIALIZED ({{wanted}}),
aside AS MATERIALIZED (
    SELECT file_id, message_id, MIN(root) AS root FROM wanted CROSS JOIN aside_line USING (file_id)
    WHERE message_id IS NOT NULL GROUP BY file_id, message_id
),
{COPIES}
SELECT r.file_id, f.path, f.session_id,
    COALESCE(f.agent_id, IIF(r.sidechain = 1, printf('aside-%016x', a.root), NULL)),
    (SELECT NULLIF(m.agent_type, '') FROM agent_meta m
        WHERE f.agent_id IS NOT NULL AND m.session_id = f.session_id AND m.agent_id = f.agent_id
        LIMIT 1),
    r.offset, r.last_offset, r.message_id, r.at, r.model, r.input_tokens, r.cache_creation_tokens,
    r.cache_1h_tokens, r.cache_read_tokens, r.context_tokens, r.lowered, r.request,
    r.client_version, r.cache_miss, r.cache_missed_tokens,
    COALESCE(k.place = 1, 1), k.file_id IS NOT NULL, COALESCE(k.owner, f.session_id), r.rate,
    r.charges
FROM wanted w CROSS JOIN response r USING (file_id) JOIN file f USING (file_id)
LEFT JOIN copies k ON k.file_id = r.file_id AND k.message_id = r.message_id
LEFT JOIN aside a ON r.sidechain = 1 AND a.file_id = r.file_id AND a.message_id = r.message_id
UNION ALL
SELECT k.file_id, f.path, k.session_id, k.agent_id, NULL, k.offset, k.offset, k.message_id, k.at,
    k.model, k.input_tokens, k.cache_creation_tokens, k.cache_1h_tokens, k.cache_read_tokens,
    k.context_tokens, 0, NULL, NULL, NULL, NULL, k.place = 1, 0, k.owner, k.rate, k.charges
FROM copies k JOIN wanted USING (file_id) JOIN file f USING (file_id) WHERE k.is_progress
ORDER BY 1, 6
"""
