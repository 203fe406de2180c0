"""Applies a plan in a fork, in place or by appending; recovers changes that were interrupted."""

import hashlib
import os
import time
import uuid
from collections.abc import Callable, Iterator
from enum import StrEnum
from pathlib import Path
from typing import Final

from msgspec.structs import replace

from ..files import file_operations as files
from ..files.file_operations import write_temporary
from . import compaction_target, rewritten_lines
from . import plan as plans
from . import receipts as receipt_store
from .compaction_target import CompactionTarget, atomic_replace
from .plan import CompactionPlan, CompactionRefusedError, RefusalKind, refusal_error
from .receipts import (
    MIB,
    ApplyMode,
    BackupStore,
    CompactionReceipt,
    ReceiptStore,
    WrittenVersion,
    new_receipt_id,
)
from .rewritten_lines import NO_TRANSFORM, LineTransform, RewrittenLine
from .verify import PASSED_CHECKS, verify_lines, verify_permissions, verify_visible_messages


class ApplyStage(StrEnum):
    COPY = "copy"  # the transcript is backed up
    WRITE = "write"  # the new file is written beside it
    VERIFY = "verify"  # the new file is read again and compared with the plan
    REPLACE = "put"  # it replaces the transcript as soon as nobody writes


ReportStage = Callable[[ApplyStage], object]


PLAN_AGAIN: Final = "plan again"


def apply_plan(
    plan: CompactionPlan,
    mode: ApplyMode,
    target: CompactionTarget,
    report_stage: ReportStage = lambda _: None,
) -> CompactionReceipt:
    """Apply a plan and return its receipt; `report_stage` receives each stage as it begins.

    Raises CompactionRefusedError if a check fails, OSError if a file cannot be used: then
    nothing has changed.
    """
    _require_plan(plan, mode, target)
    apply = {ApplyMode.FORK: _fork, ApplyMode.IN_PLACE: _in_place, ApplyMode.APPEND: _append}[mode]
    with compaction_target.session_lock(target, target.session_id):
        recover_interrupted(target.state_folder, target.session_id, target.transcript)
        _require_not_applied(plan, mode, target)
        try:
            return apply(_dated(plan, target), target, report_stage)
        except rewritten_lines.EditMismatchError as error:
            raise refusal_error(RefusalKind.UNSAFE, "plan", str(error), PLAN_AGAIN) from error
        except OSError:
            recover_interrupted(target.state_folder, target.session_id, target.transcript)
            raise


def _dated(plan: CompactionPlan, target: CompactionTarget) -> CompactionPlan:
    """Write into appended lines when they are written, and whether a person asked for it.

    A plan repeats the time of the session's last line, so that the same plan has the same id.
    """
    is_manual = target.automatic_reason is None
    trigger = plans.MANUAL_TRIGGER if is_manual else plans.AUTOMATIC_TRIGGER
    operations = rewritten_lines.date_appended_lines(plan.operations, _now_ms(), trigger)
    size = plan.bytes_before - sum(each.bytes_saved for each in operations)
    return replace(plan, operations=operations, bytes_after=size)


def _nothing_to_apply(why: str) -> CompactionRefusedError:
    """V22: applying a plan a second time changes nothing."""
    return refusal_error(
        RefusalKind.NOTHING, "V22", f"the plan would change nothing: {why}", "nothing to do"
    )


def _require_not_applied(plan: CompactionPlan, mode: ApplyMode, target: CompactionTarget) -> None:
    for receipt in ReceiptStore(target.state_folder).all() if mode is not ApplyMode.FORK else ():
        now = receipt.now
        is_same = receipt.plan.plan_id == plan.plan_id and receipt.mode is mode
        if is_same and now and not now.undone and begins_with_version(target.transcript, now):
            raise _nothing_to_apply(f"receipt {receipt.receipt_id} already applied it")


def _require_plan(plan: CompactionPlan, mode: ApplyMode, target: CompactionTarget) -> None:
    if plan.refused:
        raise CompactionRefusedError(RefusalKind.UNSAFE, plan.refused)
    if not plan.operations:
        raise refusal_error(
            RefusalKind.NOTHING, "empty", "the plan has no operations", "choose a higher level"
        )
    if plan.session_id != target.session_id:
        raise refusal_error(
            RefusalKind.UNSAFE, "session", "the plan is for another session", PLAN_AGAIN
        )
    if mode is ApplyMode.APPEND and not plan.only_appends:
        raise refusal_error(
            RefusalKind.UNSAFE, "mode", "the plan rewrites lines", "make a fork of it"
        )


def _fork(
    plan: CompactionPlan, target: CompactionTarget, report_stage: ReportStage
) -> CompactionReceipt:
    report_stage(ApplyStage.COPY)
    transcript = target.transcript
    backup = _back_up(plan, target)
    fork_id = str(uuid.uuid4())
    fork = transcript.with_name(f"{fork_id}.jsonl")
    title = rewritten_lines.fork_title(transcript, target.read_entries(transcript))
    transform = rewritten_lines.fork_transform(target.session_id, fork_id, title)
    temporary, version = _write_verified(plan, target, transform, report_stage)
    receipt = replace(
        _new_receipt(plan, target, ApplyMode.FORK, fork, backup, version),
        new_session_id=fork_id,
        resume_command=target.resume_command(fork_id),
        title=title,
        strategy=plan.whole_strategy,
    )

    def write() -> None:
        rewritten_lines.copy_session_files(transcript, fork_id, target.session_id)
        rewritten_lines.link_file_history(transcript, fork_id)
        # Unlike a rename this fails if the name is taken.
        fork.hardlink_to(temporary)
        files.remove_if_present(temporary)
        files.sync_folder(fork.parent)

    report_stage(ApplyStage.REPLACE)
    return commit(receipt, target.state_folder, write)


def _in_place(
    plan: CompactionPlan, target: CompactionTarget, report_stage: ReportStage
) -> CompactionReceipt:
    path = target.transcript
    compaction_target.require_idle(target, path, target.session_id)
    seen = path.stat()
    report_stage(ApplyStage.COPY)
    backup = _back_up(plan, target)
    backups = BackupStore(target.state_folder)
    most = target.retention.max_bytes
    if backups.total_bytes() > most:
        raise refusal_error(
            RefusalKind.UNSAFE,
            "backup-room",
            f"the backups in {backups.folder} take over {most // MIB:,} MiB (backup.max_mib)",
            "raise backup.max_mib, undo what is no longer needed, or make a fork",
        )
    temporary, version = _write_verified(plan, target, NO_TRANSFORM, report_stage)
    receipt = _new_receipt(plan, target, ApplyMode.IN_PLACE, path, backup, version)

    def write() -> None:
        if files.hash_file(path, plan.base_bytes)[0] != plan.base_sha256:
            files.remove_if_present(temporary)
            raise refusal_error(
                RefusalKind.UNSAFE,
                "V24",
                "the transcript was rewritten meanwhile",
                PLAN_AGAIN,
            )
        atomic_replace(temporary, path, seen, target.wait_times)

    report_stage(ApplyStage.REPLACE)
    return commit(receipt, target.state_folder, write)


def _append(
    plan: CompactionPlan, target: CompactionTarget, report_stage: ReportStage
) -> CompactionReceipt:
    path = target.transcript
    compaction_target.require_idle(target, path, target.session_id)
    _require_base(plan, *files.hash_file(path))
    temporary, version = _write_verified(plan, target, NO_TRANSFORM, report_stage)
    with files.open_regular_file(temporary) as file:
        file.seek(plan.base_bytes)
        added = file.read()
    files.remove_if_present(temporary)
    receipt = _new_receipt(plan, target, ApplyMode.APPEND, path, None, version)

    def write() -> None:
        with files.open_to_append(path) as descriptor:
            if os.fstat(descriptor).st_size != plan.base_bytes:
                raise refusal_error(
                    RefusalKind.LIVE, "changed", "the transcript grew meanwhile", PLAN_AGAIN
                )
            files.write_all(descriptor, [added])
        if not begins_with_version(path, version):
            # `commit` removes our lines again.
            raise refusal_error(
                RefusalKind.LIVE, "late-write", "Claude Code wrote at the same time", PLAN_AGAIN
            )

    report_stage(ApplyStage.REPLACE)
    return commit(receipt, target.state_folder, write)


def _back_up(plan: CompactionPlan, target: CompactionTarget) -> str:
    backups = BackupStore(target.state_folder)
    size = target.transcript.stat().st_size
    name = backups.back_up(target.transcript, size)
    _require_base(plan, name, size)
    receipts, now = ReceiptStore(target.state_folder), _now_ms()
    if not receipts.unreadable():
        # Nobody knows what an unreadable receipt needs: then nothing is removed.
        backups.remove_old(receipts.all(), {name}, now, target.retention)
        receipts.remove_unreferenced_plans(now)
    return name


def _require_base(plan: CompactionPlan, sha256: str, size: int) -> None:
    if (sha256, size) != (plan.base_sha256, plan.base_bytes):
        why = "the transcript has changed since the plan was made"
        raise refusal_error(RefusalKind.UNSAFE, "changed", why, PLAN_AGAIN)


def _write_verified(
    plan: CompactionPlan,
    target: CompactionTarget,
    transform: LineTransform,
    report_stage: ReportStage,
) -> tuple[Path, WrittenVersion]:
    """Write the file beside the transcript and verify it there. Raises CompactionRefusedError."""
    report_stage(ApplyStage.WRITE)
    origin = target.transcript.stat()
    lines = rewritten_lines.lines_after(_rewritten_lines(plan, target, transform))
    temporary = write_temporary(target.transcript, lines, origin)
    report_stage(ApplyStage.VERIFY)
    with files.removed_on_error(temporary):
        plans.refuse_if_any(RefusalKind.UNVERIFIED, verify_permissions(temporary, origin))
        _require_verified(plan, target, temporary, _rewritten_lines(plan, target, transform))
        sha256, size = files.hash_file(temporary)
        if sha256 == plan.base_sha256:
            raise _nothing_to_apply("the transcript already matches the plan")
    return temporary, WrittenVersion(sha256, size)


def _rewritten_lines(
    plan: CompactionPlan, target: CompactionTarget, transform: LineTransform
) -> Iterator[RewrittenLine]:
    """Read what the plan was made for, hashing it on the way (V24)."""
    digest = hashlib.sha256()

    def hashed(lines: Iterator[bytes]) -> Iterator[bytes]:
        for line in lines:
            digest.update(line)
            yield line

    with files.open_regular_file(target.transcript) as file:
        lines = hashed(files.read_lines(file, plan.base_bytes))
        yield from rewritten_lines.rewrite_lines(lines, plan.operations, transform)
    _require_base(plan, digest.hexdigest(), plan.base_bytes)


def _require_verified(
    plan: CompactionPlan, target: CompactionTarget, path: Path, lines: Iterator[RewrittenLine]
) -> None:
    entries = target.read_entries(target.transcript)
    before = [entry for entry in entries if entry.offset < plan.base_bytes]
    refusals = [
        *verify_lines(path, lines, plan.operations),
        *verify_visible_messages(before, target.read_entries(path), plan.operations),
    ]
    plans.refuse_if_any(RefusalKind.UNVERIFIED, refusals)


def _new_receipt(
    plan: CompactionPlan,
    target: CompactionTarget,
    mode: ApplyMode,
    path: Path,
    backup: str | None,
    version: WrittenVersion,
) -> CompactionReceipt:
    undone = tuple(range(len(plan.operations)))
    base = WrittenVersion(plan.base_sha256, plan.base_bytes, undone)
    return CompactionReceipt(
        receipt_id=new_receipt_id(),
        session_id=target.session_id,
        new_session_id=None,
        mode=mode,
        at=_now_ms(),
        transcript=str(target.transcript),
        target=str(path),
        backup=backup,
        verified=PASSED_CHECKS,
        resume_command=target.resume_command(target.session_id),
        mtime=receipt_store.MtimeHandling.KEPT
        if mode is ApplyMode.IN_PLACE
        else receipt_store.MtimeHandling.NEW,
        plan=plan,
        now=None if mode is ApplyMode.FORK else base,
        pending=version,
        automatic=target.automatic_reason,
    )


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


def commit(
    receipt: CompactionReceipt, state_folder: Path, write_change: Callable[[], None]
) -> CompactionReceipt:
    """Write the pending change, and return the closed receipt.

    On failure everything is as it was; if it fails only after the file was written, the change
    stays. Raises CompactionRefusedError, OSError.
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
        for stored in receipts.find_by_prefix(receipt.receipt_id):
            if stored.now == receipt.pending:
                return stored
        raise
    return closed


def _closed_receipt(receipt: CompactionReceipt) -> CompactionReceipt:
    """Check the written file once more in its final place."""
    version = receipt.pending
    if version is None or files.hash_file(Path(receipt.target), version.size)[0] != version.sha256:
        raise refusal_error(
            RefusalKind.UNVERIFIED,
            "final",
            f"{receipt.target} was changed right after it was written",
            f"check it; its previous content is in {receipt.backup}",
        )
    return replace(receipt, now=version, pending=None)


def recover_interrupted(state_folder: Path, session_id: str, *transcripts: Path) -> None:
    """Recover the open changes of a session and its forks; its lock must be held. Raises OSError.

    Beside `transcripts` something may have been left before there was a receipt.
    """
    receipts = ReceiptStore(state_folder)
    backups = BackupStore(state_folder)
    stores = (receipts, receipts.plan_blobs, backups, backups.chunks)
    for folder in [each.folder for each in stores]:
        receipt_store.remove_leftovers(folder, session_id)
    for receipt in receipts.all():
        if receipt.session_id == session_id and receipt.pending is not None:
            recovered = _recovered_receipt(receipt, receipt.pending)
            if recovered is None:
                receipts.remove(receipt)
            else:
                receipts.write(recovered)
    for path in transcripts:
        compaction_target.recover_leftovers(path)


def _recovered_receipt(
    receipt: CompactionReceipt, pending: WrittenVersion
) -> CompactionReceipt | None:
    """Return the receipt as the file shows it now; None if nothing was written."""
    path = Path(receipt.target)
    compaction_target.recover_leftovers(path)
    if receipt.now is None:
        if begins_with_version(path, pending):
            return replace(receipt, now=pending, pending=None)
        if receipt.mode is ApplyMode.FORK and not path.exists():
            rewritten_lines.remove_fork_files(path)
        return None
    # The longer version first: a file with our appended lines also begins with the shorter one.
    versions = sorted((receipt.now, pending), key=lambda version: -version.size)
    written = next((each for each in versions if begins_with_version(path, each)), None)
    if written is pending:
        return replace(receipt, now=pending, pending=None)
    if len(receipt.now.undone) < len(receipt.plan.operations):
        return replace(receipt, pending=None)
    if receipt.mode is ApplyMode.APPEND:
        remove_appended(path, receipt.plan)
    return None


def begins_with_version(path: Path, version: WrittenVersion) -> bool:
    """Whether a file exists and begins with what we wrote. Raises other OSErrors."""
    try:
        return files.hash_file(path, version.size) == (version.sha256, version.size)
    except FileNotFoundError:
        return False


MAX_TRIES: Final = 20  # a client that writes during every one of them does not pause


def remove_appended(path: Path, plan: CompactionPlan) -> None:
    """Remove a plan's appended lines from behind its base, complete or partly written.

    All other lines stay. Raises OSError, and CompactionRefusedError if a client keeps writing.
    """
    added = b"".join(
        rewritten_lines.appended_line(edit)
        for edit in plans.edits_of(plan.operations)
        if isinstance(edit, plans.AppendLine)
    )
    for tries in range(1, MAX_TRIES + 1):
        seen = path.stat()
        with files.open_regular_file(path) as file:
            file.seek(plan.base_bytes)
            tail = file.read()
        place = tail.find(added)
        if place < 0:
            _cut_partial_write(path, plan.base_bytes, tail, added)
            return
        # Behind a torn line ours began with a line end; another writer's line does not.
        start = 0 if tail[:place] == b"\n" else place
        rest = tail[:start] + tail[place + len(added) :]
        new = write_temporary(path, _with_new_tail(path, plan.base_bytes, rest), seen)
        try:
            atomic_replace(new, path, seen, compaction_target.WaitTimes())
        except CompactionRefusedError:
            if tries == MAX_TRIES:
                raise
        else:
            return


def _with_new_tail(path: Path, size: int, rest: bytes) -> Iterator[bytes]:
    with files.open_regular_file(path) as file:
        yield from files.read_blocks(file, size)
    yield rest


def _cut_partial_write(path: Path, base: int, tail: bytes, added: bytes) -> None:
    """Cut off a beginning of our lines at the end of the file, left by an unfinished write."""
    torn = tail[tail.rfind(b"\n") + 1 :]
    begun = [n for n in range(len(added), 0, -1) if tail.endswith(added[:n])]
    if begun and begun[0] >= len(torn):
        place = len(tail) - begun[0]
        os.truncate(path, base + (0 if tail[:place] == b"\n" else place))
    elif tail == b"\n":
        os.truncate(path, base)
