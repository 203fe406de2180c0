"""One operation in full: the text before, and what stands in its place. Both are data."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec

from ...collectors.clean import clean_text
from ..operation_changes import changes, shortened
from .columns import terminal_width

if TYPE_CHECKING:
    from pathlib import Path

    from ...core.compaction.plan import Plan
    from ..operation_changes import Change

TEXT_LINES: Final = 12
"""Of a text, as it is shown: before and after fit a small terminal together. What is left out
is counted, and `--json` has all."""

ADDED_LINES: Final = 400
"""Of what is added: a summary of 12,000 tokens is read whole before it is used."""

EDITS: Final = 10
"""Changes of one operation that are shown; a way back removes hundreds of lines."""


def explained(plan: Plan, number: int, transcript: Path) -> dict[str, Any]:
    """Say one operation for programs, with all of its texts. Raises OSError."""
    record: dict[str, Any] = msgspec.to_builtins(plan.operations[number - 1])
    del record["edits"]
    found = msgspec.to_builtins(changes(plan.operations[number - 1], transcript))
    return {"plan_id": plan.plan_id, "op": number} | record | {"changes": found}


def explain(plan: Plan, number: int, transcript: Path) -> list[str]:
    """Show one operation for people. Raises OSError."""
    operation = plan.operations[number - 1]
    found = changes(operation, transcript)
    freed = f"{operation.tokens_saved:,} tokens, {operation.bytes_saved:,} bytes"
    lines = [
        f"{number} of {len(plan.operations)}  {clean_text(operation.what)}",
        f"{operation.strategy}, level {int(operation.level)}: {clean_text(operation.why)}",
        f"frees {freed}",
    ]
    for each in found[:EDITS]:
        lines += ["", *_shown(each, terminal_width())]
    left = len(found) - EDITS
    if left > 0:
        lines += ["", f"… {left:,} more changes of this kind; --json has all"]
    return lines


def _shown(change: Change, width: int) -> list[str]:
    where = "at the end" if change.line is None else f"line {change.line:,}"
    place = f"{where} {change.pointer}" if change.pointer else where
    head = f"{_HEADS[change.do]} {place}"
    lines = [head if change.do == "append" else f"{head}, before:"]
    if change.before is not None:
        lines += _body("-", change.before, TEXT_LINES, width)
    if change.after is not None:
        lines += ["after:"] if change.do == "replace" else []
        most = ADDED_LINES if change.do == "append" else TEXT_LINES
        lines += _body("+", change.after, most, width)
    return lines


def _body(sign: str, text: str, lines: int, width: int) -> list[str]:
    return [f"  {sign} {each}".rstrip() for each in shortened(text, lines, width - 4)]


_HEADS: Final = {"replace": "changed", "remove": "removed", "append": "added"}
