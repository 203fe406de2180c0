"""What stands beside the transcripts: the registry, and agents' meta.json."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import psutil
import pytest
from ctxtop.collectors.claude_code import registry
from ctxtop.collectors.claude_code.registry import list_open_sessions
from ctxtop.core.readers.fleet_reader import read_agents
from ctxtop.core.store.database import open_reader

from ..dump import dump
from ..transcripts import PROJECT, SESSION, START_MS, assistant, user, write

if TYPE_CHECKING:
    from ctxtop.collectors.collector_thread import Collector
    from ctxtop.collectors.locations.discover import ClaudeFolder
    from ctxtop.core.store.writer import Writer

    from ..recorder import Recorder

OWN_START_MS = int(psutil.Process().create_time() * 1000)


def enter(claude: ClaudeFolder, pid: int, **fields: object) -> Path:
    """Write an entry of the registry."""
    entry = {"pid": pid, "sessionId": SESSION.upper(), "startedAt": OWN_START_MS + 500}
    path = claude.sessions / f"{pid}.json"
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(entry | fields))
    return path


def dead_pid() -> int:
    with subprocess.Popen([sys.executable, "-c", ""]) as process:
        process.wait()
        return process.pid


def test_an_open_session(claude: ClaudeFolder) -> None:
    enter(claude, os.getpid(), status="waiting", tmux="a:@1.%2", name="mine", nameSource="user")
    (live,) = list_open_sessions(claude)

    assert (live.session_id, live.pid, live.status) == (SESSION, os.getpid(), "waiting")
    assert (live.tmux, live.name) == ("a:@1.%2", "mine")


def test_a_name_that_the_client_made_up_is_no_name(claude: ClaudeFolder) -> None:
    enter(claude, os.getpid(), name="proj-3", nameSource="derived")

    assert list_open_sessions(claude)[0].name is None


def test_a_process_that_has_ended_is_not_open(claude: ClaudeFolder) -> None:
    enter(claude, dead_pid())

    assert list_open_sessions(claude) == []


def test_a_number_that_another_process_took_over_is_not_open(claude: ClaudeFolder) -> None:
    enter(claude, os.getpid(), startedAt=OWN_START_MS - 3_600_000)

    assert list_open_sessions(claude) == []


@pytest.mark.skipif(sys.platform != "linux", reason="/proc")
def test_on_linux_the_start_in_ticks_decides(claude: ClaudeFolder) -> None:
    own = registry.linux_stat_field(os.getpid(), 22)
    assert own is not None
    assert own.isdecimal()

    enter(claude, os.getpid(), procStart=own, startedAt=1)
    assert len(list_open_sessions(claude)) == 1

    enter(claude, os.getpid(), procStart=str(int(own) + 1))
    assert list_open_sessions(claude) == []


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{",
        b"[]",
        b"\xff",
        b'{"pid":"1"}',
        b'{"pid":-1,"sessionId":"x"}',
        b'{"pid":0,"sessionId":"x"}',
        b'{"pid":99999999999999999999,"sessionId":"x"}',
        b'{"pid":1,"sessionId":"x","y":' + b"[" * 5000 + b"]" * 5000 + b"}",
    ],
)
def test_an_entry_that_is_none_is_passed_over(claude: ClaudeFolder, data: bytes) -> None:
    claude.sessions.mkdir()
    (claude.sessions / "1.json").write_bytes(data)
    enter(claude, os.getpid())

    assert [live.pid for live in list_open_sessions(claude)] == [os.getpid()]


def test_without_a_registry_nothing_is_open(claude: ClaudeFolder) -> None:
    assert list_open_sessions(claude) == []


def test_a_key_is_never_opened(claude: ClaudeFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    enter(claude, os.getpid())
    (claude.sessions / f"{os.getpid()}.{'ab' * 32}.key").write_text("secret")
    (claude.sessions / "link.json").symlink_to(claude.sessions / f"{os.getpid()}.{'ab' * 32}.key")
    opened: list[str] = []
    real = os.open

    def noted(path: str | Path, *args: int) -> int:
        descriptor = real(path, *args)
        opened.append(Path(path).name)
        return descriptor

    monkeypatch.setattr(os, "open", noted)
    list_open_sessions(claude)

    assert opened == [f"{os.getpid()}.json"]


def test_what_is_open_is_stored_and_told_once(
    claude: ClaudeFolder, collector: Collector, recorder: Recorder, store: Path
) -> None:
    write(claude.projects / PROJECT / f"{SESSION}.jsonl", [user()])
    path = enter(claude, os.getpid(), status="busy")
    collector.read_sidecars()
    collector.read_sidecars()
    assert [changed.session_ids for changed in recorder.changes] == [{SESSION}]
    assert [row[0] for row in dump(store)["live"]] == [SESSION]

    path.unlink()
    collector.read_sidecars()

    assert len(recorder.changes) == 2
    assert dump(store)["live"] == []


META = {
    "agentType": "reviewer",
    "description": "look\x1b[2J",
    "toolUseId": "t1",
    "spawnDepth": 2,
    "parentAgentId": "a0",
    "finished": True,
}


def test_an_agents_meta(claude: ClaudeFolder, collector: Collector, store: Path) -> None:
    folder = claude.projects / PROJECT / SESSION.upper() / "subagents"
    write(folder / "agent-a1.jsonl", [assistant("m1")])
    path = write(folder / "agent-a1.meta.json", [META])
    collector.scan()

    with closing(open_reader(store)) as db:
        (agent,) = read_agents(db, [], START_MS)
    assert (agent.agent_id, agent.session_id, agent.parent_agent_id) == ("a1", SESSION, "a0")
    assert (agent.agent_type, agent.description) == ("reviewer", "look[2J")

    write(path, [META | {"agentType": "tester"}])
    os.utime(path, ns=(0, 10**18))
    collector.scan()

    with closing(open_reader(store)) as db:
        assert [found.agent_type for found in read_agents(db, [], START_MS)] == ["tester"]


@pytest.mark.parametrize("data", [b"", b'{"agentType":', b"[]", b"\xff"])
def test_a_meta_that_is_not_whole_yet_is_read_when_it_is(
    claude: ClaudeFolder, collector: Collector, store: Path, data: bytes
) -> None:
    path = claude.projects / PROJECT / SESSION / "subagents" / "agent-a1.meta.json"
    path.parent.mkdir(parents=True)
    path.write_bytes(data)
    collector.scan()
    assert dump(store)["agent_meta"] == []

    write(path, [META])
    collector.scan()
    assert len(dump(store)["agent_meta"]) == 1


def test_a_meta_with_odd_fields_is_read_without_them(
    claude: ClaudeFolder, collector: Collector, store: Path
) -> None:
    path = claude.projects / PROJECT / SESSION / "subagents" / "agent-a1.meta.json"
    write(path, [META | {"spawnDepth": 10**30, "model": 5, "finished": "yes"}])
    collector.scan()
    (row,) = dump(store)["agent_meta"]
    assert "reviewer" in row
    assert row.count(None) >= 2


@pytest.mark.parametrize("field", ["stoppedByUser", "sweptByStop"])
def test_an_agent_that_a_person_stopped(
    claude: ClaudeFolder, collector: Collector, store: Path, field: str
) -> None:
    folder = claude.projects / PROJECT / SESSION / "subagents"
    write(folder / "agent-a1.jsonl", [assistant("m1")])
    write(folder / "agent-a1.meta.json", [META | {"finished": False, field: True}])
    collector.scan()
    with closing(open_reader(store)) as db:
        (agent,) = read_agents(db, [], START_MS)
    assert agent.status.value == "stopped"
    write(folder / "agent-a1.meta.json", [META | {"finished": False, field: False}])
    os.utime(folder / "agent-a1.meta.json", ns=(0, 10**18))
    collector.scan()
    with closing(open_reader(store)) as db:
        assert read_agents(db, [], START_MS)[0].status.value == "unknown"


def test_a_meta_that_did_not_change_is_not_read_again(
    claude: ClaudeFolder, collector: Collector, recorder: Recorder, writer: Writer
) -> None:
    path = claude.projects / PROJECT / SESSION / "subagents" / "agent-a1.meta.json"
    write(path, [META])
    for _ in range(3):
        collector.scan()
    type(collector)(claude, writer, recorder).scan()

    assert len(recorder.changes) == 1


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_a_process_that_ended_and_was_not_buried_is_not_live(claude: ClaudeFolder) -> None:
    child = subprocess.Popen([sys.executable, "-c", "pass"])
    try:
        # WNOWAIT leaves it as it is: dead, with its entry in /proc.
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
        text = Path(f"/proc/{child.pid}/stat").read_text(encoding="utf-8")
        start = text.rpartition(")")[2].split()[19]
        entry = {"pid": child.pid, "sessionId": "s", "status": "busy", "procStart": start}
        claude.sessions.mkdir(parents=True, exist_ok=True)
        (claude.sessions / "1.json").write_text(json.dumps(entry), encoding="utf-8")
        assert list_open_sessions(claude) == []
        (claude.sessions / "1.json").write_text(
            json.dumps(entry | {"procStart": None}), encoding="utf-8"
        )
        assert list_open_sessions(claude) == []
    finally:
        child.wait()
