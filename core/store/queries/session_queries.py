"""Sessions, their compactions and fill, and the state of the store itself."""

import sqlite3
from contextlib import closing
from sqlite3 import Connection
from typing import Any, Final

from ...model.stored_rows import CompactionRow, ProblemRow, SessionRow
from ...transcript.raw_lines import text_key
from .agent_queries import IS_CLIENTS_OWN, IS_WARMUP, WARMUP_PROMPT
from .context_queries import COUNTED_MESSAGES_ALONE, NEXT_ANSWER_TOKENS
from .log_queries import unknown_type_rows
from .query_rows import (
    MIN_PASSED_TOKENS,
    PROJECT_ROOT,
    TEXT_COUNTS,
    SessionIds,
    fetch_records,
    in_condition,
)

NO_FILE: Final = -1  # file id of a session that has no file yet; no row of the store has it


def sessions(db: Connection, session_ids: SessionIds = None) -> list[SessionRow]:
    """List every session, or only those named, in no particular order.

    A session that is in two folders (/cd moved it) is read from its newer file. One that a
    client has open and that has no file yet is read from the client's registry.
    """
    ids = None if session_ids is None else list(session_ids)
    where, values = in_condition("f.session_id", ids)
    rows = fetch_records(SessionRow, db, _SESSIONS.format(where=where), values)
    where, values = in_condition("v.session_id", ids)
    sql = f"""SELECT session_id, status, name, tmux, cwd, client_version, started_at, updated_at
        FROM live v WHERE {where} AND {_WITHOUT_FILE}"""
    return rows + [
        SessionRow(
            NO_FILE,
            session_id,
            path="",
            project="",
            started_at=started_at,
            last_at=started_at,
            cwd=cwd,
            client_version=version,
            live_status=status,
            live_name=name,
            tmux=tmux,
            live_at=updated_at,
        )
        for session_id, status, name, tmux, cwd, version, started_at, updated_at in db.execute(
            sql, values
        )
    ]


def estimated_next_tokens(db: Connection, file_id: int) -> int | None:
    """Return the estimated next request in tokens, if the file ends with a compaction."""
    sql = "SELECT tokens FROM compaction_left WHERE file_id = ?"
    tokens: int | None = _first(db, sql, file_id)
    return tokens


def unreported_tokens(db: Connection, file_id: int, text_rule: str) -> int | None:
    """Return the text's tokens by a rule, if the file's last answer came with zeros."""
    sql = """SELECT tokens FROM context_text x WHERE file_id = ? AND rule = ?
        AND (SELECT context_tokens FROM response r WHERE r.file_id = x.file_id
            ORDER BY offset DESC LIMIT 1) = 0
        ORDER BY offset DESC"""
    tokens: int | None = _first(db, sql, file_id, text_rule)
    return tokens


def summary_text(db: Connection, summary_id: int) -> str:
    """Return a summary's text; empty if it no longer exists."""
    return _first(db, "SELECT text FROM summary WHERE summary_id = ?", summary_id) or ""


def claimed_folder(db: Connection) -> str | None:
    """Return the Claude Code folder that the store is for; None before the first scan."""
    root: str | None = _first(db, "SELECT value FROM about WHERE key = 'root'")
    return root


def data_version(db: Connection) -> int:
    """Return a number that changes when another connection commits."""
    return int(_first(db, "PRAGMA data_version"))


def find_damaged_page(db: Connection) -> str | None:
    """Check every page of the store; return what is wrong with the first bad one, or None."""
    result = str(_first(db, "PRAGMA quick_check(1)"))
    return None if result == "ok" else result


def has_full_text_search() -> bool:
    """Return whether this Python's SQLite was built with FTS5."""
    with closing(sqlite3.connect(":memory:")) as db:
        return bool(_first(db, "SELECT sqlite_compileoption_used('ENABLE_FTS5')"))


def _first(db: Connection, sql: str, *values: object) -> Any:  # noqa: ANN401 -- any column
    row = db.execute(sql, values).fetchone()
    return None if row is None else row[0]


def open_sessions(db: Connection) -> list[str]:
    return _column(db, "SELECT session_id FROM live ORDER BY session_id")


def newest_sessions(db: Connection) -> list[str]:
    """List every session in the order of `newest_session_order`."""
    sql = f"""SELECT f.session_id,
                COALESCE(NULLIF(s.last_at, 0), f.mtime_ns / 1000000, 0) AS active_at
            FROM file f LEFT JOIN session s USING (file_id)
            WHERE f.kind = 'session' AND {_HAS_CONTENT} AND {_NEWEST_FILE}
        UNION ALL
        SELECT v.session_id, COALESCE(v.started_at, 0) FROM live v WHERE {_WITHOUT_FILE}
        ORDER BY active_at DESC, session_id"""
    return _column(db, sql)


def find_sessions(db: Connection, prefix: str) -> list[str]:
    sql = f"""SELECT DISTINCT session_id FROM file f WHERE kind = 'session'
        AND substr(session_id, 1, length(?1)) = lower(?1) AND {_HAS_CONTENT}"""
    return _column(db, sql, prefix)


def newest_session_files(db: Connection, limit: int) -> list[tuple[int, str]]:
    """List the files of the sessions that grew last, newest first, and their projects' folders."""
    sql = "SELECT file_id, path FROM file WHERE kind = 'session' ORDER BY mtime_ns DESC LIMIT ?"
    return [(file_id, path.partition("/")[0]) for file_id, path in db.execute(sql, [limit])]


def orphaned_agent_files(db: Connection) -> list[str]:
    """List the files of agents whose session has no transcript, newest first."""
    sql = """SELECT a.path FROM file a WHERE a.kind = 'agent' AND NOT a.gone AND NOT EXISTS (
            SELECT 1 FROM file s WHERE s.kind = 'session' AND s.session_id = a.session_id
            AND NOT s.gone)
        ORDER BY a.mtime_ns DESC, a.path"""
    return _column(db, sql)


def _column(db: Connection, sql: str, *values: object) -> list[Any]:
    return [row[0] for row in db.execute(sql, values)]


def compactions(db: Connection, session_id: str | None = None) -> list[CompactionRow]:
    """List the boundaries, newest first, each once.

    A fork has copied those of its history: for that session alone they are included; in the list
    of all sessions they belong to the session that wrote them first.
    """
    # What has no uuid is named after its place, which files of other sessions have too.
    is_written_first_here = """NOT EXISTS (
            SELECT 1 FROM boundary o JOIN file g USING (file_id)
            LEFT JOIN session a ON a.file_id = o.file_id
            LEFT JOIN session c ON c.file_id = b.file_id
            WHERE o.uuid = b.uuid AND o.uuid NOT LIKE 'at %' AND g.session_id <> f.session_id
            AND (a.forked_from IS NOT NULL, COALESCE(a.opened_at, 0), g.path)
                < (c.forked_from IS NOT NULL, COALESCE(c.opened_at, 0), f.path))"""
    where = is_written_first_here if session_id is None else "f.session_id = :session_id"
    values = {"session_id": session_id}
    return fetch_records(CompactionRow, db, _COMPACTIONS.format(where=where), values)


def store_counts(db: Connection) -> dict[str, int]:
    row = db.execute("""
        SELECT COUNT(*) AS files, COALESCE(SUM(offset), 0) AS bytes,
            COALESCE(SUM(lines), 0) AS lines, COALESCE(SUM(bad_lines), 0) +
            (SELECT COALESCE(SUM(bad_lines), 0) FROM log_part) AS bad_lines,
            (SELECT COUNT(DISTINCT session_id) FROM file WHERE kind = 'session') AS sessions
        FROM file""").fetchone()
    return dict(zip(row.keys(), row, strict=True))


def unknown_types(db: Connection) -> dict[str, int]:
    """Count the lines of unknown types, and hook records of unknown events, by type."""
    return {row.type: row.lines for row in unknown_type_rows(db)}


def ignored_types(db: Connection) -> dict[str, int]:
    """Count the lines of types that are known and not stored; line_types says why."""
    sql = "SELECT type, SUM(lines) FROM line_count WHERE known = 1 GROUP BY type ORDER BY 2 DESC, 1"
    return {row[0]: row[1] for row in db.execute(sql)}


def bad_lines(db: Connection) -> list[tuple[str, int, int, str]]:
    """List the bad lines that are kept: path, byte offset, length in bytes, reason."""
    sql = """SELECT path, b.offset, length, reason FROM bad_line b JOIN file USING (file_id)
        ORDER BY path, b.offset"""
    return [(row[0], row[1], row[2], row[3]) for row in db.execute(sql)]


def problems(db: Connection) -> list[ProblemRow]:
    sql = "SELECT place, what, remedy, traceback, at FROM trouble ORDER BY at DESC"
    return fetch_records(ProblemRow, db, sql)


def summaries_fingerprint(db: Connection) -> tuple[int, int, int]:
    """Return a value that changes when summaries are added, deleted or counted."""
    last, count, counted = db.execute(
        "SELECT COALESCE(MAX(summary_id), 0), COUNT(*),"
        " (SELECT COUNT(*) FROM estimate) FROM summary"
    ).fetchone()
    return last, count, counted


_ADDED: Final = """
    (SELECT COALESCE(SUM(a.tokens), 0) FROM addition a WHERE a.file_id = f.file_id
        AND a.offset > COALESCE(cut, -1) AND a.message IS {who})
"""

_HAS_CONTENT: Final = """(EXISTS (SELECT 1 FROM session s WHERE s.file_id = f.file_id
        AND COALESCE(s.last_at, s.first_prompt, s.leaf_uuid) IS NOT NULL)
    OR EXISTS (SELECT 1 FROM live v WHERE v.session_id = f.session_id)
    OR EXISTS (SELECT 1 FROM response r WHERE r.file_id = f.file_id)
    OR EXISTS (SELECT 1 FROM trouble t WHERE t.place = f.path))"""
"""That a session's file has more in it than titles of other sessions, or could not be read. SQLite
stops at the first condition that is met, and almost every session meets the first."""

_NEWEST_FILE: Final = """NOT EXISTS (
        SELECT 1 FROM file o WHERE o.kind = 'session' AND o.session_id = f.session_id
            AND o.file_id <> f.file_id
            AND (o.gone, -o.mtime_ns, o.path) < (f.gone, -f.mtime_ns, f.path))"""
"""That no newer file has the same session: it is in two folders after /cd moved it."""

# Most sessions have none of these: to look for one is cheaper than to set up a group or a union.
_HAS_AGENTS: Final = """EXISTS (SELECT 1 FROM file o WHERE o.session_id = f.session_id AND (
        o.kind = 'agent' OR EXISTS (SELECT 1 FROM launch l WHERE l.file_id = o.file_id)))"""
_HAS_SIDECHAINS: Final = "EXISTS (SELECT 1 FROM aside_line a WHERE a.file_id = f.file_id)"
_HAS_COPIES: Final = "EXISTS (SELECT 1 FROM shared_response x WHERE x.file_id = f.file_id)"

_IS_BELOW: Final = "(s.cwd = {path} OR substr(s.cwd, 1, length({path}) + 1) = {path} || '/')"

WATCHED_ANSWERS: Final = 5  # after a compaction; later ones say nothing about it (R002-09)

# An open client reports its context to its status line and its module. After /rewind that is an
# earlier answer's context, which the transcript does not show before the next prompt.
# Only an answer after the last boundary counts: the model no longer sees what is before it.
# Sidechain lines are an agent's (clients up to 2.0). What another model saw says nothing about
# this one's window. A refusal before ctxtop's last change is of a transcript that no longer
# exists; one before a fork was made of it is recovered there, unless the fork is gone.
# `--fork-session` does not record the parent: it is the session that was opened before
# and has the most answers in common.
_SESSIONS: Final = f"""
WITH base AS MATERIALIZED (
    SELECT f.*, (SELECT MAX(offset) FROM boundary b WHERE b.file_id = f.file_id) AS cut,
        (SELECT MAX(offset) FROM response r WHERE r.file_id = f.file_id AND r.sidechain = 0)
            AS answered,
        (SELECT MAX(offset) FROM api_error e WHERE e.file_id = f.file_id AND COALESCE(e.at, 0) >
            COALESCE((SELECT c.at FROM changed_session c
                WHERE c.session_id = f.session_id AND c.fork_id IS NULL), -1)) AS refused
    FROM file f
    WHERE f.kind = 'session' AND {{where}} AND {_HAS_CONTENT} AND {_NEWEST_FILE}
)
SELECT f.file_id, f.session_id, f.path, f.project, f.gone,
    s.started_at, s.last_at, s.cwd, {PROJECT_ROOT.format(session="s")},
    s.client_version, s.custom_title, s.ai_title,
    COALESCE((SELECT t.title FROM leaf_title t WHERE t.leaf_uuid = s.leaf_uuid
        ORDER BY t.file_id DESC LIMIT 1), s.summary_title), s.first_prompt, s.last_prompt,
    s.prompt_title, s.message_title, s.git_branch, s.model,
    b.at, b.post_tokens, (SELECT COUNT(*) FROM boundary n WHERE n.file_id = f.file_id),
    IIF(answered > COALESCE(cut, -1), r.model, NULL),
    IIF(answered > COALESCE(cut, -1), r.context_tokens, NULL),
    COALESCE(r.last_output_tokens, r.output_tokens), r.model,
    COALESCE(
        (SELECT NULLIF(w.model, r.model) AS other FROM window_seen w
            WHERE w.session_id = f.session_id AND w.at > r.at ORDER BY w.at DESC, other LIMIT 1),
        IIF(s.model_offset > answered, s.model, NULL)),
    (SELECT peak_tokens FROM model_use u
        WHERE u.file_id = f.file_id AND u.model = r.model AND u.sidechain = 0),
    e.kind, e.detail, e.prompt_tokens, e.limit_tokens,
    IIF(EXISTS (SELECT 1 FROM api_error l WHERE l.file_id = f.file_id),
        (SELECT MAX(limit_tokens) FROM api_error l WHERE l.file_id = f.file_id
            AND l.offset > COALESCE((SELECT MAX(x.offset) FROM response x
                WHERE x.file_id = f.file_id AND x.sidechain = 0 AND x.model <> r.model), -1)),
        NULL),
    {_ADDED.format(who="NOT NULL")}, {_ADDED.format(who="NULL")},
    c.model, IIF(c.offset > COALESCE(cut, -1), c.total_tokens, NULL),
    c.window_tokens, c.buffer_tokens,
    IIF({_HAS_AGENTS}, (SELECT COUNT(*) FROM (
        SELECT l.tool_use_id FROM launch l JOIN file o USING (file_id)
            WHERE o.session_id = f.session_id
        UNION
        SELECT COALESCE(m.tool_use_id,
            (SELECT t.tool_use_id FROM agent_return t
                JOIN launch l ON l.file_id = t.file_id AND l.tool_use_id = t.tool_use_id
                WHERE t.agent_id = a.agent_id LIMIT 1),
            (SELECT l.tool_use_id FROM launch l JOIN file o USING (file_id)
                WHERE o.session_id = a.session_id AND l.prompt = q.prompt LIMIT 1),
            a.agent_id)
        FROM file a LEFT JOIN agent_meta m
            ON m.session_id = a.session_id AND m.agent_id = a.agent_id
        LEFT JOIN session q ON q.file_id = a.file_id
        WHERE a.session_id = f.session_id AND a.kind = 'agent'
            AND NOT {IS_WARMUP.format(file="a", said="q")}
            AND NOT {IS_CLIENTS_OWN.format(agent="a")})), 0)
        + IIF({_HAS_SIDECHAINS}, (SELECT COALESCE(SUM(MAX(begun - asked, 0)), 0) FROM (
            SELECT COUNT(*) AS begun, (SELECT COUNT(*) FROM launch l
                WHERE l.file_id = f.file_id AND l.prompt = a.prompt) AS asked
            FROM aside_line a WHERE a.file_id = f.file_id AND a.line = a.root
                AND (a.prompt IS NOT {text_key(WARMUP_PROMPT)} OR EXISTS (SELECT 1 FROM launch l
                    WHERE l.file_id = f.file_id AND l.prompt = a.prompt))
            GROUP BY a.prompt)), 0),
    v.status, v.name, v.tmux,
    f.mtime_ns, COALESCE(s.forked_from, IIF({_HAS_COPIES}, (
        SELECT g.session_id FROM shared_response x JOIN shared_response y USING (message_id)
            JOIN file g ON g.file_id = y.file_id AND g.kind = 'session'
            JOIN session p ON p.file_id = g.file_id
        WHERE x.file_id = f.file_id AND g.session_id <> f.session_id
            AND COALESCE(p.opened_at, 0) < s.opened_at
        GROUP BY g.session_id ORDER BY COUNT(*) DESC, MAX(p.opened_at), g.session_id
            LIMIT 1), NULL)),
    t.tokens, IIF(answered > COALESCE(cut, -1), r.lowered, NULL),
    IIF(answered > COALESCE(cut, -1), (SELECT COALESCE(SUM(k.saved_tokens), 0) FROM clearing k
        WHERE k.file_id = f.file_id AND k.offset > r.last_offset), 0),
    CASE WHEN NOT n.at <= COALESCE(m.at, 0)
        THEN NULLIF(n.input_tokens + n.cache_creation_tokens + n.cache_read_tokens, 0)
        ELSE m.context_tokens END,
    CASE WHEN NOT n.at <= COALESCE(m.at, 0) THEN n.output_tokens END,
    (SELECT value FROM about WHERE key = 'registry') IS '1'
        AND NOT EXISTS (SELECT 1 FROM left_open l WHERE l.session_id = f.session_id),
    r.input_tokens, r.cache_creation_tokens, r.cache_read_tokens,
    IIF(n.at <= COALESCE(m.at, 0), NULL, n.input_tokens),
    IIF(n.at <= COALESCE(m.at, 0), NULL, n.cache_creation_tokens),
    IIF(n.at <= COALESCE(m.at, 0), NULL, n.cache_read_tokens),
    IIF(cut IS NULL, NULL, (SELECT GROUP_CONCAT(x.did, '') FROM (
        SELECT MIN(1, has_text + tool_uses) AS did FROM response
        WHERE file_id = f.file_id AND sidechain = 0 AND offset > cut
        ORDER BY offset LIMIT {WATCHED_ANSWERS}) x)),
    {TEXT_COUNTS.format(file_id="f.file_id")},
    f.archived,
    IIF(e.offset IS NULL, NULL, (SELECT c.fork_id FROM changed_session c
        WHERE c.session_id = f.session_id AND c.at >= COALESCE(e.at, 0)
            AND COALESCE((SELECT MIN(k.gone) FROM file k
                WHERE k.session_id = c.fork_id AND k.kind = 'session'), 0) = 0)),
    (SELECT what FROM trouble x WHERE x.place = f.path),
    IIF(r.context_tokens > {MIN_PASSED_TOKENS} AND NOT r.lowered AND answered > COALESCE(cut, -1),
        (SELECT MIN(x.context_tokens, r.context_tokens) FROM response x
            WHERE x.file_id = f.file_id AND x.sidechain = 0 AND x.offset < r.offset
            AND x.offset > COALESCE(cut, -1) AND x.model = r.model AND NOT x.lowered
            ORDER BY x.offset DESC LIMIT 1), NULL),
    v.updated_at,
    COALESCE(
        (SELECT wt.path || char(10) || wt.owner FROM worktree wt
            WHERE {_IS_BELOW.format(path="wt.path")} ORDER BY length(wt.path) DESC LIMIT 1),
        IIF(s.worktree <> s.worktree_owner AND {_IS_BELOW.format(path="s.worktree")},
            s.worktree || char(10) || s.worktree_owner, NULL)),
    w.kind, w.is_undone,
    IIF(answered > COALESCE(cut, -1), r.also_counted_tokens, 0)
FROM base f
LEFT JOIN session s USING (file_id)
LEFT JOIN boundary b ON b.file_id = f.file_id AND b.offset = f.cut
LEFT JOIN response r ON r.file_id = f.file_id AND r.offset = f.answered
LEFT JOIN api_error e ON e.file_id = f.file_id AND e.offset = f.refused
    AND refused > MAX(COALESCE(answered, -1), COALESCE(cut, -1))
LEFT JOIN live v ON v.session_id = f.session_id
LEFT JOIN own_fork w ON w.session_id = f.session_id
LEFT JOIN compaction_left t ON t.file_id = f.file_id AND t.offset = f.cut
LEFT JOIN status_snapshot n ON v.session_id IS NOT NULL AND (n.part_id, n.offset) = (
    SELECT x.part_id, x.offset FROM status_snapshot x WHERE x.session_id = f.session_id
    ORDER BY x.at DESC, x.part_id DESC, x.offset DESC LIMIT 1)
    AND n.at > MAX(COALESCE(r.at, 0), COALESCE(b.at, 0)) AND n.last_at >= COALESCE(v.started_at, 0)
LEFT JOIN measurement m ON v.session_id IS NOT NULL AND (m.part_id, m.offset) = (
    SELECT x.part_id, x.offset FROM measurement x
    WHERE x.session_id = f.session_id AND x.agent_id IS NULL AND x.context_tokens IS NOT NULL
    ORDER BY x.at DESC, x.part_id DESC, x.offset DESC LIMIT 1)
    AND m.at > MAX(COALESCE(r.at, 0), COALESCE(b.at, 0)) AND m.at >= COALESCE(v.started_at, 0)
LEFT JOIN context_report c ON c.file_id = f.file_id AND c.offset =
    (SELECT MAX(x.offset) FROM context_report x WHERE x.file_id = f.file_id)
"""

_WITHOUT_FILE: Final = """NOT EXISTS (
    SELECT 1 FROM file f WHERE f.kind = 'session' AND f.session_id = v.session_id)"""

# A session that is in two folders (/cd moved it) has its boundaries twice.
_COMPACTIONS: Final = f"""
SELECT f.session_id, f.agent_id, b.uuid, b.at, b.trigger, b.pre_tokens, b.post_tokens,
    b.dropped_tokens, b.duration_ms, b.kept_messages,
    (SELECT s.text FROM summary s WHERE s.file_id = b.file_id AND s.kind = 'boundary'
        AND s.offset > b.offset
        AND s.offset < COALESCE((SELECT MIN(n.offset) FROM boundary n
            WHERE n.file_id = b.file_id AND n.offset > b.offset), s.offset + 1)
        ORDER BY s.offset LIMIT 1),
    t.told, {NEXT_ANSWER_TOKENS}, l.tokens, {COUNTED_MESSAGES_ALONE}, b.is_precomputed
FROM boundary b JOIN file f USING (file_id)
LEFT JOIN compaction_told t ON t.file_id = b.file_id AND t.offset = b.offset
LEFT JOIN compaction_left l ON l.file_id = b.file_id AND l.offset = b.offset
WHERE {{where}} AND NOT EXISTS (
    SELECT 1 FROM boundary o JOIN file g USING (file_id)
    WHERE o.uuid = b.uuid AND o.file_id <> b.file_id
    AND g.session_id = f.session_id AND g.agent_id IS f.agent_id
    AND (g.gone, -g.mtime_ns, g.path) < (f.gone, -f.mtime_ns, f.path))
ORDER BY b.at DESC, f.path, b.offset DESC
"""
