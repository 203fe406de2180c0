"""What sessions spent, each answer once: all that adds up answers counts them by these rules."""

import json
from collections.abc import Iterable
from sqlite3 import Connection
from typing import Final

import msgspec

from ...model.answer_rows import ModelUsageRow
from ...model.stored_rows import UsageRow
from ...model.transcript_records import ChargeRecord
from .query_rows import SessionIds, fetch_records


def model_usage(db: Connection, session_ids: SessionIds = None) -> list[ModelUsageRow]:
    """Add up the answers by session and model, of every session or of those named.

    Every message of the store counts once, and so does what other models were asked for it.
    """
    if session_ids is None:
        sql = _USAGE.format(wanted=_ALL_FILES, owned=1)
        return fetch_records(ModelUsageRow, db, sql)
    sql = _USAGE.format(wanted=FILES_OF_SESSIONS, owned=_OF_SESSIONS)
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


def decode_charges(charges: str | None) -> list[ChargeRecord]:
    """Return what is priced in place of an answer; empty for one with a single price."""
    return msgspec.json.decode(charges, type=list[ChargeRecord]) if charges else []


_ALL_FILES: Final = "SELECT file_id, session_id FROM file"
FILES_OF_SESSIONS: Final = """SELECT f.file_id, f.session_id
    FROM json_each(:only) j CROSS JOIN file f ON f.session_id = j.value"""
_OF_SESSIONS: Final = "k.owner IN (SELECT value FROM json_each(:only))"

_ANSWER_COLUMNS: Final = """file_id, message_id, offset, at, model, rate, input_tokens,
    cache_creation_tokens, cache_1h_tokens, cache_read_tokens, output_tokens, web_searches, charges,
    context_tokens"""

LAST_REQUESTS: Final = """
last_request AS MATERIALIZED (
    SELECT t.file_id, 'return ' || t.agent_id || ' ' || t.context_tokens AS message_id,
        t.agent_id, MIN(t.offset) AS offset, t.at, n.model, n.rate, t.input_tokens,
        COALESCE(t.cache_creation_tokens, 0) AS cache_creation_tokens,
        IIF(n.cache_1h_tokens > 0, COALESCE(t.cache_creation_tokens, 0), 0) AS cache_1h_tokens,
        COALESCE(t.cache_read_tokens, 0) AS cache_read_tokens,
        COALESCE(t.output_tokens, 0) AS output_tokens, 0 AS web_searches, NULL AS charges,
        t.context_tokens
    FROM step_agent a JOIN file f USING (file_id)
    JOIN agent_return t ON t.file_id = a.file_id AND t.agent_id = a.agent_id
    JOIN step n ON n.file_id = a.file_id AND n.message_id = (SELECT s.message_id FROM step s
        WHERE s.file_id = a.file_id AND s.agent_id = a.agent_id ORDER BY s.offset DESC LIMIT 1)
    WHERE t.input_tokens IS NOT NULL AND t.context_tokens IS NOT NULL
    AND NOT EXISTS (SELECT 1 FROM step s WHERE s.file_id = a.file_id
        AND s.agent_id = a.agent_id AND s.context_tokens = t.context_tokens)
    AND NOT EXISTS (SELECT 1 FROM file o WHERE o.kind = 'agent'
        AND o.session_id = f.session_id AND o.agent_id = a.agent_id)
    GROUP BY t.file_id, t.agent_id, t.context_tokens
)
"""
"""The last requests of agents that only `progress` lines know: no such line holds them, and the
agents' returns say what they saw and spent. Model and rate are those of the step before."""

COPIES: Final = f"""
{LAST_REQUESTS},
copies AS MATERIALIZED (
    SELECT a.*, f.session_id, COALESCE(f.agent_id, a.step_agent) AS agent_id,
        ROW_NUMBER() OVER (PARTITION BY a.message_id ORDER BY a.output_tokens DESC,
            s.forked_from IS NOT NULL, s.opened_at, f.path) AS place,
        FIRST_VALUE(f.session_id) OVER (PARTITION BY a.message_id
            ORDER BY s.forked_from IS NOT NULL, s.opened_at, f.path) AS owner
    FROM (
        SELECT 0 AS is_progress, NULL AS step_agent, {_ANSWER_COLUMNS}
        FROM (SELECT DISTINCT message_id
            FROM wanted CROSS JOIN shared_response USING (file_id)) m
        CROSS JOIN shared_response y USING (message_id)
        CROSS JOIN response r USING (message_id, file_id)
        UNION ALL
        SELECT 1, agent_id, {_ANSWER_COLUMNS}
        FROM (SELECT DISTINCT message_id FROM wanted CROSS JOIN step USING (file_id)) m
        CROSS JOIN step t USING (message_id)
        WHERE NOT EXISTS (SELECT 1 FROM response r WHERE r.message_id = t.message_id)
        UNION ALL
        SELECT 1, agent_id, {_ANSWER_COLUMNS} FROM last_request
    ) a
    JOIN file f USING (file_id) LEFT JOIN session s USING (file_id)
)
"""
"""Answers of the `wanted` files that more than one file may hold, each copy a row: those of several
transcripts (a fork copies its history), those in `progress` lines that are in no agent's file, and
the last requests of such agents.

The copy with place 1 counts: the one with the most output is complete, for early lines have a
placeholder. It counts for the `owner`: the session that was opened first and is not a fork."""

_COUNTS: Final = (
    *("input_tokens", "cache_creation_tokens", "cache_read_tokens", "output_tokens", "responses"),
    *("cache_1h_tokens", "web_searches"),
)
_CHARGE_FIELDS: Final = ChargeRecord.__struct_fields__


def _columns(column: str) -> str:
    """Return the counts as SQL: `column` with each name, and its place in a charge."""
    return ", ".join(column.format(name=name, place=_CHARGE_FIELDS.index(name)) for name in _COUNTS)


# The sums by file are stored. Most messages are in one file only: only copies are subtracted
# from their files' sums and added to their owner's.
_USAGE: Final = f"""
WITH wanted AS MATERIALIZED ({{wanted}}),
{COPIES},
answered AS (SELECT *, 1 AS responses FROM copies),
charged AS MATERIALIZED (
    SELECT file_id, place, owner, is_progress, model, rate, {_columns("{name}")}
    FROM answered WHERE charges IS NULL
    UNION ALL
    SELECT file_id, place, owner, is_progress, json_extract(c.value, '$[0]'),
        json_extract(c.value, '$[1]'), {_columns("json_extract(c.value, '$[{place}]')")}
    FROM copies, json_each(charges) c
),
once AS (
    SELECT w.session_id, p.model, p.rate, 0 AS is_progress, {_columns("p.{name}")}
    FROM wanted w CROSS JOIN spending p USING (file_id)
    UNION ALL
    SELECT w.session_id, k.model, k.rate, 0, {_columns("-k.{name}")}
    FROM charged k JOIN wanted w USING (file_id) WHERE NOT k.is_progress
    UNION ALL
    SELECT k.owner, k.model, k.rate, k.is_progress, {_columns("k.{name}")}
    FROM charged k WHERE k.place = 1 AND {{owned}}
),
total AS (
    SELECT session_id, model, rate, is_progress, {_columns("SUM({name}) AS {name}")}
    FROM once GROUP BY session_id, model, rate, is_progress
)
SELECT {", ".join(ModelUsageRow.__struct_fields__)} FROM total
WHERE responses > 0
    OR input_tokens + cache_creation_tokens + cache_read_tokens + output_tokens > 0
"""
