"""The plan's limits as clients reported them, the answers that used them, and what else they said.

Times are ms since 1970.
"""

import json
from collections.abc import Iterable
from sqlite3 import Connection
from typing import Final

from msgspec.structs import asdict, replace

from ...model.answer_rows import AnswerRow, LimitRow
from ...model.transcript_records import ClientReportRecord
from .query_rows import columns, fetch_records
from .spending_queries import COPIES, decode_charges


def limits_fingerprint(db: Connection) -> int | None:
    """Return what changes with every report of a limit; None if there is none."""
    (last_at,) = db.execute("SELECT MAX(last_at) FROM limit_reading").fetchone()
    return None if last_at is None else int(last_at)


def limit_rows(db: Connection) -> list[LimitRow]:
    """List all readings, oldest first."""
    return fetch_records(LimitRow, db, _LIMITS)


# Agents answer through their session's client, whose limits they renew. The newest answer of a
# file that is not newer than the report is nearly always its last one.
_LIMITS: Final = """
SELECT window, session_id, at, last_at, used_percentage, resets_at, before_at,
    IIF(place > 1, NULL, (SELECT MAX((
        SELECT r.at FROM response r WHERE r.file_id = f.file_id AND r.at <= l.last_at
        ORDER BY r.offset DESC LIMIT 1)) FROM file f WHERE f.session_id = l.session_id))
FROM (
    SELECT *, LAG(last_at) OVER (PARTITION BY session_id, window ORDER BY at) AS before_at,
        ROW_NUMBER() OVER (PARTITION BY session_id, window ORDER BY at DESC) AS place
    FROM limit_reading) l
ORDER BY at, window
"""


def answers_since(db: Connection, since_ms: int) -> list[AnswerRow]:
    """List the answers since then, oldest first, as `model_usage` counts them."""
    written_since = (since_ms - CLOCK_MARGIN_MS) * 1_000_000
    values = {"since": since_ms, "written_since": written_since}
    rows = fetch_records(AnswerRow, db, _ANSWERS, values)
    return [each for row in rows for each in _divide(row)]


def _divide(row: AnswerRow) -> list[AnswerRow]:
    return [replace(row, **asdict(each), charges=None) for each in decode_charges(row.charges)] or [
        row
    ]


CLOCK_MARGIN_MS: Final = 3_600_000  # by which a file system's clock may be behind the client's

# An answer whose time cannot be read came after the one before it.
_TIME: Final = """COALESCE(r.at,
        (SELECT b.at FROM response b WHERE b.file_id = r.file_id AND b.offset < r.offset
            AND b.at IS NOT NULL ORDER BY b.offset DESC LIMIT 1),
        (SELECT s.started_at FROM session s WHERE s.file_id = r.file_id), 0)"""

# What a file holds was written before its newest change; 0 is a change that was not noted. Most
# answers are in one file only: only the others are compared.
_ANSWERS: Final = f"""
WITH wanted AS MATERIALIZED (
    SELECT file_id FROM file WHERE mtime_ns >= :written_since OR mtime_ns = 0),
{COPIES},
answer AS (
    SELECT {_TIME} AS at, f.session_id, f.agent_id, r.model, r.input_tokens,
        r.cache_creation_tokens, r.cache_1h_tokens, r.cache_read_tokens, r.output_tokens, r.rate,
        r.web_searches, r.charges
    FROM wanted w CROSS JOIN response r USING (file_id) JOIN file f USING (file_id)
    WHERE NOT EXISTS (SELECT 1 FROM shared_response x
        WHERE x.file_id = r.file_id AND x.message_id = r.message_id)
    UNION ALL
    SELECT {_TIME}, owner, agent_id, model, input_tokens, cache_creation_tokens, cache_1h_tokens,
        cache_read_tokens, output_tokens, rate, web_searches, charges
    FROM copies r WHERE place = 1
)
SELECT at, session_id, agent_id, model, input_tokens, cache_creation_tokens, cache_1h_tokens,
    cache_read_tokens, output_tokens, rate, web_searches, 1, charges
FROM answer WHERE at >= :since ORDER BY at
"""


def client_reports(db: Connection, session_ids: Iterable[str]) -> dict[str, ClientReportRecord]:
    """Return what the clients of these sessions last said of them, by session."""
    sql = f"""SELECT {columns(ClientReportRecord, "c.")} FROM json_each(?) j
        CROSS JOIN client_report c ON c.session_id = j.value"""
    found = fetch_records(ClientReportRecord, db, sql, [json.dumps(list(session_ids))])
    return {each.session_id: each for each in found}


def agent_types(db: Connection, agent_ids: Iterable[str]) -> dict[str, str]:
    """Return the types of these agents, as far as they are known."""
    sql = """SELECT m.agent_id, m.agent_type FROM json_each(?) j
        CROSS JOIN agent_meta m ON m.agent_id = j.value WHERE m.agent_type <> ''"""
    return {row[0]: row[1] for row in db.execute(sql, [json.dumps(list(agent_ids))])}
