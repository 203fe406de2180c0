"""Agents: in the background and the foreground, in each other, refused, compacted, forked."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from ctxtop.core.model.agent import Agent, AgentStatus
from ctxtop.core.model.context import ContextState

from .lab import LARGE

if TYPE_CHECKING:
    from .lab import Lab
    from .ledger import Judge


def by_type(lab: Lab) -> dict[str, Agent]:
    return {agent.agent_type: agent for agent in lab.ctxtop().agents}


def test_agents_in_the_background(lab: Lab, judge: Judge) -> None:
    lab.define_agent("reviewer", model="opus")
    lab.define_agent("worker")
    turn = lab.turn(
        "Delegate. [[say:Delegating.&&&agent:reviewer|Review src <<bash:seq 1 9+++usage:31000>>"
        " <<say:It is good.\nAll of it.+++usage:33000/44>>&&&agent:worker|Build it"
        " <<say:Built.+++usage:12000/9>>&&&usage:30000]] [[say:Both run.&&&usage:35000]]",
        model=LARGE,
    )
    judge.turn(turn)
    agents = {agent.agent_type: agent for agent in lab.ctxtop().agents}
    assert set(agents) == {"reviewer", "worker"}
    for kind, tokens, tools, text in (
        ("reviewer", 33_000, 1, "It is good.\nAll of it."),
        ("worker", 12_000, 0, "Built."),
    ):
        agent = agents[kind]
        assert agent.status is AgentStatus.COMPLETED
        assert (agent.context.tokens, agent.context.state) == (tokens, ContextState.MEASURED)
        assert agent.tool_uses == tools
        assert agent.result is not None
        assert (agent.result.text, agent.last_message) == (text, text)


def test_one_that_its_parent_waits_for(lab: Lab, judge: Judge) -> None:
    lab.define_agent("worker")
    asked = {
        "subagent_type": "worker",
        "description": "Build it",
        "prompt": "Build it, all of it.",
        "run_in_background": False,
    }
    call = f"tool:Agent|{json.dumps(asked)}&&&usage:30000"
    judge.turn(lab.turn(f"Do it. [[{call}]] [[say:Done.&&&usage:35000]]"))
    agent = by_type(lab)["worker"]
    assert (agent.status, agent.description) == (AgentStatus.COMPLETED, "Build it")
    assert agent.result is not None
    assert agent.result.text == agent.last_message


def test_one_that_the_api_refuses(lab: Lab, judge: Judge) -> None:
    lab.define_agent("worker")
    judge.turn(
        lab.turn(
            "Do it. [[agent:worker|Fail <<error:400 messages: bad>>&&&usage:36000]]"
            " [[say:Waiting.&&&usage:37000]]"
        )
    )
    agent = by_type(lab)["worker"]
    assert (agent.status, agent.context.state) == (AgentStatus.FAILED, ContextState.UNKNOWN)


def test_one_that_fills_its_own_window(lab: Lab, judge: Judge) -> None:
    lab.define_agent("worker")
    too_long = "400 prompt is too long: 210000 tokens > 200000 maximum"
    judge.turn(
        lab.turn(
            "Do it. [[agent:worker|Long <<bash:seq 1 500+++usage:150000>>"
            f" <<once:{too_long}+++say:fine+++usage:21000/77>>&&&usage:38000]]"
            " [[say:Waiting.&&&usage:39000]]"
        )
    )
    assert [row.agent_id for row in lab.ctxtop().compactions] == [by_type(lab)["worker"].agent_id]


def test_one_in_another(lab: Lab, judge: Judge) -> None:
    lab.define_agent("outer")
    lab.define_agent("inner")
    judge.turn(
        lab.turn(
            "Do it. [[agent:outer|Outer <<agent:inner|Inner+++usage:11000>>"
            " <<say:Outer is done.+++usage:12000>>&&&usage:40000]] [[say:Waiting.&&&usage:41000]]"
        )
    )
    agents = by_type(lab)
    assert agents["inner"].parent_agent_id == agents["outer"].agent_id
    assert agents["outer"].parent_agent_id is None


def test_in_a_fork(lab: Lab, judge: Judge) -> None:
    lab.define_agent("worker")
    first = lab.turn(
        "Do it. [[agent:worker|Build <<say:Built.+++usage:12000/9>>&&&usage:30000]]"
        " [[say:Waiting.&&&usage:31000]]"
    )
    judge.turn(first)
    fork = lab.turn(
        "Another way. [[say:ok&&&usage:33000]]", resume=first.session_id, more=("--fork-session",)
    )
    judge.turn(fork, resumed=first.session_id)


@pytest.mark.usefixtures("terminal")
@pytest.mark.parametrize("model", [LARGE, "claude-opus-4-6[1m]", "claude-haiku-4-5"])
def test_their_own_status_line_says_the_same(lab: Lab, judge: Judge, model: str) -> None:
    lab.define_agent("worker")
    screen = lab.interactive(model=model)
    screen.type(
        "Do it. [[agent:worker|Build <<bash:echo 1+++usage:31000/5>>"
        f" <<held:{lab.go}+++say:Built.+++usage:53000/9>>&&&usage:30000]]"
        " [[say:Waiting.&&&usage:33000]]"
    )
    screen.until(lambda: bool(lab.agent_statuses()), "the agents' status line")
    screen.until(lambda: lab.agent_statuses()[-1].get("tokenCount") == 31_005, "its first answer")
    told = lab.agent_statuses()[-1]
    screen.until(lambda: bool(by_type(lab)["worker"].context.tokens), "its transcript")
    agent = by_type(lab)["worker"]
    assert agent.agent_id == told["id"]
    assert agent.status is AgentStatus.RUNNING
    assert (agent.context.tokens or 0) + 5 == told["tokenCount"]
    assert agent.context.window.tokens == told["contextWindowSize"]
    lab.let_go()
    # It is idle while its agent works: it stops once more when it was told of the result.
    screen.until(lambda: len(lab.hooks("Stop", screen.session_id)) == 2, "the last answer")
    judge.status(screen.settle())
    assert by_type(lab)["worker"].status is AgentStatus.COMPLETED
