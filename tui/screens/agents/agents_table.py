"""The rows of the agents' page: sessions with their agents below them, each with its gauge."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from rich.cells import cell_len
from textual.content import Content

from ...text.formats import NOTHING, duration, fit_left, fit_right, model_name, tokens
from ...text.gauge import MIN_GAUGE_CELLS, PERCENT_CELLS, gauge
from .agent_tree import (
    RESULT_CELLS,
    agent_sign,
    build_agent_tree,
    fold_tree,
    name_cells,
    returned_text,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from ....core.model.agent import Agent
    from ....core.model.context import Context
    from ....core.model.session import Session
    from .agent_tree import Branch, TreeColumns


WINDOW_CELLS: Final = 9
MODEL_CELLS: Final = 11
DURATION_CELLS: Final = 6

MIN_NAME_CELLS: Final = 52
"""Cells for a name, its verdict and a word of its task; before them other columns leave."""

MAX_BAR_CELLS: Final = 20

FOLD_SIGNS: Final = {True: "▸", False: "▾"}
"""Before what can be folded; True where it is."""


@dataclass(frozen=True, slots=True)
class AgentTreeRow:
    """A row of the tree: a session, or one of its agents."""

    key: str
    session: Session | None
    """None where the store does not know it yet."""
    branch: Branch | None = None
    """None of the session itself."""
    agents: tuple[Agent, ...] = ()
    """Of a session's own line, those that are shown below it."""
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
