"""All agents of some sessions as a tree, each with its own gauge."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ..agent_filter import choose_agents
from ..agent_markdown import agents_markdown
from ..agent_page_rows import agent_key, agent_lines, fold_cell, head_line, tree_line
from ..agent_report import NO_DETAIL, agent_report, result_of
from ..agent_rows import columns_of
from ..session_agents_report import session_agents_report
from .row_list import Row
from .tab_pane import TabPane

if TYPE_CHECKING:
    from textual.content import Content

    from ...core.agents import Agent
    from ..agent_page_rows import Line
    from ..agent_reading import Gathered
    from ..agent_rows import Columns
    from .tab_pane import Shown

Said = tuple["Line", "Columns", int, int]
"""All that a row is made of: the second counts only of what is at work."""

NO_AGENTS: Final = (
    "No agents here yet. They appear when Claude starts one (the Agent tool, a workflow, a team);"
    " a shows those of other sessions."
)


class AgentTreePane(TabPane):
    """Tab 1."""

    def __init__(self) -> None:
        super().__init__("agents")
        self._lines: dict[str, Line] = {}
        self._drawn: Shown | None = None
        self._agents: list[Agent] = []
        self._rows: dict[str, tuple[Said, Row]] = {}

    def draw(self, shown: Shown) -> None:
        """Draw the tree."""
        self._drawn = shown
        standing = shown.arrangement
        agents = shown.overview.agents
        self._agents = choose_agents(agents, standing.filter_text, standing.order)
        self.empty = f"no agent matches “{standing.filter_text}”; Esc shows all" if agents else NO_AGENTS
        lines = agent_lines(self._agents, shown.sessions, standing.folded)
        self._lines = {each.key: each for each in lines}
        branches = [each.branch for each in lines if each.branch]
        columns = columns_of(branches)
        self.show_header(head_line(self.row_width))
        cells = {each.key: fold_cell(each) for each in lines}
        self.show_folds({key: cell for key, cell in cells.items() if cell is not None})
        is_new = self.key is None
        drawn = [self._row(each, columns, shown.now_ms) for each in lines]
        self._rows = {row.key: (said, row) for said, row in drawn}
        self.show_rows([row for _, row in drawn])
        if is_new and len(lines) > 1 and lines[0].branch is None:
            # The first agent, not the session: that one's page lies below this one.
            self.rows.highlighted = 1

    def _row(self, line: Line, columns: Columns, now_ms: int) -> tuple[Said, Row]:
        """Write a row, or take the one that says the same: of 500 agents few change at once."""
        second = now_ms // 1000 if line.branch and line.branch.agent.ended_at is None else 0
        said = (line, columns, self.row_width, second)
        before = self._rows.get(line.key)
        if before is not None and before[0] == said:
            return before
        return said, Row(line.key, tree_line(line, self.row_width, now_ms, columns))

    def count(self) -> int:
        """Count the agents, also those that are folded away."""
        return len(self._agents)

    def count_all(self, gathered: Gathered) -> int:
        """Count what would be shown without a filter."""
        return len(gathered.agents)

    @property
    def marked_agent(self) -> Agent | None:
        """The marked one; None where a session is marked."""
        line = self._lines.get(self.key or "")
        return line.branch.agent if line and line.branch else None

    def line(self, key: str) -> Line | None:
        """Give what a row stands for."""
        return self._lines.get(key)

    def report(self, width: int) -> Content | None:
        """Write the marked agent's report, or what its session's agents have cost."""
        shown, line = self._drawn, self._lines.get(self.key or "")
        if shown is None or line is None:
            return None
        if line.branch is None:
            return session_agents_report(line, width)
        agent = line.branch.agent
        detail = shown.details.get(agent_key(agent), NO_DETAIL)
        return agent_report(agent, detail, width, shown.now_ms)

    def copied(self) -> tuple[str, str] | None:
        """Give the marked agent's result, or the session's id."""
        line = self._lines.get(self.key or "")
        if line is None:
            return None
        if line.branch is None:
            session_id = line.key.rstrip("/")
            return session_id, f"session id {session_id}"
        agent = line.branch.agent
        text = result_of(agent)
        return (text, f"result of {agent.agent_type}") if text else (agent.agent_id, "agent id")

    def document(self) -> str:
        """Write the agents as a table, and below it what they gave back."""
        titles = self._drawn.titles if self._drawn else {}
        return agents_markdown(self._agents, titles)

    def parent_of(self, key: str) -> str | None:
        """Name the agent that started this one, or its session."""
        line = self._lines.get(key)
        if line is None or line.branch is None:
            return None
        agent = line.branch.agent
        above = f"{agent.session_id}/{agent.parent_agent_id or ''}"
        return above if above in self._lines else f"{agent.session_id}/"
