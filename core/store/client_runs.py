"""How often the client may be run without a person asking for each run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from .database import write

if TYPE_CHECKING:
    import sqlite3

HOUR_MS: Final = 3_600_000

MAX_OF_SESSION: Final = 4
"""Runs an hour for one session. No policy lifts this: a run costs money, each may write a new
refusal, and a session that four runs did not help is not helped by a fifth."""

MAX_OF_ALL: Final = 20
"""Runs an hour for all sessions: a fork has an id of its own, and a chain of them no end."""


def claim_client_run(db: sqlite3.Connection, session_id: str, now_ms: int) -> str | None:
    """Note a run before it begins; return why there may be none, or None where there may.

    Processes that share a store share the limit, and a restart does not reset it. A clock that
    was set back does not, either: runs in the future count until they are past.
    """
    with write(db):
        db.execute("DELETE FROM client_run WHERE at <= ?", [now_ms - HOUR_MS])
        rows = db.execute(
            "SELECT count(*), sum(session_id = ?) FROM client_run", [session_id]
        ).fetchone()
        of_all, of_session = rows[0], rows[1] or 0
        if of_session >= MAX_OF_SESSION:
            return f"the client was run {of_session} times for this session within an hour"
        if of_all >= MAX_OF_ALL:
            return f"the client was run {of_all} times within an hour"
        db.execute("INSERT INTO client_run VALUES (?, ?)", [session_id, now_ms])
    return None
