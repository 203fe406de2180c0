"""What ctxtop does to an idle session without being asked, and what it reports of it (T-10)."""

from __future__ import annotations

import shlex
import sqlite3
from collections.abc import Callable
from contextlib import closing
from typing import Final

import msgspec

from ..compaction.automation_rules import (
    CACHE_LIFETIME_MS,
    STALE_MS,
    AutomationDecision,
    AutomationInput,
    automatic_target,
    check_break_even,
    client_break_even,
)
from ..compaction.plan import (
    DEFAULT_MAX_SEVERITY,
    CompactionPlan,
    CompactionRefusedError,
    PlanOptions,
    Refusal,
    effective_window,
)
from ..compaction.receipts import CompactionReceipt
from ..compaction.recovery.recovery_run import AttemptRefusedError
from ..model.problem import Problem
from ..model.session import Session
from ..store.database import StoreError, open_reader
from .session_access import (
    ActionFailure,
    ClientCompactResult,
    CompactFailure,
    NotCompactedError,
    NotPlannedError,
    SessionAccess,
    SessionClient,
    Via,
)
from .session_compaction import PlanContext, apply_compaction, in_place_mode, plan_compaction
from .session_recovery import NothingToRecoverError, SessionBusyError, run_recovery

_NOTHING_TO_GAIN: Final = frozenset({"futile", "nothing", "target"})


class AutomaticAction(msgspec.Struct, frozen=True):
    """What is to be done, and to which session."""

    access: SessionAccess
    situation: AutomationInput

    @property
    def session(self) -> Session:
        return self.access.session

    @property
    def name(self) -> str:
        """Name the session in a line."""
        return f"session {self.session.session_id[:8]}"


class ActionResult(msgspec.Struct, frozen=True):
    """How it ended."""

    outcome: str  # one line, kept with the run
    notice: Problem  # for a person
    left_tokens: int | None = None
    """What it left of the context, or found where it does not pay; None where it failed."""
    receipt: str | None = None
    check: str | None = None  # which check refused it; None where it was done
    retry_at: int = 0
    """When to try again, in ms since 1970, unless somebody goes on with the session first."""


def compact_automatically(act: AutomaticAction) -> ActionResult:
    """Compact as the project's policy says: by a plan of ours, or by the client.

    Where the session is open only its own client may change it, whatever the policy says.
    """
    by_client = act.situation.is_open or act.access.policy.text("compact.by") == "client"
    return _run_guarded(act, _compact_with_client if by_client else _compact_with_plan)


def recover_automatically(act: AutomaticAction) -> ActionResult:
    """Mend a session that ended in a refusal, in a fork; a step to be confirmed is not taken."""
    return _run_guarded(act, _recover)


def _run_guarded(
    act: AutomaticAction, action: Callable[[AutomaticAction], ActionResult]
) -> ActionResult:
    try:
        return action(act)
    except CompactionRefusedError as error:
        return _refused(act, error.refusals[0])
    except OSError as error:
        why = f"{error.filename or act.session.path}: {error.strerror or error}"
        return _failed(act, "file", why, "see to that file: it is tried again")
    except (StoreError, sqlite3.Error) as error:
        return _failed(act, "store", str(error), "`ctxtop doctor` looks at the store")


def _recover(act: AutomaticAction) -> ActionResult:
    try:
        recovery, resumed = run_recovery(act.access)
    except (NothingToRecoverError, SessionBusyError) as error:
        return _failed(act, "nothing", str(error), "there is no need")
    except AttemptRefusedError as error:
        return _refused(act, error.refusal)
    receipt, chosen = recovery.receipt, recovery.choice.chosen
    if receipt is None or chosen is None:
        whys = "; ".join(each.why for each in recovery.choice.refusals)
        start = act.session.session_id[:8]
        return _failed(act, "exhausted", whys, f"`ctxtop recover {start}` says what else may help")
    resume, ran = f"go on with: {receipt.resume_command}", ""
    if resumed is not None:
        how = "it was answered" if resumed.answered else f"not answered: {resumed.output}"
        resume = f"asked again ({how}); {resume}"
        ran = _run_note(resumed.command, resumed.folder)
    return ActionResult(
        outcome=f"mended by {chosen.step} in {receipt.new_session_id}{ran}",
        notice=Problem(f"mended {act.name} by itself", f"{chosen.step} in a fork", resume),
        receipt=receipt.receipt_id,
    )


def _compact_with_plan(act: AutomaticAction) -> ActionResult:
    try:
        plan = _plan(act)
    except NotPlannedError as error:
        return _failed(act, "file", str(error), "see to that file: it is tried again")
    if plan.refused:
        done = _refused(act, plan.refused[0])
        # What is too little now is too little until the session has grown.
        is_over = plan.refused[0].check in _NOTHING_TO_GAIN
        return msgspec.structs.replace(done, left_tokens=_context_tokens(act) if is_over else None)
    price = check_break_even(plan.break_even_requests, act.situation)
    if not price.allowed:
        return _too_expensive(act, price)
    receipt = apply_compaction(act.access.target, plan, in_place_mode(plan))
    if isinstance(receipt, ActionFailure):
        if receipt.refusals:
            return _refused(act, receipt.refusals[0])
        return _failed(act, "file", "; ".join(receipt.why), "see to that file: it is tried again")
    return _compacted(act, plan, receipt)


def _plan(act: AutomaticAction) -> CompactionPlan:
    context = act.session.context
    tokens = automatic_target(act.access.policy, context)
    options = PlanOptions(
        level=DEFAULT_MAX_SEVERITY.value,
        target=tokens / effective_window(context.window.tokens),
        in_place=True,
    )
    with closing(open_reader(act.access.store)) as db:
        return plan_compaction(PlanContext(act.access, db), options)


def _compacted(
    act: AutomaticAction, plan: CompactionPlan, receipt: CompactionReceipt
) -> ActionResult:
    freed = plan.tokens_saved
    return ActionResult(
        outcome=f"compacted: ≈ {plan.before_tokens:,} to {plan.after_tokens:,} tokens",
        notice=Problem(
            f"compacted {act.name} by itself",
            f"≈ {round(freed / 1000)}k tokens",
            f"undo: ctxtop undo {receipt.receipt_id}",
        ),
        left_tokens=max(0, (_context_tokens(act) or plan.before_tokens) - freed),
        receipt=receipt.receipt_id,
    )


def _compact_with_client(act: AutomaticAction) -> ActionResult:
    """Compact with the client: in the session if it is open, else in a run of our own."""
    requests = client_break_even(_context_tokens(act) or 0, model=act.session.model)
    price = check_break_even(requests, act.situation)
    if not price.allowed:
        return _too_expensive(act, price)
    client = act.access.client
    try:
        outcome = _ask_open(client) if act.situation.is_open else client.compact_closed()
    except NotCompactedError as error:
        if error.failure is CompactFailure.UNSAFE:
            install = "`ctxtop hooks install` lets it be asked"
            return _refused(act, Refusal(error.failure, str(error), install))
        if error.failure is CompactFailure.UNTRUSTED:
            return _refused(act, Refusal(error.failure, str(error), "nothing was started"))
        return _failed(act, error.failure, str(error), "it is tried again")
    sizes = f"{outcome.pre_tokens} to {outcome.post_tokens} tokens"
    return ActionResult(
        outcome=f"the client compacted: {sizes}{_run_note(outcome.command, outcome.folder)}",
        notice=Problem(f"compacted {act.name} by itself", f"by the client: {sizes}", "done"),
        left_tokens=outcome.post_tokens or 0,
    )


def _ask_open(client: SessionClient) -> ClientCompactResult:
    """Ask by the plugin, or where it is not there by tmux: a run of our own it would not see."""
    try:
        return client.compact(Via.PLUGIN, "")
    except NotCompactedError as error:
        if error.failure is not CompactFailure.UNSAFE:
            raise
        return client.compact(Via.TMUX, "")


def _refused(act: AutomaticAction, refusal: Refusal) -> ActionResult:
    done = _failed(act, refusal.check, refusal.why, refusal.what_to_do)
    # It would be refused for the same reason.
    later = (act.situation.last_written_at or 0) + STALE_MS
    return msgspec.structs.replace(done, retry_at=later)


def _too_expensive(act: AutomaticAction, decision: AutomationDecision) -> ActionResult:
    done = _failed(act, decision.check, decision.why, "it is done when the prompt cache is cold")
    cold = (act.situation.last_written_at or 0) + CACHE_LIFETIME_MS
    return msgspec.structs.replace(done, retry_at=cold)


def _failed(act: AutomaticAction, check: str, why: str, what_to_do: str) -> ActionResult:
    notice = Problem(act.name, f"not touched by itself: {why}", what_to_do)
    return ActionResult(outcome=f"{check}: {why}", notice=notice, check=check)


def _run_note(command: tuple[str, ...], folder: str | None) -> str:
    """Return what was run, and where, for the run's one line."""
    return f"; ran {shlex.join(command)} in {folder}" if command else ""


def _context_tokens(act: AutomaticAction) -> int | None:
    return act.session.context.tokens
