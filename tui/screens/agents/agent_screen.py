"""An agent's page: its verdict, its result, its task, its context and what was injected."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from typing import TYPE_CHECKING, ClassVar, Final

from msgspec.structs import replace
from textual import events
from textual.binding import Binding, BindingType

from ....core.model.agent import Agent
from ....core.model.problem import Problem
from ...messages import FleetView
from ..page import ReadingScreen, RefreshingQuery, text_width
from .agent_details import AgentDetails, read_agent_details, read_injection_choice
from .agent_report import NO_DETAILS, agent_report, agent_result_text

if TYPE_CHECKING:
    from ....core.injection.context_selection import Injection


class AgentScreen(ReadingScreen):
    """Shows the report at once, what is read of it in a moment, and follows the agent."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("y", "copy", "Copy", tooltip="copy the result", id="copy"),
    ]

    def __init__(self, agent: Agent, title: str, width: int, now_ms: int) -> None:
        """Show an agent of the session that is called `title`, on a screen of `width` cells."""
        self._agent = agent
        self._detail = NO_DETAILS
        self._choice: Injection | None = None
        self._width = text_width(width)
        self._reading: Final = RefreshingQuery(self, self._question, self._take)
        name = f"{agent.agent_type} {agent.description}"
        report = agent_report(agent, NO_DETAILS, self._width, now_ms)
        super().__init__(title, name, content=report, session_id=agent.session_id)

    def on_mount(self) -> None:
        """Ask for the rest."""
        super().on_mount()
        self._reading.refresh_now()
        self._ask_choice()

    def on_resize(self, event: events.Resize) -> None:
        """Wrap the lines anew."""
        self._width = text_width(event.size.width)
        self._draw()

    def show_view(self, view: FleetView) -> None:
        """Read again where there may be something new."""
        del view
        if self.is_attached:
            self._reading.refresh_soon()

    def action_copy(self) -> None:
        """Copy what it gave back, or its id where that is nothing."""
        agent = self._agent
        text = agent_result_text(agent)
        if text:
            self.app.copy(text, f"result of {agent.agent_type}")
        else:
            self.app.copy(agent.agent_id, f"id of {agent.agent_type}")

    def _ask_choice(self) -> None:
        sessions = self.app.view.sessions if self.app.view else ()
        agent, policies = self._agent, self.app.feed.policies
        projects = self.app.places.folder.projects
        session = next((each for each in sessions if each.session_id == agent.session_id), None)
        if session is not None:
            self.look_up(
                lambda db: read_injection_choice(db, projects, agent, session, policies),
                self._take_choice,
            )

    def _take_choice(self, found: Injection | Problem | None) -> None:
        if found is not None and not isinstance(found, Problem):
            self._choice = found
            self._detail = replace(self._detail, injection_choice=found)
            self._draw()

    def _question(self) -> Callable[[sqlite3.Connection], tuple[Agent, AgentDetails]]:
        sessions = self.app.view.sessions if self.app.view else ()
        policies, projects = self.app.feed.policies, self.app.places.folder.projects
        agent = self._agent

        def read(db: sqlite3.Connection) -> tuple[Agent, AgentDetails]:
            from ....core.store.readers.fleet_reader import read_agents

            found = read_agents(db, sessions, [agent.session_id], policies)
            newest = next((each for each in found if each.agent_id == agent.agent_id), agent)
            return newest, read_agent_details(db, projects, newest)

        return read

    def _take(self, found: tuple[Agent, AgentDetails] | Problem) -> None:
        if not isinstance(found, Problem):
            self._agent = found[0]
            self._detail = replace(found[1], injection_choice=self._choice)
            self._draw()

    def _draw(self) -> None:
        report = agent_report(self._agent, self._detail, self._width, self.app.now_ms())
        if not report.is_same(self._content):
            self.show(report)
