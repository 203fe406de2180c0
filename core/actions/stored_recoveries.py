"""Recoveries, kept across restarts."""

from collections.abc import Callable
from functools import partial
from sqlite3 import Connection
from typing import Final

import msgspec

from ..compaction.recovery.recovery_run import LOCKED_STATES, RecoveryRun, release_dead_holder
from ..store.database import write_transaction


def read_recovery(db: Connection, session_id: str) -> RecoveryRun | None:
    """Return a session's recovery; None if there is none, or if this version cannot read it."""
    row = db.execute("SELECT run FROM recovery_run WHERE session_id = ?", [session_id]).fetchone()
    return _decode_run(row[0]) if row else None


def read_recoveries(db: Connection) -> list[RecoveryRun]:
    """List all recoveries that are stored, the one that changed last first."""
    rows = db.execute("SELECT run FROM recovery_run ORDER BY changed_at DESC")
    return [run for row in rows if (run := _decode_run(row[0]))]


def _decode_run(run: str) -> RecoveryRun | None:
    try:
        return msgspec.json.decode(run, type=RecoveryRun)
    except (msgspec.DecodeError, ValueError):
        return None


def update_recovery(
    db: Connection, session_id: str, change: Callable[[RecoveryRun | None], RecoveryRun]
) -> RecoveryRun:
    """Replace a session's recovery by what `change` makes of it, in one transaction.

    If `change` raises, nothing is changed. Two processes never change it at once.
    """
    with write_transaction(db):
        run = change(read_recovery(db, session_id))
        db.execute(
            "INSERT OR REPLACE INTO recovery_run VALUES (?, ?, ?)",
            (session_id, run.changed_at, msgspec.json.encode(run).decode()),
        )
    return run


RUN_RETENTION_MS: Final = 30 * 24 * 3_600_000  # by then its session was recovered, or given up
AUTOMATIC_RUN_TIMEOUT_MS: Final = 1_800_000  # a run takes minutes: after this it will not end


def clean_up_runs(db: Connection, now_ms: int) -> None:
    """Delete the runs of sessions that are gone, and old ones (002-102, 002-103).

    Locks of processes that have ended are released, and their automatic runs are ended.
    """
    for run in read_recoveries(db):
        if release_dead_holder(run, now_ms) != run:
            update_recovery(db, run.found.session_id, partial(_release_lock, run, now_ms))
    with write_transaction(db):
        db.execute(
            "UPDATE automatic_run SET outcome = 'interrupted', ended_at = ?"
            " WHERE outcome IS NULL AND at < ?",
            [now_ms, now_ms - AUTOMATIC_RUN_TIMEOUT_MS],
        )
        db.execute(_DELETE_OLD_RECOVERIES, [now_ms - RUN_RETENTION_MS])
        db.execute(
            f"DELETE FROM automatic_run WHERE at < ? OR {_OF_GONE_SESSION}",
            [now_ms - RUN_RETENTION_MS],
        )
        db.execute("DELETE FROM pause_run WHERE at < ?", [now_ms - RUN_RETENTION_MS])


def _release_lock(seen: RecoveryRun, now_ms: int, stored: RecoveryRun | None) -> RecoveryRun:
    return release_dead_holder(stored or seen, now_ms)


_OF_GONE_SESSION: Final = "session_id NOT IN (SELECT session_id FROM file WHERE NOT gone)"

# A lock belongs to its holder until it is released, or the holder is found to be dead.
_DELETE_OLD_RECOVERIES: Final = f"""
DELETE FROM recovery_run
WHERE json_extract(run, '$.state') NOT IN ({", ".join(f"'{each}'" for each in LOCKED_STATES)})
    AND (changed_at < ? OR {_OF_GONE_SESSION})
"""
