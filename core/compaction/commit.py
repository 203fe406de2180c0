"""Commits the change that a receipt announces, and recovers one that was interrupted."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from msgspec.structs import replace

from ..files.file_operations import hash_file, open_regular_file, read_blocks, write_temporary
from .compaction_target import WaitTimes, atomic_replace, recover_leftovers
from .plan import (
    AppendLine,
    CompactionPlan,
    CompactionRefusedError,
    RefusalKind,
    edits_of,
    refusal_error,
)
from .receipts import (
    ApplyMode,
    BackupStore,
    CompactionReceipt,
    ReceiptStore,
    WrittenVersion,
    remove_leftovers,
)
from .rewritten_lines import appended_line, remove_fork_files

MAX_TRIES: Final = 20  # tries; a client that writes during every one of them does not pause


def remove_appended(target: Path, plan: CompactionPlan) -> None:
    """Remove a plan's appended lines from behind its base, complete or partly written.

    All other lines stay. Raises OSError, and CompactionRefusedError if a client keeps writing.
    """
    edits = edits_of(plan.operations)
    added = b"".join(appended_line(edit) for edit in edits if isinstance(edit, AppendLine))
    for tries in range(1, MAX_TRIES + 1):
        seen = target.stat()
        with open_regular_file(target) as file:
            file.seek(plan.base_bytes)
            tail = file.read()
        place = tail.find(added)
        if place < 0:
            _cut_partial_write(target, plan.base_bytes, tail, added)
            return
        # After a torn line ours began with a line end; another one's does not.
        start = 0 if tail[:place] == b"\n" else place
        rest = tail[:start] + tail[place + len(added) :]
        new = write_temporary(target, _with_new_tail(target, plan.base_bytes, rest), seen)
        try:
            atomic_replace(new, target, seen, WaitTimes())
        except CompactionRefusedError:
            if tries == MAX_TRIES:
                raise
        else:
            return


def _with_new_tail(target: Path, size: int, rest: bytes) -> Iterator[bytes]:
    with open_regular_file(target) as file:
        yield from read_blocks(file, size)
    yield rest


def _cut_partial_write(target: Path, base: int, tail: bytes, added: bytes) -> None:
    """Cut off a beginning of ours at the end of the file, where a write was not finished."""
    start = tail.rfind(b"\n") + 1
    torn = tail[start:]
    begun = [n for n in range(len(added), 0, -1) if tail.endswith(added[:n])]
    if begun and (begun[0] >= len(torn)):
        place = len(tail) - begun[0]
        os.truncate(target, base + (0 if tail[:place] == b"\n" else place))
    elif tail == b"\n":
        os.truncate(target, base)


def recover_interrupted(state_folder: Path, session_id: str, *transcripts: Path) -> None:
    """Recover what is open of a session and its forks; its lock must be held. Raises OSError.

    Beside `transcripts` something may have been left before there was a receipt.
    """
    receipts = ReceiptStore(state_folder)
    for folder in (receipts.folder, receipts.plan_blobs.folder, BackupStore(state_folder).folder):
        remove_leftovers(folder, session_id)
    for receipt in receipts.all():
        if receipt.session_id == session_id and receipt.pending is not None:
            settled = _recovered_receipt(receipt, receipt.pending)
            if settled is None:
                receipts.remove(receipt)
            else:
                receipts.write(settled)
    for path in transcripts:
        recover_leftovers(path)


def _recovered_receipt(
    receipt: CompactionReceipt, pending: WrittenVersion
) -> CompactionReceipt | None:
    """Return the receipt as the file shows it now; None if nothing was written."""
    target = Path(receipt.target)
    recover_leftovers(target)
    if receipt.now is None:
        if begins_with_version(target, pending):
            return replace(receipt, now=pending, pending=None)
        if receipt.mode is ApplyMode.FORK and not target.exists():
            remove_fork_files(target)
        return None
    # What was appended is gone only where the file does not go on with it.
    versions = sorted((receipt.now, pending), key=lambda each: -each.size)
    found = next((each for each in versions if begins_with_version(target, each)), None)
    if found is pending:
        return replace(receipt, now=pending, pending=None)
    if len(receipt.now.undone) < len(receipt.plan.operations):
        return replace(receipt, pending=None)
    if receipt.mode is ApplyMode.APPEND:
        remove_appended(target, receipt.plan)
    return None


def begins_with_version(path: Path, version: WrittenVersion) -> bool:
    """Whether a file exists and begins with what we wrote.

    Raises OSErrors other than FileNotFoundError.
    """
    try:
        return hash_file(path, version.size) == (version.sha256, version.size)
    except FileNotFoundError:
        return False


def commit(
    receipt: CompactionReceipt, state_folder: Path, write_change: Callable[[], None]
) -> CompactionReceipt:
    """Write what is pending, and return the closed receipt.

    Where it fails everything is as it was; where it fails only after the file was written, the
    change stands. Raises CompactionRefusedError, OSError.
    """
    receipts = ReceiptStore(state_folder)
    try:
        receipts.write(receipt)
        write_change()
        closed = _closed_receipt(receipt)
        receipts.write(closed)
    except CompactionRefusedError:
        recover_interrupted(state_folder, receipt.session_id, Path(receipt.transcript))
        raise
    except OSError:
        recover_interrupted(state_folder, receipt.session_id, Path(receipt.transcript))
        for each in receipts.find_by_prefix(receipt.receipt_id):
            if each.now == receipt.pending:
                return each
        raise
    return closed


def _closed_receipt(receipt: CompactionReceipt) -> CompactionReceipt:
    """Look at the file once more where it now stands."""
    version = receipt.pending
    if version is None or hash_file(Path(receipt.target), version.size)[0] != version.sha256:
        raise refusal_error(
            RefusalKind.UNVERIFIED,
            "final",
            f"{receipt.target} was changed as soon as it was written",
            f"look at it; the copy of what it was is {receipt.backup}",
        )
    return replace(receipt, now=version, pending=None)
