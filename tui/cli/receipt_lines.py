"""Receipts for people and programs: what was done, whether it can be taken back, and how."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from ...core.compaction.receipts import Mode, State
from ...core.compaction.receipts import as_record as facts_of
from ..check_words import words_of
from ..formats import moment, percent, tokens
from ..receipt_words import MODES, STATES, standing_of, strategies_of, why_not_undoable
from .columns import Cell, Column, draw, one_line, paint, terminal_width
from .compact_lines import OPERATION, operation_cells
from .labelled import beside, labelled
from .receipts_check import checked_of
from .times import time_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from ...core.compaction.receipts import Receipt

TICK_CELLS: Final = 34
"""Of one check with its words: two of them stand beside each other in 80 columns."""

_LIST: Final = (
    Column("id"),
    Column("when", priority=1),
    Column("session"),
    Column("mode"),
    Column("what", flexible=True, priority=3),
    Column("freed", right=True),
    Column("state"),
    Column("by", priority=2),
)

_OPERATIONS: Final = (*OPERATION, Column("undone"))


def record_of(receipt: Receipt, state: Path) -> dict[str, Any]:
    """Say a receipt for programs (commands.md, `ctxtop receipts`)."""
    plan = receipt.plan
    why_not = why_not_undoable(receipt, state)
    return facts_of(receipt) | {
        "at": time_of(receipt.at),
        "transcript_path": receipt.target,
        "tokens_saved": plan.before_tokens - plan.after_tokens,
        "bytes_saved": plan.bytes_before - plan.bytes_after,
        "can_be_undone": why_not is None,
        "why_not": why_not,
    }


def whole_record_of(receipt: Receipt, state: Path) -> dict[str, Any]:
    """Say one receipt for programs, with what its operations were about.

    Whether it can be taken back is tried out.
    """
    checked = checked_of(receipt, state)
    record = record_of(receipt, state)
    record |= {"can_be_undone": checked["can_be_undone"], "why_not": checked["why"]}
    for said, each in zip(record["operations"], receipt.plan.operations, strict=True):
        said |= {
            "what": each.what,
            "why": each.why,
            "tokens_saved": each.tokens_saved,
            "bytes_saved": each.bytes_saved,
        }
    return record


def applied_record(receipt: Receipt) -> dict[str, Any]:
    """Say what `--apply` did for programs (commands.md)."""
    return {
        "receipt_id": receipt.receipt_id,
        "session_id": receipt.session_id,
        "new_session_id": receipt.new_session_id,
        "mode": receipt.mode.value,
        "backup": receipt.backup,
        "verified": list(receipt.verified),
        "resume_command": receipt.resume_command,
    }


def applied_lines(receipt: Receipt) -> list[str]:
    """Say what `--apply` did for people."""
    width = terminal_width()
    return [
        *_what_was_done(receipt, width),
        "",
        *_ticks(receipt.verified),
        "",
        *_ways_on(receipt),
    ]


def list_lines(found: Sequence[Receipt], state: Path) -> list[str]:
    """Lay out `ctxtop receipts`."""
    rows: list[list[Cell | str]] = [
        [
            each.receipt_id,
            moment(each.at),
            _session(each),
            MODES[each.mode],
            strategies_of(each),
            tokens(each.plan.before_tokens - each.plan.after_tokens),
            standing_of(each, state),
            "itself" if each.automatic else "you",
        ]
        for each in found
    ]
    return [
        *draw(_LIST, rows, terminal_width()),
        "",
        "ctxtop receipts ID shows one; ctxtop undo ID [--op N] takes it back",
    ]


def whole_lines(receipt: Receipt, state: Path) -> list[str]:
    """Lay out `ctxtop receipts ID`."""
    width = terminal_width()
    undone = receipt.now.undone if receipt.now else ()
    rows: list[list[Cell | str]] = [
        [*operation_cells(number, each), "✓" if number - 1 in undone else ""]
        for number, each in enumerate(receipt.plan.operations, 1)
    ]
    by = f"by itself: {receipt.automatic}" if receipt.automatic else "asked for"
    return [
        beside("receipt", f"{receipt.receipt_id}  {moment(receipt.at)}  {by}"),
        *_what_was_done(receipt, width),
        "",
        *draw(_OPERATIONS, rows, width),
        "",
        *_ticks(receipt.verified),
        "",
        *labelled("state", checked_of(receipt, state)["why"] or STATES[receipt.state], width),
        *_ways_on(receipt),
    ]


def _what_was_done(receipt: Receipt, width: int) -> Iterator[str]:
    plan = receipt.plan
    done = {
        Mode.FORK: f"fork {receipt.new_session_id}; the session stays",
        Mode.IN_PLACE: f"in place, in {receipt.session_id}",
        Mode.APPEND: f"appended to {receipt.session_id}; nothing of it was rewritten",
    }
    yield from labelled("done", done[receipt.mode], width)
    freed = plan.before_tokens - plan.after_tokens
    share = percent(freed / plan.before_tokens if plan.before_tokens else 0.0)
    sizes = f"≈ {tokens(plan.before_tokens)} → ≈ {tokens(plan.after_tokens)}"
    yield beside("context", f"{sizes}, {share} less")
    yield beside("file", f"{plan.bytes_before:,} → {plan.bytes_after:,} bytes")


def _ticks(checks: Sequence[str]) -> Iterator[str]:
    """Draw the checks in two columns, down and then across."""
    said = [f"{check:<3} {words_of(check)}" for check in checks]
    tick = paint("✓", "ok")
    half = (len(said) + 1) // 2
    for number in range(half):
        right = f"{tick} {said[number + half]}" if number + half < len(said) else ""
        left = f"{tick} {said[number]:<{TICK_CELLS}}{right}".rstrip()
        yield beside("" if number else "checked", left)


def _ways_on(receipt: Receipt) -> Iterator[str]:
    # A command is never wrapped: it is to be copied.
    yield beside("go on", one_line(receipt.resume_command))
    if receipt.state is not State.UNDONE:
        several = len(receipt.plan.operations) > 1
        part = "  (--op N: that one alone)" if several else ""
        yield beside("undo", f"ctxtop undo {receipt.receipt_id}{part}")


def _session(receipt: Receipt) -> str:
    session = receipt.session_id[:8]
    return f"{session} → {receipt.new_session_id[:8]}" if receipt.new_session_id else session
