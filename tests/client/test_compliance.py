"""Agents that compress, that do not, and that are held up once: as the real client does it."""

from __future__ import annotations

import json
import shlex
import sys
from typing import TYPE_CHECKING

import pytest
from ctxtop.core.model.findings import ComplianceVerdict, MarkerLocation, finding_labels

from .lab import HOOKS, LARGE
from .trusting import trust

if TYPE_CHECKING:
    from ctxtop.core.model.agent import Agent
    from ctxtop.core.model.findings import RunVerdict

    from .lab import Json, Lab, Turn

SKILL = (
    "Begin with [COMPRESSED] agent_type: <type>, then Changed files, Result, Decisions,"
    " Blockers. Ten lines at most."
)
GOOD = "[COMPRESSED] agent_type: worker\nChanged files: src/api.py\nResult: Built it."
BAD = "I built the page.\nHere is everything that I did, at length."


def enforcing(lab: Lab, *, features: str = "enforce") -> None:
    """Run ctxtop's own hook at SubagentStop, beside the lab's log."""
    ours = f"{shlex.quote(sys.executable)} -I -m ctxtop.collectors.plugin.hook"
    ours += f" {shlex.quote(str(lab.store))} SubagentStop {features}"
    settings = json.loads((lab.config / "settings.json").read_text(encoding="utf-8"))
    hooks = settings["hooks"]
    assert set(hooks) == set(HOOKS)
    hooks["SubagentStop"][0]["hooks"].append({"type": "command", "command": ours})
    lab.write_settings({"hooks": hooks})


def define(lab: Lab, name: str, skill: str = "") -> None:
    lines = ["---", f"name: {name}", f"description: the {name} agent"]
    lines += ["skills:", f"  - {skill}"] if skill else []
    path = lab.config / "agents" / f"{name}.md"
    path.parent.mkdir(exist_ok=True)
    path.write_text("\n".join([*lines, "---", f"You are {name}.", ""]), encoding="utf-8")


def delegate(lab: Lab, kind: str, *says: str) -> Turn:
    script = " ".join(f"<<say:{said}+++usage:20000>>" for said in says)
    start = f"[[agent:{kind}|Build it {script}&&&usage:30000]]"
    return lab.turn(f"Delegate. {start} [[say:It runs.&&&usage:31000]]", model=LARGE)


def ruled(lab: Lab) -> tuple[Agent, RunVerdict]:
    (agent,) = lab.ctxtop().agents
    assert agent.compliance is not None
    return agent, agent.compliance


def lines_of(lab: Lab, agent: Agent) -> list[Json]:
    (path,) = lab.config.glob(f"projects/*/*/subagents/agent-{agent.agent_id}.jsonl")
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def requests_of(turn: Turn, agent: Agent) -> list[Json]:
    return [
        one
        for one in turn.exchanges
        if one["what"] == "answer"
        and one["headers"].get("x-claude-code-agent-id") == agent.agent_id
    ]


def feedback(lab: Lab, agent: Agent) -> list[str]:
    """What the client wrote of blocks into the agent's transcript."""
    return [
        line["message"]["content"]
        for line in lines_of(lab, agent)
        if line["type"] == "user"
        and line.get("isMeta")
        and str(line["message"]["content"]).startswith("Stop hook feedback:")
    ]


@pytest.fixture
def worker(lab: Lab) -> Lab:
    """A lab with an agent that declares the skill, and ctxtop's hook."""
    lab.define_skill("compress-output", SKILL)
    define(lab, "worker", "compress-output")
    enforcing(lab)
    return lab


def test_one_that_does_not_comply_is_held_up_once_and_forced(worker: Lab) -> None:
    turn = delegate(worker, "worker", BAD, GOOD)
    agent, ruling = ruled(worker)
    assert ruling.verdict is ComplianceVerdict.FORCED
    assert (ruling.blocked, ruling.violations) == (True, ())
    assert len(requests_of(turn, agent)) == 2
    (said,) = feedback(worker, agent)
    # Which rule, and no marker that a grep would find.
    assert "V01: No line starts with the marker." in said
    assert "[COMPRESSED]" not in said
    assert len(said.splitlines()) <= 7
    assert agent.result is not None
    assert agent.result.text == GOOD
    stops = worker.hooks("SubagentStop")
    assert [stop["stop_hook_active"] for stop in stops] == [False, True]


def test_one_that_complies_costs_no_request_more(worker: Lab) -> None:
    turn = delegate(worker, "worker", GOOD)
    agent, ruling = ruled(worker)
    assert ruling.verdict is ComplianceVerdict.COMPLIANT
    assert (ruling.blocked, ruling.marker_location) == (False, MarkerLocation.FINAL_ASSISTANT)
    assert len(requests_of(turn, agent)) == 1
    assert feedback(worker, agent) == []


def test_one_without_the_skill_is_not_required_to(worker: Lab) -> None:
    define(worker, "worker")
    turn = delegate(worker, "worker", BAD)
    agent, ruling = ruled(worker)
    assert ruling.verdict is ComplianceVerdict.NOT_REQUIRED
    assert (ruling.blocked, ruling.judgment.lines) == (False, 2)
    assert len(requests_of(turn, agent)) == 1


def test_one_that_refuses_twice_is_let_go_exhausted(worker: Lab) -> None:
    turn = delegate(worker, "worker", BAD, "Still without it.")
    agent, ruling = ruled(worker)
    assert ruling.verdict is ComplianceVerdict.EXHAUSTED
    assert finding_labels(ruling.violations) == ["V01"]
    assert len(requests_of(turn, agent)) == 2
    assert len(feedback(worker, agent)) == 1


def test_the_skills_text_alone_passes_a_grep_and_not_the_verdict(lab: Lab) -> None:
    lab.define_skill("compress-output", SKILL)
    define(lab, "worker", "compress-output")
    delegate(lab, "worker", BAD)
    agent, ruling = ruled(lab)
    assert ruling.verdict is ComplianceVerdict.NON_COMPLIANT
    assert (ruling.marker_location, ruling.grep_passes, ruling.grep_was_wrong) == (
        MarkerLocation.SKILL_TEXT,
        True,
        True,
    )
    text = "\n".join(map(json.dumps, lines_of(lab, agent)))
    assert "[COMPRESSED]" in text


def define_in_project(lab: Lab) -> None:
    folder = lab.project / ".claude" / "agents"
    folder.mkdir(parents=True)
    head = "---\nname: worker\ndescription: works\nskills: [compress-output]\n---\nWork.\n"
    (folder / "worker.md").write_text(head, encoding="utf-8")


def test_the_definition_of_a_project_is_found(lab: Lab) -> None:
    lab.define_skill("compress-output", SKILL)
    define_in_project(lab)
    enforcing(lab)
    delegate(lab, "worker", BAD, GOOD)
    agent, ruling = ruled(lab)
    assert ruling.verdict is ComplianceVerdict.FORCED
    assert len(feedback(lab, agent)) == 1


def test_a_declared_skill_that_is_not_installed_asks_for_nothing(lab: Lab) -> None:
    define_in_project(lab)
    enforcing(lab)
    delegate(lab, "worker", BAD, GOOD)
    agent, ruling = ruled(lab)
    assert ruling.verdict is ComplianceVerdict.NOT_REQUIRED
    assert feedback(lab, agent) == []
    # The client passed over it: the agent was never told of it.
    assert "compress-output" not in "\n".join(map(json.dumps, lines_of(lab, agent)))


def test_a_policy_that_says_off_lets_all_go(worker: Lab) -> None:
    (worker.project / ".ctxtop.toml").write_text('[compliance]\nmode = "off"\n', encoding="utf-8")
    trust(worker)
    turn = delegate(worker, "worker", BAD)
    (agent,) = worker.ctxtop().agents
    assert len(requests_of(turn, agent)) == 1
    assert feedback(worker, agent) == []
