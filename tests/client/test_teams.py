"""Agent teams: what a teammate is asked, what it brings, and when it is at work."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from ctxtop.core.model.agent import AgentStatus

if TYPE_CHECKING:
    from .lab import Lab
    from .screen import Screen

pytestmark = pytest.mark.usefixtures("terminal")


def lead(lab: Lab, *args: str) -> Screen:
    """Open a client that may form a team, with its teammates in its own process."""
    lab.variables["CLAUDE_CODE_EXPERIMENTAL_AGENT_TEAMS"] = "1"
    lab.define_agent("worker")
    return lab.interactive("--teammate-mode", "in-process", *args)


def tool(name: str, /, **given: str) -> str:
    return f"tool:{name}|{json.dumps(given)}"


def test_a_teammates_result_is_its_own(lab: Lab) -> None:
    screen = lead(lab)
    started = tool(
        "Agent",
        subagent_type="worker",
        name="scout",
        description="Scout it",
        prompt="Scout it all.",
    )
    screen.ask(f"Scout the parser. [[{started}&&&usage:30000]] [[say:Waiting.]] [[say:Thanks.]]")
    screen.until(lambda: answered(lab), "what the teammate brought")

    # Where its message comes while the lead is at work, the lab's script begins again.
    found = lab.ctxtop().agents
    for agent in found:
        assert (agent.agent_type, agent.description) == ("worker", "Scout it")
        assert agent.status is AgentStatus.COMPLETED
        assert agent.result is not None
        # The API of the lab answers so where a prompt carries no script.
        assert agent.result.text == agent.last_message == "Understood."
        assert agent.tool_use_id is not None
    session = lab.ctxtop().sessions[screen.session_id]
    assert session.agents == len(found)
    assert session.title.startswith("Scout the parser")


def answered(lab: Lab) -> bool:
    """Whether every teammate has brought a result."""
    found = lab.ctxtop().agents
    return bool(found) and all(agent.result for agent in found)
