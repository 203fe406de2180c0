"""The summaries' page: agent results, compaction summaries and plans, searched and filtered."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, ClassVar, Final

from textual import on
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.content import Content
from textual.reactive import reactive
from textual.widget import Widget
from textual.widgets import Static

from ....core.compliance.findings import ComplianceVerdict
from ....core.model.problem import Problem
from ....core.model.session import Session
from ....core.store.queries.query_rows import SummaryRow
from ....core.store.queries.session_queries import summaries_fingerprint
from ....core.summaries.summary_search import PlanSummary
from ....core.transcript.sanitize import one_line
from ...messages import FleetView
from ...widgets.controls import Chips
from ...widgets.filter_bar import FilterBar
from ...widgets.text_pane import TextPane
from ..fleet.fleet_actions import ZoomableScreen
from ..page import FilteredPage
from .summary_day_list import SummaryList
from .summary_day_list import SummaryLookups as KnownRow
from .summary_report import SummaryDetails, SummaryPreview, SummaryReport
from .summary_screen import SummaryReader
from .summary_source import (
    FilterOptions,
    SummaryFilters,
    SummaryResults,
    SummarySource,
    VerdictCache,
    filter_chips,
    filter_options,
    filters_of_chips,
    no_summaries_message,
    read_previews,
    read_summary,
    read_summary_report,
    summary_query,
)

SUMMARY_KEYS: Final = (
    Binding(
        "slash",
        "filter",
        "Search",
        key_display="/",
        tooltip="search: words, phrases, -not, project: type: kind: since:",
        id="filter",
    ),
    Binding(
        "f",
        "chips",
        "Filter",
        tooltip="filter by kind, project, agent, time, session",
        id="filters",
    ),
    Binding("n", "hit(1)", "Next hit", show=False, tooltip="the next hit in the text", id="next"),
    Binding("N", "hit(-1)", "Hit before", show=False, tooltip="the hit before", id="before"),
    Binding(
        "equals_sign",
        "compare",
        "Compare",
        key_display="=",
        tooltip="compare the two that are marked",
        id="compare",
    ),
    Binding(
        "d",
        "replaced",
        "Replaced",
        tooltip="what it stands for, and what it leaves out",
        id="replaced",
    ),
    Binding("y", "copy", "Copy", show=False, tooltip="copy the text", id="copy"),
    Binding("x", "export", "Export", show=False, tooltip="export as Markdown", id="export"),
    Binding("z", "zoom", "Zoom", show=False, tooltip="this pane alone, or both again", id="zoom"),
    Binding("1", "pane('list')", "List", show=False, tooltip="the list", id="pane_1"),
    Binding("2", "pane('text')", "Text", show=False, tooltip="the text", id="pane_2"),
    Binding(
        "escape",
        "back",
        "Back",
        key_display="Esc",
        tooltip="back: zoom, search, filters, marks, then leave",
        id="back",
    ),
)


CRUMB: Final = "summaries"

SEARCH_PLACEHOLDER: Final = 'words "a phrase" -not project: type: kind: since:7d'

COMPARED_COUNT: Final = 2  # summaries that are compared


class SummariesScreen(FilteredPage, ZoomableScreen):
    """A list, the text beside it, and a search through all of them."""

    CSS_PATH = "summaries.tcss"
    ZOOMED_PANES = "#list-pane, #reader"
    HORIZONTAL_BREAKPOINTS = [(0, "-narrow"), (100, "-wide")]  # noqa: RUF012 -- Textual's
    VERTICAL_BREAKPOINTS = [(0, "-short"), (16, "-tall")]  # noqa: RUF012
    BINDINGS: ClassVar[list[BindingType]] = [*SUMMARY_KEYS]

    words: reactive[str] = reactive("", init=False)

    def __init__(self, source: SummarySource, marked: Session | None) -> None:
        super().__init__(CRUMB)
        self._source: Final = source
        self._marked: Final = marked
        self._chosen = SummaryFilters()
        self._offered = FilterOptions()
        self._listing: SummaryResults | None = None
        self._sessions: dict[str, Session] = {}
        self._rulings: Final = VerdictCache(self.look_up, self._show_rulings)
        self._seen: object = None
        self._mark: tuple[int, ...] = ()
        self._row: SummaryRow | None = None

    def compose_page(self) -> Iterable[Widget]:
        """Lay out filters, list and text."""
        with Horizontal(id="top"):
            yield Chips(id="chips")
            yield Static(id="count", markup=False)
        yield Static(id="notes", markup=False)
        with Horizontal(id="both"):
            with Vertical(id="list-pane"):
                yield SummaryList(KnownRow(self._where, self._verdict), id="list")
                yield Static(id="empty", markup=False)
            yield SummaryReader(id="reader", pane_id="text")
        yield FilterBar(SEARCH_PLACEHOLDER)

    def on_mount(self) -> None:
        """Ask for all of them."""
        self.query_one("#list-pane").border_title = "¹ Summaries"
        self.query_one("#reader").border_title = "² Text"
        self.query_one("#notes").display = False
        self.rows.focus()
        self._draw_chips()

    @property
    def rows(self) -> SummaryList:
        """The list."""
        return self.query_one(SummaryList)

    @property
    def reader(self) -> SummaryReader:
        """The text beside it."""
        return self.query_one(SummaryReader)

    @property
    def plans(self) -> tuple[PlanSummary, ...]:
        """What ctxtop wrote itself."""
        return self._listing.plans if self._listing else ()

    # What the feed says.

    def show_view(self, view: FleetView) -> None:
        """Ask again where there are other summaries; what was searched and read stays."""
        before = self._sessions
        self._sessions = {each.session_id: each for each in view.sessions}
        named = {each.session_id: (each.title, each.project) for each in before.values()}
        if view.summaries is not self._seen or self._listing is None:
            self._seen = view.summaries
            self.ask(summaries_fingerprint, self._look_again)
        elif named != {each.session_id: (each.title, each.project) for each in view.sessions}:
            self.rows.redraw()

    def _look_again(self, mark: tuple[int, int, int]) -> None:
        """List them again where some came or went; that some were counted changes no list."""
        came = mark[:2]
        if came != self._mark or self._listing is None:
            self._mark = came
            self._rulings.invalidate()
            self._ask_list()

    def _ask_list(self) -> None:
        now_ms = self.app.now_ms()
        asked = summary_query(self.words, self._chosen, now_ms)
        projects = {each.session_id: each.project for each in self._sessions.values()}
        self.look_up(
            lambda db: self._source.list(db, asked, projects, now_ms),
            self._take_list,
            replaces="summaries list",
        )

    def _take_list(self, listing: SummaryResults | Problem) -> None:
        from .summary_source import SummaryResults

        if not isinstance(listing, SummaryResults):
            self.show_problem(str(listing))
            return
        before, self._listing = self._listing, listing
        if before is None or before.query.query != listing.query.query:
            self.rows.clear_previews()
        self.rows.show(listing.found.places, self.app.now_ms())
        self._draw_chips()
        self._draw_count(listing)
        if not listing.found.places:
            self._row = None
            self.reader.show(None, None, self.app.now_ms())
        elif self.rows.summary_id is not None:
            self._ask_text(self.rows.summary_id)

    def _draw_chips(self) -> None:
        types = self._listing.types if self._listing else ()
        self._offered = filter_options(tuple(self._sessions.values()), types, self._marked)
        self.query_one(Chips).show(filter_chips(self._chosen, self._offered))

    def _draw_count(self, listing: SummaryResults) -> None:
        count = len(listing.found.places)
        more = "more than " if listing.found.is_cut else ""
        marked = f" · {len(self.rows.selected)} marked" if self.rows.selected else ""
        self.query_one("#count", Static).update(f"{more}{count:,}{marked}")
        notes = self.query_one("#notes", Static)
        notes.display = bool(listing.found.search.problems)
        notes.update(one_line(" · ".join(listing.found.search.problems)))
        self.query_one("#list-pane").border_subtitle = (
            Content(f"/{one_line(self.words)}") if self.words else ""
        )
        filtered = self._chosen != SummaryFilters()
        self.show_problem(no_summaries_message(self.words, filtered=filtered))
        self.set_class(not count, "-empty")

    def show_problem(self, words: str) -> None:
        """Show a message in place of the list."""
        self.query_one("#empty", Static).update(words)

    # What the list asks for.

    @on(SummaryList.PreviewsMissing)
    def _fill_rows(self, event: SummaryList.PreviewsMissing) -> None:
        self._read_heads(event.ids)

    def _read_heads(self, ids: list[int]) -> None:
        if self._listing is None:
            return
        plans, search = self._listing.plans, self._listing.found.search
        self.ask(
            lambda db: read_previews(db, plans, ids, search), partial(self._take_heads, search)
        )

    def _take_heads(self, search: object, heads: list[SummaryPreview]) -> None:
        if self._listing is None or search != self._listing.found.search:
            # Another word was searched for meanwhile.
            return
        self.rows.add_previews(heads)
        agents = {each.session_id for each in heads if each.agent_id}
        self._rulings.request(agents, tuple(self._sessions.values()), self.app.feed.policies)

    def _show_rulings(self) -> None:
        self.rows.redraw()
        if self._row is not None:
            self.reader.show_facts(self._known(self._row), self.app.now_ms())

    def _where(self, session_id: str) -> str:
        session = self._sessions.get(session_id)
        if session is None:
            return session_id[:8]
        return f"{one_line(session.title)} · {one_line(session.project)}"

    def _verdict(self, session_id: str, agent_id: str | None) -> ComplianceVerdict | None:
        ruling = self._rulings.get(session_id, agent_id)
        return ruling.verdict if ruling else None

    def _known(self, row: SummaryRow) -> SummaryDetails:
        ruling = self._rulings.get(row.session_id, row.agent_id)
        plan = next((each for each in self.plans if each.row.summary_id == row.summary_id), None)
        return SummaryDetails(self._where(row.session_id), ruling, plan)

    # The text.

    @on(SummaryList.Moved)
    def _read(self, event: SummaryList.Moved) -> None:
        self._ask_text(event.summary_id)

    @on(TextPane.Resized, "#text")
    def _read_again(self) -> None:
        if self.rows.summary_id is not None:
            self._ask_text(self.rows.summary_id)

    def _ask_text(self, summary_id: int) -> None:
        plans, width = self.plans, self.reader.room
        search = self._listing.found.search if self._listing else None
        self.ask(
            lambda db: read_summary_report(db, plans, summary_id, search, width),
            self._take_text,
            replaces="summaries text",
        )

    def _take_text(self, report: SummaryReport | None) -> None:
        self._row = report.row if report else None
        known = self._known(report.row) if report else None
        self.reader.show(report, known, self.app.now_ms())

    # What a person does.

    @on(SummaryList.Opened)
    def _open(self, event: SummaryList.Opened) -> None:
        if len(self.rows.selected) == COMPARED_COUNT and event.summary_id in self.rows.selected:
            self.action_compare()
            return
        self._with_rows([event.summary_id], self._open_row)

    def _open_row(self, rows: list[SummaryRow]) -> None:
        from .summary_screen import SummaryScreen

        for row in rows:
            search = self._listing.found.search if self._listing else None
            known = self._known(row)
            self.app.push_screen(
                SummaryScreen(row, known, crumbs=(CRUMB,), search=search, plans=self.plans)
            )

    def _with_rows(self, ids: list[int], take: Callable[[list[SummaryRow]], Any]) -> None:
        plans = self.plans

        def whole(rows: list[SummaryRow | None]) -> None:
            take([row for row in rows if row is not None])

        self.ask(lambda db: [read_summary(db, plans, each) for each in ids], whole)

    def focus_list(self) -> None:
        """Go to the list."""
        self.rows.focus()

    def draw(self) -> None:
        """Search for the words."""
        self._ask_list()

    def action_chips(self) -> None:
        """Go to the filters."""
        self.query_one(Chips).focus()

    @on(Chips.Changed)
    def _filter(self, event: Chips.Changed) -> None:
        chosen = filters_of_chips(event.chips, self._offered)
        if chosen != self._chosen:
            self._chosen = chosen
            self._ask_list()

    @on(Chips.Done)
    def _leave_chips(self) -> None:
        self.rows.focus()

    @on(SummaryList.SelectionChanged)
    def _count_marks(self) -> None:
        if self._listing is not None:
            self._draw_count(self._listing)
        self.refresh_bindings()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Offer to compare where two are marked."""
        if action == "compare" and self.is_mounted:
            return len(self.rows.selected) == COMPARED_COUNT
        return True

    def action_hit(self, by: int) -> None:
        """Go to another hit in the text."""
        self.reader.go_to_hit(by)

    def action_compare(self) -> None:
        """Show the two that are marked beside each other."""
        from .comparison_screens import CompareScreen

        def compare(rows: list[SummaryRow]) -> None:
            if len(rows) == COMPARED_COUNT:
                # The older one first: what differs reads as what came later.
                one, other = sorted(rows, key=lambda row: (row.at or 0, row.summary_id))
                known = self._known(one), self._known(other)
                self.app.push_screen(CompareScreen((one, other), known, crumbs=(CRUMB,)))

        self._with_rows(list(self.rows.selected), compare)

    def action_replaced(self) -> None:
        """Show what the summary with the cursor stands for."""
        from .comparison_screens import CoverageScreen

        row = self._row
        if row is not None:
            self.app.push_screen(
                CoverageScreen(row, self._known(row), plans=self.plans, crumbs=(CRUMB,))
            )

    def action_copy(self) -> None:
        """Copy the text of the summary with the cursor."""
        if self._row is not None:
            self.app.copy(self._row.text, "the whole summary")

    def action_export(self) -> None:
        """Ask what to export, and where to."""
        from ..dialogs import ExportScreen
        from .summary_report import EXPORT_NAME, list_export_choices, single_export_choice

        if self._listing is None or self._row is None:
            return
        where = {each: self._where(each) for each in self._sessions}
        many = list_export_choices(
            tuple(self.rows.selected), self.rows.ids, self.plans, where, self.app.places.store
        )
        one = single_export_choice(self._row, where)
        # Who has marked some means those.
        choices = (many[0], one, *many[1:]) if self.rows.selected else (one, *many)
        self.app.push_screen(ExportScreen(EXPORT_NAME, choices, EXPORT_NAME, self.app.now_ms()))

    def action_zoom(self) -> None:
        """Zoom the focused pane to the whole screen, or restore the layout."""
        shown = self._pane_of("text" if self.reader.text.has_focus else "list")
        self.zoom(None if self.zoomed else shown)

    def action_pane(self, name: str) -> None:
        """Go to the list or to the text."""
        pane = self._pane_of(name)
        if self.zoomed or not pane.display:
            self.zoom(pane)
        self.query_one(f"#{name}").focus()

    def _pane_of(self, name: str) -> Widget:
        return self.reader if name == "text" else self.query_one("#list-pane")

    def action_back(self) -> None:
        """Undo the last step: zoom, the pane, search, filters, marks; then leave."""
        if self.zoomed:
            self.zoom(None)
        elif not self.rows.has_focus and self.rows.display:
            self.rows.focus()
        elif self.words:
            self.words = ""
            self.query_one(FilterBar).display = False
        elif self._chosen != SummaryFilters():
            self._chosen = SummaryFilters()
            self._ask_list()
        elif self.rows.selected:
            self.rows.clear_selection()
        else:
            self.action_leave()
