"""Recoveries and automatic runs: the states that are kept over restarts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from ..compaction.recovery.run import AT_WORK, Run
from .database import write
from .records import records

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable

KEPT_MS: Final = 30 * 24 * 3_600_000
"""After this nothing of a run is of use: its session was mended, or given up."""


_HELD: Final = ", ".join(f"'{state}'" for state in sorted(AT_WORK))

_FORGET_RUNS: Final = f"""
    DELETE FROM recovery_run
    WHERE json_extract(run, '$.state') NOT IN ({_HELD})
    AND (changed_at < ? OR session_id NOT IN (SELECT session_id FROM file WHERE NOT gone))
"""
"""A lock is its holder's until it is released, or found to be lost."""

_FORGET_AUTOMATIC: Final = """
    DELETE FROM automatic_run
    WHERE at < ? OR session_id NOT IN (SELECT session_id FROM file WHERE NOT gone)
"""


class AutomaticRun(msgspec.Struct, frozen=True):
    """A compaction that nobody asked for by hand; times are ms since 1970."""

    session_id: str
    at: int
    reason: str
    """Why it was begun."""
    outcome: str | None = None
    """How it ended; None while it runs, or where ctxtop was ended meanwhile."""
    ended_at: int | None = None


def read_run(db: sqlite3.Connection, session_id: str) -> Run | None:
    """Give a session's recovery; None where there is none, or none that this version reads."""
    row = db.execute("SELECT run FROM recovery_run WHERE session_id = ?", [session_id]).fetchone()
    if row is None:
        return None
    try:
        return msgspec.json.decode(row[0], type=Run)
    except (msgspec.DecodeError, ValueError):
        return None


def change_run(db: sqlite3.Connection, session_id: str, change: Callable[[Run | None], Run]) -> Run:
    """Read a session's recovery, and keep what `change` makes of it, in one transaction.

    What `change` raises leaves everything as it was. Two processes never change it at once.
    """
    with write(db):
        run = change(read_run(db, session_id))
        db.execute(
            "INSERT OR REPLACE INTO recovery_run VALUES (?, ?, ?)",
            (session_id, run.changed_at, msgspec.json.encode(run).decode()),
        )
    return run


def clean_runs(db: sqlite3.Connection, now_ms: int) -> None:
    """Forget the runs of sessions that are gone, and old ones (002-102, 002-103)."""
    with write(db):
        for forget in (_FORGET_RUNS, _FORGET_AUTOMATIC):
            db.execute(forget, [now_ms - KEPT_MS])


def automatic_runs(db: sqlite3.Connection, since_ms: int) -> list[AutomaticRun]:
    """List the automatic runs that began since then, oldest first."""
    return records(
        AutomaticRun,
        db,
        "SELECT session_id, at, reason, outcome, ended_at FROM automatic_run"
        " WHERE at >= ? ORDER BY at",
        [since_ms],
    )


def begin_automatic(db: sqlite3.Connection, run: AutomaticRun, last: int) -> bool:
    """Note a run before it begins, so that a failed one counts too (R002-06).

    False where another ctxtop has begun one after `last`, the newest that was looked at.
    """
    with write(db):
        row = db.execute(
            "SELECT 1 FROM automatic_run WHERE session_id = ? AND at > ?", [run.session_id, last]
        ).fetchone()
        if row is None:
            db.execute(
                "INSERT INTO automatic_run VALUES (?, ?, ?, ?, ?)", msgspec.structs.astuple(run)
            )
    return row is None


def end_automatic(db: sqlite3.Connection, run: AutomaticRun, outcome: str, now_ms: int) -> None:
    """Note how a run ended."""
    with write(db):
        db.execute(
            "UPDATE automatic_run SET outcome = ?, ended_at = ? WHERE session_id = ? AND at = ?",
            [outcome, now_ms, run.session_id, run.at],
        )
