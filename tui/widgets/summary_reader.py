"""A summary to read: its facts above, its text below, and what was searched for in it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from textual.containers import Vertical
from textual.content import Content
from textual.widgets import Static

from ..summary_report import fact_lines
from .text_pane import TextPane

if TYPE_CHECKING:
    from textual.app import ComposeResult

    from ..summary_report import Known, Report


class SummaryReader(Vertical):
    """Shows one summary; n and N of its page go from hit to hit."""

    def __init__(self, *, id: str, pane_id: str) -> None:  # noqa: A002 -- Textual's
        super().__init__(id=id)
        self._pane_id = pane_id
        self._report: Report | None = None
        self._known: Known | None = None
        self._now_ms = 0
        self._at = -1

    def compose(self) -> ComposeResult:
        """Lay out the facts above the text."""
        yield Static(classes="facts", markup=False)
        yield TextPane(id=self._pane_id)

    @property
    def text(self) -> TextPane:
        """The text, which takes the focus."""
        return self.query_one(TextPane)

    @property
    def report(self) -> Report | None:
        """What is shown."""
        return self._report

    @property
    def room(self) -> int:
        """Cells that a line of the text may take."""
        return max(1, self.text.line_width - 1)

    def show(self, report: Report | None, known: Known | None, now_ms: int) -> None:
        """Show a summary; the same one again keeps its place."""
        before = self._report.row.summary_id if self._report else None
        same = report is not None and report.row.summary_id == before
        self._report, self._known, self._now_ms = report, known, now_ms
        self._at = min(self._at, report.hits - 1) if same and report else -1
        lines = report.wrapped.lines if report else ()
        self.text.show(lines, top=None if same else 0)
        if report and report.hits and not same:
            # What was searched for is in sight at once.
            self.text.go_to_line(report.wrapped.passages[0].line)
        self.show_facts(known, now_ms)

    def show_facts(self, known: Known | None, now_ms: int) -> None:
        """Tell its facts again: more is known, or time has passed."""
        self._known, self._now_ms = known, now_ms
        facts = self.query_one(".facts", Static)
        if self._report is None or known is None:
            facts.update("")
            return
        lines = fact_lines(self._report.row, known, max(1, self.size.width - 2), now_ms)
        if found := self._hits_line():
            lines.append(found)
        facts.update(Content("\n").join(lines))

    def go_to_hit(self, by: int) -> None:
        """Go to the next hit, or the one before; after the last comes the first."""
        if self._report is None or not self._report.hits:
            return
        self._at = (self._at + by) % self._report.hits if self._at >= 0 or by > 0 else -1
        self._at = self._at if self._at >= 0 else self._report.hits - 1
        self.text.go_to(self._report.wrapped.passages[self._at])
        self.show_facts(self._known, self._now_ms)

    def _hits_line(self) -> Content | None:
        report = self._report
        if report is None or not report.hits:
            return None
        hits = report.hits
        at = f"{self._at + 1} of {hits:,}" if self._at >= 0 else f"{hits:,}"
        said = f"{at} hit{'' if hits == 1 else 's'} · n next, N before"
        return Content.styled(said, "$level-notice")
