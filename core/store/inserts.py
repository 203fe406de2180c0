"""How records become rows: the columns of a table have the names of its record's fields."""

from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from sqlite3 import Connection
from typing import Any, Final

import msgspec
from msgspec.structs import asdict, astuple

from ..model import transcript_records as records


@cache
def insert_sql(
    table: str, record: type[msgspec.Struct], *owner: str, how: str = "OR IGNORE"
) -> str:
    names = (*owner, *record.__struct_fields__)
    return f"INSERT {how} INTO {table} ({', '.join(names)}) VALUES ({', '.join('?' * len(names))})"


def insert_records(
    db: Connection,
    table: str,
    rows: Sequence[msgspec.Struct],
    how: str = "OR IGNORE",
    /,
    **owner: object,
) -> None:
    """Insert records of one type, each with the values of the `owner` columns."""
    if rows:
        values = [(*owner.values(), *astuple(row)) for row in rows]
        db.executemany(insert_sql(table, type(rows[0]), *owner, how=how), values)


# A message's place is where it was first written (a second compaction appends old
# history again); its numbers are those of its last line (early lines of clients
# before 2.1.97 hold a placeholder). A tool call whose line is appended again counts once.
_UPDATE_FROM_LATER_LINE: Final = """
ON CONFLICT DO UPDATE SET
    model = excluded.model, input_tokens = excluded.input_tokens,
    cache_creation_tokens = excluded.cache_creation_tokens,
    cache_read_tokens = excluded.cache_read_tokens,
    output_tokens = MAX(output_tokens, excluded.output_tokens),
    context_tokens = excluded.context_tokens, tools = join_tools(tools, excluded.tools),
    cache_1h_tokens = excluded.cache_1h_tokens, rate = excluded.rate,
    web_searches = excluded.web_searches, charges = excluded.charges, {more}
    last_offset = excluded.last_offset
WHERE excluded.last_offset > last_offset
"""

_RESPONSE_CONFLICT: Final = _UPDATE_FROM_LATER_LINE.format(
    more="request = COALESCE(request, excluded.request),"
    " last_output_tokens = excluded.last_output_tokens,"
    " lowered = excluded.lowered,"
    " has_text = MAX(has_text, excluded.has_text),"
    " client_version = COALESCE(client_version, excluded.client_version),"
    " cache_miss = COALESCE(excluded.cache_miss, cache_miss),"
    " cache_missed_tokens = COALESCE(excluded.cache_missed_tokens, cache_missed_tokens),"
    " also_counted_tokens = MAX(also_counted_tokens, excluded.also_counted_tokens),"
)

_SPENT: Final = (
    *("input_tokens", "cache_creation_tokens", "cache_1h_tokens", "cache_read_tokens"),
    *("output_tokens", "web_searches", "responses"),
)
_ADD_SPENDING: Final = f"""
INSERT INTO spending (file_id, model, rate, {", ".join(_SPENT)})
SELECT file_id, model, rate, {", ".join(f"?3 * SUM({name})" for name in _SPENT)} FROM charge
WHERE file_id = ?1 AND {{answers}} GROUP BY model, rate
ON CONFLICT DO UPDATE SET {", ".join(f"{name} = {name} + excluded.{name}" for name in _SPENT)}
"""
_SPEND_ANSWER: Final = _ADD_SPENDING.format(answers="message_id = ?2")
_SPEND_ANSWERS_FROM: Final = _ADD_SPENDING.format(answers="offset >= ?2")
_DELETE_UNSPENT: Final = """
DELETE FROM spending WHERE file_id = ? AND responses <= 0
    AND output_tokens + input_tokens + cache_creation_tokens + cache_read_tokens <= 0
"""

# Most answers are in one file: a look into an index tells.
_SHARE_ANSWERS_FROM: Final = """
INSERT OR IGNORE INTO shared_response
SELECT r.file_id, r.message_id FROM response n CROSS JOIN response r USING (message_id)
WHERE n.file_id = ?1 AND n.offset >= ?2 AND EXISTS (
    SELECT 1 FROM response o WHERE o.message_id = n.message_id AND o.file_id <> ?1)
"""

_STEP_COLUMNS: Final = (
    *("file_id", "message_id", "agent_id", "offset", "at", "model", "input_tokens"),
    *("cache_creation_tokens", "cache_read_tokens", "output_tokens", "context_tokens", "tools"),
    *("cache_1h_tokens", "rate", "web_searches", "charges"),
)
_STEP_UPSERT: Final = (
    f"INSERT INTO step ({', '.join(_STEP_COLUMNS)}, last_offset)"
    f" VALUES ({', '.join(f':{name}' for name in _STEP_COLUMNS)}, :offset)"
    + _UPDATE_FROM_LATER_LINE.format(more="")
)

_KEEP_FIRST: Final = (
    *("opened_at", "forked_from", "first_prompt", "prompt_title", "launched_in", "prompt"),
    "message_title",
)
_KEEP_NEWEST: Final = (
    *(
        "cwd",
        "client_version",
        "custom_title",
        "ai_title",
        "summary_title",
        "model",
        "model_offset",
        "cost_usd",
        "cost_offset",
        "leaf_uuid",
        "worktree",
        "worktree_owner",
        "moved_to",
        "noted_prompt",
    ),
)

_SESSION_CONFLICT: Final = (
    " ON CONFLICT (file_id) DO UPDATE SET "
    + ", ".join(f"{name} = COALESCE(excluded.{name}, {name})" for name in _KEEP_NEWEST)
    + "".join(f", {name} = COALESCE({name}, excluded.{name})" for name in _KEEP_FIRST)
    # Prompts of before may be written again: the newest by its time counts, without times the last.
    + "".join(
        f", {name} = IIF(COALESCE(excluded.prompt_at, 0) < prompt_at,"
        f" {older}, COALESCE(excluded.{name}, {name}))"
        for name, older in (
            ("last_prompt", "COALESCE(excluded.noted_prompt, last_prompt)"),
            ("git_branch", "git_branch"),
            ("prompt_at", "prompt_at"),
        )
    )
    # Only the first line that was read can be the file's first.
    + ", began_in = IIF(cwd IS NULL, excluded.began_in, began_in)"
    # The three come from one line, even if that line has no time.
    + "".join(
        f", {name} = CASE WHEN excluded.turn IS NULL THEN {name} ELSE excluded.{name} END"
        for name in ("turn", "turn_at", "turn_offset")
    )
    # Lines are not in the order of their times; NULL if no time is known.
    + "".join(
        f", {name} = {choose}(COALESCE({name}, excluded.{name}), COALESCE(excluded.{name}, {name}))"
        for name, choose in (("started_at", "MIN"), ("last_at", "MAX"))
    )
)

MAX_REPLY_CHARS: Final = 200_000  # of an agent's last answer: as much as of any other text

_REPLY_CONFLICT: Final = f"""
ON CONFLICT (file_id) DO UPDATE SET
    text = CASE WHEN message_id = excluded.message_id
        THEN SUBSTR(text || char(10) || excluded.text, 1, {MAX_REPLY_CHARS}) ELSE excluded.text END,
    message_id = excluded.message_id, offset = excluded.offset, at = excluded.at
"""

_TABLES: Final = {
    "boundaries": "boundary",
    "microcompactions": "clearing",
    "api_errors": "api_error",
    "launches": "launch",
    "returns": "agent_return",
    "summaries": "summary",
    "replies": "reply",
    "leaf_titles": "leaf_title",
    "requests": "request",
    "request_parts": "request_part",
    "additions": "addition",
    "context_reports": "context_report",
    "markers": "marker",
    "stop_feedback": "feedback",
    "given_skills": "given_skill",
    "stop_blocks": "stop_block",
    "hook_runs": "hook_run",
    "memory_notes": "memory_note",
    "open_calls": "open_call",
}
"""The tables of fields of TranscriptRecords, in the order in which they are stored."""

# A memory file is sent again after a compaction: its rules are where they were last sent.
_RULE_CONFLICT: Final = """
ON CONFLICT (file_id, uuid) DO UPDATE SET offset = excluded.offset, at = excluded.at
WHERE excluded.kind = 'rule'
"""

_CONFLICTS: Final = {
    "summary": ("", _RULE_CONFLICT),
    "response": ("", _RESPONSE_CONFLICT),
    "reply": ("", _REPLY_CONFLICT),
    "leaf_title": ("OR REPLACE", ""),
}
"""What to do with a row that exists; in all other tables a line that is read twice changes
nothing."""

_MODEL_USE_UPSERT: Final = (
    "INSERT INTO model_use (file_id, model, sidechain, peak_tokens) VALUES (?, ?, ?, ?)"
    " ON CONFLICT DO UPDATE SET peak_tokens = MAX(peak_tokens, excluded.peak_tokens)"
)

MAX_LINE_TYPES: Final = 50  # named for one file; the client has 42

_LINE_COUNT_UPSERT: Final = (
    "INSERT INTO line_count SELECT ?1, IIF(EXISTS (SELECT 1 FROM line_count"
    " WHERE file_id = ?1 AND type = ?2)"
    f" OR (SELECT COUNT(*) FROM line_count WHERE file_id = ?1) < {MAX_LINE_TYPES},"
    " ?2, 'of other types'), ?3, ?4 WHERE 1"
    " ON CONFLICT DO UPDATE SET lines = lines + excluded.lines"
)


def insert_transcript_records(
    db: Connection, file_id: int, facts: records.TranscriptRecords
) -> None:
    """Store the records of one run of lines, in the transaction that moves the offset."""
    session = astuple(facts.session)
    if any(value is not None for value in session):
        sql = insert_sql("session", records.SessionRecord, "file_id", how="")
        db.execute(sql + _SESSION_CONFLICT, (file_id, *session))
    db.executemany(
        "DELETE FROM open_call WHERE file_id = ? AND tool_use_id = ?",
        [(file_id, call) for call in facts.ended_calls],
    )
    if facts.responses:
        _insert_responses(db, file_id, facts)
    for field, table in _TABLES.items():
        _insert_rows(db, file_id, table, getattr(facts, field))
    _insert_inline_agents(db, file_id, facts)
    db.executemany(
        _LINE_COUNT_UPSERT,
        [
            (file_id, name, known, lines)
            for known, counts in ((1, facts.ignored_types), (0, facts.unknown_types))
            for name, lines in counts.items()
        ],
    )


def _insert_rows(db: Connection, file_id: int, table: str, rows: Sequence[msgspec.Struct]) -> None:
    if rows:
        how, conflict = _CONFLICTS.get(table, ("OR IGNORE", ""))
        sql = insert_sql(table, type(rows[0]), "file_id", how=how) + conflict
        db.executemany(sql, [(file_id, *astuple(row)) for row in rows])


def _insert_responses(db: Connection, file_id: int, facts: records.TranscriptRecords) -> None:
    """Store answers and add them to the sums of their file, once for all of them.

    What an answer that goes on from an earlier run cost until now is taken out.
    """
    first = min(each.offset for each in facts.responses)
    earlier = _known_sidechains(db, file_id, facts.responses, first)
    db.executemany(_SPEND_ANSWER, [(file_id, message_id, -1) for message_id in earlier])
    _insert_rows(db, file_id, "response", facts.responses)
    db.executemany(_SPEND_ANSWER, [(file_id, message_id, 1) for message_id in earlier])
    # An answer of an earlier run keeps its place there.
    db.execute(_SPEND_ANSWERS_FROM, (file_id, first, 1))
    db.execute(_SHARE_ANSWERS_FROM, (file_id, first))
    if earlier:
        db.execute(_DELETE_UNSPENT, (file_id,))
    db.executemany(_MODEL_USE_UPSERT, _peaks(file_id, facts, earlier))


def _peaks(
    file_id: int, facts: records.TranscriptRecords, earlier: Mapping[str, bool]
) -> list[tuple[object, ...]]:
    """Return the largest context of each model, whichever way the lines were split into runs."""
    peaks: dict[tuple[str, bool], int] = {}
    contexts: tuple[records.ResponseRecord | records.PeakRecord, ...]
    contexts = (*facts.responses, *facts.peaks)
    for seen in contexts:
        sidechain = earlier.get(seen.message_id, seen.sidechain) if earlier else seen.sidechain
        key = seen.model, sidechain
        if seen.context_tokens > peaks.get(key, -1):
            peaks[key] = seen.context_tokens
    return [(file_id, *key, tokens) for key, tokens in peaks.items()]


def _known_sidechains(
    db: Connection, file_id: int, responses: Sequence[records.ResponseRecord], first: int
) -> dict[str, bool]:
    """Return by id whether answers that began before an offset are in a sidechain."""
    begun = "SELECT 1 FROM response WHERE file_id = ? AND offset < ?"
    if not db.execute(begun, (file_id, first)).fetchone():
        return {}  # as in most files, which are read in one run
    names = msgspec.json.encode([each.message_id for each in responses]).decode()
    rows = db.execute(
        "SELECT message_id, sidechain FROM response WHERE file_id = ? AND offset < ?"
        " AND message_id IN (SELECT value FROM json_each(?))",
        (file_id, first, names),
    )
    return {row[0]: bool(row[1]) for row in rows}


def _insert_inline_agents(db: Connection, file_id: int, facts: records.TranscriptRecords) -> None:
    """Store what the lines say about agents in their parent's file, after the agents' returns."""

    def run(sql: str, rows: Iterable[Sequence[object]]) -> None:
        # Most runs of lines have none of these.
        if values := [(file_id, *row) for row in rows]:
            db.executemany(sql, values)

    run(_INSERT_FAILED_LAUNCH, map(astuple, facts.failed_calls))
    by_name = [(each.uuid,) for each in facts.returns if each.name]
    run(_RESOLVE_TEAMMATE_RETURN, by_name)
    run(_RESOLVE_TEAMMATE_SUMMARY, by_name)
    output_prefix = records.OUTPUT_ID_PREFIX
    requested = [(each.uuid,) for each in facts.returns if each.uuid.startswith(output_prefix)]
    run(_DELETE_REPEATED_SUMMARY, requested)
    run(_DELETE_REPEATED_RETURN, requested)
    run(_INSERT_SIDECHAIN_LINE, map(astuple, facts.sidechain_lines))
    run(
        _PROGRESS_AGENT_UPSERT,
        [(line.offset, line.agent_id, line.tool_use_id, line.at) for line in facts.progress_lines],
    )
    answers: list[dict[str, Any]] = [
        asdict(line.answer) | {"file_id": file_id, "agent_id": line.agent_id}
        for line in facts.progress_lines
        if line.answer
    ]
    db.executemany(_STEP_UPSERT, answers)


# A parent is stored before its children, so its root is known; a line whose parent is not an
# agent's line begins an agent. A line that is appended again changes nothing.
_INSERT_SIDECHAIN_LINE: Final = """
INSERT OR IGNORE INTO aside_line (file_id, offset, line, root, message_id, prompt)
VALUES (?1, ?2, ?3, COALESCE(
    (SELECT root FROM aside_line WHERE file_id = ?1 AND line = ?4), ?3), ?5, ?6)
"""

# Tools of all kinds fail: only a failed call that was to start an agent ends one.
_RETURN_COLUMNS: Final = records.AgentReturnRecord.__struct_fields__
_INSERT_FAILED_LAUNCH: Final = f"""
INSERT OR IGNORE INTO agent_return (file_id, {", ".join(_RETURN_COLUMNS)})
SELECT ?1, {", ".join(f"?{number}" for number, _ in enumerate(_RETURN_COLUMNS, 2))}
WHERE EXISTS (SELECT 1 FROM launch
    WHERE file_id = ?1 AND tool_use_id = ?{_RETURN_COLUMNS.index("tool_use_id") + 2})
"""

# A teammate's messages give its name, and names are reused: it is the newest teammate of that
# name that was started before.
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

# A result that arrives by itself and is requested afterwards is one result, and one end.
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
INSERT INTO step_agent (file_id, offset, agent_id, tool_use_id, started_at, last_at)
VALUES (?1, ?2, ?3, ?4, ?5, ?5)
ON CONFLICT (file_id, agent_id) DO UPDATE SET
    tool_use_id = COALESCE(tool_use_id, excluded.tool_use_id),
    started_at = MIN(COALESCE(started_at, excluded.started_at),
        COALESCE(excluded.started_at, started_at)),
    last_at = MAX(COALESCE(last_at, excluded.last_at), COALESCE(excluded.last_at, last_at))
"""

# The API's count of an answer includes everything before it: only the last answer of a segment
# is kept, and what follows it. Before a boundary these give the size of the context at that time.
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

MAX_BAD_LINES: Final = 10_000  # of all files; a sound folder of 100,000 sessions has hundreds

_BAD_LINE_TABLES: Final = {"file_id": ("file", "bad_line"), "part_id": ("log_part", "log_bad_line")}


def insert_bad_lines(
    db: Connection, key: str, owner: int, lines: Sequence[records.BadLine], count: int
) -> None:
    """Count the bad lines of a transcript (`file_id`) or a log (`part_id`); keep the first ones."""
    if not count:
        return
    files, table = _BAD_LINE_TABLES[key]
    db.execute(f"UPDATE {files} SET bad_lines = bad_lines + ? WHERE {key} = ?", (count, owner))
    of_file, in_all = db.execute(
        f"SELECT (SELECT COUNT(*) FROM {table} WHERE {key} = ?), (SELECT COUNT(*) FROM {table})",
        (owner,),
    ).fetchone()
    room = max(0, min(records.MAX_BAD_LINES_PER_FILE - of_file, MAX_BAD_LINES - in_all))
    insert_records(db, table, lines[:room], **{key: owner})
