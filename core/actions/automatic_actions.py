"""What ctxtop does to an idle session without being asked, and what it reports of it (T-10)."""

import shlex
import sqlite3
from collections.abc import Callable
from contextlib import closing
from typing import Final

import msgspec

from ..compaction import automation_rules, policy_strategy
from ..compaction import plan as plans
from ..compaction.automation_rules import AutomationDecision, AutomationInput
from ..compaction.compression_level import compacting_sizes, defined_compression
from ..compaction.plan import CompactionPlan, CompactionRefusedError, PlanOptions, Refusal
from ..compaction.policy_strategy import automatic_strategy
from ..compaction.recovery.recovery_run import AttemptRefusedError
from ..model.problem import Problem
from ..model.session import Session
from ..policy.schema import NATIVE
from ..store.database import StoreError, open_reader
from ..summaries.compaction_quality import ReductionFlag
from . import session_access
from .session_access import NotCompactedError, NotPlannedError, SessionAccess
from .session_compaction import PlanContext, apply_compaction, in_place_mode, plan_compaction
from .session_recovery import NothingToRecoverError, SessionBusyError, run_recovery


class AutomaticAction(msgspec.Struct, frozen=True):
    access: SessionAccess
    situation: AutomationInput

    @property
    def session(self) -> Session:
        return self.access.session

    @property
    def name(self) -> str:
        return f"session {self.session.session_id[:8]}"


class ActionResult(msgspec.Struct, frozen=True):
    outcome: str  # one line, stored with the run
    notice: Problem  # for a person
    left_tokens: int | None = None
    """What it left of the context, or found if it does not pay; None if it failed."""
    receipt: str | None = None
    check: str | None = None  # which check refused it; None if it was done
    retry_at: int = 0  # in ms since 1970, unless somebody resumes the session first


def compact_automatically(act: AutomaticAction) -> ActionResult:
    """Compact as the project's policy says: by a plan of ours, or by the client.

    While the session is open only its own client may change it, whatever the policy says.
    """
    by_client = act.situation.is_open or automatic_strategy(act.access.policy) == NATIVE
    return _run_guarded(act, _compact_with_client if by_client else _compact_with_plan)


def recover_automatically(act: AutomaticAction) -> ActionResult:
    """Recover a session in a fork; a step that needs confirmation is not taken."""
    return _run_guarded(act, _recover)


def recompact_automatically(act: AutomaticAction) -> ActionResult:
    """Ask the client to compact again what its last compaction left, at any cost (R002-09).

    Only the client can write another summary of what the model still sees.
    """
    return _run_guarded(act, _ask_client)


def _run_guarded(
    act: AutomaticAction, action: Callable[[AutomaticAction], ActionResult]
) -> ActionResult:
    try:
        return action(act)
    except CompactionRefusedError as error:
        return _refused(act, error.refusals[0])
    except OSError as error:
        return _file_failed(act, f"{error.filename or act.session.path}: {error.strerror or error}")
    except (StoreError, sqlite3.Error) as error:
        return _failed(act, "store", str(error), "run `ctxtop doctor` to check the store")


def _recover(act: AutomaticAction) -> ActionResult:
    try:
        recovery, resumed = run_recovery(act.access)
    except (NothingToRecoverError, SessionBusyError) as error:
        return _failed(act, "nothing", str(error), "nothing to do")
    except AttemptRefusedError as error:
        return _refused(act, error.refusal)
    receipt, chosen = recovery.receipt, recovery.choice.chosen
    if receipt is None or chosen is None:
        reasons = "; ".join(each.why for each in recovery.choice.refusals)
        start = act.session.session_id[:8]
        what_to_do = f"`ctxtop recover {start}` shows what else may help"
        return _failed(act, "exhausted", reasons, what_to_do)
    resume, run_note = f"resume with: {receipt.resume_command}", ""
    if resumed is not None:
        how = "it was answered" if resumed.answered else f"not answered: {resumed.output}"
        resume = f"asked again ({how}); {resume}"
        run_note = _run_note(resumed.command, resumed.folder)
    return ActionResult(
        outcome=f"recovered with {chosen.step} in {receipt.new_session_id}{run_note}",
        notice=Problem(f"recovered {act.name} automatically", f"{chosen.step} in a fork", resume),
        receipt=receipt.receipt_id,
    )


_FINAL_CHECKS: Final = frozenset({"futile", "nothing", "target", "too_few", "digest_longer"})
"""Refusals that stay the same until the session has grown."""


def _compact_with_plan(act: AutomaticAction) -> ActionResult:
    try:
        plan = _plan(act)
    except NotPlannedError as error:
        return _file_failed(act, str(error))
    if plan.refused:
        result = _refused(act, plan.refused[0])
        # What is too little now stays too little until the session has grown.
        is_final = plan.refused[0].check in _FINAL_CHECKS
        tokens = act.session.context.tokens if is_final else None
        return msgspec.structs.replace(result, left_tokens=tokens)
    price = automation_rules.check_break_even(
        act.access.policy, act.situation, plan.break_even_requests
    )
    if not price.allowed:
        return _too_expensive(act, price)
    receipt = apply_compaction(act.access.target, plan, in_place_mode(plan))
    if isinstance(receipt, session_access.ActionFailure):
        if receipt.refusals:
            return _refused(act, receipt.refusals[0])
        return _file_failed(act, "; ".join(receipt.why))
    freed, tokens = plan.tokens_saved, act.session.context.tokens
    # What is done to the whole conversation comes after the edits of single lines.
    done = _DONE_BY_STRATEGY.get(plan.operations[-1].strategy, "")
    sizes = f"≈ {plan.before_tokens:,} to {plan.after_tokens:,} tokens"
    return ActionResult(
        outcome=f"compacted: {sizes}{done}",
        notice=Problem(
            f"compacted {act.name} automatically",
            f"≈ {round(freed / 1000)}k tokens{done}",
            f"undo: ctxtop undo {receipt.receipt_id}",
        ),
        left_tokens=max(0, (tokens or plan.before_tokens) - _as_counted(freed, act)),
        receipt=receipt.receipt_id,
    )


_DONE_BY_STRATEGY: Final = {
    plans.CONDENSE: ", older turns condensed to a digest",
    plans.SUMMARIZE: ", older messages replaced by a summary",
    plans.CUT: ", older turns removed",
}


def _plan(act: AutomaticAction) -> CompactionPlan:
    policy, context = act.access.policy, act.session.context
    level = defined_compression(policy, context)
    options = policy_strategy.whole_options(policy, level) or _ladder_options(act)
    if options.whole_strategy == plans.CONDENSE:
        options = msgspec.structs.replace(options, target=_target_share(act))
    options = msgspec.structs.replace(options, in_place=True)
    with closing(open_reader(act.access.store)) as db:
        plan_context = PlanContext(act.access, db)
        cut = _plan_cut(act, plan_context)
        return cut if cut is not None else _plan_whole(plan_context, options)


def _plan_cut(act: AutomaticAction, plan_context: PlanContext) -> CompactionPlan | None:
    """Plan to cut results at their start; None if no policy wants it, or if it frees too little."""
    policy, context = act.access.policy, act.session.context
    options = policy_strategy.cut_options(policy)
    if options is None:
        return None
    plan = plan_compaction(plan_context, msgspec.structs.replace(options, in_place=True))
    after, sizes = _as_counted(plan.after_tokens, act), compacting_sizes(policy, context)
    is_enough = after < min(sizes, default=0) and plan.reduction_flag is not ReductionFlag.BELOW
    return plan if is_enough and not plan.refused else None


def _plan_whole(context: PlanContext, options: PlanOptions) -> CompactionPlan:
    plan = plan_compaction(context, options)
    # From how many messages on a session is compacted, `compact.min_messages` says alone.
    while _keeps_too_many(plan) and (fewer := _keep_fewer(options)):
        options, plan = fewer, plan_compaction(context, fewer)
    return plan


def _keeps_too_many(plan: CompactionPlan) -> bool:
    return any(each.check == "too_few" for each in plan.refused)


def _keep_fewer(options: PlanOptions) -> PlanOptions | None:
    """Keep one message less of a summary, or one turn less of a cut; None if only one is left."""
    if (options.keep or 0) > 1:
        return msgspec.structs.replace(options, keep=(options.keep or 0) - 1)
    if (options.keep_turns or 0) > 1:
        return msgspec.structs.replace(options, keep_turns=(options.keep_turns or 0) - 1)
    return None


def _ladder_options(act: AutomaticAction) -> PlanOptions:
    return PlanOptions(level=plans.DEFAULT_MAX_SEVERITY.value, target=_target_share(act))


def _target_share(act: AutomaticAction) -> float:
    """Return the share of the window to stop at, 0 to 1."""
    context = act.session.context
    tokens = automation_rules.automatic_target(act.access.policy, context)
    return _as_sent(tokens, act) / context.window.tokens


def _as_sent(tokens: int, act: AutomaticAction) -> float:
    """Convert tokens as the policy counts them into tokens that the model is sent."""
    context = act.session.context
    if not context.tokens or not context.sent_tokens:
        return tokens
    return tokens * context.sent_tokens / context.tokens


def _as_counted(tokens: int, act: AutomaticAction) -> int:
    """Convert tokens that the model is sent into tokens as the policy counts them."""
    context = act.session.context
    if not context.tokens or not context.sent_tokens:
        return tokens
    return round(tokens * context.tokens / context.sent_tokens)


def _compact_with_client(act: AutomaticAction) -> ActionResult:
    """Compact with the client: in the session if it is open, else in a run of our own."""
    session = act.session
    requests = automation_rules.client_break_even(
        session.context.sent_tokens or 0, model=session.model
    )
    price = automation_rules.check_break_even(act.access.policy, act.situation, requests)
    return _ask_client(act) if price.allowed else _too_expensive(act, price)


def _ask_client(act: AutomaticAction) -> ActionResult:
    client = act.access.client
    try:
        result = (
            session_access.ask_open_client(client)
            if act.situation.is_open
            else client.compact_closed()
        )
    except NotCompactedError as error:
        fixes = {
            session_access.CompactFailure.UNSAFE: "`ctxtop hooks install` makes it reachable",
            session_access.CompactFailure.UNTRUSTED: "nothing was started",
        }
        if error.failure in fixes:
            return _refused(act, Refusal(error.failure, str(error), fixes[error.failure]))
        return _failed(act, error.failure, str(error), "ctxtop will retry")
    sizes = result.sizes_text
    return ActionResult(
        outcome=f"Claude Code compacted: {sizes}{_run_note(result.command, result.folder)}",
        notice=Problem(f"compacted {act.name} automatically", f"by Claude Code: {sizes}", "done"),
        left_tokens=result.left_tokens or 0,
    )


def _refused(act: AutomaticAction, refusal: Refusal) -> ActionResult:
    # Until then it would be refused for the same reason.
    idle_ms = automation_rules.STALE_MS
    return _failed(act, refusal.check, refusal.why, refusal.what_to_do, idle_ms)


def _too_expensive(act: AutomaticAction, decision: AutomationDecision) -> ActionResult:
    what_to_do = "it will run once the prompt cache is cold"
    idle_ms = automation_rules.CACHE_LIFETIME_MS
    return _failed(act, decision.check, decision.why, what_to_do, idle_ms)


def _file_failed(act: AutomaticAction, why: str) -> ActionResult:
    return _failed(act, "file", why, "check that file; ctxtop will retry")


def _failed(
    act: AutomaticAction, check: str, why: str, what_to_do: str, idle_ms: int | None = None
) -> ActionResult:
    """Return a failure; with `idle_ms` ctxtop will retry when nothing was written for so long."""
    notice = Problem(act.name, f"not changed automatically: {why}", what_to_do)
    retry_at = 0 if idle_ms is None else (act.situation.last_written_at or 0) + idle_ms
    return ActionResult(outcome=f"{check}: {why}", notice=notice, check=check, retry_at=retry_at)


def _run_note(command: tuple[str, ...], folder: str | None) -> str:
    """Return what was run, and where, as the end of the run's one line."""
    return f"; ran {shlex.join(command)} in {folder}" if command else ""
