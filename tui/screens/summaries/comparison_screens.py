"""Two texts side by side: two summaries, or a summary and the messages that it replaced."""

from __future__ import annotations

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
from ....core.store.queries.query_rows import SummaryRow
from ....core.summaries.summary_comparison import (
    DiffLine,
    ItemFate,
    ReplacedContent,
    ReplacedItem,
    ReplacedItemKind,
    ReplacedItemTally,
    ReplacedMessage,
    TextDiff,
    diff_texts,
)
from ....core.summaries.summary_search import PlanSummary
from ....core.transcript.sanitize import one_line
from ...keymap import bind, bind_hidden
from ...text.formats import plural, shorten_middle
from ...text.summary_text import COVERAGE_SIGNS, coverage_headline, summary_name
from ...text.text_lines import expand_tabs, wrap_text
from ...widgets.text_pane import TextPane
from ..page import Page
from .summary_screen import SummaryDetails, next_place, summary_fact_lines

COMPARING: Final = "comparing …"
FACT_LINES: Final = 3  # lines of facts above each text

_NUMBER_CELLS: Final = 5  # of a line's number and its sign


@dataclass(frozen=True, slots=True)
class DiffSide:
    """How one side's lines are marked."""

    sign: str
    sign_style: str
    word_style: str  # words that the other text does not have
    line_style: str  # a line that resembles none of the other text


_LEFT: Final = DiffSide(
    "−", "bold $error", "$foreground on $error 30%", "$foreground on $error 12%"
)
_RIGHT: Final = DiffSide(
    "+", "bold $success", "$foreground on $success 30%", "$foreground on $success 12%"
)


@dataclass(frozen=True, slots=True)
class ComparisonLines:
    """Both sides, and the lines at which they begin to differ."""

    left: tuple[Content, ...]
    right: tuple[Content, ...]
    difference_starts: tuple[int, ...]


def comparison_headline(diff: TextDiff) -> str:
    """Sum the differences up in one line."""
    if not diff.starts:
        return f"the same {plural(diff.same, 'line')}"
    cut = diff.left_cut + diff.right_cut
    more = f" · {cut:,} lines at the end not compared" if cut else ""
    return (
        f"{plural(len(diff.starts), 'difference')} · −{diff.only_left:,} +{diff.only_right:,} ·"
        f" {plural(diff.same, 'line')} the same{more}"
    )


def comparison_lines(diff: TextDiff, width: int) -> ComparisonLines:
    """Lay out both texts in columns of `width` cells."""
    lefts: list[Content] = []
    rights: list[Content] = []
    starts: list[int] = []
    first_pairs = frozenset(diff.starts)
    for place, pair in enumerate(diff.pairs):
        if place in first_pairs:
            starts.append(len(lefts))
        left = _side_lines(pair.left, width, None if pair.same else _LEFT)
        right = _side_lines(pair.right, width, None if pair.same else _RIGHT)
        height = max(len(left), len(right))
        lefts += left + [_blank_line(pair.left)] * (height - len(left))
        rights += right + [_blank_line(pair.right)] * (height - len(right))
    return ComparisonLines(tuple(lefts), tuple(rights), tuple(starts))


def _side_lines(line: DiffLine | None, width: int, side: DiffSide | None) -> list[Content]:
    """Wrap a line; `side` is None if both texts have it."""
    if line is None:
        return []
    # Wrapping counts characters of the text as it is shown.
    text = expand_tabs(line.text)
    spans = [
        (len(expand_tabs(line.text[:start])), len(expand_tabs(line.text[:end])))
        for start, end in line.changed
    ]
    sign, sign_style, style, base = " ", "bold $success", "", "$quiet"
    if side is not None:
        is_new = line.changed == ((0, len(line.text)),)
        sign, sign_style, base = side.sign, side.sign_style, "$foreground"
        style = side.line_style if is_new else side.word_style
    room = width - _NUMBER_CELLS - 1
    number = f"{line.number:>{_NUMBER_CELLS - 2}}"
    return [
        Content.assemble(
            (number if place == 0 else " " * (_NUMBER_CELLS - 2), "$quiet"),
            (sign, sign_style),
            " ",
            part,
        )
        for place, part in enumerate(wrap_text(text, room, spans, style, base).lines)
    ]


def _blank_line(line: DiffLine | None) -> Content:
    return Content("") if line is not None else Content.styled("   ╱", "$pane")


class CompareScreen(Page):
    """Side by side if there is room, else one above the other; both scroll together."""

    CSS_PATH = "compare.tcss"
    HORIZONTAL_BREAKPOINTS = [(0, "-narrow"), (100, "-wide")]  # noqa: RUF012 -- Textual's
    BINDINGS: ClassVar[list[BindingType]] = [
        bind("n", "go(1)", "Next", "the next difference", "next"),
        bind("N", "go(-1)", "Before", "the difference before", "before"),
        bind_hidden("tab", "app.focus_next", "Other", "the other text", "other_text"),
        bind_hidden("equals_sign,enter", "leave", "Back", "back", "done"),
        bind("y", "copy", "Copy", "copy the text with the focus", "copy"),
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
        self._diff: TextDiff | None = None
        self._shown: ComparisonLines | None = None
        self._at = -1

    def compose_page(self) -> Iterable[Widget]:
        yield Static(COMPARING, id="headline", markup=False)
        with Horizontal(id="sides"):
            for side in ("left", "right"):
                with Vertical(classes="side"):
                    yield Static(classes="facts", markup=False)
                    yield TextPane(id=side)

    def on_mount(self) -> None:
        """Compare outside the screen's thread: it takes longer than a frame."""
        left, right = self._rows
        self.query_one("#left").focus()
        self.work_out(lambda: diff_texts(left.text, right.text), self._take)

    @property
    def sides(self) -> tuple[TextPane, TextPane]:
        return self.query_one("#left", TextPane), self.query_one("#right", TextPane)

    def _take(self, found: TextDiff | Problem) -> None:
        if isinstance(found, Problem):
            self.query_one("#headline", Static).update(one_line(str(found)))
            return
        self._diff = found
        self._lay_out()

    @on(TextPane.Resized)
    def _lay_out(self) -> None:
        self._draw_facts()
        diff, width = self._diff, min(pane.line_width for pane in self.sides)
        if diff is not None and width > 0:
            self.work_out(lambda: comparison_lines(diff, width), self._show)

    def _show(self, shown: ComparisonLines | Problem) -> None:
        if isinstance(shown, Problem):
            return
        is_first = self._shown is None
        self._shown = shown
        left, right = self.sides
        left.show(shown.left)
        right.show(shown.right)
        self._draw_headline()
        if is_first:
            self.action_go(1)

    def _draw_headline(self) -> None:
        if self._shown is not None and self._diff is not None:
            at = f"{self._at + 1} of " if self._at >= 0 else ""
            self.query_one("#headline", Static).update(
                Content.styled(f"{at}{comparison_headline(self._diff)}", "$foreground")
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
        starts = self._shown.difference_starts if self._shown else ()
        if not starts:
            return
        self._at = next_place(self._at, by, len(starts))
        for pane in self.sides:
            pane.go_to_line(starts[self._at])
        self._draw_headline()

    def action_copy(self) -> None:
        """Copy the text with the focus, or the older one."""
        row = self._rows[1 if self.sides[1].has_focus else 0]
        self.app.copy(row.text, shorten_middle(summary_name(row), 40))


READING_TRANSCRIPT: Final = "reading its transcript …"
COVERAGE_CRUMB: Final = "what it stands for"

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
    """Both sides as lines, and where n goes."""

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
    return CoverageLines(tuple(lines), tuple(lost), tuple(_turns_lines(found, turns_width)))


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
        name = shorten_middle(one_line(item.text), max(1, room - len(line)))
        yield Content.assemble((f" {sign}", style), (name, base), (line, "$quiet"))
        return
    for number, text in enumerate(wrap_text(expand_tabs(item.text), room, (), "", base).lines):
        yield Content.assemble((f" {sign}" if number == 0 else "   ", style), text)


def _turns_lines(found: ReplacedContent, width: int) -> Iterator[Content]:
    before = found.messages - len(found.turns)
    if before > 0:
        yield Content.styled(f"… {before:,} messages before these", "$quiet")
    for turn in found.turns:
        yield from _turn_lines(turn, max(1, width))


def _turn_lines(turn: ReplacedMessage, width: int) -> Iterator[Content]:
    yield Content.assemble(
        (turn.who, f"bold {_SPEAKER_STYLES.get(turn.who, '$foreground')}"),
        (f"  line {turn.line}", "$quiet"),
        ("  • stayed as it is" if turn.stays else "", COVERAGE_STYLES[ItemFate.STAYS]),
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


class CoverageScreen(Page):
    """The items on the left, ✓ named or ✗ left out; the replaced messages on the right."""

    CSS_PATH = "compare.tcss"
    HORIZONTAL_BREAKPOINTS = [(0, "-narrow"), (100, "-wide")]  # noqa: RUF012 -- Textual's
    BINDINGS: ClassVar[list[BindingType]] = [
        bind("n", "go(1)", "Next left out", "the next thing that is left out", "next"),
        bind_hidden("N", "go(-1)", "Before", "the one before that is left out", "before"),
        bind("f", "only", "Only left out", "only what is left out, or all things", "only_lost"),
        bind("y", "copy", "Copy", "copy what is left out, as a prompt", "copy"),
        bind_hidden("d,enter", "leave", "Back", "back", "done"),
        bind_hidden("1", "pane('things')", "Things", "the things", "pane_1"),
        bind_hidden("2", "pane('turns')", "Turns", "the turns", "pane_2"),
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
        yield Static(READING_TRANSCRIPT, id="headline", markup=False)
        with Horizontal(id="sides"):
            with Vertical(classes="side", id="things-side"):
                yield TextPane(id="things")
            with Vertical(classes="side", id="turns-side"):
                yield TextPane(id="turns")

    def on_mount(self) -> None:
        """Read the transcript outside the screen's thread: it takes longer than a frame."""
        self.query_one("#things-side").border_title = "¹ ✓ named  • stayed  ✗ left out"
        self.query_one("#turns-side").border_title = "² What it stands for"
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
                self.query_one("#headline", Static).update(one_line(words))

        self.app.call_later(show)

    def _take(self, found: ReplacedContent | str | Problem) -> None:
        headline = self.query_one("#headline", Static)
        if not isinstance(found, ReplacedContent):
            headline.update(one_line(str(found)))
            self.query_one("#sides").display = False
            return
        self._found = found
        sizes, kept = coverage_headline(self._row, found)
        headline.update(Content.assemble((sizes, "$foreground"), "\n", (kept, "$level-notice")))
        self._lay_out()

    @on(TextPane.Resized)
    def _lay_out(self) -> None:
        found, only = self._found, self._only
        items, turns = self._pane("things").line_width, self._pane("turns").line_width
        if found is not None and items > 0 and turns > 0:
            self.work_out(
                lambda: coverage_lines(found, items - 1, turns - 1, only=only), self._show
            )

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
        """Go to the items or to the messages."""
        self._pane(name).focus()

    def action_copy(self) -> None:
        """Copy what is left out, to tell the model again."""
        items = self._found.things if self._found else ()
        lost = [item for item in items if item.where is ItemFate.LOST]
        if not lost:
            self.notify("nothing is left out", markup=False)
            return
        listed = "\n".join(f"- {item.text} (line {item.line})" for item in lost)
        self.app.copy(
            f"The summary does not mention these, which stood before it:\n{listed}",
            f"{len(lost)} things that are left out",
        )
