"""`ctxtop receipts --check`: whether each receipt can be taken back, tried out into nowhere."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...core.compaction.receipts import Receipts
from ..receipt_words import tried_out
from .emit import emit
from .report import DONE, FAILED

if TYPE_CHECKING:
    from pathlib import Path

    import click

    from ...core.compaction.receipts import Receipt


def check(context: click.Context, state: Path) -> int:
    """Take every receipt back into nowhere; 1 where one of them could not be."""
    kept = Receipts(state)
    checked: list[dict[str, Any]] = [
        {"receipt_id": path.stem, "state": None, "can_be_undone": False, "check": "unreadable",
         "why": f"{path} or its plan is damaged", "what_to_do": "put it back from a copy"}
        for path in kept.unreadable()
    ]  # fmt: skip
    checked += [checked_of(each, state) for each in kept.all()]
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

    return emit(context, checked, lines) or (FAILED if bad else DONE)


def checked_of(receipt: Receipt, state: Path) -> dict[str, Any]:
    """Take one back into nowhere, and say for programs what stands in its way."""
    refusal = tried_out(receipt, state)
    return {
        "receipt_id": receipt.receipt_id,
        "state": receipt.state.value,
        "can_be_undone": refusal is None,
        "check": refusal and refusal.check,
        "why": refusal and refusal.why,
        "what_to_do": refusal and refusal.what_to_do,
    }
