"""`ctxtop receipts --check`: whether each can be taken back, tried without writing anything."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .emit import emit
from .report import FAILED
from .undo_command import state_folder

if TYPE_CHECKING:
    from pathlib import Path

    import click

    from ...core.compaction.receipts import Receipt
    from ..places import Places


def emit_checked(
    context: click.Context, places: Places, found: list[Receipt], unreadable: list[Path]
) -> int:
    """Take every receipt back into nowhere; 1 where one of them could not be."""
    checked: list[dict[str, Any]] = [
        {"receipt_id": path.stem, "state": None, "can_be_undone": False, "check": "unreadable",
         "why": f"{path} or its plan is damaged", "what_to_do": "put it back from a copy"}
        for path in unreadable
    ]  # fmt: skip
    checked += [_checked(each, state_folder(places)) for each in found]
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

    return emit(context, checked, lines) or (FAILED if bad else 0)


def _checked(receipt: Receipt, state: Path) -> dict[str, Any]:
    from ...core.compaction.plan import Refusal
    from ...core.compaction.undo import obstacle

    refusal = None
    try:
        error = obstacle(receipt, state)
        refusal = error.refusals[0] if error else None
    except OSError as error:
        why = f"{error.filename or receipt.target}: {error.strerror}"
        refusal = Refusal("file", why, "make it readable again")
    return {
        "receipt_id": receipt.receipt_id,
        "state": receipt.state.value,
        "can_be_undone": refusal is None,
        "check": refusal and refusal.check,
        "why": refusal and refusal.why,
        "what_to_do": refusal and refusal.what_to_do,
    }
