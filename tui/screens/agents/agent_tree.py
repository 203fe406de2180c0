"""Agents as the lines of a tree: who started whom, how full each is, what each returned."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from rich.cells import cell_len
from textual.content import Content

from ....core.model.agent import Agent, AgentStatus
from ...text.compliance_text import short_verdict
from ...text.formats import duration, fit_left, fit_right, model_name, tokens, used_percent
from ...text.gauge import LEVEL_STYLES

if TYPE_CHECKING:
    from ....core.model.session import Session


@dataclass(frozen=True, slots=True)
class Branch:
    """An agent and where it stands in the tree."""

    agent: Agent
    prefix: str  # the lines before its name
    descendants: int = 0  # agents that it started, and theirs
    folded: bool = False  # those are not shown


def build_agent_tree(agents: Sequence[Agent]) -> list[Branch]:
    """Put agents under those that started them, in the order they are given in."""
    known = {agent.agent_id for agent in agents}
    children: dict[str | None, list[Agent]] = {}
    for agent in agents:
        parent = agent.parent_agent_id
        inside = parent in known and parent != agent.agent_id
        children.setdefault(parent if inside else None, []).append(agent)
    branches: list[Branch] = []
    waiting = _siblings(children.pop(None, []), "")
    while waiting or children:
        branch = waiting.pop() if waiting else Branch(_break_circle(children), "└ ")
        branches.append(branch)
        stem = branch.prefix.replace("├", "│").replace("└", " ")
        # Taken out when it is placed, and no call of itself: a circle and a long chain end.
        waiting += _siblings(children.pop(branch.agent.agent_id, []), stem)
    return _with_descendants(branches)


def fold_tree(
    branches: Iterable[Branch], folded: Collection[str], key: Callable[[Agent], str]
) -> Iterator[Branch]:
    """Leave out what stands below the folded agents, by their keys."""
    shown: int | None = None
    for branch in branches:
        if shown is not None and len(branch.prefix) > shown:
            continue
        shown = None
        if branch.descendants and key(branch.agent) in folded:
            shown = len(branch.prefix)
            branch = Branch(branch.agent, branch.prefix, branch.descendants, folded=True)  # noqa: PLW2901
        yield branch


def _with_descendants(branches: Sequence[Branch]) -> list[Branch]:
    """Count the descendants of each branch: those that follow it with longer prefixes."""
    below = [0] * len(branches)
    # Those that more may stand below: length of the stem, and place.
    open_: list[tuple[int, int]] = []
    for place, branch in enumerate(branches):
        while open_ and open_[-1][0] >= len(branch.prefix):
            _close(open_, below)
        open_.append((len(branch.prefix), place))
    while open_:
        _close(open_, below)
    pairs = zip(branches, below, strict=True)
    return [Branch(each.agent, each.prefix, count) for each, count in pairs]


def _close(open_: list[tuple[int, int]], below: list[int]) -> None:
    _, place = open_.pop()
    if open_:
        below[open_[-1][1]] += below[place] + 1


def _siblings(agents: Sequence[Agent], stem: str) -> list[Branch]:
    """Draw what one agent started, the first at the list's end, where it is taken from."""
    lines = ["├ "] * (len(agents) - 1) + ["└ "]
    return [Branch(one, stem + line) for one, line in zip(agents, lines, strict=False)][::-1]


def _break_circle(children: dict[str | None, list[Agent]]) -> Agent:
    """Remove an agent from a cycle of parents and return it, so that all of them are shown."""
    parent = next(iter(children))
    first = children[parent].pop(0)
    if not children[parent]:
        del children[parent]
    return first


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
MODEL_MIN_WIDTH: Final = 64
MIN_TYPE_CELLS: Final = 12
MIN_TASK_CELLS: Final = 8


@dataclass(frozen=True, slots=True)
class TreeColumns:
    """How many cells the names of a tree take, and its verdicts; 0 where none has one."""

    names: int = 0  # with the lines before them
    verdicts: int = 0


def measure_tree(branches: Sequence[Branch]) -> TreeColumns:
    """Measure a tree, so that what its agents were to do begins in one column."""
    names = (len(each.prefix) + cell_len(each.agent.agent_type) for each in branches)
    verdicts = (cell_len(short_verdict(each.agent.compliance)) for each in branches)
    return TreeColumns(max(names, default=0), max(verdicts, default=0))


def session_root_line(session: Session, width: int) -> Content:
    """Write the line of the session itself, the root of the tree."""
    context = session.context
    name = fit_left(f"▾ {session.title}", max(0, width - FILL_CELLS - RESULT_CELLS - 2))
    return Content.assemble(
        (name, "bold $foreground"),
        " ",
        (fit_right(used_percent(context), FILL_CELLS), LEVEL_STYLES[context.level]),
        " ",
        (fit_right(_count(session.agents), RESULT_CELLS), "$quiet"),
    )


def agent_line(branch: Branch, width: int, now_ms: int, columns: TreeColumns) -> Content:
    """Write an agent's line; the columns of its tree hold where there is room for them."""
    agent = branch.agent
    sign, style = agent_sign(agent)
    with_model = width >= MODEL_MIN_WIDTH
    fixed = FILL_CELLS + RESULT_CELLS + 2 + (MODEL_CELLS + 1 if with_model else 0)
    room = max(0, width - fixed - len(branch.prefix) - 2)
    context = agent.context
    parts: list[tuple[str, str]] = [
        (branch.prefix, "$bar-mark"),
        (f"{sign} ", style),
        *name_cells(branch, columns, room),
        (" ", ""),
    ]
    if with_model:
        parts.append((fit_left(model_name(agent.model), MODEL_CELLS) + " ", "$quiet"))
    parts.append((fit_right(used_percent(context), FILL_CELLS) + " ", LEVEL_STYLES[context.level]))
    parts.append((fit_right(returned_text(agent, now_ms), RESULT_CELLS), "$foreground"))
    return Content.assemble(*parts)


def agent_sign(agent: Agent) -> tuple[str, str]:
    """Return the sign and the style of an agent: its status, or that it is noncompliant."""
    if agent.status is AgentStatus.COMPLETED and agent.compliance and agent.compliance.failed:
        return "✗", "$level-warning"
    return AGENT_SIGNS[agent.status]


def name_cells(branch: Branch, columns: TreeColumns, room: int) -> list[tuple[str, str]]:
    """Name an agent, then its verdict where there is room for it, then what it was to do."""
    agent = branch.agent
    verdict = short_verdict(agent.compliance)
    if room < cell_len(agent.agent_type) + cell_len(verdict) + 1:
        # Its code alone: the sign before the name says already that it failed.
        verdict = verdict.rpartition(" ")[2]
    names = columns.names - len(branch.prefix)
    verdicts = columns.verdicts + 1 if columns.verdicts else 0
    if room < names + verdicts + MIN_TASK_CELLS:
        names, verdicts = _narrow_widths(agent, verdict, room)
    failed = agent.compliance is not None and agent.compliance.failed
    rest = room - names - verdicts
    # A few letters of it say nothing.
    task = f" {agent.description}" if agent.description and rest >= MIN_TASK_CELLS else ""
    return [
        (fit_left(agent.agent_type, names), "$foreground"),
        (fit_left(f" {verdict}", verdicts), "$level-warning" if failed else "$quiet"),
        (fit_left(task, rest), "$quiet"),
    ]


def _narrow_widths(agent: Agent, verdict: str, room: int) -> tuple[int, int]:
    """Divide a narrow line between a name and its verdict: a sign says the verdict already."""
    verdicts = cell_len(verdict) + 1 if verdict else 0
    if room - verdicts < min(MIN_TYPE_CELLS, cell_len(agent.agent_type)):
        verdicts = 0
    if verdicts:
        return min(room - verdicts, max(MIN_TYPE_CELLS, cell_len(agent.agent_type))), verdicts
    name = max(MIN_TYPE_CELLS, cell_len(agent.agent_type), room // 2)
    return min(room, name if agent.description else room), 0


def returned_text(agent: Agent, now_ms: int) -> str:
    """Return the size of the result; without a result, the run time or the status."""
    if agent.result:
        lines = "1 line" if agent.result.lines == 1 else f"{agent.result.lines} lines"
        estimate = agent.result.estimated_tokens
        return lines if estimate is None else f"{lines} ≈{tokens(estimate)}"
    if agent.status is AgentStatus.RUNNING and agent.started_at is not None:
        return f"running {duration(now_ms - agent.started_at)}"
    return agent.status.label


def _count(agents: int) -> str:
    return "no agents" if not agents else f"{agents} agent{'s' if agents > 1 else ''}"
