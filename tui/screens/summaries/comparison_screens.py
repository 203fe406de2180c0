"""Two texts side by side: two summaries, or a summary and the messages that it replaces."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, ClassVar, Final

from textual import on
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.content import Content
from textual.widget import Widget
from textual.widgets import Static

from ....core.store.queries.query_rows import SummaryRow
from ....core.summaries.summary_comparison import ItemFate, ReplacedContent, TextDiff
from ....core.summaries.summary_search import PlanSummary
from ....core.transcript.sanitize import one_line
from ...text.formats import shorten_middle
from ...text.summary_text import summary_name
from ...widgets.text_pane import TextPane
from ..page import Page
from .comparison_text import (
    ComparisonLines,
    CoverageLines,
    comparison_lines,
    coverage_headline,
    coverage_lines,
)
from .summary_report import SummaryDetails, summary_fact_lines

if TYPE_CHECKING:
    from ....core.model.problem import Problem


COMPARING: Final = "comparing …"

FACT_LINES: Final = 3  # lines of facts above each text


class CompareScreen(Page):
    """Side by side where there is room, else one above the other; both scroll together."""

    CSS_PATH = "compare.tcss"
    HORIZONTAL_BREAKPOINTS = [(0, "-narrow"), (100, "-wide")]  # noqa: RUF012 -- Textual's
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("n", "go(1)", "Next", tooltip="the next difference", id="next"),
        Binding("N", "go(-1)", "Before", tooltip="the difference before", id="before"),
        Binding(
            "tab", "app.focus_next", "Other", show=False, tooltip="the other text", id="other_text"
        ),
        Binding("equals_sign,enter", "leave", "Back", show=False, tooltip="back", id="done"),
        Binding("y", "copy", "Copy", tooltip="copy the text with the focus", id="copy"),
    ]

    def __init__(
        self,
        rows: tuple[SummaryRow, SummaryRow],
        known: tuple[SummaryDetails, SummaryDetails],
        *,
        crumbs: Sequence[str],
    ) -> None:
        super().__init__(*crumbs, f"{summary_name(rows[0])} = {summary_name(rows[1])}")
        self._rows: Final = rows
        self._known: Final = known
        self._found: TextDiff | None = None
        self._shown: ComparisonLines | None = None
        self._at = -1

    def compose_page(self) -> Iterable[Widget]:
        """Lay out the two texts."""
        yield Static(COMPARING, id="headline", markup=False)
        with Horizontal(id="sides"):
            for side in ("left", "right"):
                with Vertical(classes="side"):
                    yield Static(classes="facts", markup=False)
                    yield TextPane(id=side)

    def on_mount(self) -> None:
        """Ask what differs: that takes longer than a frame."""
        from ....core.summaries.summary_comparison import diff_texts

        one, other = self._rows
        self.query_one("#left").focus()
        self.work_out(lambda: diff_texts(one.text, other.text), self._take)

    @property
    def sides(self) -> tuple[TextPane, TextPane]:
        """The panes of both texts."""
        return self.query_one("#left", TextPane), self.query_one("#right", TextPane)

    def _take(self, found: TextDiff | Problem) -> None:
        from ....core.summaries.summary_comparison import TextDiff

        if not isinstance(found, TextDiff):
            self.query_one("#headline", Static).update(one_line(str(found)))
            return
        self._found = found
        self._lay_out()

    @on(TextPane.Resized)
    def _lay_out(self) -> None:
        self._draw_facts()
        found, width = self._found, min(pane.line_width for pane in self.sides)
        if found is not None and width > 0:
            self.work_out(lambda: comparison_lines(found, width), self._show)

    def _show(self, shown: ComparisonLines | Problem) -> None:
        if not isinstance(shown, ComparisonLines):
            return
        first = self._shown is None
        self._shown = shown
        left, right = self.sides
        left.show(shown.left)
        right.show(shown.right)
        self._draw_headline()
        if first and shown.difference_starts:
            self.action_go(1)

    def _draw_headline(self) -> None:
        shown = self._shown
        if shown is None:
            return
        at = f"{self._at + 1} of " if self._at >= 0 and shown.difference_starts else ""
        self.query_one("#headline", Static).update(
            Content.styled(f"{at}{shown.headline}", "$foreground")
        )

    def _draw_facts(self) -> None:
        now_ms = self.app.now_ms()
        facts = self.query(".facts").results(Static)
        for static, row, known in zip(facts, self._rows, self._known, strict=True):
            lines = summary_fact_lines(row, known, max(1, static.size.width), now_ms)
            static.update(Content("\n").join(lines[:FACT_LINES]))

    @on(TextPane.Scrolled)
    def _scroll_along(self, event: TextPane.Scrolled) -> None:
        for pane in self.sides:
            if pane is not event.widget and round(pane.scroll_offset.y) != event.line:
                pane.jump(event.line)

    def action_go(self, by: int) -> None:
        """Go to another difference; after the last comes the first."""
        shown = self._shown
        if shown is None or not shown.difference_starts:
            return
        self._at = (self._at + by) % len(shown.difference_starts) if self._at >= 0 or by > 0 else -1
        self._at = self._at % len(shown.difference_starts)
        for pane in self.sides:
            pane.go_to_line(shown.difference_starts[self._at])
        self._draw_headline()

    def action_copy(self) -> None:
        """Copy the text with the focus, or the older one."""
        row = self._rows[1 if self.sides[1].has_focus else 0]
        self.app.copy(row.text, shorten_middle(summary_name(row), 40))


READING_TRANSCRIPT: Final = "reading its transcript …"

COVERAGE_CRUMB: Final = "what it stands for"


class CoverageScreen(Page):
    """The things at the left, ✓ named or ✗ left out; the turns that were replaced at the right."""

    CSS_PATH = "compare.tcss"
    HORIZONTAL_BREAKPOINTS = [(0, "-narrow"), (100, "-wide")]  # noqa: RUF012 -- Textual's
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding(
            "n", "go(1)", "Next left out", tooltip="the next thing that is left out", id="next"
        ),
        Binding(
            "N",
            "go(-1)",
            "Before",
            show=False,
            tooltip="the one before that is left out",
            id="before",
        ),
        Binding(
            "f",
            "only",
            "Only left out",
            tooltip="only what is left out, or all things",
            id="only_lost",
        ),
        Binding("y", "copy", "Copy", tooltip="copy what is left out, as a prompt", id="copy"),
        Binding("d,enter", "leave", "Back", show=False, tooltip="back", id="done"),
        Binding("1", "pane('things')", "Things", show=False, tooltip="the things", id="pane_1"),
        Binding("2", "pane('turns')", "Turns", show=False, tooltip="the turns", id="pane_2"),
    ]

    def __init__(
        self,
        row: SummaryRow,
        known: SummaryDetails,
        *,
        crumbs: Sequence[str],
        plans: tuple[PlanSummary, ...] = (),
    ) -> None:
        super().__init__(*crumbs, summary_name(row), COVERAGE_CRUMB, session_id=row.session_id)
        self._row: Final = row
        self._known: Final = known
        self._plans: Final = plans
        self._found: ReplacedContent | None = None
        self._shown: CoverageLines | None = None
        self._only: ItemFate | None = None
        self._at = -1

    def compose_page(self) -> Iterable[Widget]:
        """Lay out the things and the turns."""
        yield Static(READING_TRANSCRIPT, id="headline", markup=False)
        with Horizontal(id="sides"):
            with Vertical(classes="side", id="things-side"):
                yield TextPane(id="things")
            with Vertical(classes="side", id="turns-side"):
                yield TextPane(id="turns")

    def on_mount(self) -> None:
        """Read the transcript: that takes longer than a frame."""
        self.query_one("#things-side").border_title = "¹ ✓ named  • stayed  ✗ left out"
        self.query_one("#turns-side").border_title = "² What it stands for"
        self.query_one("#things").focus()
        projects = self.app.places.folder.projects
        row, plans = self._row, self._plans

        def read(db: sqlite3.Connection) -> ReplacedContent | str:
            from ....collectors.claude_code.transcripts.replaced_content import (
                NotReadableError,
                read_replaced,
            )

            try:
                return read_replaced(db, projects, row, plans, self._tell)
            except NotReadableError as error:
                return str(error)

        self.look_up(read, self._take)

    def _tell(self, words: str) -> None:
        def show() -> None:
            if self.is_attached and self._found is None:
                self.query_one("#headline", Static).update(one_line(words))

        self.app.call_later(show)

    def _take(self, found: ReplacedContent | str | Problem) -> None:
        if not isinstance(found, ReplacedContent):
            self.query_one("#headline", Static).update(one_line(str(found)))
            self.query_one("#sides").display = False
            return
        self._found = found
        lines = coverage_headline(self._row, found)
        self.query_one("#headline", Static).update(
            Content.assemble((lines[0], "$foreground"), "\n", (lines[1], "$level-notice"))
        )
        self._lay_out()

    @on(TextPane.Resized)
    def _lay_out(self) -> None:
        found, only = self._found, self._only
        things, turns = (
            self.query_one(f"#{each}", TextPane).line_width for each in ("things", "turns")
        )
        if found is not None and things > 0 and turns > 0:
            self.work_out(
                lambda: coverage_lines(found, things - 1, turns - 1, only=only), self._show
            )

    def _show(self, laid: CoverageLines | Problem) -> None:
        if not isinstance(laid, CoverageLines):
            return
        self._shown = laid
        self.query_one("#things", TextPane).show(laid.item_lines)
        self.query_one("#turns", TextPane).show(laid.turn_lines)

    def action_go(self, by: int) -> None:
        """Go to another thing that is left out."""
        laid = self._shown
        if laid is None or not laid.lost_starts:
            return
        self._at = (self._at + by) % len(laid.lost_starts) if self._at >= 0 or by > 0 else -1
        self._at %= len(laid.lost_starts)
        pane = self.query_one("#things", TextPane)
        pane.go_to(pane.line_passage(laid.lost_starts[self._at]))

    def action_only(self) -> None:
        """Show only what is left out, or all things again."""
        self._only = ItemFate.LOST if self._only is None else None
        self._at = -1
        self._lay_out()

    def action_pane(self, name: str) -> None:
        """Go to the things or to the turns."""
        self.query_one(f"#{name}").focus()

    def action_copy(self) -> None:
        """Copy what is left out, for who wants to tell the model again."""
        found = self._found
        lost = [each for each in found.things if each.where is ItemFate.LOST] if found else []
        if not lost:
            self.notify("nothing is left out", markup=False)
            return
        said = "\n".join(f"- {each.text} (line {each.line})" for each in lost)
        self.app.copy(
            f"The summary does not mention these, which stood before it:\n{said}",
            f"{len(lost)} things that are left out",
        )
