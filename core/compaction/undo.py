"""Undoes a receipt or some of its operations, also if the file has changed since."""

import dataclasses
import json
import os
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple

import msgspec
from msgspec.structs import replace

from ..files import file_operations as files
from ..files.json_spans import JsonPointerError, member_spans, read_value, replace_value
from ..transcript.visible_messages import nearest_remaining
from . import plan as plans
from . import rewritten_lines
from .apply import begins_with_version, commit, recover_interrupted
from .compaction_target import CompactionTarget, atomic_replace, require_idle, session_lock
from .plan import CompactionRefusedError, Operation, RefusalKind, edits_of, refusal_error
from .receipts import ApplyMode, BackupStore, CompactionReceipt, ReceiptStore, WrittenVersion
from .rewritten_lines import LineTransform, appended_line
from .verify import verify_permissions

_PARENT_KEY: Final = "parentUuid"


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
        why = f"receipt {receipt_id} cannot be read"
        raise _nothing_to_undo("receipt", why, "see `ctxtop history --check`")
    with session_lock(session, receipt.session_id):
        recover_interrupted(session.state_folder, receipt.session_id, session.transcript)
        receipt = next(iter(receipts.find_by_prefix(receipt.receipt_id)), None)
        if receipt is None or receipt.now is None:
            raise _nothing_to_undo("receipt", "it changed nothing", "nothing to do")
        chosen = _operations_to_undo(receipt, operations)
        written = _undo_operations(receipt, chosen, session)
        return UndoResult(receipt.receipt_id, chosen, written.sha256)


def find_undo_obstacle(
    receipt: CompactionReceipt, state_folder: Path
) -> CompactionRefusedError | None:
    """Undo a receipt without writing; return what prevents it, None if nothing does.

    A session that is at work is no obstacle, because it will end. Raises OSError.
    """
    try:
        chosen = _operations_to_undo(receipt, None)
        if receipt.now is None or receipt.pending is not None:
            raise _nothing_to_undo("open", "a process ended in the middle of the change", "undo it")
        if not Path(receipt.target).exists():
            raise _target_gone(receipt)
        own = _own_version(receipt, state_folder)
        with _restored_file(receipt, chosen, state_folder, own) as chunks:
            sha256, _ = files.hash_blocks(chunks)
        if own:
            _require_base(receipt, chosen, sha256)
    except CompactionRefusedError as error:
        return error
    return None


def _operations_to_undo(
    receipt: CompactionReceipt, operations: int | Collection[int] | None
) -> tuple[int, ...]:
    every = range(len(receipt.plan.operations))
    wanted = {operations} if isinstance(operations, int) else set(operations or every)
    unknown = sorted(wanted - set(every))
    if unknown:
        # A person counts them from 1.
        why = f"there is no operation {unknown[0] + 1}"
        raise _nothing_to_undo("op", why, f"choose 1 to {len(every)}")
    chosen = tuple(sorted(wanted.difference(_undone(receipt))))
    if not chosen:
        raise _nothing_to_undo("undone", "it is already undone", "nothing to do")
    return chosen


def _undone(receipt: CompactionReceipt) -> tuple[int, ...]:
    return receipt.now.undone if receipt.now else ()


def _nothing_to_undo(check: str, why: str, what_to_do: str) -> CompactionRefusedError:
    return refusal_error(RefusalKind.NOTHING, check, why, what_to_do)


def _target_gone(receipt: CompactionReceipt) -> CompactionRefusedError:
    why = f"{receipt.target} is gone"
    return refusal_error(RefusalKind.UNSAFE, "gone", why, "resume the session it came from")


def _undo_operations(
    receipt: CompactionReceipt, numbers: tuple[int, ...], session: CompactionTarget
) -> WrittenVersion:
    path, state_folder = Path(receipt.target), session.state_folder
    if receipt.now is None or not path.exists():
        raise _target_gone(receipt)
    seen = path.stat()
    own = _own_version(receipt, state_folder)
    is_own_write = own is not None and seen.st_size == own.size
    if is_own_write or ReceiptStore(state_folder).wrote_last(path):
        # Nothing was written since our own change, or a later one of ours: no need to wait.
        wait_times = dataclasses.replace(session.wait_times, idle_s=0.0)
        session = dataclasses.replace(session, wait_times=wait_times)
    session_id = receipt.new_session_id or receipt.session_id
    require_idle(session, path, session_id, own.size if own else 0)
    with _restored_file(receipt, numbers, state_folder, own) as chunks:
        new = files.write_temporary(path, chunks, seen)
    with files.removed_on_error(new):
        plans.refuse_if_any(RefusalKind.UNVERIFIED, verify_permissions(new, seen))
        sha256, size = files.hash_file(new)
        if own is not None:
            _require_base(receipt, numbers, sha256)
            with _base_lines(receipt, state_folder) as lines:
                parents = new_parents(lines, _operations_in(receipt, numbers))
            append_later_lines(new, path, own.size, parents)
        left = files.hash_file(new)
        session.read_entries(new)
    undone = tuple(sorted({*receipt.now.undone, *numbers}))
    whole = None if left == (sha256, size) else left
    version = WrittenVersion(sha256, size, undone, mixed=own is None, whole=whole)
    commit(
        replace(receipt, pending=version),
        state_folder,
        lambda: atomic_replace(new, path, seen, session.wait_times),
    )
    return version


def _own_version(receipt: CompactionReceipt, state_folder: Path) -> WrittenVersion | None:
    """Return the version that the remaining operations produce; None if the file differs.

    Other changes in it may have been undone since, so a file with such changes is checked again.
    """
    path, version = Path(receipt.target), receipt.now
    if version is None or not path.exists():
        return None
    if version.mixed:
        with _restored_from_base(receipt, (), state_folder) as chunks:
            version = WrittenVersion(*files.hash_blocks(chunks), version.undone)
    return version if begins_with_version(path, version) else None


@contextmanager
def _restored_file(
    receipt: CompactionReceipt,
    numbers: tuple[int, ...],
    state_folder: Path,
    own: WrittenVersion | None,
) -> Iterator[Iterator[bytes]]:
    """Make a file without some operations; without an `own` version others have changed it too."""
    path, operations = Path(receipt.target), _operations_in(receipt, numbers)
    if own is not None:
        with _restored_from_base(receipt, numbers, state_folder) as lines:
            yield lines
    elif receipt.mode is ApplyMode.APPEND:
        yield lines_without_appended(path, operations)
    else:
        with _base_lines(receipt, state_folder) as lines:
            yield lines_with_old_values(path, lines, operations, _transform_of(receipt))


@contextmanager
def _restored_from_base(
    receipt: CompactionReceipt, numbers: tuple[int, ...], state_folder: Path
) -> Iterator[Iterator[bytes]]:
    left = {*range(len(receipt.plan.operations))} - {*_undone(receipt), *numbers}
    with _base_lines(receipt, state_folder) as lines:
        rewritten = rewritten_lines.rewrite_lines(
            lines, _operations_in(receipt, left), _transform_of(receipt)
        )
        yield rewritten_lines.lines_after(rewritten)


def _require_base(receipt: CompactionReceipt, chosen: tuple[int, ...], sha256: str) -> None:
    """V21: with all of it undone the file is, byte for byte, what it was."""
    undone = {*_undone(receipt), *chosen}
    whole = len(undone) == len(receipt.plan.operations) and receipt.mode is not ApplyMode.FORK
    if whole and sha256 != receipt.plan.base_sha256:
        raise refusal_error(
            RefusalKind.UNVERIFIED, "V21", "the result would not match the original",
            "the file was not changed; restore the receipt's copy by hand, and report it",
        )  # fmt: skip


def _operations_in(receipt: CompactionReceipt, numbers: Collection[int]) -> list[Operation]:
    return [each for n, each in enumerate(receipt.plan.operations) if n in numbers]


def _transform_of(receipt: CompactionReceipt) -> LineTransform:
    if receipt.new_session_id is None:
        return rewritten_lines.NO_TRANSFORM
    return rewritten_lines.fork_transform(receipt.session_id, receipt.new_session_id, receipt.title)


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
            "the backup is gone or damaged",
            f"restore it: {backups.path(receipt.backup or plan.base_sha256)}",
        )
    with files.open_regular_file(transcript) as file:
        yield files.read_lines(file, plan.base_bytes)


class _ReplacedValue(NamedTuple):
    pointer: str
    old: bytes
    new: bytes


def lines_with_old_values(
    path: Path, base: Iterable[bytes], operations: Sequence[Operation], transform: LineTransform
) -> Iterator[bytes]:
    """Yield a file's lines with old values restored where they still hold the value we wrote.

    Values are found by uuid and pointer. Raises CompactionRefusedError if one is missing.
    """
    replaced = _replaced_values(base, operations, transform)
    missing = {(uuid, value.pointer) for uuid, values in replaced.items() for value in values}
    with files.open_regular_file(path) as file:
        for line in file:
            uuid = _value_or_none(line, "/uuid")
            for value in replaced.get(uuid, ()) if uuid else ():
                if _value_or_none(line, value.pointer) == value.new:
                    line = replace_value(line, value.pointer, value.old)  # noqa: PLW2901
                    missing.discard((uuid, value.pointer))
            yield line
    if missing:
        raise _undo_later_first(f"{len(missing)} values have changed since")


def _replaced_values(
    base: Iterable[bytes], operations: Sequence[Operation], transform: LineTransform
) -> dict[bytes, list[_ReplacedValue]]:
    """Return the values that operations replaced, by the uuid of their line."""
    edits: dict[int, list[plans.ReplaceValue]] = {}
    for edit in edits_of(operations):
        if not isinstance(edit, plans.ReplaceValue):
            raise _undo_later_first("lines were removed or added")
        edits.setdefault(edit.line, []).append(edit)
    values: dict[bytes, list[_ReplacedValue]] = {}
    for number, line in enumerate(base, 1):
        for edit in edits.get(number, ()):
            uuid = _value_or_none(line, "/uuid")
            if uuid is None:
                raise _undo_later_first(f"line {number} has no uuid")
            old = read_value(transform.transform_existing(line), edit.pointer)
            value = _ReplacedValue(edit.pointer, old, edit.value.encode())
            values.setdefault(uuid, []).append(value)
    return values


def lines_without_appended(path: Path, operations: Sequence[Operation]) -> Iterator[bytes]:
    """Yield a file's lines without those that operations appended, wherever they are now.

    The base is not needed, since appending changed nothing in it. Raises CompactionRefusedError
    if an appended line is missing.
    """
    edits = edits_of(operations)
    missing = {appended_line(edit) for edit in edits if isinstance(edit, plans.AppendLine)}
    parents = _parents_of_appended(operations)
    with files.open_regular_file(path) as file:
        for line in file:
            if line in missing:
                missing.discard(line)
            else:
                yield _with_new_parent(line, parents)
    if missing:
        raise _undo_later_first(f"{len(missing)} lines that were added are gone")


def append_later_lines(
    new: Path, path: Path, start: int, new_parents: Mapping[str, str | None]
) -> None:
    """Append what a file holds behind `start`; children of the lines in `new_parents` get those."""
    with files.open_regular_file(path) as file:
        file.seek(start)
        lines = (_with_new_parent(line, new_parents) for line in file)
        with open(new, "r+b", buffering=0) as head:  # noqa: PTH123 -- ours, unbuffered
            size = head.seek(0, os.SEEK_END)
            if new_parents and os.fstat(file.fileno()).st_size > start and size:
                head.seek(-1, os.SEEK_END)
                if head.read(1) != b"\n":
                    files.write_all(head.fileno(), [b"\n"])
            files.write_all(head.fileno(), lines)
            os.fsync(head.fileno())


def _undo_later_first(why: str) -> CompactionRefusedError:
    what_to_do = "it has changed since: undo the later receipts first"
    return refusal_error(RefusalKind.UNSAFE, "changed", why, what_to_do)


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
    removed = {edit.line for edit in edits_of(operations) if isinstance(edit, plans.RemoveLine)}
    if not removed:
        return {}
    ends: dict[str, str] = {}
    roots: dict[str, str] = {}
    continued: set[str] = set()
    for number, line in enumerate(base, 1):
        uuid, parent = _text_at(line, "/uuid"), _text_at(line, f"/{_PARENT_KEY}")
        if uuid is None or parent is None:
            continue
        root = roots.get(parent, parent)
        if number in removed:
            roots[uuid] = root
            ends[root] = uuid
        else:
            continued.add(root)
    return {root: end for root, end in ends.items() if root not in continued}


def _parents_of_appended(operations: Sequence[Operation]) -> dict[str, str | None]:
    parents: dict[str, str | None] = {}
    for edit in edits_of(operations):
        if isinstance(edit, plans.AppendLine):
            line = json.loads(appended_line(edit))
            if "uuid" in line:
                parents[line["uuid"]] = line.get(_PARENT_KEY) or line.get("logicalParentUuid")
    return {uuid: nearest_remaining(parent, parents) for uuid, parent in parents.items()}


def _text_at(line: bytes, pointer: str) -> str | None:
    value = _value_or_none(line, pointer)
    text = json.loads(value) if value else None
    return text if isinstance(text, str) else None


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
