"""More sessions than are read at once: parts of them, the open and the newest ones first."""

from __future__ import annotations

import json
import os
from contextlib import closing
from typing import TYPE_CHECKING

import pytest
from ctxtop.collectors.collector_thread import Collector
from ctxtop.core.measure.window import find_trigger
from ctxtop.core.readers import fleet_reader
from ctxtop.core.readers.fleet_reader import (
    FleetReader,
    newest_session_order,
    read_sessions,
    stream_sessions,
)
from ctxtop.core.store.database import open_reader
from ctxtop.core.store.writer import Writer

from ..recorder import Recorder
from ..transcripts import PROJECT, START_MS, assistant, boundary, user, write

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterator
    from pathlib import Path

    from ctxtop.collectors.locations.discover import ClaudeFolder
    from ctxtop.core.measure.window import TriggerEvidence
    from ctxtop.core.model.context_window import Trigger

COUNT = 11
OPEN = "00000000-0000-4333-8444-000000000000"
"""The oldest one, which a client has open."""


def name_of(number: int) -> str:
    return f"{number:08d}-0000-4333-8444-000000000000"


@pytest.fixture
def db(
    claude: ClaudeFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[sqlite3.Connection]:
    monkeypatch.setattr(fleet_reader, "SESSIONS_PER_QUERY", 3)
    monkeypatch.setattr(fleet_reader, "FIRST_BATCH_SESSIONS", 2)
    for number in range(COUNT):
        at = 60 * number
        lines = [
            user(f"task {number}", at),
            assistant(f"msg_{number}", 50_000 + number, at=at),
            boundary(at, preTokens=967_500 - number, postTokens=20_000),
            assistant(f"msg_{number}b", 30_000 + number, at=at),
        ]
        write(claude.projects / PROJECT / f"{name_of(number)}.jsonl", lines)
    entry = {"pid": os.getpid(), "sessionId": OPEN, "status": "idle"}
    claude.sessions.mkdir(parents=True, exist_ok=True)
    (claude.sessions / f"{os.getpid()}.json").write_text(json.dumps(entry))
    store = tmp_path / "many.db"
    with closing(Writer(store)) as writer:
        Collector(claude, writer, Recorder()).scan()
    with closing(open_reader(store)) as reader:
        yield reader


def test_a_stream_gives_each_session_once_and_the_newest_first(db: sqlite3.Connection) -> None:
    parts = list(stream_sessions(db, START_MS))
    assert [len(part) for part in parts] == [3, 3, 3, 2]
    found = [session for part in parts for session in part]
    assert found == sorted(read_sessions(db, START_MS), key=newest_session_order)
    assert len({session.session_id for session in found}) == COUNT


def test_only_the_open_and_the_newest_sessions_are_forecast(
    db: sqlite3.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fleet_reader, "MAX_FORECAST_SESSIONS", 6)
    found = {each.session_id: each for each in read_sessions(db, START_MS)}
    looked_at = {name for name, session in found.items() if session.recent_contexts}
    assert looked_at == {OPEN, *(name_of(number) for number in range(COUNT - 6, COUNT))}
    (asked_for,) = read_sessions(db, START_MS, [name_of(1)])
    assert asked_for.recent_contexts == (50_001, 20_000, 30_001)


def test_the_screen_gets_the_open_and_the_newest_at_once_and_all_in_the_end(
    db: sqlite3.Connection,
) -> None:
    reader = FleetReader(db, START_MS)
    first = reader.read(None, START_MS)
    assert {each.session_id for each in first} == {OPEN, name_of(COUNT - 1)}
    assert reader.unread_count == COUNT - 2
    assert not reader.is_current(START_MS)
    sizes = []
    while reader.unread_count:
        sizes.append(len(reader.read((), START_MS)))
    assert sizes == [6, COUNT]
    assert reader.read((), START_MS) == tuple(read_sessions(db, START_MS))


def test_a_session_that_changes_meanwhile_is_read_before_its_turn(db: sqlite3.Connection) -> None:
    reader = FleetReader(db, START_MS)
    reader.read(None, START_MS)
    found = reader.read({name_of(1)}, START_MS)
    assert name_of(1) in {each.session_id for each in found}


def test_sessions_stay_on_the_screen_while_all_are_read_again(db: sqlite3.Connection) -> None:
    reader = FleetReader(db, START_MS)
    reader.read(None, START_MS)
    while reader.unread_count:
        reader.read((), START_MS)
    assert len(reader.read(None, START_MS)) == COUNT
    assert reader.unread_count


def test_a_trigger_is_learnt_once_for_all_sessions_that_are_alike(
    db: sqlite3.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[TriggerEvidence] = []

    def find(of: TriggerEvidence) -> Trigger:
        asked.append(of)
        return find_trigger(of)

    monkeypatch.setattr("ctxtop.core.measure.evidence.find_trigger", find)
    found = read_sessions(db, START_MS)
    assert len({each.context.trigger.tokens for each in found if each.context.trigger}) >= 1
    assert len(asked) == len({(each.own_compactions, each.other_compactions) for each in asked})


def test_a_list_of_which_nothing_was_read_again_is_not_sorted_again(
    db: sqlite3.Connection,
) -> None:
    reader = FleetReader(db, START_MS)
    last = reader.read(None, START_MS)
    while reader.unread_count:
        last = reader.read((), START_MS)
    assert reader.read((), START_MS) is last
    again = reader.read({name_of(1)}, START_MS)
    assert again is not last
    assert again == last
