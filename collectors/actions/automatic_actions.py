"""What ctxtop does to an idle session without being asked, and what it reports of it (T-10)."""

from __future__ import annotations

import shlex
import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING, Final

import msgspec

from ...core.actions.session_recovery import NothingToRecoverError, recover, recovery_options
from ...core.compaction.apply import apply_plan
from ...core.compaction.automation_rules import (
    CACHE_LIFETIME_MS,
    STALE_MS,
    AutomationInput,
    automatic_target,
    check_break_even,
    client_break_even,
)
from ...core.compaction.operation_selection import SelectionOptions
from ...core.compaction.plan import DEFAULT_MAX_SEVERITY, CompactionRefusedError, Refusal
from ...core.compaction.receipts import ApplyMode
from ...core.compaction.recovery.recovery_run import AttemptRefusedError
from ...core.compaction.recovery.recovery_settings import read_recovery_settings
from ...core.compaction.transcript_planning import plan_transcript
from ...core.model.problem import Problem
from ...core.model.session import Session  # noqa: TC001 -- msgspec reads it
from ...core.policy.policy import Policy  # noqa: TC001 -- msgspec reads it
from ...core.store.database import StoreError, open_reader
from ...core.store.token_samples import read_estimator
from ...core.store.writer import Writer
from ...core.transcript.entry_decoder import iter_entries
from ..client_compact.client_run import explicit_config_dir
from .session_resume import RunLocation, resume_fork, resume_prompt
from .session_target import compaction_target, resume_folder, run_folder

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from ...core.compaction.automation_rules import AutomationDecision
    from ...core.compaction.compaction_target import CompactionTarget
    from ...core.compaction.plan import CompactionPlan
    from ...core.compaction.receipts import CompactionReceipt
    from ..claude_code.discover import ClaudeFolder
    from ..client_compact.client_compaction import ClientCompactTarget
    from ..client_compact.compact_outcome import ClientCompactResult


_NOTHING_TO_GAIN: Final = frozenset({"futile", "nothing", "target"})


class AutomaticAction(msgspec.Struct, frozen=True):
    """What is to be done, to which session, and why."""

    session: Session
    policy: Policy
    situation: AutomationInput
    reason: str
    folder: ClaudeFolder
    store: Path

    @property
    def name(self) -> str:
        """Name the session in a line."""
        return f"session {self.session.session_id[:8]}"

    @property
    def target(self) -> CompactionTarget:
        return compaction_target(
            self.folder,
            self.store,
            self.session.session_id,
            self.folder.projects / self.session.path,
            resume_folder(self.session),
            automatic=self.reason,
        )


class ActionResult(msgspec.Struct, frozen=True):
    """How it ended."""

    outcome: str
    """One line, kept with the run."""
    notice: Problem
    """For a person."""
    left_tokens: int | None = None
    """What it left of the context, or found where it does not pay; None where it failed."""
    receipt: str | None = None
    check: str | None = None
    """Which check refused it; None where it was done."""
    retry_at: int = 0
    """When to try again, in ms since 1970, unless somebody goes on with the session first."""


def compact_automatically(act: AutomaticAction) -> ActionResult:
    """Compact as the project's policy says: by a plan of ours, or by the client.

    Where the session is open only its own client may change it, whatever the policy says.
    """
    by_client = act.situation.is_open or act.policy.text("compact.by") == "client"
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
    settings = read_recovery_settings(act.policy)
    try:
        with closing(open_reader(act.store)) as db, closing(Writer(act.store)) as writer:
            counter_of = read_estimator(db).for_model
            wanted = recovery_options(act.target, act.session, act.policy, counter_of, settings)
            recovery = recover(wanted, writer.connection)
    except NothingToRecoverError as error:
        return _failed(act, "nothing", str(error), "there is no need")
    except AttemptRefusedError as error:
        return _refused(act, error.refusal)
    receipt, plan, chosen = recovery.receipt, recovery.choice.plan, recovery.choice.chosen
    if receipt is None or plan is None or chosen is None:
        whys = "; ".join(each.why for each in recovery.choice.refusals)
        start = act.session.session_id[:8]
        return _failed(act, "exhausted", whys, f"`ctxtop recover {start}` says what else may help")
    resume, ran = f"go on with: {receipt.resume_command}", ""
    prompt = resume_prompt(act.policy.text("recovery.resume"), act.target.transcript, chosen.prompt)
    if prompt is not None:
        place = RunLocation(
            run_folder(act.session), explicit_config_dir(act.folder.root), act.store
        )
        went_on = resume_fork(prompt, receipt, place, settings.retry)
        how = "it was answered" if went_on.answered else f"not answered: {went_on.output}"
        resume = f"asked again ({how}); {resume}"
        ran = _run_note(went_on.command, went_on.folder)
    return ActionResult(
        outcome=f"mended by {chosen.step} in {receipt.new_session_id}{ran}",
        notice=Problem(f"mended {act.name} by itself", f"{chosen.step} in a fork", resume),
        receipt=receipt.receipt_id,
    )


def _compact_with_plan(act: AutomaticAction) -> ActionResult:
    plan = _plan(act)
    if plan.refused:
        done = _refused(act, plan.refused[0])
        # What is too little now is too little until the session has grown.
        is_over = plan.refused[0].check in _NOTHING_TO_GAIN
        return msgspec.structs.replace(done, left_tokens=_context_tokens(act) if is_over else None)
    price = check_break_even(plan.break_even_requests, act.situation)
    if not price.allowed:
        return _too_expensive(act, price)
    return _compacted(act, plan, apply_plan(plan, ApplyMode.IN_PLACE, act.target))


def _plan(act: AutomaticAction) -> CompactionPlan:
    context = act.session.context
    target = automatic_target(act.policy, context)
    aim = SelectionOptions(
        DEFAULT_MAX_SEVERITY, target_tokens=target, window_tokens=context.window.tokens
    )
    subject = act.target
    holder = subject.find_holder(subject.session_id)
    with closing(open_reader(act.store)) as db:
        return plan_transcript(
            subject.session_id,
            subject.transcript,
            iter_entries,
            read_estimator(db).for_model,
            options=aim,
            open_in=f"it is open in {holder}" if holder else None,
        )


def _compacted(
    act: AutomaticAction, plan: CompactionPlan, receipt: CompactionReceipt
) -> ActionResult:
    freed = plan.before_tokens - plan.after_tokens
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
    from ..client_compact.client_compaction import ClientCompactTarget
    from ..client_compact.compact_outcome import CompactFailure, NotCompactedError

    requests = client_break_even(_context_tokens(act) or 0, model=act.session.model)
    price = check_break_even(requests, act.situation)
    if not price.allowed:
        return _too_expensive(act, price)
    asked = ClientCompactTarget(
        session_id=act.session.session_id,
        transcript=act.folder.projects / act.session.path,
        project_root=run_folder(act.session),
        folder=act.folder,
        store=act.store,
        config_dir=explicit_config_dir(act.folder.root),
    )
    try:
        outcome = _ask_open(asked) if act.situation.is_open else _ask_closed(asked)
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


def _ask_open(target: ClientCompactTarget) -> ClientCompactResult:
    """Ask by the plugin, or where it is not there by tmux: a run of our own it would not see."""
    from ..client_compact import client_compaction
    from ..client_compact.compact_outcome import CompactFailure, NotCompactedError, Via

    try:
        return client_compaction.ask_to_compact(target, Via.PLUGIN, "")
    except NotCompactedError as error:
        if error.failure is not CompactFailure.UNSAFE:
            raise
        return client_compaction.ask_to_compact(target, Via.TMUX, "")


def _ask_closed(target: ClientCompactTarget) -> ClientCompactResult:
    from ..client_compact import client_compaction
    from ..client_compact.compact_outcome import Via
    from .session_resume import claim_run

    limited = msgspec.structs.replace(
        target, before_run=lambda: claim_run(target.store, target.session_id)
    )
    return client_compaction.ask_to_compact(limited, Via.CLI, "")


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
