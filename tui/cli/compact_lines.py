"""A plan for people: what would go, why, and what it costs; or one operation's words in full."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec

from ...collectors.clean import clean_text
from ...core.compaction.plan import Remove, Replace
from ...core.compaction.pointer import PointerError, value_at
from ..formats import tokens
from .columns import Cell, Column, draw, terminal_width

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ...core.compaction.plan import Operation, Plan
    from ...core.compaction.receipts import Receipt

SHOWN: Final = 20
"""Operations of a preview (compaction.md 7.2): the largest; `--explain` and `--json` show all."""

LEVELS: Final = (
    "file only",
    "lossless",
    "superseded",
    "masked",
    "inputs",
    "reasoning",
    "prose",
    "summary",
    "cut",
)

_COLUMNS: Final = (
    Column("#", right=True),
    Column("LINE", right=True),
    Column("LEVEL", rank=2),
    Column("WHAT", flexible=True),
    Column("TOKENS", right=True),
    Column("BYTES", right=True, rank=1),
    Column("WHY", flexible=True, rank=3),
)


def preview(plan: Plan) -> list[str]:
    """Draw a plan: its largest operations, the sums, and what refuses it."""
    numbered = list(enumerate(plan.operations, 1))
    largest = sorted(numbered, key=lambda each: (-each[1].tokens_saved, -each[1].bytes_saved))
    rows = [_row(number, operation) for number, operation in sorted(largest[:SHOWN])]
    lines = draw(_COLUMNS, rows, terminal_width()) if rows else []
    left = len(numbered) - len(rows)
    if left:
        lines.append(f"and {left} smaller ones; --json lists all, --explain N shows one")
    return [*lines, *_sums(plan), *_refusals(plan)]


def explain(plan: Plan, number: int, transcript: list[bytes]) -> list[str]:
    """Show one operation's words and what would stand in their place."""
    operation = plan.operations[number - 1]
    lines = [f"{number}: {operation.what}", f"why: {operation.why}"]
    for edit in operation.edits:
        if isinstance(edit, Remove):
            lines.append(f"--- line {edit.line} goes")
        elif isinstance(edit, Replace):
            lines += [f"--- line {edit.line} {edit.pointer}", *_old(transcript, edit)]
            lines += ["+++", *_text(edit.value)]
    return lines


def receipt_record(receipt: Receipt) -> dict[str, Any]:
    """Say a receipt for programs (commands.md)."""
    return {
        "receipt_id": receipt.receipt_id,
        "session_id": receipt.session_id,
        "new_session_id": receipt.new_session_id,
        "backup": receipt.backup,
        "verified": list(receipt.verified),
        "resume_command": receipt.resume_command,
    }


def receipt_lines(receipt: Receipt) -> list[str]:
    """Say a receipt for people."""
    where = f"fork {receipt.new_session_id}" if receipt.new_session_id else "in place"
    return [
        f"done, {where}; {len(receipt.verified)} checks passed; receipt {receipt.receipt_id}",
        f"go on with: {receipt.resume_command}",
    ]


def _row(number: int, operation: Operation) -> list[Cell | str]:
    return [
        str(number),
        "" if operation.line is None else str(operation.line),
        LEVELS[operation.level],
        operation.what,
        f"{operation.tokens_saved:,}",
        f"{operation.bytes_saved:,}",
        operation.why,
    ]


def _sums(plan: Plan) -> Iterator[str]:
    if plan.before_tokens:
        freed = (plan.before_tokens - plan.after_tokens) / plan.before_tokens
        sizes = f"≈ {tokens(plan.before_tokens)} → ≈ {tokens(plan.after_tokens)}"
        yield f"context  {sizes}  ({freed:.0%} freed)"
    yield f"file     {plan.bytes_before:,} → {plan.bytes_after:,} bytes"
    yield f"harm     {int(plan.harm)} {LEVELS[plan.harm]}"
    if plan.break_even_requests is not None:
        requests = f"{plan.break_even_requests:.0f} requests"
        yield f"pays     after {requests} where the prompt cache is warm, at once where it is cold"


def _refusals(plan: Plan) -> Iterator[str]:
    for each in plan.refused:
        yield f"refused  {each.check}: {each.why}; {each.what_to_do}"


def _old(transcript: list[bytes], edit: Replace) -> list[str]:
    try:
        return _text(value_at(transcript[edit.line - 1], edit.pointer).decode("utf-8", "replace"))
    except (IndexError, PointerError):
        return ["(this line is not there any more)"]


def _text(value: str) -> list[str]:
    try:
        decoded = msgspec.json.decode(value)
    except msgspec.DecodeError:
        decoded = value
    text = decoded if isinstance(decoded, str) else value
    return [clean_text(line) for line in text.split("\n")]
