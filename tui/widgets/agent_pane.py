"""The agents of the marked session, as a tree."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from textual.content import Content

from ..agent_rows import agent_line, columns_of, leader_line
from ..agent_tree import grow_tree
from ..formats import middle
from .row_list import Row, RowList

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ...core.agents import Agent
    from ...core.sessions import Session

TITLE_FRAME: Final = 16
"""Cells of the border's title beside the session's own."""

LEADER: Final = "/"
"""Key of the root; an agent's id is part of a file's name, which never has it."""


class AgentPane(RowList):
    """Pane 2."""

    def __init__(self, *, id: str, number: str, name: str) -> None:  # noqa: A002 -- Textual's
        super().__init__(id=id, number=number, name=name)
        self._drawn: tuple[object, ...] = ()

    def show(self, session: Session | None, agents: Sequence[Agent], now_ms: int) -> None:
        """Draw the tree of one session; the same tree is not drawn again."""
        look = session, tuple(agents), self.row_width, now_ms
        if look == self._drawn:
            return
        self._drawn = look
        self.show_header(Content(""))
        if session is None or not agents:
            self.set_titles(Content("² Agents"))
            self.empty = "no session is marked" if session is None else "no agents in this session"
            self.show_rows([])
            return
        title = middle(session.title, max(0, self.row_width - TITLE_FRAME))
        self.set_titles(Content(f'² Agents of "{title}"'))
        rows = [Row(LEADER, leader_line(session, self.row_width))]
        branches = grow_tree(agents)
        columns = columns_of(branches)
        rows += [
            Row(branch.agent.agent_id, agent_line(branch, self.row_width, now_ms, columns))
            for branch in branches
        ]
        self.show_rows(rows)
