"""Applying a plan: in a fork, in place, or by appending to the session."""

from __future__ import annotations

import hashlib
import os
import time
import uuid
from collections.abc import Callable, Iterator
from enum import StrEnum
from pathlib import Path
from typing import Final

from msgspec.structs import replace

from ..files.file_operations import (
    hash_file,
    open_regular_file,
    open_to_append,
    read_lines,
    remove_if_present,
    sync_folder,
    write_all,
    write_temporary,
)
from .commit import begins_with_version, commit, recover_interrupted
from .compaction_target import CompactionTarget, atomic_replace, require_idle, session_lock
from .plan import CompactionPlan, CompactionRefusedError, RefusalKind, refusal_error
from .receipts import (
    MAX_BACKUP_BYTES,
    ApplyMode,
    BackupStore,
    CompactionReceipt,
    MtimeHandling,
    ReceiptStore,
    WrittenVersion,
    new_receipt_id,
)
from .rewritten_lines import (
    NO_TRANSFORM,
    EditMismatchError,
    LineTransform,
    RewrittenLine,
    copy_session_files,
    fork_title,
    fork_transform,
    lines_after,
    link_file_history,
    rewrite_lines,
)
from .verify import PASSED_CHECKS, verify_lines, verify_permissions, verify_visible_messages


class ApplyStage(StrEnum):
    """A stage of applying a plan; each is reported when it begins."""

    COPY = "copy"  # the transcript is backed up
    WRITE = "write"  # the new file is written beside it
    VERIFY = "verify"  # the new file is read again and compared with the plan
    REPLACE = "put"  # it takes its place, as soon as nobody writes


ReportStage = Callable[[ApplyStage], object]


def ignore_stage(stage: ApplyStage) -> None:
    """Do nothing: the default of `report_stage`."""


PLAN_AGAIN: Final = "plan again"


def apply_plan(
    plan: CompactionPlan,
    mode: ApplyMode,
    target: CompactionTarget,
    report_stage: ReportStage = ignore_stage,
) -> CompactionReceipt:
    """Carry a plan out, and return its receipt; `report_stage` receives each stage as it begins.

    Raises CompactionRefusedError where a check says no, OSError where a file cannot be used: then
    nothing has changed.
    """
    _require_plan(plan, mode, target)
    carry_out = {ApplyMode.FORK: _fork, ApplyMode.IN_PLACE: _in_place, ApplyMode.APPEND: _append}[
        mode
    ]
    with session_lock(target, target.session_id):
        recover_interrupted(target.state_folder, target.session_id, target.transcript)
        _require_not_applied(plan, mode, target)
        try:
            return carry_out(plan, target, report_stage)
        except EditMismatchError as error:
            raise refusal_error(RefusalKind.UNSAFE, "plan", str(error), PLAN_AGAIN) from error
        except OSError:
            recover_interrupted(target.state_folder, target.session_id, target.transcript)
            raise


def _nothing_to_apply(why: str) -> CompactionRefusedError:
    """V22: what is carried out a second time changes nothing."""
    return refusal_error(
        RefusalKind.NOTHING, "V22", f"the plan would change nothing: {why}", "there is no need"
    )


def _require_not_applied(plan: CompactionPlan, mode: ApplyMode, target: CompactionTarget) -> None:
    for each in ReceiptStore(target.state_folder).all():
        now = each.now
        if (each.plan.plan_id, each.mode) != (plan.plan_id, mode) or mode is ApplyMode.FORK:
            continue
        if now is not None and not now.undone and begins_with_version(target.transcript, now):
            raise _nothing_to_apply(f"receipt {each.receipt_id} did it")


def _require_plan(plan: CompactionPlan, mode: ApplyMode, target: CompactionTarget) -> None:
    if plan.refused:
        raise CompactionRefusedError(RefusalKind.UNSAFE, plan.refused)
    if not plan.operations:
        raise refusal_error(
            RefusalKind.NOTHING, "empty", "the plan holds no operation", "choose a higher level"
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
    plan: CompactionPlan, subject: CompactionTarget, report_stage: ReportStage
) -> CompactionReceipt:
    report_stage(ApplyStage.COPY)
    backup = _back_up(plan, subject)
    own = str(uuid.uuid4())
    target = subject.transcript.with_name(f"{own}.jsonl")
    title = fork_title(subject.transcript, subject.read_entries(subject.transcript))
    temporary, version = _write_verified(
        plan, subject, fork_transform(subject.session_id, own, title), report_stage
    )
    receipt = replace(
        _new_receipt(plan, subject, ApplyMode.FORK, target, backup, version),
        new_session_id=own,
        resume_command=subject.resume_command(own),
        title=title,
    )

    def write() -> None:
        copy_session_files(subject.transcript, own, subject.session_id)
        link_file_history(subject.transcript, own)
        # Unlike a rename this fails where the name is taken.
        target.hardlink_to(temporary)
        remove_if_present(temporary)
        sync_folder(target.parent)

    report_stage(ApplyStage.REPLACE)
    return commit(receipt, subject.state_folder, write)


def _in_place(
    plan: CompactionPlan, subject: CompactionTarget, report_stage: ReportStage
) -> CompactionReceipt:
    target = subject.transcript
    require_idle(subject, target, subject.session_id)
    seen = target.stat()
    report_stage(ApplyStage.COPY)
    backup = _back_up(plan, subject)
    backups = BackupStore(subject.state_folder)
    if backups.total_bytes() > MAX_BACKUP_BYTES:
        raise refusal_error(
            RefusalKind.UNSAFE,
            "backup-room",
            f"the copies in {backups.folder} take over 2 GiB",
            "undo what is no longer needed, or make a fork",
        )
    temporary, version = _write_verified(plan, subject, NO_TRANSFORM, report_stage)
    receipt = _new_receipt(plan, subject, ApplyMode.IN_PLACE, target, backup, version)
    receipt = replace(receipt, now=_base_version(plan))

    def write() -> None:
        if hash_file(target, plan.base_bytes)[0] != plan.base_sha256:
            remove_if_present(temporary)
            raise refusal_error(
                RefusalKind.UNSAFE, "V24", "the transcript was rewritten meanwhile", PLAN_AGAIN
            )
        atomic_replace(temporary, target, seen, subject.wait_times)

    report_stage(ApplyStage.REPLACE)
    return commit(receipt, subject.state_folder, write)


def _append(
    plan: CompactionPlan, subject: CompactionTarget, report_stage: ReportStage
) -> CompactionReceipt:
    target = subject.transcript
    require_idle(subject, target, subject.session_id)
    _require_base(plan, *hash_file(target))
    temporary, version = _write_verified(plan, subject, NO_TRANSFORM, report_stage)
    with open_regular_file(temporary) as file:
        file.seek(plan.base_bytes)
        added = file.read()
    remove_if_present(temporary)
    receipt = replace(
        _new_receipt(plan, subject, ApplyMode.APPEND, target, None, version),
        now=_base_version(plan),
    )

    def write() -> None:
        with open_to_append(target) as descriptor:
            if os.fstat(descriptor).st_size != plan.base_bytes:
                raise refusal_error(
                    RefusalKind.LIVE, "changed", "the transcript grew meanwhile", PLAN_AGAIN
                )
            write_all(descriptor, [added])
        if not begins_with_version(target, version):
            # Settling takes them out again.
            raise refusal_error(
                RefusalKind.LIVE, "late-write", "a client wrote at the same time", PLAN_AGAIN
            )

    report_stage(ApplyStage.REPLACE)
    return commit(receipt, subject.state_folder, write)


def _back_up(plan: CompactionPlan, target: CompactionTarget) -> str:
    backups = BackupStore(target.state_folder)
    size = target.transcript.stat().st_size
    name = backups.back_up(target.transcript, size)
    _require_base(plan, name, size)
    receipts, now = ReceiptStore(target.state_folder), _now_ms()
    if not receipts.unreadable():
        # What such a receipt needs is not known: then nothing goes.
        backups.remove_old(receipts.all(), {name}, now)
        receipts.remove_unreferenced_plans(now)
    return name


def _require_base(plan: CompactionPlan, sha256: str, size: int) -> None:
    if (sha256, size) == (plan.base_sha256, plan.base_bytes):
        return
    raise refusal_error(
        RefusalKind.UNSAFE,
        "changed",
        "the transcript is no longer what the plan was made for",
        PLAN_AGAIN,
    )


def _write_verified(
    plan: CompactionPlan,
    target: CompactionTarget,
    transform: LineTransform,
    report_stage: ReportStage,
) -> tuple[Path, WrittenVersion]:
    """Write the file beside the transcript and verify it there. Raises CompactionRefusedError."""
    report_stage(ApplyStage.WRITE)
    origin = target.transcript.stat()
    temporary = write_temporary(
        target.transcript, lines_after(_rewritten_lines(plan, target, transform)), origin
    )
    report_stage(ApplyStage.VERIFY)
    try:
        wrong = [*verify_permissions(temporary, origin)]
        if wrong:
            raise CompactionRefusedError(RefusalKind.UNVERIFIED, wrong)
        _require_verified(plan, target, temporary, _rewritten_lines(plan, target, transform))
        sha256, size = hash_file(temporary)
        if sha256 == plan.base_sha256:
            raise _nothing_to_apply("the transcript is already what it makes of it")
    except BaseException:
        remove_if_present(temporary)
        raise
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

    with open_regular_file(target.transcript) as file:
        lines = hashed(read_lines(file, plan.base_bytes))
        yield from rewrite_lines(lines, plan.operations, transform)
    _require_base(plan, digest.hexdigest(), plan.base_bytes)


def _require_verified(
    plan: CompactionPlan, target: CompactionTarget, path: Path, lines: Iterator[RewrittenLine]
) -> None:
    before = [
        each for each in target.read_entries(target.transcript) if each.offset < plan.base_bytes
    ]
    wrong = [
        *verify_lines(path, lines, plan.operations),
        *verify_visible_messages(before, target.read_entries(path), plan.operations),
    ]
    if wrong:
        raise CompactionRefusedError(RefusalKind.UNVERIFIED, wrong)


def _base_version(plan: CompactionPlan) -> WrittenVersion:
    return WrittenVersion(plan.base_sha256, plan.base_bytes, tuple(range(len(plan.operations))))


def _new_receipt(
    plan: CompactionPlan,
    subject: CompactionTarget,
    mode: ApplyMode,
    target: Path,
    backup: str | None,
    version: WrittenVersion,
) -> CompactionReceipt:
    return CompactionReceipt(
        receipt_id=new_receipt_id(),
        session_id=subject.session_id,
        new_session_id=None,
        mode=mode,
        at=_now_ms(),
        transcript=str(subject.transcript),
        target=str(target),
        backup=backup,
        verified=PASSED_CHECKS,
        resume_command=subject.resume_command(subject.session_id),
        mtime=MtimeHandling.KEPT if mode is ApplyMode.IN_PLACE else MtimeHandling.NEW,
        plan=plan,
        now=None,
        pending=version,
        automatic=subject.automatic_reason,
    )


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
