"""Agents of four eras: what started each, what it cost, and what it returned."""

# ruff: noqa: ANN401 -- any field may be named

from __future__ import annotations

import json
import random
from contextlib import closing
from typing import TYPE_CHECKING, Any

import pytest
from ctxtop.core.measure.stored_tokens import tokens_or_estimate
from ctxtop.core.model.agent import Agent, AgentStatus
from ctxtop.core.model.answer_facts import TokenUsage
from ctxtop.core.model.context import ContextState
from ctxtop.core.readers.fleet_reader import read_agents, read_sessions
from ctxtop.core.readers.summary_reader import find_summaries, read_summary_rows
from ctxtop.core.store.database import open_reader
from ctxtop.core.store.queries import context_queries, session_queries, spending_queries
from ctxtop.core.store.writer import Writer
from ctxtop.core.summaries.summary_search import SummaryCriteria

from ..dump import FILE_STATE, dump
from ..recorder import Recorder
from ..stored import stored_summaries
from ..transcripts import (
    MODEL,
    PROJECT,
    SESSION,
    START_MS,
    JsonLine,
    agent_result,
    append,
    assistant,
    attachment,
    chained,
    launch,
    launched,
    notification,
    notification_text,
    text,
    time,
    tool,
    tool_result,
    usage,
    user,
    write,
)
from ..usage import progress_usage, usage_of_sessions

if TYPE_CHECKING:
    from pathlib import Path

    from ctxtop.collectors.collector_thread import Collector
    from ctxtop.collectors.locations.discover import ClaudeFolder

OTHER = "22222222-2222-4333-8444-555555555555"


@pytest.fixture
def path(claude: ClaudeFolder) -> Path:
    return claude.projects / PROJECT / f"{SESSION}.jsonl"


@pytest.fixture
def subagents(path: Path) -> Path:
    return path.with_suffix("") / "subagents"


def agents(store: Path) -> list[Agent]:
    with closing(open_reader(store)) as db:
        return read_agents(db, read_sessions(db, START_MS), START_MS)


def spent_by_agents(store: Path) -> int:
    """Sum the input side and the output of all agents."""
    parts = [agent.usage for agent in agents(store) if agent.usage]
    return sum(
        part.input_tokens + part.cache_creation_tokens + part.cache_read_tokens + part.output_tokens
        for part in parts
    )


def task(tool_use_id: str, prompt: str, **fields: Any) -> JsonLine:
    """A call of the Task tool."""
    call = tool("Task", tool_use_id, subagent_type="Explore", description="d", prompt=prompt)
    fields.setdefault("message_id", f"msg_{tool_use_id}")
    return assistant(content=[call], **fields)


def task_result(tool_use_id: str, words: str, **fields: Any) -> JsonLine:
    """A result of clients up to 2.0: it does not name the agent."""
    result = {
        "content": [text(words)],
        "totalDurationMs": 900,
        "totalTokens": 2100,
        "totalToolUseCount": 4,
        "usage": usage(2000, 100),
    }
    return tool_result(tool_use_id, words, result, **fields)


def aside(prompt: str, *answers: tuple[str, int], at: int = 10) -> list[JsonLine]:
    """The lines of one agent in its session's file, chained to each other."""
    lines = [user(prompt, at=at, isSidechain=True)]
    for number, (message_id, context) in enumerate(answers, 1):
        line = assistant(message_id, context, at=at + number, isSidechain=True)
        lines.append(line | {"parentUuid": lines[-1]["uuid"]})
    return lines


def test_a_sidechain_is_an_agent_of_its_own(path: Path, collector: Collector, store: Path) -> None:
    asked = [user(at=1), task("t1", "look around", at=2)]
    back = task_result("t1", "found\ntwo", at=20)
    write(path, [*asked, *aside("look around", ("s1", 900), ("s2", 1500)), back])
    append(path, [assistant("m9", 5000, at=21)])
    collector.scan()

    (agent,) = agents(store)
    assert (agent.tool_use_id, agent.agent_type, agent.description) == ("t1", "Explore", "d")
    assert (agent.status, agent.model) == (AgentStatus.COMPLETED, MODEL)
    assert (agent.context.tokens, agent.context.state) == (1500, ContextState.MEASURED)
    assert agent.usage == TokenUsage(6, 14, 2380, 100)
    assert (agent.parent_agent_id, agent.depth) == (None, 1)
    assert (agent.started_at, agent.ended_at) == (START_MS + 2000, START_MS + 20_000)
    assert agent.result is not None
    assert (agent.result.text, agent.result.lines, agent.result.chars) == ("found\ntwo", 2, 9)
    assert tokens_or_estimate(agent.result.estimated_tokens, agent.result.text) > 0
    with closing(open_reader(store)) as db:
        (session,) = read_sessions(db, START_MS)
        assert session.agents == 1
        assert session.context.tokens == 5000, "an agent's answer is not the session's"
        assert [row.tokens for row in context_queries.fill_history(db, SESSION)] == [1000, 5000]
        assert [
            row.tokens for row in context_queries.fill_history(db, SESSION, agent.agent_id)
        ] == [900, 1500]
        assert sum(row.responses for row in usage_of_sessions(db)) == 4


def test_sidechains_that_ran_at_once_are_told_apart(
    path: Path, collector: Collector, store: Path
) -> None:
    first = aside("one", ("s1", 1000), ("s2", 1100))
    second = aside("two", ("s3", 2000), ("s4", 2200))
    mixed = [first[0], second[0], second[1], first[1], first[2], second[2]]
    calls = [task("t1", " two\n", at=1), task("t2", "one", at=2)]
    write(path, [*calls, *mixed])
    collector.scan()

    found = {agent.tool_use_id: agent.context.tokens for agent in agents(store)}
    assert found == {"t1": 2200, "t2": 1100}


def test_calls_that_asked_the_same_are_taken_in_their_order(
    path: Path, collector: Collector, store: Path
) -> None:
    calls = [task("t1", "same", at=1), task("t2", "same", at=2)]
    write(path, [*calls, *aside("same", ("s1", 1000)), *aside("same", ("s2", 2000))])
    collector.scan()

    found = {agent.tool_use_id: agent.context.tokens for agent in agents(store)}
    assert found == {"t1": 1000, "t2": 2000}


def test_a_sidechain_that_nothing_asked_for_is_an_agent_too(
    path: Path, collector: Collector, store: Path
) -> None:
    write(path, [user(), *aside("Look around", ("s1", 1000)), task("t1", "other", at=30)])
    collector.scan()

    found = agents(store)
    assert sorted((agent.tool_use_id or "", agent.context.tokens) for agent in found) == [
        ("", 1000),
        ("t1", None),
    ]
    with closing(open_reader(store)) as db:
        assert read_sessions(db, START_MS)[0].agents == len(found)


def test_an_agent_keeps_its_id_however_its_lines_were_read(
    claude: ClaudeFolder, path: Path, collector: Collector, store: Path, tmp_path: Path
) -> None:
    lines = [task("t1", "one", at=1), *aside("one", ("s1", 1000), ("s2", 1100), ("s1", 1000))]
    write(path, lines[:1])
    for line in lines[1:]:
        collector.scan()
        append(path, [line])
    collector.scan()
    with closing(Writer(tmp_path / "clean.db")) as writer:
        type(collector)(claude, writer, Recorder()).scan()

    assert dump(store, FILE_STATE) == dump(tmp_path / "clean.db", FILE_STATE)
    assert agents(store) == agents(tmp_path / "clean.db")


def test_an_answer_in_a_forks_copy_is_spent_once(
    claude: ClaudeFolder, path: Path, collector: Collector, store: Path
) -> None:
    history = [task("t1", "one", at=1), *aside("one", ("s1", 1000), ("s2", 1100))]
    write(path, history)
    fork = {"sessionId": OTHER, "forkedFrom": {"sessionId": SESSION, "messageUuid": "u"}}
    write(claude.projects / PROJECT / f"{OTHER}.jsonl", [line | fork for line in history])
    collector.scan()

    by_session = {agent.session_id: agent.usage for agent in agents(store)}
    assert by_session[SESSION] == TokenUsage(6, 14, 2080, 100)
    assert by_session[OTHER] == TokenUsage()


def test_a_file_beside_the_sessions(
    claude: ClaudeFolder, path: Path, collector: Collector, store: Path
) -> None:
    write(path, [launch("t1", "Explore", at=1), agent_result("t1", "b1", "found", at=9)])
    lines = [user("look", at=2), assistant("b_m1", 1200, at=3, isSidechain=True)]
    write(claude.projects / PROJECT / "agent-b1.jsonl", lines)
    collector.scan()

    (agent,) = agents(store)
    assert (agent.agent_id, agent.session_id, agent.tool_use_id) == ("b1", SESSION, "t1")
    assert (agent.agent_type, agent.context.tokens) == ("Explore", 1200)
    assert agent.usage == TokenUsage(3, 7, 1190, 50)


def progress(agent_id: str, message: JsonLine | None, tool_use_id: str = "t1") -> JsonLine:
    """A line of an agent in its parent's file, as 2.1.39 to 2.1.52 wrote it."""
    data = {"type": "agent_progress", "agentId": agent_id, "prompt": "look", "message": message}
    return chained("progress", 40, data=data, toolUseID="agent_msg_x", parentToolUseID=tool_use_id)


def step(message_id: str, context: int, at: int, *blocks: JsonLine, output: int = 1) -> JsonLine:
    """What an agent's answer is inside a progress line."""
    line = assistant(message_id, context, output, list(blocks), at)
    return {name: line[name] for name in ("type", "timestamp", "uuid", "requestId", "message")}


STEPS = [
    progress("p1", {"type": "user", "timestamp": time(3), "message": {"content": "look"}}),
    progress("p1", step("x1", 700, 4, tool("Bash", "toolu_a"))),
    progress("p1", step("x1", 700, 5, tool("Read", "toolu_b"), output=8)),
    progress("p1", step("x2", 900, 6, tool("Bash", "toolu_c"))),
]


def test_steps_in_the_parents_file(path: Path, collector: Collector, store: Path) -> None:
    begun = [user(at=1), launch("t1", "Explore", at=2), *STEPS]
    write(path, begun)
    collector.scan()
    (running,) = agents(store)
    assert (running.agent_id, running.context.tokens, running.tool_uses) == ("p1", 900, 3)
    assert running.usage == TokenUsage(6, 14, 1580, 9)
    assert running.tool_use_id == "t1"

    append(path, [*STEPS, agent_result("t1", "p1", "found\nit", at=9), assistant("m2", at=10)])
    collector.scan()

    (agent,) = agents(store)
    assert (agent.agent_type, agent.status) == ("Explore", AgentStatus.COMPLETED)
    assert agent.context.tokens == 2000, "its last request stands in no progress line"
    assert agent.usage == TokenUsage(9, 21, 3570, 109)
    assert (agent.tool_uses, agent.depth) == (4, 1)
    assert agent.result is not None
    assert agent.result.lines == 2
    with closing(open_reader(store)) as db:
        assert sum(row.responses for row in usage_of_sessions(db)) == 2, "as ccusage counts"
        (more,) = progress_usage(db)
        # The session has what the agent has: its return tells of a third answer.
        assert (more.session_id, more.responses, more.input_tokens) == (SESSION, 3, 9)
        assert (more.cache_read_tokens, more.output_tokens) == (3570, 109)
        priced = [row for row in spending_queries.model_usage(db, [SESSION]) if row.is_progress]
        assert [(row.session_id, row.responses) for row in priced] == [(SESSION, 3)]
        assert spending_queries.model_usage(db, [OTHER]) == []
        assert [row.tokens for row in context_queries.fill_history(db, SESSION, "p1")] == [700, 900]
        assert [row.tokens for row in context_queries.fill_history(db, SESSION)] == [1000, 1000]


def test_a_last_request_that_is_a_step_too_counts_once(
    path: Path, collector: Collector, store: Path
) -> None:
    write(path, [launch("t1"), progress("p1", step("x1", 2000, 4)), agent_result("t1", "p1", "y")])
    collector.scan()

    (agent,) = agents(store)
    assert agent.usage == TokenUsage(3, 7, 1990, 1)


@pytest.mark.parametrize("place", ["beside", "below"])
def test_steps_of_an_agent_that_has_a_file_count_once(
    claude: ClaudeFolder,
    path: Path,
    subagents: Path,
    collector: Collector,
    store: Path,
    place: str,
) -> None:
    write(path, [launch("t1", at=2), *STEPS, agent_result("t1", "p1", "found", at=9)])
    folder = claude.projects / PROJECT if place == "beside" else subagents
    own = [assistant("x1", 700, 80, at=4), assistant("x2", 900, 90, at=6)]
    write(folder / "agent-p1.jsonl", own)
    collector.scan()

    (agent,) = agents(store)
    assert agent.usage == TokenUsage(6, 14, 1580, 170)
    assert agent.context.tokens == 900


def test_steps_that_an_agents_own_file_lacks_are_its_own_too(
    path: Path, subagents: Path, collector: Collector, store: Path
) -> None:
    write(path, [launch("t1", at=2), *STEPS, agent_result("t1", "p1", "found", at=9)])
    write(subagents / "agent-p1.jsonl", [assistant("x1", 700, 80, at=4)])
    collector.scan()

    (agent,) = agents(store)
    assert (agent.usage, agent.progress_responses) == (TokenUsage(6, 14, 1580, 81), 1)
    assert agent.context.tokens == 700, "its own file tells how full it is"
    with closing(open_reader(store)) as db:
        (more,) = progress_usage(db)
    assert (more.responses, more.cache_read_tokens, more.output_tokens) == (1, 890, 1)


def test_steps_in_a_forks_copy_are_spent_once(
    claude: ClaudeFolder, path: Path, collector: Collector, store: Path
) -> None:
    write(path, [launch("t1", at=2), *STEPS])
    fork = {"sessionId": OTHER, "forkedFrom": {"sessionId": SESSION, "messageUuid": "u"}}
    copies = [line | fork for line in (launch("t1", at=2), *STEPS)]
    write(claude.projects / PROJECT / f"{OTHER}.jsonl", copies)
    collector.scan()

    assert spent_by_agents(store) == 6 + 14 + 1580 + 9
    with closing(open_reader(store)) as db:
        (more,) = progress_usage(db)
        assert (more.session_id, more.responses) == (SESSION, 2)


@pytest.mark.parametrize(
    "data",
    [
        {"type": "agent_progress", "agentId": "p1"},
        {"type": "agent_progress", "agentId": "p1", "message": "text"},
        {"type": "agent_progress", "agentId": "p1", "message": {"type": 5}},
        {"type": "agent_progress", "agentId": "p1", "message": {"type": "assistant"}},
        {"type": "skill_progress", "agentId": "p1", "message": None},
    ],
)
def test_a_step_that_says_little_is_no_crash(
    path: Path, collector: Collector, store: Path, data: object
) -> None:
    write(path, [launch("t1", at=1), chained("progress", data=data, parentToolUseID="t1")])
    collector.scan()

    (agent,) = agents(store)
    assert (agent.agent_id, agent.context.tokens, agent.usage) == ("p1", None, None)


def meta(folder: Path, agent_id: str, **fields: Any) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"agent-{agent_id}.meta.json").write_text(json.dumps(fields))


def test_agents_in_agents(path: Path, subagents: Path, collector: Collector, store: Path) -> None:
    write(path, [launch("t1", "planner", at=1)])
    write(subagents / "agent-a1.jsonl", [user(at=2), launch("t2", "worker", at=3)])
    write(subagents / "agent-a2.jsonl", [user(at=4), launch("t3", "helper", at=5)])
    meta(subagents, "a1", agentType="planner", toolUseId="t1", spawnDepth=1)
    meta(subagents, "a2", agentType="worker", toolUseId="t2", spawnDepth=2, parentAgentId="a1")
    collector.scan()

    found = {agent.tool_use_id: agent for agent in agents(store)}
    assert {name: (agent.parent_agent_id, agent.depth) for name, agent in found.items()} == {
        "t1": (None, 1),
        "t2": ("a1", 2),
        "t3": ("a2", 3),
    }
    assert (found["t1"].usage, found["t3"].usage) == (TokenUsage(3, 7, 990, 50), None)


def test_a_workflows_agents(path: Path, subagents: Path, collector: Collector, store: Path) -> None:
    run = subagents / "workflows" / "wf_1"
    write(path, [user(at=1)])
    write(run / "agent-w1.jsonl", [user(at=2), assistant("w_m1", 1500, at=3)])
    meta(run, "w1", agentType="workflow-subagent", description="step one", spawnDepth=1)
    write(run / "agent-w2.jsonl", [user(at=2), assistant("w_m2", 1600, at=3)])
    key = "v2:" + "0" * 64
    journal: list[JsonLine | bytes] = [
        {"type": "launched"},
        {"type": "started", "key": key, "agentId": "w1"},
        {"type": "result", "key": key, "agentId": "w1", "result": "all\ngood"},
        {"type": "failed", "key": key, "agentId": "w2"},
        {"type": "result", "key": key, "agentId": "w3", "result": {"a": [1]}},
    ]
    write(run / "journal.jsonl", journal)
    collector.scan()

    first, second = agents(store)
    assert (first.agent_type, first.description, first.depth) == (
        "workflow-subagent",
        "step one",
        1,
    )
    assert first.status is AgentStatus.COMPLETED
    assert first.result is not None
    assert (first.result.text, first.result.lines) == ("all\ngood", 2)
    assert (second.agent_id, second.status) == ("w2", AgentStatus.FAILED)
    # The journal has no times: they ended with their last answers.
    assert {agent.ended_at for agent in (first, second)} == {START_MS + 3_000}
    with closing(open_reader(store)) as db:
        criteria = SummaryCriteria("", "agent")
        (newest, *others) = find_summaries(db, (), criteria, {}, START_MS).places
        assert (newest[1], [at for _, at in others]) == (START_MS + 3_000, [0])
        (shown,) = read_summary_rows(db, (), [newest[0]])
        assert (shown.agent_id, shown.at) == ("w1", START_MS + 3_000)
        assert session_queries.unknown_types(db) == {}
        assert [row.session_id for row in session_queries.sessions(db)] == [SESSION]


RETURN = notification_text("a1", "the result", tool_use_id="t1")
SAID: dict[str, JsonLine] = {
    "queued": {"type": "queue-operation", "operation": "enqueue", "content": RETURN},
    "user": user(RETURN, at=8, origin={"kind": "task-notification"}),
    "attached": attachment("queued_command", prompt=RETURN, commandMode="task-notification"),
}


@pytest.mark.parametrize("seed", range(4))
def test_a_return_that_is_said_three_times_is_one(
    path: Path, collector: Collector, store: Path, seed: int
) -> None:
    said = list(SAID.values())
    random.Random(seed).shuffle(said)
    write(path, [launch("t1", at=1), launched("t1", "a1", at=2), *said])
    collector.scan()

    with closing(open_reader(store)) as db:
        assert [row.text for row in stored_summaries(db)] == ["the result"]
        returns = db.execute("SELECT COUNT(*) FROM agent_return WHERE status = 'completed'")
        assert returns.fetchone()[0] == 1
    (agent,) = agents(store)
    assert (agent.agent_id, agent.status) == ("a1", AgentStatus.COMPLETED)
    assert agent.result is not None


@pytest.mark.parametrize("name", list(SAID))
def test_each_of_the_three_says_it_alone(
    path: Path, collector: Collector, store: Path, name: str
) -> None:
    write(path, [launch("t1", at=1), launched("t1", "a1", at=2), SAID[name]])
    collector.scan()

    assert [agent.status for agent in agents(store)] == [AgentStatus.COMPLETED]


def test_an_agent_that_returns_again_has_two_returns(
    path: Path, collector: Collector, store: Path
) -> None:
    again = [notification("a1", words, tool_use_id="t1", at=9) for words in ("first", "second")]
    write(path, [launch("t1", at=1), launched("t1", "a1", at=2), *again])
    collector.scan()

    with closing(open_reader(store)) as db:
        assert {row.text for row in stored_summaries(db)} == {"first", "second"}
    (agent,) = agents(store)
    assert agent.result is not None
    assert agent.result.text == "second"


def test_a_teammate(path: Path, collector: Collector, store: Path) -> None:
    spawned = {
        "status": "teammate_spawned",
        "agent_id": "scout@team",
        "teammate_id": "scout",
        "name": "scout",
        "prompt": "?",
    }
    message = '<teammate-message teammate_id="scout" color="blue">\nI found it\n</teammate-message>'
    write(path, [launch("t1", "Explore", at=1), tool_result("t1", "ok", spawned, at=2)])
    append(path, [user(message, at=3), user("fix the parser", at=4)])
    collector.scan()

    (agent,) = agents(store)
    assert (agent.agent_id, agent.agent_type) == ("scout", "Explore")
    assert agent.status is AgentStatus.UNKNOWN, "a message is no end"
    assert agent.result is not None
    assert agent.result.text == "I found it"
    with closing(open_reader(store)) as db:
        assert read_sessions(db, START_MS)[0].title == "fix the parser"


def test_a_remote_agent_that_was_only_launched(
    path: Path, collector: Collector, store: Path
) -> None:
    result = {"status": "remote_launched", "taskId": "r1", "sessionUrl": "https://x", "prompt": "?"}
    write(path, [launch("t1", at=1), tool_result("t1", "launched", result, at=2)])
    collector.scan()
    (begun,) = agents(store)
    assert (begun.agent_id, begun.status, begun.result) == ("r1", AgentStatus.UNKNOWN, None)

    append(path, [notification("r1", "done there", tool_use_id="t1", at=9)])
    collector.scan()

    assert [agent.status for agent in agents(store)] == [AgentStatus.COMPLETED]


def test_a_meta_without_a_file_or_a_call_is_no_agent(
    path: Path, subagents: Path, collector: Collector, store: Path
) -> None:
    write(path, [user()])
    meta(subagents, "compact1", agentType="")
    collector.scan()

    assert agents(store) == []


def test_one_agent_in_two_folders_is_one(
    claude: ClaudeFolder, path: Path, subagents: Path, collector: Collector, store: Path
) -> None:
    own = [user(at=2), assistant("a_m1", 1200, at=3)]
    moved = claude.projects / "-elsewhere" / SESSION / "subagents"
    write(path, [launch("t1", at=1)])
    write(subagents / "agent-a1.jsonl", own)
    write(moved / "agent-a1.jsonl", own)
    meta(moved, "a1", agentType="reviewer", toolUseId="t1")
    collector.scan()

    (agent,) = agents(store)
    assert agent.usage == TokenUsage(3, 7, 1190, 50)
