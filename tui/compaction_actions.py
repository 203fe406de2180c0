"""Applies a plan, undoes a receipt, or lets the client compact; a failure becomes lines."""

from __future__ import annotations

import errno
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ..core.compaction.plan import CompactionRefusedError
from ..core.compaction.receipts import ApplyMode

if TYPE_CHECKING:
    from collections.abc import Collection

    from ..collectors.client_compact.compact_outcome import ClientCompactResult
    from ..collectors.places import Places
    from ..core.compaction.apply import ReportStage
    from ..core.compaction.compaction_target import CompactionTarget
    from ..core.compaction.plan import CompactionPlan, Refusal
    from ..core.compaction.receipts import CompactionReceipt
    from ..core.compaction.undo import UndoResult
    from ..core.model.session import Session


_FIXES: Final = {
    errno.EACCES: "let your user write there and try again",
    errno.EPERM: "let your user write there and try again",
    errno.EROFS: "make the file system writable and try again",
    errno.ENOSPC: "free some space and try again",
    errno.EDQUOT: "free some of your quota and try again",
    errno.ENOENT: "look whether it was moved or removed",
}


def unchanged_message(error: OSError, path: Path) -> str:
    """Format a file error: why nothing was changed, and what to do."""
    where = error.filename or path
    why = error.strerror or str(error)
    remedy = _FIXES.get(error.errno or 0, "try again")
    return f"{where}: {why}: nothing was changed; {remedy}"


@dataclass(frozen=True, slots=True)
class ActionFailure:
    """Nothing was changed."""

    why: tuple[str, ...]
    """One line each: what said no, and what to do."""


def apply_compaction(
    places: Places, session: Session, plan: CompactionPlan, mode: ApplyMode, on_stage: ReportStage
) -> CompactionReceipt | ActionFailure:
    """Carry a plan out; `tell` hears each stage as it begins."""
    from ..core.compaction.apply import apply_plan

    subject = target_of_session(places, session)
    try:
        return apply_plan(plan, mode, subject, on_stage)
    except CompactionRefusedError as error:
        return ActionFailure(_refusal_lines(error))
    except OSError as error:
        return ActionFailure((unchanged_message(error, subject.transcript),))


def in_place_mode(plan: CompactionPlan) -> ApplyMode:
    """Return the mode that applies a plan to the session itself."""
    return ApplyMode.APPEND if plan.only_appends else ApplyMode.IN_PLACE


def in_place_refusal(places: Places, session: Session) -> Refusal | None:
    """Return why a session cannot be changed in place now; None if it can. Raises OSError."""
    from ..core.compaction.compaction_target import require_idle

    subject = target_of_session(places, session)
    try:
        require_idle(subject, subject.transcript, session.session_id)
    except CompactionRefusedError as error:
        return error.refusals[0]
    return None


def undo_receipt(
    places: Places, receipt: CompactionReceipt, numbers: Collection[int] | None
) -> UndoResult | ActionFailure:
    """Undo a receipt, or only the operations with these numbers, counted from 0."""
    from ..collectors.actions.session_target import compaction_target
    from ..core.compaction.undo import undo

    written = receipt.new_session_id or receipt.session_id
    target = Path(receipt.target)
    subject = compaction_target(places.folder, places.store, written, target, None)
    try:
        return undo(receipt.receipt_id, numbers, subject)
    except CompactionRefusedError as error:
        return ActionFailure(_refusal_lines(error))
    except OSError as error:
        return ActionFailure((unchanged_message(error, target),))


def compact_with_client(
    places: Places, session: Session, instructions: str
) -> ClientCompactResult | ActionFailure:
    """Compact a session with the client, and wait until it is done."""
    from ..collectors.actions.session_target import run_folder
    from ..collectors.client_compact.client_compaction import ClientCompactTarget, ask_to_compact
    from ..collectors.client_compact.client_run import explicit_config_dir
    from ..collectors.client_compact.compact_outcome import NotCompactedError, Via
    from ..collectors.plugin.compact_requests import instruction_problem, is_session_id

    wrong = instruction_problem(instructions)
    if wrong:
        return ActionFailure((wrong,))
    if not is_session_id(session.session_id):
        return ActionFailure((f"{session.session_id} is no id that the client resumes",))
    transcript = places.folder.projects / session.path
    target = ClientCompactTarget(
        session_id=session.session_id,
        transcript=transcript,
        project_root=run_folder(session),
        folder=places.folder,
        store=places.store,
        config_dir=explicit_config_dir(places.folder.root),
    )
    try:
        return ask_to_compact(target, Via.AUTO, instructions)
    except NotCompactedError as error:
        return ActionFailure((str(error),))
    except OSError as error:
        return ActionFailure((unchanged_message(error, transcript),))


def target_of_session(places: Places, session: Session) -> CompactionTarget:
    """Look after a session: its transcript is read, and the client's registry is asked."""
    from ..collectors.actions.session_target import compaction_target, resume_folder

    transcript = places.folder.projects / session.path
    resumed_in = resume_folder(session)
    return compaction_target(
        places.folder, places.store, session.session_id, transcript, resumed_in
    )


def _refusal_lines(error: CompactionRefusedError) -> tuple[str, ...]:
    return tuple(f"{each.check}: {each.why}: {each.what_to_do}" for each in error.refusals)
