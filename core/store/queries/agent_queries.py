"""Agents, of four eras of the client, each assembled from everything that mentions it.

1. Sidechain lines in the session's own file (up to 2.0): `aside_line`.
2. A file agent-<id>.jsonl next to the session's (up to about 2.1.16x).
3. `progress` lines in the parent's file (up to about 2.1.9x): `step_agent` and `step`.
4. A file below <session>/subagents/ with its meta.json.

Also what earlier agents returned, and what ctxtop's hook answers gave the client.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ...model.agent import CLIENT_TASKS, HOOK_AGENT_PREFIX
from ...model.answer_rows import EarlierResultRow
from ...model.log_records import AnswerItemRecord
from ...model.result_formats import COMPRESSED_MARKER
from ...model.stored_rows import AgentRow
from ...transcript.raw_lines import text_key
from .query_rows import (
    MIN_PASSED_TOKENS,
    PROJECT_ROOT,
    SUMMARY_TIME,
    TEXT_COUNTS,
    SessionIds,
    columns,
    fetch_records,
    in_condition,
)
from .spending_queries import LAST_REQUESTS

if TYPE_CHECKING:
    from sqlite3 import Connection


WAITING_STATUSES: Final = "'remote_launched', 'teammate_spawned', 'message'"
"""Statuses of returns, in SQL, of agents that run elsewhere, or that wait for messages."""

RUNNING_STATUSES: Final = f"'async_launched', {WAITING_STATUSES}"
"""Statuses of returns, in SQL, that mean an agent was started or is still running."""

WARMUP_PROMPT: Final = "Warmup"  # of agents that clients 2.0.x to 2.1.x start to fill the cache

IS_WARMUP: Final = f"""({{said}}.first_prompt IS '{WARMUP_PROMPT}' AND NOT EXISTS (
        SELECT 1 FROM launch l JOIN file y USING (file_id)
        WHERE y.session_id = {{file}}.session_id AND l.prompt = {{said}}.prompt))"""
"""SQL for: nobody requested the agent of this file, which has this row in `session`."""


_LABELS: Final = " OR ".join(
    f"{{agent}}.agent_id GLOB '{prefix}*'"
    for prefix in (*(f"a{label}-" for label in CLIENT_TASKS), HOOK_AGENT_PREFIX)
)
IS_CLIENTS_OWN: Final = f"""(({_LABELS}) AND NOT EXISTS (
        SELECT 1 FROM agent_meta y WHERE y.session_id = {{agent}}.session_id
        AND y.agent_id = {{agent}}.agent_id AND y.tool_use_id IS NOT NULL))"""
"""SQL for: the client itself started this agent."""


def agents(db: Connection, session_ids: SessionIds = None) -> list[AgentRow]:
    """List the agents of every session, or only of those named, in the order they started."""
    where, values = in_condition("f.session_id", session_ids)
    times = _AGENTS.count("{where}")
    return fetch_records(AgentRow, db, _AGENTS.format(where=where), values * times)


def sessions_with_agents(db: Connection) -> list[str]:
    """List the sessions of all files: any may name agents."""
    return [row[0] for row in db.execute("SELECT DISTINCT session_id FROM file")]


def count_agents(db: Connection) -> int:
    """Count the agents of all sessions; those that forks contain, too, count once."""
    own = IS_CLIENTS_OWN.format(agent="k")
    is_counted = f"{_COUNTS_HERE} AND NOT {own}"
    sql = f"WITH {_KNOWN.format(where='1')} SELECT COUNT(*) FROM known k WHERE {is_counted}"
    return int(db.execute(sql).fetchone()[0])


def copied_agents(db: Connection, session_ids: SessionIds) -> dict[str, int]:
    """Count the agents of each session that count for another one: it is a fork of that."""
    where, values = in_condition("f.session_id", session_ids)
    known = _KNOWN.format(where=where)
    sql = f"""WITH {known} SELECT session_id, COUNT(*) FROM known k WHERE NOT ({_COUNTS_HERE})
        GROUP BY session_id"""
    return dict(db.execute(sql, values * _KNOWN.count("{where}")).fetchall())


# A fork's history has the calls that started agents, and its folder copies of their files. One
# that several sessions contain counts for the one that was opened first and is not a fork.
_SAME_CALL: Final = """FROM launch l JOIN file f USING (file_id) LEFT JOIN session s USING (file_id)
        WHERE l.tool_use_id = k.tool_use_id AND l.at IS k.launched_at"""
_SAME_ANSWERS: Final = """FROM shared_response x JOIN shared_response y USING (message_id)
        JOIN file f ON f.file_id = y.file_id LEFT JOIN session s ON s.file_id = y.file_id
        WHERE x.file_id = k.own_file"""
_FIRST: Final = "ORDER BY s.forked_from IS NOT NULL, s.opened_at, f.path LIMIT 1"
_HOLDERS: Final = f"""MAX(1, (SELECT COUNT(DISTINCT f.session_id) {_SAME_CALL}),
        (SELECT COUNT(DISTINCT f.session_id) {_SAME_ANSWERS}))"""
_COUNTED_IN: Final = f"""COALESCE((SELECT f.session_id {_SAME_CALL} {_FIRST}),
        (SELECT f.session_id {_SAME_ANSWERS} {_FIRST}), k.session_id)"""
_COUNTS_HERE: Final = f"k.session_id = {_COUNTED_IN}"

# An agent is known by its own file, by its lines in its parent's file, or only by the tool
# call that started it. The return names agent and call together, and so do meta.json and a
# progress line; a sidechain begins with the prompt of the call, and several calls with the
# same prompt are matched in their order.
_KNOWN: Final = f"""
started AS MATERIALIZED (
    SELECT *, ROW_NUMBER() OVER (PARTITION BY session_id, prompt ORDER BY offset) AS turn FROM (
        SELECT f.session_id, f.agent_id AS launcher, l.tool_use_id, l.at, l.agent_type,
            l.description, l.asked_model, l.prompt, l.skill, MIN(l.offset) AS offset
        FROM launch l JOIN file f USING (file_id) WHERE {{where}}
        GROUP BY f.session_id, l.tool_use_id)
),
returned AS MATERIALIZED (
    SELECT f.session_id, t.agent_id, MAX(IIF(EXISTS(SELECT 1 FROM launch x
            WHERE x.file_id = t.file_id AND x.tool_use_id = t.tool_use_id), t.tool_use_id, NULL))
            AS tool_use_id,
        MAX(t.model) AS model, MAX(t.context_tokens) AS context_tokens,
        MAX(t.total_tokens) AS total_tokens, MAX(t.tool_uses) AS tool_uses,
        MAX(t.input_tokens) AS input_tokens, MAX(t.output_tokens) AS output_tokens,
        MAX(t.cache_creation_tokens) AS cache_creation_tokens,
        MAX(t.cache_read_tokens) AS cache_read_tokens,
        MAX(IIF(t.status IN ({RUNNING_STATUSES}), NULL, t.at)) AS ended_at
    FROM agent_return t JOIN file f USING (file_id) WHERE {{where}}
    GROUP BY f.session_id, t.agent_id
),
own AS MATERIALIZED (
    SELECT f.file_id, f.session_id, f.agent_id, f.mtime_ns,
        COALESCE(m.tool_use_id, t.tool_use_id,
            -- A run that was cut short without a meta.json is matched by its prompt.
            (SELECT l.tool_use_id FROM started l WHERE l.session_id = f.session_id
                AND l.prompt = w.prompt AND NOT EXISTS (SELECT 1 FROM returned y
                    WHERE y.session_id = l.session_id AND y.tool_use_id = l.tool_use_id
                    AND y.agent_id <> y.tool_use_id)
                ORDER BY l.offset LIMIT 1)) AS tool_use_id,
        m.agent_type, m.description, m.parent_agent_id, m.model, m.finished, m.depth
    FROM file f
    LEFT JOIN agent_meta m ON m.session_id = f.session_id AND m.agent_id = f.agent_id
    LEFT JOIN returned t ON t.session_id = f.session_id AND t.agent_id = f.agent_id
    LEFT JOIN session w ON w.file_id = f.file_id
    WHERE f.kind = 'agent' AND {{where}} AND NOT {IS_WARMUP.format(file="f", said="w")}
        AND NOT EXISTS (
        SELECT 1 FROM file o WHERE o.session_id = f.session_id AND o.agent_id = f.agent_id
            AND (o.gone, -o.mtime_ns, o.path) < (f.gone, -f.mtime_ns, f.path))
),
stepped AS MATERIALIZED (
    SELECT p.file_id, f.session_id, f.agent_id AS launcher, p.agent_id, p.tool_use_id,
        p.started_at, p.last_at, MIN(p.offset)
    FROM step_agent p JOIN file f USING (file_id)
    WHERE {{where}} AND NOT EXISTS (SELECT 1 FROM file o
        WHERE o.kind = 'agent' AND o.session_id = f.session_id AND o.agent_id = p.agent_id)
    -- Where a session was moved, what its file says now.
    AND NOT EXISTS (SELECT 1 FROM file o WHERE o.session_id = f.session_id AND o.kind = f.kind
        AND o.agent_id IS f.agent_id
        AND (o.gone, -o.mtime_ns, o.path) < (f.gone, -f.mtime_ns, f.path))
    GROUP BY f.session_id, p.agent_id
),
aside AS MATERIALIZED (
    SELECT *, printf('aside-%016x', root) AS agent_id,
        ROW_NUMBER() OVER (PARTITION BY session_id, prompt ORDER BY offset) AS turn
    FROM (SELECT a.file_id, f.session_id, a.root, a.prompt, MIN(a.offset) AS offset
        FROM aside_line a JOIN file f USING (file_id)
        WHERE a.line = a.root AND f.kind = 'session' AND {{where}}
        AND NOT EXISTS (SELECT 1 FROM file o WHERE o.session_id = f.session_id
            AND o.kind = 'session'
            AND (o.gone, -o.mtime_ns, o.path) < (f.gone, -f.mtime_ns, f.path))
        GROUP BY f.session_id, a.root)
),
found AS (
    SELECT session_id, agent_id, file_id AS own_file, mtime_ns, tool_use_id, agent_type,
        description, parent_agent_id, model, finished, depth, NULL AS started_at, NULL AS last_at
    FROM own
    UNION ALL
    SELECT session_id, agent_id, NULL, NULL, tool_use_id, NULL, NULL, launcher, NULL, NULL, NULL,
        started_at, last_at
    FROM stepped
    UNION ALL
    SELECT a.session_id, a.agent_id, NULL, NULL, l.tool_use_id, NULL, NULL, NULL, NULL, NULL, NULL,
        NULL, NULL
    FROM aside a LEFT JOIN started l ON l.session_id = a.session_id AND l.prompt = a.prompt
        AND l.turn = a.turn
    WHERE l.tool_use_id IS NOT NULL OR a.prompt IS NOT {text_key(WARMUP_PROMPT)}
),
known AS MATERIALIZED (
    SELECT o.*, l.at AS launched_at, l.agent_type AS asked_type, l.description AS asked_for,
        l.launcher, l.asked_model, l.skill
    FROM found o LEFT JOIN started l
        ON l.session_id = o.session_id AND l.tool_use_id = o.tool_use_id
    UNION ALL
    SELECT l.session_id, COALESCE(t.agent_id, l.tool_use_id), NULL, NULL, l.tool_use_id,
        NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, l.at, l.agent_type, l.description,
        l.launcher, l.asked_model, l.skill
    FROM started l LEFT JOIN returned t
        ON t.session_id = l.session_id AND t.tool_use_id = l.tool_use_id
    WHERE NOT EXISTS (SELECT 1 FROM found o
        WHERE o.session_id = l.session_id AND o.tool_use_id = l.tool_use_id)
)
"""

# An answer that is in several files (a fork copies its history) counts for one agent:
# that of the session that was opened first and is not a fork.
_COUNTED_ELSEWHERE: Final = """
    SELECT 1 FROM {table} c JOIN file g ON g.file_id = c.file_id
    LEFT JOIN session y ON y.file_id = c.file_id
    LEFT JOIN session x ON x.file_id = r.file_id
    WHERE c.message_id = r.message_id AND c.file_id <> r.file_id
    AND (g.session_id, COALESCE(g.agent_id, '')) <> (f.session_id, COALESCE(f.agent_id, ''))
    AND (y.forked_from IS NOT NULL, COALESCE(y.opened_at, 0), g.path)
        < (x.forked_from IS NOT NULL, COALESCE(x.opened_at, 0), f.path)
"""

_TOKENS: Final = "r.input_tokens, r.cache_creation_tokens, r.cache_read_tokens, r.output_tokens"
_FROM_RESPONSE: Final = f"""
    r.offset, r.at, r.model, r.context_tokens, r.tool_uses, {_TOKENS},
    COALESCE(r.last_output_tokens, r.output_tokens) AS last_output_tokens,
    NOT EXISTS ({_COUNTED_ELSEWHERE.format(table="response")}) AS counts, 0 AS in_progress
"""
_COUNTS_AS_STEP: Final = f"""
    NOT EXISTS (SELECT 1 FROM response c WHERE c.message_id = r.message_id)
    AND NOT EXISTS ({_COUNTED_ELSEWHERE.format(table="step")})
"""

_ANSWERS: Final = f"""
answer AS MATERIALIZED (
    SELECT o.session_id, o.agent_id, {_FROM_RESPONSE}
    FROM own o JOIN response r USING (file_id) JOIN file f USING (file_id)
    UNION ALL
    SELECT a.session_id, a.agent_id, {_FROM_RESPONSE}
    FROM aside a
    JOIN (SELECT DISTINCT file_id, root, message_id FROM aside_line
        WHERE message_id IS NOT NULL) n USING (file_id, root)
    JOIN response r USING (file_id, message_id) JOIN file f USING (file_id)
    UNION ALL
    SELECT p.session_id, p.agent_id, r.offset, r.at, r.model, r.context_tokens,
        LENGTH(r.tools) - LENGTH(REPLACE(r.tools, ',', '')), {_TOKENS}, r.output_tokens,
        {_COUNTS_AS_STEP}, 1
    FROM stepped p JOIN step r USING (file_id, agent_id) JOIN file f USING (file_id)
),
{LAST_REQUESTS},
last AS MATERIALIZED (
    SELECT session_id, agent_id, MAX(offset) AS offset, model, context_tokens, last_output_tokens
        AS output_tokens, input_tokens, cache_creation_tokens, cache_read_tokens
    FROM answer GROUP BY session_id, agent_id
),
peak AS MATERIALIZED (
    SELECT a.session_id, a.agent_id, MAX(a.context_tokens) AS tokens
    FROM answer a JOIN last l ON l.session_id = a.session_id AND l.agent_id = a.agent_id
        AND l.model = a.model
    GROUP BY a.session_id, a.agent_id
),
-- Sessions that ended, by the client's own hook.
ended AS MATERIALIZED (
    SELECT f.session_id, MAX(f.at) AS at FROM hook_event f
    WHERE f.event = 'SessionEnd' AND {{where}} GROUP BY f.session_id
),
-- Agents that stopped, by the client's own hook: it is recorded if their notification is lost.
stopped AS MATERIALIZED (
    SELECT f.session_id, f.agent_id, MAX(f.at) AS at FROM hook_event f
    WHERE f.event = 'SubagentStop' AND f.agent_id IS NOT NULL AND {{where}}
    GROUP BY f.session_id, f.agent_id
),
-- Answers that are in its parent's progress lines and not in its own file count for it, too.
lacking AS (
    SELECT o.session_id, o.agent_id, NULL AS at, 0 AS tool_uses, {_TOKENS},
        {_COUNTS_AS_STEP} AS counts
    FROM own o JOIN file f ON f.session_id = o.session_id
    JOIN step r ON r.file_id = f.file_id AND r.agent_id = o.agent_id
),
spent AS MATERIALIZED (
    SELECT session_id, agent_id, MIN(at) AS first_at, MAX(at) AS last_at,
        SUM(tool_uses) AS tool_uses, SUM(input_tokens * counts) AS input_tokens,
        SUM(cache_creation_tokens * counts) AS cache_creation_tokens,
        SUM(cache_read_tokens * counts) AS cache_read_tokens,
        SUM(output_tokens * counts) AS output_tokens, SUM(counts * in_progress) AS in_progress
    FROM (SELECT session_id, agent_id, at, tool_uses, input_tokens, cache_creation_tokens,
            cache_read_tokens, output_tokens, counts, in_progress FROM answer
        UNION ALL SELECT *, 1 FROM lacking
        UNION ALL SELECT p.session_id, p.agent_id, NULL, 0, {_TOKENS},
            NOT EXISTS ({_COUNTED_ELSEWHERE.format(table="last_request")}), 1
        FROM stepped p JOIN last_request r USING (file_id, agent_id) JOIN file f USING (file_id))
    GROUP BY session_id, agent_id
)
"""

_ADDED: Final = """
    (SELECT COALESCE(SUM(x.tokens), 0) FROM addition x WHERE x.file_id = k.own_file
        AND x.offset > COALESCE(b.offset, -1) AND x.message IS {who})
"""

# Whose counts an agent's last answer has: its return's, as its context's size.
_IS_OF_RETURN: Final = """t.context_tokens IS NOT NULL AND
        (w.file_id IS NOT NULL OR COALESCE(r.offset <= COALESCE(b.offset, -1), 1))"""

_AGENTS: Final = f"""
WITH {_KNOWN}, {_ANSWERS}
SELECT k.agent_id, k.session_id, COALESCE(k.parent_agent_id, k.launcher),
    COALESCE(NULLIF(k.agent_type, ''), k.asked_type),
    COALESCE(NULLIF(k.description, ''), k.asked_for),
    COALESCE(r.model, t.model, k.model, k.asked_model), COALESCE(k.model, k.asked_model),
    k.launched_at, COALESCE(s.started_at, k.started_at, u.first_at),
    COALESCE(s.last_at, k.last_at, u.last_at), t.ended_at, e.status, k.finished,
    COALESCE(s.client_version, v.client_version), COALESCE(s.cwd, v.cwd),
    {PROJECT_ROOT.format(session="v")},
    CASE WHEN w.file_id IS NOT NULL THEN COALESCE(t.context_tokens, r.context_tokens)
        WHEN r.offset > COALESCE(b.offset, -1) THEN r.context_tokens END,
    r.output_tokens, {_ADDED.format(who="NOT NULL")}, {_ADDED.format(who="NULL")},
    b.post_tokens, h.tokens, t.context_tokens, t.total_tokens,
    COALESCE(t.tool_uses, u.tool_uses),
    y.summary_id, y.text, y.lines, y.chars, n.tokens, p.text, k.mtime_ns,
    k.tool_use_id,
    COALESCE(k.depth, 1 + (SELECT COALESCE(MAX(m.depth), 1) FROM agent_meta m
        WHERE m.session_id = k.session_id
        AND m.agent_id = COALESCE(k.parent_agent_id, k.launcher)) *
        (COALESCE(k.parent_agent_id, k.launcher) IS NOT NULL)),
    u.input_tokens, u.cache_creation_tokens, u.cache_read_tokens, u.output_tokens,
    (SELECT x.tokens FROM compaction_left x
        WHERE x.file_id = k.own_file AND x.offset = b.offset),
    t.agent_id IS NOT NULL, k.skill, COALESCE(u.in_progress, 0),
    IIF({_IS_OF_RETURN}, t.input_tokens, r.input_tokens),
    IIF({_IS_OF_RETURN}, t.cache_creation_tokens, r.cache_creation_tokens),
    IIF({_IS_OF_RETURN}, t.cache_read_tokens, r.cache_read_tokens),
    {TEXT_COUNTS.format(file_id="k.own_file")},
    d.at, c.at, EXISTS(SELECT 1 FROM agent_return x JOIN file f USING (file_id)
        WHERE x.agent_id = COALESCE(t.agent_id, k.agent_id) AND f.session_id = k.session_id
        AND x.status IN ({WAITING_STATUSES})),
    (SELECT x.what FROM trouble x JOIN file f ON f.path = x.place WHERE f.file_id = k.own_file),
    z.at, s.turn IS 'ended',
    COALESCE((SELECT MAX(m.stopped) FROM agent_meta m
        WHERE m.session_id = k.session_id AND m.agent_id = k.agent_id), 0),
    {_HOLDERS}, {_COUNTED_IN},
    IIF(r.context_tokens > {MIN_PASSED_TOKENS}, (SELECT MIN(context_tokens) FROM (
        SELECT x.context_tokens, x.model, x.lowered FROM response x WHERE x.file_id = k.own_file
            AND x.offset > COALESCE(b.offset, -1) ORDER BY x.offset DESC LIMIT 2)
        HAVING COUNT(*) = 2 AND MIN(model) = MAX(model) AND NOT MAX(lowered)), NULL),
    (SELECT x.also_counted_tokens FROM response x WHERE x.file_id = k.own_file
        AND x.offset = r.offset AND x.offset > COALESCE(b.offset, -1))
FROM known k
LEFT JOIN ended d ON d.session_id = k.session_id
LEFT JOIN stopped z ON z.session_id = k.session_id AND z.agent_id = k.agent_id
LEFT JOIN closed_agent c ON c.session_id = k.session_id AND c.agent_id = k.agent_id
LEFT JOIN session s ON s.file_id = k.own_file
LEFT JOIN session v ON v.file_id = (SELECT x.file_id FROM file x
    WHERE x.session_id = k.session_id AND x.kind = 'session' ORDER BY x.gone LIMIT 1)
LEFT JOIN stepped w ON w.session_id = k.session_id AND w.agent_id = k.agent_id
LEFT JOIN returned t ON t.session_id = k.session_id AND t.agent_id = COALESCE(
    (SELECT x.agent_id FROM returned x
        WHERE x.session_id = k.session_id AND x.agent_id = k.agent_id),
    (SELECT x.agent_id FROM returned x
        WHERE x.session_id = k.session_id AND x.tool_use_id = k.tool_use_id LIMIT 1))
LEFT JOIN boundary b ON b.file_id = k.own_file AND b.offset =
    (SELECT MAX(offset) FROM boundary x WHERE x.file_id = k.own_file)
LEFT JOIN last r ON r.session_id = k.session_id AND r.agent_id = k.agent_id
LEFT JOIN peak h ON h.session_id = k.session_id AND h.agent_id = k.agent_id
LEFT JOIN spent u ON u.session_id = k.session_id AND u.agent_id = k.agent_id
LEFT JOIN reply p ON p.file_id = k.own_file
LEFT JOIN agent_return e ON e.rowid = (SELECT x.rowid FROM agent_return x
    JOIN file f USING (file_id)
    WHERE x.agent_id = COALESCE(t.agent_id, k.agent_id) AND f.session_id = k.session_id
    AND x.status NOT IN ({RUNNING_STATUSES})
    -- That a teammate agreed to end says nothing about how its work ended.
    ORDER BY x.status = 'shut_down', x.offset DESC LIMIT 1)
LEFT JOIN summary y ON y.summary_id = (SELECT x.summary_id FROM summary x
    JOIN file f USING (file_id)
    WHERE x.agent_id = COALESCE(t.agent_id, k.agent_id) AND f.session_id = k.session_id
    ORDER BY x.offset DESC LIMIT 1)
LEFT JOIN estimate n ON n.summary_id = y.summary_id
ORDER BY COALESCE(k.launched_at, s.started_at, k.started_at, u.first_at), k.agent_id
"""


MAX_RESULTS: Final = 300  # newest results: six times what all stages of any preset give


def results_of_project(db: Connection, project: str) -> list[EarlierResultRow]:
    """List the results of a project's agents, newest first, at most MAX_RESULTS."""
    return _fetch_results(db, "f.project = ?", project)


def results_of_type(db: Connection, agent_type: str) -> list[EarlierResultRow]:
    """List the results of all agents of a type, in any project, newest first."""
    return _fetch_results(db, f"{_TYPE} = ?", agent_type)


def _fetch_results(db: Connection, where: str, value: str) -> list[EarlierResultRow]:
    sql = _RESULTS.format(where=where, marker=COMPRESSED_MARKER)
    return fetch_records(EarlierResultRow, db, sql, [value, MAX_RESULTS])


_TYPE: Final = "COALESCE(NULLIF(m.agent_type, ''), l.agent_type, '')"

_RESULTS: Final = (
    f"SELECT f.project, f.session_id, s.agent_id, {_TYPE}, m.parent_agent_id,"
    f" {SUMMARY_TIME} AS written_at,"
    """ s.text, r.status,
        (SELECT MAX(p.at) FROM file o JOIN reply p USING (file_id)
            WHERE o.session_id = f.session_id AND o.kind = 'agent' AND o.agent_id = s.agent_id),
        IIF(INSTR(s.text, '{marker}'), NULL, (SELECT json_group_array(text) FROM
            (SELECT k.text FROM file o JOIN marker k USING (file_id)
            WHERE o.session_id = f.session_id AND o.kind = 'agent' AND o.agent_id = s.agent_id
            AND k.text IS NOT NULL ORDER BY k.offset)))
FROM summary s JOIN file f USING (file_id)
LEFT JOIN agent_return r ON r.file_id = s.file_id AND r.uuid = s.uuid
LEFT JOIN agent_meta m ON m.session_id = f.session_id AND m.agent_id = s.agent_id
LEFT JOIN launch l ON l.tool_use_id = COALESCE(m.tool_use_id, r.tool_use_id)
    AND l.file_id IN (SELECT x.file_id FROM file x WHERE x.session_id = f.session_id)
WHERE s.kind = 'agent' AND s.agent_id IS NOT NULL AND {where}
ORDER BY written_at DESC LIMIT ?"""
)


def answer_items(
    db: Connection, feature: str, session_id: str | None = None
) -> list[AnswerItemRecord]:
    """List what a feature (inject, steer, remember) gave, oldest first, of one session or all."""
    sql = f"""SELECT {columns(AnswerItemRecord)} FROM answer_item
        WHERE feature = :feature AND (:session IS NULL OR session_id = :session)
        ORDER BY at, part_id, offset"""
    values = {"feature": feature, "session": session_id}
    return fetch_records(AnswerItemRecord, db, sql, values)
