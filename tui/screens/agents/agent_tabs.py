"""The tabs of the agents' page: agents, types and findings, and their Markdown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from textual.content import Content

from ....core.measure.agent_compliance import (
    AgentTypeCompliance,
    SeverityFindings,
    group_by_severity,
)
from ....core.model.agent import Agent
from ...tables import Column, escape_cell, escape_links, markdown_table
from ...text.compliance_text import VERDICT_NAMES, finding_markdown, findings_markdown
from ...text.formats import NOTHING, model_name, percent, tokens
from ...widgets.row_list import FoldList, Row
from .agent_details import AgentDetails
from .agent_report import NO_DETAILS, agent_report, agent_result_text, session_agents_report
from .agent_tree import TreeColumns, measure_tree
from .agents_table import (
    AgentOrder,
    AgentScope,
    AgentsOverview,
    AgentTreeRow,
    agent_fold_cell,
    agent_row_key,
    agent_tree_line,
    agent_tree_rows,
    agents_header,
    duration_text,
    filter_agents,
    filter_findings,
    filter_types,
)
from .compliance_rows import (
    FindingRow,
    compliance_share_text,
    finding_fold_cell,
    finding_line,
    finding_report,
    findings_header,
    lay_out_findings,
    type_line,
    type_report,
    types_header,
)

if TYPE_CHECKING:
    from ....core.model.session import Session


@dataclass(slots=True)
class TabArrangement:
    """How a person has arranged a tab."""

    scope: AgentScope
    filter_text: str = ""
    order: AgentOrder = AgentOrder.STARTED
    folded: set[str] = field(default_factory=set)


@dataclass(frozen=True, slots=True)
class TabData:
    """What a tab is drawn from."""

    overview: AgentsOverview
    sessions: Sequence[Session]
    arrangement: TabArrangement
    now_ms: int
    details: Mapping[str, AgentDetails]  # of agents, by the keys of their rows

    @property
    def titles(self) -> dict[str, str]:
        """What the sessions are called."""
        return {each.session_id: each.title for each in self.sessions}


class TabPane(FoldList):
    """One of the tabs; the line above names it."""

    def __init__(self, name: str) -> None:
        super().__init__(id=name, number="", name=name)
        self.border_title = None

    def draw(self, shown: TabData) -> None:
        """Draw the rows."""
        raise NotImplementedError

    def count(self) -> int:
        """Count what is shown."""
        raise NotImplementedError

    def count_all(self, gathered: AgentsOverview) -> int:
        """Count what would be shown without a filter."""
        raise NotImplementedError

    def report(self, width: int) -> Content | None:
        """Write all that is known of the marked row."""
        raise NotImplementedError

    def copy_text(self) -> tuple[str, str] | None:
        """Return the text of the marked row and a name for it, None if there is none."""
        raise NotImplementedError

    def document(self) -> str:
        """Write what is shown as Markdown."""
        raise NotImplementedError

    def foldable(self) -> Sequence[str]:
        """Name the rows that can be folded."""
        return tuple(self._fold_cells)

    def parent_of(self, key: str) -> str | None:
        """Name the nearest row above this one that can be folded and that it stands below."""
        del key
        return None


_FENCE = "```"


def agents_markdown(agents: Sequence[Agent], titles: Mapping[str, str]) -> str:
    """Write a table of agents, and below it what each gave back; empty where there are none."""
    if not agents:
        return ""
    columns: list[Column[Agent, str]] = [
        Column("agent", lambda each: each.agent_type),
        Column("task", lambda each: each.description),
        Column("session", lambda each: titles.get(each.session_id, each.session_id)),
        Column("model", lambda each: model_name(each.model)),
        Column("context", lambda each: percent(each.context.ratio)),
        Column("took", lambda each: duration_text(each, each.ended_at or each.started_at or 0)),
        Column("gave back", _result_lines_text),
        Column("verdict", _verdict_name),
    ]
    lines = ["# Agents", "", *markdown_table(columns, agents, escape_cell)]
    for each in agents:
        text = agent_result_text(each)
        if text:
            fence = _fence(text)
            title = f"{escape_links(each.agent_type)}: {escape_links(each.description)}"
            lines += ["", f"## {title}", "", f"{fence}text", text, fence]
    return "\n".join([*lines, ""])


def _result_lines_text(agent: Agent) -> str:
    return f"{agent.result.lines} lines" if agent.result else agent.status.label


def _verdict_name(agent: Agent) -> str:
    return VERDICT_NAMES[agent.compliance.verdict] if agent.compliance else NOTHING


def _line_count(part: AgentTypeCompliance, lines: int) -> str:
    return str(lines) if part.sizes.results else NOTHING


_TYPE_COLUMNS: Final[Sequence[Column[AgentTypeCompliance, str]]] = (
    Column("type", lambda each: each.name),
    Column("runs", lambda each: str(each.runs)),
    Column("complied", lambda each: compliance_share_text(each.score)),
    Column("median lines", lambda each: _line_count(each, each.sizes.median_lines)),
    Column("90 % lines", lambda each: _line_count(each, each.sizes.p90_lines)),
    Column("≈tokens", lambda each: tokens(each.cost.result_tokens)),
    Column("≈too many", lambda each: tokens(each.cost.excess_tokens)),
)


def types_markdown(parts: Sequence[AgentTypeCompliance]) -> str:
    """Write a table of types; empty where there are none."""
    if not parts:
        return ""
    table = markdown_table(_TYPE_COLUMNS, parts, escape_cell)
    return "\n".join(["# Types of agents", "", *table, ""])


def _fence(text: str) -> str:
    """Choose a fence that the text does not end."""
    fence = _FENCE
    while fence in text:
        fence += "`"
    return fence


RowInputs = tuple["AgentTreeRow", "TreeColumns", int, int]
"""All that a row is made of: the second counts only of what is at work."""

NO_AGENTS: Final = (
    "No agents here yet. They appear when Claude starts one (the Agent tool, a workflow, a team);"
    " a shows those of other sessions."
)


class AgentTreePane(TabPane):
    """Tab 1."""

    def __init__(self) -> None:
        super().__init__("agents")
        self._lines: dict[str, AgentTreeRow] = {}
        self._drawn: TabData | None = None
        self._agents: list[Agent] = []
        self._rows: dict[str, tuple[RowInputs, Row]] = {}

    def draw(self, shown: TabData) -> None:
        """Draw the tree."""
        self._drawn = shown
        standing = shown.arrangement
        agents = shown.overview.agents
        self._agents = filter_agents(agents, standing.filter_text, standing.order)
        self.empty = (
            f"no agent matches “{standing.filter_text}”; Esc shows all" if agents else NO_AGENTS
        )
        lines = agent_tree_rows(self._agents, shown.sessions, standing.folded)
        self._lines = {each.key: each for each in lines}
        branches = [each.branch for each in lines if each.branch]
        columns = measure_tree(branches)
        self.show_header(agents_header(self.row_width))
        cells = {each.key: agent_fold_cell(each) for each in lines}
        self.show_folds({key: cell for key, cell in cells.items() if cell is not None})
        is_new = self.key is None
        drawn = [self._row(each, columns, shown.now_ms) for each in lines]
        self._rows = {row.key: (said, row) for said, row in drawn}
        self.show_rows([row for _, row in drawn])
        if is_new and len(lines) > 1 and lines[0].branch is None:
            # The first agent, not the session: that one's page lies below this one.
            self.rows.highlighted = 1

    def _row(self, line: AgentTreeRow, columns: TreeColumns, now_ms: int) -> tuple[RowInputs, Row]:
        """Write a row, or take the one that says the same: of 500 agents few change at once."""
        second = now_ms // 1000 if line.branch and line.branch.agent.ended_at is None else 0
        said = (line, columns, self.row_width, second)
        before = self._rows.get(line.key)
        if before is not None and before[0] == said:
            return before
        return said, Row(line.key, agent_tree_line(line, self.row_width, now_ms, columns))

    def count(self) -> int:
        """Count the agents, also those that are folded away."""
        return len(self._agents)

    def count_all(self, gathered: AgentsOverview) -> int:
        """Count what would be shown without a filter."""
        return len(gathered.agents)

    @property
    def marked_agent(self) -> Agent | None:
        """The marked one; None where a session is marked."""
        line = self._lines.get(self.key or "")
        return line.branch.agent if line and line.branch else None

    def line(self, key: str) -> AgentTreeRow | None:
        return self._lines.get(key)

    def report(self, width: int) -> Content | None:
        """Write the marked agent's report, or what its session's agents have cost."""
        shown, line = self._drawn, self._lines.get(self.key or "")
        if shown is None or line is None:
            return None
        if line.branch is None:
            return session_agents_report(line, width)
        agent = line.branch.agent
        detail = shown.details.get(agent_row_key(agent), NO_DETAILS)
        return agent_report(agent, detail, width, shown.now_ms)

    def copy_text(self) -> tuple[str, str] | None:
        """Return the result of the marked agent, else its id; on a session, the session id."""
        line = self._lines.get(self.key or "")
        if line is None:
            return None
        if line.branch is None:
            session_id = line.key.rstrip("/")
            return session_id, f"session id {session_id}"
        agent = line.branch.agent
        text = agent_result_text(agent)
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


NO_TYPES: Final = (
    "No agent has run yet, or the policy's disabled_modules name compliance: nothing is judged."
)


class TypePane(TabPane):
    """Tab 2."""

    def __init__(self) -> None:
        super().__init__("types")
        self._parts: dict[str, AgentTypeCompliance] = {}
        self._least = 0

    def draw(self, shown: TabData) -> None:
        """Draw a line a type."""
        parts = shown.overview.compliance.types
        words = shown.arrangement.filter_text
        self._least = shown.overview.compliance.min_samples
        self._parts = {each.name: each for each in filter_types(parts, words)}
        self.empty = f"no type matches “{words}”; Esc shows all" if parts else NO_TYPES
        self.show_header(types_header(self.row_width))
        self.show_rows(
            [Row(name, type_line(each, self.row_width)) for name, each in self._parts.items()]
        )

    def count(self) -> int:
        """Count the types."""
        return len(self._parts)

    def count_all(self, gathered: AgentsOverview) -> int:
        """Count what would be shown without a filter."""
        return len(gathered.compliance.types)

    def report(self, width: int) -> Content | None:
        """Write the marked type's history."""
        part = self._parts.get(self.key or "")
        return type_report(part, self._least, width) if part else None

    def copy_text(self) -> tuple[str, str] | None:
        """Return the history as it is displayed, 80 cells wide."""
        report = self.report(width=80)
        return (report.plain, f"history of {self.key}") if report else None

    def document(self) -> str:
        """Write the types as a table."""
        return types_markdown(list(self._parts.values()))


NO_FINDINGS: Final = (
    "No review has found anything here. A reviewer that returns by the skill compress-review"
    " (Critical: file:line — text) is read into this list; a shows other sessions'."
)


class FindingPane(TabPane):
    """Tab 3."""

    def __init__(self) -> None:
        super().__init__("findings")
        self._lines: dict[str, FindingRow] = {}
        self._groups: Sequence[SeverityFindings] = ()
        self._drawn: TabData | None = None

    def draw(self, shown: TabData) -> None:
        """Draw the severities, the files in them, and what was found in these."""
        self._drawn = shown
        words, found = shown.arrangement.filter_text, shown.overview.findings
        self._groups = group_by_severity(filter_findings(found, words))
        self.empty = f"nothing matches “{words}”; Esc shows all" if found else NO_FINDINGS
        self.show_header(findings_header(self.row_width))
        lines = lay_out_findings(self._groups, shown.arrangement.folded)
        self._lines = {each.key: each for each in lines}
        cells = {each.key: finding_fold_cell(each) for each in lines}
        self.show_folds({key: cell for key, cell in cells.items() if cell is not None})
        self.show_rows(
            [Row(each.key, finding_line(each, self.row_width, shown.now_ms)) for each in lines]
        )

    def count(self) -> int:
        """Count what was found, also what is folded away."""
        return sum(each.count for each in self._groups)

    def count_all(self, gathered: AgentsOverview) -> int:
        """Count what would be shown without a filter."""
        return len(gathered.findings)

    def line(self, key: str) -> FindingRow | None:
        return self._lines.get(key)

    def report(self, width: int) -> Content | None:
        """Write what the marked row stands for."""
        line, shown = self._lines.get(self.key or ""), self._drawn
        return finding_report(line, shown.titles, width, shown.now_ms) if line and shown else None

    def copy_text(self) -> tuple[str, str] | None:
        """Return the marked finding as one line, or a group as a Markdown document."""
        line = self._lines.get(self.key or "")
        if line is None:
            return None
        if line.finding is not None:
            return finding_markdown(line.finding), "the finding"
        return findings_markdown(line.groups), f"{line.groups[0].count} findings"

    def document(self) -> str:
        """Write all that is shown."""
        return findings_markdown(self._groups)

    def parent_of(self, key: str) -> str | None:
        """Name the file, or the severity, that a row stands below."""
        line = self._lines.get(key)
        if line is None or line.in_file is None:
            return None
        in_file = line.in_file
        if line.finding is None:
            return line.severity
        return "\n".join((line.severity, in_file.project, in_file.path))
