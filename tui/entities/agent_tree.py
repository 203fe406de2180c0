"""Agents as the rows of a tree: who started whom, how full each is, what each returned."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Final

import msgspec
from msgspec.structs import replace
from rich.cells import cell_len
from textual.content import Content

from ...core.model.agent import Agent, AgentStatus
from ..text import formats
from ..text.compliance_text import short_verdict
from ..text.gauge import LEVEL_STYLES, MIN_GAUGE_CELLS, PERCENT_CELLS, gauge
from ..text.tables import Cell, Column, fitting_columns, total_cells
from ..text.text_lines import FOLD_SIGNS, Drawing, ScreenColumn

if TYPE_CHECKING:
    from ...core.model.session import Session


class Branch(msgspec.Struct, frozen=True):
    agent: Agent
    prefix: str  # the lines before its name
    descendants: int = 0  # agents that it started, and theirs
    folded: bool = False  # those are hidden


def build_agent_tree(agents: Sequence[Agent]) -> list[Branch]:
    """Put agents under those that started them, in the order they are given in."""
    known = {agent.agent_id for agent in agents}
    children: dict[str | None, list[Agent]] = {}
    for agent in agents:
        parent = agent.parent_agent_id
        is_child = parent in known and parent != agent.agent_id
        children.setdefault(parent if is_child else None, []).append(agent)
    branches: list[Branch] = []
    waiting = _siblings(children.pop(None, []), "")
    while waiting or children:
        branch = waiting.pop() if waiting else Branch(_break_circle(children), "└ ")
        branches.append(branch)
        stem = branch.prefix.replace("├", "│").replace("└", " ")
        # Removed when it is placed, and without recursion: a circle and a long chain end.
        waiting += _siblings(children.pop(branch.agent.agent_id, []), stem)
    return _with_descendants(branches)


def fold_tree(
    branches: Iterable[Branch], folded: Collection[str], key: Callable[[Agent], str]
) -> Iterator[Branch]:
    """Hide what is below the folded agents, given by their keys."""
    folded_at: int | None = None
    for branch in branches:
        if folded_at is not None and len(branch.prefix) > folded_at:
            continue
        is_folded = branch.descendants > 0 and key(branch.agent) in folded
        folded_at = len(branch.prefix) if is_folded else None
        yield replace(branch, folded=is_folded)


def _with_descendants(branches: Sequence[Branch]) -> list[Branch]:
    """Count the descendants of each branch: those that follow it with longer prefixes."""
    counts = [len(branches) - place - 1 for place in range(len(branches))]
    ancestors: list[int] = []
    for place, branch in enumerate(branches):
        while ancestors and len(branches[ancestors[-1]].prefix) >= len(branch.prefix):
            before = ancestors.pop()
            counts[before] = place - before - 1
        ancestors.append(place)
    pairs = zip(branches, counts, strict=True)
    return [replace(branch, descendants=count) for branch, count in pairs]


def _siblings(agents: Sequence[Agent], stem: str) -> list[Branch]:
    """Draw what one agent started, the first at the list's end, where it is taken from."""
    lines = ["├ "] * (len(agents) - 1) + ["└ "]
    return [Branch(agent, stem + line) for agent, line in zip(agents, lines, strict=False)][::-1]


def _break_circle(children: dict[str | None, list[Agent]]) -> Agent:
    """Remove an agent from a cycle of parents and return it, so that all of them are shown."""
    parent = next(iter(children))
    first = children[parent].pop(0)
    if not children[parent]:
        del children[parent]
    return first


AGENT_SIGNS: Final = {
    AgentStatus.RUNNING: ("●", "$level-calm"),
    AgentStatus.ZOMBIE: ("◌", "$level-warning"),
    AgentStatus.CLOSED: ("□", "$quiet"),
    AgentStatus.COMPLETED: ("✓", "$level-calm"),
    AgentStatus.FAILED: ("✗", "$level-emergency"),
    AgentStatus.STOPPED: ("■", "$level-warning"),
    AgentStatus.REJECTED: ("⊘", "$quiet"),
    AgentStatus.NEVER_STARTED: ("∅", "$quiet"),
    AgentStatus.UNREAD: ("!", "$level-emergency"),
    AgentStatus.UNKNOWN: ("?", "$quiet"),
}

RESULT_CELLS: Final = 19
PERCENT_COLUMN_CELLS: Final = 5
MODEL_CELLS: Final = 11
MODEL_MIN_WIDTH: Final = 64
MIN_TYPE_CELLS: Final = 12
MIN_TASK_CELLS: Final = 8  # a few letters of a task have no meaning


class TreeColumns(msgspec.Struct, frozen=True):
    """How many cells a tree's names and its verdicts take; 0 if none has one."""

    names: int = 0  # with the lines before them
    verdicts: int = 0
    tasks: int = 0


_UNMEASURED: Final = TreeColumns()


def measure_tree(branches: Sequence[Branch]) -> TreeColumns:
    """Measure a tree, so that its agents' tasks begin in one column."""
    names = (len(each.prefix) + cell_len(each.agent.agent_type) for each in branches)
    verdicts = (cell_len(short_verdict(each.agent.compliance)) for each in branches)
    tasks = (cell_len(each.agent.description) for each in branches)
    return TreeColumns(max(names, default=0), max(verdicts, default=0), max(tasks, default=0))


def session_root_line(session: Session, width: int) -> Content:
    context, count = session.context, session.agents
    name_width = max(0, width - PERCENT_COLUMN_CELLS - RESULT_CELLS - 2)
    agents = formats.plural(count, "agent") if count else "no agents"
    return Content.assemble(
        (formats.fit_left(f"▾ {session.title}", name_width), "bold $foreground"),
        " ",
        (
            formats.fit_right(formats.used_percent(context), PERCENT_COLUMN_CELLS),
            LEVEL_STYLES[context.level],
        ),
        " ",
        (formats.fit_right(agents, RESULT_CELLS), "$quiet"),
    )


def agent_line(branch: Branch, width: int, now_ms: int, columns: TreeColumns) -> Content:
    """Write an agent's line; the columns of its tree are used if there is room for them."""
    agent, context = branch.agent, branch.agent.context
    model = ""
    if width >= MODEL_MIN_WIDTH:
        model = formats.fit_left(formats.model_name(agent.model), MODEL_CELLS) + " "
    name_width = width - PERCENT_COLUMN_CELLS - RESULT_CELLS - 2 - len(model)
    fill = formats.fit_right(formats.used_percent(context), PERCENT_COLUMN_CELLS) + " "
    return Content.assemble(
        *_name_parts(branch, columns, name_width),
        " ",
        (model, "$quiet"),
        (fill, LEVEL_STYLES[context.level]),
        (formats.fit_right(returned_text(agent, now_ms), RESULT_CELLS), "$foreground"),
    )


def agent_sign(agent: Agent) -> tuple[str, str]:
    """Return the sign and the style of an agent: its status, or that it is noncompliant."""
    if agent.status is AgentStatus.COMPLETED and agent.compliance and agent.compliance.failed:
        return "✗", "$broken"
    return AGENT_SIGNS[agent.status]


def _name_parts(branch: Branch, columns: TreeColumns, width: int) -> list[tuple[str, str]]:
    """Write the tree's lines, the agent's sign, its name, its verdict and its task."""
    sign, style = agent_sign(branch.agent)
    room = max(0, width - len(branch.prefix) - 2)
    return [(branch.prefix, "$bar-mark"), (f"{sign} ", style), *_name_cells(branch, columns, room)]


def _name_cells(branch: Branch, columns: TreeColumns, room: int) -> list[tuple[str, str]]:
    agent = branch.agent
    verdict = short_verdict(agent.compliance)
    if room < cell_len(agent.agent_type) + cell_len(verdict) + 1:
        # Its code alone: the sign before the name already marks a failure.
        verdict = verdict.rpartition(" ")[2]
    names = columns.names - len(branch.prefix)
    verdicts = columns.verdicts + 1 if columns.verdicts else 0
    if room < names + verdicts + MIN_TASK_CELLS:
        names, verdicts = _narrow_widths(agent, verdict, room)
    failed = agent.compliance is not None and agent.compliance.failed
    rest = room - names - verdicts
    task = f" {agent.description}" if agent.description and rest >= MIN_TASK_CELLS else ""
    return [
        (formats.fit_left(agent.agent_type, names), "$foreground"),
        (formats.fit_left(f" {verdict}", verdicts), "$broken" if failed else "$quiet"),
        (formats.fit_left(task, rest), "$quiet"),
    ]


def _narrow_widths(agent: Agent, verdict: str, room: int) -> tuple[int, int]:
    """Divide a narrow line between a name and its verdict, which the sign already shows."""
    verdicts = cell_len(verdict) + 1 if verdict else 0
    type_cells = cell_len(agent.agent_type)
    if room - verdicts < min(MIN_TYPE_CELLS, type_cells):
        verdicts = 0
    if verdicts:
        return min(room - verdicts, max(MIN_TYPE_CELLS, type_cells)), verdicts
    name = max(MIN_TYPE_CELLS, type_cells, room // 2)
    return min(room, name if agent.description else room), 0


def returned_text(agent: Agent, now_ms: int) -> str:
    """Return the size of the result; without a result, the run time or the status."""
    if agent.result:
        estimate = agent.result.estimated_tokens
        lines = formats.plural(agent.result.lines, "line")
        return lines if estimate is None else f"{lines} ≈{formats.tokens(estimate)}"
    if agent.status is AgentStatus.RUNNING and agent.started_at is not None:
        return f"running {formats.duration(now_ms - agent.started_at)}"
    if agent.status is AgentStatus.ZOMBIE:
        return f"silent {formats.age(agent.silent_since, now_ms)}"
    return "ended with session" if agent.ended_with_session else agent.status.label


def duration_text(agent: Agent, now_ms: int) -> str:
    """Return how long an agent has run, up to `now_ms` if it is still running."""
    if agent.started_at is None:
        return formats.NOTHING
    end = agent.ended_at if agent.ended_at is not None else now_ms
    return formats.duration(end - agent.started_at)


# The agents' page: the trees of many sessions in a table.


class AgentTreeRow(msgspec.Struct, frozen=True):
    """A row of the tree: a session, or one of its agents."""

    key: str
    session: Session | None  # None if the store does not know it yet
    branch: Branch | None = None  # None for the session itself
    agents: tuple[Agent, ...] = ()  # of a session's row, those that are shown below it
    folded: bool = False

    @property
    def source(self) -> Agent | Session | None:
        """What the row shows."""
        return self.branch.agent if self.branch else self.session

    @property
    def fold_cell(self) -> int | None:
        """The cell of the fold sign, None if the row cannot be folded."""
        if self.branch is None:
            return 0
        return len(self.branch.prefix) - 2 if self.branch.descendants else None


def agent_row_key(agent: Agent) -> str:
    """Return the key of an agent's row; a session's row has an empty agent id."""
    return f"{agent.session_id}/{agent.agent_id}"


def agent_tree_rows(
    agents: Iterable[Agent], sessions: Sequence[Session], folded: Collection[str]
) -> list[AgentTreeRow]:
    """Put agents below their sessions, in the order of the sessions."""
    by_session: dict[str, list[Agent]] = {}
    for agent in agents:
        by_session.setdefault(agent.session_id, []).append(agent)
    known = {session.session_id: session for session in sessions}
    ordered = [session_id for session_id in known if session_id in by_session]
    ordered += [session_id for session_id in by_session if session_id not in known]
    rows: list[AgentTreeRow] = []
    for session_id in ordered:
        session, own = known.get(session_id), by_session[session_id]
        key = f"{session_id}/"
        is_folded = key in folded
        rows.append(AgentTreeRow(key, session, agents=tuple(own), folded=is_folded))
        if not is_folded:
            branches = fold_tree(build_agent_tree(own), folded, agent_row_key)
            rows += (
                AgentTreeRow(agent_row_key(branch.agent), session, _with_fold_sign(branch))
                for branch in branches
            )
    return rows


def _with_fold_sign(branch: Branch) -> Branch:
    sign = FOLD_SIGNS[branch.folded] if branch.descendants else "─"
    return replace(branch, prefix=f"{branch.prefix[:-1]}{sign} ")


MIN_NAME_CELLS: Final = 52
"""For a name, its verdict and a word of its task; before it is shorter other columns leave."""

MAX_BAR_CELLS: Final = 20
AGENT_HEADER: Final = "  agent"
CONTEXT_HEADER: Final = " context"
RETURNED_HEADER: Final = "returned"


def agent_columns(
    width: int, now_ms: int = 0, tree: TreeColumns = _UNMEASURED
) -> list[ScreenColumn[AgentTreeRow]]:
    """Choose the columns that fit; the gauge grows by what the names and tasks leave over."""
    columns: list[ScreenColumn[AgentTreeRow]] = [
        Column(
            AGENT_HEADER,
            lambda row: lambda cells: _name(row, tree, cells),
            cells=MIN_NAME_CELLS,
            tooltip="the agent below what started it, its verdict and its task",
        ),
        Column(
            " model",
            _model_cell,
            cells=MODEL_CELLS + 1,
            priority=3,
            tooltip="the model of its last answer",
        ),
        Column(
            CONTEXT_HEADER,
            _gauge_cells,
            cells=1 + MIN_GAUGE_CELLS + PERCENT_CELLS,
            tooltip="share of its own context window",
        ),
        Column(" of", _window_cell, cells=10, priority=1, tooltip="the size of its window"),
        Column(
            "took",
            lambda row: _duration_cell(row, now_ms),
            right=True,
            cells=7,
            priority=2,
            tooltip="how long it ran",
        ),
        Column(
            RETURNED_HEADER,
            lambda row: _returned_cell(row, now_ms),
            right=True,
            cells=RESULT_CELLS + 1,
            tooltip="the size of its result, which is now in its parent's context",
        ),
    ]
    fitting = fitting_columns(columns, width, lambda shown: total_cells(shown, 0))
    spare = width - total_cells(fitting, 0)
    needed = tree.names + tree.verdicts + tree.tasks + 4 - MIN_NAME_CELLS  # with sign and gaps
    longer = min(max(0, spare - max(0, needed)), MAX_BAR_CELLS - MIN_GAUGE_CELLS)
    more = {AGENT_HEADER: max(spare - longer, -MIN_NAME_CELLS), CONTEXT_HEADER: longer}
    return [replace(each, cells=each.cells + more.get(each.header, 0)) for each in fitting]


def _name(row: AgentTreeRow, tree: TreeColumns, cells: int) -> Content:
    if row.branch is None:
        return _session_name(row, cells)
    parts = _name_parts(row.branch, tree, cells)
    if row.branch.folded:
        # The name is cut to make room for the number of folded descendants.
        count = f" +{row.branch.descendants}"
        *before, (last, style) = parts
        cut = formats.fit_left(last, max(0, cell_len(last) - len(count)))
        parts = [*before, (cut, style), (count, "$quiet")]
    return Content.assemble(*parts)


def _session_name(row: AgentTreeRow, cells: int) -> Content:
    session = row.session
    name = f"{FOLD_SIGNS[row.folded]} {session.title if session else row.key[:8]}"
    project = f"  {session.project}" if session else ""
    rest = cells - cell_len(name)
    if not project or rest < cell_len(project):
        return Content.styled(formats.fit_left(name, cells), "bold $foreground")
    return Content.assemble((name, "bold $foreground"), (formats.fit_left(project, rest), "$quiet"))


def _model_cell(row: AgentTreeRow) -> Cell:
    return Cell(f" {formats.model_name(row.source.model)}" if row.source else "", "$quiet")


def _gauge_cells(row: AgentTreeRow) -> Cell | Drawing:
    if (source := row.source) is None:
        return Cell("")
    return lambda cells: Content(" ") + gauge(source.context, cells - 1 - PERCENT_CELLS)


def _window_cell(row: AgentTreeRow) -> Cell:
    if row.source is None:
        return Cell("")
    context = row.source.context
    window = (
        formats.NOTHING if context.tokens is None else f"of {formats.tokens(context.window.tokens)}"
    )
    return Cell(f" {window}", "$quiet")


def _duration_cell(row: AgentTreeRow, now_ms: int) -> Cell:
    return Cell(duration_text(row.branch.agent, now_ms), "$quiet") if row.branch else Cell("")


def _returned_cell(row: AgentTreeRow, now_ms: int) -> Cell:
    if row.branch is not None:
        return Cell(returned_text(row.branch.agent, now_ms), "$foreground")
    failed = sum(1 for agent in row.agents if agent.compliance and agent.compliance.failed)
    count = formats.plural(len(row.agents), "agent")
    return Cell(f"{count} ✗{failed}" if failed else count, "$quiet") if row.session else Cell("")
