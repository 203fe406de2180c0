"""The tabs of the agents' page: what they draw, copy and write as Markdown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from textual.content import Content

from ....core.compliance import agent_compliance
from ....core.model.agent import Agent
from ...entities import agent_tree
from ...entities.agent_tree import AgentTreeRow, duration_text
from ...text.column_headers import ColumnOrder
from ...text.compliance_text import VERDICT_NAMES, finding_markdown, findings_markdown
from ...text.formats import NOTHING, model_name, percent, tokens
from ...text.listing import Row
from ...text.markdown_text import TextForm
from ...text.summary_text import fenced_block
from ...text.tables import Column, escape_cell, escape_links, markdown_table
from ...text.text_lines import item_line
from ...widgets.row_list import FoldList
from ..agents import agents_overview, compliance_rows
from .agent_report import (
    NO_DETAILS,
    AgentDetails,
    agent_report,
    agent_result_text,
    session_agents_report,
)
from .agents_overview import AgentOrder, AgentScope, AgentsOverview
from .compliance_rows import FindingRow, compliance_share_text

if TYPE_CHECKING:
    from ....core.model.session import Session


def agents_markdown(agents: Sequence[Agent], titles: Mapping[str, str]) -> str:
    if not agents:
        return ""
    columns: list[Column[Agent, str]] = [
        Column("agent", lambda agent: agent.agent_type),
        Column("task", lambda agent: agent.description),
        Column("session", lambda agent: titles.get(agent.session_id, agent.session_id)),
        Column("model", lambda agent: model_name(agent.model)),
        Column("context", lambda agent: percent(agent.context.limit_ratio)),
        Column("took", lambda agent: duration_text(agent, agent.ended_at or agent.started_at or 0)),
        Column(
            "returned",
            lambda agent: f"{agent.result.lines} lines" if agent.result else agent.status_label,
        ),
        Column(
            "verdict",
            lambda agent: VERDICT_NAMES[agent.compliance.verdict] if agent.compliance else NOTHING,
        ),
    ]
    lines = ["# Agents", "", *markdown_table(columns, agents, escape_cell), ""]
    for agent in agents:
        if text := agent_result_text(agent):
            title = f"{escape_links(agent.agent_type)}: {escape_links(agent.description)}"
            lines += [f"## {title}", "", fenced_block(text)]
    return "\n".join(lines)


def _line_count(found: agent_compliance.AgentTypeCompliance, lines: int) -> str:
    return str(lines) if found.sizes.results else NOTHING


_TYPE_COLUMNS: Final[Sequence[Column[agent_compliance.AgentTypeCompliance, str]]] = (
    Column("type", lambda found: found.name),
    Column("runs", lambda found: str(found.runs)),
    Column("complied", lambda found: compliance_share_text(found.score)),
    Column("median lines", lambda found: _line_count(found, found.sizes.median_lines)),
    Column("90 % lines", lambda found: _line_count(found, found.sizes.p90_lines)),
    Column("≈tokens", lambda found: tokens(found.cost.result_tokens)),
    Column("≈excess", lambda found: tokens(found.cost.excess_tokens)),
)


def types_markdown(found: Sequence[agent_compliance.AgentTypeCompliance]) -> str:
    if not found:
        return ""
    table = markdown_table(_TYPE_COLUMNS, found, escape_cell)
    return "\n".join(["# Types of agents", "", *table, ""])


@dataclass(slots=True)
class TabArrangement:
    scope: AgentScope
    filter_text: str = ""
    empty_scopes: tuple[AgentScope, ...] = ()  # had no agents when the page was opened
    order: AgentOrder = AgentOrder.STARTED
    folded: set[str] = field(default_factory=set)


@dataclass(frozen=True, slots=True)
class TabData:
    overview: AgentsOverview
    sessions: Sequence[Session]
    arrangement: TabArrangement
    now_ms: int
    details: Mapping[str, AgentDetails]  # of agents, by the keys of their rows
    form: TextForm = TextForm.RENDERED  # of results

    @property
    def titles(self) -> dict[str, str]:
        return {session.session_id: session.title for session in self.sessions}


class TabPane(FoldList):
    """One of the tabs; the line above names it."""

    def __init__(self, name: str) -> None:
        super().__init__(id=name, name=name)
        self.border_title = None
        self.data: TabData | None = None

    def draw(self, data: TabData) -> None:
        raise NotImplementedError

    def count(self) -> int:
        """Count what matches the filter, also what is folded away."""
        raise NotImplementedError

    def report(self, width: int) -> Content | None:
        """Write all that is known of the marked row."""
        raise NotImplementedError

    def copy_text(self) -> tuple[str, str] | None:
        """Return the text of the marked row and a name for it, None if there is none."""
        raise NotImplementedError

    def document(self) -> str:
        raise NotImplementedError

    def parent_of(self, key: str) -> str | None:
        """Return the key of the nearest foldable row that this one is below."""
        del key
        return None


NO_AGENTS: Final = (
    "No agents here yet. They appear when Claude starts one (the Agent tool, a workflow, a team);"
    " a shows those of other sessions."
)


ORDER_HEADERS: Final = {
    AgentOrder.NEWEST: agent_tree.AGENT_HEADER,
    AgentOrder.FULLEST: agent_tree.CONTEXT_HEADER,
    AgentOrder.LARGEST: agent_tree.RETURNED_HEADER,
}  # the column that shows an order, and sorts by it


class AgentTreePane(TabPane):
    def __init__(self) -> None:
        super().__init__("agents")
        self._tree_rows: dict[str, AgentTreeRow] = {}
        self._agents: list[Agent] = []
        self._drawn: dict[str, tuple[tuple[object, ...], Row]] = {}

    def draw(self, data: TabData) -> None:
        self.data = data
        arrangement, agents = data.arrangement, data.overview.agents
        words = arrangement.filter_text
        self._agents = agents_overview.filter_agents(agents, words, arrangement.order)
        self.empty = f"no agent matches “{words}”; Esc shows all" if agents else NO_AGENTS
        rows = agent_tree.agent_tree_rows(self._agents, data.sessions, arrangement.folded)
        self._tree_rows = {row.key: row for row in rows}
        tree = agent_tree.measure_tree([row.branch for row in rows if row.branch])
        columns = agent_tree.agent_columns(self.row_width, data.now_ms, tree)
        header = ORDER_HEADERS.get(arrangement.order)
        self.order = ColumnOrder(header, ascending=False) if header else None
        self.show_columns(columns, gap="", style="")
        cells = {row.key: row.fold_cell for row in rows}
        self.fold_cells = {key: cell for key, cell in cells.items() if cell is not None}
        is_new = self.key is None
        drawn: dict[str, tuple[tuple[object, ...], Row]] = {}
        for row in rows:
            # Few of 500 agents change at once: a row that would look the same is used again.
            running = row.branch is not None and row.branch.agent.ended_at is None
            look = row, tree, self.row_width, data.now_ms // 1000 if running else 0
            before = self._drawn.get(row.key)
            if before is None or before[0] != look:
                before = look, Row(row.key, item_line(columns, row, gap=""))
            drawn[row.key] = before
        self._drawn = drawn
        self.show_rows([row for _, row in drawn.values()])
        if is_new and len(rows) > 1 and rows[0].branch is None:
            # The first agent, not the session: that one's page lies below this one.
            self.rows.highlighted = 1

    def count(self) -> int:
        return len(self._agents)

    @property
    def marked_agent(self) -> Agent | None:
        """The marked one; None if a session is marked."""
        row = self.tree_row(self.key)
        return row.branch.agent if row and row.branch else None

    def tree_row(self, key: str | None) -> AgentTreeRow | None:
        return self._tree_rows.get(key or "")

    def report(self, width: int) -> Content | None:
        """Write the marked agent's report, or what its session's agents have cost."""
        data, row, agent = self.data, self.tree_row(self.key), self.marked_agent
        if data is None or row is None:
            return None
        if agent is None:
            return session_agents_report(row, width)
        details = data.details.get(agent_tree.agent_row_key(agent), NO_DETAILS)
        return agent_report(agent, details, width, data.now_ms, data.form)

    def copy_text(self) -> tuple[str, str] | None:
        """Return the result of the marked agent, else its id; on a session, the session id."""
        row, agent = self.tree_row(self.key), self.marked_agent
        if row is None:
            return None
        if agent is None:
            session_id = row.key.rstrip("/")
            return session_id, f"session id {session_id}"
        text = agent_result_text(agent)
        return (text, f"result of {agent.agent_type}") if text else (agent.agent_id, "agent id")

    def document(self) -> str:
        return agents_markdown(self._agents, self.data.titles if self.data else {})

    def parent_of(self, key: str) -> str | None:
        row = self.tree_row(key)
        if row is None or row.branch is None:
            return None
        agent = row.branch.agent
        above = f"{agent.session_id}/{agent.parent_agent_id or ''}"
        return above if above in self._tree_rows else f"{agent.session_id}/"


NO_TYPES: Final = (
    "Nothing is checked: no agent has run yet, or the setting disabled_modules has compliance."
)


class TypePane(TabPane):
    def __init__(self) -> None:
        super().__init__("types")
        self._types: dict[str, agent_compliance.AgentTypeCompliance] = {}

    def draw(self, data: TabData) -> None:
        self.data = data
        found, words = data.overview.compliance.types, data.arrangement.filter_text
        self._types = agents_overview.filter_types(found, words)
        self.empty = f"no type matches “{words}”; Esc shows all" if found else NO_TYPES
        columns = compliance_rows.type_columns(self.row_width)
        self.show_columns(columns, gap="", style="")
        types = self.in_order(self._types.values())
        self.show_rows([Row(each.name, item_line(columns, each, gap="")) for each in types])

    def count(self) -> int:
        return len(self._types)

    def report(self, width: int) -> Content | None:
        """Write the marked type's history."""
        found = self._types.get(self.key or "")
        if found is None or self.data is None:
            return None
        summary = self.data.overview.compliance
        return compliance_rows.type_report(found, summary.min_samples, summary.force_hooks, width)

    def copy_text(self) -> tuple[str, str] | None:
        """Return the history as it is displayed, 80 cells wide."""
        report = self.report(width=80)
        return (report.plain, f"history of {self.key}") if report else None

    def document(self) -> str:
        return types_markdown(list(self._types.values()))


NO_FINDINGS: Final = (
    "No findings here. Findings of reviewers that use the skill compress-review"
    " (Critical: file:line — text) appear here; a shows other sessions."
)


class FindingPane(TabPane):
    def __init__(self) -> None:
        super().__init__("findings")
        self._finding_rows: dict[str, FindingRow] = {}
        self._groups: Sequence[agent_compliance.SeverityFindings] = ()

    def draw(self, data: TabData) -> None:
        self.data = data
        words, found = data.arrangement.filter_text, data.overview.findings
        self._groups = agent_compliance.group_by_severity(
            agents_overview.filter_findings(found, words)
        )
        self.empty = f"nothing matches “{words}”; Esc shows all" if found else NO_FINDINGS
        width = self.row_width
        self.show_columns(compliance_rows.finding_columns(width), gap="", style="")
        rows = compliance_rows.lay_out_findings(self._groups, data.arrangement.folded)
        self._finding_rows = {row.key: row for row in rows}
        cells = {row.key: row.fold_cell for row in rows}
        self.fold_cells = {key: cell for key, cell in cells.items() if cell is not None}
        self.show_rows(
            [Row(row.key, compliance_rows.finding_line(row, width, data.now_ms)) for row in rows]
        )

    def count(self) -> int:
        return sum(group.count for group in self._groups)

    def finding_row(self, key: str | None) -> FindingRow | None:
        return self._finding_rows.get(key or "")

    def report(self, width: int) -> Content | None:
        row, data = self.finding_row(self.key), self.data
        if row is None or data is None:
            return None
        return compliance_rows.finding_report(row, data.titles, width, data.now_ms)

    def copy_text(self) -> tuple[str, str] | None:
        """Return the marked finding as one line, or a group as a Markdown document."""
        row = self.finding_row(self.key)
        if row is None:
            return None
        if row.finding is not None:
            return finding_markdown(row.finding), "the finding"
        return findings_markdown(row.groups), f"{row.groups[0].count} findings"

    def document(self) -> str:
        return findings_markdown(self._groups)

    def parent_of(self, key: str) -> str | None:
        row = self.finding_row(key)
        if row is None or row.in_file is None:
            return None
        if row.finding is None:
            return row.severity
        return "\n".join((row.severity, row.in_file.project, row.in_file.path))
