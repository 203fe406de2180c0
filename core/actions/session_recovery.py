"""Recover a session that ended in a refusal: plan the steps, and apply them in a fork."""

import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
from typing import Final

import msgspec
from msgspec.structs import replace

from ..compaction.apply import apply_plan
from ..compaction.compaction_target import CompactionTarget
from ..compaction.plan import CompactionRefusedError, Operation, Refusal
from ..compaction.receipts import ApplyMode, CompactionReceipt, LastChange, ReceiptStore
from ..compaction.recovery import recovery_run, recovery_steps
from ..compaction.recovery.limit_errors import SessionRefusal, find_refusal
from ..compaction.recovery.recovery_run import AttemptRefusedError, RecoveryStep
from ..compaction.recovery.recovery_steps import RecoveryChoice, RecoveryContext
from ..compaction.strategies.summary_and_cut import summarize_by_rules
from ..compaction.transcript_reading import CounterOf, PlanSource, read_transcript_view
from ..compaction.transcript_view import TranscriptView, open_transcript
from ..model.context_window import ClaimSource
from ..model.conversation import Entry, PartKind
from ..model.session import SessionStatus
from ..store.database import StoreError, explain_error, open_reader
from ..store.token_samples import read_part_counters
from ..store.writer import Writer
from ..summaries.rule_choices import read_rule_choices
from ..summaries.summary_building import SummarySettings, read_summary_settings
from ..transcript.entry_decoder import iter_entries, read_entries
from ..transcript.sanitize import sanitize_text
from .conversation_planning import read_conversation
from .session_access import ActionFailure, ResumeResult, SessionAccess
from .stored_recoveries import clean_up_runs, read_recovery, update_recovery


class NothingToRecoverError(Exception):
    """The session did not end in a refusal that recovery is for."""


class SessionBusyError(Exception):
    """Somebody is at work in the session."""


RECOVERY_ERRORS: Final = (
    NothingToRecoverError,
    AttemptRefusedError,
    CompactionRefusedError,
    SessionBusyError,
    OSError,
    StoreError,
    sqlite3.Error,
)
"""Errors that a recovery is expected to end in."""


class RecoveryOptions(msgspec.Struct, frozen=True):
    target: CompactionTarget
    settings: recovery_run.RecoverySettings
    counter_of: CounterOf  # returns the token counter of a model
    window_tokens: int | None  # for a refusal that names no limit, if it is known for sure
    reserve_tokens: int
    confirmed: frozenset[RecoveryStep] = frozenset()
    """Steps that ask first and that a person has confirmed."""
    summary: SummarySettings = SummarySettings()
    earlier: LastChange | None = None  # the fork that it was recovered in already


class Recovery(msgspec.Struct, frozen=True):
    found: SessionRefusal
    steps: tuple[RecoveryStep, ...]  # that the refusal calls for, in the policy's order
    choice: RecoveryChoice
    run: recovery_run.RecoveryRun | None  # as it is stored; None if there was no attempt yet
    receipt: CompactionReceipt | None = None
    fits_at: int | None = None  # tokens at which there is room for an answer; None without a limit
    earlier: LastChange | None = None  # the fork that it was recovered in already


def recover(options: RecoveryOptions, db: sqlite3.Connection) -> Recovery:
    """Recover the session in a fork, under its lock; the original stays as it is.

    Raises NothingToRecoverError, AttemptRefusedError if no attempt may begin,
    CompactionRefusedError if the plan is refused, and OSError.
    """
    store_run = partial(update_recovery, db)
    with _recovery_context(options) as context:
        refusal, settings, fits_at = context.refusal, options.settings, context.max_fitting_tokens
        steps = recovery_run.recovery_steps_for(refusal.error_type, settings)
        with recovery_run.begin_attempt(store_run, refusal, steps, settings) as attempt:
            counted = replace(context, counters=attempt.run.counters)
            choice = recovery_steps.choose_step(
                iter(attempt.next_step, None), counted, options.confirmed
            )
            chosen = choice.chosen
            if choice.plan is None or chosen is None:
                return Recovery(refusal, steps, choice, attempt.run, fits_at=fits_at)
            receipt = apply_plan(choice.plan, ApplyMode.FORK, options.target)
            attempt.succeed(
                truncated=choice.truncated_results,
                reverted=chosen.reverted_uuid,
                receipt=receipt.receipt_id,
            )
        return Recovery(refusal, steps, choice, attempt.run, receipt, fits_at)


def recovery_options(
    access: SessionAccess, db: sqlite3.Connection, confirmed: frozenset[RecoveryStep] = frozenset()
) -> RecoveryOptions:
    """Return what the policy allows; `db` is read as long as the options are used."""
    window, policy = access.session.context.window, access.policy
    return RecoveryOptions(
        target=access.target,
        settings=recovery_run.read_recovery_settings(policy),
        counter_of=read_part_counters(db, policy.counting),
        window_tokens=None if window.source is ClaimSource.ASSUMED else window.tokens,
        # With so much free the client does not compact at once what was just recovered.
        reserve_tokens=policy.reserve_tokens,
        confirmed=confirmed,
        summary=read_summary_settings(policy),
        earlier=find_earlier_recovery(access),
    )


def find_earlier_recovery(access: SessionAccess) -> LastChange | None:
    """Return the change that recovered a session in a fork; None if it is still to be recovered."""
    if access.session.recovered_in is None:
        return None
    return ReceiptStore(access.target.state_folder).last_changes().get(access.session.session_id)


def preview_recovery(
    access: SessionAccess, db: sqlite3.Connection, confirmed: frozenset[RecoveryStep]
) -> Recovery:
    """Return what a recovery would do, without writing anything. Raises RECOVERY_ERRORS."""
    _require_not_busy(access)
    options = recovery_options(access, db, confirmed)
    run = read_recovery(db, options.target.session_id)
    with _recovery_context(options) as context:
        steps = recovery_run.recovery_steps_for(context.refusal.error_type, options.settings)
        # An attempt would begin with these: counters whose time is over are reset.
        now_ms = time.time_ns() // 1_000_000
        noted = recovery_run.record_refusal(run, context.refusal, steps, now_ms, options.settings)
        counted = replace(context, counters=noted.counters)
        choice = recovery_steps.choose_step(
            recovery_steps.available_steps(counted, steps), counted, confirmed
        )
        return Recovery(
            context.refusal,
            steps,
            choice,
            run,
            fits_at=context.max_fitting_tokens,
            earlier=options.earlier,
        )


def run_recovery(
    access: SessionAccess, confirmed: frozenset[RecoveryStep] = frozenset(), *, again: bool = False
) -> tuple[Recovery, ResumeResult | None]:
    """Recover in a fork, and ask again if the policy says so (T-11). Raises RECOVERY_ERRORS.

    With `again` also a session that was recovered already: it gets another fork.
    """
    _require_not_busy(access)
    earlier = None if again else find_earlier_recovery(access)
    if earlier is not None:
        why = f"it was recovered already in session {earlier.fork_id}, by {earlier.receipt_id}"
        other = f"`ctxtop recover {access.session.session_id[:8]} --apply --again`"
        todo = f"`{earlier.resume_command}` continues it, {other} makes another fork"
        raise AttemptRefusedError(Refusal("recovered", why, todo))
    with closing(open_reader(access.store)) as db, closing(Writer(access.store)) as writer:
        clean_up_runs(writer.connection, time.time_ns() // 1_000_000)
        options = recovery_options(access, db, confirmed)
        recovery = replace(recover(options, writer.connection), earlier=options.earlier)
    chosen = recovery.choice.chosen
    if recovery.receipt is None or chosen is None:
        return recovery, None
    mode = access.policy.text("recovery.resume")
    prompt = resume_prompt(mode, access.target.transcript, chosen.prompt)
    if prompt is None:
        return recovery, None
    return recovery, access.client.resume(prompt, recovery.receipt, options.settings.retry)


def try_preview_recovery(
    access: SessionAccess, db: sqlite3.Connection, confirmed: frozenset[RecoveryStep]
) -> Recovery | ActionFailure:
    """Preview a recovery; expected errors are returned as an ActionFailure."""
    try:
        return preview_recovery(access, db, confirmed)
    except RECOVERY_ERRORS as error:
        return _recovery_failure(error)


def try_run_recovery(
    access: SessionAccess, confirmed: frozenset[RecoveryStep]
) -> tuple[Recovery, ResumeResult | None] | ActionFailure:
    try:
        recovery, resumed = run_recovery(access, confirmed)
    except RECOVERY_ERRORS as error:
        return _recovery_failure(error)
    if recovery.receipt is None:
        reasons = tuple(refusal.why for refusal in recovery.choice.refusals)
        return ActionFailure(reasons or ("no recovery step frees enough",))
    return recovery, resumed


def _recovery_failure(error: Exception) -> ActionFailure:
    if isinstance(error, OSError):
        where = error.filename or "a file"
        return ActionFailure((f"{where}: {error.strerror or error}: nothing was changed",))
    if isinstance(error, sqlite3.Error):
        return ActionFailure(("; ".join(explain_error(error)),))
    return ActionFailure((str(error),))


def _require_not_busy(access: SessionAccess) -> None:
    status = access.session.status
    if status in {SessionStatus.BUSY, SessionStatus.WAITING, SessionStatus.ACTIVE}:
        raise SessionBusyError(f"it is {status}: wait until it is idle")


def resume_prompt(mode: str, transcript: Path, reverted_prompt: str | None) -> str | None:
    """Return the prompt to resume with (T-11); None if the policy wants none or none is found.

    `reverted_prompt` is the prompt that a revert removed. Raises OSError.
    """
    if mode == "continue":
        return "Continue"  # R002-16
    if mode != "last_prompt":
        return None
    if reverted_prompt:
        return reverted_prompt
    for entry in reversed(read_entries(transcript)):
        texts = [part.text for part in entry.parts if part.kind is PartKind.PROMPT]
        if texts and entry.type == "user":
            return sanitize_text("\n".join(texts)) or None
    return None


@contextmanager
def _recovery_context(options: RecoveryOptions) -> Iterator[RecoveryContext]:
    target = options.target
    with open_transcript(target.transcript) as file:
        scan = file.scan()
        source = PlanSource(
            target.session_id,
            target.transcript,
            options.counter_of,
            options.window_tokens,
            rule_choices=read_rule_choices(target.state_folder),
        )
        view = read_transcript_view(source, file, scan)
        refusal = find_refusal(target.session_id, view.entries, view.decoded_line)
        if refusal is None:
            raise NothingToRecoverError(
                "it did not end in a prompt that is too long or in an empty message:"
                " `ctxtop compact` makes it smaller"
            )
        _require_new_refusal(target, view, refusal)
        yield RecoveryContext(
            view,
            refusal,
            options.settings,
            scan.sha256,
            scan.size,
            window_tokens=options.window_tokens,
            reserve_tokens=options.reserve_tokens,
            summarize=partial(_summarize, source, options.summary),
        )


def _require_new_refusal(
    target: CompactionTarget, view: TranscriptView, refusal: SessionRefusal
) -> None:
    """Raise NothingToRecoverError if the refusal is older than the session's last change.

    One of which a fork was made is unchanged itself: see `find_earlier_recovery`.
    """
    change = ReceiptStore(target.state_folder).last_changes().get(target.session_id)
    refused = next((each for each in view.entries if each.line == refusal.line), None)
    if change is None or change.fork_id or refused is None or (refused.at or 0) > change.at:
        return
    raise NothingToRecoverError(
        f"it was made smaller after the refusal, by receipt {change.receipt_id}, and nothing was"
        f" sent since: {change.resume_command}"
    )


def _summarize(
    source: PlanSource, settings: SummarySettings, context: RecoveryContext
) -> Operation | Refusal:
    """Summarize by rules; of the newest messages as many stay word for word as fit.

    They may hold the very result that is too large: half as many are tried, down to one.
    """
    # What was written since the view was made is no part of the plan.
    newest_offset = context.view.lines[-1].offset

    def read_known(path: Path, start: int = 0, /) -> Iterator[Entry]:
        return (each for each in iter_entries(path, start) if each.offset <= newest_offset)

    conversation = read_conversation(replace(source, read_entries=read_known), context.view)
    while True:
        operation = summarize_by_rules(conversation, settings)
        is_done = not isinstance(operation, Refusal) and context.fits_after([operation])
        if is_done or settings.keep_messages <= 1:
            return operation
        settings = replace(settings, keep_messages=settings.keep_messages // 2)
