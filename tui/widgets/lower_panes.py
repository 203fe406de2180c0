"""The panes below the sessions: two beside each other, or one of three where it is narrow."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from textual.containers import Horizontal
from textual.content import Content
from textual.style import Style

from .agent_pane import LEADER, AgentPane
from .fill_pane import FillPane
from .row_list import RowList
from .summary_pane import SummaryPane

if TYPE_CHECKING:
    from collections.abc import Mapping

    from textual.app import ComposeResult

    from ...core.agents import Agent
    from ...core.sessions import Session
    from ...core.store.rows import SummaryRow
    from ..view import View

PANES: Final = {"sessions": "¹", "agents": "²", "summaries": "³", "fills": "⁴"}
"""Each pane's id, which is its name too, and its number."""


class LowerPanes(Horizontal):
    """Agents, summaries, and what fills the marked session."""

    def __init__(self) -> None:
        super().__init__(id="lower")
        self._agents: tuple[Agent, ...] = ()
        self._summaries: tuple[SummaryRow, ...] = ()

    def compose(self) -> ComposeResult:
        """Lay out the panes."""
        yield AgentPane(id="agents", number="²", name="Agents")
        yield SummaryPane(id="summaries", number="³", name="Summaries")
        yield FillPane(id="fills", number="⁴", name="What fills it")

    def on_mount(self) -> None:
        """Say what is going on before anything was read."""
        self.query_one(AgentPane).empty = "no session is marked"
        self.query_one(SummaryPane).empty = "nothing was returned or kept yet"

    def show_session(self, session: Session | None, view: View, now_ms: int) -> None:
        """Show the marked session's agents, and what fills it."""
        if view.request.session_id == (session.session_id if session else None):
            self._agents = view.agents
            self.query_one(AgentPane).show(session, view.agents, now_ms)
        self.query_one(FillPane).show(session)

    def show_summaries(
        self, view: View, titles: Mapping[str, str], search: str, now_ms: int
    ) -> None:
        """Show what was returned and kept, as far as it has the searched words."""
        self._summaries = view.summaries
        pane = self.query_one(SummaryPane)
        pane.empty = (
            f"no summary has the words “{search}”; Esc shows all"
            if search
            else "nothing was returned or kept yet"
        )
        pane.set_titles(Content(f"³ Summaries /{search}" if search else "³ Summaries"))
        pane.show(view.summaries, titles, now_ms)

    def name_panes(self, *, narrow: bool, short: bool) -> None:
        """Where panes share a place, name them all on the border: a click turns to one."""
        names = [name for name in PANES if short or name != "sessions"]
        tabs = Content("  ").join(
            Content.styled(
                f"{PANES[name]} {name}", Style.from_meta({"@click": f"screen.pane('{name}')"})
            )
            for name in names
        )
        for pane in self.query(RowList):
            pane.set_titles(subtitle=tabs if narrow or short else Content(""))

    def agent(self, key: str) -> Agent | None:
        """Find the agent of a row."""
        return next((agent for agent in self._agents if agent.agent_id == key), None)

    def summary(self, key: str | None) -> SummaryRow | None:
        """Find the summary of a row."""
        return next((row for row in self._summaries if str(row.summary_id) == key), None)

    def copy_text(self, pane: str, key: str) -> tuple[str, str]:
        """Give what of a pane is copied, and what it is called; nothing for the leader's row."""
        if pane == "fills":
            lines = (row.content.plain.rstrip() for row in self.query_one(FillPane).rows.shown)
            return "\n".join(lines), "what fills it"
        if pane == "summaries":
            row = self.summary(key)
            return (row.text, "the whole summary") if row else ("", "")
        if key == LEADER:
            return "", ""
        agent = self.agent(key)
        text = (agent.result.text if agent and agent.result else None) or key
        return text, f"result of {agent.agent_type}" if agent else key
