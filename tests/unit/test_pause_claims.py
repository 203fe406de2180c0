"""A pause is claimed before it begins: by one process, once for each answer, and not forever."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import TYPE_CHECKING

import pytest
from ctxtop.core.actions.stored_recoveries import RUN_RETENTION_MS, clean_up_runs
from ctxtop.core.store.automation_records import (
    PAUSE_TIMEOUT_MS,
    PauseRecord,
    claim_pause,
    end_pause,
    read_pauses,
    release_pause,
)
from ctxtop.core.store.writer import Writer
from msgspec.structs import replace

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

CLAIM = PauseRecord("s1", answered_at=1_000, at=5_000, way="client")
LATER = replace(CLAIM, at=CLAIM.at + PAUSE_TIMEOUT_MS)
ENDED = replace(CLAIM, outcome="compacted", ended_at=6_000, left_tokens=3_000)


@pytest.fixture
def writer(tmp_path: Path) -> Iterator[Writer]:
    with closing(Writer(tmp_path / "ctxtop.db")) as opened:
        yield opened


def claim_in_a_process(store: Path) -> bool:
    with closing(Writer(store)) as writer:
        return claim_pause(writer.connection, CLAIM)


def test_of_eight_that_claim_at_once_one_may_pause(writer: Writer) -> None:
    with ThreadPoolExecutor(8) as pool:
        assert sum(pool.map(claim_in_a_process, [writer.path] * 8)) == 1


def test_a_session_is_claimed_again_only_after_another_answer(writer: Writer) -> None:
    db = writer.connection
    assert claim_pause(db, CLAIM)
    end_pause(db, ENDED)
    assert not claim_pause(db, LATER)
    assert claim_pause(db, replace(LATER, answered_at=2_000))
    assert read_pauses(db)[0] == ENDED


def test_what_did_nothing_is_forgotten(writer: Writer) -> None:
    db = writer.connection
    assert claim_pause(db, CLAIM)
    release_pause(db, CLAIM)
    assert claim_pause(db, replace(CLAIM, at=5_001))


def test_an_interrupted_pause_may_be_repeated_once_it_cannot_still_run(writer: Writer) -> None:
    db = writer.connection
    assert claim_pause(db, CLAIM)
    assert not claim_pause(db, replace(LATER, at=LATER.at - 1))
    assert claim_pause(db, LATER)
    # The first one was only slow: what it reports is not the other's.
    end_pause(db, ENDED)
    release_pause(db, CLAIM)
    assert read_pauses(db) == [LATER]


def test_old_pauses_are_forgotten(writer: Writer) -> None:
    db = writer.connection
    assert claim_pause(db, CLAIM)
    clean_up_runs(db, CLAIM.at + RUN_RETENTION_MS)
    assert read_pauses(db) == [CLAIM]
    clean_up_runs(db, CLAIM.at + RUN_RETENTION_MS + 1)
    assert read_pauses(db) == []
