"""What the registry alone tells: clients before their first prompt, and sessions that ended."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from contextlib import closing
from typing import TYPE_CHECKING

import pytest
from ctxtop.collectors.claude_code.registry import read_session_registry
from ctxtop.collectors.collector_thread import Collector
from ctxtop.collectors.session_target import compaction_target
from ctxtop.core.compaction.compaction_target import require_idle
from ctxtop.core.compaction.plan import CompactionRefusedError
from ctxtop.core.model.session import SessionStatus
from ctxtop.core.readers.fleet_reader import FleetReader, read_sessions
from ctxtop.core.store.database import open_reader
from ctxtop.core.store.queries import session_queries
from ctxtop.core.store.writer import Writer

from ..recorder import Recorder
from ..transcripts import PROJECT, SESSION, START_MS, assistant, user, write

if TYPE_CHECKING:
    from pathlib import Path

    from ctxtop.collectors.locations.discover import ClaudeFolder
    from ctxtop.core.model.session import Session

NEW = "99999999-2222-4333-8444-555555555555"
OPENED_MS = time.time_ns() // 1_000_000
DEAD = 2**22 + 7
"""No process of Linux has such a number."""


def enter(claude: ClaudeFolder, session_id: str, pid: int | None = None, **more: object) -> Path:
    about = {"pid": pid or os.getpid(), "sessionId": session_id, "version": "2.1.329"}
    about |= {"cwd": "/home/dev/shop", "startedAt": OPENED_MS, "status": "idle"}
    claude.sessions.mkdir(parents=True, exist_ok=True)
    path = claude.sessions / f"{session_id}-{pid}.json"
    path.write_text(json.dumps(about | more), encoding="utf-8")
    return path


def scanned(claude: ClaudeFolder, store: Path, now_ms: int = START_MS) -> dict[str, Session]:
    with closing(Writer(store)) as writer:
        Collector(claude, writer, Recorder()).scan()
    with closing(open_reader(store)) as db:
        return {each.session_id: each for each in read_sessions(db, now_ms)}


def test_a_client_before_its_first_prompt_is_listed(claude: ClaudeFolder, store: Path) -> None:
    enter(claude, NEW, name="tidy up", nameSource="user", tmux="work:@0.%0")
    found = scanned(claude, store)[NEW]
    assert (found.title, found.project, found.status) == ("tidy up", "shop", SessionStatus.IDLE)
    assert (found.live, found.tmux, found.cwd) == (True, "work:@0.%0", "/home/dev/shop")
    assert (found.context.tokens, found.path, found.client_version) == (None, "", "2.1.329")
    assert found.started_at == found.last_activity_at == OPENED_MS


def test_one_without_a_name_is_called_new(claude: ClaudeFolder, store: Path) -> None:
    enter(claude, NEW)
    assert scanned(claude, store)[NEW].title == "new session 99999999"


def test_its_first_prompt_makes_it_a_session_like_others(claude: ClaudeFolder, store: Path) -> None:
    enter(claude, NEW)
    scanned(claude, store)
    line = user("begin") | {"sessionId": NEW}
    write(claude.projects / PROJECT / f"{NEW}.jsonl", [line])
    found = scanned(claude, store)
    assert list(found) == [NEW]
    assert (found[NEW].title, found[NEW].status) == ("begin", SessionStatus.IDLE)


def test_closed_without_a_prompt_it_leaves_the_screen(claude: ClaudeFolder, store: Path) -> None:
    entry = enter(claude, NEW)
    with closing(Writer(store)) as writer, closing(open_reader(store)) as db:
        collector = Collector(claude, writer, Recorder())
        collector.scan()
        reader = FleetReader(db, START_MS)
        assert [each.session_id for each in reader.read(None, START_MS)] == [NEW]
        entry.unlink()
        collector.read_sidecars()
        assert reader.read({NEW}, START_MS) == ()
        assert session_queries.newest_sessions(db) == []


def recent(claude: ClaudeFolder) -> Path:
    """A session whose last line is of this moment."""
    now = time.strftime("%Y-%m-%dT%H:%M:%S.000Z", time.gmtime())
    path = claude.projects / PROJECT / f"{SESSION}.jsonl"
    write(path, [user(), assistant(timestamp=now)])
    return path


def held(claude: ClaudeFolder, store: Path, path: Path) -> None:
    subject = compaction_target(claude, store, SESSION, path, None)
    require_idle(subject, path, SESSION)


def test_a_session_that_the_registry_does_not_name_has_ended(
    claude: ClaudeFolder, store: Path
) -> None:
    path = recent(claude)
    claude.sessions.mkdir()
    now_ms = time.time_ns() // 1_000_000
    assert scanned(claude, store, now_ms)[SESSION].status is SessionStatus.ENDED
    held(claude, store, path)


def test_without_a_registry_only_time_tells(claude: ClaudeFolder, store: Path) -> None:
    path = recent(claude)
    now_ms = time.time_ns() // 1_000_000
    assert scanned(claude, store, now_ms)[SESSION].status is SessionStatus.ACTIVE
    with pytest.raises(CompactionRefusedError, match="written"):
        held(claude, store, path)


def test_an_entry_of_another_machine_s_process_leaves_it_to_time(
    claude: ClaudeFolder, store: Path
) -> None:
    path = recent(claude)
    enter(claude, SESSION, DEAD)
    now_ms = time.time_ns() // 1_000_000
    assert scanned(claude, store, now_ms)[SESSION].status is SessionStatus.ACTIVE
    with pytest.raises(CompactionRefusedError, match="written"):
        held(claude, store, path)


def test_two_clients_in_one_session_are_both_read(claude: ClaudeFolder) -> None:
    other = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    try:
        enter(claude, SESSION)
        enter(claude, SESSION, other.pid, startedAt=time.time_ns() // 1_000_000)
        clients = read_session_registry(claude).clients
    finally:
        other.communicate(b"\n")
    assert {each.pid for each in clients} == {os.getpid(), other.pid}
