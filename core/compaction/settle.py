"""Clearing up after a process that ended in the middle of a change.

A receipt says what was about to be written before anything is; the file says whether it was.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace

from .backups import Backups
from .contents import clear_leftovers
from .files import sha256_of
from .fork import remove_copies
from .receipts import Mode, Receipts
from .swap import settle_leftovers
from .take_out import take_out

if TYPE_CHECKING:
    from .receipts import Receipt, Version


def settle(state_folder: Path, session_id: str, *transcripts: Path) -> None:
    """Settle what is open of a session and its forks; its lock must be held. Raises OSError.

    Beside `transcripts` something may have been left before any receipt was.
    """
    receipts = Receipts(state_folder)
    for folder in (receipts.folder, receipts.plan_blobs.folder, Backups(state_folder).folder):
        clear_leftovers(folder, session_id)
    for receipt in receipts.all():
        if receipt.session_id == session_id and receipt.pending is not None:
            settled = _settled(receipt, receipt.pending)
            if settled is None:
                receipts.remove(receipt)
            else:
                receipts.write(settled)
    for path in transcripts:
        settle_leftovers(path)


def _settled(receipt: Receipt, pending: Version) -> Receipt | None:
    """Say how a receipt stands; None where nothing came about."""
    target = Path(receipt.target)
    settle_leftovers(target)
    if receipt.now is None:
        if begins_with(target, pending):
            return replace(receipt, now=pending, pending=None)
        if receipt.mode is Mode.FORK and not target.exists():
            remove_copies(target)
        return None
    # What was appended is gone only where the file does not go on with it.
    versions = sorted((receipt.now, pending), key=lambda each: -each.size)
    found = next((each for each in versions if begins_with(target, each)), None)
    if found is pending:
        return replace(receipt, now=pending, pending=None)
    if len(receipt.now.undone) < len(receipt.plan.operations):
        return replace(receipt, pending=None)
    if receipt.mode is Mode.APPEND:
        take_out(target, receipt.plan)
    return None


def begins_with(path: Path, version: Version) -> bool:
    """Say whether a file is there and begins with what we wrote. Raises other OSErrors."""
    try:
        return sha256_of(path, version.size) == (version.sha256, version.size)
    except FileNotFoundError:
        return False
