"""Carrying out a plan: in a fork, in place, or at the end of the session (compaction 7.3).

Whatever is interrupted leaves the transcript as it was or as it was to be, with every line that
a client wrote meanwhile; `settle` clears up after a process that was killed.
"""

from __future__ import annotations

import hashlib
import os
import time
import uuid
from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from .backups import ROOM_BYTES, Backups
from .commit import commit
from .files import first_lines, reading, sha256_of, sync_folder, unlink, write_all, write_beside
from .fork import as_fork, copy_beside, link_history
from .image import AS_IT_IS, MismatchError, after, image
from .receipts import Mode, Mtime, Receipt, Receipts, Version, new_id
from .refused import NotAppliedError, Stop, refuse
from .settle import begins_with, settle
from .stage import Stage, untold
from .subject import locked, require_idle
from .swap import swap
from .title import fork_title
from .verify import VERIFIED, verify_lines, verify_list, verify_status

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from .image import ImageLine, Written
    from .plan import Operation, Plan
    from .stage import Tell
    from .subject import Subject

PLAN_AGAIN: Final = "plan again"


def apply_plan(plan: Plan, mode: Mode, target: Subject, report_stage: Tell = untold) -> Receipt:
    """Carry a plan out, and give its receipt; `tell` hears each stage as it begins.

    Raises NotAppliedError where a check says no: then nothing has changed. Raises OSError where
    a file cannot be used: then nothing has changed either.
    """
    _require_plan(plan, mode, target)
    carry_out = {Mode.FORK: _fork, Mode.IN_PLACE: _in_place, Mode.APPEND: _append}[mode]
    with locked(target, target.session_id):
        settle(target.state_folder, target.session_id, target.transcript)
        _require_new(plan, mode, target)
        try:
            return carry_out(plan, target, report_stage)
        except MismatchError as error:
            raise refuse(Stop.UNSAFE, "plan", str(error), PLAN_AGAIN) from error
        except OSError:
            settle(target.state_folder, target.session_id, target.transcript)
            raise


def _nothing(why: str) -> NotAppliedError:
    """V22: what is carried out a second time changes nothing."""
    return refuse(Stop.NOTHING, "V22", f"the plan would change nothing: {why}", "there is no need")


def _require_new(plan: Plan, mode: Mode, target: Subject) -> None:
    for each in Receipts(target.state_folder).all():
        now = each.now
        if (each.plan.plan_id, each.mode) != (plan.plan_id, mode) or mode is Mode.FORK:
            continue
        if now is not None and not now.undone and begins_with(target.transcript, now):
            raise _nothing(f"receipt {each.receipt_id} did it")


def _require_plan(plan: Plan, mode: Mode, target: Subject) -> None:
    if plan.refused:
        raise NotAppliedError(Stop.UNSAFE, plan.refused)
    if not plan.operations:
        raise refuse(Stop.NOTHING, "empty", "the plan holds no operation", "choose a higher level")
    if plan.session_id != target.session_id:
        raise refuse(Stop.UNSAFE, "session", "the plan is for another session", PLAN_AGAIN)
    if mode is Mode.APPEND and not plan.only_appends:
        raise refuse(Stop.UNSAFE, "mode", "the plan rewrites lines", "make a fork of it")


def _fork(plan: Plan, subject: Subject, report_stage: Tell) -> Receipt:
    report_stage(Stage.COPY)
    backup = _back_up(plan, subject)
    own = str(uuid.uuid4())
    target = subject.transcript.with_name(f"{own}.jsonl")
    title = fork_title(subject.transcript, subject.read_entries(subject.transcript))
    temporary, version = _write(
        plan, subject, as_fork(subject.session_id, own, title), report_stage
    )
    receipt = replace(
        _receipt(plan, subject, Mode.FORK, target, backup, version),
        new_session_id=own,
        resume_command=subject.resume_command(own),
        title=title,
    )

    def write() -> None:
        copy_beside(subject.transcript, own, subject.session_id)
        link_history(subject.transcript, own)
        # Unlike a rename this fails where the name is taken.
        target.hardlink_to(temporary)
        unlink(temporary)
        sync_folder(target.parent)

    report_stage(Stage.REPLACE)
    return commit(receipt, subject.state_folder, write)


def _in_place(plan: Plan, subject: Subject, report_stage: Tell) -> Receipt:
    target = subject.transcript
    require_idle(subject, target, subject.session_id)
    seen = target.stat()
    report_stage(Stage.COPY)
    backup = _back_up(plan, subject)
    backups = Backups(subject.state_folder)
    if backups.total_bytes() > ROOM_BYTES:
        raise refuse(
            Stop.UNSAFE,
            "backup-room",
            f"the copies in {backups.folder} take over 2 GiB",
            "undo what is no longer needed, or make a fork",
        )
    temporary, version = _write(plan, subject, AS_IT_IS, report_stage)
    receipt = _receipt(plan, subject, Mode.IN_PLACE, target, backup, version)
    receipt = replace(receipt, now=_unchanged(plan))

    def write() -> None:
        if sha256_of(target, plan.base_bytes)[0] != plan.base_sha256:
            unlink(temporary)
            raise refuse(Stop.UNSAFE, "V24", "the transcript was rewritten meanwhile", PLAN_AGAIN)
        swap(temporary, target, seen, subject.wait_times)

    report_stage(Stage.REPLACE)
    return commit(receipt, subject.state_folder, write)


def _append(plan: Plan, subject: Subject, report_stage: Tell) -> Receipt:
    target = subject.transcript
    require_idle(subject, target, subject.session_id)
    _require_base(plan, *sha256_of(target))
    temporary, version = _write(plan, subject, AS_IT_IS, report_stage)
    with reading(temporary) as file:
        file.seek(plan.base_bytes)
        added = file.read()
    unlink(temporary)
    receipt = replace(
        _receipt(plan, subject, Mode.APPEND, target, None, version), now=_unchanged(plan)
    )

    def write() -> None:
        descriptor = os.open(target, os.O_WRONLY | os.O_APPEND | getattr(os, "O_NOFOLLOW", 0))
        try:
            if os.fstat(descriptor).st_size != plan.base_bytes:
                raise refuse(Stop.LIVE, "changed", "the transcript grew meanwhile", PLAN_AGAIN)
            write_all(descriptor, [added])
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        if not begins_with(target, version):
            # Settling takes them out again.
            raise refuse(Stop.LIVE, "late-write", "a client wrote at the same time", PLAN_AGAIN)

    report_stage(Stage.REPLACE)
    return commit(receipt, subject.state_folder, write)


def _back_up(plan: Plan, target: Subject) -> str:
    backups = Backups(target.state_folder)
    size = target.transcript.stat().st_size
    name = backups.back_up(target.transcript, size)
    _require_base(plan, name, size)
    receipts, now = Receipts(target.state_folder), _now_ms()
    if not receipts.unreadable():
        # What such a receipt needs is not known: then nothing goes.
        backups.remove_old(receipts.all(), {name}, now)
        receipts.remove_unreferenced_plans(now)
    return name


def _require_base(plan: Plan, sha256: str, size: int) -> None:
    if (sha256, size) == (plan.base_sha256, plan.base_bytes):
        return
    raise refuse(
        Stop.UNSAFE, "changed", "the transcript is no longer what the plan was made for", PLAN_AGAIN
    )


def _write(
    plan: Plan, target: Subject, transform: Written, report_stage: Tell
) -> tuple[Path, Version]:
    """Write the file beside the transcript and verify it there. Raises NotAppliedError."""
    report_stage(Stage.WRITE)
    origin = target.transcript.stat()
    temporary = write_beside(target.transcript, after(_image(plan, target, transform)), origin)
    report_stage(Stage.VERIFY)
    try:
        wrong = [*verify_status(temporary, origin)]
        if wrong:
            raise NotAppliedError(Stop.UNVERIFIED, wrong)
        _require_verified(plan, target, temporary, _image(plan, target, transform))
        sha256, size = sha256_of(temporary)
        if sha256 == plan.base_sha256:
            raise _nothing("the transcript is already what it makes of it")
    except BaseException:
        unlink(temporary)
        raise
    return temporary, Version(sha256, size)


def _image(plan: Plan, target: Subject, transform: Written) -> Iterator[ImageLine]:
    """Read what the plan was made for, hashing it on the way (V24)."""
    digest = hashlib.sha256()

    def hashed(lines: Iterator[bytes]) -> Iterator[bytes]:
        for line in lines:
            digest.update(line)
            yield line

    with reading(target.transcript) as file:
        lines = hashed(first_lines(file, plan.base_bytes))
        yield from image(lines, plan.operations, transform)
    _require_base(plan, digest.hexdigest(), plan.base_bytes)


def _require_verified(plan: Plan, target: Subject, path: Path, lines: Iterator[ImageLine]) -> None:
    before = [
        each for each in target.read_entries(target.transcript) if each.offset < plan.base_bytes
    ]
    wrong = [
        *verify_lines(path, lines, plan.operations),
        *verify_list(before, target.read_entries(path), plan.operations),
    ]
    if wrong:
        raise NotAppliedError(Stop.UNVERIFIED, wrong)


def _unchanged(plan: Plan) -> Version:
    return Version(plan.base_sha256, plan.base_bytes, every(plan.operations))


def every(operations: Sequence[Operation]) -> tuple[int, ...]:
    """Number all operations."""
    return tuple(range(len(operations)))


def _receipt(
    plan: Plan, subject: Subject, mode: Mode, target: Path, backup: str | None, version: Version
) -> Receipt:
    return Receipt(
        receipt_id=new_id(),
        session_id=subject.session_id,
        new_session_id=None,
        mode=mode,
        at=_now_ms(),
        transcript=str(subject.transcript),
        target=str(target),
        backup=backup,
        verified=VERIFIED,
        resume_command=subject.resume_command(subject.session_id),
        mtime=Mtime.KEPT if mode is Mode.IN_PLACE else Mtime.NEW,
        plan=plan,
        now=None,
        pending=version,
        automatic=subject.automatic_reason,
    )


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
