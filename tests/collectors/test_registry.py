"""The registry's entries: which process, since when, and what it is doing."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import psutil
import pytest
from ctxtop.collectors.claude_code import registry as registry_module
from ctxtop.collectors.claude_code.registry import (
    list_open_sessions,
    read_pid_domain,
    read_session_registry,
)

from ..dump import dump
from ..transcripts import SESSION

if TYPE_CHECKING:
    from pathlib import Path

    from ctxtop.collectors.collector_thread import Collector
    from ctxtop.collectors.locations.discover import ClaudeFolder

OWN_START_S = psutil.Process().create_time()
OWN_START_MS = int(OWN_START_S * 1000)

FULL: dict[str, Any] = {
    "pid": os.getpid(),
    "sessionId": SESSION,
    "cwd": "/home/me/my  project",
    "startedAt": OWN_START_MS + 500,
    "version": "2.1.329",
    "kind": "interactive",
    "entrypoint": "cli",
    "tmux": "work:@0.%0",
    "status": "waiting",
    "waitingFor": "permission to use Bash\x1b[2J",
    "updatedAt": OWN_START_MS + 900,
    "pidDomain": "linux:1",
    "messagingSocketPath": "/tmp/x.sock",
}


def enter(claude: ClaudeFolder, name: str, **fields: object) -> Path:
    path = claude.sessions / f"{name}.json"
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(FULL | fields))
    return path


def test_all_that_an_entry_says_is_stored(
    claude: ClaudeFolder, collector: Collector, store: Path
) -> None:
    enter(claude, "1")
    collector.read_sidecars()
    (live,) = list_open_sessions(claude)

    assert (live.status, live.waiting_for) == ("waiting", "permission to use Bash[2J")
    assert live.client_version == "2.1.329"
    assert (live.cwd, live.tmux, live.started_at) == (FULL["cwd"], "work:@0.%0", FULL["startedAt"])
    (row,) = dump(store)["live"]
    assert set(row) >= {live.waiting_for, live.cwd, live.started_at}


@pytest.mark.skipif(sys.platform != "linux", reason="the client names a domain in Linux only")
def test_a_dead_process_of_this_machine_has_ended_and_one_of_another_may_live(
    claude: ClaudeFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = read_pid_domain()
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    found = {}
    domains = (own, "linux:0123:pid:[1]", None)
    for domain in domains:
        enter(claude, "1", pid=ended.pid, procStart="1", pidDomain=domain)
        registry = read_session_registry(claude)
        assert registry.clients == ()
        found[domain] = registry.is_closed(SESSION, "2.1.329")
    assert found == {own: True, domains[1]: False, None: False}
    # Where /proc hides the processes of others, none of them can be told from a dead one.
    monkeypatch.setattr(registry_module, "_FIRST_PID", ended.pid)
    enter(claude, "1", pid=ended.pid, procStart="1", pidDomain=own)
    assert not read_session_registry(claude).is_closed(SESSION, "2.1.329")


def test_an_old_entry_says_less(claude: ClaudeFolder) -> None:
    path = enter(claude, "1")
    path.write_text(json.dumps({"pid": os.getpid(), "sessionId": SESSION}))
    (live,) = list_open_sessions(claude)

    assert live.status == "idle"
    assert (live.waiting_for, live.cwd, live.process_start) == (None, None, None)


@pytest.mark.parametrize("newest", ["10", "9"])
def test_of_two_entries_of_one_session_the_newest_counts(claude: ClaudeFolder, newest: str) -> None:
    for name in ("10", "9"):
        enter(claude, name, status=name, updatedAt=2 if name == newest else 1)

    assert [live.status for live in list_open_sessions(claude)] == [newest]


def test_the_start_alone_tells_which_is_newer_in_old_clients(claude: ClaudeFolder) -> None:
    enter(claude, "1", status="new", startedAt=OWN_START_MS + 9, updatedAt=None)
    enter(claude, "2", status="old", startedAt=OWN_START_MS, updatedAt=None)

    assert [live.status for live in list_open_sessions(claude)] == ["new"]


@pytest.mark.parametrize(
    "fields",
    [
        {"filler": "x" * (64 * 1024)},
        {"sessionId": ""},
        {"sessionId": None},
        {"sessionId": 5},
        {"pid": True},
    ],
)
def test_a_hostile_entry_hides_no_other(claude: ClaudeFolder, fields: dict[str, Any]) -> None:
    enter(claude, "1", **fields)
    enter(claude, "2", sessionId="other")

    assert [live.session_id for live in list_open_sessions(claude)] == ["other"]


def test_a_key_is_never_opened_and_a_pipe_blocks_nobody(claude: ClaudeFolder) -> None:
    claude.sessions.mkdir()
    os.mkfifo(claude.sessions / f"1.{'ab' * 32}.key")
    os.mkfifo(claude.sessions / "1.json")
    (claude.sessions / "3.json").mkdir()
    enter(claude, "2")
    began = time.monotonic()

    assert len(list_open_sessions(claude)) == 1
    assert time.monotonic() - began < 60, "it waited"


def lstart(moment: float, hours: float = 0.0) -> str:
    """A process's start as a client in another zone writes it."""
    there = datetime.fromtimestamp(moment, UTC) + timedelta(hours=hours)
    return there.strftime("%a %b %d %H:%M:%S %Y")


@pytest.mark.parametrize(
    ("earlier_s", "hours", "is_open"),
    [
        (0, 0, True),
        (0, -8, True),
        (0, 5.75, True),
        (300, 0, False),
        (7 * 86_400, 0, False),
    ],
)
def test_on_macos_the_start_is_a_date_in_the_clients_zone(
    claude: ClaudeFolder,
    monkeypatch: pytest.MonkeyPatch,
    earlier_s: float,
    hours: float,
    *,
    is_open: bool,
) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    enter(claude, "1", procStart=lstart(OWN_START_S - earlier_s, hours))

    assert bool(list_open_sessions(claude)) is is_open


@pytest.mark.parametrize("start", ["a form of tomorrow", "", None])
def test_on_macos_a_start_that_says_nothing_doubts_nobody(
    claude: ClaudeFolder, monkeypatch: pytest.MonkeyPatch, start: str | None
) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    enter(claude, "1", procStart=start)

    assert len(list_open_sessions(claude)) == 1


def test_a_date_does_not_save_an_entry_that_is_older_than_its_process(
    claude: ClaudeFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    enter(claude, "1", procStart=lstart(OWN_START_S), startedAt=OWN_START_MS - 3_600_000)

    assert list_open_sessions(claude) == []


@pytest.mark.skipif(sys.platform != "linux", reason="other systems show it to few")
def test_of_a_clients_environment_only_what_moves_its_compaction_is_read(
    claude: ClaudeFolder, collector: Collector, store: Path
) -> None:
    environment = {
        "CLAUDE_CODE_AUTO_COMPACT_WINDOW": "150000",
        "DISABLE_COMPACT": "0",
        "ANTHROPIC_API_KEY": "sk-ant-very-secret",
    }
    with subprocess.Popen(
        [sys.executable, "-c", "import sys; print(flush=True); sys.stdin.read()"],
        env=os.environ | environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as client:
        assert client.stdout is not None
        client.stdout.readline()
        enter(claude, "1", pid=client.pid, startedAt=int(time.time() * 1000))
        collector.read_sidecars()
        client.communicate()

    assert dump(store)["client_environment"] == [
        (SESSION, "CLAUDE_CODE_AUTO_COMPACT_WINDOW", "150000"),
        (SESSION, "DISABLE_COMPACT", "0"),
    ]
    assert b"very-secret" not in store.read_bytes()

    enter(claude, "1")
    collector.read_sidecars()
    assert dump(store)["client_environment"] == [], "the session was resumed by another client"


@pytest.mark.parametrize(
    "fields",
    [
        {"status": ["busy"]},
        {"waitingFor": {"tool": "x"}},
        {"startedAt": -1},
        {"startedAt": 1 << 60},
        {"updatedAt": "now"},
        {"cwd": 7},
        {"tmux": 7, "version": 2, "nameSource": []},
    ],
)
def test_an_entry_with_odd_fields_is_that_of_an_open_session(
    claude: ClaudeFolder, fields: dict[str, Any]
) -> None:
    """Else ctxtop could take the session for closed, and edit it under its client."""
    enter(claude, "1", **{"waitingFor": None} | fields)
    (live,) = list_open_sessions(claude)

    assert (live.session_id, live.pid) == (SESSION, os.getpid())
    assert live.status == ("idle" if "status" in fields else "waiting")


def test_the_word_for_a_shell_in_the_background_is_idle_with_a_shell(claude: ClaudeFolder) -> None:
    """What asks whether a prompt can be typed wants the first, what is shown the second."""
    enter(claude, "1", status="shell", waitingFor=None)
    (live,) = list_open_sessions(claude)
    assert (live.status, live.has_shell) == ("idle", True)
    enter(claude, "1", status="idle", waitingFor=None)
    assert not list_open_sessions(claude)[0].has_shell


@pytest.mark.parametrize("fields", [{"spare": True}, {"kind": "daemon"}])
def test_a_process_that_waits_for_a_session_or_starts_some_is_none(
    claude: ClaudeFolder, fields: dict[str, object]
) -> None:
    enter(claude, "1", **fields)
    assert list_open_sessions(claude) == []
    enter(claude, "1", status="busy")
    assert len(list_open_sessions(claude)) == 1


@pytest.mark.parametrize(
    ("source", "is_given"),
    [("user", True), ("peer", True), ("hook", True), ("derived", False), ("auto", False)],
)
def test_a_name_counts_that_somebody_gave(
    claude: ClaudeFolder, source: str, is_given: bool
) -> None:
    entry = FULL | {"name": "depot", "nameSource": source}
    claude.sessions.mkdir()
    (claude.sessions / "1.json").write_text(json.dumps(entry))
    assert list_open_sessions(claude)[0].name == ("depot" if is_given else None)
