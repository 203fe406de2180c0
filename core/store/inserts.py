"""The SQL that stores the records of a transcript; a column has the name of its record's field."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import msgspec
from msgspec.structs import astuple

from .transcript_records import (
    MAX_BAD_LINES_PER_FILE,
    OUTPUT_ID_PREFIX,
    AdditionRecord,
    AgentMeta,
    AgentReturnRecord,
    ApiErrorRecord,
    BadLine,
    BoundaryRecord,
    ContextReportRecord,
    GivenSkillRecord,
    LaunchRecord,
    LeafTitleRecord,
    LiveSession,
    MarkerRecord,
    MemoryNoteRecord,
    MicrocompactionRecord,
    OpenCallRecord,
    ProgressLineRecord,
    ReplyRecord,
    RequestPartRecord,
    RequestRecord,
    ResponseRecord,
    SessionRecord,
    StopBlockRecord,
    StopFeedbackRecord,
    StopHookRecord,
    SummaryRecord,
    TranscriptRecords,
)

if TYPE_CHECKING:
    import sqlite3


def _insert_sql(table: str, fact: type[msgspec.Struct], way: str, *first: str) -> str:
    columns = (*first, *fact.__struct_fields__)
    places = ", ".join("?" * len(columns))
    return f"INSERT {way} INTO {table} ({', '.join(columns)}) VALUES ({places})"


def _insert_record_sql(table: str, fact: type[msgspec.Struct]) -> str:
    # A line read twice changes nothing.
    return _insert_sql(table, fact, "OR IGNORE", "file_id")


# A message's place is where it was first written (a second compaction appends old
# history again); its numbers are those of its last line (early lines of clients
# before 2.1.97 hold a placeholder). A line read twice changes nothing, and a tool call
# whose line is appended again counts once.
_UPDATE_FROM_LATER_LINE: Final = """
ON CONFLICT DO UPDATE SET
    model = excluded.model,
    input_tokens = excluded.input_tokens,
    cache_creation_tokens = excluded.cache_creation_tokens,
    cache_read_tokens = excluded.cache_read_tokens,
    output_tokens = MAX(output_tokens, excluded.output_tokens),
    context_tokens = excluded.context_tokens,
    tools = join_tools(tools, excluded.tools),
    {more}
    last_offset = excluded.last_offset
WHERE excluded.last_offset > last_offset
"""

RESPONSE_UPSERT: Final = _insert_sql(
    "response", ResponseRecord, "", "file_id"
) + _UPDATE_FROM_LATER_LINE.format(
    more="request = COALESCE(request, excluded.request),"
    " last_output_tokens = excluded.last_output_tokens,"
    " cache_1h_tokens = excluded.cache_1h_tokens, lowered = excluded.lowered,"
)

STEP_UPSERT: Final = (
    "INSERT INTO step VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
    + _UPDATE_FROM_LATER_LINE.format(more="")
)

SELECT_KNOWN_SIDECHAINS: Final = (
    "SELECT message_id, sidechain FROM response WHERE file_id = ? AND offset < ?"
    " AND message_id IN (SELECT value FROM json_each(?))"
)

MODEL_USE_UPSERT: Final = (
    "INSERT INTO model_use (file_id, model, sidechain, peak_tokens) VALUES (?, ?, ?, ?)"
    " ON CONFLICT DO UPDATE SET peak_tokens = MAX(peak_tokens, excluded.peak_tokens)"
)

INSERT_BOUNDARY: Final = _insert_record_sql("boundary", BoundaryRecord)
INSERT_MICROCOMPACTION: Final = _insert_record_sql("clearing", MicrocompactionRecord)
INSERT_API_ERROR: Final = _insert_record_sql("api_error", ApiErrorRecord)
INSERT_LAUNCH: Final = _insert_record_sql("launch", LaunchRecord)
INSERT_AGENT_RETURN: Final = _insert_record_sql("agent_return", AgentReturnRecord)

INSERT_SUMMARY: Final = _insert_record_sql("summary", SummaryRecord)
INSERT_LEAF_TITLE: Final = _insert_sql("leaf_title", LeafTitleRecord, "OR REPLACE", "file_id")
INSERT_REQUEST: Final = _insert_record_sql("request", RequestRecord)
INSERT_REQUEST_PART: Final = _insert_record_sql("request_part", RequestPartRecord)
INSERT_CONTEXT_REPORT: Final = _insert_record_sql("context_report", ContextReportRecord)
INSERT_MARKER: Final = _insert_record_sql("marker", MarkerRecord)
INSERT_STOP_FEEDBACK: Final = _insert_record_sql("feedback", StopFeedbackRecord)
INSERT_GIVEN_SKILL: Final = _insert_record_sql("given_skill", GivenSkillRecord)
INSERT_STOP_BLOCK: Final = _insert_record_sql("stop_block", StopBlockRecord)
INSERT_STOP_HOOK: Final = _insert_record_sql("stop_hook", StopHookRecord)
INSERT_MEMORY_NOTE: Final = _insert_record_sql("memory_note", MemoryNoteRecord)
INSERT_OPEN_CALL: Final = _insert_record_sql("open_call", OpenCallRecord)

DELETE_ENDED_CALL: Final = "DELETE FROM open_call WHERE file_id = ? AND tool_use_id = ?"

INSERT_ADDITION: Final = _insert_record_sql("addition", AdditionRecord)

# What stands before an answer is in what the API reported of it: only the last answer of a
# segment is kept, and what follows it. Before a boundary that tells how full it was then.
_NO_BOUNDARY: Final = """NOT EXISTS (SELECT 1 FROM boundary b
    WHERE b.file_id = ?1 AND b.offset BETWEEN {low}.offset AND {high}.offset)"""

DELETE_OLD_ADDITIONS: Final = f"""
DELETE FROM addition WHERE file_id = ?1 AND EXISTS (
    SELECT 1 FROM addition later WHERE later.file_id = ?1 AND later.message IS NOT NULL
    AND later.offset > addition.offset AND {_NO_BOUNDARY.format(low="addition", high="later")}
    AND later.message IS NOT (SELECT said.message FROM addition said
        WHERE said.file_id = ?1 AND said.message IS NOT NULL AND said.offset <= addition.offset
        AND {_NO_BOUNDARY.format(low="said", high="addition")}
        ORDER BY said.offset DESC LIMIT 1))
"""

_KEEP_FIRST: Final = ("opened_at", "forked_from", "first_prompt", "launched_in", "prompt")
_KEEP_NEWEST: Final = (
    "cwd",
    "client_version",
    "custom_title",
    "ai_title",
    "summary_title",
    "last_prompt",
    "model",
    "model_offset",
    "cost_usd",
    "cost_offset",
    "leaf_uuid",
)

SESSION_UPSERT: Final = (
    _insert_sql("session", SessionRecord, "", "file_id")
    + " ON CONFLICT (file_id) DO UPDATE SET "
    + ", ".join(f"{name} = COALESCE(excluded.{name}, {name})" for name in _KEEP_NEWEST)
    + "".join(f", {name} = COALESCE({name}, excluded.{name})" for name in _KEEP_FIRST)
    # Of later lines the first is not the file's.
    + ", began_in = IIF(cwd IS NULL, excluded.began_in, began_in)"
    # What one line says together stays together, also a time that it does not say.
    + "".join(
        f", {name} = CASE WHEN excluded.turn IS NULL THEN {name} ELSE excluded.{name} END"
        for name in ("turn", "turn_at", "turn_offset")
    )
    # Lines do not stand in the order of their times; where neither is known it stays NULL.
    + "".join(
        f", {name} = {choose}(COALESCE({name}, excluded.{name}), COALESCE(excluded.{name}, {name}))"
        for name, choose in (("started_at", "MIN"), ("last_at", "MAX"))
    )
)

MAX_LINE_TYPES: Final = 50
"""Types of lines of one file that are named; the client has 42 and their kinds."""

LINE_COUNT_UPSERT: Final = (
    "INSERT INTO line_count SELECT ?1, IIF(EXISTS (SELECT 1 FROM line_count"
    " WHERE file_id = ?1 AND type = ?2)"
    f" OR (SELECT COUNT(*) FROM line_count WHERE file_id = ?1) < {MAX_LINE_TYPES},"
    " ?2, 'of other types'), ?3, ?4 WHERE 1"
    " ON CONFLICT DO UPDATE SET lines = lines + excluded.lines"
)

MAX_REPLY_CHARS: Final = 200_000
"""Of an agent's last answer, which may come in many lines: as much as of any other text."""

REPLY_UPSERT: Final = (
    _insert_sql("reply", ReplyRecord, "", "file_id")
    + f"""
ON CONFLICT (file_id) DO UPDATE SET
    text = CASE WHEN message_id = excluded.message_id
        THEN SUBSTR(text || char(10) || excluded.text, 1, {MAX_REPLY_CHARS}) ELSE excluded.text END,
    message_id = excluded.message_id, offset = excluded.offset, at = excluded.at
"""
)

REPLACE_AGENT_META: Final = _insert_sql("agent_meta", AgentMeta, "OR REPLACE")

INSERT_LIVE: Final = _insert_sql("live", LiveSession, "OR REPLACE")

SELECT_UNESTIMATED: Final = """
SELECT summary_id, text, chars, session_id,
    (SELECT r.model FROM response r WHERE r.file_id = s.file_id AND r.offset < s.offset
        ORDER BY r.offset DESC LIMIT 1)
FROM summary s JOIN file USING (file_id)
WHERE NOT EXISTS (SELECT 1 FROM estimate e WHERE e.summary_id = s.summary_id) LIMIT 100
"""
"""A hundred at a time: a transaction that is soon over."""

INSERT_ESTIMATE: Final = "INSERT INTO estimate (summary_id, tokens) VALUES (?, ?)"


def insert_inline_agents(db: sqlite3.Connection, file_id: int, facts: TranscriptRecords) -> None:
    """Store what one run of lines says of inner agents; its returns are stored already."""
    db.executemany(
        _INSERT_FAILED_LAUNCH, [(file_id, *astuple(each)) for each in facts.failed_calls]
    )
    named = [(file_id, each.uuid) for each in facts.returns if each.name]
    for sql in (_RESOLVE_TEAMMATE_RETURN, _RESOLVE_TEAMMATE_SUMMARY):
        db.executemany(sql, named)
    asked_for = [
        (file_id, each.uuid) for each in facts.returns if each.uuid.startswith(OUTPUT_ID_PREFIX)
    ]
    for sql in (_DELETE_REPEATED_SUMMARY, _DELETE_REPEATED_RETURN):
        db.executemany(sql, asked_for)
    if facts.sidechain_lines:
        db.executemany(
            _INSERT_SIDECHAIN_LINE,
            [
                (file_id, a.line, a.parent, a.offset, a.message_id, a.prompt)
                for a in facts.sidechain_lines
            ],
        )
    if facts.progress_lines:
        db.executemany(
            _PROGRESS_AGENT_UPSERT,
            [
                (file_id, s.agent_id, s.tool_use_id, s.offset, s.at, s.at)
                for s in facts.progress_lines
            ],
        )
        db.executemany(
            STEP_UPSERT,
            [row for step in facts.progress_lines for row in _progress_response(file_id, step)],
        )


def _progress_response(file_id: int, step: ProgressLineRecord) -> list[tuple[object, ...]]:
    answer = step.answer
    if answer is None:
        return []
    counts = (
        answer.input_tokens,
        answer.cache_creation_tokens,
        answer.cache_read_tokens,
        answer.output_tokens,
        answer.context_tokens,
    )
    who = (file_id, answer.message_id, step.agent_id, answer.offset, answer.at, answer.model)
    return [(*who, *counts, answer.tools, answer.offset)]


# A parent stands before its children, so its root is known; a line whose parent is no
# agent's line is where an agent begins. A line that is appended again changes nothing.
_INSERT_SIDECHAIN_LINE: Final = """
INSERT OR IGNORE INTO aside_line (file_id, line, root, offset, message_id, prompt)
VALUES (?1, ?2, COALESCE(
    (SELECT root FROM aside_line WHERE file_id = ?1 AND line = ?3), ?2), ?4, ?5, ?6)
"""

# Tools of all kinds fail: only a call that was to start an agent says how that one ended.
_RETURN_COLUMNS: Final = AgentReturnRecord.__struct_fields__
_INSERT_FAILED_LAUNCH: Final = f"""
INSERT OR IGNORE INTO agent_return (file_id, {", ".join(_RETURN_COLUMNS)})
SELECT ?1, {", ".join(f"?{number}" for number, _ in enumerate(_RETURN_COLUMNS, 2))}
WHERE EXISTS (SELECT 1 FROM launch WHERE file_id = ?1 AND tool_use_id = ?5)
"""

# A teammate's messages name it, and names are given again: the newest one is meant that was
# started before.
_RESOLVE_TEAMMATE_RETURN: Final = """
UPDATE agent_return SET agent_id = (SELECT s.agent_id FROM agent_return s
    WHERE s.file_id = ?1 AND s.name = agent_return.name AND s.status = 'teammate_spawned'
    AND s.offset < agent_return.offset ORDER BY s.offset DESC LIMIT 1)
WHERE file_id = ?1 AND uuid = ?2 AND status <> 'teammate_spawned'
    AND EXISTS (SELECT 1 FROM agent_return s WHERE s.file_id = ?1 AND s.name = agent_return.name
        AND s.status = 'teammate_spawned' AND s.offset < agent_return.offset)
"""

_RESOLVE_TEAMMATE_SUMMARY: Final = """
UPDATE summary SET agent_id =
    (SELECT r.agent_id FROM agent_return r WHERE r.file_id = ?1 AND r.uuid = ?2)
WHERE file_id = ?1 AND uuid = ?2
"""

# What came unasked before and is then asked for is one result, and one end.
_DELETE_REPEATED_SUMMARY: Final = """
DELETE FROM summary WHERE file_id = ?1 AND uuid = ?2 AND EXISTS (
    SELECT 1 FROM summary s WHERE s.file_id = ?1 AND s.agent_id = summary.agent_id
    AND s.offset < summary.offset AND s.text = summary.text)
"""

_DELETE_REPEATED_RETURN: Final = """
DELETE FROM agent_return WHERE file_id = ?1 AND uuid = ?2
    AND NOT EXISTS (SELECT 1 FROM summary s WHERE s.file_id = ?1 AND s.uuid = ?2)
    AND EXISTS (SELECT 1 FROM agent_return r WHERE r.file_id = ?1
        AND r.agent_id = agent_return.agent_id AND r.offset < agent_return.offset
        AND r.status = agent_return.status)
"""

_PROGRESS_AGENT_UPSERT: Final = """
INSERT INTO step_agent VALUES (?, ?, ?, ?, ?, ?)
ON CONFLICT (file_id, agent_id) DO UPDATE SET
    tool_use_id = COALESCE(tool_use_id, excluded.tool_use_id),
    started_at = MIN(COALESCE(started_at, excluded.started_at),
        COALESCE(excluded.started_at, started_at)),
    last_at = MAX(COALESCE(last_at, excluded.last_at), COALESCE(excluded.last_at, last_at))
"""


MAX_BAD_LINES: Final = 10_000
"""Rows of all files together; a sound folder of 100,000 sessions has a few hundred."""


def insert_bad_lines(
    db: sqlite3.Connection, file_id: int, lines: Sequence[BadLine], count: int
) -> None:
    """Count lines of a transcript that were set aside, and keep the first of the file's."""
    if count:
        db.execute("UPDATE file SET bad_lines = bad_lines + ? WHERE file_id = ?", (count, file_id))
        _insert_within_limits(db, "bad_line", "file_id", file_id, lines)


def insert_bad_log_lines(db: sqlite3.Connection, part_id: int, lines: Sequence[BadLine]) -> None:
    """Count lines of one of ctxtop's own logs that were set aside, and keep the first."""
    if lines:
        db.execute(
            "UPDATE log_part SET bad_lines = bad_lines + ? WHERE part_id = ?", (len(lines), part_id)
        )
        _insert_within_limits(db, "log_bad_line", "part_id", part_id, lines)


def _insert_within_limits(
    db: sqlite3.Connection, table: str, key: str, of: int, bad: Sequence[BadLine]
) -> None:
    of_file, in_all = db.execute(
        f"SELECT (SELECT COUNT(*) FROM {table} WHERE {key} = ?), (SELECT COUNT(*) FROM {table})",
        (of,),
    ).fetchone()
    room = max(0, min(MAX_BAD_LINES_PER_FILE - of_file, MAX_BAD_LINES - in_all))
    db.executemany(
        f"INSERT OR IGNORE INTO {table} VALUES (?, ?, ?, ?)",
        [(of, *astuple(line)) for line in bad[:room]],
    )
