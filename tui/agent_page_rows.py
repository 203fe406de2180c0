"""The lines of the agents' page: sessions with their agents below them, each with its gauge."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from rich.cells import cell_len
from textual.content import Content

from .agent_rows import RESULT_CELLS, mark, returned, who
from .agent_tree import fold, grow_tree
from .formats import NOTHING, age, fit, fit_right, model, tokens
from .gauge import PERCENT_CELLS, SHORTEST, gauge

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from ..core.agents import Agent
    from ..core.context import Context
    from ..core.sessions import Session
    from .agent_rows import Columns
    from .agent_tree import Branch

WINDOW_CELLS: Final = 9
MODEL_CELLS: Final = 11
TOOK_CELLS: Final = 6

SHORTEST_NAME: Final = 52
"""Cells for a name, its verdict and a word of its task; before them other columns leave."""

LONGEST_BAR: Final = 20

SIGNS: Final = {True: "▸", False: "▾"}
"""Before what can be folded; True where it is."""


@dataclass(frozen=True, slots=True)
class Line:
    """A row of the tree: a session, or one of its agents."""

    key: str
    session: Session | None
    """None where the store does not know it yet."""
    branch: Branch | None = None
    """None of the session itself."""
    agents: tuple[Agent, ...] = ()
    """Of a session's own line, those that are shown below it."""
    folded: bool = False


def session_key(session_id: str) -> str:
    """Name a session's own row; an agent's id, part of a file's name, is never empty."""
    return f"{session_id}/"


def agent_key(agent: Agent) -> str:
    """Name an agent's row, among those of all sessions."""
    return f"{agent.session_id}/{agent.agent_id}"


def agent_lines(
    agents: Iterable[Agent], sessions: Sequence[Session], folded: Collection[str]
) -> list[Line]:
    """Put agents below their sessions, in the order of the sessions."""
    by_session: dict[str, list[Agent]] = {}
    for agent in agents:
        by_session.setdefault(agent.session_id, []).append(agent)
    known = {each.session_id: each for each in sessions}
    lines: list[Line] = []
    for session_id in [
        *(each for each in known if each in by_session),
        *_others(by_session, known),
    ]:
        session, own = known.get(session_id), by_session[session_id]
        key = session_key(session_id)
        is_folded = key in folded
        lines.append(Line(key, session, agents=tuple(own), folded=is_folded))
        if not is_folded:
            branches = fold(grow_tree(own), folded, agent_key)
            lines += (Line(agent_key(each.agent), session, _signed(each)) for each in branches)
    return lines


def _signed(branch: Branch) -> Branch:
    """Put the sign for what is below into the lines before a name."""
    sign = SIGNS[branch.folded] if branch.descendants else "─"
    return replace(branch, prefix=f"{branch.prefix[:-1]}{sign} ")


def _others(by_session: Iterable[str], known: Collection[str]) -> list[str]:
    return [each for each in by_session if each not in known]


@dataclass(frozen=True, slots=True)
class Widths:
    """Cells of the columns; 0 where one has no room."""

    name: int
    bar: int
    model: int = 0
    window: int = 0
    took: int = 0


def widths_of(width: int) -> Widths:
    """Divide a line: the name and the gauge stay, then come window, model and duration."""
    bar = SHORTEST
    room = width - RESULT_CELLS - PERCENT_CELLS - bar - 2
    given = {"window": 0, "model": 0, "took": 0}
    columns = (("window", WINDOW_CELLS), ("took", TOOK_CELLS), ("model", MODEL_CELLS))
    for name, cells in columns:
        if room - cells - 1 < SHORTEST_NAME:
            break
        given[name] = cells
        room -= cells + 1
    more = min(max(0, room - SHORTEST_NAME) // 3, LONGEST_BAR - bar)
    return Widths(max(0, room - more), bar + more, given["model"], given["window"], given["took"])


def head_line(width: int) -> Content:
    """Name the columns."""
    cells = widths_of(width)
    parts = [fit("  agent", cells.name)]
    if cells.model:
        parts.append(fit("model", cells.model))
    parts.append(fit("context", cells.bar + PERCENT_CELLS))
    if cells.window:
        parts.append(fit("of", cells.window))
    if cells.took:
        parts.append(fit_right("took", cells.took))
    parts.append(fit_right("gave back", RESULT_CELLS))
    return Content(" ".join(parts))


def tree_line(line: Line, width: int, now_ms: int, columns: Columns) -> Content:
    """Write a row of the tree for a width."""
    cells = widths_of(width)
    if line.branch is None:
        return _session_line(line, cells)
    branch = line.branch
    agent = branch.agent
    sign, style = mark(agent)
    room = max(0, cells.name - len(branch.prefix) - 2)
    parts: list[tuple[str, str]] = [
        (branch.prefix, "$bar-mark"),
        (f"{sign} ", style),
        *who(branch, columns, room),
    ]
    return Content.assemble(
        *_counted(parts, branch),
        *_numbers(agent.context, agent.model, cells),
        *_took(agent, now_ms, cells),
        (" " + fit_right(returned(agent, now_ms), RESULT_CELLS), "$foreground"),
    )


def fold_cell(line: Line) -> int | None:
    """Give the cell of a row at which its fold can be clicked; None where it has none."""
    if line.branch is None:
        return 0
    return len(line.branch.prefix) - 2 if line.branch.descendants else None


def _session_line(line: Line, cells: Widths) -> Content:
    session = line.session
    failed = sum(1 for each in line.agents if each.compliance and each.compliance.failed)
    count = f"{len(line.agents)} agent{'s' if len(line.agents) > 1 else ''}"
    count += f" ✗{failed}" if failed else ""
    sign = SIGNS[line.folded]
    if session is None:
        name = fit(f"{sign} {line.key[:8]}", cells.name)
        return Content.assemble((name, "bold $foreground"))
    name = f"{sign} {session.title}"
    project = f"  {session.project}"
    rest = cells.name - cell_len(name) - cell_len(project)
    shown = project if rest >= 0 else ""
    return Content.assemble(
        (fit(name, cells.name - cell_len(shown)), "bold $foreground")
        if not shown
        else (name, "bold $foreground"),
        (fit(shown, cells.name - cell_len(name)), "$quiet") if shown else "",
        *_numbers(session.context, session.model, cells),
        (" " + fit("", cells.took), "") if cells.took else "",
        (" " + fit_right(count, RESULT_CELLS), "$quiet"),
    )


def _numbers(context: Context, name: str | None, cells: Widths) -> list[Content | tuple[str, str]]:
    parts: list[Content | tuple[str, str]] = []
    if cells.model:
        parts.append((" " + fit(model(name), cells.model), "$quiet"))
    parts += [(" ", ""), gauge(context, cells.bar)]
    if cells.window:
        window = "" if context.tokens is None else f"of {tokens(context.window.tokens)}"
        parts.append((" " + fit(window or NOTHING, cells.window), "$quiet"))
    return parts


def _took(agent: Agent, now_ms: int, cells: Widths) -> list[tuple[str, str]]:
    return [(" " + fit_right(took(agent, now_ms), cells.took), "$quiet")] if cells.took else []


def took(agent: Agent, now_ms: int) -> str:
    """Say how long an agent has worked, up to now where it still does."""
    if agent.started_at is None:
        return NOTHING
    end = agent.ended_at if agent.ended_at is not None else now_ms
    return age(end - agent.started_at)


def _counted(parts: list[tuple[str, str]], branch: Branch) -> list[tuple[str, str]]:
    """Say at a name's end how many are folded away below it."""
    if not branch.folded:
        return parts
    more = f" +{branch.descendants}"
    *before, (last, style) = parts
    return [*before, (fit(last, max(0, cell_len(last) - len(more))), style), (more, "$quiet")]
