"""An attempt's lock, and what is kept of it: over restarts, between processes, no longer."""

from __future__ import annotations

import os
from contextlib import closing
from functools import partial
from typing import TYPE_CHECKING

import msgspec
import pytest
from ctxtop.core.compaction.limit_errors import LimitErrorType
from ctxtop.core.compaction.recovery.attempt import Attempt, NotNowError, attempt
from ctxtop.core.compaction.recovery.run import (
    LOST_MS,
    Found,
    Holder,
    State,
    detect,
    lock,
    wait_for_lock,
)
from ctxtop.core.compaction.recovery.settings import RecoverySettings, Step
from ctxtop.core.processes import start_of
from ctxtop.core.store.recovery_rows import (
    KEPT_MS,
    AutomaticRun,
    automatic_runs,
    begin_automatic,
    change_run,
    clean_runs,
    end_automatic,
    read_run,
)
from ctxtop.core.store.recovery_rows import LOST_MS as RUN_LOST_MS
from ctxtop.core.store.writer import Writer

from .. import transcripts as made

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager
    from pathlib import Path

    from ctxtop.core.compaction.recovery.attempt import Keep
    from ctxtop.core.compaction.recovery.run import Run

NOW = 1_795_000_000_000
SETTINGS = RecoverySettings()
FOUND = Found(made.SESSION, "line-9", LimitErrorType.TOKEN_LIMIT, 210_000, 200_000)


@pytest.fixture
def db(tmp_path: Path) -> Iterator[sqlite3.Connection]:
    with closing(Writer(tmp_path / "ctxtop.db")) as writer:
        yield writer.connection


@pytest.fixture
def keep(db: sqlite3.Connection) -> Keep:
    def changed(session_id: str, change: Callable[[Run | None], Run]) -> Run:
        return change_run(db, session_id, change)

    return changed


def tried(keep: Keep, at: int = NOW) -> AbstractContextManager[Attempt]:
    return attempt(keep, FOUND, SETTINGS.step_order, SETTINGS, lambda: at)


def state(db: sqlite3.Connection) -> State:
    run = read_run(db, made.SESSION)
    assert run
    return run.state


def test_a_step_that_succeeds(keep: Keep, db: sqlite3.Connection) -> None:
    with tried(keep) as trying:
        assert trying.next_step() is Step.FIX_EMPTY
        assert trying.next_step() is Step.TRUNCATE
        trying.succeed(truncated=3, receipt="r1")
    run = read_run(db, made.SESSION)
    assert run
    assert (run.state, run.receipt, run.counters.truncated) == (State.SUCCEEDED, "r1", 3)
    assert run.holder is None


def test_the_lock_is_released_whatever_happens(keep: Keep, db: sqlite3.Connection) -> None:
    """R002-11."""

    def fail() -> None:
        with tried(keep) as trying:
            trying.next_step()
            raise OSError("full")

    with pytest.raises(OSError, match="full"):
        fail()
    run = read_run(db, made.SESSION)
    assert run
    assert (run.state, run.holder) == (State.CANCELLED, None)


def test_an_attempt_without_a_step_that_suffices(keep: Keep, db: sqlite3.Connection) -> None:
    with tried(keep) as trying:
        steps = list(iter(trying.next_step, None))
    assert tuple(steps) == SETTINGS.step_order
    assert state(db) is State.EXHAUSTED


def test_a_second_caller_is_sent_away(keep: Keep, db: sqlite3.Connection) -> None:
    """002-100, R002-11."""
    with (
        tried(keep),
        pytest.raises(NotNowError, match="recovery already running"),
        tried(keep, NOW + 90_000),
    ):
        pytest.fail("two at once")
    assert state(db) is State.CANCELLED


def test_a_failed_attempt_cools_down_after_a_restart(tmp_path: Path) -> None:
    """R002-06, and 002-99's state in a file instead of in memory."""
    path = tmp_path / "ctxtop.db"
    with closing(Writer(path)) as writer:
        connection = writer.connection
        with tried(lambda who, change: change_run(connection, who, change)):
            pass
    with closing(Writer(path)) as writer:
        again = writer.connection
        early = tried(lambda who, change: change_run(again, who, change), NOW + 1)
        with pytest.raises(NotNowError, match="try again in 60 s"), early:
            pytest.fail("too early")
        with tried(lambda who, change: change_run(again, who, change), NOW + 60_000) as trying:
            assert trying.run.counters.attempts == 2


def held(holder: Holder, at: int = NOW) -> Callable[[Run | None], Run]:
    waiting = wait_for_lock(detect(None, FOUND, SETTINGS.step_order, at, SETTINGS), at)
    return lambda _: lock(waiting, holder, at, SETTINGS)


@pytest.mark.parametrize(
    ("holder", "after_ms"),
    [
        (Holder(os.getpid(), 12.0, "another's number"), 60_000),
        (Holder(2**22 + 1, 1.0, "no process"), 60_000),
        (Holder(os.getpid(), start_of(os.getpid()) or 0.0, "never released"), LOST_MS),
    ],
)
def test_a_stale_lock_is_taken_over(keep: Keep, holder: Holder, after_ms: int) -> None:
    keep(made.SESSION, held(holder))
    with tried(keep, NOW + after_ms) as trying:
        assert trying.run.state is State.LOCKED


def test_whoever_lost_the_lock_changes_nothing(keep: Keep, db: sqlite3.Connection) -> None:
    other = Holder(os.getpid(), start_of(os.getpid()) or 0.0, "other")
    with tried(keep) as trying:
        keep(made.SESSION, held(other))
        with pytest.raises(NotNowError, match="taken over"):
            trying.next_step()
    run = read_run(db, made.SESSION)
    assert run
    assert run.holder == other


def test_a_run_that_cannot_be_read_is_none(db: sqlite3.Connection) -> None:
    db.execute("INSERT INTO recovery_run VALUES (?, 1, 'no JSON')", [made.SESSION])
    assert read_run(db, made.SESSION) is None


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


def kept(run: Run, _: Run | None) -> Run:
    return run


def test_what_is_cleaned_up(keep: Keep, db: sqlite3.Connection) -> None:
    """002-102 and 002-103: a session that is gone leaves nothing."""
    mine = Holder(os.getpid(), start_of(os.getpid()) or 0.0, "m")
    for who, gone in (("here", False), ("gone", True), ("old", False), ("at work", True)):
        file_row(db, who, gone=gone)
        at = NOW - (KEPT_MS + 1 if who == "old" else 0)
        found = msgspec.structs.replace(FOUND, session_id=who)
        run = wait_for_lock(detect(None, found, (), at, SETTINGS), at)
        if who == "at work":
            run = lock(run, mine, at, SETTINGS)
        keep(who, partial(kept, run))
        assert begin_automatic(db, AutomaticRun(who, at, "full"), 0)
    clean_runs(db, NOW)
    left = {row[0] for row in db.execute("SELECT session_id FROM recovery_run")}
    assert left == {"here", "at work"}
    assert [each.session_id for each in automatic_runs(db, 0)] == ["here"]


def test_locks_of_processes_that_have_ended_are_released(
    keep: Keep, db: sqlite3.Connection
) -> None:
    file_row(db, made.SESSION, gone=False)
    keep(made.SESSION, held(Holder(2**22 + 1, 1.0, "no process")))
    clean_runs(db, NOW + 1)
    run = read_run(db, made.SESSION)
    assert run
    assert (run.state, run.holder) == (State.CANCELLED, None)


def test_automatic_runs_that_never_ended_are_over(db: sqlite3.Connection) -> None:
    file_row(db, "s", gone=False)
    begin_automatic(db, AutomaticRun("s", NOW, "full"), 0)
    clean_runs(db, NOW + RUN_LOST_MS)
    assert [each.outcome for each in automatic_runs(db, 0)] == [None]
    clean_runs(db, NOW + RUN_LOST_MS + 1)
    assert [each.outcome for each in automatic_runs(db, 0)] == ["broken off"]


def test_automatic_runs_are_kept_with_their_end(db: sqlite3.Connection) -> None:
    first, second = AutomaticRun("s", NOW, "full"), AutomaticRun("s", NOW + 5, "full again")
    assert begin_automatic(db, first, 0)
    assert begin_automatic(db, second, NOW)
    # Another ctxtop that looked before the first was begun is too late.
    assert not begin_automatic(db, AutomaticRun("s", NOW + 6, "full"), 0)
    ended = AutomaticRun("s", NOW, "full", "done", NOW + 9, 90_000, "r1")
    end_automatic(db, ended)
    assert automatic_runs(db, NOW) == [ended, second]
    assert automatic_runs(db, NOW + 1) == [second]
