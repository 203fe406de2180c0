"""A summary as a row of the list by days, as facts and wrapped text to read, and as a document."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from msgspec.structs import replace
from textual.content import Content

from ....core.compliance.findings import ComplianceVerdict
from ....core.measure.tokens import tokens_or_estimate
from ....core.transcript.sanitize import one_line
from ...text.compliance_text import VERDICT_MEANINGS, VERDICT_NAMES, VERDICT_SIGNS
from ...text.formats import (
    date_time_and_age,
    duration,
    fit_left,
    fit_right,
    plural,
    shorten_middle,
    time_of_day,
    tokens,
)
from ...text.summary_text import (
    BEGINNING_CHARS,
    KIND_SIGNS,
    KIND_STYLES,
    summary_beginning,
    summary_name,
)
from ...text.text_lines import WrappedText, expand_tabs, wrap_text
from ..dialogs import ExportChoice

if TYPE_CHECKING:
    from ....core.compliance.run_verdict import RunVerdict
    from ....core.store.queries.query_rows import SummaryRow
    from ....core.summaries.summary_search import PlanSummary, SummaryQuery


HIT_STYLE: Final = "bold $background on $level-notice"  # what was searched for, wherever it stands
BROAD_CELLS: Final = 70  # cells from which a row is two lines; in less it is three
CHARS_BEFORE_HIT: Final = 24  # characters before the first hit that its snippet begins with
SNIPPET_CHARS: Final = 400  # characters: more than any row is wide
SIZE_CELLS: Final = 21  # room for 12,345 lines ≈172 k
_SIGN_CELLS: Final = 3  # cells of the mark and the kind's sign
_END_CELLS: Final = 8  # cells of the verdict's sign and the time
_DAY_MS: Final = 24 * 3600 * 1000


@dataclass(frozen=True, slots=True)
class SummaryPreview:
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
    spans: tuple[tuple[int, int], ...] = ()  # what was searched for, in the snippet


@dataclass(frozen=True, slots=True)
class SummaryDay:
    """The summaries of one day, newest first."""

    label: str
    first: int  # place of its first one among all
    count: int
    line: int  # of its heading, where a row is `height` lines


@dataclass(frozen=True, slots=True)
class SummaryListLayout:
    """Which line of the list shows what."""

    days: tuple[SummaryDay, ...]
    height: int  # lines of a row
    count: int

    @property
    def lines(self) -> int:
        """Count all lines."""
        return len(self.days) + self.count * self.height

    def locate(self, line: int) -> tuple[SummaryDay, int | None, int] | None:
        """Return the day, the index of the summary, and the line within it.

        The index is None on the heading of a day. The result is None outside the list.
        """
        if not 0 <= line < self.lines:
            return None
        day = self.days[bisect_right(self.days, line, key=lambda each: each.line) - 1]
        inside = line - day.line - 1
        if inside < 0:
            return day, None, 0
        return day, day.first + inside // self.height, inside % self.height

    def line_of(self, place: int) -> int:
        """Return the first line of the summary with index `place`."""
        day = self.days[bisect_right(self.days, place, key=lambda each: each.first) - 1]
        return day.line + 1 + (place - day.first) * self.height


def lay_out_days(places: Sequence[tuple[int, int]], width: int, now_ms: int) -> SummaryListLayout:
    """Group what was found by the days here; `places` are newest first."""
    height = 2 if width >= BROAD_CELLS else 3
    begins: list[tuple[int, int]] = []
    start: int | None = None
    for number, (_, at) in enumerate(places):
        if start is None or at < start or number == 0:
            start = _start_of_day(at)
            begins.append((number, start))
    days: list[SummaryDay] = []
    line = 0
    for number, (first, day) in enumerate(begins):
        until = begins[number + 1][0] if number + 1 < len(begins) else len(places)
        days.append(SummaryDay(day_name(day, now_ms), first, until - first, line))
        line += 1 + (until - first) * height
    return SummaryListLayout(tuple(days), height, len(places))


def make_preview(row: SummaryRow, search: SummaryQuery) -> SummaryPreview:
    """Return what a list row shows: the text around the first hit, or the beginning."""
    snippet, spans = _find_snippet(row.text, search)
    return SummaryPreview(
        summary_id=row.summary_id,
        kind=row.kind,
        session_id=row.session_id,
        agent_id=row.agent_id,
        name=summary_name(row),
        at=row.at,
        lines=row.lines,
        tokens=tokens_or_estimate(row.estimated_tokens, row.text),
        snippet=snippet,
        spans=spans,
    )


def summary_row_lines(
    head: SummaryPreview,
    session_label: str,
    verdict: ComplianceVerdict | None,
    width: int,
    marked: str = " ",
) -> list[Content]:
    """Draw a row; `session_label` names session and project, `marked` is a marked row's sign."""
    sign = KIND_SIGNS.get(head.kind, "?")
    style = KIND_STYLES.get(head.kind, "$foreground")
    passed = VERDICT_SIGNS[verdict] if verdict is not None else " "
    size = f"{plural(head.lines, 'line')} ≈{tokens(head.tokens)}"
    name = Content.assemble(
        (marked, "bold $accent"),
        (f"{sign} ", style),
    )
    end = Content.assemble(
        (f" {passed} ", "$level-warning" if passed == "✗" else "$level-calm"),
        (fit_right(time_of_day(head.at), _END_CELLS - 3), "$quiet"),
    )
    if width >= BROAD_CELLS:
        room = width - _SIGN_CELLS - _END_CELLS - SIZE_CELLS
        cells = room // 2
        first = Content.assemble(
            name,
            (fit_left(head.name, cells), style),
            (f" {fit_left(session_label, room - cells - 1)}", "$quiet"),
            (fit_right(size, SIZE_CELLS), "$quiet"),
            end,
        )
        return [first, _snippet_line(head, width)]
    first = Content.assemble(
        name, (fit_left(head.name, max(0, width - _SIGN_CELLS - _END_CELLS)), style), end
    )
    room = max(0, width - _SIGN_CELLS - len(size) - 1)
    second = Content.assemble((f"   {fit_left(session_label, room)} {size}", "$quiet"))
    return [first, second, _snippet_line(head, width)]


def day_line(day: SummaryDay, width: int) -> Content:
    """Draw a day's heading: its name, a line, and how many there are."""
    count = f" {day.count:,}"
    label = shorten_middle(day.label, max(0, width - len(count) - 1))
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


def _snippet_line(head: SummaryPreview, width: int) -> Content:
    cells = max(0, width - 3)
    words = Content.styled(head.snippet, "$foreground")
    for start, end in head.spans:
        words = words.stylize(HIT_STYLE, start, end)
    return Content("   ") + words.truncate(cells, ellipsis=True).pad_right(
        max(0, cells - words.cell_length)
    )


def _find_snippet(text: str, search: SummaryQuery) -> tuple[str, tuple[tuple[int, int], ...]]:
    hits = search.hits(text)
    if not hits:
        return summary_beginning(text[:BEGINNING_CHARS])[:SNIPPET_CHARS], ()
    first = hits[0][0]
    start = max(0, first - CHARS_BEFORE_HIT)
    if start:
        # At a word's beginning, where there is one.
        space = text.find(" ", start, first)
        start = space + 1 if space >= 0 else start
    around = " ".join(text[start : start + SNIPPET_CHARS].split())
    shown = f"… {around}" if start else around
    return shown, tuple(search.hits(shown))


def _start_of_day(at: int) -> int:
    """Return the start of the local day in ms; 0 if `at` is not positive.

    Falls back to the UTC day if `at` is out of range.
    """
    if at <= 0:
        return 0
    try:
        here = datetime.fromtimestamp(at / 1000).astimezone()
        start = here.replace(hour=0, minute=0, second=0, microsecond=0)
        return int(start.timestamp() * 1000)
    except (ValueError, OverflowError, OSError):
        return at - at % _DAY_MS


_KIND_NAMES = {
    "agent": "what an agent returned",
    "boundary": "what a compaction kept",
    "plan": "a plan, made in plan mode or by ctxtop",
}


@dataclass(frozen=True, slots=True)
class SummaryDetails:
    """What is told of a summary beside its text."""

    session_label: str  # its session's title and project
    ruling: RunVerdict | None = None
    plan: PlanSummary | None = None


@dataclass(frozen=True, slots=True)
class SummaryReport:
    """A summary to read."""

    row: SummaryRow
    text: str  # as it is shown: its passages are places of this
    wrapped: WrappedText

    @property
    def hits(self) -> int:
        """Count what was found of what was searched for."""
        return len(self.wrapped.passages)


def summary_report(row: SummaryRow, search: SummaryQuery | None, width: int) -> SummaryReport:
    """Wrap a summary's text, with what was searched for in sight; counts what nobody counted."""
    text = expand_tabs(row.text)
    hits = search.hits(text) if search else []
    return SummaryReport(with_token_count(row), text, wrap_text(text, width, hits, HIT_STYLE))


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
    sign = KIND_SIGNS.get(row.kind, "?")
    size = f"{plural(row.lines, 'line')} · ≈{tokens(row.estimated_tokens)} tokens"
    lines = [
        Content.assemble(
            (f"{sign} ", style),
            (shorten_middle(one_line(summary_name(row)), width - 2), f"bold {style}"),
        ),
        Content.styled(shorten_middle(known.session_label, width), "$foreground"),
        Content.styled(_when_and_size(row, size, width, now_ms), "$quiet"),
    ]
    if known.ruling is not None and VERDICT_SIGNS[known.ruling.verdict].strip():
        verdict = known.ruling.verdict
        codes = ", ".join(each.code.value for each in known.ruling.violations)
        said = (
            f"{VERDICT_SIGNS[verdict]} {VERDICT_NAMES[verdict]}:"
            f" {codes or VERDICT_MEANINGS[verdict]}"
        )
        color = "$level-warning" if known.ruling.failed else "$level-calm"
        lines.append(Content.styled(shorten_middle(said, width), color))
    if known.plan is not None:
        plan = known.plan
        undone = " · taken back" if plan.undone else ""
        said = (
            f"receipt {plan.receipt_id} · {tokens(plan.before_tokens)} →"
            f" ≈{tokens(plan.after_tokens)} tokens{undone}"
        )
        room = width - len(said) - 3
        about = f" · {shorten_middle(plan.description, room)}" if room > 0 else ""
        lines.append(Content.styled(said + about, "$quiet"))
    return lines


def _when_and_size(row: SummaryRow, size: str, width: int, now_ms: int) -> str:
    """Return the longest form that fits, at least `size`: numbers are never cut."""
    said = [f"{date_time_and_age(row.at, now_ms)} · {size}"]
    if row.at is not None:
        said.append(f"{duration(now_ms - row.at)} ago · {size}")
    return next((each for each in said if len(each) <= width), size)


def kind_name(kind: str) -> str:
    """Return the display name of a kind, or `kind` itself if it is unknown."""
    return _KIND_NAMES.get(kind, kind)


EXPORT_NAME: Final = "summaries"

EXPORT_BATCH: Final = 200  # summaries that are held at once while many are written


def single_export_choice(row: SummaryRow, session_labels: Mapping[str, str]) -> ExportChoice:
    """Offer the one in sight; `session_labels` names sessions."""
    return ExportChoice("this one", _count(1), partial(_markdown_of, row, session_labels))


def list_export_choices(
    selected: Sequence[int],
    shown: Sequence[int],
    plans: tuple[PlanSummary, ...],
    session_labels: Mapping[str, str],
    store: Path,
) -> tuple[ExportChoice, ...]:
    """Offer the marked ones, and all that the filters show, where there are any."""
    offered = (
        (f"the {len(selected):,} marked", selected, 1),
        (f"all {len(shown):,} shown", shown, 2),
    )
    return tuple(
        ExportChoice(
            words, _count(len(ids)), partial(_markdown_of_many, store, plans, ids, session_labels)
        )
        for words, ids, least in offered
        if len(ids) >= least
    )


def _count(count: int) -> str:
    return "1 summary" if count == 1 else f"{count:,} summaries"


def _markdown_of(row: SummaryRow, where: Mapping[str, str]) -> Iterator[str]:
    from ...text.summary_text import summaries_markdown

    yield from summaries_markdown(iter([row]), where)


def _markdown_of_many(
    store: Path, plans: tuple[PlanSummary, ...], ids: Sequence[int], where: Mapping[str, str]
) -> Iterator[str]:
    from ....core.store.database import open_reader
    from ....core.store.readers.summary_reader import read_summary_rows
    from ...text.summary_text import summaries_markdown

    def rows() -> Iterator[SummaryRow]:
        with closing(open_reader(store)) as db:
            for start in range(0, len(ids), EXPORT_BATCH):
                yield from read_summary_rows(db, plans, ids[start : start + EXPORT_BATCH])

    yield from summaries_markdown(rows(), where)
