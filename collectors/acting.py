"""What ctxtop does by itself to a session that rests, and what it says of it (T-10)."""

from __future__ import annotations

import shlex
import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING, Final

import msgspec

from ..core.compaction.apply import apply_plan
from ..core.compaction.automation import (
    COLD_MS,
    STALE_MS,
    Situation,
    break_even,
    pays,
    target_of,
)
from ..core.compaction.plan import Refusal
from ..core.compaction.planning import plan_transcript
from ..core.compaction.receipts import Mode
from ..core.compaction.recovery.attempt import NotNowError
from ..core.compaction.recovery.settings import recovery_settings
from ..core.compaction.refused import NotAppliedError
from ..core.compaction.select import Aim
from ..core.compaction.target import MOST_HARM
from ..core.policy.policy import Policy  # noqa: TC001 -- msgspec reads it
from ..core.sessions import Session  # noqa: TC001 -- msgspec reads it
from ..core.store.database import StoreError, open_reader
from ..core.store.estimating import read_estimator
from ..core.store.writer import Writer
from .asking.client_run import named_folder
from .folder import ClaudeFolder, Trouble
from .recovering import NothingToMendError, recover, wanted_of
from .resuming import Place, go_on, prompt_to_send
from .subjects import resume_folder, run_folder, subject_of
from .transcripts.conversation import entries_from

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from ..core.compaction.automation import Verdict
    from ..core.compaction.plan import Plan
    from ..core.compaction.receipts import Receipt
    from ..core.compaction.subject import Subject
    from .asking.ask import Subject as Asked
    from .asking.outcome import Outcome

_TOO_LITTLE: Final = frozenset({"futile", "nothing", "target"})


class Act(msgspec.Struct, frozen=True):
    """What is to be done, to which session, and why."""

    session: Session
    policy: Policy
    situation: Situation
    reason: str
    folder: ClaudeFolder
    store: Path

    @property
    def name(self) -> str:
        """Name the session in a line."""
        return f"session {self.session.session_id[:8]}"

    @property
    def target(self) -> Subject:
        """Give the session as what changes it needs it."""
        return subject_of(
            self.folder,
            self.store,
            self.session.session_id,
            self.folder.projects / self.session.path,
            resume_folder(self.session),
            automatic=self.reason,
        )


class Done(msgspec.Struct, frozen=True):
    """How it ended."""

    outcome: str
    """One line, kept with the run."""
    notice: Trouble
    """For a person."""
    left_tokens: int | None = None
    """What it left of the context, or found where it does not pay; None where it failed."""
    receipt: str | None = None
    check: str | None = None
    """Which check refused it; None where it was done."""
    retry_at: int = 0
    """When to try again, in ms since 1970, unless somebody goes on with the session first."""


def compact_by_itself(act: Act) -> Done:
    """Compact as the project's policy says: by a plan of ours, or by the client.

    Where the session is open only its own client may change it, whatever the policy says.
    """
    by_client = act.situation.is_open or act.policy.text("compact.by") == "client"
    return _guarded(act, _asked if by_client else _planned)


def mend_by_itself(act: Act) -> Done:
    """Mend a session that ended in a refusal, in a fork; a step to be confirmed is not taken."""
    return _guarded(act, _mended)


def _guarded(act: Act, action: Callable[[Act], Done]) -> Done:
    try:
        return action(act)
    except NotAppliedError as error:
        return _refused(act, error.refusals[0])
    except OSError as error:
        why = f"{error.filename or act.session.path}: {error.strerror or error}"
        return _failed(act, "file", why, "see to that file: it is tried again")
    except (StoreError, sqlite3.Error) as error:
        return _failed(act, "store", str(error), "`ctxtop doctor` looks at the store")


def _mended(act: Act) -> Done:
    settings = recovery_settings(act.policy)
    try:
        with closing(open_reader(act.store)) as db, closing(Writer(act.store)) as writer:
            counter_of = read_estimator(db).for_model
            wanted = wanted_of(act.target, act.session, act.policy, counter_of, settings)
            recovery = recover(wanted, writer.connection)
    except NothingToMendError as error:
        return _failed(act, "nothing", str(error), "there is no need")
    except NotNowError as error:
        return _refused(act, error.refusal)
    receipt, plan, chosen = recovery.receipt, recovery.choice.plan, recovery.choice.chosen
    if receipt is None or plan is None or chosen is None:
        whys = "; ".join(each.why for each in recovery.choice.refusals)
        start = act.session.session_id[:8]
        return _failed(act, "exhausted", whys, f"`ctxtop recover {start}` says what else may help")
    resume, ran = f"go on with: {receipt.resume_command}", ""
    prompt = prompt_to_send(
        act.policy.text("recovery.resume"), act.target.transcript, chosen.prompt
    )
    if prompt is not None:
        place = Place(run_folder(act.session), named_folder(act.folder.root), act.store)
        went_on = go_on(prompt, receipt, place, settings.retry)
        how = "it was answered" if went_on.answered else f"not answered: {went_on.output}"
        resume = f"asked again ({how}); {resume}"
        ran = _ran(went_on.command, went_on.folder)
    return Done(
        outcome=f"mended by {chosen.step} in {receipt.new_session_id}{ran}",
        notice=Trouble(f"mended {act.name} by itself", f"{chosen.step} in a fork", resume),
        receipt=receipt.receipt_id,
    )


def _planned(act: Act) -> Done:
    plan = _plan(act)
    if plan.refused:
        done = _refused(act, plan.refused[0])
        # What is too little now is too little until the session has grown.
        is_over = plan.refused[0].check in _TOO_LITTLE
        return msgspec.structs.replace(done, left_tokens=_tokens(act) if is_over else None)
    price = pays(plan.break_even_requests, act.situation)
    if not price.allowed:
        return _dear(act, price)
    return _done(act, plan, apply_plan(plan, Mode.IN_PLACE, act.target))


def _plan(act: Act) -> Plan:
    context = act.session.context
    target = target_of(act.policy, context)
    aim = Aim(MOST_HARM, target_tokens=target, window_tokens=context.window.tokens)
    subject = act.target
    holder = subject.find_holder(subject.session_id)
    with closing(open_reader(act.store)) as db:
        return plan_transcript(
            subject.session_id,
            subject.transcript,
            entries_from,
            read_estimator(db).for_model,
            options=aim,
            open_in=f"it is open in {holder}" if holder else None,
        )


def _done(act: Act, plan: Plan, receipt: Receipt) -> Done:
    freed = plan.before_tokens - plan.after_tokens
    return Done(
        outcome=f"compacted: ≈ {plan.before_tokens:,} to {plan.after_tokens:,} tokens",
        notice=Trouble(
            f"compacted {act.name} by itself",
            f"≈ {round(freed / 1000)}k tokens",
            f"undo: ctxtop undo {receipt.receipt_id}",
        ),
        left_tokens=max(0, (_tokens(act) or plan.before_tokens) - freed),
        receipt=receipt.receipt_id,
    )


def _asked(act: Act) -> Done:
    """Let the client summarise: in the session where it is open, else in a run of our own."""
    from .asking.ask import Subject as Asked
    from .asking.outcome import NotCompactedError, Why

    requests = break_even(_tokens(act) or 0, model=act.session.model)
    price = pays(requests, act.situation)
    if not price.allowed:
        return _dear(act, price)
    asked = Asked(
        session_id=act.session.session_id,
        transcript=act.folder.projects / act.session.path,
        project_root=run_folder(act.session),
        folder=act.folder,
        store=act.store,
        config_dir=named_folder(act.folder.root),
    )
    try:
        outcome = _ask_open(asked) if act.situation.is_open else _ask_closed(asked)
    except NotCompactedError as error:
        if error.failure is Why.UNSAFE:
            install = "`ctxtop hooks install` lets it be asked"
            return _refused(act, Refusal(error.failure, str(error), install))
        if error.failure is Why.UNTRUSTED:
            return _refused(act, Refusal(error.failure, str(error), "nothing was started"))
        return _failed(act, error.failure, str(error), "it is tried again")
    sizes = f"{outcome.pre_tokens} to {outcome.post_tokens} tokens"
    return Done(
        outcome=f"the client compacted: {sizes}{_ran(outcome.command, outcome.folder)}",
        notice=Trouble(f"compacted {act.name} by itself", f"by the client: {sizes}", "done"),
        left_tokens=outcome.post_tokens or 0,
    )


def _ask_open(target: Asked) -> Outcome:
    """Ask by the plugin, or where it is not there by tmux: a run of our own it would not see."""
    from .asking import ask
    from .asking.outcome import NotCompactedError, Via, Why

    try:
        return ask.ask_to_compact(target, Via.PLUGIN, "")
    except NotCompactedError as error:
        if error.failure is not Why.UNSAFE:
            raise
        return ask.ask_to_compact(target, Via.TMUX, "")


def _ask_closed(target: Asked) -> Outcome:
    from .asking import ask
    from .asking.outcome import Via
    from .asking.run_limit import claim_run

    limited = msgspec.structs.replace(
        target, before_run=lambda: claim_run(target.store, target.session_id)
    )
    return ask.ask_to_compact(limited, Via.CLI, "")


def _refused(act: Act, refusal: Refusal) -> Done:
    done = _failed(act, refusal.check, refusal.why, refusal.what_to_do)
    # It would be refused for the same reason.
    later = (act.situation.last_written_at or 0) + STALE_MS
    return msgspec.structs.replace(done, retry_at=later)


def _dear(act: Act, decision: Verdict) -> Done:
    done = _failed(act, decision.check, decision.why, "it is done when the prompt cache is cold")
    cold = (act.situation.last_written_at or 0) + COLD_MS
    return msgspec.structs.replace(done, retry_at=cold)


def _failed(act: Act, check: str, why: str, what_to_do: str) -> Done:
    notice = Trouble(act.name, f"not touched by itself: {why}", what_to_do)
    return Done(outcome=f"{check}: {why}", notice=notice, check=check)


def _ran(command: tuple[str, ...], folder: str | None) -> str:
    """Return what was run, and where, for the run's one line."""
    return f"; ran {shlex.join(command)} in {folder}" if command else ""


def _tokens(act: Act) -> int | None:
    return act.session.context.tokens
