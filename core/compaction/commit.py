"""Writing what a receipt announces: the receipt first, then the file, then that it is done."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace

from .files import sha256_of
from .receipts import Receipts
from .refused import NotAppliedError, Stop, refuse
from .settle import settle

if TYPE_CHECKING:
    from collections.abc import Callable

    from .receipts import Receipt


def commit(receipt: Receipt, state_folder: Path, write_change: Callable[[], None]) -> Receipt:
    """Write what is pending, and give the closed receipt.

    Where it fails everything is as it was; where it failed only after the file was written, it
    is done all the same. Raises NotAppliedError, OSError.
    """
    receipts = Receipts(state_folder)
    try:
        receipts.write(receipt)
        write_change()
        closed = _closed(receipt)
        receipts.write(closed)
    except NotAppliedError:
        settle(state_folder, receipt.session_id, Path(receipt.transcript))
        raise
    except OSError:
        settle(state_folder, receipt.session_id, Path(receipt.transcript))
        for each in receipts.find_by_prefix(receipt.receipt_id):
            if each.now == receipt.pending:
                return each
        raise
    return closed


def _closed(receipt: Receipt) -> Receipt:
    """Look at the file once more where it now stands."""
    version = receipt.pending
    if version is None or sha256_of(Path(receipt.target), version.size)[0] != version.sha256:
        raise refuse(
            Stop.UNVERIFIED,
            "final",
            f"{receipt.target} was changed as soon as it was written",
            f"look at it; the copy of what it was is {receipt.backup}",
        )
    return replace(receipt, now=version, pending=None)
