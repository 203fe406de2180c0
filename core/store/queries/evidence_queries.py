"""What the whole store shows about windows and triggers, and how far off forecasts were."""

from sqlite3 import Connection
from typing import Final

import msgspec

from ...measure.forecast import DISTANCES, ForecastCalibration
from ...model.claude_models import SMALL_WINDOW
from ...model.evidence_rows import AutoCompactionRow, EvidenceRows, LargeModelRow, WindowRow
from . import config_queries
from .query_rows import fetch_records

MAX_COMPACTIONS: Final = 200
"""Newest automatic compactions that are used: months of a heavy user; what an older client did says
nothing about this one."""

IDLE_COMPACTION_MS: Final = (53 * 60_000, 60 * 60_000)
"""From the answer's first line to the compaction of a session that was idle: 54 minutes after the
answer's last line, a minute late at most (2.1.329). It is automatic by name, of any size, and says
nothing about the trigger."""


def read_evidence_rows(db: Connection) -> EvidenceRows:
    environments: dict[str, dict[str, str]] = {}
    variables = "SELECT session_id, name, value FROM client_environment"
    for session_id, name, value in db.execute(variables):
        environments.setdefault(session_id, {})[name] = value
    definitions = db.execute(
        "SELECT name, project, MIN(auto_compact_window) FROM definition"
        " WHERE kind = 'agent' AND gone = 0 AND auto_compact_window IS NOT NULL"
        " GROUP BY name, project"
    )
    sql = """SELECT DISTINCT u.model, s.model AS asked_model, s.client_version
        FROM model_use u LEFT JOIN session s USING (file_id) WHERE u.peak_tokens > ?
        ORDER BY 1, 2, 3"""
    parameters = [MAX_COMPACTIONS, *IDLE_COMPACTION_MS]
    compactions = fetch_records(AutoCompactionRow, db, _AUTO_COMPACTIONS, parameters)
    return EvidenceRows(
        reported_windows=tuple(client_windows(db)),
        large_models=tuple(fetch_records(LargeModelRow, db, sql, [SMALL_WINDOW])),
        auto_compactions=tuple(compactions),
        settings=tuple(config_queries.settings_files(db)),
        environments=environments,
        agent_windows={(name, project): window for name, project, window in definitions},
    )


def client_windows(db: Connection) -> list[WindowRow]:
    """List the windows that the client reported, by session and model the newest."""
    sql = """SELECT w.session_id, w.model, s.model, s.client_version, w.window_tokens, w.measured
        FROM window_seen w
        LEFT JOIN file f ON f.session_id = w.session_id AND f.kind = 'session' AND f.gone = 0
        LEFT JOIN session s USING (file_id)
        ORDER BY w.at"""
    return fetch_records(WindowRow, db, sql)


_AUTO_COMPACTIONS: Final = """
SELECT f.session_id, f.agent_id, r.model, s.model AS asked_model, s.client_version,
    (SELECT e.context_tokens + e.also_counted_tokens FROM response e WHERE e.file_id = b.file_id
        AND e.offset < r.offset AND (e.sidechain = 0 OR f.kind = 'agent')
        AND e.offset > COALESCE((SELECT MAX(p.offset) FROM boundary p
            WHERE p.file_id = b.file_id AND p.offset < b.offset), -1)
        ORDER BY e.offset DESC LIMIT 1) AS earlier_tokens,
    b.pre_tokens + r.also_counted_tokens,
    EXISTS (SELECT 1 FROM request q WHERE q.file_id = b.file_id
        AND q.offset > r.last_offset AND q.offset < b.offset
        AND q.query_source IS (SELECT a.query_source FROM request a
            WHERE a.file_id = r.file_id AND a.request = r.request)),
    EXISTS (SELECT 1 FROM request q WHERE q.file_id = b.file_id AND q.offset < r.offset),
    b.is_precomputed
FROM (SELECT file_id, MIN(offset) AS offset, pre_tokens, is_precomputed,
        at - COALESCE(duration_ms, 0) AS began_at FROM boundary
    WHERE "trigger" = 'auto' AND pre_tokens IS NOT NULL
        AND substr(uuid, 15, 1) <> '5' -- Version 5: ctxtop's own boundary, at its own threshold.
    GROUP BY file_id, uuid
    ORDER BY at DESC LIMIT ?) b
JOIN file f USING (file_id) LEFT JOIN session s USING (file_id)
JOIN response r ON r.file_id = b.file_id AND r.offset = (
    SELECT MAX(x.offset) FROM response x WHERE x.file_id = b.file_id
        AND x.offset < b.offset AND (x.sidechain = 0 OR f.kind = 'agent')
        AND x.offset > COALESCE((SELECT MAX(p.offset) FROM boundary p
            WHERE p.file_id = b.file_id AND p.offset < b.offset), -1))
WHERE COALESCE(b.began_at - r.at NOT BETWEEN ? AND ?, 1)
ORDER BY f.session_id, b.offset
"""


def read_forecast_calibration(db: Connection) -> ForecastCalibration | None:
    """Read the newest calibration; None if there is none, or one of another version."""
    row = db.execute("SELECT errors FROM forecast_calibration").fetchone()
    try:
        calibration = msgspec.json.decode(row[0], type=ForecastCalibration) if row else None
    except msgspec.DecodeError:
        return None
    return calibration if calibration and len(calibration.errors) == len(DISTANCES) else None


def calibrated_answers(db: Connection) -> int | None:
    """Return how many answers the newest calibration was measured on; None if there is none."""
    row = db.execute("SELECT answers FROM forecast_calibration").fetchone()
    return None if row is None else int(row[0])


def save_forecast_calibration(
    db: Connection, calibration: ForecastCalibration, answers: int
) -> None:
    db.execute(
        "INSERT OR REPLACE INTO forecast_calibration VALUES (1, ?, ?)",
        [answers, msgspec.json.encode(calibration).decode()],
    )
