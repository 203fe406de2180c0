"""The rows of the summaries' list: who said it, where, when, how large, and its first words."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Final

from textual.content import Content

from ..core.tokens import count_of
from .compliance_words import SIGNS
from .formats import fit, fit_right, middle, plural, tokens
from .summary_rows import KIND_SIGNS, KIND_STYLES, LOOKED_AT, beginning, who_said

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..core.compliance.codes import Verdict
    from ..core.store.rows import SummaryRow
    from ..core.summary_search import Search

HIT: Final = "bold $background on $level-notice"
"""What was searched for, wherever it stands."""

BROAD: Final = 70
"""Cells from which a row is two lines; in less it is three."""

BEFORE_HIT: Final = 24
"""Characters before the first hit that its snippet begins with."""

SNIPPET: Final = 400
"""Characters: more than any row is wide."""

SIZE_CELLS: Final = 21
"""Room for 12,345 lines ≈172 k."""

_NAME: Final = 3
"""Cells of the mark and the kind's sign."""

_END: Final = 8
"""Cells of the verdict's sign and the time."""

_DAY_MS: Final = 24 * 3600 * 1000


@dataclass(frozen=True, slots=True)
class Head:
    """What a row shows of a summary; not its whole text."""

    summary_id: int
    kind: str
    session_id: str
    agent_id: str | None
    name: str
    at: int | None
    lines: int
    tokens: int
    snippet: str
    spans: tuple[tuple[int, int], ...] = ()
    """What was searched for, in the snippet."""


@dataclass(frozen=True, slots=True)
class Day:
    """The summaries of one day, newest first."""

    label: str
    first: int
    """Place of its first one among all."""
    count: int
    line: int
    """Of its heading, where a row is `height` lines."""


@dataclass(frozen=True, slots=True)
class Layout:
    """Which line of the list shows what."""

    days: tuple[Day, ...]
    height: int
    """Lines of a row."""
    count: int

    @property
    def lines(self) -> int:
        """Count all lines."""
        return len(self.days) + self.count * self.height

    def locate(self, line: int) -> tuple[Day, int | None, int] | None:
        """Say what stands on a line.

        That is a day, the place of a summary (None: the day's heading), and which line of it.
        """
        if not 0 <= line < self.lines:
            return None
        day = self.days[bisect_right(self.days, line, key=lambda each: each.line) - 1]
        inside = line - day.line - 1
        if inside < 0:
            return day, None, 0
        return day, day.first + inside // self.height, inside % self.height

    def line_of(self, place: int) -> int:
        """Say on which line a summary begins."""
        day = self.days[bisect_right(self.days, place, key=lambda each: each.first) - 1]
        return day.line + 1 + (place - day.first) * self.height


def lay_out(places: Sequence[tuple[int, int]], width: int, now_ms: int) -> Layout:
    """Group what was found by the days here; `places` are newest first."""
    height = 2 if width >= BROAD else 3
    begins: list[tuple[int, int]] = []
    start: int | None = None
    for number, (_, at) in enumerate(places):
        if start is None or at < start or number == 0:
            start = _day_of(at)
            begins.append((number, start))
    days: list[Day] = []
    line = 0
    for number, (first, day) in enumerate(begins):
        until = begins[number + 1][0] if number + 1 < len(begins) else len(places)
        days.append(Day(day_name(day, now_ms), first, until - first, line))
        line += 1 + (until - first) * height
    return Layout(tuple(days), height, len(places))


def head_of(row: SummaryRow, search: Search) -> Head:
    """Take from a summary what its row shows: the words around the first hit, or its beginning."""
    snippet, spans = _snippet(row.text, search)
    return Head(
        summary_id=row.summary_id,
        kind=row.kind,
        session_id=row.session_id,
        agent_id=row.agent_id,
        name=who_said(row),
        at=row.at,
        lines=row.lines,
        tokens=count_of(row.estimated_tokens, row.text),
        snippet=snippet,
        spans=spans,
    )


def row_lines(
    head: Head, session_label: str, verdict: Verdict | None, width: int, marked: str = " "
) -> list[Content]:
    """Draw a row; `where` names session and project, `marked` is the sign of a marked row."""
    sign = KIND_SIGNS.get(head.kind, "?")
    style = KIND_STYLES.get(head.kind, "$foreground")
    passed = SIGNS[verdict] if verdict is not None else " "
    size = f"{plural(head.lines, 'line')} ≈{tokens(head.tokens)}"
    name = Content.assemble(
        (marked, "bold $accent"),
        (f"{sign} ", style),
    )
    end = Content.assemble(
        (f" {passed} ", "$level-warning" if passed == "✗" else "$level-calm"),
        (fit_right(time_of_day(head.at), _END - 3), "$quiet"),
    )
    if width >= BROAD:
        room = width - _NAME - _END - SIZE_CELLS
        cells = room // 2
        first = Content.assemble(
            name,
            (fit(head.name, cells), style),
            (f" {fit(session_label, room - cells - 1)}", "$quiet"),
            (fit_right(size, SIZE_CELLS), "$quiet"),
            end,
        )
        return [first, _words(head, width)]
    first = Content.assemble(name, (fit(head.name, max(0, width - _NAME - _END)), style), end)
    room = max(0, width - _NAME - len(size) - 1)
    second = Content.assemble((f"   {fit(session_label, room)} {size}", "$quiet"))
    return [first, second, _words(head, width)]


def day_line(day: Day, width: int) -> Content:
    """Draw a day's heading: its name, a line, and how many there are."""
    count = f" {day.count:,}"
    label = middle(day.label, max(0, width - len(count) - 1))
    rest = max(0, width - len(label) - len(count) - 1)
    return Content.assemble(
        (label, "bold $primary"), (f" {'─' * rest}", "$pane"), (count, "$quiet")
    )


def day_name(day_ms: int, now_ms: int) -> str:
    """Name a day as a person does."""
    if day_ms <= 0:
        return "when is not known"
    try:
        day = datetime.fromtimestamp(day_ms / 1000).astimezone()
    except (ValueError, OverflowError, OSError):
        return "at no time that a calendar has"
    today = datetime.fromtimestamp(now_ms / 1000).astimezone()
    apart = (today.date() - day.date()).days
    near = {0: "Today, ", 1: "Yesterday, "}.get(apart, "")
    year = "" if day.year == today.year else f" {day.year}"
    return f"{near}{day:%A} {day.day} {day:%B}{year}"


def time_of_day(at: int | None) -> str:
    """Write the time of a day here; the day stands above."""
    try:
        return f"{datetime.fromtimestamp((at or 0) / 1000).astimezone():%H:%M}" if at else ""
    except (ValueError, OverflowError, OSError):
        return ""


def _words(head: Head, width: int) -> Content:
    cells = max(0, width - 3)
    words = Content.styled(head.snippet, "$foreground")
    for start, end in head.spans:
        words = words.stylize(HIT, start, end)
    return Content("   ") + words.truncate(cells, ellipsis=True).pad_right(
        max(0, cells - words.cell_length)
    )


def _snippet(text: str, search: Search) -> tuple[str, tuple[tuple[int, int], ...]]:
    hits = search.hits(text)
    if not hits:
        return beginning(text[:LOOKED_AT])[:SNIPPET], ()
    first = hits[0][0]
    start = max(0, first - BEFORE_HIT)
    if start:
        # At a word's beginning, where there is one.
        space = text.find(" ", start, first)
        start = space + 1 if space >= 0 else start
    around = " ".join(text[start : start + SNIPPET].split())
    shown = f"… {around}" if start else around
    return shown, tuple(search.hits(shown))


def _day_of(at: int) -> int:
    """Say when the day of a time began here; 0 where no calendar has it."""
    if at <= 0:
        return 0
    try:
        here = datetime.fromtimestamp(at / 1000).astimezone()
        start = here.replace(hour=0, minute=0, second=0, microsecond=0)
        return int(start.timestamp() * 1000)
    except (ValueError, OverflowError, OSError):
        return at - at % _DAY_MS
