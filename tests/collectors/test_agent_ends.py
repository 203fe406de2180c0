"""How agents end that no notification tells of, and what is no agent's end at all."""

# ruff: noqa: ANN401 -- any field may be named

from __future__ import annotations

import json
from contextlib import closing
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest
from ctxtop.collectors.claude_code.injection_sources import read_session_agents
from ctxtop.core.injection.context_selection import RunOutcome
from ctxtop.core.measure.agent_building import ZOMBIE_AFTER_MS
from ctxtop.core.model.agent import Agent, AgentStatus
from ctxtop.core.readers.fleet_reader import read_agents, read_sessions
from ctxtop.core.store.closed_agents import close_agent
from ctxtop.core.store.database import open_reader
from ctxtop.core.store.queries import context_queries, session_queries
from ctxtop.core.store.queries.agent_queries import count_agents
from ctxtop.core.store.writer import Writer
from msgspec.structs import replace

from ..agents_at_work import write_agent
from ..logs import line, lines, log_file
from ..stored import stored_summaries
from ..transcripts import (
    PROJECT,
    SESSION,
    START_MS,
    JsonLine,
    append,
    assistant,
    attachment,
    chained,
    encode,
    launch,
    launched,
    notification,
    tool,
    tool_result,
    user,
    write,
)

if TYPE_CHECKING:
    from pathlib import Path

    from ctxtop.collectors.collector_thread import Collector
    from ctxtop.collectors.locations.discover import ClaudeFolder

NAME = "ascout-04fd8affe7468d2c"


@pytest.fixture
def path(claude: ClaudeFolder) -> Path:
    return claude.projects / PROJECT / f"{SESSION}.jsonl"


@pytest.fixture
def subagents(path: Path) -> Path:
    return path.with_suffix("") / "subagents"


def agents(store: Path) -> list[Agent]:
    with closing(open_reader(store)) as db:
        return read_agents(db, read_sessions(db, START_MS), START_MS)


def ends(store: Path, agent_id: str | None = None) -> list[tuple[str, str]]:
    with closing(open_reader(store)) as db:
        rows = context_queries.returns(db, SESSION, agent_id)
    return [(row.agent_id, row.status) for row in rows]


def texts(store: Path) -> list[tuple[str | None, str]]:
    with closing(open_reader(store)) as db:
        return [(row.agent_id, row.text) for row in stored_summaries(db) if row.kind == "agent"]


def failed(tool_use_id: str, words: str, said: object, **fields: Any) -> JsonLine:
    """A tool call that failed."""
    block = {
        "type": "tool_result",
        "tool_use_id": tool_use_id,
        "content": words,
        "is_error": True,
    }
    return user([block], toolUseResult=said, **fields)


def output(task_id: str, status: str, result: str | None = None, **task: Any) -> JsonLine:
    """What TaskOutput returned of a background task."""
    said = {
        "retrieval_status": "success" if status != "running" else "timeout",
        "task": {
            "task_id": task_id,
            "task_type": "local_agent",
            "status": status,
            "description": "look",
            "output": result or "",
        }
        | ({} if result is None else {"result": result})
        | task,
    }
    return tool_result(f"ask_{task_id}", "<status>…</status>", said, at=8)


def meta(folder: Path, agent_id: str, **fields: Any) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"agent-{agent_id}.meta.json").write_text(json.dumps(fields), encoding="utf-8")


def test_a_to_do_that_is_updated_is_no_agent(path: Path, collector: Collector, store: Path) -> None:
    update = {
        "success": True,
        "taskId": "1",
        "updatedFields": ["status"],
        "statusChange": {"from": "pending", "to": "completed"},
    }
    workflow = {"status": "async_launched", "taskId": "w1", "taskType": "local_workflow"}
    lines = [
        assistant(content=[tool("TaskUpdate", "t1", taskId="1", status="completed")]),
        tool_result("t1", "Updated task #1 status", update),
        assistant("msg_2", content=[tool("Workflow", "t2", script="build")]),
        tool_result("t2", "launched", workflow),
    ]
    write(path, lines)
    collector.scan()

    assert (agents(store), ends(store)) == ([], [])


@pytest.mark.parametrize(
    "summary",
    [
        'Background command "make test" completed (exit code 0)',
        'Monitor "the log" ended',
        'Agent "look" was resumed by the user',
    ],
)
def test_a_notification_that_tells_of_no_agents_end(
    path: Path, collector: Collector, store: Path, summary: str
) -> None:
    status = "" if "resumed" in summary else "<status>completed</status>\n"
    words = (
        "<task-notification>\n<task-id>b1x2y3z4w</task-id>\n<tool-use-id>t1</tool-use-id>\n"
        f"{status}<summary>{summary}</summary>\n</task-notification>"
    )
    write(path, [user(words, origin={"kind": "task-notification"})])
    collector.scan()

    assert (agents(store), ends(store)) == ([], [])


def test_a_result_that_was_asked_for(path: Path, collector: Collector, store: Path) -> None:
    lines = [launch("t1", at=1), launched("t1", "a1234567", at=2), output("a1234567", "running")]
    write(path, lines)
    collector.scan()
    assert ends(store) == []

    append(path, [output("a1234567", "completed", "found\nit"), output("b1", "completed", "x")])
    collector.scan()

    (agent,) = agents(store)
    assert (agent.agent_id, agent.status) == ("a1234567", AgentStatus.COMPLETED)
    assert agent.result is not None
    assert (agent.result.text, agent.result.lines) == ("found\nit", 2)
    assert ends(store)[0] == ("a1234567", "completed")


def test_what_a_shell_put_out_is_no_agents_result(
    path: Path, collector: Collector, store: Path
) -> None:
    write(path, [user(), output("b1234567", "completed", "ok", task_type="local_bash")])
    collector.scan()

    assert (agents(store), ends(store), texts(store)) == ([], [], [])


@pytest.mark.parametrize("again", [2, 3])
def test_a_result_that_comes_twice_is_one(
    path: Path, collector: Collector, store: Path, again: int
) -> None:
    asked = [output("a1234567", "completed", "found it")] * again
    told = notification("a1234567", "found it", tool_use_id="t1", at=7)
    write(path, [launch("t1", at=1), launched("t1", "a1234567", at=2), told, *asked])
    collector.scan()

    assert ends(store) == [("a1234567", "completed")]
    assert texts(store) == [("a1234567", "found it")]


def test_an_agent_that_brings_more_later_has_two_results(
    path: Path, collector: Collector, store: Path
) -> None:
    told = notification("a1234567", "found it", tool_use_id="t1", at=7)
    asked = output("a1234567", "completed", "and more")
    write(path, [launch("t1", at=1), launched("t1", "a1234567", at=2), told, asked])
    collector.scan()

    assert len(ends(store)) == 2
    (agent,) = agents(store)
    assert agent.result is not None
    assert agent.result.text == "and more"


def test_a_transcript_that_was_put_out_is_no_result(
    path: Path, collector: Collector, store: Path
) -> None:
    whole = encode([user("look", isSidechain=True), assistant()]).decode()
    asked = output("a1234567", "completed", output=whole)
    write(path, [launch("t1", at=1), launched("t1", "a1234567", at=2), asked])
    collector.scan()

    assert [(each.status, each.result) for each in agents(store)] == [(AgentStatus.COMPLETED, None)]


def test_an_agent_that_was_stopped(path: Path, collector: Collector, store: Path) -> None:
    said = {"message": "Successfully stopped task", "task_id": "a1234567"}
    stopped = tool_result("t2", "stopped", said | {"task_type": "local_agent"}, at=9)
    shell = tool_result("t3", "stopped", said | {"task_id": "b1", "task_type": "local_bash"})
    write(path, [launch("t1", at=1), launched("t1", "a1234567", at=2), stopped, shell])
    collector.scan()

    assert [agent.status for agent in agents(store)] == [AgentStatus.STOPPED]
    assert ends(store) == [("a1234567", "stopped")]


REFUSED = "The user doesn't want to proceed with this tool use. The tool use was rejected"
CUT = "[Request interrupted by user for tool use]"
FAILURES = {
    "a person": ((REFUSED, "User rejected tool use", {}), "rejected", "stopped"),
    "a person, by kind": (("No.", "x", {"toolDenialKind": "user-rejected"}), "rejected", "stopped"),
    "a rule": (("Permission to use Agent has been denied.", "Error: x", {}), "rejected", "stopped"),
    "a hook": (("Hook PreToolUse:Agent denied this tool", "x", {}), "rejected", "stopped"),
    "an interruption": ((CUT, f"Error: {CUT}", {}), "never_started", "stopped"),
    "the client's end": (
        ("[Agent call interrupted: the process stopped]", "x", {"toolDenialKind": "interrupted"}),
        "never_started",
        "stopped",
    ),
    "no such type": (("Agent type 'x' not found.", "Error: x", {}), "never_started", "failed"),
}


@pytest.mark.parametrize("why", FAILURES)
def test_a_call_that_started_no_agent_and_one_that_was_cut_short(
    path: Path, subagents: Path, collector: Collector, store: Path, why: str
) -> None:
    (words, said, fields), never, begun = FAILURES[why]
    other = [assistant("m2", content=[tool("Bash", "t9")]), failed("t9", words, said, at=9)]
    write(path, [launch("t1", at=1), failed("t1", words, said, at=5, **fields), *other])
    collector.scan()
    (agent,) = agents(store)
    assert (agent.agent_id, agent.status) == ("t1", AgentStatus(never))
    assert [name for name, _ in ends(store)] == ["t1"], "other tools fail too"

    # The same words, of an agent that had begun: without a meta.json its prompt names the call.
    write(subagents / "agent-a1.jsonl", [user("?", at=2), assistant("a_m1", at=3)])
    collector.scan()
    (agent,) = agents(store)
    assert (agent.agent_id, agent.status) == ("a1", AgentStatus(begun))
    with closing(open_reader(store)) as db:
        assert read_sessions(db, START_MS)[0].agents == 1


def test_a_call_without_any_answer_never_started_an_agent(
    path: Path, collector: Collector, store: Path
) -> None:
    write(path, [launch("t1", at=1)])
    collector.scan()

    (agent,) = agents(store)
    assert (agent.status, agent.status.label) == (AgentStatus.NEVER_STARTED, "never started")


def test_agents_that_warm_the_cache_are_not_listed(
    path: Path, subagents: Path, collector: Collector, store: Path
) -> None:
    write(path, [user(), assistant("m1", 1000)])
    for name in ("w1", "w2"):
        write(subagents / f"agent-{name}.jsonl", [user("Warmup"), assistant(f"{name}_m", 5000)])
    collector.scan()

    with closing(open_reader(store)) as db:
        assert read_agents(db, read_sessions(db, START_MS), START_MS) == []
        assert read_sessions(db, START_MS)[0].agents == 0
        assert session_queries.store_counts(db)["files"] == 3

    append(path, [assistant("m2", content=[tool("Task", "t1", description="d", prompt="Warmup")])])
    collector.scan()
    assert {agent.tool_use_id for agent in agents(store)} == {"t1"}, "somebody asked for it"


def spawned(tool_use_id: str, agent_id: str, name: str, **fields: Any) -> JsonLine:
    """What the client answers when a teammate is started (seen with client 2.1.329)."""
    said = {
        "status": "teammate_spawned",
        "prompt": "?",
        "agentId": agent_id,
        "teammate_id": f"{name}@session-11111111",
        "agent_id": agent_id,
        "agent_type": "worker",
        "name": name,
        "team_name": "session-11111111",
    }
    return tool_result(tool_use_id, "Spawned successfully.", said, **fields)


def message(name: str, words: str) -> str:
    return f'<teammate-message teammate_id="{name}" color="blue">\n{words}\n</teammate-message>'


def idle(name: str, **fields: Any) -> str:
    said = {"type": "idle_notification", "from": name, "timestamp": "t", "idleReason": "available"}
    return message(name, json.dumps(said | fields))


def mail(*messages: str) -> str:
    """As client 2.1.329 hands messages to the session that leads."""
    words = "\n\n".join(messages)
    return f"Another Claude session sent a message:\n{words}\n\nThis came from another Claude"


@pytest.fixture
def team(path: Path, subagents: Path) -> Path:
    """A session that leads one teammate, which has its task and has answered."""
    write(path, [user(), launch("t1", "worker", at=1), spawned("t1", NAME, "scout", at=2)])
    meta(
        subagents,
        NAME,
        agentType="scout",
        name="scout",
        description="look",
        spawnDepth=0,
        taskKind="in_process_teammate",
        customAgentType="worker",
        spawnedAgentType="worker",
    )
    asked = user(message("team-lead", "Scout the code."), at=3, isSidechain=True)
    own = subagents / f"agent-{NAME}.jsonl"
    return write(own, [asked, assistant("s_m1", at=4, isSidechain=True)])


def test_a_teammates_result_is_what_it_says_to_its_lead(
    path: Path, team: Path, collector: Collector, store: Path
) -> None:
    append(path, [user(mail(idle("scout", result="I found it.\nAll of it.")), at=5)])
    collector.scan()

    (agent,) = agents(store)
    assert (agent.agent_id, agent.agent_type) == (NAME, "worker")
    assert (agent.status, agent.tool_use_id) == (AgentStatus.COMPLETED, "t1")
    assert agent.result is not None
    assert agent.result.text == "I found it.\nAll of it."
    assert texts(store) == [(NAME, "I found it.\nAll of it.")]
    assert ends(store) == [(NAME, "completed")]
    assert ends(store, NAME) == [], "what it was asked is no return"
    with closing(open_reader(store)) as db:
        session = read_sessions(db, START_MS)[0]
    assert (session.agents, session.title) == (1, "fix the parser")


@pytest.mark.parametrize(
    ("frame", "status", "text"),
    [
        ({"idleReason": "interrupted"}, AgentStatus.STOPPED, None),
        ({"idleReason": "failed", "failureReason": "no model"}, AgentStatus.FAILED, "no model"),
        ({"completedStatus": "failed", "result": "no"}, AgentStatus.FAILED, "no"),
        ({"type": "shutdown_approved", "requestId": "s-1"}, AgentStatus.COMPLETED, None),
        ({"type": "permission_request"}, AgentStatus.UNKNOWN, None),
    ],
)
def test_how_a_teammate_ends(
    path: Path,
    team: Path,
    collector: Collector,
    store: Path,
    frame: dict[str, str],
    status: AgentStatus,
    text: str | None,
) -> None:
    append(path, [user(mail(idle("scout", **frame)), at=5)])
    collector.scan()

    (agent,) = agents(store)
    assert (agent.status, agent.result and agent.result.text) == (status, text)


def test_a_teammate_that_failed_and_was_then_shut_down_has_failed(
    path: Path, team: Path, collector: Collector, store: Path
) -> None:
    append(path, [user(mail(idle("scout", idleReason="failed")), at=5)])
    append(path, [user(mail(idle("scout", type="shutdown_approved")), at=60)])
    collector.scan()

    assert [agent.status for agent in agents(store)] == [AgentStatus.FAILED]
    assert ends(store) == [(NAME, "failed")]


def test_a_teammate_that_is_asked_again_is_at_work_again(
    path: Path, team: Path, collector: Collector, store: Path
) -> None:
    append(path, [user(mail(idle("scout", result="first")), at=5)])
    append(team, [user(message("team-lead", "more"), at=30), assistant("s_m2", at=31)])
    collector.scan()
    with closing(open_reader(store)) as db:
        live = [replace(each, live=True) for each in read_sessions(db, START_MS)]
        assert [agent.status for agent in read_agents(db, live, START_MS)] == [AgentStatus.RUNNING]

    append(path, [user(mail(idle("scout", result="second")), at=32)])
    collector.scan()
    (agent,) = agents(store)
    assert agent.status is AgentStatus.COMPLETED
    assert agent.result is not None
    assert agent.result.text == "second"


def test_the_end_of_a_session_that_a_hook_recorded_ends_its_agents(
    path: Path, collector: Collector, store: Path
) -> None:
    write(path, [user(), launch("t1", "look", at=1)])
    worker = write_agent(path, "w1", "Half a thought.", finished=None, toolUseId="t1")
    told = line(START_MS + 60_000, hook_event_name="SessionEnd", session_id=SESSION)
    log_file(store).write_bytes(lines([told]))
    collector.scan()
    (agent,) = agents(store)
    assert (agent.agent_id, agent.status_label) == ("w1", "completed (session end)")

    append(worker, [assistant("m2", timestamp="2099-01-01T00:00:00Z", isSidechain=True)])
    collector.scan()
    assert agents(store)[0].status is AgentStatus.UNKNOWN


def test_a_silent_agent_is_closed_by_hand(
    path: Path, collector: Collector, store: Path, claude: ClaudeFolder
) -> None:
    write(path, [user(), launch("t1", "look", at=1)])
    worker = write_agent(path, "w1", "Half a thought.", finished=None, toolUseId="t1")
    collector.scan()
    now_ms = START_MS + 10 * ZOMBIE_AFTER_MS

    def status() -> AgentStatus:
        with closing(open_reader(store)) as db:
            live = [replace(each, live=True) for each in read_sessions(db, now_ms)]
            return read_agents(db, live, now_ms)[0].status

    assert status() is AgentStatus.ZOMBIE
    with closing(Writer(store)) as writer:
        close_agent(writer.connection, SESSION, "w1", now_ms - 1_000)
    assert status() is AgentStatus.CLOSED
    wrote = datetime.fromtimestamp(now_ms / 1_000, UTC).isoformat()
    append(worker, [assistant("m2", timestamp=wrote, isSidechain=True)])
    collector.scan()
    assert status() is AgentStatus.RUNNING


@pytest.mark.parametrize(
    ("stop_reason", "hook", "status"),
    [
        ("end_turn", False, AgentStatus.COMPLETED),
        ("tool_use", False, AgentStatus.ZOMBIE),
        (None, False, AgentStatus.ZOMBIE),
        (None, True, AgentStatus.COMPLETED),
    ],
)
def test_an_agent_whose_notification_was_lost_ended_with_its_answer_or_its_hook(
    path: Path,
    collector: Collector,
    store: Path,
    stop_reason: str | None,
    hook: bool,
    status: AgentStatus,
) -> None:
    write(path, [user(), launch("t1", "look", at=1), launched("t1", "w1", at=2)])
    write_agent(path, "w1", "Done.", finished=None, toolUseId="t1")
    answer = assistant("m9", at=30, isSidechain=True)
    answer["message"]["stop_reason"] = stop_reason
    append(path.with_suffix("") / "subagents" / "agent-w1.jsonl", [answer])
    if hook:
        stopped = {"hook_event_name": "SubagentStop", "agent_id": "w1", "session_id": SESSION}
        log_file(store).write_bytes(lines([line(START_MS + 31_000, **stopped)]))
    collector.scan()
    now_ms = START_MS + 10 * ZOMBIE_AFTER_MS
    with closing(open_reader(store)) as db:
        live = [replace(each, live=True) for each in read_sessions(db, now_ms)]
        (agent,) = read_agents(db, live, now_ms)
    assert agent.status is status


def test_agents_of_the_clients_own_are_listed_and_not_counted(
    path: Path, collector: Collector, store: Path
) -> None:
    write(path, [user(), launch("t1", "look", at=1), assistant("m2", at=5)])
    write_agent(path, "a0123456789abcdef", "Done.", toolUseId="t1")
    for name in ("acompact-0123456789abcdef", "aside_question-0123456789abcdef"):
        write(
            path.with_suffix("") / "subagents" / f"agent-{name}.jsonl",
            [user(isSidechain=True), assistant(name, at=3, isSidechain=True)],
        )
    collector.scan()
    with closing(open_reader(store)) as db:
        (session,) = read_sessions(db, START_MS)
        found = read_agents(db, [session], START_MS)
        counted = count_agents(db)
    assert sorted(each.agent_type for each in found) == ["compaction", "side question", "worker"]
    assert (session.agents, counted) == (1, 1)


def test_messages_of_several_teammates_in_one_line(
    path: Path, team: Path, collector: Collector, store: Path
) -> None:
    append(path, [launch("t2", "worker", at=3), spawned("t2", "abuilder-2", "builder", at=4)])
    said = mail(message("scout", "half way"), idle("builder", result="built"), idle("scout"))
    append(path, [user(said, at=6)])
    collector.scan()

    found = {agent.agent_id: agent for agent in agents(store)}
    assert [found[name].status for name in (NAME, "abuilder-2")] == [AgentStatus.COMPLETED] * 2
    assert sorted(texts(store)) == [("abuilder-2", "built"), (NAME, "half way")]


def test_messages_that_came_in_the_middle_of_a_turn(
    path: Path, team: Path, collector: Collector, store: Path
) -> None:
    body = json.dumps({"type": "idle_notification", "from": "scout", "result": "found"})
    letters = [{"from": "scout", "text": body, "timestamp": "t"}]
    append(path, [attachment("teammate_mailbox", messages=letters, recipientIsLead=True)])
    collector.scan()

    assert texts(store) == [(NAME, "found")]
    assert ends(store) == [(NAME, "completed")]


def test_a_name_that_is_given_again_means_the_newest(
    path: Path, team: Path, collector: Collector, store: Path
) -> None:
    append(path, [user(mail(idle("scout", result="old")), at=5)])
    append(path, [launch("t2", "worker", at=10), spawned("t2", "ascout-2", "scout", at=11)])
    append(path, [user(mail(idle("scout", result="new")), at=12)])
    collector.scan()

    assert sorted(texts(store)) == [(NAME, "old"), ("ascout-2", "new")]


def test_a_person_who_quotes_a_message_says_nothing_for_a_teammate(
    path: Path, team: Path, collector: Collector, store: Path
) -> None:
    append(path, [user("Why did I get " + idle("scout", result="x"), at=5)])
    append(path, [chained("user", 6, message={"role": "user", "content": "go on"})])
    collector.scan()

    assert texts(store) == []


def test_an_agent_that_starts_is_told_of_a_teammates_result(path: Path, team: Path) -> None:
    append(team, [assistant("s_m2", at=4, content=[{"type": "text", "text": "I found it."}])])
    line = encode([user(mail(idle("scout", result="I found it.")), at=5)])

    (past,) = read_session_agents(path, [line])
    assert (past.agent_type, past.outcome) == ("worker", RunOutcome.FINISHED)
