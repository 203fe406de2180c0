"""A summary to read: its facts, its text with search hits, and the page that shows it alone."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, ClassVar, Final

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.widget import Widget
from textual.widgets import Static

from ....core.model.problem import Problem
from ....core.store.queries.query_rows import SummaryRow
from ....core.summaries.summary_search import PlanSummary, SummaryQuery
from ...text.summary_text import summary_name
from ...widgets.text_pane import TextPane
from ..page import ReadingScreen
from .summary_report import SummaryDetails, SummaryReport, summary_fact_lines, summary_report
from .summary_source import AgentKey, read_rulings

if TYPE_CHECKING:
    from ....core.compliance.run_verdict import RunVerdict


class SummaryReader(Vertical):
    """Shows one summary; n and N of its page go from hit to hit."""

    def __init__(self, *, id: str, pane_id: str) -> None:  # noqa: A002 -- Textual's
        super().__init__(id=id)
        self._pane_id = pane_id
        self._report: SummaryReport | None = None
        self._known: SummaryDetails | None = None
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
    def report(self) -> SummaryReport | None:
        """What is shown."""
        return self._report

    @property
    def room(self) -> int:
        """Cells that a line of the text may take."""
        return max(1, self.text.line_width - 1)

    def show(self, report: SummaryReport | None, known: SummaryDetails | None, now_ms: int) -> None:
        """Show a summary; the same one again keeps its place."""
        before = self._report.row.summary_id if self._report else None
        same = report is not None and report.row.summary_id == before
        self._report, self._known, self._now_ms = report, known, now_ms
        self._at = min(self._at, report.hits - 1) if same and report else -1
        lines = report.wrapped.lines if report else ()
        current = report.wrapped.passages[self._at] if report and self._at >= 0 else None
        self.text.show(lines, top=None if same else 0, current=current)
        if report and report.hits and not same:
            # What was searched for is in sight at once.
            self.text.go_to_line(report.wrapped.passages[0].line)
        self.show_facts(known, now_ms)

    def show_facts(self, known: SummaryDetails | None, now_ms: int) -> None:
        """Redraw the facts when more is known or time has passed."""
        self._known, self._now_ms = known, now_ms
        facts = self.query_one(".facts", Static)
        if self._report is None or known is None:
            facts.update("")
            return
        lines = summary_fact_lines(self._report.row, known, max(1, self.size.width - 2), now_ms)
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


class SummaryScreen(ReadingScreen):
    """Shows one summary; `search` is what was searched for when it was opened."""

    CSS_PATH = "summaries.tcss"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding(
            "n", "hit(1)", "Next hit", show=False, tooltip="the next hit in the text", id="next"
        ),
        Binding("N", "hit(-1)", "Hit before", show=False, tooltip="the hit before", id="before"),
        Binding(
            "d",
            "replaced",
            "Replaced",
            tooltip="what it stands for, and what it leaves out",
            id="replaced",
        ),
        Binding("x", "export", "Export", tooltip="export as Markdown", id="export"),
    ]

    def __init__(
        self,
        row: SummaryRow,
        known: SummaryDetails,
        *,
        crumbs: Sequence[str],
        search: SummaryQuery | None = None,
        plans: tuple[PlanSummary, ...] = (),
    ) -> None:
        super().__init__(
            *crumbs, summary_name(row), content=Content(row.text), session_id=row.session_id
        )
        self._row: Final = row
        self._known = known
        self._above: Final = tuple(crumbs)
        self._search: Final = search
        self._plans: Final = plans

    def compose_page(self) -> Iterable[Widget]:
        """Lay out the facts above the text."""
        yield SummaryReader(id="whole", pane_id="page")

    def on_mount(self) -> None:
        """Focus the text, and look up whether the result of an agent complies."""
        super().on_mount()
        view = self.app.view
        if view is None or self._row.agent_id is None or self._known.ruling is not None:
            return
        sessions, policies = view.sessions, self.app.feed.policies
        ids = [self._row.session_id]
        self.look_up(lambda db: read_rulings(db, sessions, ids, policies), self._take_rulings)

    @property
    def reader(self) -> SummaryReader:
        """The text with its facts."""
        return self.query_one(SummaryReader)

    @on(TextPane.Resized)
    def _wrap(self) -> None:
        row, search, width = self._row, self._search, self.reader.room
        self.work_out(lambda: summary_report(row, search, width), self._take)

    def _take(self, report: SummaryReport | Problem) -> None:
        if isinstance(report, SummaryReport):
            self.reader.show(report, self._known, self.app.now_ms())

    def _take_rulings(self, found: dict[AgentKey, RunVerdict | None] | Problem) -> None:
        if isinstance(found, dict) and self._row.agent_id is not None:
            ruling = found.get((self._row.session_id, self._row.agent_id))
            self._known = SummaryDetails(self._known.session_label, ruling, self._known.plan)
            self.reader.show_facts(self._known, self.app.now_ms())

    def action_hit(self, by: int) -> None:
        """Go to another hit in the text."""
        self.reader.go_to_hit(by)

    def action_replaced(self) -> None:
        """Show what it stands for."""
        from .comparison_screens import CoverageScreen

        self.app.push_screen(
            CoverageScreen(self._row, self._known, plans=self._plans, crumbs=self._above)
        )

    def action_export(self) -> None:
        """Ask where to export it to."""
        from ..dialogs import ExportScreen
        from .summary_report import EXPORT_NAME, single_export_choice

        choice = single_export_choice(self._row, {self._row.session_id: self._known.session_label})
        self.app.push_screen(ExportScreen(EXPORT_NAME, (choice,), EXPORT_NAME, self.app.now_ms()))
