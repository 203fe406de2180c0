"""Receipts and the history for people and programs, and whether each can be undone."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import click

from ....core.actions.session_compaction import try_undo, undo_obstacle
from ....core.compaction.receipts import ApplyMode, CompactionReceipt, ReceiptState, ReceiptStore
from ....core.compaction.receipts import receipt_to_dict as facts_of
from ...screens.history.receipt_history import (
    MODE_NAMES,
    RECEIPT_STATE_TEXTS,
    HistoryEntry,
    check_text,
    receipt_state_text,
    strategies_text,
)
from ...tables import Column, TextColumn
from ...text.formats import date_time, iso_time, percent, tokens
from ..command_errors import DONE, FAILED
from .plan_output import OPERATION_COLUMNS, NumberedOperation
from .printing import (
    clean_line,
    draw_table,
    label_beside,
    labelled_lines,
    paint,
    print_result,
    terminal_width,
)

_HISTORY_COLUMNS: Final[Sequence[TextColumn[HistoryEntry]]] = (
    Column("receipt", lambda each: each.receipt_id or ""),
    Column("at", lambda each: date_time(each.at)),
    Column("session", lambda each: (each.session_id or "")[:8]),
    Column("how", lambda each: each.mode),
    Column("what", lambda each: each.what, flexible=True),
    Column(
        "freed",
        lambda each: "" if each.freed_tokens is None else tokens(each.freed_tokens),
        right=True,
    ),
    Column("state", lambda each: each.state),
    Column("by", lambda each: each.requested_by, priority=1),
)


def history_record(action: HistoryEntry) -> dict[str, Any]:
    """Return an action as a JSON record; fields that do not apply are null."""
    return {
        "receipt_id": action.receipt_id,
        "at": iso_time(action.at),
        "session_id": action.session_id,
        "how": action.mode,
        "what": action.what,
        "by": action.requested_by or None,
        "tokens_saved": action.freed_tokens,
        "bytes_saved": action.freed_bytes,
        "state": action.state,
        "can_be_undone": action.receipt_id is not None and action.undo_obstacle is None,
        "why_not": action.undo_obstacle,
    }


def history_table(actions: Sequence[HistoryEntry]) -> list[str]:
    """Lay out `ctxtop receipts --all`."""
    return draw_table(_HISTORY_COLUMNS, actions) if actions else ["no actions yet"]


def check_receipts(context: click.Context, state: Path) -> int:
    """Try to undo every receipt without writing; returns FAILED (1) if one cannot be undone.

    Receipts that are already undone or gone do not count as failures.
    """
    kept = ReceiptStore(state)
    checked: list[dict[str, Any]] = [
        {"receipt_id": path.stem, "state": None, "can_be_undone": False, "check": "unreadable",
         "why": f"{path} or its plan is damaged", "what_to_do": "put it back from a copy"}
        for path in kept.unreadable()
    ]  # fmt: skip
    checked += [check_receipt(each, state) for each in kept.all()]
    # Of these nothing is left to take back.
    over = {None, "undone", "gone"}
    bad = [each for each in checked if each["check"] not in over]

    def lines() -> list[str]:
        said = [
            f"{each['receipt_id']}  "
            + (f"{each['check']}: {each['why']}: {each['what_to_do']}" if each["check"] else "ok")
            for each in checked
        ]
        return said or ["no receipts yet"]

    return print_result(context, checked, lines) or (FAILED if bad else DONE)


def check_receipt(receipt: CompactionReceipt, state: Path) -> dict[str, Any]:
    """Try to undo a receipt without writing; returns what prevents it as a JSON record."""
    refusal = try_undo(receipt, state)
    return {
        "receipt_id": receipt.receipt_id,
        "state": receipt.state.value,
        "can_be_undone": refusal is None,
        "check": refusal and refusal.check,
        "why": refusal and refusal.why,
        "what_to_do": refusal and refusal.what_to_do,
    }


CHECK_CELLS: Final = 34
"""Of one check with its words: two of them stand beside each other in 80 columns."""


def receipt_record(receipt: CompactionReceipt, state: Path) -> dict[str, Any]:
    """Return a receipt as a JSON record (commands.md, `ctxtop receipts`)."""
    plan = receipt.plan
    why_not = undo_obstacle(receipt, state)
    return facts_of(receipt) | {
        "at": iso_time(receipt.at),
        "transcript_path": receipt.target,
        "tokens_saved": plan.tokens_saved,
        "bytes_saved": plan.bytes_saved,
        "can_be_undone": why_not is None,
        "why_not": why_not,
    }


def full_receipt_record(receipt: CompactionReceipt, state: Path) -> dict[str, Any]:
    """Return a receipt as a JSON record with the details of its operations.

    Tries the undo, without writing, to find out whether it is possible.
    """
    checked = check_receipt(receipt, state)
    record = receipt_record(receipt, state)
    record |= {"can_be_undone": checked["can_be_undone"], "why_not": checked["why"]}
    for said, each in zip(record["operations"], receipt.plan.operations, strict=True):
        said |= {
            "what": each.what,
            "why": each.why,
            "tokens_saved": each.tokens_saved,
            "bytes_saved": each.bytes_saved,
        }
    return record


def applied_record(receipt: CompactionReceipt) -> dict[str, Any]:
    """Return what `--apply` did as a JSON record (commands.md)."""
    return {
        "receipt_id": receipt.receipt_id,
        "session_id": receipt.session_id,
        "new_session_id": receipt.new_session_id,
        "mode": receipt.mode.value,
        "backup": receipt.backup,
        "verified": list(receipt.verified),
        "resume_command": receipt.resume_command,
    }


def applied_lines(receipt: CompactionReceipt) -> list[str]:
    """Format what `--apply` did as lines of text."""
    width = terminal_width()
    return [
        *_summary_lines(receipt, width),
        "",
        *_check_lines(receipt.verified),
        "",
        *_next_steps(receipt),
    ]


def receipt_table(found: Sequence[CompactionReceipt], state: Path) -> list[str]:
    """Lay out `ctxtop receipts`."""
    columns: list[TextColumn[CompactionReceipt]] = [
        Column("id", lambda each: each.receipt_id),
        Column("when", lambda each: date_time(each.at), priority=1),
        Column("session", _session_text),
        Column("mode", lambda each: MODE_NAMES[each.mode]),
        Column("what", strategies_text, flexible=True, priority=3),
        Column("freed", lambda each: tokens(each.plan.tokens_saved), right=True),
        Column("state", lambda each: receipt_state_text(each, state)),
        Column("by", lambda each: "itself" if each.automatic else "you", priority=2),
    ]
    return [
        *draw_table(columns, found),
        "",
        "ctxtop receipts ID shows one; ctxtop undo ID [--op N] takes it back",
    ]


def full_receipt_lines(receipt: CompactionReceipt, state: Path) -> list[str]:
    """Lay out `ctxtop receipts ID`."""
    width = terminal_width()
    undone = receipt.now.undone if receipt.now else ()
    columns: list[TextColumn[NumberedOperation]] = [
        *OPERATION_COLUMNS,
        Column("undone", lambda each: "✓" if each[0] - 1 in undone else ""),
    ]
    by = f"by itself: {receipt.automatic}" if receipt.automatic else "asked for"
    return [
        label_beside("receipt", f"{receipt.receipt_id}  {date_time(receipt.at)}  {by}"),
        *_summary_lines(receipt, width),
        "",
        *draw_table(columns, list(enumerate(receipt.plan.operations, 1))),
        "",
        *_check_lines(receipt.verified),
        "",
        *labelled_lines(
            "state",
            check_receipt(receipt, state)["why"] or RECEIPT_STATE_TEXTS[receipt.state],
            width,
        ),
        *_next_steps(receipt),
    ]


def _summary_lines(receipt: CompactionReceipt, width: int) -> Iterator[str]:
    plan = receipt.plan
    done = {
        ApplyMode.FORK: f"fork {receipt.new_session_id}; the session stays",
        ApplyMode.IN_PLACE: f"in place, in {receipt.session_id}",
        ApplyMode.APPEND: f"appended to {receipt.session_id}; nothing of it was rewritten",
    }
    yield from labelled_lines("done", done[receipt.mode], width)
    sizes = f"≈ {tokens(plan.before_tokens)} → ≈ {tokens(plan.after_tokens)}"
    yield label_beside("context", f"{sizes}, {percent(plan.saved_share)} less")
    yield label_beside("file", f"{plan.bytes_before:,} → {plan.bytes_after:,} bytes")


def _check_lines(checks: Sequence[str]) -> Iterator[str]:
    """Draw the checks in two columns, down and then across."""
    said = [f"{check:<3} {check_text(check)}" for check in checks]
    tick = paint("✓", "ok")
    half = (len(said) + 1) // 2
    for number in range(half):
        right = f"{tick} {said[number + half]}" if number + half < len(said) else ""
        left = f"{tick} {said[number]:<{CHECK_CELLS}}{right}".rstrip()
        yield label_beside("" if number else "checked", left)


def _next_steps(receipt: CompactionReceipt) -> Iterator[str]:
    # A command is never wrapped: it is to be copied.
    yield label_beside("go on", clean_line(receipt.resume_command))
    if receipt.state is not ReceiptState.UNDONE:
        several = len(receipt.plan.operations) > 1
        part = "  (--op N: that one alone)" if several else ""
        yield label_beside("undo", f"ctxtop undo {receipt.receipt_id}{part}")


def _session_text(receipt: CompactionReceipt) -> str:
    session = receipt.session_id[:8]
    return f"{session} → {receipt.new_session_id[:8]}" if receipt.new_session_id else session
