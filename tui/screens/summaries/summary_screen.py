"""A summary to read: its facts, its text with search hits, its page, and its export."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from dataclasses import replace as replace_fields
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Final

from msgspec.structs import replace
from textual import on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.widget import Widget
from textual.widgets import Static

from ....core.measure.stored_tokens import tokens_or_estimate
from ....core.model.problem import Problem
from ....core.model.rule import ListedRule
from ....core.model.session import Session
from ....core.model.stored_rows import SummaryRow
from ....core.readers.summary_reader import read_summary_rows
from ....core.summaries.summary_search import PlanSummary, SummaryQuery
from ....core.transcript.sanitize import one_line
from ...base.keymap import bind, bind_hidden
from ...page_kit.dialogs import ExportChoice, ExportScreen
from ...page_kit.page import BROAD_CELLS, Page, ReadingScreen
from ...text.compliance_text import VERDICT_NAMES, VERDICT_SIGNS, verdict_meaning
from ...text.formats import date_time_and_age, duration, plural, shorten, tokens
from ...text.markdown_text import TextForm, markdown_lines
from ...text.summary_text import (
    KIND_SIGNS,
    KIND_STYLES,
    RULE_KIND,
    anchors_text,
    rule_facts,
    summaries_markdown,
    summary_name,
)
from ...text.text_lines import HIT_STYLE, WrappedText, expand_tabs, wrap_text
from ...widgets.text_pane import TextPane, next_place
from .coverage_screen import CoverageScreen

if TYPE_CHECKING:
    from ....core.model.findings import RunVerdict
    from ....core.policy.resolve import Policies


@dataclass(frozen=True, slots=True)
class SummaryDetails:
    session_label: str  # its session's title and project
    verdict: RunVerdict | None = None
    plan: PlanSummary | None = None
    rule: ListedRule | None = None
    flaws: tuple[str, ...] = ()  # how it differs from what a model was asked for


@dataclass(frozen=True, slots=True)
class SummaryReport:
    """A summary to read, wrapped; its passages are the search hits."""

    row: SummaryRow
    wrapped: WrappedText

    @property
    def hits(self) -> int:
        return len(self.wrapped.passages)


MAX_MARKDOWN_CHARS: Final = 40_000  # drawn in a tenth of a second; a longer text is only wrapped


def summary_report(
    row: SummaryRow,
    search: SummaryQuery | None,
    width: int,
    form: TextForm = TextForm.RENDERED,
) -> SummaryReport:
    """Draw a summary's Markdown, or its text with the search hits marked, and count its tokens."""
    text = expand_tabs(row.text)
    hits = search.hits(text) if search else []
    if form is TextForm.RENDERED and not hits and len(text) <= MAX_MARKDOWN_CHARS:
        return SummaryReport(with_token_count(row), WrappedText(markdown_lines(text, width)))
    return SummaryReport(with_token_count(row), wrap_text(text, width, hits, HIT_STYLE))


def with_token_count(row: SummaryRow) -> SummaryRow:
    """Add a token estimate if none is stored."""
    return replace(row, estimated_tokens=tokens_or_estimate(row.estimated_tokens, row.text))


def summary_fact_lines(
    row: SummaryRow, known: SummaryDetails, width: int, now_ms: int
) -> list[Content]:
    """Return the name, session, time, size, verdict and receipt of a summary.

    Facts that are not known are left out.
    """
    style = KIND_STYLES.get(row.kind, "$foreground")
    lines = [
        Content.assemble(
            (f"{KIND_SIGNS.get(row.kind, '?')} ", style),
            (shorten(one_line(summary_name(row)), width - 2), f"bold {style}"),
        ),
        Content.styled(shorten(known.session_label, width), "$foreground"),
        Content.styled(_time_and_size(row, width, now_ms), "$quiet"),
    ]
    found = known.verdict
    if found is not None and VERDICT_SIGNS[found.verdict].strip():
        codes = ", ".join(violation.code.value for violation in found.violations)
        reason = codes or verdict_meaning(found)
        line = f"{VERDICT_SIGNS[found.verdict]} {VERDICT_NAMES[found.verdict]}: {reason}"
        color = "$broken" if found.failed else "$level-calm"
        lines.append(Content.styled(shorten(line, width), color))
    if known.flaws:
        flaws = f"⚠ {', '.join(known.flaws)}"
        lines.append(Content.styled(shorten(flaws, width), "$level-notice"))
    if known.plan is not None:
        plan = known.plan
        line = (
            f"receipt {plan.receipt_id} · {tokens(plan.before_tokens)} →"
            f" ≈{tokens(plan.after_tokens)} tokens{' · undone' if plan.undone else ''}"
        )
        room = width - len(line) - 3
        about = f" · {shorten(plan.description, room)}" if room > 0 else ""
        lines.append(Content.styled(line + about, "$quiet"))
        if plan.anchors:
            anchors = f"anchors: {anchors_text(plan.anchors)}"
            lines += wrap_text(anchors, width, base_style="$quiet").lines
    if known.rule is not None:
        lines += [
            Content.styled(shorten(one_line(fact), width), "$quiet")
            for fact in rule_facts(known.rule, now_ms)
        ]
    return lines


def _time_and_size(row: SummaryRow, width: int, now_ms: int) -> str:
    """Return the longest form that fits, at least the size: numbers are never cut."""
    size = f"{plural(row.lines, 'line')} · ≈{tokens(row.estimated_tokens)} tokens"
    forms = [f"{date_time_and_age(row.at, now_ms)} · {size}"]
    if row.at is not None:
        forms.append(f"{duration(now_ms - row.at)} ago · {size}")
    return next((form for form in forms if len(form) <= width), size)


EXPORT_NAME: Final = "summaries"
EXPORT_BATCH: Final = 200  # summaries that are held at once while many are written


def show_export(page: Page, choices: Sequence[ExportChoice]) -> None:
    page.app.push_screen(ExportScreen(EXPORT_NAME, choices, EXPORT_NAME, page.app.now_ms()))


def single_export_choice(row: SummaryRow, session_labels: Mapping[str, str]) -> ExportChoice:
    """Offer the one in sight; `session_labels` names sessions."""
    return ExportChoice("this one", "1 summary", partial(summaries_markdown, [row], session_labels))


def list_export_choices(
    selected: Sequence[int],
    shown: Sequence[int],
    plans: tuple[PlanSummary, ...],
    session_labels: Mapping[str, str],
    store: Path,
) -> tuple[ExportChoice, ...]:
    """Offer the marked ones, and all that the filters show, if there are any."""
    offered = (
        (f"the {len(selected):,} marked", selected, 1),
        (f"all {len(shown):,} shown", shown, 2),
    )
    return tuple(
        ExportChoice(
            label,
            "1 summary" if len(ids) == 1 else f"{len(ids):,} summaries",
            partial(_markdown_of_many, store, plans, ids, session_labels),
        )
        for label, ids, least in offered
        if len(ids) >= least
    )


def _markdown_of_many(
    store: Path, plans: tuple[PlanSummary, ...], ids: Sequence[int], labels: Mapping[str, str]
) -> Iterator[str]:
    from ....core.store.database import open_reader

    def rows() -> Iterator[SummaryRow]:
        with closing(open_reader(store)) as db:
            for start in range(0, len(ids), EXPORT_BATCH):
                yield from read_summary_rows(db, plans, ids[start : start + EXPORT_BATCH])

    yield from summaries_markdown(rows(), labels)


AgentKey = tuple[str, str]  # a session's id and an agent's

if TYPE_CHECKING:
    VerdictsByAgent = dict[AgentKey, RunVerdict | None]


def read_verdicts(
    db: sqlite3.Connection,
    sessions: Sequence[Session],
    session_ids: Iterable[str],
    now_ms: int,
    policies: Policies,
) -> VerdictsByAgent:
    from ....core.readers.fleet_reader import read_agents

    known = {session.session_id for session in sessions}
    ids = [session_id for session_id in session_ids if session_id in known]
    agents = read_agents(db, sessions, now_ms, ids, policies) if ids else ()
    return {(agent.session_id, agent.agent_id): agent.compliance for agent in agents}


class VerdictCache:
    """The verdicts on agents that a page has asked for."""

    def __init__(self, page: Page, on_change: Callable[[], None]) -> None:
        self._page: Final = page
        self._on_change: Final = on_change
        self._verdicts: VerdictsByAgent = {}
        self._asked: set[str] = set()
        self._pending = 0

    @property
    def is_idle(self) -> bool:
        return not self._pending

    def get(self, session_id: str, agent_id: str | None) -> RunVerdict | None:
        """Return the verdict on an agent, None if it is not known yet."""
        return self._verdicts.get((session_id, agent_id)) if agent_id else None

    def invalidate(self) -> None:
        """Ask again for sessions that come into sight; known verdicts stay until then."""
        self._asked.clear()

    def request(self, session_ids: set[str], sessions: Sequence[Session]) -> None:
        """Ask for the sessions that were not asked for yet."""
        new = session_ids - self._asked
        if not new:
            return
        self._asked |= new
        self._pending += 1
        policies, now_ms = self._page.app.feed.policies, self._page.app.now_ms()
        self._page.look_up(
            lambda db: read_verdicts(db, sessions, new, now_ms, policies), self._take
        )

    def _take(self, found: VerdictsByAgent | Problem) -> None:
        self._pending -= 1
        if isinstance(found, dict):
            self._verdicts |= found
            self._on_change()


class SummaryReader(Vertical):
    """Shows one summary; n and N of its page go from hit to hit."""

    def __init__(self, *, id: str, pane_id: str) -> None:  # noqa: A002 -- Textual's
        super().__init__(id=id)
        self._pane_id = pane_id
        self.report: SummaryReport | None = None
        self._known: SummaryDetails | None = None
        self._now_ms = 0
        self._at = -1  # the hit that a person went to

    def compose(self) -> ComposeResult:
        yield Static(classes="facts", markup=False)
        yield TextPane(id=self._pane_id)

    @property
    def text(self) -> TextPane:
        return self.query_one(TextPane)

    @property
    def room(self) -> int:
        """Cells that a line of the text may take."""
        return max(1, self.text.line_width - 1)

    def show(self, report: SummaryReport | None, known: SummaryDetails | None, now_ms: int) -> None:
        """Show a summary; if it is the same one the scroll position stays."""
        before = self.report.row.summary_id if self.report else None
        same = report is not None and report.row.summary_id == before
        self.report = report
        self._at = min(self._at, report.hits - 1) if same and report else -1
        lines = report.wrapped.lines if report else ()
        current = report.wrapped.passages[self._at] if report and self._at >= 0 else None
        self.text.show(lines, top=None if same else 0, current=current)
        if report and report.hits and not same:
            # The first hit is in sight at once.
            self.text.go_to_line(report.wrapped.passages[0].line)
        self.show_facts(known, now_ms)

    def show_facts(self, known: SummaryDetails | None, now_ms: int) -> None:
        """Redraw the facts when more is known or time has passed."""
        self._known, self._now_ms = known, now_ms
        facts, report = self.query_one(".facts", Static), self.report
        if report is None or known is None:
            facts.update("")
            return
        lines = summary_fact_lines(report.row, known, max(1, facts.content_size.width), now_ms)
        if report.hits:
            at = f"{self._at + 1} of " if self._at >= 0 else ""
            hits = f"{at}{report.hits:,} hit{'' if report.hits == 1 else 's'}"
            lines.append(Content.styled(f"{hits} · n next, N before", "$level-notice"))
        facts.update(Content("\n").join(lines))

    def go_to_hit(self, by: int) -> None:
        """Go to the next hit, or the previous one; after the last comes the first."""
        if self.report is None or not self.report.hits:
            return
        self._at = next_place(self._at, by, self.report.hits)
        self.text.go_to(self.report.wrapped.passages[self._at])
        self.show_facts(self._known, self._now_ms)


class SummaryScreen(ReadingScreen):
    """Shows one summary; `search` is what was searched for when it was opened."""

    CSS_PATH = "summaries.tcss"
    HORIZONTAL_BREAKPOINTS = [(0, "-narrow"), (BROAD_CELLS, "-broad")]  # noqa: RUF012 -- Textual's
    KEYS_IF_ROOM = ("next", "before", "source")
    BINDINGS: ClassVar[list[BindingType]] = [
        bind_hidden("n", "hit(1)", "Next match", "next match", "next"),
        bind_hidden("N", "hit(-1)", "Previous match", "previous match", "before"),
        bind("d", "replaced", "Replaced", "what it replaced, and what it left out", "replaced"),
        bind("x", "export", "Export", "export as Markdown", "export"),
        bind_hidden("W", "source", "As written", "as Markdown, or as written", "source"),
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
        self._form = TextForm.RENDERED
        self._verdicts: Final = VerdictCache(self, self._show_verdict)

    def compose_page(self) -> Iterable[Widget]:
        yield SummaryReader(id="whole", pane_id="page")

    def on_mount(self) -> None:
        """Focus the text, and look up whether the result of an agent complies."""
        super().on_mount()
        if self.app.view and self._row.agent_id and self._known.verdict is None:
            self._verdicts.request({self._row.session_id}, self.app.view.sessions)

    @property
    def reader(self) -> SummaryReader:
        return self.query_one(SummaryReader)

    @on(TextPane.Resized)
    def _wrap(self) -> None:
        row, search, width, form = self._row, self._search, self.reader.room, self._form
        self.work_out(lambda: summary_report(row, search, width, form), self._take)

    def _take(self, report: SummaryReport | Problem) -> None:
        if isinstance(report, SummaryReport):
            self.reader.show(report, self._known, self.app.now_ms())

    def _show_verdict(self) -> None:
        known = self._known
        verdict = self._verdicts.get(self._row.session_id, self._row.agent_id)
        self._known = replace_fields(known, verdict=verdict)
        self.reader.show_facts(self._known, self.app.now_ms())

    def action_hit(self, by: int) -> None:
        self.reader.go_to_hit(by)

    def action_source(self) -> None:
        self._form = self._form.next
        self._wrap()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """A rule replaced nothing."""
        if action == "replaced":
            return self._row.kind != RULE_KIND
        return super().check_action(action, parameters)

    def action_replaced(self) -> None:
        self.app.push_screen(CoverageScreen(self._row, plans=self._plans, crumbs=self._above))

    def action_export(self) -> None:
        labels = {self._row.session_id: self._known.session_label}
        show_export(self, (single_export_choice(self._row, labels),))
