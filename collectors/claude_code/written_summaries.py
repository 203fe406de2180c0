"""The summaries and handoffs that ctxtop wrote, read from the receipts that hold them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

from ...core.compaction.plan import Operation, Severity
from ...core.compaction.receipts import CompactionReceipt, ReceiptStore
from ...core.compaction.rewritten_lines import decode_appended_lines
from ...core.measure.tokens import estimate_tokens
from ...core.store.queries.query_rows import SummaryRow
from ...core.summaries.summary_search import PLAN_KIND, PlanSummary
from ...core.transcript.line_decoder import decode_string
from ...core.transcript.sanitize import sanitize_text, sanitize_title

MAX_OPERATIONS: Final = 1 << 16
"""Numbers of ids that one receipt may use: no plan with a summary has more than a few."""


class PlanSummaryReader:
    """Reads each receipt once, and again only when it has changed; it belongs to one thread."""

    def __init__(self, state: Path) -> None:
        """Look into `state`, the folder of copies, receipts and locks."""
        self._receipts: Final = ReceiptStore(state)
        self._stamp: tuple[tuple[str, int, int], ...] | None = None
        self._found: tuple[PlanSummary, ...] = ()

    def read(self) -> tuple[PlanSummary, ...]:
        """List the texts, newest first; a receipt that cannot be read is left out."""
        mark = self._stamp_receipts()
        if mark != self._stamp:
            self._found = tuple(_plan_summaries(self._receipts.all())) if mark else ()
            self._stamp = mark
        return self._found

    def _stamp_receipts(self) -> tuple[tuple[str, int, int], ...]:
        try:
            found = [(path.name, path.lstat()) for path in self._receipts.folder.glob("*.json")]
        except OSError:
            return ()
        return tuple(sorted((name, stat.st_mtime_ns, stat.st_size) for name, stat in found))


def _plan_summaries(receipts: list[CompactionReceipt]) -> Iterator[PlanSummary]:
    for receipt in receipts:
        if receipt.now is None:
            # Nothing came about yet.
            continue
        try:
            own = int(receipt.receipt_id, 16) * MAX_OPERATIONS
        except ValueError:
            continue
        for number, operation in enumerate(receipt.plan.operations[:MAX_OPERATIONS]):
            said = _summary_text(operation)
            if said is not None:
                yield _to_plan_summary(receipt, number, said, -(own + number + 1))


def _to_plan_summary(
    receipt: CompactionReceipt, number: int, said: tuple[str, str], summary_id: int
) -> PlanSummary:
    uuid, raw = said
    text = sanitize_text(raw)
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
        kept_uuids=_kept_uuids(operation),
        description=sanitize_title(operation.what),
    )


def _summary_text(operation: Operation) -> tuple[str, str] | None:
    """Find the text that stands in the place of what was said, and its line's uuid."""
    for line in decode_appended_lines(operation):
        is_hand_off = operation.level is Severity.CUT and line.forked_from is not None
        if line.type != "user" or not (line.is_compact_summary or is_hand_off):
            continue
        if line.message and (text := decode_string(line.message.content)):
            return line.uuid or "", text
    return None


def _kept_uuids(operation: Operation) -> tuple[str, ...]:
    """Name the messages that its boundary keeps, by uuid."""
    for line in decode_appended_lines(operation):
        kept = line.compact_metadata.preserved_messages if line.compact_metadata else None
        if kept and kept.uuids is not None:
            return kept.uuids
    return ()
