"""Recoveries and automatic runs: the states that are kept over restarts."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

import msgspec

from ..compaction.recovery.attempt import freed
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


_BREAK_OFF: Final = """
    UPDATE automatic_run SET outcome = 'broken off', ended_at = ? WHERE outcome IS NULL AND at < ?
"""

LOST_MS: Final = 1_800_000
"""An automatic run that has not ended after this long will not: it takes minutes."""


class AutomaticRun(msgspec.Struct, frozen=True):
    """What was done to a session that nobody asked for by hand; times are ms since 1970."""

    session_id: str
    at: int
    reason: str
    """Why it was begun."""
    outcome: str | None = None
    """How it ended; None while it runs, or where ctxtop was ended meanwhile."""
    ended_at: int | None = None
    left_tokens: int | None = None
    """What it left of the context; None where it failed, and where it was about no context."""
    receipt: str | None = None
    """Of what was written; None where nothing was."""


_RUN_COLUMNS: Final = ", ".join(AutomaticRun.__struct_fields__)


def read_run(db: sqlite3.Connection, session_id: str) -> Run | None:
    """Give a session's recovery; None where there is none, or none that this version reads."""
    row = db.execute("SELECT run FROM recovery_run WHERE session_id = ?", [session_id]).fetchone()
    return _decoded(row[0]) if row else None


def _freed(seen: Run, now_ms: int, kept: Run | None) -> Run:
    return freed(kept or seen, now_ms)


def _decoded(run: str) -> Run | None:
    try:
        return msgspec.json.decode(run, type=Run)
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
    """Forget the runs of sessions that are gone, and old ones (002-102, 002-103).

    Locks of processes that have ended are released, and automatic runs of theirs are over.
    """
    for run in all_runs(db):
        if freed(run, now_ms) != run:
            change_run(db, run.found.session_id, partial(_freed, run, now_ms))
    with write(db):
        db.execute(_BREAK_OFF, [now_ms, now_ms - LOST_MS])
        for forget in (_FORGET_RUNS, _FORGET_AUTOMATIC):
            db.execute(forget, [now_ms - KEPT_MS])


def automatic_runs(db: sqlite3.Connection, since_ms: int) -> list[AutomaticRun]:
    """List the automatic runs that began since then, oldest first."""
    return records(
        AutomaticRun,
        db,
        f"SELECT {_RUN_COLUMNS} FROM automatic_run WHERE at >= ? ORDER BY at",
        [since_ms],
    )


def automatic_mark(db: sqlite3.Connection) -> tuple[int, int | None, int | None]:
    """Give what changes with every automatic run: how many, and when one began and ended last."""
    row = db.execute("SELECT count(*), max(at), max(ended_at) FROM automatic_run").fetchone()
    return row[0], row[1], row[2]


def begin_automatic(db: sqlite3.Connection, run: AutomaticRun, last_seen_ms: int) -> bool:
    """Note a run before it begins, so that a failed one counts too (R002-06).

    False where another ctxtop has begun one after `last`, the newest that was looked at.
    """
    with write(db):
        row = db.execute(
            "SELECT 1 FROM automatic_run WHERE session_id = ? AND at > ?",
            [run.session_id, last_seen_ms],
        ).fetchone()
        if row is None:
            db.execute(
                f"INSERT INTO automatic_run ({_RUN_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?)",
                msgspec.structs.astuple(run),
            )
    return row is None


def end_automatic(db: sqlite3.Connection, run: AutomaticRun) -> None:
    """Note how a run ended, what it left, and its receipt."""
    with write(db):
        db.execute(
            "UPDATE automatic_run SET outcome = ?, ended_at = ?, left_tokens = ?, receipt = ?"
            " WHERE session_id = ? AND at = ?",
            [run.outcome, run.ended_at, run.left_tokens, run.receipt, run.session_id, run.at],
        )


def answered_since(
    db: sqlite3.Connection, session_id: str, since_ms: int
) -> tuple[int | None, int | None]:
    """Give the least and the newest context of a session's answers since then, in tokens.

    None where there was no answer.
    """
    found = [row[0] for row in db.execute(_ANSWERED, [session_id, since_ms])]
    return (min(found), found[-1]) if found else (None, None)


_ANSWERED: Final = """
SELECT r.context_tokens FROM response r JOIN file f USING (file_id)
WHERE f.session_id = ? AND f.kind = 'session' AND NOT r.sidechain AND r.at > ?
ORDER BY r.offset
"""


def all_runs(db: sqlite3.Connection) -> list[Run]:
    """List all recoveries that are remembered, what was changed last first."""
    rows = db.execute("SELECT run FROM recovery_run ORDER BY changed_at DESC")
    return [run for row in rows if (run := _decoded(row[0]))]
