"""The base of the agents page's tabs: rows, and of the current one a report, a copy, a document."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ...widgets.row_list import FoldList
from .agents_selection import AgentOrder

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from textual.content import Content

    from ....core.model.session import Session
    from .agent_details import AgentDetails
    from .agents_selection import AgentScope, AgentsOverview


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
    details: Mapping[str, AgentDetails]
    """Of agents, by the keys of their rows."""

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
