"""The writer's SQL, made from the facts' own fields: a column is called as its field is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from .compliance_facts import FeedbackFact, MarkerFact, SkillFact
from .facts import (
    AdditionFact,
    AgentMeta,
    BoundaryFact,
    CallFact,
    ClearingFact,
    ErrorFact,
    LaunchFact,
    LeafTitle,
    LinkFact,
    LiveSession,
    PartFact,
    ReplyFact,
    ReportFact,
    RequestFact,
    ResponseFact,
    ReturnFact,
    SessionFact,
    TextFact,
)
from .save_facts import NoteFact, StopBlockFact, StopHookFact

if TYPE_CHECKING:
    import msgspec


def _insert(table: str, fact: type[msgspec.Struct], way: str, *first: str) -> str:
    columns = (*first, *fact.__struct_fields__)
    places = ", ".join("?" * len(columns))
    return f"INSERT {way} INTO {table} ({', '.join(columns)}) VALUES ({places})"


def _insert_fact(table: str, fact: type[msgspec.Struct]) -> str:
    # A line read twice changes nothing.
    return _insert(table, fact, "OR IGNORE", "file_id")


# A message's place is where it was first written (a second compaction appends old
# history again); its numbers are those of its last line (early lines of clients
# before 2.1.97 hold a placeholder). A line read twice changes nothing, and a tool call
# whose line is appended again counts once.
_LATER_LINE: Final = """
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

RESPONSE_UPSERT: Final = _insert("response", ResponseFact, "", "file_id") + _LATER_LINE.format(
    more="request = COALESCE(request, excluded.request),"
    " last_output_tokens = excluded.last_output_tokens,"
    " cache_1h_tokens = excluded.cache_1h_tokens, lowered = excluded.lowered,"
)

STEP_UPSERT: Final = (
    "INSERT INTO step VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)" + _LATER_LINE.format(more="")
)

BEGUN: Final = (
    "SELECT message_id, sidechain FROM response WHERE file_id = ? AND offset < ?"
    " AND message_id IN (SELECT value FROM json_each(?))"
)

MODEL_USE_UPSERT: Final = (
    "INSERT INTO model_use (file_id, model, sidechain, peak_tokens) VALUES (?, ?, ?, ?)"
    " ON CONFLICT DO UPDATE SET peak_tokens = MAX(peak_tokens, excluded.peak_tokens)"
)

INSERT_BOUNDARY: Final = _insert_fact("boundary", BoundaryFact)
INSERT_CLEARING: Final = _insert_fact("clearing", ClearingFact)
INSERT_API_ERROR: Final = _insert_fact("api_error", ErrorFact)
INSERT_LAUNCH: Final = _insert_fact("launch", LaunchFact)
INSERT_AGENT_RETURN: Final = _insert_fact("agent_return", ReturnFact)

INSERT_SUMMARY: Final = _insert_fact("summary", TextFact)
INSERT_LINK: Final = _insert_fact("session_link", LinkFact)
INSERT_LEAF_TITLE: Final = _insert("leaf_title", LeafTitle, "OR REPLACE", "file_id")
INSERT_REQUEST: Final = _insert_fact("request", RequestFact)
INSERT_PART: Final = _insert_fact("request_part", PartFact)
INSERT_REPORT: Final = _insert_fact("context_report", ReportFact)
INSERT_MARKER: Final = _insert_fact("marker", MarkerFact)
INSERT_FEEDBACK: Final = _insert_fact("feedback", FeedbackFact)
INSERT_SKILL: Final = _insert_fact("given_skill", SkillFact)
INSERT_STOP_BLOCK: Final = _insert_fact("stop_block", StopBlockFact)
INSERT_STOP_HOOK: Final = _insert_fact("stop_hook", StopHookFact)
INSERT_NOTE: Final = _insert_fact("memory_note", NoteFact)
INSERT_CALL: Final = _insert_fact("open_call", CallFact)

END_CALL: Final = "DELETE FROM open_call WHERE file_id = ? AND tool_use_id = ?"

INSERT_ADDITION: Final = _insert_fact("addition", AdditionFact)

# What stands before an answer is in what the API reported of it: only the last answer of a
# segment is kept, and what follows it. Before a boundary that tells how full it was then.
_NO_BOUNDARY: Final = """NOT EXISTS (SELECT 1 FROM boundary b
    WHERE b.file_id = ?1 AND b.offset BETWEEN {low}.offset AND {high}.offset)"""

FORGET_ADDITIONS: Final = f"""
DELETE FROM addition WHERE file_id = ?1 AND EXISTS (
    SELECT 1 FROM addition later WHERE later.file_id = ?1 AND later.message IS NOT NULL
    AND later.offset > addition.offset AND {_NO_BOUNDARY.format(low="addition", high="later")}
    AND later.message IS NOT (SELECT said.message FROM addition said
        WHERE said.file_id = ?1 AND said.message IS NOT NULL AND said.offset <= addition.offset
        AND {_NO_BOUNDARY.format(low="said", high="addition")}
        ORDER BY said.offset DESC LIMIT 1))
"""

_FIRST: Final = ("opened_at", "forked_from", "first_prompt", "launched_in", "prompt")
_NEWEST: Final = (
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
    _insert("session", SessionFact, "", "file_id")
    + " ON CONFLICT (file_id) DO UPDATE SET "
    + ", ".join(f"{name} = COALESCE(excluded.{name}, {name})" for name in _NEWEST)
    + "".join(f", {name} = COALESCE({name}, excluded.{name})" for name in _FIRST)
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

MOST_TYPES: Final = 50
"""Types of lines of one file that are named; the client has 42 and their kinds."""

LINE_COUNT_UPSERT: Final = (
    "INSERT INTO line_count SELECT ?1, IIF(EXISTS (SELECT 1 FROM line_count"
    " WHERE file_id = ?1 AND type = ?2)"
    f" OR (SELECT COUNT(*) FROM line_count WHERE file_id = ?1) < {MOST_TYPES},"
    " ?2, 'of other types'), ?3, ?4 WHERE 1"
    " ON CONFLICT DO UPDATE SET lines = lines + excluded.lines"
)

REPLY_CHARS: Final = 200_000
"""Of an agent's last answer, which may come in many lines: as much as of any other text."""

REPLY_UPSERT: Final = (
    _insert("reply", ReplyFact, "", "file_id")
    + f"""
ON CONFLICT (file_id) DO UPDATE SET
    text = CASE WHEN message_id = excluded.message_id
        THEN SUBSTR(text || char(10) || excluded.text, 1, {REPLY_CHARS}) ELSE excluded.text END,
    message_id = excluded.message_id, offset = excluded.offset, at = excluded.at
"""
)

REPLACE_AGENT_META: Final = _insert("agent_meta", AgentMeta, "OR REPLACE")

INSERT_LIVE: Final = _insert("live", LiveSession, "OR REPLACE")

UNCOUNTED: Final = """
SELECT summary_id, text, chars, session_id,
    (SELECT r.model FROM response r WHERE r.file_id = s.file_id AND r.offset < s.offset
        ORDER BY r.offset DESC LIMIT 1)
FROM summary s JOIN file USING (file_id)
WHERE NOT EXISTS (SELECT 1 FROM estimate e WHERE e.summary_id = s.summary_id) LIMIT 100
"""
"""A hundred at a time: a transaction that is soon over."""

INSERT_ESTIMATE: Final = "INSERT INTO estimate (summary_id, tokens) VALUES (?, ?)"
