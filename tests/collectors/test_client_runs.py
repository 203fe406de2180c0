"""How often the client is run without a person asking each time: no policy lifts the limit."""

from __future__ import annotations

import time
from contextlib import closing
from typing import TYPE_CHECKING

import pytest
from ctxtop.collectors.session_target import RunLocation, resume_fork
from ctxtop.core.compaction.recovery.recovery_run import RecoveryRetry
from ctxtop.core.store.automation_records import (
    HOUR_MS,
    MAX_RUNS,
    MAX_RUNS_PER_SESSION,
    claim_client_run,
)
from ctxtop.core.store.writer import Writer
from msgspec.structs import replace

from ..recovering import chain
from ..transcripts import PROJECT, SESSION
from ..trusting import accept_trust_dialog
from ..unit.seed_002.given import FEWER, mend, refused, sizes

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from ctxtop.collectors.locations.discover import ClaudeFolder
    from ctxtop.core.compaction.receipts import CompactionReceipt

NOW = 1_800_000_000_000
OTHER = "22222222-2222-4222-8222-222222222222"
ENDLESS = RecoveryRetry(max_attempts=10_000, initial_ms=0, max_ms=0)


@pytest.fixture
def place(
    claude: ClaudeFolder, store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> RunLocation:
    """A trusted project, and a client that answers nothing and leaves a mark for each run."""
    tools, project = tmp_path / "tools", tmp_path / "project"
    for folder in (tools, project):
        folder.mkdir()
    program = tools / "claude"
    program.write_text(f"#!/bin/sh\necho run >> {tmp_path / 'runs'}\n", encoding="utf-8")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tools}:/usr/bin:/bin")
    accept_trust_dialog(claude.root / ".claude.json", project)
    return RunLocation(str(project), claude.root, store)


@pytest.fixture
def receipt(claude: ClaudeFolder) -> CompactionReceipt:
    path = claude.projects / PROJECT / f"{SESSION}.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    mended = mend(path, chain(*sizes(80_000), refused(FEWER)))
    assert mended.receipt is not None
    return mended.receipt


@pytest.fixture
def runs(tmp_path: Path) -> Callable[[], int]:
    def count() -> int:
        marks = tmp_path / "runs"
        return len(marks.read_text(encoding="utf-8").splitlines()) if marks.exists() else 0

    return count


def test_a_policy_cannot_ask_for_more_runs(
    place: RunLocation, receipt: CompactionReceipt, runs: Callable[[], int]
) -> None:
    went = resume_fork("on", receipt, place, ENDLESS, sleep=lambda _: None)
    assert runs() == MAX_RUNS_PER_SESSION == went.attempts
    assert not went.answered
    assert f"started {MAX_RUNS_PER_SESSION} times" in went.output
    # Another process, or the next start, finds it in the store.
    again = resume_fork("on", receipt, place, ENDLESS, sleep=lambda _: None)
    assert (runs(), again.attempts, again.command) == (MAX_RUNS_PER_SESSION, 0, ())


def test_a_chain_of_forks_ends(
    place: RunLocation, receipt: CompactionReceipt, runs: Callable[[], int]
) -> None:
    for number in range(MAX_RUNS):
        fork = replace(receipt, session_id=OTHER[:-2] + f"{number:02}")
        resume_fork("on", fork, place, ENDLESS, sleep=lambda _: None)
    assert runs() == MAX_RUNS


def test_it_says_what_was_run_and_where(place: RunLocation, receipt: CompactionReceipt) -> None:
    went = resume_fork("on", receipt, place, RecoveryRetry(max_attempts=1, initial_ms=0))
    assert went.command[1:] == (
        *("-p", "--resume", receipt.new_session_id),
        *("--setting-sources", "user", "--", "on"),
    )
    assert went.folder == place.project_root


@pytest.mark.parametrize("session_id", ["--settings={}", "../x", "", "11111111"])
def test_what_is_no_session_s_id_is_not_resumed(
    place: RunLocation, receipt: CompactionReceipt, runs: Callable[[], int], session_id: str
) -> None:
    went = resume_fork(
        "on", replace(receipt, new_session_id=session_id), place, RecoveryRetry(1, 0)
    )
    assert (runs(), went.command) == (0, ())
    assert "not an id that Claude Code can resume" in went.output


def test_a_prompt_that_no_program_can_be_given_is_one_line(
    place: RunLocation, receipt: CompactionReceipt
) -> None:
    went = resume_fork("x" * 200_000, receipt, place, RecoveryRetry(1, 0))
    assert "cannot be run" in went.output
    assert not went.answered


def test_nothing_is_run_where_the_client_trusts_nobody(
    place: RunLocation, receipt: CompactionReceipt, runs: Callable[[], int], claude: ClaudeFolder
) -> None:
    accept_trust_dialog(claude.root / ".claude.json")
    went = resume_fork("on", receipt, place, ENDLESS, sleep=lambda _: None)
    assert (runs(), went.attempts) == (0, 0)
    assert "does not trust" in went.output
    unknown = resume_fork("on", receipt, replace(place, project_root=None), ENDLESS)
    assert (runs(), unknown.attempts) == (0, 0)


def test_a_store_that_cannot_be_written_lets_nothing_run(
    place: RunLocation, receipt: CompactionReceipt, runs: Callable[[], int], tmp_path: Path
) -> None:
    file = tmp_path / "file"
    file.write_bytes(b"")
    went = resume_fork("on", receipt, replace(place, store=file / "x.db"), ENDLESS, lambda _: None)
    assert (runs(), went.attempts) == (0, 0)


def test_an_hour_later_there_may_be_more(store: Path) -> None:
    with closing(Writer(store)) as writer:
        db = writer.connection
        for second in range(MAX_RUNS_PER_SESSION):
            assert claim_client_run(db, SESSION, NOW + second * 1000) is None
        assert claim_client_run(db, SESSION, NOW + 5000) is not None
        assert claim_client_run(db, OTHER, NOW + 5000) is None
        # A clock that was set back does not open it.
        assert claim_client_run(db, SESSION, NOW - 10 * HOUR_MS) is not None
        assert claim_client_run(db, SESSION, NOW + HOUR_MS - 1) is not None
        assert claim_client_run(db, SESSION, NOW + HOUR_MS) is None
        assert claim_client_run(db, SESSION, NOW + HOUR_MS) is not None


def test_what_a_run_s_limit_counts_is_now(
    place: RunLocation, receipt: CompactionReceipt, store: Path
) -> None:
    resume_fork("on", receipt, place, ENDLESS, sleep=lambda _: None)
    with closing(Writer(store)) as writer:
        ((least,),) = writer.connection.execute("SELECT min(at) FROM client_run")
    assert 0 <= time.time() * 1000 - least < 60_000
