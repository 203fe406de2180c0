"""What a summary names, what it leaves out, and the messages that it replaced."""

import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar, Final

from textual import on
from textual.binding import BindingType
from textual.containers import Horizontal, Vertical
from textual.content import Content
from textual.widget import Widget
from textual.widgets import Static

from ....core.model.problem import Problem
from ....core.model.stored_rows import SummaryRow
from ....core.summaries.summary_comparison import (
    ItemFate,
    ReplacedContent,
    ReplacedItem,
    ReplacedItemKind,
    ReplacedItemTally,
    ReplacedMessage,
)
from ....core.summaries.summary_search import PlanSummary
from ....core.transcript.sanitize import one_line
from ...base.keymap import bind, bind_hidden
from ...page_kit.page import Page
from ...text.formats import shorten
from ...text.summary_text import COVERAGE_SIGNS, coverage_headline, summary_name
from ...text.text_lines import expand_tabs, wrap_text
from ...widgets.text_pane import TextPane, next_place

READING_TRANSCRIPT: Final = "reading its transcript …"
COVERAGE_CRUMB: Final = "what it replaced"

COVERAGE_STYLES: Final = {
    ItemFate.SUMMARY: "$level-calm",
    ItemFate.STAYS: "$level-notice",
    ItemFate.LOST: "$level-warning",
}

MAX_TURN_LINES: Final = 12  # of one message; its transcript has the rest
_SPEAKER_STYLES: Final = {
    "you": "$primary",
    "model": "$accent",
    "tools": "$quiet",
    "agent": "$secondary",
    "summary": "$level-notice",
    "client": "$quiet",
}


@dataclass(frozen=True, slots=True)
class CoverageLines:
    item_lines: tuple[Content, ...]
    lost_starts: tuple[int, ...]  # in `item_lines`, where a lost item begins
    turn_lines: tuple[Content, ...]


def coverage_lines(
    found: ReplacedContent, items_width: int, turns_width: int, *, only: ItemFate | None
) -> CoverageLines:
    """Lay out both sides; `only` leaves out items of another fate."""
    lines: list[Content] = []
    lost: list[int] = []
    for tally in found.tallies:
        items = [
            item
            for item in found.things
            if item.sort is tally.sort and (only is None or item.where is only)
        ]
        if not items:
            continue
        if lines:
            lines.append(Content(""))
        lines.append(_tally_heading(tally))
        for item in items:
            if item.where is ItemFate.LOST:
                lost.append(len(lines))
            lines += _item_lines(item, items_width)
        missing = getattr(tally, only or "all") - len(items)
        if missing > 0:
            lines.append(Content.styled(f"  … {missing:,} more", "$quiet"))
    if not lines:
        nothing = "No file, name, decision, todo or rule was found in it."
        lines = [Content.styled(nothing if only is None else "Nothing is left out.", "$quiet")]
    before = found.messages - len(found.turns)
    turns = [Content.styled(f"… {before:,} messages before these", "$quiet")] if before > 0 else []
    for turn in found.turns:
        turns += _turn_lines(turn, max(1, turns_width))
    return CoverageLines(tuple(lines), tuple(lost), tuple(turns))


def _tally_heading(tally: ReplacedItemTally) -> Content:
    lost_style = COVERAGE_STYLES[ItemFate.LOST] if tally.lost else "$quiet"
    return Content.assemble(
        (f"{tally.sort.value} ", "bold $primary"),
        (f"✓ {tally.summary:,}", COVERAGE_STYLES[ItemFate.SUMMARY]),
        (f"  • {tally.stays:,}" if tally.stays else "", COVERAGE_STYLES[ItemFate.STAYS]),
        (f"  ✗ {tally.lost:,}", lost_style),
    )


def _item_lines(item: ReplacedItem, width: int) -> Iterator[Content]:
    style, sign = COVERAGE_STYLES[item.where], f"{COVERAGE_SIGNS[item.where]} "
    base = "$quiet" if item.where is ItemFate.SUMMARY else "$foreground"
    line = f" {item.line}" if item.line else ""
    room = max(1, width - 3)
    if item.sort in {ReplacedItemKind.FILE, ReplacedItemKind.NAME}:
        name = shorten(one_line(item.text), max(1, room - len(line)))
        yield Content.assemble((f" {sign}", style), (name, base), (line, "$quiet"))
        return
    for number, text in enumerate(wrap_text(expand_tabs(item.text), room, (), "", base).lines):
        yield Content.assemble((f" {sign}" if number == 0 else "   ", style), text)


def _turn_lines(turn: ReplacedMessage, width: int) -> Iterator[Content]:
    yield Content.assemble(
        (turn.who, f"bold {_SPEAKER_STYLES.get(turn.who, '$foreground')}"),
        (f"  line {turn.line}", "$quiet"),
        ("  • kept as it was" if turn.stays else "", COVERAGE_STYLES[ItemFate.STAYS]),
        ("  ✓ quoted" if turn.quoted else "", COVERAGE_STYLES[ItemFate.SUMMARY]),
    )
    text = expand_tabs(turn.text)
    spans = turn.quoted if len(text) == len(turn.text) else ()
    quoted_style = COVERAGE_STYLES[ItemFate.SUMMARY]
    lines = wrap_text(text, width - 2, spans, quoted_style, "$quiet").lines
    for line in lines[:MAX_TURN_LINES]:
        yield Content("  ") + line
    if len(lines) > MAX_TURN_LINES:
        yield Content.styled(f"  … {len(lines) - MAX_TURN_LINES} more lines", "$quiet")
    yield Content("")


class SideBySidePage(Page):
    """A headline above two texts: side by side if there is room, else one above the other."""

    CSS_PATH = "compare.tcss"
    HORIZONTAL_BREAKPOINTS = [(0, "-narrow"), (100, "-wide")]  # noqa: RUF012 -- Textual's

    def set_headline(self, words: Content | str) -> None:
        self.query_one("#headline", Static).update(words)


class CoverageScreen(SideBySidePage):
    """The items on the left, ✓ named or ✗ left out; the replaced messages on the right."""

    BINDINGS: ClassVar[list[BindingType]] = [
        bind("n", "go(1)", "Next left out", "next item left out", "next"),
        bind_hidden("N", "go(-1)", "Previous", "previous item left out", "before"),
        bind("f", "only", "Only left out", "only items left out, or all", "only_lost"),
        bind("y", "copy", "Copy", "copy items left out, as a prompt", "copy"),
        bind_hidden("d,enter", "leave", "Back", "back", "done"),
        bind_hidden("1", "pane('things')", "Items", "the items", "pane_1"),
        bind_hidden("2", "pane('turns')", "Turns", "the turns", "pane_2"),
    ]

    def __init__(
        self, row: SummaryRow, *, crumbs: Sequence[str], plans: tuple[PlanSummary, ...] = ()
    ) -> None:
        super().__init__(*crumbs, summary_name(row), COVERAGE_CRUMB, session_id=row.session_id)
        self._row: Final = row
        self._plans: Final = plans
        self._found: ReplacedContent | None = None
        self._shown: CoverageLines | None = None
        self._only: ItemFate | None = None
        self._at = -1

    def compose_page(self) -> Iterable[Widget]:
        yield Static(READING_TRANSCRIPT, id="headline", markup=False)
        with Horizontal(id="sides"):
            with Vertical(classes="side", id="things-side"):
                yield TextPane(id="things")
            with Vertical(classes="side", id="turns-side"):
                yield TextPane(id="turns")

    def on_mount(self) -> None:
        """Read the transcript outside the screen's thread: it takes longer than a frame."""
        self.query_one("#things-side").border_title = "¹ ✓ named  • kept  ✗ left out"
        self.query_one("#turns-side").border_title = "² What it replaced"
        self._pane("things").focus()
        projects = self.app.places.folder.projects
        row, plans = self._row, self._plans

        def read(db: sqlite3.Connection) -> ReplacedContent | str:
            from ....collectors.claude_code.transcripts.replaced_content import (
                NotReadableError,
                read_replaced,
            )

            try:
                return read_replaced(db, projects, row, plans, self._report_progress)
            except NotReadableError as error:
                return str(error)

        self.look_up(read, self._take)

    def _pane(self, name: str) -> TextPane:
        return self.query_one(f"#{name}", TextPane)

    def _report_progress(self, words: str) -> None:
        def show() -> None:
            if self.is_attached and self._found is None:
                self.set_headline(one_line(words))

        self.app.call_later(show)

    def _take(self, found: ReplacedContent | str | Problem) -> None:
        if not isinstance(found, ReplacedContent):
            self.set_headline(one_line(str(found)))
            self.query_one("#sides").display = False
            return
        self._found = found
        sizes, kept = coverage_headline(self._row, found)
        self.set_headline(Content.assemble((sizes, "$foreground"), "\n", (kept, "$level-notice")))
        self._lay_out()

    @on(TextPane.Resized)
    def _lay_out(self) -> None:
        found, only = self._found, self._only
        items, turns = self._pane("things").line_width, self._pane("turns").line_width
        if found is not None and items > 0 and turns > 0:
            widths = items - 1, turns - 1
            self.work_out(lambda: coverage_lines(found, *widths, only=only), self._show)

    def _show(self, shown: CoverageLines | Problem) -> None:
        if isinstance(shown, CoverageLines):
            self._shown = shown
            self._pane("things").show(shown.item_lines)
            self._pane("turns").show(shown.turn_lines)

    def action_go(self, by: int) -> None:
        """Go to another item that is left out."""
        starts = self._shown.lost_starts if self._shown else ()
        if starts:
            self._at = next_place(self._at, by, len(starts))
            pane = self._pane("things")
            pane.go_to(pane.line_passage(starts[self._at]))

    def action_only(self) -> None:
        """Show only what is left out, or all items again."""
        self._only = ItemFate.LOST if self._only is None else None
        self._at = -1
        self._lay_out()

    def action_pane(self, name: str) -> None:
        self._pane(name).focus()

    def action_copy(self) -> None:
        """Copy what is left out, to tell the model again."""
        items = self._found.things if self._found else ()
        lost = [item for item in items if item.where is ItemFate.LOST]
        if not lost:
            self.app.toast("nothing is left out")
            return
        listed = "\n".join(f"- {item.text} (line {item.line})" for item in lost)
        self.app.copy(
            f"The summary does not mention these:\n{listed}",
            f"{len(lost)} things that are left out",
        )
