"""A session's compactions as rows, and what one of them retained and lost."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from textual.content import Content

from ....core.measure import compaction_report
from ....core.measure.compaction_report import (
    CompactionReport,
    RetainedAndLost,
    SteeringOutcome,
)
from ....core.store.queries.query_rows import CompactionRow
from ....core.summaries.artifacts import Artifacts, FileUse
from ....core.transcript.sanitize import one_line
from ...text.compaction_text import (
    CONTENT_UNKNOWN,
    compaction_report_lines,
    file_use_text,
    lost_counts,
    refill_text,
    steering_cost_text,
    steering_lines,
    tokens_left,
)
from ...text.formats import (
    NOTHING,
    duration,
    fit_left,
    fit_right,
    half_cell_bar,
    percent,
    plural,
    shorten_middle,
    tokens,
)
from ...text.text_lines import heading, join_lines, quiet
from ...widgets.row_list import Listing, Row
from ...widgets.timeline_picture import COMPACTION_SIGN

if TYPE_CHECKING:
    from .session_details import SessionDetails


WHEN_CELLS: Final = 11
TRIGGER_CELLS: Final = 7
SIZES_CELLS: Final = 18
MIN_LOST_CELLS: Final = 10  # cells; where there are fewer, who asked for it is left out
_DETAIL_LABEL_CELLS: Final = 14

NO_COMPACTIONS: Final = (
    "Not compacted yet. What a compaction keeps and forgets will stand here; c makes the"
    " session smaller before the client does."
)


def compactions_listing(known: SessionDetails, width: int, now_ms: int) -> Listing:
    """List the compactions, the newest first."""
    rows = tuple(
        Row(row.uuid, _compaction_line(row, told, width, now_ms)) for row, told in known.compactions
    )
    count = plural(len(rows), "compaction")
    return Listing(
        rows, quiet(f"{count}; ⏎ shows what was kept and what was forgotten"), NO_COMPACTIONS
    )


def find_compaction(
    known: SessionDetails, key: str
) -> tuple[CompactionRow, CompactionReport | None] | None:
    return next((pair for pair in known.compactions if pair[0].uuid == key), None)


def find_steering(known: SessionDetails, key: str) -> tuple[SteeringOutcome, ...]:
    """Return what a compaction was asked to keep, empty if nothing is known."""
    asked = known.steering or ((),) * len(known.compactions)
    pairs = zip(known.compactions, asked, strict=True)
    return next((items for (row, _), items in pairs if row.uuid == key), ())


def compaction_detail(known: SessionDetails, key: str, width: int, now_ms: int) -> Content:
    """Describe a compaction: its sizes, what it lost, whether it came too soon, its summary."""
    found = find_compaction(known, key)
    if found is None:
        return Content("")
    row, told = found
    parts = [heading(f"{COMPACTION_SIGN} {compaction_headline(row)}"), quiet(age_text(row, now_ms))]
    parts.append(Content(""))
    room = max(1, width - _DETAIL_LABEL_CELLS)
    told_of = [
        *steering_lines(find_steering(known, key)),
        *(compaction_report_lines(told, room) if told else ()),
    ]
    parts += [
        Content.assemble(
            (fit_left(label, _DETAIL_LABEL_CELLS), "$quiet"), shorten_middle(text, room)
        )
        for label, text in told_of
    ]
    if told is None:
        parts.append(quiet("what it forgot is being worked out …"))
    elif not told_of:
        parts.append(quiet(nothing_lost_text(told)))
    if row.summary:
        parts += [Content(""), heading("The summary"), Content(row.summary)]
    return join_lines(*parts)


def compaction_headline(row: CompactionRow) -> str:
    """Return the trigger, the sizes, the messages kept and the duration in one line."""
    kept = f", {plural(row.kept_messages, 'message')} kept" if row.kept_messages else ""
    took = f", took {duration(row.duration_ms)}" if row.duration_ms else ""
    return f"{row.trigger or 'unknown trigger'}: {sizes_text(row)}{kept}{took}"


def sizes_text(row: CompactionRow) -> str:
    """Write before and after; the second is an estimate until the next answer."""
    return f"{tokens(row.pre_tokens)} → {tokens_left(row)}"


def age_text(row: CompactionRow, now_ms: int) -> str:
    return NOTHING if row.at is None else f"{duration(now_ms - row.at)} ago"


def lost_counts_text(report: CompactionReport | None) -> str:
    if report is None:
        return "being worked out …"
    if not report.is_known:
        return "unknown: the file begins here"
    counts = lost_counts(report.forgotten)
    said = ", ".join(plural(count, what) for what, count in counts.items() if count)
    return f"forgot {said}" if said else "forgot nothing that was looked for"


def nothing_lost_text(report: CompactionReport | None) -> str:
    """Return why nothing is listed as forgotten."""
    if report is not None and not report.is_known:
        return CONTENT_UNKNOWN
    return "nothing that was looked for was forgotten"


def _compaction_line(
    row: CompactionRow, told: CompactionReport | None, width: int, now_ms: int
) -> Content:
    too_soon = compaction_report.find_thrash(told.refill) if told else None
    sign = " ⚠ too soon" if too_soon else ""
    fixed, named = 2 + SIZES_CELLS + WHEN_CELLS, TRIGGER_CELLS
    if width - fixed - named - len(sign) < MIN_LOST_CELLS:
        sign, named = "", 0
    room = max(0, width - fixed - named - len(sign))
    forgot = lost_counts_text(told)
    if told and told.is_known and len(forgot) > room:
        forgot = f"forgot {plural(sum(lost_counts(told.forgotten).values()), 'thing')}"
    return Content.assemble(
        (f"{COMPACTION_SIGN} ", "$accent"),
        (fit_left(one_line(row.trigger or "?"), named), "$quiet"),
        (fit_left(sizes_text(row), SIZES_CELLS), "$foreground"),
        (fit_left(forgot, room), "$level-notice"),
        (sign, "$level-high"),
        (fit_right(age_text(row, now_ms), WHEN_CELLS), "$quiet"),
    )


MAX_ITEMS_LISTED: Final = 200  # of each kind and half: more than a person looks through
LINE_CELLS: Final = 11
BAR_LABEL_CELLS: Final = 8
BAR_NUMBER_CELLS: Final = 18

RETAINED_SIGN: Final = ("✓", "$level-calm")
LOST_SIGN: Final = ("✗", "$level-emergency")


@dataclass(frozen=True, slots=True)
class CompactionItem:
    """Something that stood before the compaction."""

    text: str
    line: int | None
    is_retained: bool | None  # none where that is not told


@dataclass(frozen=True, slots=True)
class CompactionItemGroup:
    """Things of one kind, and how many of them there are in all."""

    name: str
    items: tuple[CompactionItem, ...]
    retained: int | None  # none while what was kept is looked up
    lost: int
    note: str = ""


def group_compaction_items(
    report: CompactionReport | None,
    retained_and_lost: RetainedAndLost | None,
    steering: Sequence[SteeringOutcome],
) -> list[CompactionItemGroup]:
    """Sort what stood before a compaction by kind, what was forgotten first."""
    found = []
    if steering:
        things = tuple(CompactionItem(one_line(item.text), None, item.kept) for item in steering)
        lost = sum(1 for item in steering if item.kept is False)
        kept = len(steering) - lost
        found.append(
            CompactionItemGroup("asked to keep", things, kept, lost, steering_cost_text(steering))
        )
    if retained_and_lost is not None:
        found += [
            CompactionItemGroup(
                name,
                (
                    *_items(_artifacts_named(retained_and_lost.lost, name), kept=False),
                    *_items(_artifacts_named(retained_and_lost.retained, name)),
                ),
                len(_artifacts_named(retained_and_lost.retained, name)),
                len(_artifacts_named(retained_and_lost.lost, name)),
            )
            for name in _GROUP_NAMES
        ]
    elif report is not None:
        lost_of = report.forgotten
        found += [
            CompactionItemGroup(
                f"{kind}s",
                tuple(_items(_artifacts_named(lost_of, f"{kind}s"), kept=False)),
                None,
                count,
            )
            for kind, count in lost_counts(lost_of).items()
        ]
    return [kind for kind in found if kind.items]


def is_content_known(
    report: CompactionReport | None, retained_and_lost: RetainedAndLost | None
) -> bool:
    """Return whether the transcript holds what stood before the compaction."""
    return all(each is None or each.is_known for each in (report, retained_and_lost))


_GROUP_NAMES: Final = ("rules", "decisions", "todos", "files", "names")


def _artifacts_named(found: Artifacts, name: str) -> list[tuple[str, int]]:
    if name == "files":
        return [(_file_text(use), use.line) for use in found.files]
    if name == "names":
        return [(each.text, each.line) for each in found.names]
    if name == "todos":
        return [(each.text, each.line) for each in found.todos]
    quotes = found.constraints if name == "rules" else found.decisions
    return [(each.text, each.line) for each in quotes]


def _items(named: Iterable[tuple[str, int]], *, kept: bool = True) -> Iterator[CompactionItem]:
    for text, line in list(named)[:MAX_ITEMS_LISTED]:
        yield CompactionItem(one_line(text), line, kept)


def _file_text(use: FileUse) -> str:
    said = file_use_text(use)
    return f"{use.path} ({said})" if said else use.path


def retained_and_lost_listing(
    kinds: Sequence[CompactionItemGroup], width: int, empty: str
) -> Listing:
    rows: list[Row] = []
    for kind in kinds:
        rows.append(Row(kind.name, _group_line(kind)))
        rows += [
            Row(f"{kind.name} {place} {thing.text}", _item_line(thing, width))
            for place, thing in enumerate(kind.items)
        ]
    head = quiet("✗ forgotten: neither in the summary nor in what was kept   ✓ kept")
    return Listing(tuple(rows), head, empty)


def find_compaction_item(kinds: Sequence[CompactionItemGroup], key: str) -> CompactionItem | None:
    for kind in kinds:
        for place, thing in enumerate(kind.items):
            if f"{kind.name} {place} {thing.text}" == key:
                return thing
    return None


def size_bars(row: CompactionRow, window: int, width: int) -> Content:
    """Draw the context before and after, against the window."""
    room = max(1, width - BAR_LABEL_CELLS - BAR_NUMBER_CELLS)
    return join_lines(
        _size_bar("before", row.pre_tokens, "", window, room, "$level-high"),
        _after_bar(row, window, room),
    )


def compaction_header(row: CompactionRow, report: CompactionReport | None, now_ms: int) -> Content:
    """Return the headline and the age, with a warning if the compaction came too soon."""
    parts = [heading(compaction_headline(row)), quiet(f"  {age_text(row, now_ms)}")]
    said = Content("").join(parts)
    more: list[Content] = []
    found = compaction_report.find_thrash(report.refill) if report else None
    if found:
        turns = plural(found.turns_since_last, "turn")
        words = f"⚠ too soon: {turns} after the last one{refill_text(found.culprit)}"
        more.append(Content.styled(words, "$level-high"))
    if report and report.cleared_results:
        results = plural(report.cleared_results, "tool result")
        more.append(quiet(f"{results} had been cleared before it, silently"))
    return join_lines(said, *more)


def _after_bar(row: CompactionRow, window: int, room: int) -> Content:
    if row.next_tokens is not None:
        return _size_bar("after", row.next_tokens, "", window, room, "$level-calm")
    estimate = row.post_tokens if row.estimated_next_tokens is None else row.estimated_next_tokens
    return _size_bar("after", estimate, "≈", window, room, "$level-calm")


def _size_bar(
    label: str, size: int | None, sign: str, window: int, room: int, style: str
) -> Content:
    ratio = None if size is None else size / window
    drawn = half_cell_bar(ratio, room)
    number = f"{sign}{tokens(size)}  {percent(ratio)}"
    return Content.assemble(
        (fit_left(label, BAR_LABEL_CELLS), "$quiet"),
        (drawn, style),
        ("▁" * (room - len(drawn)), "$bar-track"),
        (fit_right(number, BAR_NUMBER_CELLS), "bold"),
    )


def _group_line(kind: CompactionItemGroup) -> Content:
    kept = "" if kind.retained is None else f", {kind.retained:,} kept"
    return heading(kind.name) + quiet(f"  {kind.lost:,} forgotten{kept}{kind.note}")


def _item_line(thing: CompactionItem, width: int) -> Content:
    sign, style = (
        ("·", "$quiet")
        if thing.is_retained is None
        else RETAINED_SIGN
        if thing.is_retained
        else LOST_SIGN
    )
    line = fit_right("" if thing.line is None else f"line {thing.line}", LINE_CELLS)
    room = max(1, width - 4 - len(line))
    return Content.assemble(
        (f"  {sign} ", style),
        (
            fit_left(shorten_middle(thing.text, room), room),
            "$quiet" if thing.is_retained else "$foreground",
        ),
        (line, "$quiet"),
    )
