"""Clearing up after a process that ended in the middle of a change.

A receipt says what was about to be written before anything is; the file says whether it was.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace

from .files import reading, sha256_of
from .fork import remove_copies
from .image import line_of
from .plan import Append
from .receipts import Mode, Receipts
from .swap import settle_leftovers

if TYPE_CHECKING:
    from .receipts import Receipt, Version


def settle(state: Path, session_id: str) -> None:
    """Settle what is open of a session and its forks; its lock must be held. Raises OSError."""
    receipts = Receipts(state)
    for receipt in receipts.all():
        if receipt.session_id == session_id and receipt.pending is not None:
            settled = _settled(receipt, receipt.pending)
            if settled is None:
                receipts.remove(receipt)
            else:
                receipts.write(settled)


def _settled(receipt: Receipt, pending: Version) -> Receipt | None:
    """Say how a receipt stands; None where nothing came about."""
    target = Path(receipt.target)
    written = replace(pending, replaced=None)
    settle_leftovers(target, pending.replaced if receipt.now is not None else None)
    if begins_with(target, pending):
        return replace(receipt, now=written, pending=None)
    if receipt.now is None:
        if receipt.mode is Mode.FORK and not target.exists():
            remove_copies(target.with_suffix(""))
        return None
    if receipt.mode is Mode.APPEND:
        _cut_torn(target, receipt)
    never = len(receipt.now.undone) == len(receipt.plan.operations)
    return None if never else replace(receipt, pending=None)


def begins_with(path: Path, version: Version) -> bool:
    """Say whether a file begins with what we wrote."""
    try:
        return sha256_of(path, version.size) == (version.sha256, version.size)
    except OSError:
        return False


def _cut_torn(target: Path, receipt: Receipt) -> None:
    """Cut a beginning of what was to be appended, where nothing follows it."""
    base = receipt.plan.base_bytes
    edits = [edit for each in receipt.plan.operations for edit in each.edits]
    whole = b"".join(line_of(edit) for edit in edits if isinstance(edit, Append))
    with reading(target) as file:
        size = os.fstat(file.fileno()).st_size
        file.seek(base)
        found = file.read(len(whole) + 2)
    begun = whole.startswith(found) or (b"\n" + whole).startswith(found)
    if begun and 0 < size - base == len(found):
        os.truncate(target, base)
