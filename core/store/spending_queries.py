"""What answers spent, each counted once however many files hold it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

import msgspec

from .records import records
from .rows import SpentRow

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterable


class SpendingRow(msgspec.Struct, frozen=True):
    """Tokens of a session's answers of one model, its agents' with them."""

    session_id: str
    model: str
    band: int
    """0 for prompts up to 100,000 tokens, 1 up to 200,000, 2 above."""
    input_tokens: int
    cache_creation_tokens: int
    cache_1h_tokens: int
    """Of those that were written to the cache."""
    cache_read_tokens: int
    output_tokens: int
    responses: int


def spent(db: sqlite3.Connection) -> list[SpentRow]:
    """Add up the answers of every session: every message of the store counts once (R: totals)."""
    return records(SpentRow, db, _SPENT.format(wanted=_ALL, owned=1))


def spending(db: sqlite3.Connection, session_ids: Iterable[str] | None = None) -> list[SpendingRow]:
    """Add up the answers by session and model, of every session or of those named."""
    if session_ids is None:
        return records(SpendingRow, db, _SPENDING.format(wanted=_ALL, owned=1))
    sql = _SPENDING.format(wanted=_NAMED, owned=_OWNED)
    return records(SpendingRow, db, sql, {"only": json.dumps(list(session_ids))})


def progress_spent(db: sqlite3.Connection) -> list[SpentRow]:
    """Add up, by session, the answers that only `progress` lines hold (clients up to 2.1.9x).

    They are agents' own: what an agent's file or a side chain holds too is in `spent`.
    """
    return records(SpentRow, db, _PROGRESS_SPENT.format(wanted=_ALL, owned=1))


def progress_spending(
    db: sqlite3.Connection, session_ids: Iterable[str] | None = None
) -> list[SpendingRow]:
    """Add up the same by session and model; nothing says for how long their cache lives."""
    if session_ids is None:
        return records(SpendingRow, db, _PROGRESS_SPENDING.format(wanted=_ALL, owned=1))
    sql = _PROGRESS_SPENDING.format(wanted=_NAMED, owned=_OWNED)
    return records(SpendingRow, db, sql, {"only": json.dumps(list(session_ids))})


_ALL: Final = "SELECT file_id, session_id FROM file"
_NAMED: Final = """SELECT f.file_id, f.session_id
    FROM json_each(:only) j CROSS JOIN file f ON f.session_id = j.value"""
_OWNED: Final = "c.owner IN (SELECT value FROM json_each(:only))"


# The sums by file are kept as answers come, by triggers. Of several copies of a message the
# one with the most output is whole (early lines hold a placeholder); it counts for the session
# that was opened first and is no fork. Most messages stand in one file alone: only what is
# shared is taken out of its files' sums and added where it belongs.
_ONCE: Final = """
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

_SPENT: Final = f"""{_ONCE}
SELECT session_id, SUM(input_tokens), SUM(cache_creation_tokens), SUM(cache_read_tokens),
    SUM(output_tokens), SUM(responses)
FROM once GROUP BY session_id HAVING SUM(responses) > 0
"""

_SPENDING: Final = f"""{_ONCE}
SELECT session_id, model, band, SUM(input_tokens), SUM(cache_creation_tokens),
    SUM(cache_1h_tokens), SUM(cache_read_tokens), SUM(output_tokens), SUM(responses)
FROM once GROUP BY session_id, model, band HAVING SUM(responses) > 0
"""

# Of several copies (a line for each block of an answer, a fork's history) the whole one counts,
# for the session that was opened first and is no fork.
_PROGRESS: Final = """
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

_PROGRESS_SPENT: Final = f"""{_PROGRESS}
SELECT owner, SUM(input_tokens), SUM(cache_creation_tokens), SUM(cache_read_tokens),
    SUM(output_tokens), COUNT(*)
FROM c WHERE place = 1 AND {{owned}} GROUP BY owner
"""

_PROGRESS_SPENDING: Final = f"""{_PROGRESS}
SELECT owner, model, band, SUM(input_tokens), SUM(cache_creation_tokens), 0,
    SUM(cache_read_tokens), SUM(output_tokens), COUNT(*)
FROM c WHERE place = 1 AND {{owned}} GROUP BY owner, model, band
"""
