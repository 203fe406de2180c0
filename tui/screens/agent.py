"""What an agent returned, and what it was given at its start."""

from __future__ import annotations

from typing import TYPE_CHECKING

from textual.content import Content

from ..formats import one_line
from .reading import ReadingScreen

if TYPE_CHECKING:
    from ...collectors.folder import Trouble
    from ...core.agents import Agent

GIVEN = "What ctxtop gave it at its start"


class AgentScreen(ReadingScreen):
    """Shows the text at once, and below it what the store has of the agent's start."""

    def __init__(self, agent: Agent, title: str) -> None:
        self._agent = agent
        text = agent.result.text if agent.result else agent.reply
        self._text = text or f"{agent.agent_type} has not returned anything yet."
        crumbs = one_line(f"sessions › {title} › {agent.agent_type} {agent.description}")
        super().__init__(crumbs, Content(self._text))

    def on_mount(self) -> None:
        """Ask what it was given."""
        from ..given_lines import given_lines, given_to_agents

        super().on_mount()
        session_id, agent_id = self._agent.session_id, self._agent.agent_id
        self.app.feed.lookup.ask(
            lambda db: given_lines(given_to_agents(db, session_id).get((session_id, agent_id), [])),
            self._add,
        )

    def _add(self, found: list[str] | Trouble) -> None:
        if isinstance(found, list) and found:
            heading = Content.styled(GIVEN, "bold $accent")
            given = Content("\n".join(one_line(line) for line in found))
            self.show(Content("\n").join([Content(self._text), Content(""), heading, given]))
