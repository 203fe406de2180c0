"""Two summaries side by side."""

from collections.abc import Iterable, Sequence
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
from ....core.summaries.summary_comparison import DiffLine, TextDiff, diff_texts
from ....core.transcript.sanitize import one_line
from ...base.keymap import bind, bind_hidden
from ...text.formats import plural, shorten
from ...text.summary_text import summary_name
from ...text.text_lines import expand_tabs, wrap_text
from ...widgets.text_pane import TextPane, next_place
from .coverage_screen import SideBySidePage
from .summary_screen import SummaryDetails, summary_fact_lines

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
    left: tuple[Content, ...]
    right: tuple[Content, ...]
    difference_starts: tuple[int, ...]


def comparison_headline(diff: TextDiff) -> str:
    if not diff.starts:
        return f"the same {plural(diff.same, 'line')}"
    cut = diff.left_cut + diff.right_cut
    more = f" · {cut:,} lines at the end not compared" if cut else ""
    return (
        f"{plural(len(diff.starts), 'difference')} · −{diff.only_left:,} +{diff.only_right:,} ·"
        f" {plural(diff.same, 'line')} the same{more}"
    )


def comparison_lines(diff: TextDiff, width: int) -> ComparisonLines:
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


class CompareScreen(SideBySidePage):
    """Both texts scroll together."""

    BINDINGS: ClassVar[list[BindingType]] = [
        bind("n", "go(1)", "Next", "next difference", "next"),
        bind("N", "go(-1)", "Previous", "previous difference", "before"),
        bind_hidden("tab", "app.focus_next", "Other", "the other text", "other_text"),
        bind_hidden("equals_sign,enter", "leave", "Back", "back", "done"),
        bind("y", "copy", "Copy", "copy the focused text", "copy"),
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
            self.set_headline(one_line(str(found)))
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
            words = f"{at}{comparison_headline(self._diff)}"
            self.set_headline(Content.styled(words, "$foreground"))

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
        self.app.copy(row.text, shorten(summary_name(row), 40))
