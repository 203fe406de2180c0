"""Undoing a receipt or some of its operations, also where the file has changed since."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import msgspec
from msgspec.structs import replace

from ..files.file_operations import (
    hash_file,
    open_regular_file,
    read_lines,
    remove_if_present,
    write_all,
    write_temporary,
)
from ..files.json_spans import JsonPointerError, member_spans, read_value, replace_value
from ..transcript.visible_messages import nearest_remaining
from .commit import begins_with_version, commit, recover_interrupted
from .compaction_target import CompactionTarget, atomic_replace, require_idle, session_lock
from .plan import (
    AppendLine,
    CompactionRefusedError,
    Operation,
    RefusalKind,
    RemoveLine,
    ReplaceValue,
    edits_of,
    refusal_error,
)
from .receipts import ApplyMode, BackupStore, CompactionReceipt, ReceiptStore, WrittenVersion
from .rewritten_lines import (
    NO_TRANSFORM,
    LineTransform,
    appended_line,
    fork_transform,
    lines_after,
    rewrite_lines,
)
from .verify import verify_permissions

_PARENT_KEY: Final = "parentUuid"


class _OldValue(msgspec.Struct, frozen=True):
    """A value that was replaced, as JSON text."""

    pointer: str
    old: bytes
    new: bytes


def lines_with_old_values(
    target: Path, base: Iterable[bytes], operations: Sequence[Operation], transform: LineTransform
) -> Iterator[bytes]:
    """Yield a file's lines with old values restored where they still hold the value we wrote.

    Values are found by uuid and pointer. Raises CompactionRefusedError if one is missing.
    """
    wanted = _expected_values(base, operations, transform)
    missing = {(uuid, each.pointer) for uuid, found in wanted.items() for each in found}
    with open_regular_file(target) as file:
        for line in file:
            uuid = _uuid_at(line)
            for each in wanted.get(uuid, ()) if uuid else ():
                if _value_or_none(line, each.pointer) == each.new:
                    line = replace_value(line, each.pointer, each.old)  # noqa: PLW2901
                    missing.discard((uuid, each.pointer))
            yield line
    if missing:
        raise _undo_later_first(f"{len(missing)} values are not what was put there")


def lines_without_appended(target: Path, operations: Sequence[Operation]) -> Iterator[bytes]:
    """Yield a file's lines without those that operations appended, wherever they are now.

    The base is not needed, since appending changed nothing in it. Raises CompactionRefusedError
    if an appended line is missing.
    """
    edits = edits_of(operations)
    missing = {appended_line(edit) for edit in edits if isinstance(edit, AppendLine)}
    hung = _parents_of_appended(operations)
    with open_regular_file(target) as file:
        for line in file:
            if line in missing:
                missing.discard(line)
            else:
                yield _with_new_parent(line, hung)
    if missing:
        raise _undo_later_first(f"{len(missing)} lines that were added are gone")


def append_later_lines(
    new: Path, target: Path, start: int, new_parents: Mapping[str, str | None]
) -> None:
    """Append what a file holds behind `start`; children of the lines in `new_parents` get those."""
    with open_regular_file(target) as file:
        file.seek(start)
        lines = (_with_new_parent(line, new_parents) for line in file)
        with open(new, "r+b", buffering=0) as head:  # noqa: PTH123 -- ours, unbuffered
            size = head.seek(0, os.SEEK_END)
            if new_parents and os.fstat(file.fileno()).st_size > start and size:
                head.seek(-1, os.SEEK_END)
                if head.read(1) != b"\n":
                    write_all(head.fileno(), [b"\n"])
            write_all(head.fileno(), lines)
            os.fsync(head.fileno())


def _expected_values(
    base: Iterable[bytes], operations: Sequence[Operation], transform: LineTransform
) -> dict[bytes, list[_OldValue]]:
    by_line: dict[int, list[ReplaceValue]] = {}
    for edit in edits_of(operations):
        if not isinstance(edit, ReplaceValue):
            raise _undo_later_first("lines were removed or added")
        by_line.setdefault(edit.line, []).append(edit)
    wanted: dict[bytes, list[_OldValue]] = {}
    for number, line in enumerate(base, 1):
        for edit in by_line.get(number, ()):
            uuid = _uuid_at(line)
            if uuid is None:
                raise _undo_later_first(f"line {number} has no uuid")
            old = read_value(transform.transform_existing(line), edit.pointer)
            wanted.setdefault(uuid, []).append(_OldValue(edit.pointer, old, edit.value.encode()))
    return wanted


def _undo_later_first(why: str) -> Exception:
    return refusal_error(
        RefusalKind.UNSAFE,
        "changed",
        why,
        "something changed it since: undo the later receipts first",
    )


def _uuid_at(line: bytes) -> bytes | None:
    return _value_or_none(line, "/uuid")


def _value_or_none(line: bytes, pointer: str) -> bytes | None:
    try:
        return read_value(line, pointer)
    except JsonPointerError:
        return None


def new_parents(base: Iterable[bytes], operations: Sequence[Operation]) -> dict[str, str | None]:
    """Map uuids to the parents that later lines get when operations are undone.

    Children of an appended line are attached to the line before it. If everything after a line
    was removed and is restored, the line's new children are attached to the end of the restored
    part: the client follows the newest line upwards, and would leave out the restored lines
    otherwise.
    """
    return _parents_of_restored(base, operations) | _parents_of_appended(operations)


def _parents_of_restored(base: Iterable[bytes], operations: Sequence[Operation]) -> dict[str, str]:
    removed = {edit.line for edit in edits_of(operations) if isinstance(edit, RemoveLine)}
    if not removed:
        return {}
    ends: dict[str, str] = {}
    roots: dict[str, str] = {}
    followed: set[str] = set()
    for number, line in enumerate(base, 1):
        uuid, parent = _text_at(line, "/uuid"), _text_at(line, f"/{_PARENT_KEY}")
        if uuid is None or parent is None:
            continue
        if number in removed:
            roots[uuid] = roots.get(parent, parent)
            ends[roots[uuid]] = uuid
        else:
            followed.add(roots.get(parent, parent))
    return {root: end for root, end in ends.items() if root not in followed}


def _parents_of_appended(operations: Sequence[Operation]) -> dict[str, str | None]:
    parents: dict[str, str | None] = {}
    for edit in edits_of(operations):
        if isinstance(edit, AppendLine):
            line = json.loads(appended_line(edit))
            if "uuid" in line:
                parents[line["uuid"]] = line.get(_PARENT_KEY) or line.get("logicalParentUuid")
    return {uuid: nearest_remaining(above, parents) for uuid, above in parents.items()}


def _text_at(line: bytes, pointer: str) -> str | None:
    value = _value_or_none(line, pointer)
    found = json.loads(value) if value else None
    return found if isinstance(found, str) else None


def _with_new_parent(line: bytes, parents: Mapping[str, str | None]) -> bytes:
    if not parents:
        return line
    try:
        span = member_spans(line).get(_PARENT_KEY)
        parent = json.loads(line[span.start : span.end]) if span else None
    except ValueError:
        return line
    if span is None or not isinstance(parent, str) or parent not in parents:
        return line
    return line[: span.start] + json.dumps(parents[parent]).encode() + line[span.end :]


class UndoResult(msgspec.Struct, frozen=True):
    receipt_id: str
    undone: tuple[int, ...]  # numbers of the operations, counted from 0
    sha256: str  # of the file's first bytes, without what was appended since


def undo(
    receipt_id: str, operations: int | Collection[int] | None, session: CompactionTarget
) -> UndoResult:
    """Undo a receipt or some of its operations; `session` is the session that it wrote.

    Raises CompactionRefusedError if a check fails, and OSError; then nothing has changed.
    """
    receipts = ReceiptStore(session.state_folder)
    receipt = next(iter(receipts.find_by_prefix(receipt_id)), None)
    if receipt is None:
        raise refusal_error(
            RefusalKind.NOTHING, "receipt", f"no receipt {receipt_id} can be read",
            "see `ctxtop receipts --check`",
        )  # fmt: skip
    with session_lock(session, receipt.session_id):
        recover_interrupted(session.state_folder, receipt.session_id, session.transcript)
        found = receipts.find_by_prefix(receipt.receipt_id)
        if not found or found[0].now is None:
            raise refusal_error(
                RefusalKind.NOTHING, "receipt", "nothing came about of it", "there is no need"
            )
        receipt = found[0]
        chosen = _operations_to_undo(receipt, operations)
        written = _undo_operations(receipt, chosen, session)
        return UndoResult(receipt.receipt_id, chosen, written.sha256)


def _operations_to_undo(
    receipt: CompactionReceipt, operations: int | Collection[int] | None
) -> tuple[int, ...]:
    every = range(len(receipt.plan.operations))
    wanted = {operations} if isinstance(operations, int) else set(operations or every)
    strange = sorted(wanted - set(every))
    if strange:
        # A person counts them from 1.
        why, what_to_do = f"there is no operation {strange[0] + 1}", f"choose 1 to {len(every)}"
        raise refusal_error(RefusalKind.NOTHING, "op", why, what_to_do)
    undone = receipt.now.undone if receipt.now else ()
    chosen = tuple(number for number in every if number not in undone and number in wanted)
    if not chosen:
        raise refusal_error(
            RefusalKind.NOTHING, "undone", "it is undone already", "there is no need"
        )
    return chosen


def find_undo_obstacle(
    receipt: CompactionReceipt, state_folder: Path
) -> CompactionRefusedError | None:
    """Undo a receipt without writing; return what prevents it, None if nothing does.

    A session that is at work is no obstacle, because it will end. Raises OSError.
    """
    try:
        chosen = _operations_to_undo(receipt, None)
        if receipt.now is None or receipt.pending is not None:
            raise refusal_error(
                RefusalKind.NOTHING, "open", "a process ended in the middle of it", "undo it"
            )
        if not Path(receipt.target).exists():
            raise _gone(Path(receipt.target))
        ours = _own_version(receipt, state_folder)
        restored = _restored_from_base if ours else _restored_by_values
        with restored(receipt, chosen, state_folder) as chunks:
            digest = hashlib.sha256()
            for chunk in chunks:
                digest.update(chunk)
        if ours:
            _require_base(receipt, chosen, digest.hexdigest())
    except CompactionRefusedError as error:
        return error
    return None


def _undo_operations(
    receipt: CompactionReceipt, numbers: tuple[int, ...], subject: CompactionTarget
) -> WrittenVersion:
    target = Path(receipt.target)
    if receipt.now is None or not target.exists():
        raise _gone(target)
    seen = target.stat()
    ours = _own_version(receipt, subject.state_folder)
    if ours and seen.st_size == ours.size:
        # Nobody wrote since we did: there is nothing to wait for.
        subject = dataclasses.replace(subject, wait_times=subject.wait_times.without_idle())
    written = ours.size if ours else 0
    require_idle(subject, target, receipt.new_session_id or receipt.session_id, written)
    restored = _restored_from_base if ours else _restored_by_values
    with restored(receipt, numbers, subject.state_folder) as chunks:
        new = write_temporary(target, chunks, seen)
    try:
        wrong = [*verify_permissions(new, seen)]
        if wrong:
            raise CompactionRefusedError(RefusalKind.UNVERIFIED, wrong)
        sha256, size = hash_file(new)
        if ours is not None:
            _require_base(receipt, numbers, sha256)
            with _base_lines(receipt, subject.state_folder) as lines:
                hung = new_parents(lines, _operations_in(receipt, numbers))
            append_later_lines(new, target, ours.size, hung)
        subject.read_entries(new)
    except BaseException:
        remove_if_present(new)
        raise
    undone = tuple(sorted({*receipt.now.undone, *numbers}))
    version = WrittenVersion(sha256, size, undone, mixed=ours is None)
    commit(
        replace(receipt, pending=version),
        subject.state_folder,
        lambda: atomic_replace(new, target, seen, subject.wait_times),
    )
    return version


def _own_version(receipt: CompactionReceipt, state_folder: Path) -> WrittenVersion | None:
    """Return the version that the remaining operations produce; None if the file differs.

    Other changes in it may have been undone since, so a file with such changes is checked again.
    """
    target, now = Path(receipt.target), receipt.now
    if now is None or not target.exists():
        return None
    if not now.mixed:
        return now if begins_with_version(target, now) else None
    digest, size = hashlib.sha256(), 0
    with _restored_from_base(receipt, (), state_folder) as chunks:
        for chunk in chunks:
            digest.update(chunk)
            size += len(chunk)
    found = WrittenVersion(digest.hexdigest(), size, now.undone)
    return found if begins_with_version(target, found) else None


@contextmanager
def _restored_from_base(
    receipt: CompactionReceipt, numbers: tuple[int, ...], state_folder: Path
) -> Iterator[Iterator[bytes]]:
    """Make the file without some operations: what those that are left make of its base."""
    undone = receipt.now.undone if receipt.now else ()
    left = _operations_except(receipt, (*undone, *numbers))
    with _base_lines(receipt, state_folder) as lines:
        yield lines_after(rewrite_lines(lines, left, _transform_of(receipt)))


@contextmanager
def _restored_by_values(
    receipt: CompactionReceipt, numbers: tuple[int, ...], state_folder: Path
) -> Iterator[Iterator[bytes]]:
    """Read a file that others changed too, without some operations."""
    target, operations = Path(receipt.target), _operations_in(receipt, numbers)
    if receipt.mode is ApplyMode.APPEND:
        yield lines_without_appended(target, operations)
        return
    with _base_lines(receipt, state_folder) as lines:
        yield lines_with_old_values(target, lines, operations, _transform_of(receipt))


def _require_base(receipt: CompactionReceipt, chosen: tuple[int, ...], sha256: str) -> None:
    """V21: with all of it taken back the file is, byte for byte, what it was."""
    undone = {*(receipt.now.undone if receipt.now else ()), *chosen}
    whole = len(undone) == len(receipt.plan.operations) and receipt.mode is not ApplyMode.FORK
    if whole and sha256 != receipt.plan.base_sha256:
        raise refusal_error(
            RefusalKind.UNVERIFIED, "V21", "it would not be what it was",
            "the file is as it is; put the receipt's copy in its place by hand, and report it",
        )  # fmt: skip


def _gone(target: Path) -> CompactionRefusedError:
    return refusal_error(
        RefusalKind.UNSAFE, "gone", f"{target} is gone", "resume the session it came from"
    )


def _operations_except(receipt: CompactionReceipt, numbers: Sequence[int]) -> list[Operation]:
    return [each for n, each in enumerate(receipt.plan.operations) if n not in numbers]


def _operations_in(receipt: CompactionReceipt, numbers: Sequence[int]) -> list[Operation]:
    return [each for n, each in enumerate(receipt.plan.operations) if n in numbers]


def _transform_of(receipt: CompactionReceipt) -> LineTransform:
    if receipt.new_session_id is None:
        return NO_TRANSFORM
    return fork_transform(receipt.session_id, receipt.new_session_id, receipt.title)


@contextmanager
def _base_lines(receipt: CompactionReceipt, state_folder: Path) -> Iterator[Iterator[bytes]]:
    """Read the lines that the plan was made for: from the backup, or from the transcript."""
    plan, transcript = receipt.plan, Path(receipt.transcript)
    backups = BackupStore(state_folder)
    if receipt.backup is not None and backups.is_intact(receipt.backup):
        with backups.open_lines(receipt.backup) as lines:
            yield lines
        return
    if not begins_with_version(transcript, WrittenVersion(plan.base_sha256, plan.base_bytes)):
        raise refusal_error(
            RefusalKind.UNSAFE,
            "backup",
            "the copy of what it was is gone or damaged",
            f"put it back: {backups.path(receipt.backup or plan.base_sha256)}",
        )
    with open_regular_file(transcript) as file:
        yield read_lines(file, plan.base_bytes)
