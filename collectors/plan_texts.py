"""The summaries and hand-offs that ctxtop wrote, out of the receipts that hold them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec

from ..core.compaction.plan import Append, Harm
from ..core.compaction.receipts import Receipts
from ..core.store.rows import SummaryRow
from ..core.summary_list import PLAN, PlanText
from ..core.tokens import estimate_tokens
from .clean import clean_text, clean_title

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from ..core.compaction.plan import Operation
    from ..core.compaction.receipts import Receipt

OPERATIONS: Final = 1 << 16
"""Numbers of ids that one receipt may use: no plan with a summary has more than a few."""

_line: Final = msgspec.json.Decoder(dict[str, Any])


class PlanTexts:
    """Reads each receipt once, and again only when it has changed; it belongs to one thread."""

    def __init__(self, state: Path) -> None:
        """Look into `state`, the folder of copies, receipts and locks."""
        self._receipts: Final = Receipts(state)
        self._stamp: tuple[tuple[str, int, int], ...] | None = None
        self._found: tuple[PlanText, ...] = ()

    def read(self) -> tuple[PlanText, ...]:
        """List the texts, newest first; a receipt that cannot be read is left out."""
        mark = self._stamp_receipts()
        if mark != self._stamp:
            self._found = tuple(_texts_of(self._receipts.all())) if mark else ()
            self._stamp = mark
        return self._found

    def _stamp_receipts(self) -> tuple[tuple[str, int, int], ...]:
        try:
            found = [(path.name, path.lstat()) for path in self._receipts.folder.glob("*.json")]
        except OSError:
            return ()
        return tuple(sorted((name, stat.st_mtime_ns, stat.st_size) for name, stat in found))


def _texts_of(receipts: list[Receipt]) -> Iterator[PlanText]:
    for receipt in receipts:
        if receipt.now is None:
            # Nothing came about yet.
            continue
        try:
            own = int(receipt.receipt_id, 16) * OPERATIONS
        except ValueError:
            continue
        for number, operation in enumerate(receipt.plan.operations[:OPERATIONS]):
            said = _said(operation)
            if said is not None:
                yield _plan_text(receipt, number, said, -(own + number + 1))


def _plan_text(receipt: Receipt, number: int, said: tuple[str, str], summary_id: int) -> PlanText:
    uuid, raw = said
    text = clean_text(raw)
    operation = receipt.plan.operations[number]
    row = SummaryRow(
        summary_id=summary_id,
        kind=PLAN,
        session_id=receipt.new_session_id or receipt.session_id,
        agent_id=None,
        agent_type=None,
        description=operation.strategy,
        at=receipt.at,
        lines=text.count("\n") + 1,
        estimated_tokens=estimate_tokens(text),
        text=text,
    )
    return PlanText(
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
        kept_uuids=_stays(operation),
        description=clean_title(operation.what),
    )


def _said(operation: Operation) -> tuple[str, str] | None:
    """Find the text that stands in the place of what was said, and its line's uuid."""
    for line in _appended(operation):
        is_hand_off = operation.level is Harm.CUT and "forkedFrom" in line
        if line.get("type") != "user" or not (line.get("isCompactSummary") or is_hand_off):
            continue
        message = line.get("message")
        content = message.get("content") if isinstance(message, dict) else None
        if isinstance(content, str) and content:
            return str(line.get("uuid") or ""), content
    return None


def _stays(operation: Operation) -> tuple[str, ...]:
    """Name the messages that its boundary keeps, by uuid."""
    for line in _appended(operation):
        try:
            return tuple(line["compactMetadata"]["preservedMessages"]["uuids"])
        except (KeyError, TypeError):
            continue
    return ()


def _appended(operation: Operation) -> Iterator[dict[str, Any]]:
    for edit in operation.edits:
        if isinstance(edit, Append):
            try:
                yield _line.decode(edit.text)
            except msgspec.DecodeError:
                continue
