"""ctxtop's own logs: hook events, status line snapshots and measurements."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from ..sql import fetch_records

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterable


class HookEventRow(msgspec.Struct, frozen=True):
    """What the client told a hook."""

    at: int
    pid: int | None
    client_pid: int | None
    event: str
    session_id: str | None
    agent_id: str | None
    agent_type: str | None
    source: str | None
    trigger: str | None
    tool_name: str | None
    tool_use_id: str | None
    context_tokens: int | None
    detail: str
    """JSON: `given` and `cut`."""


class StatusSnapshotRow(msgspec.Struct, frozen=True):
    """What the client told its status line; where it told the same again, until when."""

    at: int
    last_at: int
    session_id: str
    model: str
    window_tokens: int | None
    used_percentage: float | None
    input_tokens: int | None
    cache_creation_tokens: int | None
    cache_read_tokens: int | None
    output_tokens: int | None
    total_input_tokens: int | None
    total_output_tokens: int | None
    exceeds_200k: int | None
    cost_usd: float | None
    client_version: str | None
    output_style: str | None
    cache_warm: int | None
    cache_ttl: str | None
    cache_expires_at: int | None
    cache_hit_ratio: float | None
    cache_misses: int | None


class MeasurementRow(msgspec.Struct, frozen=True):
    """What the module inside the client pushed."""

    at: int
    kind: str
    session_id: str
    agent_id: str | None
    model: str | None
    asked_model: str | None
    context_tokens: int | None
    window_tokens: int | None
    percent: int | None
    cost_usd: float | None
    turn_id: str | None
    input_tokens: int | None
    cache_creation_tokens: int | None
    cache_read_tokens: int | None
    output_tokens: int | None
    duration_ms: int | None
    aborted: int | None
    detail: str


class MeasurementComparisonRow(msgspec.Struct, frozen=True):
    """A session's newest measurement beside the transcript's answer before it; tokens."""

    session_id: str
    at: int
    measured_tokens: int
    answer_tokens: int | None
    """None where the transcript has no answer since its last boundary."""


class LogPartRow(msgspec.Struct, frozen=True):
    """How far a part of a log was read."""

    log: str
    name: str
    offset: int
    size: int
    mtime_ns: int


def hook_events(db: sqlite3.Connection, session_id: str) -> list[HookEventRow]:
    """List what hooks were told of a session, oldest first."""
    return fetch_records(HookEventRow, db, _HOOK_EVENTS, [session_id])


def snapshots(db: sqlite3.Connection, session_id: str) -> list[StatusSnapshotRow]:
    """List what the status line was told of a session, oldest first."""
    return fetch_records(StatusSnapshotRow, db, _SNAPSHOTS, [session_id])


def measurements(db: sqlite3.Connection, session_id: str) -> list[MeasurementRow]:
    """List what the module inside the client pushed of a session, oldest first."""
    return fetch_records(MeasurementRow, db, _MEASUREMENTS, [session_id])


def measurement_comparisons(db: sqlite3.Connection) -> list[MeasurementComparisonRow]:
    """Put each session's newest measurement beside what its transcript says of that moment."""
    return fetch_records(MeasurementComparisonRow, db, _MEASUREMENT_COMPARISONS, [])


def log_parts(db: sqlite3.Connection) -> list[LogPartRow]:
    """List the files of the logs that were read, also those that are gone."""
    return fetch_records(LogPartRow, db, "SELECT log, name, offset, size, mtime_ns FROM log_part")


def event_counts(db: sqlite3.Connection) -> dict[str, int]:
    """Count the hooks' records by event, the most first."""
    rows = db.execute("SELECT event, COUNT(*) FROM hook_event GROUP BY event ORDER BY 2 DESC, 1")
    return {row[0]: row[1] for row in rows}


def last_event_times(db: sqlite3.Connection) -> dict[str, int]:
    """Return when each event's last record was written, in milliseconds since 1970."""
    rows = db.execute("SELECT event, MAX(at) FROM hook_event GROUP BY event")
    return {row[0]: row[1] for row in rows}


def last_shown_at(db: sqlite3.Connection) -> int | None:
    """Return when the status line was last shown (ms since 1970); None if it never was."""
    (at,) = db.execute("SELECT MAX(at) FROM status_snapshot").fetchone()
    return None if at is None else int(at)


def shown_sessions(
    db: sqlite3.Connection, since_ms: int, session_ids: Iterable[str] | None = None
) -> set[str]:
    """Name the sessions, or those of some, whose status line was shown since (ms since 1970)."""
    if session_ids is None:
        return {row[0] for row in db.execute(_SHOWN_SESSIONS, [since_ms])}
    return {each for each in session_ids if db.execute(_IS_SHOWN, [each, since_ms]).fetchone()}


def last_event_at(db: sqlite3.Connection) -> int | None:
    """Return when a hook last wrote a record (ms since 1970); None if none ever did."""
    (at,) = db.execute("SELECT MAX(at) FROM hook_event").fetchone()
    return None if at is None else int(at)


def bad_log_lines(db: sqlite3.Connection) -> list[tuple[str, int, int, str]]:
    """Lines that were set aside: file name, byte offset, length in bytes, reason."""
    rows = db.execute(
        "SELECT name, b.offset, length, reason FROM log_bad_line b JOIN log_part USING (part_id)"
        " ORDER BY name, part_id, b.offset"
    )
    return [(row[0], row[1], row[2], row[3]) for row in rows]


def _columns(kind: type[HookEventRow | StatusSnapshotRow | MeasurementRow]) -> str:
    return ", ".join(kind.__struct_fields__)


_HOOK_EVENTS: Final = (
    f"SELECT {_columns(HookEventRow)} FROM hook_event WHERE session_id = ? ORDER BY at,"
    " part_id, offset"
)
_SHOWN_SESSIONS: Final = "SELECT DISTINCT session_id FROM status_snapshot WHERE at >= ?"
_IS_SHOWN: Final = "SELECT 1 FROM status_snapshot WHERE session_id = ? AND at >= ? LIMIT 1"
_SNAPSHOTS: Final = (
    f"SELECT {_columns(StatusSnapshotRow)} FROM status_snapshot WHERE session_id = ?"
    " ORDER BY at, part_id, offset"
)
_MEASUREMENTS: Final = (
    f"SELECT {_columns(MeasurementRow)} FROM measurement WHERE session_id = ?"
    " ORDER BY at, part_id, offset"
)
# The client measures after it has written the answer, so of answers that came later the
# measurement knows nothing; a boundary that came later cleared what it tells of.
_MEASUREMENT_COMPARISONS: Final = """
SELECT m.session_id, m.at, m.context_tokens AS measured_tokens,
    (SELECT r.context_tokens FROM response r WHERE r.file_id = f.file_id
        AND r.sidechain = 0 AND r.at <= m.at
        AND r.offset > COALESCE((SELECT MAX(b.offset) FROM boundary b
            WHERE b.file_id = f.file_id AND b.at <= m.at), -1)
        ORDER BY r.offset DESC LIMIT 1) AS answer_tokens
FROM (SELECT session_id, MAX(at) AS at, context_tokens FROM measurement
    WHERE context_tokens IS NOT NULL AND agent_id IS NULL GROUP BY session_id) m
JOIN file f ON f.session_id = m.session_id AND f.kind = 'session' AND f.gone = 0
ORDER BY m.session_id
"""
