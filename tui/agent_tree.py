"""Who started whom: agents as the lines of a tree, of which parts can be folded away."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Sequence

    from ..core.agents import Agent


@dataclass(frozen=True, slots=True)
class Branch:
    """An agent and where it stands in the tree."""

    agent: Agent
    prefix: str
    """The lines before its name."""
    descendants: int = 0
    """Agents that it started, and theirs."""
    folded: bool = False
    """Those are not shown."""


def grow_tree(agents: Sequence[Agent]) -> list[Branch]:
    """Put agents under those that started them, in the order they are given in."""
    known = {agent.agent_id for agent in agents}
    children: dict[str | None, list[Agent]] = {}
    for agent in agents:
        parent = agent.parent_agent_id
        inside = parent in known and parent != agent.agent_id
        children.setdefault(parent if inside else None, []).append(agent)
    branches: list[Branch] = []
    waiting = _side_by_side(children.pop(None, []), "")
    while waiting or children:
        branch = waiting.pop() if waiting else Branch(_cut_out(children), "└ ")
        branches.append(branch)
        stem = branch.prefix.replace("├", "│").replace("└", " ")
        # Taken out when it is placed, and no call of itself: a circle and a long chain end.
        waiting += _side_by_side(children.pop(branch.agent.agent_id, []), stem)
    return _counted(branches)


def fold(
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


def _counted(branches: Sequence[Branch]) -> list[Branch]:
    """Say of each how many stand below it: those that follow with longer stems."""
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


def _side_by_side(agents: Sequence[Agent], stem: str) -> list[Branch]:
    """Draw what one agent started, the first at the list's end, where it is taken from."""
    lines = ["├ "] * (len(agents) - 1) + ["└ "]
    return [Branch(one, stem + line) for one, line in zip(agents, lines, strict=False)][::-1]


def _cut_out(children: dict[str | None, list[Agent]]) -> Agent:
    """Take the first agent out of a circle of parents, so that all of them are shown."""
    parent = next(iter(children))
    first = children[parent].pop(0)
    if not children[parent]:
        del children[parent]
    return first
