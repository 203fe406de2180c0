"""What doctor says of refused sessions, locks, pauses, and of what was done by itself."""

from __future__ import annotations

import json
import os
from contextlib import closing
from typing import TYPE_CHECKING, Any

import pytest
from ctxtop.core.actions.stored_recoveries import AUTOMATIC_RUN_TIMEOUT_MS, update_recovery
from ctxtop.core.compaction.recovery.recovery_run import (
    LockHolder,
    mark_pending,
    record_refusal,
    take_run_lock,
)
from ctxtop.core.host import process_start_time
from ctxtop.core.policy.policy import PolicyOrigin
from ctxtop.core.policy.resolve import DEFAULT_POLICIES, Policies, RawValue, resolve_policy
from ctxtop.core.store.automation_records import (
    AutomaticRunRecord,
    begin_automatic_run,
    end_automatic_run,
)
from ctxtop.core.store.writer import Writer
from ctxtop.tui.doctor import session_checks as checks
from ctxtop.tui.doctor.session_checks import RECENT_RUN_MS, recovery_checks
from msgspec.structs import replace

from ..recovering import SETTINGS
from ..transcripts import SESSION
from ..unit.test_recovery_attempt import FOUND, NOW
from .test_cli_recover import too_long, transcript  # noqa: F401 -- a fixture

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from ctxtop.tui.doctor.doctor_check import DoctorCheck

    from .ended import Ended


@pytest.fixture
def db(tmp_path: Path) -> Iterator[sqlite3.Connection]:
    with closing(Writer(tmp_path / "ctxtop.db")) as writer:
        yield writer.connection


def check(
    db: sqlite3.Connection, name: str, at: int = NOW, policies: Policies = DEFAULT_POLICIES
) -> DoctorCheck:
    found = recovery_checks(db, [], policies, at)
    return next(each for each in found if each.name == name)


def test_nothing_to_tell_of(db: sqlite3.Connection) -> None:
    for each in recovery_checks(db, [], DEFAULT_POLICIES, NOW):
        assert each.ok
    assert check(db, "recovery locks").detail == "none"
    assert check(db, "automatic runs").detail.startswith("none in 7 days: off, mode is not auto")


def test_automation_is_on_where_the_person_or_a_trusted_project_says_so(
    db: sqlite3.Connection,
) -> None:
    auto = resolve_policy([RawValue("mode", "auto", PolicyOrigin.USER_FILE, "/u/config.toml")])
    here = "none in 7 days: on while the dashboard runs, /u/config.toml sets mode = auto"
    assert check(db, "automatic runs", policies=Policies(auto)).detail == here
    project = Policies(acting_projects={"/p": auto})
    assert check(db, "automatic runs", policies=project).detail == here
    shown = Policies(projects={"/p": auto})
    assert "off, mode is not auto" in check(db, "automatic runs", policies=shown).detail
    none = RawValue("compact.strategy", "none", PolicyOrigin.USER_FILE, "/u/config.toml")
    mode = RawValue("mode", "auto", PolicyOrigin.USER_FILE, "/u/config.toml")
    off = resolve_policy([mode, none])
    found = check(db, "automatic runs", policies=Policies(off)).detail
    assert found.endswith("off, compact.strategy is none")


def test_a_lock_that_nobody_holds(db: sqlite3.Connection) -> None:
    waiting = mark_pending(record_refusal(None, FOUND, (), NOW, SETTINGS), NOW)
    gone = take_run_lock(waiting, LockHolder(2**22 + 1, 1.0, "gone"), NOW, SETTINGS)
    update_recovery(db, FOUND.session_id, lambda _: gone)
    stale = check(db, "recovery locks")
    assert not stale.ok
    assert "process 4194305" in stale.detail
    mine = LockHolder(os.getpid(), process_start_time(os.getpid()) or 0.0, "mine")
    update_recovery(db, FOUND.session_id, lambda _: take_run_lock(waiting, mine, NOW, SETTINGS))
    held = check(db, "recovery locks")
    assert held.ok
    assert "1 lock held" in held.detail


def test_a_pause(db: sqlite3.Connection) -> None:
    waiting = mark_pending(record_refusal(None, FOUND, (), NOW, SETTINGS), NOW)
    update_recovery(db, FOUND.session_id, lambda _: replace(waiting, cool_until=NOW + 30_000))
    assert "pauses for another 30 s" in check(db, "recovery locks").detail
    assert check(db, "recovery locks", at=NOW + 30_000).detail == "none"


def test_what_was_done_by_itself(db: sqlite3.Connection) -> None:
    run = AutomaticRunRecord("s-1", NOW, "full")
    begin_automatic_run(db, run, 0)
    assert "under way" in check(db, "automatic runs").detail
    assert (
        "1 run never ended" in check(db, "automatic runs", at=NOW + AUTOMATIC_RUN_TIMEOUT_MS).detail
    )
    end_automatic_run(db, AutomaticRunRecord("s-1", NOW, "full", "compacted", NOW + 1, 9, "r-1"))
    done = check(db, "automatic runs", at=NOW + AUTOMATIC_RUN_TIMEOUT_MS)
    assert "s-1, compacted" in done.detail
    assert done.fix == "`ctxtop undo r-1`"
    assert "none in 7" in check(db, "automatic runs", at=NOW + RECENT_RUN_MS + 1).detail


def test_a_refused_session_until_it_is_mended(
    call_ctxtop: Callable[..., Ended],
    transcript: Path,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(checks, "RECENT_RUN_MS", 10**15)
    too_long(transcript)

    def said() -> dict[str, Any]:
        all_checks = json.loads(call_ctxtop("doctor", "--json").out)["checks"]
        found: dict[str, Any] = next(one for one in all_checks if one["name"] == "refused sessions")
        return found

    assert (said()["ok"], said()["state"]) == (True, "note")
    assert f"`ctxtop recover {SESSION[:8]}`" in said()["fix"]
    assert call_ctxtop("recover", SESSION, "--apply").code == 0
    assert said()["state"] == "ok"
    assert said()["fix"] is None
