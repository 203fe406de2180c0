"""Plan, apply and undo a compaction: for commands, pages and automation alike."""

import errno
import sqlite3
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, TypeVar

import msgspec
from msgspec.structs import replace

from ..compaction import plan as plans
from ..compaction import receipts as receipt_store
from ..compaction.apply import ReportStage, apply_plan
from ..compaction.compaction_target import CompactionTarget, require_idle
from ..compaction.plan import (
    CompactionPlan,
    CompactionRefusedError,
    PlanOptions,
    Refusal,
    ResultCaps,
)
from ..compaction.receipts import ApplyMode, CompactionReceipt, ReceiptState, ReceiptStore
from ..compaction.transcript_planning import PlanDraft
from ..compaction.transcript_reading import EntryReader, PlanSource
from ..compaction.transcript_view import TranscriptView, check_transcript_size, open_transcript
from ..compaction.turn_restoring import RestoredTurn, read_turn
from ..compaction.undo import UndoResult, find_undo_obstacle, undo
from ..policy.policy import Policy
from ..store.database import state_folder
from ..store.token_samples import read_part_counters
from ..summaries.key_messages import read_importance_settings
from ..summaries.rule_choices import read_rule_choices
from ..transcript.entry_decoder import iter_entries
from . import session_access
from .session_access import ActionFailure, NotPlannedError, SessionAccess, archived_reason

Result = TypeVar("Result")


class PlanContext(msgspec.Struct, frozen=True):
    access: SessionAccess
    db: sqlite3.Connection  # for token estimates, as long as the plan is worked on
    on_message: Callable[[str], None] = lambda _: None  # receives a model's warnings
    on_view: Callable[[TranscriptView], None] = lambda _: None
    """Receives the transcript that a plan for the whole conversation is made from."""
    read_entries: EntryReader = iter_entries


def options_with_policy(options: PlanOptions, policy: Policy) -> PlanOptions:
    """Add what the session's policy says about plans."""
    caps = ResultCaps(
        max_tokens=policy.count("tools.cap_tokens"),
        max_web_tokens=policy.count("tools.web_cap_tokens"),
        header_lines=policy.count("tools.header_lines"),
        first_chars=policy.integer("tools.first_chars") or plans.DEFAULT_RESULT_CAPS.first_chars,
    )
    return replace(options, result_caps=caps, target_reduction=policy.target_reduction)


def plan_compaction(context: PlanContext, options: PlanOptions) -> CompactionPlan:
    """Plan what was requested; a refusal is part of it. Raises NotPlannedError."""
    with _readable(context) as path:
        size = path.stat().st_size
    too_large = check_transcript_size(size, options.max_bytes)
    if too_large:
        # Reading gigabytes takes minutes, for a plan that is not applied.
        session = context.access.session
        known = session.context.tokens or 0
        return plans.make_plan(
            session.session_id, "", size, (), before_tokens=known, refused=[too_large]
        )
    if options.whole_strategy is None:
        with draft_compaction(context, options) as draft:
            return draft.plan()
    from .conversation_planning import plan_conversation, whole_operation_maker  # all summaries

    options = options_with_policy(options, context.access.policy)
    make = whole_operation_maker(options, context.access, context.on_message, context.on_view)
    with _readable(context):
        return plan_conversation(_plan_source(context, options), make, options)


def read_condensed_turn(context: PlanContext, number: int) -> RestoredTurn | Refusal:
    """Read a turn that the session's newest digest condensed. Raises NotPlannedError."""
    with _readable(context) as path:
        return read_turn(list(context.read_entries(path)), number)


@contextmanager
def draft_compaction(context: PlanContext, options: PlanOptions) -> Iterator[PlanDraft]:
    """Hold a plan by level, of which operations can be left out. Raises NotPlannedError."""
    options = options_with_policy(options, context.access.policy)
    with _readable(context) as path:
        too_large = check_transcript_size(path.stat().st_size, options.max_bytes)
        if too_large:
            raise NotPlannedError(f"{too_large.why}: {too_large.what_to_do}")
        with open_transcript(path) as file:
            yield PlanDraft(_plan_source(context, options), file, options)


def _plan_source(context: PlanContext, options: PlanOptions) -> PlanSource:
    target, session = context.access.target, context.access.session
    holder = target.find_holder(target.session_id) if options.in_place else None
    return PlanSource(
        session_id=target.session_id,
        path=target.transcript,
        counter_of=read_part_counters(context.db, context.access.policy.counting),
        window_tokens=session.context.window.tokens,
        estimated_tokens=session.context.unanswered_tokens,
        trigger_tokens=session.context.trigger_tokens,
        open_in=f"the session is open in {holder}" if holder else None,
        read_entries=context.read_entries,
        importance=read_importance_settings(context.access.policy),
        rule_choices=read_rule_choices(target.state_folder),
    )


@contextmanager
def _readable(context: PlanContext) -> Iterator[Path]:
    """Raise NotPlannedError if the transcript cannot be read."""
    path = context.access.target.transcript
    if why := archived_reason(context.access.session):
        raise NotPlannedError(f"{context.access.session.session_id[:8]} was not planned: {why}")
    try:
        yield path
    except OSError as error:
        raise NotPlannedError(f"{path} cannot be read: {error.strerror or error}") from error


_FIXES: Final = {
    errno.EACCES: "make it writable for your user and try again",
    errno.EPERM: "make it writable for your user and try again",
    errno.EROFS: "make the file system writable and try again",
    errno.ENOSPC: "free some space and try again",
    errno.EDQUOT: "free some of your quota and try again",
    errno.ENOENT: "check whether it was moved or deleted",
}


def _try(action: Callable[[], Result], path: Path) -> Result | ActionFailure:
    """Return what an action returns, or why it failed; `path` stands in for an unnamed file."""
    try:
        return action()
    except CompactionRefusedError as error:
        return ActionFailure(tuple(map(str, error.refusals)), error.kind, error.refusals)
    except session_access.NotCompactedError as error:
        return ActionFailure((str(error),))
    except OSError as error:
        remedy = _FIXES.get(error.errno or 0, "try again")
        where, why = error.filename or path, error.strerror or error
        return ActionFailure((f"{where}: {why}: nothing was changed; {remedy}",))


def apply_compaction(
    target: CompactionTarget,
    plan: CompactionPlan,
    mode: ApplyMode,
    on_stage: ReportStage = lambda _: None,
) -> CompactionReceipt | ActionFailure:
    return _try(lambda: apply_plan(plan, mode, target, on_stage), target.transcript)


def in_place_mode(plan: CompactionPlan) -> ApplyMode:
    return ApplyMode.APPEND if plan.only_appends else ApplyMode.IN_PLACE


def in_place_refusal(target: CompactionTarget) -> Refusal | None:
    """Return why a session cannot be changed in place now; None if it can. Raises OSError."""
    try:
        require_idle(target, target.transcript, target.session_id)
    except CompactionRefusedError as error:
        return error.refusals[0]
    return None


def compact_with_client(
    access: SessionAccess, via: session_access.Via, instructions: str
) -> session_access.ClientCompactResult | ActionFailure:
    return _try(lambda: access.client.compact(via, instructions), access.target.transcript)


def undo_receipt(
    target: CompactionTarget, receipt: CompactionReceipt, numbers: Collection[int] | None
) -> UndoResult | ActionFailure:
    """Undo a receipt or its operations with these numbers, from 0; `target` is what it wrote."""
    return _try(lambda: undo(receipt.receipt_id, numbers, target), Path(receipt.target))


def undo_obstacle(receipt: CompactionReceipt, state: Path) -> str | None:
    """Return why a receipt cannot be undone, if anything; its backup's content is not read."""
    if receipt.state is ReceiptState.UNDONE:
        return "it is already undone"
    if receipt.state is ReceiptState.OPEN:
        return "it was interrupted: the next change of the session completes or reverts it"
    if not Path(receipt.target).is_file():
        return f"{receipt.target} is gone"
    backup = receipt_store.BackupStore(state).path(receipt.backup) if receipt.backup else None
    if backup is not None and not backup.is_file() and not Path(receipt.transcript).is_file():
        return f"{backup} and {receipt.transcript} are gone"
    return None


def try_undo(receipt: CompactionReceipt, state: Path) -> Refusal | None:
    """Dry-run an undo; return what prevents it, an OSError too, or None."""
    try:
        obstacle = find_undo_obstacle(receipt, state)
    except OSError as error:
        why = f"{error.filename or receipt.target}: {error.strerror}"
        return Refusal("file", why, "make it readable again")
    return obstacle.refusals[0] if obstacle else None


def newest_undoable(store: Path) -> CompactionReceipt | None:
    """Return the newest receipt that is not undone, None if there is none. Raises OSError."""
    receipts = ReceiptStore(state_folder(store)).all()
    return next((each for each in receipts if each.state is not ReceiptState.UNDONE), None)


def read_receipt(store: Path, receipt_id: str) -> tuple[CompactionReceipt | None, str | None]:
    """Read a receipt, and what keeps it from being undone. Raises OSError."""
    state = state_folder(store)
    receipt = next(iter(ReceiptStore(state).find_by_prefix(receipt_id)), None)
    return receipt, undo_obstacle(receipt, state) if receipt else None


def check_all_receipts(store: Path) -> dict[str, str]:
    """Dry-run the undo of each receipt; map its id to "ok" or to the check that refuses."""
    state = state_folder(store)
    refusals = {each.receipt_id: try_undo(each, state) for each in ReceiptStore(state).all()}
    return {name: refusal.check if refusal else "ok" for name, refusal in refusals.items()}
