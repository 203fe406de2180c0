"""A session's compactions as lines: the list of all, and what one retained and lost."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from textual.content import Content

from ...core.model.stored_rows import CompactionRow
from ...core.summaries.artifacts import Artifacts, Quote, Todo, UsedName
from ...core.summaries.compaction_quality import DEFAULT_TARGET_REDUCTION
from ...core.summaries.compaction_report import CompactionReport, RetainedAndLost, SteeringOutcome
from ...core.transcript.sanitize import one_line
from ..text import compaction_text, formats
from ..text.compaction_text import CONTENT_UNKNOWN, lost_counts
from ..text.formats import fit_left, fit_right, plural, shorten
from ..text.listing import Listing, Row
from ..text.markdown_text import markdown_lines
from ..text.session_text import relative_path
from ..text.text_lines import heading, join_lines, quiet
from .context_breakdown import bar_with_track
from .timeline_picture import COMPACTION_SIGN

WHEN_CELLS: Final = 11
TRIGGER_CELLS: Final = 7
SIZES_CELLS: Final = 18
LESS_CELLS: Final = 9
LESS_FROM_CELLS: Final = 80  # width from which there is room for the reduction
MIN_LOST_CELLS: Final = 10  # cells; with fewer for what was lost the trigger is left out
_DETAIL_LABEL_CELLS: Final = 14

NO_COMPACTIONS: Final = (
    "Not compacted yet. What a compaction keeps and loses appears here; c compacts"
    " the session before Claude Code does."
)


@dataclass(frozen=True, slots=True)
class ReportedCompaction:
    """A compaction as it is stored, with what is reported about it."""

    row: CompactionRow
    report: CompactionReport | None = None  # none while it is worked out
    steering: tuple[SteeringOutcome, ...] = ()  # what it was asked to keep
    target: tuple[float, float] = DEFAULT_TARGET_REDUCTION  # the shares it should have freed


def compactions_listing(
    compactions: Sequence[ReportedCompaction], width: int, now_ms: int
) -> Listing:
    rows = tuple(
        Row(each.row.uuid, _compaction_line(each, width, now_ms), each) for each in compactions
    )
    head = f"{plural(len(rows), 'compaction')}; ⏎ shows what was kept and lost"
    return Listing(rows, quiet(head), NO_COMPACTIONS)


def compaction_detail(compaction: ReportedCompaction, width: int, now_ms: int) -> Content:
    row, report = compaction.row, compaction.report
    room = max(1, width - _DETAIL_LABEL_CELLS)
    labeled = list(compaction_text.steering_lines(compaction.steering))
    if report is not None:
        labeled += compaction_text.compaction_report_lines(report, room)
    parts = [
        heading(f"{COMPACTION_SIGN} {compaction_headline(compaction)}"),
        quiet(_age_text(row, now_ms)),
        Content(""),
        *(
            Content.assemble((fit_left(label, _DETAIL_LABEL_CELLS), "$quiet"), shorten(text, room))
            for label, text in labeled
        ),
    ]
    if report is None:
        parts.append(quiet(REPORT_PENDING))
    elif not labeled:
        nothing = "nothing that was checked was lost"
        parts.append(quiet(nothing if report.is_known else CONTENT_UNKNOWN))
    if row.summary:
        parts += [Content(""), heading("The summary"), *markdown_lines(row.summary, width)]
    return join_lines(*parts)


def compaction_headline(compaction: ReportedCompaction) -> str:
    """Return the trigger, the sizes, the messages kept and the duration in one line."""
    row = compaction.row
    kept = f", {plural(row.kept_messages, 'message')} kept" if row.kept_messages else ""
    took = f", took {formats.duration(row.duration_ms)}" if row.duration_ms else ""
    share = formats.compaction_reduction(row)
    less = formats.reduction_with_flag(share, compaction.target)
    less = "" if share is None else f", {less}"
    sizes = formats.tokens_before_and_after(row)
    return f"{row.trigger or 'unknown trigger'}: {sizes}{less}{kept}{took}"


def _age_text(row: CompactionRow, now_ms: int) -> str:
    return formats.NOTHING if row.at is None else f"{formats.duration(now_ms - row.at)} ago"


def _lost_text(report: CompactionReport | None, room: int) -> str:
    """Count what was lost by kind, or in all if that does not fit."""
    if report is None:
        return "working …"
    if not report.is_known:
        return "unknown: the file begins here"
    counts = lost_counts(report.forgotten)
    by_kind = ", ".join(plural(count, kind) for kind, count in counts.items() if count)
    text = f"lost {by_kind}" if by_kind else "lost nothing that was checked"
    return text if len(text) <= room else f"lost {plural(sum(counts.values()), 'thing')}"


def _compaction_line(compaction: ReportedCompaction, width: int, now_ms: int) -> Content:
    row, report = compaction.row, compaction.report
    too_soon = " ⚠ too soon" if report and report.thrash else ""
    share = formats.compaction_reduction(row)
    less = "" if share is None else formats.reduction_with_sign(share, compaction.target)
    trigger_cells, sizes = TRIGGER_CELLS, formats.tokens_before_and_after(row)
    sizes_cells = max(SIZES_CELLS, len(sizes) + 1)
    less_cells = LESS_CELLS if width >= LESS_FROM_CELLS else 0
    room = width - 2 - sizes_cells - less_cells - WHEN_CELLS - trigger_cells - len(too_soon)
    if room < MIN_LOST_CELLS:
        room += trigger_cells + len(too_soon)
        trigger_cells, too_soon = 0, ""
    room = max(0, room)
    return Content.assemble(
        (f"{COMPACTION_SIGN} ", "$accent"),
        (fit_left(one_line(row.trigger or "?"), trigger_cells), "$quiet"),
        (fit_left(sizes, sizes_cells), "$foreground"),
        (fit_left(less, less_cells), "$foreground"),
        (fit_left(_lost_text(report, room), room), "$level-notice"),
        (too_soon, "$level-high"),
        (fit_right(_age_text(row, now_ms), WHEN_CELLS), "$quiet"),
    )


MAX_ITEMS_LISTED: Final = 200  # of each kind and half: more than anybody looks through
LINE_CELLS: Final = 11
BAR_LABEL_CELLS: Final = 8
BAR_NUMBER_CELLS: Final = 18

RETAINED_SIGN: Final = ("✓", "$level-calm")
LOST_SIGN: Final = ("✗", "$level-emergency")


@dataclass(frozen=True, slots=True)
class CompactionItem:
    """Something in the context before the compaction."""

    text: str
    line: int | None
    is_retained: bool | None  # none if that is not recorded
    how: str = ""  # how a file was used, such as "read 2×"; empty for other items


@dataclass(frozen=True, slots=True)
class CompactionItemGroup:
    """The items of one kind that are listed, and how many there are in all."""

    name: str
    items: tuple[CompactionItem, ...]
    retained: int | None  # none while that is looked up
    lost: int
    note: str = ""


def group_compaction_items(
    report: CompactionReport | None,
    retained_and_lost: RetainedAndLost | None,
    steering: Sequence[SteeringOutcome],
) -> list[CompactionItemGroup]:
    """Group what was in the context before a compaction by kind; lost items come first."""
    groups = []
    if steering:
        items = tuple(CompactionItem(one_line(item.text), None, item.kept) for item in steering)
        lost = sum(item.kept is False for item in steering)
        note = compaction_text.steering_cost_text(steering)
        groups.append(CompactionItemGroup("asked to keep", items, len(items) - lost, lost, note))
    if retained_and_lost is not None:
        for name in _GROUP_NAMES:
            kept, gone = (
                _artifacts_named(half, name)
                for half in (retained_and_lost.retained, retained_and_lost.lost)
            )
            items = (*_items(gone, kept=False), *_items(kept, kept=True))
            groups.append(CompactionItemGroup(name, items, len(kept), len(gone)))
    elif report is not None:
        for kind, count in lost_counts(report.forgotten).items():
            items = tuple(_items(_artifacts_named(report.forgotten, f"{kind}s"), kept=False))
            groups.append(CompactionItemGroup(f"{kind}s", items, None, count))
    return [group for group in groups if group.items]


def is_content_known(
    report: CompactionReport | None, retained_and_lost: RetainedAndLost | None
) -> bool:
    """Return whether the transcript has what was in the context before the compaction."""
    return all(each is None or each.is_known for each in (report, retained_and_lost))


_GROUP_NAMES: Final = ("rules", "decisions", "todos", "files", "names")


def _artifacts_named(found: Artifacts, name: str) -> list[tuple[str, int, str]]:
    if name == "files":
        return [(use.path, use.line, compaction_text.file_use_text(use)) for use in found.files]
    artifacts: dict[str, Sequence[UsedName | Todo | Quote]] = {
        "names": found.names,
        "todos": found.todos,
        "rules": found.constraints,
        "decisions": found.decisions,
    }
    return [(each.text, each.line, "") for each in artifacts[name]]


def _items(named: Sequence[tuple[str, int, str]], *, kept: bool) -> Iterator[CompactionItem]:
    for text, line, how in named[:MAX_ITEMS_LISTED]:
        yield CompactionItem(one_line(text), line, kept, how)


def retained_and_lost_listing(
    groups: Sequence[CompactionItemGroup], width: int, empty: str, *folders: str | None
) -> Listing:
    """List the items; paths are written relative to the first of the folders they are in."""
    rows = []
    for group in groups:
        kept = "" if group.retained is None else f", {group.retained:,} kept"
        counts = quiet(f"  {group.lost:,} lost{kept}{group.note}")
        rows.append(Row(group.name, heading(group.name) + counts))
        for place, item in enumerate(group.items):
            key = f"{group.name} {place} {item.text}"
            text = relative_path(item.text, *folders) if group.name == "files" else item.text
            rows.append(Row(key, _item_line(item, text, width), item))
    head = quiet("✗ lost: neither in the summary nor in what was kept   ✓ kept")
    return Listing(tuple(rows), head, empty)


def _item_line(item: CompactionItem, text: str, width: int) -> Content:
    sign = ("·", "$quiet")
    if item.is_retained is not None:
        sign = RETAINED_SIGN if item.is_retained else LOST_SIGN
    line = fit_right("" if item.line is None else f"line {item.line}", LINE_CELLS)
    how = f" ({item.how})" if item.how else ""
    room = max(1, width - 4 - len(line))
    shown = fit_left(
        shorten(text, max(compaction_text.MIN_PATH_CELLS, room - len(how))) + how, room
    )
    return Content.assemble(
        (f"  {sign[0]} ", sign[1]),
        (shown, "$quiet" if item.is_retained else "$foreground"),
        (line, "$quiet"),
    )


def _size_bars(row: CompactionRow, window: int, width: int) -> Content:
    # Messages alone are no share of the window.
    after = row.estimated_next_tokens if row.next_tokens is None else row.next_tokens
    sizes = (
        ("before", row.pre_tokens, "$level-high", formats.tokens_before(row)),
        ("after", after, "$level-calm", formats.tokens_after(row)),
    )
    numbers = [
        f"{text}  {formats.percent(None if size is None else size / window)}"
        for _, size, _, text in sizes
    ]
    number_cells = max(BAR_NUMBER_CELLS, *map(len, numbers))
    cells = max(1, width - BAR_LABEL_CELLS - number_cells)
    lines = []
    for (label, size, style, _), number in zip(sizes, numbers, strict=True):
        ratio = None if size is None else size / window
        line = Content.assemble(
            (fit_left(label, BAR_LABEL_CELLS), "$quiet"),
            *bar_with_track(ratio, cells, style),
            (fit_right(number, number_cells), "bold"),
        )
        lines.append(line)
    return join_lines(*lines)


def _compaction_header(compaction: ReportedCompaction, now_ms: int) -> Content:
    row, report = compaction.row, compaction.report
    lines = [heading(compaction_headline(compaction)) + quiet(f"  {_age_text(row, now_ms)}")]
    if report and report.is_known:
        kept = compaction_text.kept_text(report.kept, report.forgotten.counts)
        lines += [quiet(f"kept {kept}")] if kept else []
    thrash = report.thrash if report else None
    if thrash:
        turns = plural(thrash.turns_since_last, "turn")
        refilled = compaction_text.refill_text(thrash.culprit)
        text = f"⚠ too soon: {turns} after the last one{refilled}"
        lines.append(Content.styled(text, "$level-high"))
    if report and report.cleared_results:
        results = plural(report.cleared_results, "tool result")
        lines.append(quiet(f"{results} had been cleared before it, silently"))
    return join_lines(*lines)


TRANSCRIPT_GONE: Final = "no longer in the transcript: what was kept is unknown"
NO_SUMMARY: Final = "No summary follows it in the transcript."
READING_RETAINED: Final = "reading what was kept …"
NOTHING_LOST: Final = "There were no files, names, rules or decisions before it."
REPORT_PENDING: Final = "finding what was lost …"
