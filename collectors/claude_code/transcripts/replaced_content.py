"""What a summary replaced, what a compaction lost, and which results the client cleared."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from msgspec.structs import replace

from ....core.compaction.plan import MAX_TRANSCRIPT_BYTES
from ....core.measure.compaction_report import (
    ClearedMessage,
    RetainedAndLost,
    find_retained_and_lost,
)
from ....core.store.queries import context_queries
from ....core.store.queries.context_queries import find_transcript
from ....core.store.queries.query_rows import CompactionRow, SummaryRow
from ....core.summaries.summary_comparison import (
    ReplacedContent,
    compare_agent_result,
    compare_boundary_summary,
    compare_plan_summary,
)
from ....core.summaries.summary_search import PLAN_KIND, PlanSummary
from ....core.transcript.conversation import (
    CLEARED_RESULT_TEXT,
    Entry,
    PartKind,
    replaced_result_ids,
    without_sidechains,
)
from ....core.transcript.entry_decoder import decode_parts, iter_entries, iter_lines
from ....core.transcript.line_decoder import (
    NotJsonError,
    RawMessage,
    UnexpectedShapeError,
    decode_blocks,
    decode_line,
)
from ....core.transcript.raw_lines import LINE_PADDING
from ....core.transcript.sanitize import sanitize_text

if TYPE_CHECKING:
    import sqlite3


PROGRESS_LINES: Final = 2_000  # lines after which is told how far the reading has come
BOUNDARY_KIND: Final = "boundary"


class NotReadableError(Exception):
    """Nothing can be said of what a summary stands for; the message says why."""


def read_replaced(
    db: sqlite3.Connection,
    projects: Path,
    row: SummaryRow,
    plans: Sequence[PlanSummary],
    report_progress: Callable[[str], None] = lambda _: None,
) -> ReplacedContent:
    """Read what a summary stands for from its transcript, and report how far the reading is.

    Raises NotReadableError where there is no transcript, or none that can be read.
    """
    if row.kind == PLAN_KIND:
        found = _replaced_by_plan(row, plans, report_progress)
    elif row.kind == BOUNDARY_KIND:
        found = _replaced_by_boundary(db, projects, row, report_progress)
    else:
        found = _replaced_by_result(db, projects, row, report_progress)
    return _sanitized(found)


def _replaced_by_plan(
    row: SummaryRow, plans: Sequence[PlanSummary], report_progress: Callable[[str], None]
) -> ReplacedContent:
    from pathlib import Path

    if row.summary_id > 0:
        raise NotReadableError("a plan that was made in plan mode replaces nothing: it is new")
    plan = next((each for each in plans if each.row.summary_id == row.summary_id), None)
    if plan is None:
        raise NotReadableError("its receipt is gone: nothing says what it was made of")
    entries = _read_entries(Path(plan.transcript), report_progress, plan.base_bytes)
    report_progress("looking for what the text keeps …")
    return compare_plan_summary([*without_sidechains(entries)], plan.kept_uuids, row.text)


def _replaced_by_boundary(
    db: sqlite3.Connection, projects: Path, row: SummaryRow, report_progress: Callable[[str], None]
) -> ReplacedContent:
    place = context_queries.summary_location(db, row.summary_id)
    if place is None:
        raise NotReadableError("the store does not have it any more")
    path, kind, offset = place
    entries = _read_entries(projects / path, report_progress, offset)
    report_progress("looking for what the summary keeps …")
    own = [*without_sidechains(entries)] if kind == "session" else entries
    found = compare_boundary_summary(own, offset, row.text)
    if found is None:
        raise NotReadableError("no boundary stands before it in its transcript")
    return found


def _replaced_by_result(
    db: sqlite3.Connection, projects: Path, row: SummaryRow, report_progress: Callable[[str], None]
) -> ReplacedContent:
    place = context_queries.find_transcript(db, row.session_id, row.agent_id)
    if row.agent_id is None or place is None:
        raise NotReadableError("this agent has no transcript of its own: nothing says what it read")
    entries = _read_entries(projects / place[1], report_progress)
    report_progress("looking for what the result keeps …")
    return compare_agent_result(entries, row.text)


def _read_entries(
    path: Path, report_progress: Callable[[str], None], until: int | None = None
) -> list[Entry]:
    try:
        size = path.stat().st_size
        if size > MAX_TRANSCRIPT_BYTES:
            raise NotReadableError(
                f"{path} has {size / 1e6:,.0f} MB: more than is looked through for this"
            )
        entries = []
        for number, entry in enumerate(iter_entries(path)):
            if until is not None and entry.offset >= until:
                break
            entries.append(entry)
            if number % PROGRESS_LINES == 0:
                report_progress(f"reading its transcript: {entry.offset / (size or 1):.0%}")
    except OSError as error:
        why = error.strerror or error
        raise NotReadableError(f"{path} cannot be read: {why}") from error
    return entries


def _sanitized(found: ReplacedContent) -> ReplacedContent:
    """Strip terminal control characters from every text."""
    turns = tuple(
        turn
        if (text := sanitize_text(turn.text)) == turn.text
        # Its passages are places of the text as it was.
        else replace(turn, text=text, quoted=())
        for turn in found.turns
    )
    things = tuple(replace(thing, text=sanitize_text(thing.text)) for thing in found.things)
    changed: dict[str, Any] = {"turns": turns, "things": things}
    last = found.last_words
    return replace(found, last_words=last and sanitize_text(last), **changed)


_BLOB_START: Final = b'{"type":"api-request-blob"'
_CLEARED_BYTES: Final = CLEARED_RESULT_TEXT.encode()


def read_cleared_messages(path: Path) -> list[ClearedMessage]:
    """Find the messages of requests whose tool results were cleared, in the file's order.

    Client 2.1.329 writes a message that was changed for a request as `api-request-blob`.
    Raises OSError where the file cannot be read.
    """
    found = []
    for offset, _, data in iter_lines(path):
        text = data.strip(LINE_PADDING + b"\n")
        if not text.startswith(_BLOB_START) or _CLEARED_BYTES not in text:
            continue
        try:
            message = decode_line(text).message or RawMessage()
            parts = decode_parts(decode_blocks(message.content), PartKind.META, {})
        except (NotJsonError, UnexpectedShapeError):
            continue
        cleared = replaced_result_ids(parts)
        if cleared:
            found.append(ClearedMessage(offset, tuple(sorted(cleared))))
    return found


def read_retained_and_lost(
    db: sqlite3.Connection, projects: Path, row: CompactionRow
) -> RetainedAndLost | None:
    """Divide what stood before a compaction; None where the transcript holds it no more.

    Raises OSError where the transcript cannot be read.
    """
    found = find_transcript(db, row.session_id, row.agent_id)
    if found is None:
        return None
    entries = iter_entries(projects / found[1])
    own = entries if row.agent_id is not None else without_sidechains(entries)
    return find_retained_and_lost(own, row.uuid)
