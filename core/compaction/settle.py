"""Clearing up after a process that ended in the middle of a change.

A receipt says what was about to be written before anything is; the file says whether it was.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace

from .files import sha256_of
from .fork import remove_copies
from .receipts import Mode, Receipts
from .swap import settle_leftovers
from .take_out import take_out

if TYPE_CHECKING:
    from .receipts import Receipt, Version


def settle(state: Path, session_id: str, *paths: Path) -> None:
    """Settle what is open of a session and its forks; its lock must be held. Raises OSError.

    `paths` are transcripts beside which something may have been left before any receipt was.
    """
    receipts = Receipts(state)
    for receipt in receipts.all():
        if receipt.session_id == session_id and receipt.pending is not None:
            settled = _settled(receipt, receipt.pending)
            if settled is None:
                receipts.remove(receipt)
            else:
                receipts.write(settled)
    for path in paths:
        settle_leftovers(path, None)


def _settled(receipt: Receipt, pending: Version) -> Receipt | None:
    """Say how a receipt stands; None where nothing came about."""
    target = Path(receipt.target)
    written = replace(pending, replaced=None)
    settle_leftovers(target, pending.replaced if receipt.now is not None else None)
    if begins_with(target, pending):
        return replace(receipt, now=written, pending=None)
    if receipt.now is None:
        if receipt.mode is Mode.FORK and not target.exists():
            remove_copies(target)
        return None
    if receipt.mode is Mode.APPEND:
        take_out(target, receipt.plan)
    never = len(receipt.now.undone) == len(receipt.plan.operations)
    return None if never else replace(receipt, pending=None)


def begins_with(path: Path, version: Version) -> bool:
    """Say whether a file is there and begins with what we wrote. Raises other OSErrors."""
    try:
        return sha256_of(path, version.size) == (version.sha256, version.size)
    except FileNotFoundError:
        return False
