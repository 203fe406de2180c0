"""ctxtop's own logs, and the newest events of all sessions for the log page."""

from sqlite3 import Connection

import msgspec

from ...model.evidence_rows import MeasurementComparisonRow
from ...model.stored_rows import CompactionRow
from .context_queries import COUNTED_MESSAGES_ALONE, NEXT_ANSWER_TOKENS
from .query_rows import SessionIds, columns, fetch_records


class LogPartRow(msgspec.Struct, frozen=True):
    log: str
    name: str
    offset: int
    size: int
    mtime_ns: int


def measurement_comparisons(db: Connection) -> list[MeasurementComparisonRow]:
    """Pair each session's newest measurement with the transcript's answer at that time."""
    # The client measures after it has written the answer, so a measurement does not include later
    # answers, and a later boundary cleared what it measured.
    sql = """SELECT m.session_id, m.at, m.context_tokens AS measured_tokens,
            (SELECT r.context_tokens FROM response r WHERE r.file_id = f.file_id
                AND r.sidechain = 0 AND r.at <= m.at
                AND r.offset > COALESCE((SELECT MAX(b.offset) FROM boundary b
                    WHERE b.file_id = f.file_id AND b.at <= m.at), -1)
                ORDER BY r.offset DESC LIMIT 1) AS answer_tokens
        FROM (SELECT session_id, MAX(at) AS at, context_tokens FROM measurement
            WHERE context_tokens IS NOT NULL AND agent_id IS NULL GROUP BY session_id) m
        JOIN file f ON f.session_id = m.session_id AND f.kind = 'session' AND f.gone = 0
        ORDER BY m.session_id"""
    return fetch_records(MeasurementComparisonRow, db, sql, [])


def log_parts(db: Connection) -> list[LogPartRow]:
    return fetch_records(LogPartRow, db, "SELECT log, name, offset, size, mtime_ns FROM log_part")


def event_counts(db: Connection) -> dict[str, int]:
    rows = db.execute("SELECT event, COUNT(*) FROM hook_event GROUP BY event ORDER BY 2 DESC, 1")
    return {row[0]: row[1] for row in rows}


def last_event_times(db: Connection) -> dict[str, int]:
    """Return the newest time (ms since 1970) of each event."""
    rows = db.execute("SELECT event, MAX(at) FROM hook_event GROUP BY event")
    return {row[0]: row[1] for row in rows}


def last_shown_at(db: Connection) -> int | None:
    """Return when the status line was last shown (ms since 1970); None if never."""
    (at,) = db.execute("SELECT MAX(at) FROM status_snapshot").fetchone()
    return None if at is None else int(at)


def shown_sessions(db: Connection, since_ms: int, session_ids: SessionIds = None) -> set[str]:
    """Return the sessions, all or of these, whose status line was shown since then."""
    if session_ids is None:
        sql = "SELECT DISTINCT session_id FROM status_snapshot WHERE at >= ?"
        return {row[0] for row in db.execute(sql, [since_ms])}
    sql = "SELECT 1 FROM status_snapshot WHERE session_id = ? AND at >= ? LIMIT 1"
    return {each for each in session_ids if db.execute(sql, [each, since_ms]).fetchone()}


def bad_log_lines(db: Connection) -> list[tuple[str, int, int, str]]:
    """List the bad lines that are kept: file name, byte offset, length in bytes, reason."""
    rows = db.execute(
        "SELECT name, b.offset, length, reason FROM log_bad_line b JOIN log_part USING (part_id)"
        " ORDER BY name, part_id, b.offset"
    )
    return [(row[0], row[1], row[2], row[3]) for row in rows]


class BadLineRow(msgspec.Struct, frozen=True):
    log: str | None  # which of ctxtop's own logs; None for a transcript
    session_id: str | None
    path: str  # below the projects folder, or the name of the log's file
    offset: int
    length: int
    reason: str
    file_at: int  # when its file was last written, in ms since 1970: the line is no newer


class UnknownTypeRow(msgspec.Struct, frozen=True):
    """A type of lines, or an event of hooks, that this version does not know."""

    type: str
    lines: int
    last_at: int  # when it was last seen at the latest, in ms since 1970


def newest_boundaries(db: Connection, limit: int) -> list[CompactionRow]:
    """List the newest compactions without their summaries, newest first.

    One that a fork has copied belongs to the session that wrote it.
    """
    found: dict[str, CompactionRow] = {}
    sql = f"""SELECT f.session_id, f.agent_id, b.uuid, b.at, trigger, pre_tokens, post_tokens,
            dropped_tokens, duration_ms, kept_messages, NULL, NULL, {NEXT_ANSWER_TOKENS}, l.tokens,
            {COUNTED_MESSAGES_ALONE}, b.is_precomputed
        FROM boundary b JOIN file f USING (file_id) LEFT JOIN session s USING (file_id)
        LEFT JOIN compaction_left l ON l.file_id = b.file_id AND l.offset = b.offset
        ORDER BY b.at DESC, s.forked_from IS NOT NULL, f.path LIMIT ?"""
    for row in fetch_records(CompactionRow, db, sql, [limit]):
        # What has no uuid is named after its place, which other files have too.
        key = f"{row.session_id} {row.uuid}" if row.uuid.startswith("at ") else row.uuid
        found.setdefault(key, row)
    return list(found.values())


def newest_bad_lines(db: Connection, limit: int) -> list[BadLineRow]:
    """List bad lines, those of the files that were written last first."""
    sql = """SELECT NULL, session_id, path, b.offset, length, reason, mtime_ns / 1000000 AS file_at
        FROM bad_line b JOIN file USING (file_id)
        UNION ALL
        SELECT log, NULL, name, b.offset, length, reason, mtime_ns / 1000000
        FROM log_bad_line b JOIN log_part USING (part_id)
        ORDER BY file_at DESC, path, 4 LIMIT ?"""
    return fetch_records(BadLineRow, db, sql, [limit])


def unknown_type_rows(db: Connection) -> list[UnknownTypeRow]:
    """Count the lines and events of unknown types, the most first."""
    sql = """SELECT type, SUM(c.lines) AS lines, MAX(mtime_ns) / 1000000 AS last_at
        FROM line_count c JOIN file USING (file_id) WHERE known = 0 GROUP BY type
        UNION ALL
        SELECT 'hook ' || event, COUNT(*), MAX(at) FROM hook_event WHERE known = 0 GROUP BY event
        ORDER BY 2 DESC, 1"""
    return fetch_records(UnknownTypeRow, db, sql, [])


class ApiErrorRow(msgspec.Struct, frozen=True):
    session_id: str
    agent_id: str | None
    path: str
    offset: int
    at: int | None
    kind: str
    detail: str
    prompt_tokens: int | None
    limit_tokens: int | None


def newest_api_errors(db: Connection, limit: int) -> list[ApiErrorRow]:
    """List the newest refusals, newest first; copies in forks are left out."""
    sql = f"""SELECT {columns(ApiErrorRow)} FROM (
            SELECT f.session_id, f.agent_id, f.path, e.*, ROW_NUMBER() OVER (
                PARTITION BY COALESCE(e.at, e.file_id || ' ' || e.offset), e.kind, e.detail
                ORDER BY s.forked_from IS NOT NULL, s.opened_at, f.path) AS place
            FROM api_error e JOIN file f USING (file_id) LEFT JOIN session s USING (file_id)
        ) WHERE place = 1 ORDER BY at DESC, path, offset DESC LIMIT ?"""
    return fetch_records(ApiErrorRow, db, sql, [limit])
