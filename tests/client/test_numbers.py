"""ctxtop's numbers are the client's own: every time, not on average."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from ctxtop.core.agents import AgentStatus
from ctxtop.core.context import ContextState
from ctxtop.core.sessions import ACTIVE_MS, Status

from .lab import LARGE, SMALL

if TYPE_CHECKING:
    from .lab import Lab
    from .ledger import Judge

TOO_LONG = "400 prompt is too long: 210000 tokens > 200000 maximum"


@pytest.mark.parametrize("model", [SMALL, LARGE])
def test_tools_and_a_resume(lab: Lab, judge: Judge, model: str) -> None:
    file = lab.project / "shop.py"
    first = lab.turn(
        f"Write it. [[think:A rule.&&&say:Writing.&&&write:{file}|RATE = 7&&&usage:21000/90]]"
        f" [[read:{file}&&&bash:seq 1 200&&&usage:24500]] [[say:Written.&&&usage:29000/140]]",
        model=model,
    )
    assert judge.turn(first).context.tokens == 29_000
    for number, usage in enumerate((30_999, 31_000, 97_500, 145_000, 166_999)):
        turn = lab.turn(
            f"Step {number}. [[bash:echo {number}&&&usage:{usage - 400}]]"
            f" [[say:Step {number} is done.&&&usage:{usage}/{20 + number}]]",
            resume=first.session_id,
            model=model,
        )
        assert judge.turn(turn).context.tokens == usage


def test_the_window_is_larger_than_200_000(lab: Lab, judge: Judge) -> None:
    turn = lab.turn("Much. [[bash:seq 1 9&&&usage:310000]] [[say:ok&&&usage:966000]]", model=LARGE)
    assert judge.turn(turn).context.window.tokens == 1_000_000


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
        assert (agent.result.text, agent.reply) == (text, text)


def test_compactions_by_hand_and_by_itself(lab: Lab, judge: Judge) -> None:
    first = lab.turn("Fill it. [[bash:seq 1 900&&&usage:160000]] [[say:full&&&usage:166000]]")
    judge.turn(first)
    again = lab.turn(
        f"One more. [[once:{TOO_LONG}&&&say:After it.&&&usage:22000]]", resume=first.session_id
    )
    session = judge.turn(again)
    assert (session.context.tokens, session.compactions) == (22_000, 1)
    session = judge.turn(lab.turn("/compact keep the plan", resume=first.session_id))
    assert (session.context.state, session.compactions) == (ContextState.ESTIMATED, 2)
    judge.turn(lab.turn("Go on. [[say:Gone on.&&&usage:19000/31]]", resume=first.session_id))
    triggers = [row.trigger for row in lab.ctxtop().compactions]
    assert sorted(map(str, triggers)) == ["auto", "manual"]


def test_a_fork_counts_what_it_copies_once(lab: Lab, judge: Judge) -> None:
    first = lab.turn("Begin. [[bash:seq 1 9&&&usage:21000]] [[say:ok&&&usage:45000]]", model=LARGE)
    judge.turn(first)
    fork = lab.turn(
        "Try another way. [[say:forked&&&usage:52000]]",
        resume=first.session_id,
        model=LARGE,
        more=("--fork-session",),
    )
    assert fork.session_id != first.session_id
    assert judge.turn(fork, resumed=first.session_id).context.tokens == 52_000
    old = lab.turn("Go on. [[say:on&&&usage:47000]]", resume=first.session_id, model=LARGE)
    assert judge.turn(old, resumed=first.session_id).context.tokens == 47_000


def test_a_refused_prompt_changes_no_number(lab: Lab, judge: Judge) -> None:
    first = lab.turn("Begin. [[say:ok&&&usage:45000/12]]")
    judge.turn(first)
    refused = lab.turn("Then. [[error:400 messages.1: no]]", resume=first.session_id)
    assert refused.said["is_error"]
    session = judge.turn(refused)
    assert session.context.tokens == 45_000
    assert session.refusal is not None
    session = judge.turn(lab.turn("Again. [[say:ok&&&usage:46000]]", resume=first.session_id))
    assert session.refusal is None


@pytest.mark.usefixtures("terminal")
@pytest.mark.parametrize("model", [SMALL, LARGE])
def test_the_status_line_says_the_same(lab: Lab, judge: Judge, model: str) -> None:
    screen = lab.interactive(model=model)
    # Halves, and what stands just below them: the client rounds half up.
    for usage in (29_000, 57_499, 57_500, 145_000, 155_000):
        status = screen.ask(f"Next. [[bash:echo hi&&&usage:20000]] [[say:ok&&&usage:{usage}/12]]")
        assert judge.status(status).context.tokens == usage
    compacted = len(lab.hooks("PostCompact"))
    screen.type("/compact keep the plan")
    screen.until(lambda: len(lab.hooks("PostCompact")) > compacted, "the compaction")
    screen.settle()
    session = judge.status(lab.statuses()[-1])
    assert session.context.state is ContextState.ESTIMATED
    assert session.status is Status.IDLE
    judge.status(screen.ask("Again. [[say:ok&&&usage:17000]]"))
    screen.leave()
    assert lab.ctxtop(later_ms=ACTIVE_MS).sessions[session.session_id].status is Status.ENDED
