"""The summaries' page: agent results, compaction summaries and plans, searched and filtered."""

import sqlite3
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Final

from textual import on
from textual.binding import BindingType
from textual.containers import Horizontal, Vertical
from textual.content import Content
from textual.reactive import reactive
from textual.widget import Widget
from textual.widgets import Static

from ....collectors.claude_code.transcripts.replaced_content import PlanSummaryReader
from ....core.model.problem import Problem
from ....core.model.rule import ListedRule, RuleMark
from ....core.model.session import Session
from ....core.model.stored_rows import SummaryRow
from ....core.readers import summary_reader
from ....core.readers.rule_reader import read_listed_rules
from ....core.readers.summary_reader import read_summary_rows, summary_flaws
from ....core.store.database import state_folder
from ....core.store.queries.session_queries import summaries_fingerprint
from ....core.summaries import summary_search
from ....core.summaries.rule_choices import mark_rule, read_rule_choices
from ....core.transcript.filter_language import start_of_day
from ....core.transcript.sanitize import one_line
from ...base.keymap import bind, bind_hidden
from ...base.messages import FleetView
from ...page_kit.page import FilteredPage, ZoomableScreen
from ...text.markdown_text import TextForm
from ...widgets.controls import Chips, FilterBar, FilterChip
from ...widgets.text_pane import TextPane
from .coverage_screen import CoverageScreen
from .summary_list import SummaryList, SummaryPreview, make_preview
from .summary_screen import (
    SummaryDetails,
    SummaryReader,
    SummaryReport,
    SummaryScreen,
    VerdictCache,
    list_export_choices,
    show_export,
    single_export_choice,
    summary_report,
    with_token_count,
)

CRUMB: Final = "summaries"
SEARCH_PLACEHOLDER: Final = 'words "a phrase" -not project: type: kind: since:7d'
COMPARED_COUNT: Final = 2  # summaries that are compared

MARK_NOTICES: Final = {
    RuleMark.NONE: "The rule is carried through compactions like any other.",
    RuleMark.PINNED: "Pinned: always carried, and given back first.",
    RuleMark.DROPPED: "Dropped: ignored until you state it again.",
}

ANY_VALUE: Final = "all"
PERIODS: Final = {"today": 0, "7 days": 6, "30 days": 29}  # days before today that are shown too
_KIND_LABELS: Final = {
    "agent": "agents",
    "boundary": "compactions",
    "plan": "plans",
    "rule": "rules",
}


def _filter_chip(
    name: str, values: Iterable[str], labels: Iterable[str], chosen: str | None
) -> FilterChip:
    """Make a filter's chip; a chosen value that is no longer offered stays."""
    offered, written = (None, *values), (ANY_VALUE, *labels)
    if chosen not in offered:
        offered, written = (*offered, chosen), (*written, str(chosen))
    return FilterChip(name, offered, written, offered.index(chosen))


@dataclass(frozen=True, slots=True)
class SummaryResults:
    """All matches, the plans among them, and the agent types of the whole store."""

    criteria: summary_search.SummaryCriteria
    matches: summary_search.SummaryMatches
    plans: tuple[summary_search.PlanSummary, ...]
    types: tuple[str, ...]


class SummariesScreen(FilteredPage, ZoomableScreen):
    """A list, the text beside it, and a search through all of them."""

    CSS_PATH = "summaries.tcss"
    ZOOMED_PANES = "#list-pane, #reader"
    HORIZONTAL_BREAKPOINTS = [(0, "-narrow"), (100, "-wide")]  # noqa: RUF012 -- Textual's
    VERTICAL_BREAKPOINTS = [(0, "-short"), (16, "-tall")]  # noqa: RUF012
    KEYS_IF_ROOM = ("next", "before", "compare", "copy", "export", "source")
    BINDINGS: ClassVar[list[BindingType]] = [
        bind(
            "slash",
            "filter",
            "Search",
            "search: words, phrases, -not, project: type: kind: since:",
            "filter",
        ),
        bind("f", "chips", "Filter", "filter by kind, project, agent, time, session", "filters"),
        bind_hidden("n", "hit(1)", "Next match", "next match", "next"),
        bind_hidden("N", "hit(-1)", "Previous match", "previous match", "before"),
        bind_hidden("equals_sign", "compare", "Compare", "compare two marked summaries", "compare"),
        bind("b", "mark_rule('pinned')", "Pin", "pin this rule, or unpin it", "pin_rule"),
        bind("D", "mark_rule('dropped')", "Drop", "drop this rule, or restore it", "drop_rule"),
        bind("d", "replaced", "Replaced", "what it replaced, and what it left out", "replaced"),
        bind_hidden("y", "copy", "Copy", "copy the text", "copy"),
        bind_hidden("W", "source", "As written", "as Markdown, or as written", "source"),
        bind_hidden("x", "export", "Export", "export as Markdown", "export"),
        bind_hidden("z", "zoom", "Zoom", "maximize this pane", "zoom"),
        bind_hidden("1", "pane('list')", "List", "the list", "pane_1"),
        bind_hidden("2", "pane('text')", "Text", "the text", "pane_2"),
        bind("escape", "back", "Back", "back: zoom, search, filters, marks, then close", "back"),
    ]

    words: reactive[str] = reactive("", init=False)

    def __init__(self, store: Path, marked: Session | None) -> None:
        super().__init__(CRUMB)
        self._state_folder: Final = state_folder(store)
        self._plan_reader: Final = PlanSummaryReader(self._state_folder)
        self._marked: Final = marked
        self._chosen: dict[str, str] = {}  # values by the names of filters
        self._listing: SummaryResults | None = None
        self._sessions: dict[str, Session] = {}
        self._verdicts: Final = VerdictCache(self, self._show_verdicts)
        self._seen: object = None
        self._fingerprint: tuple[int, ...] = ()
        self._row: SummaryRow | None = None
        self._rule: ListedRule | None = None  # what is known of that row, if it is a rule
        self._form = TextForm.RENDERED

    @property
    def listed_session_id(self) -> str | None:
        return self._row.session_id if self._row else None

    def compose_page(self) -> Iterable[Widget]:
        with Horizontal(id="top"):
            yield Chips(id="chips")
            yield Static(id="count", markup=False)
        yield Static(id="notes", markup=False)
        with Horizontal(id="both"):
            with Vertical(id="list-pane"):
                yield SummaryList(self._session_label, self._verdicts.get, id="list")
                yield Static(id="empty", markup=False)
            yield SummaryReader(id="reader", pane_id="text")
        yield FilterBar(SEARCH_PLACEHOLDER)

    def on_mount(self) -> None:
        self.query_one("#list-pane").border_title = "¹ Summaries"
        self.query_one("#reader").border_title = "² Text"
        self.query_one("#notes").display = False
        self.rows.focus()
        self._draw_chips()

    @property
    def rows(self) -> SummaryList:
        return self.query_one(SummaryList)

    @property
    def reader(self) -> SummaryReader:
        return self.query_one(SummaryReader)

    @property
    def plans(self) -> tuple[summary_search.PlanSummary, ...]:
        """What ctxtop wrote itself."""
        return self._listing.plans if self._listing else ()

    # The list.

    def show_view(self, view: FleetView) -> None:
        """List again if there are other summaries; the search and the cursor stay."""
        before, self._sessions = self._sessions, {each.session_id: each for each in view.sessions}
        if view.summaries is not self._seen or self._listing is None:
            self._seen = view.summaries
            self.ask(summaries_fingerprint, self._list_if_changed)
        elif _names(before) != _names(self._sessions):
            self.rows.redraw()

    def _list_if_changed(self, fingerprint: tuple[int, int, int]) -> None:
        """List again if summaries came or went; new token counts change no list."""
        if fingerprint[:2] != self._fingerprint or self._listing is None:
            self._fingerprint = fingerprint[:2]
            self._verdicts.invalidate()
            self.draw()

    def draw(self) -> None:
        now_ms, plan_reader, chosen = self.app.now_ms(), self._plan_reader, self._chosen
        period = chosen.get("time")
        criteria = summary_search.SummaryCriteria(
            query=self.words,
            kind=chosen.get("kind"),
            agent_type=chosen.get("agent"),
            project=chosen.get("project"),
            since=None if period is None else start_of_day(now_ms, PERIODS[period]),
            session_id=chosen.get("session"),
        )
        projects = {each.session_id: each.project for each in self._sessions.values()}

        def search(db: sqlite3.Connection) -> SummaryResults:
            plans = plan_reader.read()
            matches = summary_reader.find_summaries(db, plans, criteria, projects, now_ms)
            types = tuple(summary_reader.summary_agent_types(db))
            return SummaryResults(criteria, matches, plans, types)

        self.look_up(search, self._take_list, replaces="summaries list")

    def _take_list(self, listing: SummaryResults | Problem) -> None:
        if not isinstance(listing, SummaryResults):
            self.show_problem(str(listing))
            return
        before, self._listing = self._listing, listing
        if before is None or before.criteria.query != listing.criteria.query:
            self.rows.clear_previews()
        self.rows.show(listing.matches.places, self.app.now_ms())
        self._draw_chips()
        self._draw_count(listing)
        if not listing.matches.places:
            self._row = self._rule = None
            self.reader.show(None, None, self.app.now_ms())
        else:
            self._read_text()

    def _draw_chips(self) -> None:
        projects = Counter(each.project for each in self._sessions.values())
        names = tuple(name for name, _ in projects.most_common())
        types = self._listing.types if self._listing else ()
        marked = [self._marked] if self._marked else []
        labels = (_KIND_LABELS[kind] for kind in summary_search.SUMMARY_KINDS)
        titles = (f"“{one_line(session.title)}”" for session in marked)
        offered = {
            "kind": (summary_search.SUMMARY_KINDS, labels),
            "project": (names, map(one_line, names)),
            "agent": (types, map(one_line, types)),
            "time": (tuple(PERIODS), PERIODS),
            "session": (tuple(session.session_id for session in marked), titles),
        }
        chips = [
            _filter_chip(name, values, written, self._chosen.get(name))
            for name, (values, written) in offered.items()
        ]
        self.query_one(Chips).show(chips)

    def _draw_count(self, listing: SummaryResults) -> None:
        matches = listing.matches
        count, problems = len(matches.places), matches.search.problems
        more = "more than " if matches.is_cut else ""
        selected = len(self.rows.selected)
        marked = f" · {selected} marked" if selected else ""
        if selected == COMPARED_COUNT:
            marked += ", = compares"
        self.query_one("#count", Static).update(f"{more}{count:,}{marked}")
        notes = self.query_one("#notes", Static)
        notes.display = bool(problems)
        notes.update(one_line(" · ".join(problems)))
        self.query_one("#list-pane").border_subtitle = (
            Content(f"/{one_line(self.words)}") if self.words else ""
        )
        self.show_problem(self._empty_text())
        self.set_class(not count, "-empty")

    def _empty_text(self) -> str:
        if self._chosen == {"kind": summary_search.RULE_KIND} and not self.words:
            return "No rules yet.\nWhat you tell Claude to do always, or never, appears here."
        if self.words:
            return f"Nothing matches “{one_line(self.words)}” here; Esc shows all."
        if self._chosen:
            return "Nothing matches these filters; Esc shows all."
        return (
            "No summaries yet.\nAgent results, the summaries of /compact and those of"
            " `ctxtop compact --strategy summarize` appear here."
        )

    def show_problem(self, words: str) -> None:
        self.query_one("#empty", Static).update(words)

    @on(SummaryList.PreviewsMissing)
    def _read_previews(self, event: SummaryList.PreviewsMissing) -> None:
        if self._listing is None:
            return
        plans, search, ids = self._listing.plans, self._listing.matches.search, event.ids

        def take(previews: list[SummaryPreview]) -> None:
            if self._listing and search == self._listing.matches.search:
                self.rows.add_previews(previews)
                sessions = {each.row.session_id for each in previews if each.row.agent_id}
                self._verdicts.request(sessions, tuple(self._sessions.values()))

        folder = self._state_folder

        def read(db: sqlite3.Connection) -> list[SummaryPreview]:
            rules = read_listed_rules(db, ids, read_rule_choices(folder))
            return [
                make_preview(row, search, rules.get(row.summary_id))
                for row in read_summary_rows(db, plans, ids)
            ]

        self.ask(read, take)

    def _show_verdicts(self) -> None:
        self.rows.redraw()
        if self._row is not None:
            self.reader.show_facts(self._details(self._row), self.app.now_ms())

    def _session_label(self, session_id: str) -> str:
        session = self._sessions.get(session_id)
        if session is None:
            return session_id[:8]
        return f"{one_line(session.title)} · {one_line(session.project)}"

    def _details(self, row: SummaryRow) -> SummaryDetails:
        verdict = self._verdicts.get(row.session_id, row.agent_id)
        plan = next((each for each in self.plans if each.row.summary_id == row.summary_id), None)
        rule = self._rule if row == self._row else None
        session = self._sessions.get(row.session_id)
        policy = self.app.feed.policies.for_project(session.project_root if session else None)
        label, flaws = self._session_label(row.session_id), summary_flaws(row, policy)
        return SummaryDetails(label, verdict, plan, rule, flaws)

    # The text.

    @on(SummaryList.Moved)
    @on(TextPane.Resized, "#text")
    def _read_text(self) -> None:
        summary_id, plans, width = self.rows.summary_id, self.plans, self.reader.room
        if summary_id is None:
            return
        search = self._listing.matches.search if self._listing else None
        form, folder = self._form, self._state_folder

        def read(db: sqlite3.Connection) -> tuple[SummaryReport | None, ListedRule | None]:
            rows = read_summary_rows(db, plans, [summary_id])
            rules = read_listed_rules(db, [summary_id], read_rule_choices(folder))
            report = summary_report(rows[0], search, width, form) if rows else None
            return report, rules.get(summary_id)

        def show(found: tuple[SummaryReport | None, ListedRule | None]) -> None:
            if summary_id != self.rows.summary_id:
                return  # a search or the cursor has gone on, and another text is shown
            report, self._rule = found
            self._row = report.row if report else None
            self.refresh_bindings()
            details = self._details(report.row) if report else None
            self.reader.show(report, details, self.app.now_ms())

        self.ask(read, show, replaces="summaries text")

    # Actions.

    @on(SummaryList.Opened)
    def _open(self, event: SummaryList.Opened) -> None:
        def show(rows: list[SummaryRow]) -> None:
            search = self._listing.matches.search if self._listing else None
            for row in rows:
                details, plans = self._details(row), self.plans
                self.app.push_screen(
                    SummaryScreen(row, details, crumbs=(CRUMB,), search=search, plans=plans)
                )

        if len(self.rows.selected) == COMPARED_COUNT and event.summary_id in self.rows.selected:
            self.action_compare()
        else:
            self._with_rows([event.summary_id], show)

    def _with_rows(self, ids: Sequence[int], take: Callable[[list[SummaryRow]], Any]) -> None:
        """Read complete summaries; those that are gone are left out."""
        plans = self.plans
        self.ask(lambda db: list(map(with_token_count, read_summary_rows(db, plans, ids))), take)

    @on(Chips.Done)
    def focus_list(self) -> None:
        self.rows.focus()

    def action_filter(self) -> None:
        self.words = ""
        super().action_filter()

    def action_chips(self) -> None:
        self.query_one(Chips).focus()

    @on(Chips.Changed)
    def _filter(self, event: Chips.Changed) -> None:
        self._set_filters({chip.name: chip.value for chip in event.chips if chip.value is not None})

    def _set_filters(self, chosen: dict[str, str]) -> None:
        if chosen != self._chosen:
            self._chosen = chosen
            self.draw()

    @on(SummaryList.SelectionChanged)
    def _count_marks(self) -> None:
        if self._listing is not None:
            self._draw_count(self._listing)

    def action_hit(self, by: int) -> None:
        self.reader.go_to_hit(by)

    def action_source(self) -> None:
        self._form = self._form.next
        self._read_text()

    def action_compare(self) -> None:
        from .compare_screen import CompareScreen

        def compare(rows: list[SummaryRow]) -> None:
            if len(rows) == COMPARED_COUNT:
                # The older one first: what differs reads as what came later.
                left, right = sorted(rows, key=lambda row: (row.at or 0, row.summary_id))
                known = self._details(left), self._details(right)
                self.app.push_screen(CompareScreen((left, right), known, crumbs=(CRUMB,)))

        if len(self.rows.selected) == COMPARED_COUNT:
            self._with_rows(list(self.rows.selected), compare)
        else:
            self.app.toast("Mark two summaries with the space bar to compare them.")

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Offer to mark rules, and to see what other texts replaced."""
        if action == "mark_rule":
            return self._rule is not None
        if action == "replaced":
            return self._rule is None
        return super().check_action(action, parameters)

    def action_mark_rule(self, name: str) -> None:
        """Pin or drop the rule under the cursor; the same key again takes that back."""
        rule, folder, mark = self._rule, self._state_folder, RuleMark(name)
        if rule is None:
            return
        chosen = RuleMark.NONE if rule.mark is mark else mark

        def take(found: Problem | None) -> None:
            if isinstance(found, Problem):
                self.app.toast(f"The rule was not changed: {one_line(str(found))}")
                return
            self.rows.clear_previews()
            self._read_text()
            self.app.toast(MARK_NOTICES[chosen])

        self.work_out(partial(mark_rule, folder, rule.rule_id, chosen), take)

    def action_replaced(self) -> None:
        if self._row is not None:
            self.app.push_screen(CoverageScreen(self._row, plans=self.plans, crumbs=(CRUMB,)))

    def action_copy(self) -> None:
        if self._row is not None:
            self.app.copy(self._row.text, "open the summary")

    def action_export(self) -> None:
        if self._listing is None or self._row is None:
            return
        labels = {session_id: self._session_label(session_id) for session_id in self._sessions}
        selected, store = tuple(self.rows.selected), self.app.places.store
        many = list_export_choices(selected, self.rows.ids, self.plans, labels, store)
        single = single_export_choice(self._row, labels)
        # The marked ones come first if there are any.
        show_export(self, (many[0], single, *many[1:]) if selected else (single, *many))

    def action_zoom(self) -> None:
        """Zoom the focused pane to the whole screen, or restore the layout."""
        shown = self._pane_of("text" if self.reader.text.has_focus else "list")
        self.zoom(None if self.zoomed else shown)

    def action_pane(self, name: str) -> None:
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
        elif self._chosen:
            self._set_filters({})
        elif self.rows.selected:
            self.rows.clear_selection()
        else:
            self.action_leave()


def _names(sessions: dict[str, Session]) -> dict[str, tuple[str, str]]:
    return {key: (session.title, session.project) for key, session in sessions.items()}
