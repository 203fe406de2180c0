"""Automatic runs and pauses, kept across restarts, and how often the client may be run."""

from sqlite3 import Connection
from typing import Final

import msgspec

from ..model.counting_rule import DEFAULT_COUNTING, CountingRule
from .database import write_transaction
from .inserts import insert_records
from .queries.query_rows import columns, fetch_records, tokens_column

HOUR_MS: Final = 3_600_000

MAX_RUNS_PER_SESSION: Final = 4
"""Runs an hour for one session. No policy lifts this: a run costs money, each may write a new
refusal, and a session that four runs did not help is not helped by a fifth."""

MAX_RUNS: Final = 20
"""Runs an hour for all sessions: a fork has an id of its own, and forks can be chained forever."""


def claim_client_run(db: Connection, session_id: str, now_ms: int) -> str | None:
    """Record a run before it begins; return why it is not allowed, or None if it is.

    Processes that share a store share the limit, and a restart does not reset it. A clock that
    was set back does not, either: runs in the future count until they are past.
    """
    with write_transaction(db):
        db.execute("DELETE FROM client_run WHERE at <= ?", [now_ms - HOUR_MS])
        of_all, of_session = db.execute(
            "SELECT count(*), coalesce(sum(session_id = ?), 0) FROM client_run", [session_id]
        ).fetchone()
        if of_session >= MAX_RUNS_PER_SESSION:
            return f"Claude Code was started {of_session} times for this session within an hour"
        if of_all >= MAX_RUNS:
            return f"Claude Code was started {of_all} times within an hour"
        db.execute("INSERT INTO client_run VALUES (?, ?)", [session_id, now_ms])
    return None


class AutomaticRunRecord(msgspec.Struct, frozen=True):
    """Something that was done to a session without a person asking; times are ms since 1970."""

    session_id: str
    at: int
    reason: str  # why it was begun
    outcome: str | None = None  # how it ended; None while it runs, or if ctxtop ended meanwhile
    ended_at: int | None = None
    left_tokens: int | None = None
    """Size of the context afterwards; None if it failed or was not about a context."""
    receipt: str | None = None  # of what was written; None if nothing was

    @property
    def failed_check(self) -> str | None:
        """The check that it failed at, with which its outcome begins; None if it did not fail."""
        is_done = self.receipt is not None or self.left_tokens is not None
        return None if is_done or self.outcome is None else self.outcome.partition(":")[0]


def read_automatic_runs(db: Connection, since_ms: int) -> list[AutomaticRunRecord]:
    """List the automatic runs that began since then, oldest first."""
    sql = f"SELECT {columns(AutomaticRunRecord)} FROM automatic_run WHERE at >= ? ORDER BY at"
    return fetch_records(AutomaticRunRecord, db, sql, [since_ms])


def automatic_runs_fingerprint(db: Connection) -> tuple[int, int | None, int | None]:
    """Return a value that changes with every automatic run."""
    row = db.execute("SELECT count(*), max(at), max(ended_at) FROM automatic_run").fetchone()
    return row[0], row[1], row[2]


def begin_automatic_run(db: Connection, run: AutomaticRunRecord, last_seen_ms: int) -> bool:
    """Record a run before it begins, so that a failed one counts too (R002-06).

    False if another ctxtop has begun one since `last_seen_ms`, the newest that was seen.
    """
    with write_transaction(db):
        newer = db.execute(
            "SELECT 1 FROM automatic_run WHERE session_id = ? AND at > ?",
            [run.session_id, last_seen_ms],
        ).fetchone()
        if newer is None:
            insert_records(db, "automatic_run", [run], "")
    return newer is None


def end_automatic_run(db: Connection, run: AutomaticRunRecord) -> None:
    with write_transaction(db):
        db.execute(
            "UPDATE automatic_run SET outcome = ?, ended_at = ?, left_tokens = ?, receipt = ?"
            " WHERE session_id = ? AND at = ?",
            [run.outcome, run.ended_at, run.left_tokens, run.receipt, run.session_id, run.at],
        )


PAUSE_TIMEOUT_MS: Final = 600_000
"""A pause that has not ended by then never will: the client is given five minutes."""


class PauseRecord(msgspec.Struct, frozen=True):
    """What a pause did to a session, as its newest answer left it; times are ms since 1970."""

    session_id: str
    answered_at: int
    at: int
    way: str
    outcome: str | None = None  # how it ended; None while it runs, or if ctxtop ended meanwhile
    ended_at: int | None = None
    left_tokens: int | None = None
    receipt: str | None = None  # of what was written; None if nothing was


def read_pauses(db: Connection) -> list[PauseRecord]:
    """List all pauses, oldest first."""
    sql = f"SELECT {columns(PauseRecord)} FROM pause_run ORDER BY at"
    return fetch_records(PauseRecord, db, sql, [])


def pauses_fingerprint(db: Connection) -> tuple[int, int | None, int | None]:
    """Return a value that changes with every pause."""
    row = db.execute("SELECT count(*), max(at), max(ended_at) FROM pause_run").fetchone()
    return row[0], row[1], row[2]


def claim_pause(db: Connection, pause: PauseRecord) -> bool:
    """Record a pause before it begins; False if one of the same answer has ended or still runs.

    So no two processes pause a session at once, and none pauses it twice.
    """
    with write_transaction(db):
        db.execute(
            "DELETE FROM pause_run WHERE session_id = ? AND outcome IS NULL AND at <= ?",
            [pause.session_id, pause.at - PAUSE_TIMEOUT_MS],
        )
        taken = db.execute(
            "SELECT 1 FROM pause_run WHERE session_id = ? AND answered_at = ?",
            [pause.session_id, pause.answered_at],
        ).fetchone()
        if taken is None:
            insert_records(db, "pause_run", [pause], "")
    return taken is None


def end_pause(db: Connection, pause: PauseRecord) -> None:
    """Record how a pause ended, unless it took so long that another one began."""
    with write_transaction(db):
        db.execute(
            "UPDATE pause_run SET outcome = ?, ended_at = ?, left_tokens = ?, receipt = ?"
            " WHERE session_id = ? AND answered_at = ? AND at = ?",
            [
                *(pause.outcome, pause.ended_at, pause.left_tokens, pause.receipt),
                *(pause.session_id, pause.answered_at, pause.at),
            ],
        )


def release_pause(db: Connection, pause: PauseRecord) -> None:
    """Forget a pause that did nothing: the session may be paused later."""
    with write_transaction(db):
        db.execute(
            "DELETE FROM pause_run WHERE session_id = ? AND answered_at = ? AND at = ?",
            [pause.session_id, pause.answered_at, pause.at],
        )


class ReadTranscript(msgspec.Struct, frozen=True):
    """How far the transcript of an open session was read."""

    path: str  # below the projects folder
    bytes: int
    answered_at: int | None  # its newest answer, in ms since 1970


def open_transcripts(db: Connection) -> list[ReadTranscript]:
    sql = """SELECT f.path, f.size, (SELECT MAX(r.at) FROM response r
            WHERE r.file_id = f.file_id AND NOT r.sidechain)
        FROM live v CROSS JOIN file f ON f.session_id = v.session_id
        WHERE f.kind = 'session' AND NOT f.gone"""
    return fetch_records(ReadTranscript, db, sql)


def context_before(
    db: Connection, session_id: str, at_ms: int, counting: CountingRule = DEFAULT_COUNTING
) -> int | None:
    """Return the context of a session's newest answer until then, in tokens; None if unknown."""
    row = db.execute(
        f"SELECT {tokens_column(counting)} FROM response r JOIN file f USING (file_id)"
        " WHERE f.session_id = ? AND f.kind = 'session' AND NOT r.sidechain AND r.at <= ?"
        " ORDER BY r.offset DESC LIMIT 1",
        [session_id, at_ms],
    ).fetchone()
    return row[0] if row else None


def context_range_since(
    db: Connection, session_id: str, since_ms: int, counting: CountingRule = DEFAULT_COUNTING
) -> tuple[int | None, int | None]:
    """Return the smallest and the newest context of a session's answers since then, in tokens.

    Both are None if there was no answer.
    """
    rows = db.execute(
        f"SELECT {tokens_column(counting)} FROM response r JOIN file f USING (file_id)"
        " WHERE f.session_id = ? AND f.kind = 'session' AND NOT r.sidechain AND r.at > ?"
        " ORDER BY r.offset",
        [session_id, since_ms],
    )
    contexts = [row[0] for row in rows]
    return (min(contexts), contexts[-1]) if contexts else (None, None)
