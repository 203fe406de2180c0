"""The rows of the agents' page, and which agents, types and findings are shown.

retry -draft                       in type, task, model, state, verdict; - or ! negates
type:reviewer  model:opus          in that field
verdict:forced  verdict:V05        with that verdict, or with that code
is:running  is:done  is:failed     in that state; `running` alone does it too
broke:                             noncompliant
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import TYPE_CHECKING, Final

from rich.cells import cell_len
from textual.content import Content

from ....core.compliance.findings import FAILED_VERDICTS, finding_labels
from ....core.compliance.run_verdict import DEFAULT_CHARS_PER_TOKEN
from ....core.model.agent import Agent, AgentStatus
from ....core.model.context import Context
from ....core.model.filter_language import Fields, fields_filter
from ....core.policy.resolve import Policies
from ...text.compliance_text import VERDICT_NAMES
from ...text.formats import NOTHING, duration, fit_left, fit_right, model_name, tokens
from ...text.gauge import MIN_GAUGE_CELLS, PERCENT_CELLS, gauge
from ...text.text_lines import FOLD_SIGNS
from ...ui_state import CycleEnum
from .agent_tree import (
    RESULT_CELLS,
    Branch,
    TreeColumns,
    agent_sign,
    build_agent_tree,
    fold_tree,
    name_cells,
    returned_text,
)

if TYPE_CHECKING:
    from ....core.measure.agent_compliance import (
        AgentTypeCompliance,
        ComplianceSummary,
        GroupedFinding,
    )
    from ....core.model.session import Session


WINDOW_CELLS: Final = 9
MODEL_CELLS: Final = 11
DURATION_CELLS: Final = 6

MIN_NAME_CELLS: Final = 52
"""Cells for a name, its verdict and a word of its task; before them other columns leave."""

MAX_BAR_CELLS: Final = 20


@dataclass(frozen=True, slots=True)
class AgentTreeRow:
    """A row of the tree: a session, or one of its agents."""

    key: str
    session: Session | None  # none where the store does not know it yet
    branch: Branch | None = None  # none of the session itself
    agents: tuple[Agent, ...] = ()  # of a session's own line, those that are shown below it
    folded: bool = False


def session_row_key(session_id: str) -> str:
    """Name a session's own row; an agent's id, part of a file's name, is never empty."""
    return f"{session_id}/"


def agent_row_key(agent: Agent) -> str:
    """Name an agent's row, among those of all sessions."""
    return f"{agent.session_id}/{agent.agent_id}"


def agent_tree_rows(
    agents: Iterable[Agent], sessions: Sequence[Session], folded: Collection[str]
) -> list[AgentTreeRow]:
    """Put agents below their sessions, in the order of the sessions."""
    by_session: dict[str, list[Agent]] = {}
    for agent in agents:
        by_session.setdefault(agent.session_id, []).append(agent)
    known = {each.session_id: each for each in sessions}
    lines: list[AgentTreeRow] = []
    for session_id in [
        *(each for each in known if each in by_session),
        *_unknown_sessions(by_session, known),
    ]:
        session, own = known.get(session_id), by_session[session_id]
        key = session_row_key(session_id)
        is_folded = key in folded
        lines.append(AgentTreeRow(key, session, agents=tuple(own), folded=is_folded))
        if not is_folded:
            branches = fold_tree(build_agent_tree(own), folded, agent_row_key)
            lines += (
                AgentTreeRow(agent_row_key(each.agent), session, _with_fold_sign(each))
                for each in branches
            )
    return lines


def _with_fold_sign(branch: Branch) -> Branch:
    """Put the sign for what is below into the lines before a name."""
    sign = FOLD_SIGNS[branch.folded] if branch.descendants else "─"
    return replace(branch, prefix=f"{branch.prefix[:-1]}{sign} ")


def _unknown_sessions(by_session: Iterable[str], known: Collection[str]) -> list[str]:
    return [each for each in by_session if each not in known]


@dataclass(frozen=True, slots=True)
class AgentColumnWidths:
    """Cells of the columns; 0 where one has no room."""

    name: int
    bar: int
    model: int = 0
    window: int = 0
    took: int = 0


def lay_out_agent_columns(width: int) -> AgentColumnWidths:
    """Divide a line: the name and the gauge stay, then come window, model and duration."""
    bar = MIN_GAUGE_CELLS
    room = width - RESULT_CELLS - PERCENT_CELLS - bar - 2
    given = {"window": 0, "model": 0, "took": 0}
    columns = (("window", WINDOW_CELLS), ("took", DURATION_CELLS), ("model", MODEL_CELLS))
    for name, cells in columns:
        if room - cells - 1 < MIN_NAME_CELLS:
            break
        given[name] = cells
        room -= cells + 1
    more = min(max(0, room - MIN_NAME_CELLS) // 3, MAX_BAR_CELLS - bar)
    return AgentColumnWidths(
        max(0, room - more), bar + more, given["model"], given["window"], given["took"]
    )


def agents_header(width: int) -> Content:
    """Name the columns."""
    cells = lay_out_agent_columns(width)
    parts = [fit_left("  agent", cells.name)]
    if cells.model:
        parts.append(fit_left("model", cells.model))
    parts.append(fit_left("context", cells.bar + PERCENT_CELLS))
    if cells.window:
        parts.append(fit_left("of", cells.window))
    if cells.took:
        parts.append(fit_right("took", cells.took))
    parts.append(fit_right("gave back", RESULT_CELLS))
    return Content(" ".join(parts))


def agent_tree_line(line: AgentTreeRow, width: int, now_ms: int, columns: TreeColumns) -> Content:
    """Write a row of the tree for a width."""
    cells = lay_out_agent_columns(width)
    if line.branch is None:
        return _session_line(line, cells)
    branch = line.branch
    agent = branch.agent
    sign, style = agent_sign(agent)
    room = max(0, cells.name - len(branch.prefix) - 2)
    parts: list[tuple[str, str]] = [
        (branch.prefix, "$bar-mark"),
        (f"{sign} ", style),
        *name_cells(branch, columns, room),
    ]
    return Content.assemble(
        *_with_folded_count(parts, branch),
        *_context_cells(agent.context, agent.model, cells),
        *_duration_cell(agent, now_ms, cells),
        (" " + fit_right(returned_text(agent, now_ms), RESULT_CELLS), "$foreground"),
    )


def agent_fold_cell(line: AgentTreeRow) -> int | None:
    """Return the cell of the fold sign in a row, None if the row cannot be folded."""
    if line.branch is None:
        return 0
    return len(line.branch.prefix) - 2 if line.branch.descendants else None


def _session_line(line: AgentTreeRow, cells: AgentColumnWidths) -> Content:
    session = line.session
    failed = sum(1 for each in line.agents if each.compliance and each.compliance.failed)
    count = f"{len(line.agents)} agent{'s' if len(line.agents) > 1 else ''}"
    count += f" ✗{failed}" if failed else ""
    sign = FOLD_SIGNS[line.folded]
    if session is None:
        name = fit_left(f"{sign} {line.key[:8]}", cells.name)
        return Content.assemble((name, "bold $foreground"))
    name = f"{sign} {session.title}"
    project = f"  {session.project}"
    rest = cells.name - cell_len(name) - cell_len(project)
    shown = project if rest >= 0 else ""
    return Content.assemble(
        (fit_left(name, cells.name - cell_len(shown)), "bold $foreground")
        if not shown
        else (name, "bold $foreground"),
        (fit_left(shown, cells.name - cell_len(name)), "$quiet") if shown else "",
        *_context_cells(session.context, session.model, cells),
        (" " + fit_left("", cells.took), "") if cells.took else "",
        (" " + fit_right(count, RESULT_CELLS), "$quiet"),
    )


def _context_cells(
    context: Context, name: str | None, cells: AgentColumnWidths
) -> list[Content | tuple[str, str]]:
    parts: list[Content | tuple[str, str]] = []
    if cells.model:
        parts.append((" " + fit_left(model_name(name), cells.model), "$quiet"))
    parts += [(" ", ""), gauge(context, cells.bar)]
    if cells.window:
        window = "" if context.tokens is None else f"of {tokens(context.window.tokens)}"
        parts.append((" " + fit_left(window or NOTHING, cells.window), "$quiet"))
    return parts


def _duration_cell(agent: Agent, now_ms: int, cells: AgentColumnWidths) -> list[tuple[str, str]]:
    return (
        [(" " + fit_right(duration_text(agent, now_ms), cells.took), "$quiet")]
        if cells.took
        else []
    )


def duration_text(agent: Agent, now_ms: int) -> str:
    """Return how long an agent has run, up to `now_ms` if it is still running."""
    if agent.started_at is None:
        return NOTHING
    end = agent.ended_at if agent.ended_at is not None else now_ms
    return duration(end - agent.started_at)


def _with_folded_count(parts: list[tuple[str, str]], branch: Branch) -> list[tuple[str, str]]:
    """Append the number of folded descendants to a name, which is cut to make room."""
    if not branch.folded:
        return parts
    more = f" +{branch.descendants}"
    *before, (last, style) = parts
    return [*before, (fit_left(last, max(0, cell_len(last) - len(more))), style), (more, "$quiet")]


class AgentScope(Enum):
    """Of which sessions agents are shown; `a` goes from one to the next."""

    SESSION = "this session"
    LIVE = "live sessions"
    ALL = "all sessions"


@dataclass(frozen=True, slots=True)
class AgentsOverview:
    """One moment of some sessions' agents."""

    scope: AgentScope
    agents: tuple[Agent, ...]  # in the order they started
    compliance: ComplianceSummary
    findings: tuple[GroupedFinding, ...]  # what their reviewers found, newest review first


def read_agents_overview(
    db: sqlite3.Connection,
    scope: AgentScope,
    session_id: str | None,
    sessions: Sequence[Session],
    policies: Policies,
) -> AgentsOverview:
    """Read the agents of a scope, and sum them up as `ctxtop compliance` does."""
    from ....core.compliance.judge import compliance_settings
    from ....core.measure.agent_compliance import group_findings, summarize_compliance
    from ....core.store.readers.fleet_reader import read_agents

    agents = read_agents(db, sessions, _session_ids(scope, session_id, sessions), policies)
    summed = summarize_compliance(agents, compliance_settings(policies.common))
    projects = {each.session_id: each.project for each in sessions}
    return AgentsOverview(
        scope, tuple(agents), summed, tuple(group_findings(summed.findings, projects))
    )


def _session_ids(
    scope: AgentScope, session_id: str | None, sessions: Sequence[Session]
) -> list[str] | None:
    if scope is AgentScope.SESSION:
        return [session_id or ""]
    if scope is AgentScope.LIVE:
        return [each.session_id for each in sessions if each.live]
    return None


NONCOMPLIANT_WORD: Final = "broke:"  # the word that `v` puts into the filter and takes out again
_STATE_WORDS: Final = {AgentStatus.COMPLETED: "completed done"}


class AgentOrder(CycleEnum):
    """How those that one agent started are sorted; `s` goes from one to the next."""

    STARTED = "as started"
    NEWEST = "newest"
    FULLEST = "fullest"
    LARGEST = "largest result"


def filter_agents(
    agents: Iterable[Agent], words: str, order: AgentOrder = AgentOrder.STARTED
) -> list[Agent]:
    """Return the agents that match every word, sorted by `order`."""
    takes = fields_filter(words, (NONCOMPLIANT_WORD[:-1],))
    chosen = [each for each in agents if takes(_agent_fields(each))] if words else list(agents)
    if order is not AgentOrder.STARTED:
        chosen.sort(key=_SORT_KEYS[order])
    return chosen


def filter_types(parts: Iterable[AgentTypeCompliance], words: str) -> list[AgentTypeCompliance]:
    """Return the agent types that match every word."""
    takes = fields_filter(words, (NONCOMPLIANT_WORD[:-1],))
    return [each for each in parts if takes(_type_fields(each))]


def filter_findings(found: Iterable[GroupedFinding], words: str) -> list[GroupedFinding]:
    """Return the findings that match every word.

    Words may be qualified: `severity:`, `file:`, `type:`, `project:`.
    """
    takes = fields_filter(words, (NONCOMPLIANT_WORD[:-1],))
    return [each for each in found if takes(_finding_fields(each))]


def toggle_word(words: str, word: str) -> str:
    """Put a word into a filter, or take it out."""
    listed = words.split()
    return " ".join(
        [each for each in listed if each != word] if word in listed else [*listed, word]
    )


def _agent_fields(agent: Agent) -> Fields:
    ruling = agent.compliance
    fields = {
        "type": agent.agent_type,
        "model": f"{agent.model} {model_name(agent.model)}",
        "is": _STATE_WORDS.get(agent.status, agent.status.label),
        "task": agent.description,
        "id": agent.agent_id,
    }
    if ruling is not None:
        codes = " ".join(finding_labels((*ruling.violations, *ruling.warnings)))
        fields["verdict"] = f"{ruling.verdict.value} {VERDICT_NAMES[ruling.verdict]} {codes}"
    if ruling is not None and ruling.failed:
        fields["broke"] = ""
    return {key: value.casefold() for key, value in fields.items()}


def _type_fields(part: AgentTypeCompliance) -> Fields:
    fields = {
        "type": part.name.casefold(),
        "format": " ".join(each.value for each in part.formats),
        "verdict": " ".join(f"{each.value} {VERDICT_NAMES[each]}" for each in part.last_verdicts),
        "is": "running" if part.running else "",
    }
    if any(each in FAILED_VERDICTS for each in part.score.verdicts if part.score.verdicts[each]):
        fields["broke"] = ""
    return fields


def _finding_fields(found: GroupedFinding) -> Fields:
    finding = found.finding
    fields = {
        "severity": finding.severity,
        "file": finding.path,
        "project": found.project,
        "type": " ".join(each.agent_type for each in found.reviews),
        "text": f"{found.location} {finding.text}",
    }
    return {key: value.casefold() for key, value in fields.items()}


def _result_tokens(agent: Agent) -> int:
    result = agent.result
    if result is None:
        return -1
    estimate = result.estimated_tokens
    return result.chars // DEFAULT_CHARS_PER_TOKEN if estimate is None else estimate


_SORT_KEYS: Final[dict[AgentOrder, Callable[[Agent], tuple[float, str]]]] = {
    AgentOrder.NEWEST: lambda agent: (
        -(agent.ended_at or agent.started_at or 0)
        if agent.status is not AgentStatus.RUNNING
        else float("-inf"),
        agent.agent_id,
    ),
    AgentOrder.FULLEST: lambda agent: (-(agent.context.ratio or 0.0), agent.agent_id),
    AgentOrder.LARGEST: lambda agent: (-_result_tokens(agent), agent.agent_id),
}
