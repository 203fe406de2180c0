"""A client that is at work and writes no transcript: all of it will be lost."""

from __future__ import annotations

import json
import os
import time
from contextlib import closing
from typing import TYPE_CHECKING

import psutil
import pytest
from ctxtop.collectors.locations.places import Places
from ctxtop.core.model.attention import Attention, attention
from ctxtop.core.readers.fleet_reader import read_sessions
from ctxtop.core.store.database import open_reader
from ctxtop.tui.cli.result_tables import sessions_table
from ctxtop.tui.doctor.all_checks import check_all
from ctxtop.tui.text.session_text import state_text

from ..transcripts import PROJECT, SESSION, START_MS, assistant, tool, user, write

if TYPE_CHECKING:
    from ctxtop.collectors.collector_thread import Collector
    from ctxtop.collectors.locations.discover import ClaudeFolder
    from ctxtop.core.model.session import Session

    from ..transcripts import JsonLine

MINUTE_MS = 60_000
DAY_MS = 24 * 60 * MINUTE_MS
CALL = assistant(content=[tool("Bash", "toolu_1", command="make test")])


class Client:
    """This process, as a client that has the session open since the last line."""

    def __init__(self, claude: ClaudeFolder, collector: Collector) -> None:
        self.claude = claude
        self.collector = collector

    def session(self, status: str, since_ms: int, lines: list[JsonLine], now_ms: int) -> Session:
        if lines:
            write(self.claude.projects / PROJECT / f"{SESSION}.jsonl", lines)
        entry = {
            "pid": os.getpid(),
            "sessionId": SESSION,
            "version": "2.1.329",
            "status": status,
            "startedAt": int(psutil.Process().create_time() * 1000) if lines else START_MS,
            "updatedAt": START_MS + since_ms,
        }
        self.claude.sessions.mkdir(exist_ok=True)
        (self.claude.sessions / f"{os.getpid()}.json").write_text(json.dumps(entry))
        self.collector.scan()
        with closing(open_reader(self.collector.writer.path)) as db:
            (session,) = read_sessions(db, now_ms)
        return session


@pytest.fixture
def client(claude: ClaudeFolder, collector: Collector) -> Client:
    return Client(claude, collector)


@pytest.mark.parametrize(
    ("status", "since_ms", "busy_ms", "lines", "unsaved"),
    [
        # Days after the last line nothing explains it; after minutes only that it lasts.
        ("busy", 14 * DAY_MS, 0, [user(), assistant()], True),
        ("busy", 20 * MINUTE_MS, 11 * MINUTE_MS, [user(), assistant()], True),
        ("busy", 20 * MINUTE_MS, 9 * MINUTE_MS, [user(), assistant()], False),
        ("busy", 9 * MINUTE_MS, DAY_MS, [user(), assistant()], False),
        # A call that waited for its permission, and a client that does nothing.
        ("busy", 14 * DAY_MS, DAY_MS, [user(), CALL], False),
        ("idle", 14 * DAY_MS, DAY_MS, [user(), assistant()], False),
    ],
)
def test_a_busy_client_that_writes_nothing(
    client: Client, status: str, since_ms: int, busy_ms: int, lines: list[JsonLine], unsaved: bool
) -> None:
    now_ms = START_MS + since_ms + busy_ms
    session = client.session(status, since_ms, lines, now_ms)
    assert session.is_unsaved(now_ms) is unsaved
    assert (attention(session, now_ms) is Attention.UNSAVED) is unsaved
    assert ("not being saved" in state_text(session, 40, now_ms)) is unsaved
    assert ("busy, not saved" in "\n".join(sessions_table([session], now_ms))) is unsaved


def test_doctor_names_it_and_what_to_do(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    now_ms = START_MS + 15 * DAY_MS
    client.session("busy", 15 * DAY_MS, [user("count the boxes"), assistant()], now_ms)
    monkeypatch.setattr(time, "time_ns", lambda: now_ms * 1_000_000)
    places = Places(client.claude.root, client.collector.writer.path)
    (check,) = (each for each in check_all(places) if each.name == "saving")
    assert check.state == "note"
    assert "count the boxes" in check.detail
    assert "not being saved: the last line is 14 d old" in check.detail
    assert "CLAUDE_CODE_CHILD_SESSION" in (check.fix or "")
