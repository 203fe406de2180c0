"""Summaries that ctxtop wrote, what a summary replaced, and which results the client cleared."""

import sqlite3
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from msgspec.structs import replace

from ....core.compaction.plan import MAX_TRANSCRIPT_BYTES, Operation, Severity
from ....core.compaction.receipts import CompactionReceipt, ReceiptStore
from ....core.compaction.rewritten_lines import decode_appended_lines
from ....core.files.transcript_file import transcript_size
from ....core.measure.tokens import estimate_tokens
from ....core.model.conversation import (
    CLEARED_RESULT_TEXT,
    Entry,
    PartKind,
    replaced_result_ids,
    without_sidechains,
)
from ....core.model.stored_rows import CompactionRow, SummaryRow
from ....core.store.queries import context_queries
from ....core.summaries import compaction_report, summary_comparison
from ....core.summaries.summary_comparison import ReplacedContent
from ....core.summaries.summary_search import PLAN_KIND, PlanSummary
from ....core.transcript import lenient_json, line_decoder
from ....core.transcript.entry_decoder import decode_parts, iter_entries, iter_lines
from ....core.transcript.raw_lines import LINE_PADDING
from ....core.transcript.sanitize import sanitize_text, sanitize_title

PROGRESS_LINES: Final = 2_000  # lines between two reports of how much is read

ReportProgress = Callable[[str], None]


class NotReadableError(Exception): ...


def read_replaced(
    db: sqlite3.Connection,
    projects: Path,
    row: SummaryRow,
    plans: Sequence[PlanSummary],
    report_progress: ReportProgress = lambda _: None,
) -> ReplacedContent:
    """Read what a summary replaced from its transcript; raises NotReadableError."""
    if row.kind == PLAN_KIND:
        replaced = _replaced_by_plan(row, plans, report_progress)
    elif row.kind == "boundary":
        replaced = _replaced_by_boundary(db, projects, row, report_progress)
    else:
        place = context_queries.find_transcript(db, row.session_id, row.agent_id)
        if row.agent_id is None or place is None:
            raise NotReadableError("this agent has no transcript, so what it read is not recorded")
        entries = _read_entries(projects / place[1], report_progress)
        report_progress("checking what the result keeps …")
        replaced = summary_comparison.compare_agent_result(entries, row.text)
    return _sanitized(replaced)


def _replaced_by_plan(
    row: SummaryRow, plans: Sequence[PlanSummary], report_progress: ReportProgress
) -> ReplacedContent:
    if row.summary_id > 0:
        raise NotReadableError("a plan made in plan mode does not replace anything")
    plan = next((each for each in plans if each.row.summary_id == row.summary_id), None)
    if plan is None:
        raise NotReadableError("its receipt is gone, so its source is not recorded")
    entries = _read_entries(Path(plan.transcript), report_progress, plan.base_bytes)
    report_progress("checking what the text keeps …")
    own = [*without_sidechains(entries)]
    return summary_comparison.compare_plan_summary(own, plan.kept_uuids, row.text)


def _replaced_by_boundary(
    db: sqlite3.Connection, projects: Path, row: SummaryRow, report_progress: ReportProgress
) -> ReplacedContent:
    place = context_queries.summary_location(db, row.summary_id)
    if place is None:
        raise NotReadableError("it is no longer in the store")
    path, kind, offset = place
    entries = _read_entries(projects / path, report_progress, offset)
    report_progress("checking what the summary keeps …")
    own = [*without_sidechains(entries)] if kind == "session" else entries
    replaced = summary_comparison.compare_boundary_summary(own, offset, row.text)
    if replaced is None:
        raise NotReadableError("its transcript has no compaction before it")
    return replaced


def _read_entries(
    path: Path, report_progress: ReportProgress, until: int | None = None
) -> list[Entry]:
    try:
        size = transcript_size(path)
        if size > MAX_TRANSCRIPT_BYTES:
            raise NotReadableError(f"{path} is {size / 1e6:,.0f} MB: too large to search")
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


def _sanitized(replaced: ReplacedContent) -> ReplacedContent:
    turns = tuple(
        turn
        if (text := sanitize_text(turn.text)) == turn.text
        # Quoted passages are positions in the original text.
        else replace(turn, text=text, quoted=())
        for turn in replaced.turns
    )
    things = tuple(replace(thing, text=sanitize_text(thing.text)) for thing in replaced.things)
    changed: dict[str, Any] = {"turns": turns, "things": things}
    last = replaced.last_words
    return replace(replaced, last_words=last and sanitize_text(last), **changed)


_BLOB_START: Final = b'{"type":"api-request-blob"'
_CLEARED_BYTES: Final = CLEARED_RESULT_TEXT.encode()


def read_cleared_messages(path: Path) -> list[compaction_report.ClearedMessage]:
    """List the messages of requests whose tool results were cleared, in the file's order.

    Client 2.1.329 writes a message that it changed for a request as `api-request-blob`.
    Raises OSError if the file cannot be read.
    """
    found = []
    for offset, _, data in iter_lines(path):
        text = data.strip(LINE_PADDING + b"\n")
        if not text.startswith(_BLOB_START) or _CLEARED_BYTES not in text:
            continue
        try:
            message = line_decoder.decode_line(text).message or line_decoder.RawMessage()
            blocks = line_decoder.decode_blocks(message.content)
            cleared = replaced_result_ids(decode_parts(blocks, PartKind.META, {}))
        except (lenient_json.NotJsonError, lenient_json.UnexpectedShapeError):
            continue
        if cleared:
            found.append(compaction_report.ClearedMessage(offset, tuple(sorted(cleared))))
    return found


def read_retained_and_lost(
    db: sqlite3.Connection, projects: Path, row: CompactionRow
) -> compaction_report.RetainedAndLost | None:
    """Divide the context before a compaction, if the transcript has it; raises OSError."""
    place = context_queries.find_transcript(db, row.session_id, row.agent_id)
    if place is None:
        return None
    entries = iter_entries(projects / place[1])
    own = entries if row.agent_id is not None else without_sidechains(entries)
    return compaction_report.find_retained_and_lost(own, row.uuid)


MAX_OPERATIONS: Final = 1 << 16  # ids reserved for one receipt; plans have far fewer


class PlanSummaryReader:
    """Reads the summaries and handoffs that ctxtop wrote from receipts; used by one thread."""

    def __init__(self, state: Path) -> None:
        """Read from `state`, the folder of copies, receipts and locks."""
        self._receipts: Final = ReceiptStore(state)
        self._stamp: list[tuple[str, int, int]] = []
        self._summaries: tuple[PlanSummary, ...] = ()

    def read(self) -> tuple[PlanSummary, ...]:
        """List the texts, newest first, without receipts that cannot be read."""
        stamp = self._stamp_receipts()
        if stamp != self._stamp:
            self._summaries = tuple(_plan_summaries(self._receipts.all())) if stamp else ()
            self._stamp = stamp
        return self._summaries

    def _stamp_receipts(self) -> list[tuple[str, int, int]]:
        try:
            found = [(path.name, path.lstat()) for path in self._receipts.folder.glob("*.json")]
        except OSError:
            return []
        return sorted((name, stat.st_mtime_ns, stat.st_size) for name, stat in found)


def _plan_summaries(receipts: list[CompactionReceipt]) -> Iterator[PlanSummary]:
    for receipt in receipts:
        if receipt.now is None:
            # It was not applied.
            continue
        try:
            first_id = int(receipt.receipt_id, 16) * MAX_OPERATIONS
        except ValueError:
            continue
        for number, operation in enumerate(receipt.plan.operations[:MAX_OPERATIONS]):
            if summary := _summary_text(operation):
                yield _to_plan_summary(receipt, number, *summary, -(first_id + number + 1))


def _to_plan_summary(
    receipt: CompactionReceipt, number: int, uuid: str, text: str, summary_id: int
) -> PlanSummary:
    text = sanitize_text(text)
    operation = receipt.plan.operations[number]
    row = SummaryRow(
        summary_id=summary_id,
        kind=PLAN_KIND,
        session_id=receipt.new_session_id or receipt.session_id,
        agent_id=None,
        agent_type=None,
        description=operation.strategy,
        at=receipt.at,
        lines=text.count("\n") + 1,
        estimated_tokens=estimate_tokens(text),
        text=text,
    )
    lines = decode_appended_lines(operation)
    boundaries = (line.compact_metadata for line in lines if line.compact_metadata)
    kept = (each.preserved_messages.uuids for each in boundaries if each.preserved_messages)
    return PlanSummary(
        row=row,
        uuid=uuid,
        receipt_id=receipt.receipt_id,
        operation_number=number,
        strategy=operation.strategy,
        undone=bool(receipt.now and number in receipt.now.undone),
        transcript=receipt.transcript,
        base_bytes=receipt.plan.base_bytes,
        before_tokens=receipt.plan.before_tokens,
        after_tokens=receipt.plan.after_tokens,
        kept_uuids=next((uuids for uuids in kept if uuids is not None), ()),
        description=sanitize_title(operation.what),
        anchors=operation.summary.anchors if operation.summary else (),
    )


def _summary_text(operation: Operation) -> tuple[str, str] | None:
    """Return the uuid and the text of the line that summarizes the conversation, if any."""
    for line in decode_appended_lines(operation):
        is_handoff = operation.level is Severity.CUT and line.forked_from is not None
        if line.type != "user" or not (line.is_compact_summary or is_handoff):
            continue
        if line.message and (text := line_decoder.decode_string(line.message.content)):
            return line.uuid or "", text
    return None
