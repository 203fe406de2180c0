"""The types of agents, each with its history."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ..agent_filter import choose_types
from ..agent_markdown import types_markdown
from ..type_report import type_report
from ..type_rows import type_head, type_line
from .row_list import Row
from .tab_pane import TabPane

if TYPE_CHECKING:
    from textual.content import Content

    from ...core.compliance_summary import Part
    from ..agent_reading import Gathered
    from .tab_pane import Shown

NO_TYPES: Final = (
    "No agent has run yet, or the policy's disabled_modules name compliance: nothing is judged."
)


class TypePane(TabPane):
    """Tab 2."""

    def __init__(self) -> None:
        super().__init__("types")
        self._parts: dict[str, Part] = {}
        self._least = 0

    def draw(self, shown: Shown) -> None:
        """Draw a line a type."""
        parts = shown.overview.compliance.types
        words = shown.arrangement.filter_text
        self._least = shown.overview.compliance.min_samples
        self._parts = {each.name: each for each in choose_types(parts, words)}
        self.empty = f"no type matches “{words}”; Esc shows all" if parts else NO_TYPES
        self.show_header(type_head(self.row_width))
        self.show_rows(
            [Row(name, type_line(each, self.row_width)) for name, each in self._parts.items()]
        )

    def count(self) -> int:
        """Count the types."""
        return len(self._parts)

    def count_all(self, gathered: Gathered) -> int:
        """Count what would be shown without a filter."""
        return len(gathered.compliance.types)

    def report(self, width: int) -> Content | None:
        """Write the marked type's history."""
        part = self._parts.get(self.key or "")
        return type_report(part, self._least, width) if part else None

    def copied(self) -> tuple[str, str] | None:
        """Give the history as it is read."""
        report = self.report(width=80)
        return (report.plain, f"history of {self.key}") if report else None

    def document(self) -> str:
        """Write the types as a table."""
        return types_markdown(self._parts.values())
