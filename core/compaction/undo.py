"""Taking back what was carried out: a whole receipt, or one of its operations.

As long as the file begins as we left it, it becomes the image of the operations that remain,
and keeps what was appended since. Where something else changed it, old values are put back one
by one: into the lines with their uuids, where they still hold what we put there.
"""

from __future__ import annotations

import dataclasses
import hashlib
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
from msgspec.structs import replace

from .backups import Backups
from .commit import commit
from .files import first_lines, reading, sha256_of, unlink, write_beside
from .fork import as_fork
from .image import AS_IT_IS, after, image
from .inverse import add_tail, hung_anew, patched, without_added
from .receipts import Mode, Receipts, Version
from .refused import NotAppliedError, Stop, refuse
from .settle import begins_with, settle
from .subject import locked, require_idle
from .swap import swap
from .verify import verify_status

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from .image import Written
    from .plan import Operation
    from .receipts import Receipt
    from .subject import Subject


class Undone(msgspec.Struct, frozen=True):
    """What was taken back."""

    receipt_id: str
    undone: tuple[int, ...]
    """Numbers of the operations, counted from 0."""
    sha256: str
    """Of the file's first bytes, without what was appended since."""


def undo(receipt_id: str, operations: int | Collection[int] | None, session: Subject) -> Undone:
    """Take a receipt back, or some operations of it; `subject` is the session that it wrote.

    Raises NotAppliedError where a check says no, OSError; then nothing has changed.
    """
    receipts = Receipts(session.state_folder)
    receipt = next(iter(receipts.find_by_prefix(receipt_id)), None)
    if receipt is None:
        raise refuse(
            Stop.NOTHING, "receipt", f"no receipt {receipt_id} can be read",
            "see `ctxtop receipts --check`",
        )  # fmt: skip
    with locked(session, receipt.session_id):
        settle(session.state_folder, receipt.session_id, session.transcript)
        found = receipts.find_by_prefix(receipt.receipt_id)
        if not found or found[0].now is None:
            raise refuse(Stop.NOTHING, "receipt", "nothing came about of it", "there is no need")
        receipt = found[0]
        chosen = _chosen(receipt, operations)
        written = _take_back(receipt, chosen, session)
        return Undone(receipt.receipt_id, chosen, written.sha256)


def _chosen(receipt: Receipt, operations: int | Collection[int] | None) -> tuple[int, ...]:
    every = range(len(receipt.plan.operations))
    wanted = {operations} if isinstance(operations, int) else set(operations or every)
    strange = sorted(wanted - set(every))
    if strange:
        # A person counts them from 1.
        why, what_to_do = f"there is no operation {strange[0] + 1}", f"choose 1 to {len(every)}"
        raise refuse(Stop.NOTHING, "op", why, what_to_do)
    undone = receipt.now.undone if receipt.now else ()
    chosen = tuple(number for number in every if number not in undone and number in wanted)
    if not chosen:
        raise refuse(Stop.NOTHING, "undone", "it is undone already", "there is no need")
    return chosen


def obstacle(receipt: Receipt, state_folder: Path) -> NotAppliedError | None:
    """Take a receipt back into nowhere: give what stands in its way, None where nothing does.

    A session that is at work stands in no way: it ends. Raises OSError.
    """
    try:
        chosen = _chosen(receipt, None)
        if receipt.now is None or receipt.pending is not None:
            raise refuse(Stop.NOTHING, "open", "a process ended in the middle of it", "undo it")
        has_other_changes = _ours(receipt, state_folder) is None
        with _restored(
            receipt, chosen, state_folder, has_other_changes=has_other_changes
        ) as chunks:
            digest = hashlib.sha256()
            for chunk in chunks:
                digest.update(chunk)
        if not has_other_changes:
            _require_base(receipt, chosen, digest.hexdigest())
    except NotAppliedError as error:
        return error
    return None


def _take_back(receipt: Receipt, numbers: tuple[int, ...], subject: Subject) -> Version:
    target = Path(receipt.target)
    if receipt.now is None or not target.exists():
        raise _gone(target)
    seen = target.stat()
    ours = _ours(receipt, subject.state_folder)
    if ours and seen.st_size == ours.size:
        # Nobody wrote since we did: there is nothing to wait for.
        subject = dataclasses.replace(subject, wait_times=subject.wait_times.without_idle())
    written = ours.size if ours else 0
    require_idle(subject, target, receipt.new_session_id or receipt.session_id, written)
    has_other_changes = ours is None
    with _restored(
        receipt, numbers, subject.state_folder, has_other_changes=has_other_changes
    ) as chunks:
        new = write_beside(target, chunks, seen)
    try:
        wrong = [*verify_status(new, seen)]
        if wrong:
            raise NotAppliedError(Stop.UNVERIFIED, wrong)
        sha256, size = sha256_of(new)
        if ours is not None:
            _require_base(receipt, numbers, sha256)
            with _base(receipt, subject.state_folder) as lines:
                hung = hung_anew(lines, _only(receipt, numbers))
            add_tail(new, target, ours.size, hung)
        subject.read_entries(new)
    except BaseException:
        unlink(new)
        raise
    undone = tuple(sorted({*receipt.now.undone, *numbers}))
    version = Version(sha256, size, undone, mixed=has_other_changes)
    commit(
        replace(receipt, pending=version),
        subject.state_folder,
        lambda: swap(new, target, seen, subject.wait_times),
    )
    return version


def _ours(receipt: Receipt, state_folder: Path) -> Version | None:
    """Say what of a file is the image of the operations that are left; None where it is none.

    What others changed may be taken back by now: so it is looked at again.
    """
    target, now = Path(receipt.target), receipt.now
    if now is None or not target.exists():
        return None
    if not now.mixed:
        return now if begins_with(target, now) else None
    digest, size = hashlib.sha256(), 0
    with _restored(receipt, (), state_folder, has_other_changes=False) as chunks:
        for chunk in chunks:
            digest.update(chunk)
            size += len(chunk)
    found = Version(digest.hexdigest(), size, now.undone)
    return found if begins_with(target, found) else None


@contextmanager
def _restored(
    receipt: Receipt, numbers: tuple[int, ...], state_folder: Path, *, has_other_changes: bool
) -> Iterator[Iterator[bytes]]:
    """Give a file without some operations; `has_other_changes` where others changed it too."""
    target = Path(receipt.target)
    if receipt.now is None or not target.exists():
        raise _gone(target)
    written = _written(receipt)
    if has_other_changes and receipt.mode is Mode.APPEND:
        yield without_added(target, _only(receipt, numbers))
        return
    with _base(receipt, state_folder) as lines:
        if has_other_changes:
            yield patched(target, lines, _only(receipt, numbers), written)
        else:
            left = _except(receipt, (*receipt.now.undone, *numbers))
            yield after(image(lines, left, written))


def _require_base(receipt: Receipt, chosen: tuple[int, ...], sha256: str) -> None:
    """V21: with all of it taken back the file is, byte for byte, what it was."""
    undone = {*(receipt.now.undone if receipt.now else ()), *chosen}
    whole = len(undone) == len(receipt.plan.operations) and receipt.mode is not Mode.FORK
    if whole and sha256 != receipt.plan.base_sha256:
        raise refuse(
            Stop.UNVERIFIED, "V21", "it would not be what it was",
            "the file is as it is; put the receipt's copy in its place by hand, and report it",
        )  # fmt: skip


def _gone(target: Path) -> NotAppliedError:
    return refuse(Stop.UNSAFE, "gone", f"{target} is gone", "resume the session it came from")


def _except(receipt: Receipt, numbers: Sequence[int]) -> list[Operation]:
    return [each for n, each in enumerate(receipt.plan.operations) if n not in numbers]


def _only(receipt: Receipt, numbers: Sequence[int]) -> list[Operation]:
    return [each for n, each in enumerate(receipt.plan.operations) if n in numbers]


def _written(receipt: Receipt) -> Written:
    if receipt.new_session_id is None:
        return AS_IT_IS
    return as_fork(receipt.session_id, receipt.new_session_id, receipt.title)


@contextmanager
def _base(receipt: Receipt, state_folder: Path) -> Iterator[Iterator[bytes]]:
    """Give the lines that the plan was made for: from the copy, or where they still stand."""
    plan, transcript = receipt.plan, Path(receipt.transcript)
    backups = Backups(state_folder)
    if receipt.backup is not None and backups.is_intact(receipt.backup):
        with backups.open_lines(receipt.backup) as lines:
            yield lines
        return
    if not begins_with(transcript, Version(plan.base_sha256, plan.base_bytes)):
        raise refuse(
            Stop.UNSAFE,
            "backup",
            "the copy of what it was is gone or damaged",
            f"put it back: {backups.path(receipt.backup or plan.base_sha256)}",
        )
    with reading(transcript) as file:
        yield first_lines(file, plan.base_bytes)
