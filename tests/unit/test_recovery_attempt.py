"""An attempt's lock, and what is kept of it: over restarts, between processes, no longer."""

from __future__ import annotations

import os
from contextlib import closing
from functools import partial
from typing import TYPE_CHECKING

import msgspec
import pytest
from ctxtop.core.actions.stored_recoveries import AUTOMATIC_RUN_TIMEOUT_MS as RUN_LOST_MS
from ctxtop.core.actions.stored_recoveries import (
    RUN_RETENTION_MS,
    clean_up_runs,
    read_recovery,
    update_recovery,
)
from ctxtop.core.compaction.recovery.limit_errors import LimitErrorType, SessionRefusal
from ctxtop.core.compaction.recovery.recovery_run import (
    LOCK_LOST_MS,
    AttemptRefusedError,
    LockHolder,
    RecoveryAttempt,
    RecoverySettings,
    RecoveryState,
    RecoveryStep,
    begin_attempt,
    mark_pending,
    record_refusal,
    take_run_lock,
)
from ctxtop.core.host import process_start_time
from ctxtop.core.store.automation_records import (
    AutomaticRunRecord,
    begin_automatic_run,
    end_automatic_run,
    read_automatic_runs,
)
from ctxtop.core.store.writer import Writer

from .. import transcripts as made

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager
    from pathlib import Path

    from ctxtop.core.compaction.recovery.recovery_run import RecoveryRun, RunStore

NOW = 1_795_000_000_000
SETTINGS = RecoverySettings()
FOUND = SessionRefusal(made.SESSION, "line-9", LimitErrorType.TOKEN_LIMIT, 210_000, 200_000)


@pytest.fixture
def db(tmp_path: Path) -> Iterator[sqlite3.Connection]:
    with closing(Writer(tmp_path / "ctxtop.db")) as writer:
        yield writer.connection


@pytest.fixture
def keep(db: sqlite3.Connection) -> RunStore:
    def changed(
        session_id: str, change: Callable[[RecoveryRun | None], RecoveryRun]
    ) -> RecoveryRun:
        return update_recovery(db, session_id, change)

    return changed


def tried(keep: RunStore, at: int = NOW) -> AbstractContextManager[RecoveryAttempt]:
    return begin_attempt(keep, FOUND, SETTINGS.step_order, SETTINGS, lambda: at)


def state(db: sqlite3.Connection) -> RecoveryState:
    run = read_recovery(db, made.SESSION)
    assert run
    return run.state


def test_a_step_that_succeeds(keep: RunStore, db: sqlite3.Connection) -> None:
    with tried(keep) as trying:
        assert trying.next_step() is RecoveryStep.FIX_EMPTY
        assert trying.next_step() is RecoveryStep.TRUNCATE
        trying.succeed(truncated=3, receipt="r1")
    run = read_recovery(db, made.SESSION)
    assert run
    assert (run.state, run.receipt, run.counters.truncated) == (RecoveryState.SUCCEEDED, "r1", 3)
    assert run.holder is None


def test_the_lock_is_released_whatever_happens(keep: RunStore, db: sqlite3.Connection) -> None:
    """R002-11."""

    def fail() -> None:
        with tried(keep) as trying:
            trying.next_step()
            raise OSError("full")

    with pytest.raises(OSError, match="full"):
        fail()
    run = read_recovery(db, made.SESSION)
    assert run
    assert (run.state, run.holder) == (RecoveryState.CANCELLED, None)


def test_an_attempt_without_a_step_that_suffices(keep: RunStore, db: sqlite3.Connection) -> None:
    with tried(keep) as trying:
        steps = list(iter(trying.next_step, None))
    assert tuple(steps) == SETTINGS.step_order
    assert state(db) is RecoveryState.EXHAUSTED


def test_a_second_caller_is_sent_away(keep: RunStore, db: sqlite3.Connection) -> None:
    """002-100, R002-11."""
    with (
        tried(keep),
        pytest.raises(AttemptRefusedError, match="recovery already running"),
        tried(keep, NOW + 90_000),
    ):
        pytest.fail("two at once")
    assert state(db) is RecoveryState.CANCELLED


def test_a_failed_attempt_cools_down_after_a_restart(tmp_path: Path) -> None:
    """R002-06, and 002-99's state in a file instead of in memory."""
    path = tmp_path / "ctxtop.db"
    with closing(Writer(path)) as writer:
        connection = writer.connection
        with tried(lambda who, change: update_recovery(connection, who, change)):
            pass
    with closing(Writer(path)) as writer:
        again = writer.connection
        early = tried(lambda who, change: update_recovery(again, who, change), NOW + 1)
        with pytest.raises(AttemptRefusedError, match="try again in 60 s"), early:
            pytest.fail("too early")
        with tried(lambda who, change: update_recovery(again, who, change), NOW + 60_000) as trying:
            assert trying.run.counters.attempts == 2


def held(holder: LockHolder, at: int = NOW) -> Callable[[RecoveryRun | None], RecoveryRun]:
    waiting = mark_pending(record_refusal(None, FOUND, SETTINGS.step_order, at, SETTINGS), at)
    return lambda _: take_run_lock(waiting, holder, at, SETTINGS)


@pytest.mark.parametrize(
    ("holder", "after_ms"),
    [
        (LockHolder(os.getpid(), 12.0, "another's number"), 60_000),
        (LockHolder(2**22 + 1, 1.0, "no process"), 60_000),
        (
            LockHolder(os.getpid(), process_start_time(os.getpid()) or 0.0, "never released"),
            LOCK_LOST_MS,
        ),
    ],
)
def test_a_stale_lock_is_taken_over(keep: RunStore, holder: LockHolder, after_ms: int) -> None:
    keep(made.SESSION, held(holder))
    with tried(keep, NOW + after_ms) as trying:
        assert trying.run.state is RecoveryState.LOCKED


def test_whoever_lost_the_lock_changes_nothing(keep: RunStore, db: sqlite3.Connection) -> None:
    other = LockHolder(os.getpid(), process_start_time(os.getpid()) or 0.0, "other")
    with tried(keep) as trying:
        keep(made.SESSION, held(other))
        with pytest.raises(AttemptRefusedError, match="taken over"):
            trying.next_step()
    run = read_recovery(db, made.SESSION)
    assert run
    assert run.holder == other


def test_a_run_that_cannot_be_read_is_none(db: sqlite3.Connection) -> None:
    db.execute("INSERT INTO recovery_run VALUES (?, 1, 'no JSON')", [made.SESSION])
    assert read_recovery(db, made.SESSION) is None


def file_row(db: sqlite3.Connection, session_id: str, *, gone: bool) -> None:
    columns = {row[1]: row[2] for row in db.execute("PRAGMA table_info(file)")}
    values: dict[str, object] = {
        name: "" if kind == "TEXT" else 0 for name, kind in columns.items() if name != "file_id"
    }
    values |= {"session_id": session_id, "path": session_id, "gone": int(gone)}
    names = ", ".join(values)
    db.execute(
        f"INSERT INTO file ({names}) VALUES ({', '.join('?' * len(values))})",
        list(values.values()),
    )


def kept(run: RecoveryRun, _: RecoveryRun | None) -> RecoveryRun:
    return run


def test_what_is_cleaned_up(keep: RunStore, db: sqlite3.Connection) -> None:
    """002-102 and 002-103: a session that is gone leaves nothing."""
    mine = LockHolder(os.getpid(), process_start_time(os.getpid()) or 0.0, "m")
    for who, gone in (("here", False), ("gone", True), ("old", False), ("at work", True)):
        file_row(db, who, gone=gone)
        at = NOW - (RUN_RETENTION_MS + 1 if who == "old" else 0)
        found = msgspec.structs.replace(FOUND, session_id=who)
        run = mark_pending(record_refusal(None, found, (), at, SETTINGS), at)
        if who == "at work":
            run = take_run_lock(run, mine, at, SETTINGS)
        keep(who, partial(kept, run))
        assert begin_automatic_run(db, AutomaticRunRecord(who, at, "full"), 0)
    clean_up_runs(db, NOW)
    left = {row[0] for row in db.execute("SELECT session_id FROM recovery_run")}
    assert left == {"here", "at work"}
    assert [each.session_id for each in read_automatic_runs(db, 0)] == ["here"]


def test_locks_of_processes_that_have_ended_are_released(
    keep: RunStore, db: sqlite3.Connection
) -> None:
    file_row(db, made.SESSION, gone=False)
    keep(made.SESSION, held(LockHolder(2**22 + 1, 1.0, "no process")))
    clean_up_runs(db, NOW + 1)
    run = read_recovery(db, made.SESSION)
    assert run
    assert (run.state, run.holder) == (RecoveryState.CANCELLED, None)


def test_automatic_runs_that_never_ended_are_over(db: sqlite3.Connection) -> None:
    file_row(db, "s", gone=False)
    begin_automatic_run(db, AutomaticRunRecord("s", NOW, "full"), 0)
    clean_up_runs(db, NOW + RUN_LOST_MS)
    assert [each.outcome for each in read_automatic_runs(db, 0)] == [None]
    clean_up_runs(db, NOW + RUN_LOST_MS + 1)
    assert [each.outcome for each in read_automatic_runs(db, 0)] == ["interrupted"]


def test_automatic_runs_are_kept_with_their_end(db: sqlite3.Connection) -> None:
    first, second = (
        AutomaticRunRecord("s", NOW, "full"),
        AutomaticRunRecord("s", NOW + 5, "full again"),
    )
    assert begin_automatic_run(db, first, 0)
    assert begin_automatic_run(db, second, NOW)
    # Another ctxtop that looked before the first was begun is too late.
    assert not begin_automatic_run(db, AutomaticRunRecord("s", NOW + 6, "full"), 0)
    ended = AutomaticRunRecord("s", NOW, "full", "done", NOW + 9, 90_000, "r1")
    end_automatic_run(db, ended)
    assert read_automatic_runs(db, NOW) == [ended, second]
    assert read_automatic_runs(db, NOW + 1) == [second]
