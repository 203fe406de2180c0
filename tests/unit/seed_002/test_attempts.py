"""Recovery's requirements: attempts, locks and what is kept of them (002-92 to 002-103)."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

import msgspec
import pytest
from ctxtop.collectors import session_target
from ctxtop.collectors.terminal.client_run import FinishedRun
from ctxtop.core.actions.stored_recoveries import clean_up_runs, read_recovery, update_recovery
from ctxtop.core.compaction.recovery.recovery_run import (
    RecoveryCounters,
    RecoveryRetry,
    RecoveryRun,
    advance_run,
    find_attempt_obstacle,
    finish_run,
    record_refusal,
    retry_delay_ms,
)
from ctxtop.core.store.writer import Writer

from ...recovering import SETTINGS, chain
from ..test_recovery_attempt import file_row
from ..test_recovery_run import NOW, locked, pending
from .given import FEWER, mend, refused, sizes

if TYPE_CHECKING:
    from pathlib import Path


def test_002_92() -> None:
    assert (locked().counters.attempts, locked().began_at) == (1, NOW)


def test_002_93() -> None:
    assert RecoveryRetry().max_attempts == 2
    tried = msgspec.structs.replace(pending(), counters=RecoveryCounters(attempts=2), began_at=NOW)
    refusal = find_attempt_obstacle(tried, NOW + 299_999, SETTINGS)
    assert refusal
    assert refusal.check == "attempts"


def test_002_94() -> None:
    assert RecoveryRetry().initial_ms == 2000


def test_002_95() -> None:
    assert RecoveryRetry().factor == 2


def test_002_96() -> None:
    assert RecoveryRetry().max_ms == 30_000
    assert retry_delay_ms(4, RecoveryRetry()) == 30_000


def test_002_97() -> None:
    assert [retry_delay_ms(each, RecoveryRetry()) for each in range(3)] == [2000, 4000, 8000]


def test_002_98(path: Path) -> None:
    """Wait, ask, look whether it was answered, and once more; then it is given up."""
    mended = mend(path, chain(*sizes(80_000), refused(FEWER)))
    assert mended.receipt
    waits: list[float] = []
    asked: list[str] = []

    class Silent:
        def run(self, prompt: str, *_: object) -> FinishedRun:
            asked.append(prompt)
            return FinishedRun(("claude",), "/here", "no")

    place = session_target.RunLocation(str(path.parent), None, path.parent / "store.db")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(session_target, "prepare_run", lambda *_: Silent())
        went = session_target.resume_fork(
            "on", mended.receipt, place, RecoveryRetry(), waits.append
        )
    assert (waits, asked) == ([2.0, 4.0], ["on", "on"])
    assert (went.answered, went.attempts) == (False, 2)


# 1.2.13 State.


def test_002_99() -> None:
    """The seed's seven containers are one row a session."""
    run = {"state", "found", "holder", "counters", "began_at"}
    counters = {"attempts", "truncated", "emptied", "reverted"}
    assert run <= set(RecoveryRun.__struct_fields__)
    assert counters <= set(RecoveryCounters.__struct_fields__)


def test_002_100() -> None:
    refusal = find_attempt_obstacle(locked(), NOW + 90_000, SETTINGS)
    assert refusal
    assert refusal.check == "in_progress"


def test_002_101() -> None:
    ended = finish_run(advance_run(locked(), NOW, SETTINGS), NOW + 5, truncated=3)
    assert (ended.counters.truncated, ended.changed_at) == (3, NOW + 5)


def test_002_102() -> None:
    """What was used up is forgotten when the session has gone on; the rest by success."""
    other = msgspec.structs.replace(locked().found, key="another")
    full = RecoveryCounters(attempts=2, truncated=20, emptied=2, reverted=3, last_reverted="u")
    ended = msgspec.structs.replace(
        finish_run(advance_run(locked(), NOW, SETTINGS), NOW), counters=full
    )
    assert record_refusal(ended, other, (), NOW + 300_000, SETTINGS).counters == RecoveryCounters()


def test_002_103(path: Path) -> None:
    with closing(Writer(path.parent / "ctxtop.db")) as writer:
        db = writer.connection
        file_row(db, locked().found.session_id, gone=True)
        update_recovery(db, locked().found.session_id, lambda _: pending())
        clean_up_runs(db, NOW)
        assert read_recovery(db, locked().found.session_id) is None
