"""What the hook gives a starting agent: with the store, without it, and in spite of it."""

from __future__ import annotations

import json
import sqlite3
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from ctxtop.collectors.claude_code import injection_sources
from ctxtop.collectors.claude_code.own_files import own_log_folder
from ctxtop.collectors.claude_code.transcripts import transcript_ends
from ctxtop.collectors.collector_thread import Collector
from ctxtop.collectors.locations.discover import ClaudeFolder
from ctxtop.collectors.plugin.answers.inject import answer
from ctxtop.collectors.plugin.hook_answer import HookCall
from ctxtop.collectors.plugin_files import hook_store, plugin_log
from ctxtop.core.store.database import open_reader
from ctxtop.core.store.queries.agent_queries import answer_items
from ctxtop.core.store.writer import Writer

from ..agents_at_work import called, write_agent
from ..recorder import Recorder
from ..transcripts import append, assistant, notification, text, user, write
from ..trusted_files import write_trusted

WORKER = "[COMPRESSED] agent_type: worker\nChanged files: a.py\nResult: The cart rounds."


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("CLAUDE_PROJECT_DIR", str(tmp_path))


@pytest.fixture
def session(tmp_path: Path) -> Path:
    path = tmp_path / "config" / "projects" / "-shop" / "11111111-0000-4000-8000-000000000000.jsonl"
    write(path, [user()])
    write_agent(path, "w1", WORKER)
    other = path.parent.parent / "-bank" / "22222222-0000-4000-8000-000000000000.jsonl"
    write(other, [user()])
    write_agent(other, "b1", "The bank's secret.", agentType="reviewer")
    return path


def call(tmp_path: Path, session: Path, **fields: object) -> HookCall:
    told = {
        "session_id": session.stem,
        "transcript_path": str(session),
        "cwd": str(tmp_path),
        "agent_id": "new",
        "agent_type": "reviewer",
    }
    return HookCall("SubagentStart", told | fields, tmp_path / "state" / "ctxtop.db", 0)


def asked(tmp_path: Path, session: Path, **fields: object) -> str:
    reply = answer(call(tmp_path, session, **fields))
    return reply.context if reply else ""


def faults(store: Path) -> list[str]:
    """What `ctxtop doctor` finds of answers that went wrong."""
    path = Path(plugin_log.fault_path(plugin_log.log_path(str(store), plugin_log.ANSWER_FAULTS)))
    return path.read_text().splitlines() if path.exists() else []


def scan(tmp_path: Path) -> Path:
    store = tmp_path / "state" / "ctxtop.db"
    with closing(Writer(store)) as writer:
        Collector(ClaudeFolder((tmp_path / "config").resolve()), writer, Recorder()).scan()
    return store


def test_without_a_store(tmp_path: Path, session: Path) -> None:
    said = asked(tmp_path, session)
    assert "The cart rounds." in said
    assert "secret" not in said
    assert not (tmp_path / "state" / "ctxtop.db").exists()
    assert faults(tmp_path / "state" / "ctxtop.db") == []


def test_what_only_the_store_knows(tmp_path: Path, session: Path) -> None:
    write(session, [notification("gone", "Found long ago.", status="completed")])
    scan(tmp_path)
    write(session, [user()])
    said = asked(tmp_path, session)
    assert "Found long ago." in said
    assert "The cart rounds." in said
    assert "secret" not in said


def test_what_is_fresher_than_the_store(tmp_path: Path, session: Path) -> None:
    scan(tmp_path)
    write_agent(session, "w2", "Done a moment ago.")
    assert "Done a moment ago." in asked(tmp_path, session)


def test_a_fault_in_one_agents_file_costs_no_other_agents_result(
    tmp_path: Path, session: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_agent(session, "w2", "Done a moment ago.")
    real = transcript_ends.answer_texts

    def read_or_fail(lines: Any) -> Any:  # noqa: ANN401 -- as answer_texts
        found = list(lines)
        if any(b"Done a moment ago." in line for line in found):
            raise IndexError("planted")
        return real(found)

    monkeypatch.setattr(transcript_ends, "answer_texts", read_or_fail)
    said = asked(tmp_path, session)
    assert "The cart rounds." in said
    assert "Done a moment ago." not in said
    (fault,) = faults(tmp_path / "state" / "ctxtop.db")
    assert "agent-w2.jsonl: not read (IndexError: planted" in fault


def test_a_fault_in_the_sessions_tasks_costs_no_agents_result(
    tmp_path: Path, session: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_: object) -> None:
        raise IndexError("planted")

    monkeypatch.setattr(injection_sources, "read_tasks", fail)
    assert "The cart rounds." in asked(tmp_path, session)
    (fault,) = faults(tmp_path / "state" / "ctxtop.db")
    assert "not read (IndexError: planted" in fault


@pytest.mark.parametrize("content", [b"", b"no store", b"SQLite format 3\0" + b"x" * 5000])
def test_a_store_that_is_none(tmp_path: Path, session: Path, content: bytes) -> None:
    store = tmp_path / "state" / "ctxtop.db"
    store.parent.mkdir()
    store.write_bytes(content)
    assert "The cart rounds." in asked(tmp_path, session)
    assert store.read_bytes() == content
    (fault,) = faults(store)
    assert "store: DatabaseError" in fault or "store: OperationalError" in fault


def test_a_store_that_another_process_holds(tmp_path: Path, session: Path) -> None:
    store = scan(tmp_path)
    began = time.monotonic()
    asked(tmp_path, session)
    usual_s = time.monotonic() - began
    with closing(sqlite3.connect(store, isolation_level=None)) as holder:
        holder.execute("PRAGMA journal_mode = DELETE")
        holder.execute("PRAGMA locking_mode = EXCLUSIVE")
        holder.execute("BEGIN EXCLUSIVE")
        began = time.monotonic()
        assert "The cart rounds." in asked(tmp_path, session)
        assert time.monotonic() - began < 2 + usual_s


def test_a_compliant_message_that_a_later_one_replaced(tmp_path: Path, session: Path) -> None:
    path = write_agent(session, "w1", WORKER)
    append(path, [assistant("m9", content=[text("Done.")], at=9, isSidechain=True)])
    write(session, [notification("w1", "Done.", status="completed", at=9)])
    scan(tmp_path)
    from_file = asked(tmp_path, session)
    path.unlink()
    for said in (from_file, asked(tmp_path, session)):
        assert "| Result: The cart rounds." in said
        assert "its last compliant message, which a later one replaced" in said
        assert "Done." not in said


def test_agents_that_run_or_failed_are_not_given(tmp_path: Path, session: Path) -> None:
    write_agent(session, "w1", WORKER, finished=None)
    assert asked(tmp_path, session) == ""
    write(session, [notification("w1", WORKER, status="killed")])
    write_agent(session, "w1", WORKER)
    assert asked(tmp_path, session) == ""
    write(session, [notification("w1", WORKER, status="completed")])
    assert "The cart rounds." in asked(tmp_path, session)


def test_one_that_was_killed_in_an_earlier_session(tmp_path: Path, session: Path) -> None:
    write(session, [user()])
    write_agent(session, "w1", "", finished=True)
    earlier = session.with_name("33333333-0000-4000-8000-000000000000.jsonl")
    write(earlier, [notification("r1", "Half of it.", status="killed", at=9)])
    write_agent(earlier, "r1", "Half of it.", agentType="reviewer")
    assert "Half of it." in asked(tmp_path, session)
    scan(tmp_path)
    assert "Half of it." not in asked(tmp_path, session)


def test_one_that_was_sent_another_message_runs_again(tmp_path: Path, session: Path) -> None:
    write(session, [notification("w1", WORKER, at=5)])
    path = write_agent(session, "w1", WORKER)
    assert "The cart rounds." in asked(tmp_path, session)
    append(path, [assistant("again", content=[text("Half a thought.")], at=9, isSidechain=True)])
    assert asked(tmp_path, session) == ""


def test_a_store_that_takes_long_is_left_alone(
    tmp_path: Path, session: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(session, [user("Go on."), notification("gone", "Found long ago.")])
    scan(tmp_path)
    write(session, [user()])
    monkeypatch.setattr(hook_store, "QUERY_TIMEOUT_S", -1.0)
    monkeypatch.setattr(hook_store, "PROGRESS_STEPS", 1)
    said = asked(tmp_path, session)
    assert "The cart rounds." in said
    assert "Found long ago." not in said


def test_an_earlier_session_of_the_project(tmp_path: Path, session: Path) -> None:
    earlier = write(session.with_name("33333333-0000-4000-8000-000000000000.jsonl"), [user()])
    write_agent(earlier, "r1", "Reviewed then.", agentType="reviewer")
    assert "Reviewed then." in asked(tmp_path, session)


def test_tags_of_the_definition_and_of_the_task(tmp_path: Path, session: Path) -> None:
    earlier = write(session.with_name("33333333-0000-4000-8000-000000000000.jsonl"), [user()])
    write_agent(earlier, "f1", "About payment.", agentType="front", prompt="tags: payment\nDo.")
    write_agent(earlier, "f2", "About search.\ntags: search", agentType="front")
    head = "---\nname: reviewer\ntags: [payment, cart]\n---\ntags: search\n"
    definition = tmp_path / ".claude" / "agents" / "reviewer.md"
    definition.parent.mkdir(parents=True)
    definition.write_text(head)
    said = asked(tmp_path, session)
    assert "About payment." in said
    assert "About search." not in said
    assert "tagged payment" in said


def test_its_tasks(tmp_path: Path, session: Path) -> None:
    lines = called(
        "TaskCreate",
        "t1",
        "Task #1 created successfully",
        subject="Fix the cart",
        description="all",
    )
    lines += called("TaskUpdate", "t2", taskId="1", owner="reviewer")
    lines += called("TaskCreate", "t3", "Task #2 created successfully", subject="Not for this one")
    lines += called("ExitPlanMode", "t4", plan="First the cart.")
    write(session, lines)
    said = asked(tmp_path, session)
    assert "| [pending] Fix the cart: all" in said
    assert "| Plan: First the cart." in said
    assert "Not for this one" not in said


@pytest.mark.parametrize(
    "fields",
    [
        {"agent_type": ""},
        {"agent_type": None},
        {"transcript_path": 7},
        {"transcript_path": "/nowhere/at/all.jsonl"},
        {"transcript_path": "/etc/passwd"},
        {"transcript_path": "\0.jsonl"},
    ],
)
def test_what_names_no_agent_is_given_nothing(
    tmp_path: Path, session: Path, fields: dict[str, object]
) -> None:
    assert asked(tmp_path, session, **fields) == ""


def test_another_event_is_not_answered(tmp_path: Path, session: Path) -> None:
    told = call(tmp_path, session)
    assert answer(HookCall("SubagentStop", told.fields, told.store, 0)) is None


def test_the_policy_switches_it_off(tmp_path: Path, session: Path) -> None:
    (tmp_path / ".ctxtop.toml").write_text('[policy]\ndisabled_modules = ["injection"]\n')
    assert asked(tmp_path, session) == ""


def test_the_policy_bounds_it(tmp_path: Path, session: Path) -> None:
    write_trusted(tmp_path, "[injection]\nbudget = 50\n")
    assert asked(tmp_path, session) == ""


def test_no_link_is_followed(tmp_path: Path, session: Path) -> None:
    agents = session.with_suffix("") / "subagents"
    secret = write_agent(tmp_path / "secret.jsonl", "s1", "Not for you.")
    (agents / "agent-s1.jsonl").symlink_to(secret)
    (agents / "agent-s1.meta.json").write_text(json.dumps({"agentType": "w", "finished": True}))
    assert "Not for you." not in asked(tmp_path, session)


def calling(fields: bytes) -> bytes:
    head = b'{"type": "assistant", "message": {"content": [{"type": "tool_use", '
    return head + fields + b"}]}}"


@pytest.mark.parametrize(
    "line",
    [
        b'{"type": "user", "uuid": 7, "toolUseResult": {"agentId": "w1"}}',
        b'{"type": "user", "toolUseResult": "<task-notification>"',
        calling(b'"name": "TaskCreate", "id": 5, "input": ["no"]'),
        calling(b'"name": "TaskUpdate", "id": "t", "input": {"taskId": [], "owner": {}}'),
        b"\xff\xfe\x00 no text",
        b"[" * 100_000,
    ],
)
def test_what_no_client_writes_is_in_the_way_of_nothing(
    tmp_path: Path, session: Path, line: bytes
) -> None:
    write(session, [user(), line, notification("w1", WORKER)])
    path = write_agent(session, "w1", WORKER)
    append(path, [line])
    assert "The cart rounds." in asked(tmp_path, session)


def test_a_torn_end_is_no_result(tmp_path: Path, session: Path) -> None:
    path = write_agent(session, "w2", "Whole.")
    with path.open("a") as file:
        file.write('{"type": "assistant", "message": {"content": [{"type": "text", "te')
    assert "Whole." in asked(tmp_path, session)


def test_what_was_given_is_in_the_store_once(tmp_path: Path, session: Path) -> None:
    asked(tmp_path, session)
    store = scan(tmp_path)
    scan(tmp_path)
    with closing(open_reader(store)) as db:
        (row,) = answer_items(db, "inject", session.stem)
    assert (row.agent_id, row.kind, row.from_agent_id) == ("new", "sibling", "w1")
    assert row.text == "finished in this session under the same parent"
    assert 0 < (row.tokens or 0) < 200
    (log,) = own_log_folder(store).glob("answers.jsonl")
    assert log.stat().st_mode & 0o777 == 0o600
