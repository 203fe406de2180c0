"""Two summaries as lines side by side, and what a summary covers of what it replaces."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from textual.content import Content

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
)
from ....core.transcript.sanitize import one_line
from ...text.formats import plural, shorten_middle, tokens
from ...text.text_lines import expand_tabs, wrap_text

REMOVED_STYLE: Final = "$foreground on $error 30%"
ADDED_STYLE: Final = "$foreground on $success 30%"
"""Words of a line that the other text does not have."""

REMOVED_LINE_STYLE: Final = "$foreground on $error 12%"
ADDED_LINE_STYLE: Final = "$foreground on $success 12%"
"""A line that is like none of the other text's."""

_NUMBER_CELLS: Final = 5  # cells of a line's number and its sign


@dataclass(frozen=True, slots=True)
class ComparisonLines:
    """Both sides, and where lines begin to differ."""

    left: tuple[Content, ...]
    right: tuple[Content, ...]
    difference_starts: tuple[int, ...]
    same_lines: int
    only_left: int
    only_right: int
    uncompared: int  # lines at the ends that nobody compared

    @property
    def headline(self) -> str:
        """The differences in one line."""
        if not self.difference_starts:
            return f"the same {plural(self.same_lines, 'line')}"
        more = f" · {self.uncompared:,} lines at the end not compared" if self.uncompared else ""
        return (
            f"{plural(len(self.difference_starts), 'difference')} · −{self.only_left:,}"
            f" +{self.only_right:,} ·"
            f" {plural(self.same_lines, 'line')} the same{more}"
        )


def comparison_lines(found: TextDiff, width: int) -> ComparisonLines:
    """Lay out both texts in columns of `width` cells."""
    left: list[Content] = []
    right: list[Content] = []
    starts: list[int] = []
    wanted = frozenset(found.starts)
    for place, pair in enumerate(found.pairs):
        if place in wanted:
            starts.append(len(left))
        one = _side_lines(
            pair.left, width, "−" if not pair.same else " ", (REMOVED_STYLE, REMOVED_LINE_STYLE)
        )
        other = _side_lines(
            pair.right, width, "+" if not pair.same else " ", (ADDED_STYLE, ADDED_LINE_STYLE)
        )
        height = max(len(one), len(other))
        left += one + [_blank_line(pair.left)] * (height - len(one))
        right += other + [_blank_line(pair.right)] * (height - len(other))
    return ComparisonLines(
        tuple(left),
        tuple(right),
        tuple(starts),
        found.same,
        found.only_left,
        found.only_right,
        found.left_cut + found.right_cut,
    )


def _side_lines(
    side: DiffLine | None, width: int, sign: str, styles: tuple[str, str]
) -> list[Content]:
    if side is None:
        return []
    # Wrapping counts characters of the text as it is shown.
    text = expand_tabs(side.text)
    spans = _shown_spans(side) if side.changed else ()
    base = "$foreground" if sign != " " else "$quiet"
    style = styles[side.changed == ((0, len(side.text)),)]
    lines = wrap_text(text, width - _NUMBER_CELLS - 1, spans, style, base).lines
    signed = "$error" if sign == "−" else "$success"
    return [
        Content.assemble(
            (
                f"{side.number:>{_NUMBER_CELLS - 2}}" if n == 0 else " " * (_NUMBER_CELLS - 2),
                "$quiet",
            ),
            (sign if sign != " " else " ", f"bold {signed}"),
            " ",
            line,
        )
        for n, line in enumerate(lines)
    ]


def _shown_spans(side: DiffLine) -> tuple[tuple[int, int], ...]:
    return tuple(
        (len(expand_tabs(side.text[:start])), len(expand_tabs(side.text[:end])))
        for start, end in side.changed
    )


def _blank_line(side: DiffLine | None) -> Content:
    return Content("") if side is not None else Content.styled("   ╱", "$pane")


COVERAGE_SIGNS: Final = {ItemFate.SUMMARY: "✓", ItemFate.STAYS: "•", ItemFate.LOST: "✗"}
COVERAGE_STYLES: Final = {
    ItemFate.SUMMARY: "$level-calm",
    ItemFate.STAYS: "$level-notice",
    ItemFate.LOST: "$level-warning",
}

QUOTED_STYLE: Final = "$level-calm"  # what the summary says word for word
MAX_TURN_LINES: Final = 12  # of one message; the rest of it stands in the transcript
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
    """Both sides as lines, and where a person goes with n."""

    item_lines: tuple[Content, ...]
    lost_starts: tuple[int, ...]  # lines of `things` with what is left out
    turn_lines: tuple[Content, ...]


def coverage_headline(row: SummaryRow, found: ReplacedContent) -> list[str]:
    """Return two lines: the sizes before and after, and how much was kept and lost."""
    before = f"{plural(found.messages, 'message')}, {plural(found.tool_uses, 'tool use')}"
    if found.context_tokens:
        before += f", {tokens(found.context_tokens)} tokens in context"
    size = f"{plural(row.lines, 'line')}"
    if row.estimated_tokens is not None:
        size += f", ≈{tokens(row.estimated_tokens)} tokens"
    kept = sum(each.summary for each in found.tallies)
    lost = sum(each.lost for each in found.tallies)
    stays = sum(each.stays for each in found.tallies)
    said = f"names {kept:,} of {kept + lost + stays:,} things"
    if stays:
        said += f" · {stays:,} more stand in the messages that stayed"
    return [f"{before} → {size}", f"{said} · leaves out {lost:,}{_last_message_note(row, found)}"]


def coverage_lines(
    found: ReplacedContent, things_width: int, turns_width: int, *, only: ItemFate | None
) -> CoverageLines:
    """Lay out both sides; `only` leaves out the things of another kind."""
    things: list[Content] = []
    lost: list[int] = []
    for tally in found.tallies:
        some = [
            each
            for each in found.things
            if each.sort is tally.sort and (only is None or each.where is only)
        ]
        if not some:
            continue
        if things:
            things.append(Content(""))
        things.append(_tally_heading(tally))
        for thing in some:
            if thing.where is ItemFate.LOST:
                lost.append(len(things))
            things += _item_lines(thing, things_width)
        missing = (tally.all if only is None else _tally_count(tally, only)) - len(some)
        if missing > 0:
            things.append(Content.styled(f"  … {missing:,} more", "$quiet"))
    if not things:
        words = "No file, name, decision, todo or rule was found in it."
        things = [Content.styled(words if only is None else "Nothing is left out.", "$quiet")]
    return CoverageLines(tuple(things), tuple(lost), tuple(_turns_lines(found, turns_width)))


def _last_message_note(row: SummaryRow, found: ReplacedContent) -> str:
    if row.kind != "agent" or not found.last_words:
        return ""
    return (
        " · the result is its last message, word for word"
        if found.last_words.strip() == row.text.strip()
        else " · the result is not its last message"
    )


def _tally_count(tally: ReplacedItemTally, where: ItemFate) -> int:
    return {
        ItemFate.SUMMARY: tally.summary,
        ItemFate.STAYS: tally.stays,
        ItemFate.LOST: tally.lost,
    }[where]


def _tally_heading(tally: ReplacedItemTally) -> Content:
    parts: list[tuple[str, str]] = [(f"{tally.sort.value} ", "bold $primary")]
    parts.append((f"✓ {tally.summary:,}", COVERAGE_STYLES[ItemFate.SUMMARY]))
    if tally.stays:
        parts.append((f"  • {tally.stays:,}", COVERAGE_STYLES[ItemFate.STAYS]))
    parts.append(
        (f"  ✗ {tally.lost:,}", COVERAGE_STYLES[ItemFate.LOST] if tally.lost else "$quiet")
    )
    return Content.assemble(*parts)


def _item_lines(thing: ReplacedItem, width: int) -> Iterator[Content]:
    style = COVERAGE_STYLES[thing.where]
    sign = f"{COVERAGE_SIGNS[thing.where]} "
    base = "$quiet" if thing.where is ItemFate.SUMMARY else "$foreground"
    line = f" {thing.line}" if thing.line else ""
    room = max(1, width - 3)
    if thing.sort in {ReplacedItemKind.FILE, ReplacedItemKind.NAME}:
        name = shorten_middle(one_line(thing.text), max(1, room - len(line)))
        yield Content.assemble((f" {sign}", style), (name, base), (line, "$quiet"))
        return
    for number, text in enumerate(wrap_text(expand_tabs(thing.text), room, (), "", base).lines):
        yield Content.assemble((f" {sign}" if number == 0 else "   ", style), text)


def _turns_lines(found: ReplacedContent, width: int) -> Iterator[Content]:
    before = found.messages - len(found.turns)
    if before > 0:
        yield Content.styled(f"… {before:,} messages before these", "$quiet")
    for turn in found.turns:
        yield from _turn_lines(turn, max(1, width))


def _turn_lines(turn: ReplacedMessage, width: int) -> Iterator[Content]:
    stays = "  • stayed as it is" if turn.stays else ""
    quoted = "  ✓ quoted" if turn.quoted else ""
    yield Content.assemble(
        (turn.who, f"bold {_SPEAKER_STYLES.get(turn.who, '$foreground')}"),
        (f"  line {turn.line}", "$quiet"),
        (stays, COVERAGE_STYLES[ItemFate.STAYS]),
        (quoted, COVERAGE_STYLES[ItemFate.SUMMARY]),
    )
    text = expand_tabs(turn.text)
    same = len(text) == len(turn.text)
    spans: Sequence[tuple[int, int]] = turn.quoted if same else ()
    lines = wrap_text(text, width - 2, spans, QUOTED_STYLE, "$quiet").lines
    for line in lines[:MAX_TURN_LINES]:
        yield Content("  ") + line
    if len(lines) > MAX_TURN_LINES:
        yield Content.styled(f"  … {len(lines) - MAX_TURN_LINES} more lines", "$quiet")
    yield Content("")
