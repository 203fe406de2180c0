"""A session's compactions as rows, and what is told of the marked one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from textual.content import Content

from ..core import thrash
from .formats import NOTHING, after_tokens, age, fit, fit_right, middle, one_line, plural, tokens
from .sections import Listing, heading, lines, quiet
from .timeline_lines import CUT
from .told_lines import UNKNOWN, steered_lines, told_lines
from .widgets.row_list import Row

if TYPE_CHECKING:
    from ..core.steered import Steered
    from ..core.store.rows import CompactionRow
    from ..core.told import Told
    from .session_known import Known

WHEN_CELLS: Final = 11
TRIGGER_CELLS: Final = 7
SIZES_CELLS: Final = 18
SHORTEST_WORDS: Final = 10
"""Cells; where there are fewer, who asked for it is left out."""
_LABEL: Final = 14

NONE_YET: Final = (
    "Not compacted yet. What a compaction keeps and forgets will stand here; c makes the"
    " session smaller before the client does."
)


def compactions_listing(known: Known, width: int, now_ms: int) -> Listing:
    """List the compactions, the newest first."""
    rows = tuple(Row(row.uuid, _row(row, told, width, now_ms)) for row, told in known.compactions)
    count = plural(len(rows), "compaction")
    return Listing(rows, quiet(f"{count}; ⏎ shows what was kept and what was forgotten"), NONE_YET)


def compaction_of(known: Known, key: str) -> tuple[CompactionRow, Told | None] | None:
    """Find the compaction that a row is of."""
    return next((pair for pair in known.compactions if pair[0].uuid == key), None)


def steered_of(known: Known, key: str) -> tuple[Steered, ...]:
    """Give what a compaction was asked to keep."""
    asked = known.steering or ((),) * len(known.compactions)
    pairs = zip(known.compactions, asked, strict=True)
    return next((items for (row, _), items in pairs if row.uuid == key), ())


def compaction_detail(known: Known, key: str, width: int, now_ms: int) -> Content:
    """Tell what a compaction did, what it forgot, and whether it came too soon."""
    found = compaction_of(known, key)
    if found is None:
        return Content("")
    row, told = found
    parts = [heading(f"{CUT} {cut_words(row)}"), quiet(when_words(row, now_ms))]
    parts.append(Content(""))
    room = max(1, width - _LABEL)
    told_of = [*steered_lines(steered_of(known, key)), *(told_lines(told, room) if told else ())]
    parts += [
        Content.assemble((fit(label, _LABEL), "$quiet"), middle(text, room))
        for label, text in told_of
    ]
    if told is None:
        parts.append(quiet("what it forgot is being worked out …"))
    elif not told_of:
        parts.append(quiet(nothing_words(told)))
    if row.summary:
        parts += [Content(""), heading("The summary"), Content(row.summary)]
    return lines(*parts)


def cut_words(row: CompactionRow) -> str:
    """Say what a compaction did to the context."""
    kept = f", {plural(row.kept_messages, 'message')} kept" if row.kept_messages else ""
    took = f", took {age(row.duration_ms)}" if row.duration_ms else ""
    return f"{row.trigger or 'unknown trigger'}: {sizes_words(row)}{kept}{took}"


def sizes_words(row: CompactionRow) -> str:
    """Write before and after; the second is an estimate until the next answer."""
    after = after_tokens(row.next_tokens, row.estimated_next_tokens, row.post_tokens)
    return f"{tokens(row.pre_tokens)} → {after}"


def when_words(row: CompactionRow, now_ms: int) -> str:
    """Say how long ago it was."""
    return NOTHING if row.at is None else f"{age(now_ms - row.at)} ago"


def forgot_words(report: Told | None) -> str:
    """Count what a compaction forgot."""
    if report is None:
        return "being worked out …"
    if not report.is_known:
        return "unknown: the file begins here"
    counts = report.forgotten.counts
    named = [
        (counts.constraints, "rule"),
        (counts.decisions, "decision"),
        (counts.todos, "todo"),
        (counts.files, "file"),
        (counts.identifiers, "name"),
    ]
    said = ", ".join(plural(count, what) for count, what in named if count)
    return f"forgot {said}" if said else "forgot nothing that was looked for"


def nothing_words(report: Told | None) -> str:
    """Return why nothing is listed as forgotten."""
    if report is not None and not report.is_known:
        return UNKNOWN
    return "nothing that was looked for was forgotten"


def _lost(told: Told) -> int:
    counts = told.forgotten.counts
    said = counts.constraints + counts.decisions + counts.todos
    return said + counts.files + counts.identifiers


def _row(row: CompactionRow, told: Told | None, width: int, now_ms: int) -> Content:
    too_soon = thrash.thrash(told.refill) if told else None
    sign = " ⚠ too soon" if too_soon else ""
    fixed, named = 2 + SIZES_CELLS + WHEN_CELLS, TRIGGER_CELLS
    if width - fixed - named - len(sign) < SHORTEST_WORDS:
        sign, named = "", 0
    room = max(0, width - fixed - named - len(sign))
    forgot = forgot_words(told)
    if told and told.is_known and len(forgot) > room:
        forgot = f"forgot {plural(_lost(told), 'thing')}"
    return Content.assemble(
        (f"{CUT} ", "$accent"),
        (fit(one_line(row.trigger or "?"), named), "$quiet"),
        (fit(sizes_words(row), SIZES_CELLS), "$foreground"),
        (fit(forgot, room), "$level-notice"),
        (sign, "$level-high"),
        (fit_right(when_words(row, now_ms), WHEN_CELLS), "$quiet"),
    )
