"""What reviewers found, by severity and file."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ...core.review_groups import by_severity
from ..agent_filter import choose_found
from ..finding_report import finding_report
from ..finding_rows import finding_head, finding_line, finding_lines, fold_cell
from ..findings_markdown import finding_markdown, findings_markdown
from .row_list import Row
from .tab_pane import TabPane

if TYPE_CHECKING:
    from collections.abc import Sequence

    from textual.content import Content

    from ...core.review_groups import Severe
    from ..agent_reading import Gathered
    from ..finding_rows import FindingLine
    from .tab_pane import Shown

NO_FINDINGS: Final = (
    "No review has found anything here. A reviewer that returns by the skill compress-review"
    " (Critical: file:line — text) is read into this list; a shows other sessions'."
)


class FindingPane(TabPane):
    """Tab 3."""

    def __init__(self) -> None:
        super().__init__("findings")
        self._lines: dict[str, FindingLine] = {}
        self._groups: Sequence[Severe] = ()
        self._drawn: Shown | None = None

    def draw(self, shown: Shown) -> None:
        """Draw the severities, the files in them, and what was found in these."""
        self._drawn = shown
        words, found = shown.arrangement.filter_text, shown.overview.findings
        self._groups = by_severity(choose_found(found, words))
        self.empty = f"nothing matches “{words}”; Esc shows all" if found else NO_FINDINGS
        self.show_header(finding_head(self.row_width))
        lines = finding_lines(self._groups, shown.arrangement.folded)
        self._lines = {each.key: each for each in lines}
        cells = {each.key: fold_cell(each) for each in lines}
        self.show_folds({key: cell for key, cell in cells.items() if cell is not None})
        self.show_rows(
            [Row(each.key, finding_line(each, self.row_width, shown.now_ms)) for each in lines]
        )

    def count(self) -> int:
        """Count what was found, also what is folded away."""
        return sum(each.count for each in self._groups)

    def count_all(self, gathered: Gathered) -> int:
        """Count what would be shown without a filter."""
        return len(gathered.findings)

    def line(self, key: str) -> FindingLine | None:
        """Give what a row stands for."""
        return self._lines.get(key)

    def report(self, width: int) -> Content | None:
        """Write what the marked row stands for."""
        line, shown = self._lines.get(self.key or ""), self._drawn
        return finding_report(line, shown.titles, width, shown.now_ms) if line and shown else None

    def copied(self) -> tuple[str, str] | None:
        """Give the marked finding as a line, or a group as a document."""
        line = self._lines.get(self.key or "")
        if line is None:
            return None
        if line.finding is not None:
            return finding_markdown(line.finding), "the finding"
        return findings_markdown(line.groups), f"{line.groups[0].count} findings"

    def document(self) -> str:
        """Write all that is shown."""
        return findings_markdown(self._groups)

    def parent_of(self, key: str) -> str | None:
        """Name the file, or the severity, that a row stands below."""
        line = self._lines.get(key)
        if line is None or line.in_file is None:
            return None
        in_file = line.in_file
        if line.finding is None:
            return line.severity
        return "\n".join((line.severity, in_file.project, in_file.path))
