"""A summary to read whole: its facts, its text, and the way to what it stands for."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Final

from textual import on
from textual.binding import Binding, BindingType
from textual.content import Content

from ..summary_report import Known, Report, summary_report
from ..summary_rows import who_said
from ..summary_source import read_rulings
from ..widgets.summary_reader import SummaryReader
from ..widgets.text_pane import TextPane
from .reading import ReadingScreen

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from textual.widget import Widget

    from ...collectors.folder import Trouble
    from ...core.compliance.states import Ruling
    from ...core.store.rows import SummaryRow
    from ...core.summary_list import PlanText
    from ...core.summary_search import Search
    from ..summary_source import AgentKey


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
        known: Known,
        *,
        crumbs: Sequence[str],
        search: Search | None = None,
        plans: tuple[PlanText, ...] = (),
    ) -> None:
        super().__init__(
            *crumbs, who_said(row), content=Content(row.text), session_id=row.session_id
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
        """Let the keys scroll the text, and ask whether an agent's result complies."""
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
        self.look_up(lambda _: summary_report(row, search, width), self._take)

    def _take(self, report: Report | Trouble) -> None:
        if isinstance(report, Report):
            self.reader.show(report, self._known, self.app.now_ms())

    def _take_rulings(self, found: dict[AgentKey, Ruling | None] | Trouble) -> None:
        if isinstance(found, dict) and self._row.agent_id is not None:
            ruling = found.get((self._row.session_id, self._row.agent_id))
            self._known = Known(self._known.session_label, ruling, self._known.plan)
            self.reader.show_facts(self._known, self.app.now_ms())

    def action_hit(self, by: int) -> None:
        """Go to another hit in the text."""
        self.reader.go_to_hit(by)

    def action_replaced(self) -> None:
        """Show what it stands for."""
        from .replaced import ReplacedScreen

        self.app.push_screen(
            ReplacedScreen(self._row, self._known, plans=self._plans, crumbs=self._above)
        )

    def action_export(self) -> None:
        """Ask where to export it to."""
        from ..summary_choices import NAME, one_choice
        from .export import ExportScreen

        choice = one_choice(self._row, {self._row.session_id: self._known.session_label})
        self.app.push_screen(ExportScreen(NAME, (choice,), NAME, self.app.now_ms()))
