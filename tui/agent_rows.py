"""A session's agents as a tree: who started whom, how full each is, what it gave back."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from rich.cells import cell_len
from textual.content import Content

from ..core.agents import AgentStatus
from .compliance_words import short_verdict
from .formats import age, fit, fit_right, model, percent, tokens
from .gauge import LEVEL_STYLES, estimate_sign

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..core.agents import Agent
    from ..core.sessions import Session
    from .agent_tree import Branch

AGENT_SIGNS: Final = {
    AgentStatus.RUNNING: ("●", "$level-calm"),
    AgentStatus.COMPLETED: ("✓", "$level-calm"),
    AgentStatus.FAILED: ("✗", "$level-emergency"),
    AgentStatus.STOPPED: ("■", "$level-warning"),
    AgentStatus.REJECTED: ("⊘", "$quiet"),
    AgentStatus.NEVER_STARTED: ("∅", "$quiet"),
    AgentStatus.UNKNOWN: ("?", "$quiet"),
}

RESULT_CELLS: Final = 19
FILL_CELLS: Final = 5
MODEL_CELLS: Final = 11
WIDE_ENOUGH_FOR_MODEL: Final = 64
SHORTEST_TYPE: Final = 12
SHORTEST_TASK: Final = 8


@dataclass(frozen=True, slots=True)
class Columns:
    """How many cells the names of a tree take, and its verdicts; 0 where none has one."""

    names: int = 0
    """With the lines before them."""
    verdicts: int = 0


def columns_of(branches: Sequence[Branch]) -> Columns:
    """Measure a tree, so that what its agents were to do begins in one column."""
    names = (len(each.prefix) + cell_len(each.agent.agent_type) for each in branches)
    verdicts = (cell_len(short_verdict(each.agent.compliance)) for each in branches)
    return Columns(max(names, default=0), max(verdicts, default=0))


def leader_line(session: Session, width: int) -> Content:
    """Write the line of the session itself, the root of the tree."""
    context = session.context
    sign = f"{estimate_sign(context)}{percent(context.ratio)}"
    name = fit(f"▾ {session.title}", max(0, width - FILL_CELLS - RESULT_CELLS - 2))
    return Content.assemble(
        (name, "bold $foreground"),
        " ",
        (fit_right(sign, FILL_CELLS), LEVEL_STYLES[context.level]),
        " ",
        (fit_right(_count(session.agents), RESULT_CELLS), "$quiet"),
    )


def agent_line(branch: Branch, width: int, now_ms: int, columns: Columns) -> Content:
    """Write an agent's line; the columns of its tree hold where there is room for them."""
    agent = branch.agent
    sign, style = mark(agent)
    with_model = width >= WIDE_ENOUGH_FOR_MODEL
    fixed = FILL_CELLS + RESULT_CELLS + 2 + (MODEL_CELLS + 1 if with_model else 0)
    room = max(0, width - fixed - len(branch.prefix) - 2)
    context = agent.context
    fill = f"{estimate_sign(context)}{percent(context.ratio)}"
    parts: list[tuple[str, str]] = [
        (branch.prefix, "$bar-mark"),
        (f"{sign} ", style),
        *who(branch, columns, room),
        (" ", ""),
    ]
    if with_model:
        parts.append((fit(model(agent.model), MODEL_CELLS) + " ", "$quiet"))
    parts.append((fit_right(fill, FILL_CELLS) + " ", LEVEL_STYLES[context.level]))
    parts.append((fit_right(returned(agent, now_ms), RESULT_CELLS), "$foreground"))
    return Content.assemble(*parts)


def mark(agent: Agent) -> tuple[str, str]:
    """Tell how an agent ended; of one that ended, whether it did as its skill asks."""
    if agent.status is AgentStatus.COMPLETED and agent.compliance and agent.compliance.failed:
        return "✗", "$level-warning"
    return AGENT_SIGNS[agent.status]


def who(branch: Branch, columns: Columns, room: int) -> list[tuple[str, str]]:
    """Name an agent, then its verdict where there is room for it, then what it was to do."""
    agent = branch.agent
    verdict = short_verdict(agent.compliance)
    if room < cell_len(agent.agent_type) + cell_len(verdict) + 1:
        # Its code alone: the sign before the name says already that it failed.
        verdict = verdict.rpartition(" ")[2]
    names = columns.names - len(branch.prefix)
    verdicts = columns.verdicts + 1 if columns.verdicts else 0
    if room < names + verdicts + SHORTEST_TASK:
        names, verdicts = _squeezed(agent, verdict, room)
    failed = agent.compliance is not None and agent.compliance.failed
    rest = room - names - verdicts
    # A few letters of it say nothing.
    task = f" {agent.description}" if agent.description and rest >= SHORTEST_TASK else ""
    return [
        (fit(agent.agent_type, names), "$foreground"),
        (fit(f" {verdict}", verdicts), "$level-warning" if failed else "$quiet"),
        (fit(task, rest), "$quiet"),
    ]


def _squeezed(agent: Agent, verdict: str, room: int) -> tuple[int, int]:
    """Divide a narrow line between a name and its verdict: a sign says the verdict already."""
    verdicts = cell_len(verdict) + 1 if verdict else 0
    if room - verdicts < min(SHORTEST_TYPE, cell_len(agent.agent_type)):
        verdicts = 0
    if verdicts:
        return min(room - verdicts, max(SHORTEST_TYPE, cell_len(agent.agent_type))), verdicts
    name = max(SHORTEST_TYPE, cell_len(agent.agent_type), room // 2)
    return min(room, name if agent.description else room), 0


def returned(agent: Agent, now_ms: int) -> str:
    """Say how much an agent put into its parent, or how it stands."""
    if agent.result:
        lines = "1 line" if agent.result.lines == 1 else f"{agent.result.lines} lines"
        estimate = agent.result.estimated_tokens
        return lines if estimate is None else f"{lines} ≈{tokens(estimate)}"
    if agent.status is AgentStatus.RUNNING and agent.started_at is not None:
        return f"running {age(now_ms - agent.started_at)}"
    return agent.status.label


def _count(agents: int) -> str:
    return "no agents" if not agents else f"{agents} agent{'s' if agents > 1 else ''}"
