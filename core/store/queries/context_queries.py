"""One context, a session's or an agent's: its transcript, answers, events, fill and requests."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final

from ...model.answer_rows import TimelineAnswerRow, TimelineReturnRow, unpack_keys
from ...model.counting_rule import DEFAULT_COUNTING
from ...model.stored_rows import FillRow, RequestRow
from ...model.transcript_records import RequestPartRecord, TurnState
from .agent_queries import RUNNING_STATUSES
from .query_rows import (
    LISTED,
    RecordT,
    boundary_tokens_column,
    columns,
    fetch_records,
    text_tokens_column,
    tokens_column,
)

if TYPE_CHECKING:
    from sqlite3 import Connection

    from ...model.counting_rule import CountingRule


def find_transcript(
    db: Connection, session_id: str, agent_id: str | None = None
) -> tuple[int, str] | None:
    """Return the file id and the path under projects/ of a context's transcript."""
    sql = f"{CONTEXT_FILE} SELECT file_id, path FROM file JOIN chosen USING (file_id)"
    row = db.execute(sql, {"session_id": session_id, "agent_id": agent_id}).fetchone()
    return (row[0], row[1]) if row else None


def summary_location(db: Connection, summary_id: int) -> tuple[str, str, int] | None:
    """Return a summary's file below projects/, its kind, and the byte offset of its line."""
    row = db.execute(
        "SELECT path, s.kind, s.offset FROM summary s JOIN file USING (file_id)"
        " WHERE summary_id = ?",
        [summary_id],
    ).fetchone()
    return None if row is None else (row[0], row[1], row[2])


def answers(
    db: Connection,
    session_id: str,
    agent_id: str | None = None,
    since: int = 0,
    counting: CountingRule = DEFAULT_COUNTING,
) -> list[TimelineAnswerRow]:
    before = "r.offset, r.last_offset, r.message_id, r.at, r.model,"
    after = "r.output_tokens, LENGTH(r.tools) - LENGTH(REPLACE(r.tools, ',', ''))"
    is_estimate = "1" if counting.counts_text else "r.lowered"
    sql = _CONTEXT_ANSWERS.format(
        columns=f"{before} {tokens_column(counting)}, {after}, {is_estimate}",
        step_columns=f"{before} {tokens_column(counting, _STEP_OUTPUT)}, {after}, 0",
    )
    sql += "SELECT * FROM answer ORDER BY offset"
    values = {"session_id": session_id, "agent_id": agent_id, "since": since}
    return fetch_records(TimelineAnswerRow, db, sql, values)


def count_messages(db: Connection, session_id: str) -> int:
    """Count the messages of a session that the model sees now, as the API counts them.

    An answer and the user's message before it are two; a prompt or result without an answer is one
    more. What a compaction kept is counted by lines, and answers before a /rewind are included: it
    is never too few.
    """
    sql = f"""{CONTEXT_FILE},
        cut AS (SELECT offset, kept_messages FROM boundary
            WHERE file_id = (SELECT file_id FROM chosen) ORDER BY offset DESC LIMIT 1)
        SELECT COALESCE((SELECT kept_messages FROM cut), 0)
            + 2 * (SELECT COUNT(*) FROM response r WHERE r.file_id = (SELECT file_id FROM chosen)
                AND r.sidechain = 0 AND r.offset > COALESCE((SELECT offset FROM cut), -1))
            + EXISTS (SELECT 1 FROM session s WHERE s.file_id = (SELECT file_id FROM chosen)
                AND s.turn IN ('{TurnState.ASKED}', '{TurnState.RESULT}'))"""
    found = db.execute(sql, {"session_id": session_id, "agent_id": None}).fetchone()
    return int(found[0])


def boundaries(
    db: Connection,
    session_id: str,
    agent_id: str | None,
    counting: CountingRule = DEFAULT_COUNTING,
) -> list[Any]:
    """List the compactions of one context: offset, then the fields of a TimelineCompaction.

    `counting` is for the estimate of the next request alone: the client counted the others.
    """
    next_estimate = f"COALESCE({text_tokens_column(counting, 'b')}, l.tokens)"
    sql = f"""{CONTEXT_FILE}
        SELECT b.offset, b.at, b.pre_tokens, b.post_tokens, b.trigger, b.uuid,
               {NEXT_ANSWER_TOKENS}, {next_estimate}, {COUNTED_MESSAGES_ALONE}
        FROM boundary b
        LEFT JOIN compaction_left l ON l.file_id = b.file_id AND l.offset = b.offset
        WHERE b.file_id = (SELECT file_id FROM chosen) ORDER BY b.offset"""
    return db.execute(sql, {"session_id": session_id, "agent_id": agent_id}).fetchall()


def context_records(
    db: Connection, kind: type[RecordT], table: str, session_id: str, agent_id: str | None = None
) -> list[RecordT]:
    sql = f"""{CONTEXT_FILE} SELECT {columns(kind)} FROM {table}
        WHERE file_id = (SELECT file_id FROM chosen) ORDER BY offset"""
    return fetch_records(kind, db, sql, {"session_id": session_id, "agent_id": agent_id})


def returns(
    db: Connection, session_id: str, agent_id: str | None = None
) -> list[TimelineReturnRow]:
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

_STEP_OUTPUT: Final = "r.output_tokens"  # `step` has no answer of several steps

_IS_NEWEST_COPY: Final = """f.file_id = (SELECT o.file_id FROM file o
    WHERE o.session_id = f.session_id AND o.kind = f.kind AND o.agent_id IS f.agent_id
    ORDER BY o.gone, o.mtime_ns DESC, o.path LIMIT 1)"""

# An agent without a file of its own has its lines in its parent's: as steps, or in a sidechain.
_CONTEXT_ANSWERS: Final = f"""{CONTEXT_FILE},
answer AS (
    SELECT {{columns}} FROM response r
        WHERE r.file_id = (SELECT file_id FROM chosen) AND r.offset >= :since
        AND (r.sidechain = 0 OR :agent_id IS NOT NULL)
    UNION ALL
    SELECT {{step_columns}} FROM step r JOIN file f USING (file_id)
        WHERE f.session_id = :session_id AND r.agent_id = :agent_id AND r.offset >= :since
        AND NOT EXISTS (SELECT 1 FROM chosen) AND {_IS_NEWEST_COPY}
    UNION ALL
    SELECT {{columns}} FROM response r JOIN file f USING (file_id)
        WHERE f.session_id = :session_id AND r.sidechain = 1 AND r.offset >= :since AND EXISTS (
            SELECT 1 FROM aside_line a WHERE a.file_id = r.file_id
            AND a.message_id = r.message_id AND printf('aside-%016x', a.root) = :agent_id)
        AND {_IS_NEWEST_COPY}
)
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

COUNTED_MESSAGES_ALONE: Final = """
    COALESCE((SELECT MAX(p.offset) FROM boundary p
            WHERE p.file_id = b.file_id AND p.offset < b.offset)
        > COALESCE((SELECT MAX(r.offset) FROM response r JOIN file o USING (file_id)
            WHERE r.file_id = b.file_id AND r.offset < b.offset
            AND (r.sidechain = 0 OR o.kind = 'agent')), -1), 0)
"""
"""Whether no answer came between the boundary `b` and the one before: its `pre_tokens` is then the
client's count of the messages, without the system prompt and the tools."""

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


def fill_history(
    db: Connection,
    session_id: str,
    agent_id: str | None = None,
    since: int = 0,
    counting: CountingRule = DEFAULT_COUNTING,
) -> list[FillRow]:
    """Return one context's fill in the order of its file, from a byte offset on."""
    values = {"session_id": session_id, "agent_id": agent_id, "since": since}
    rest = "AS tokens, 0 AS compacted, r.file_id, r.offset, r.message_id AS mark"
    with_answers = _CONTEXT_ANSWERS.format(
        columns=f"r.at, {tokens_column(counting)} {rest}",
        step_columns=f"r.at, {tokens_column(counting, _STEP_OUTPUT)} {rest}",
    )
    sql = f"""{with_answers}
        SELECT at, tokens, compacted, path, x.offset, mark FROM (
            SELECT * FROM answer
            UNION ALL
            SELECT at, {boundary_tokens_column(counting)}, 1, file_id, offset, uuid FROM boundary b
                WHERE file_id = (SELECT file_id FROM chosen) AND offset >= :since
        ) x JOIN file USING (file_id) ORDER BY x.offset"""
    return fetch_records(FillRow, db, sql, values)


def recent_fill_history(
    db: Connection, file_id: int, limit: int, counting: CountingRule = DEFAULT_COUNTING
) -> list[FillRow]:
    """Return the last `limit` answers of a session's file, and the boundaries among them."""
    sql = f"""SELECT at, tokens, compacted FROM (
            SELECT at, tokens, 0 AS compacted, offset FROM (
                SELECT at, {tokens_column(counting)} AS tokens, offset FROM response r
                WHERE file_id = ?1 AND sidechain = 0 ORDER BY offset DESC LIMIT ?2)
            UNION ALL
            SELECT at, {boundary_tokens_column(counting)}, 1, offset
                FROM boundary b WHERE file_id = ?1
        ) ORDER BY offset DESC LIMIT ?2"""
    rows = fetch_records(FillRow, db, sql, [file_id, limit])
    rows.reverse()
    return rows


def requests(db: Connection, session_id: str, agent_id: str | None = None) -> list[RequestRow]:
    sql = f"""{CONTEXT_FILE}
        SELECT r.file_id, r.request, r.offset, r.length, r.at, r.model, r.query_source, r.shape,
            (SELECT MIN(a.message_id) FROM response a
                WHERE a.file_id = r.file_id AND a.request = r.request)
        FROM request r WHERE r.file_id = (SELECT file_id FROM chosen) ORDER BY r.offset"""
    return fetch_records(RequestRow, db, sql, {"session_id": session_id, "agent_id": agent_id})


def sent_messages(db: Connection, file_id: int, request: int) -> list[int] | None:
    """List the keys of a request's messages; None if a request that it repeats is missing.

    A request names the messages that it keeps of an earlier one by their number, and those
    after them by key; so its list is put together from where that chain begins.
    """
    tails: list[tuple[int, tuple[int, ...]]] = []
    row = db.execute(_ONE_REQUEST, [file_id, request]).fetchone()
    while row is not None and len(tails) <= row["all"]:
        tails.append((row["keep"], unpack_keys(row["tail"])))
        if row["keep"] == 0:
            return _join_messages(tails)
        if row["base"] is None:
            row = db.execute(_REQUEST_BEFORE, [file_id, row["offset"]]).fetchone()
        else:
            row = db.execute(_ONE_REQUEST, [file_id, row["base"]]).fetchone()
    return None


def request_parts(
    db: Connection, file_id: int, parts: Iterable[int | None]
) -> dict[int, RequestPartRecord]:
    """Locate parts of requests in a file; a message without a blob is left out."""
    sql = f"""SELECT {columns(RequestPartRecord)} FROM request_part
        WHERE file_id = ? AND part IN {LISTED}"""
    rows = fetch_records(RequestPartRecord, db, sql, [file_id, json.dumps(list(parts))])
    return {row.part: row for row in rows}


def _join_messages(tails: list[tuple[int, tuple[int, ...]]]) -> list[int] | None:
    messages: list[int] = []
    for keep, tail in reversed(tails):
        if keep > len(messages):
            return None
        messages[keep:] = tail
    return messages


_SELECT_REQUEST: Final = """
SELECT offset, base, keep, tail, (SELECT COUNT(*) FROM request WHERE file_id = ?1) AS "all"
FROM request WHERE file_id = ?1 AND
"""
_ONE_REQUEST: Final = f"{_SELECT_REQUEST} request = ?2 ORDER BY offset LIMIT 1"
_REQUEST_BEFORE: Final = f"{_SELECT_REQUEST} offset < ?2 ORDER BY offset DESC LIMIT 1"
