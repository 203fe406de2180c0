"""What an agent returned, whether that complies, and what it was given at its start."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from textual.content import Content

from ..agent_report import agent_report
from ..formats import one_line
from .reading import ReadingScreen

if TYPE_CHECKING:
    from ...collectors.folder import Trouble
    from ...core.agents import Agent

GIVEN: Final = "What ctxtop gave it at its start"


class AgentScreen(ReadingScreen):
    """Shows the report at once, and below it what the store has of the agent's start."""

    def __init__(self, agent: Agent, title: str) -> None:
        self._agent: Final = agent
        self._report: Final = agent_report(agent)
        name = f"{agent.agent_type} {agent.description}"
        super().__init__(title, name, content=self._report, session_id=agent.session_id)

    def on_mount(self) -> None:
        """Ask what it was given."""
        from ..given_lines import given_lines, given_to_agents

        super().on_mount()
        session_id, agent_id = self._agent.session_id, self._agent.agent_id
        self.look_up(
            lambda db: given_lines(given_to_agents(db, session_id).get((session_id, agent_id), [])),
            self._add,
        )

    def _add(self, found: list[str] | Trouble) -> None:
        if isinstance(found, list) and found:
            heading = Content.styled(GIVEN, "bold $accent")
            given = Content("\n".join(f"  {one_line(line)}" for line in found))
            self.show(Content("\n").join([self._report, Content(""), heading, given]))
