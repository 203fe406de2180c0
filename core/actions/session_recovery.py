"""Recover a session that ended in a refusal: plan the steps, and apply them in a fork."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
from typing import Final

import msgspec

from ..compaction.apply import apply_plan
from ..compaction.compaction_target import CompactionTarget
from ..compaction.plan import CompactionRefusedError, Operation, Refusal, Severity
from ..compaction.receipts import ApplyMode, CompactionReceipt, ReceiptStore
from ..compaction.recovery.recovery_plan import (
    BaseFile,
    RecoveryChoice,
    RecoveryTools,
    available_steps,
    choose_step,
)
from ..compaction.recovery.recovery_run import (
    AttemptRefusedError,
    RecoveryCounters,
    RecoveryRun,
    SessionRefusal,
    begin_attempt,
    find_refusal,
)
from ..compaction.recovery.recovery_settings import (
    RecoverySettings,
    RecoveryStep,
    read_recovery_settings,
    recovery_steps_for,
)
from ..compaction.recovery.recovery_steps import RecoveryContext, summarise_until_it_fits
from ..compaction.transcript_planning import STRATEGIES
from ..compaction.transcript_reading import CounterOf, PlanSource, read_transcript_view
from ..compaction.transcript_view import TranscriptView, open_transcript
from ..measure.window import ClaimSource
from ..model.session import SessionStatus
from ..store.automation_records import clean_up_runs, read_recovery, update_recovery
from ..store.database import StoreError, explain_error, open_reader
from ..store.token_samples import read_estimator
from ..store.writer import Writer
from ..summaries.summary_building import SummarySettings, read_summary_settings
from ..transcript.conversation import Entry, PartKind
from ..transcript.entry_decoder import iter_entries, read_entries
from ..transcript.sanitize import sanitize_text
from .conversation_planning import read_conversation
from .session_access import ActionFailure, ResumeResult, SessionAccess

DEDUP_STRATEGIES: Final = frozenset(
    {"duplicate-results", "unchanged-reads", "repeated-attachments"}
)
"""Strategies that leave out what is said twice: the step `dedup` of the preset omo-latest."""

_RESERVE_KEYS: Final = ("output_reserve", "autocompact_buffer")


class NothingToRecoverError(Exception):
    """The session did not end in a refusal that recovery is for."""


class RecoveryOptions(msgspec.Struct, frozen=True):
    """The session, and what recovery may do to it."""

    target: CompactionTarget
    settings: RecoverySettings
    counter_of: CounterOf  # returns the token counter of a model
    window_tokens: int | None
    """Where the refusal names no limit; None where it is not known for sure."""
    reserve_tokens: int
    confirmed: frozenset[RecoveryStep] = frozenset()
    """Steps that ask first and that a person has confirmed."""
    summary: SummarySettings = SummarySettings()


class Recovery(msgspec.Struct, frozen=True):
    """What was found, and what would be done, or was."""

    found: SessionRefusal
    steps: tuple[RecoveryStep, ...]  # that the refusal calls for, in the policy's order
    choice: RecoveryChoice
    run: RecoveryRun | None  # as it is kept; None where there was no attempt yet
    receipt: CompactionReceipt | None = None
    fits_at: int | None = None  # tokens at which there is room for an answer; None without a limit


def plan_recovery(options: RecoveryOptions, db: sqlite3.Connection) -> Recovery:
    """Plan a recovery without writing anything.

    Raises NothingToRecoverError, and OSError if the transcript cannot be read.
    """
    run = read_recovery(db, options.target.session_id)
    counters = run.counters if run else RecoveryCounters()
    with _recovery_context(options, counters) as (ground, base):
        steps = recovery_steps_for(ground.refusal.error_type, options.settings)
        left = available_steps(ground, steps)
        choice = choose_step(left, ground, base, _step_tools(options), options.confirmed)
        return Recovery(ground.refusal, steps, choice, run, fits_at=ground.max_fitting_tokens)


def recover(options: RecoveryOptions, db: sqlite3.Connection) -> Recovery:
    """Mend the session in a fork, under its lock; the original stays as it is.

    Raises NothingToRecoverError, AttemptRefusedError where no attempt may begin,
    CompactionRefusedError where the plan is refused, and OSError.
    """

    def keep(session_id: str, change: Callable[[RecoveryRun | None], RecoveryRun]) -> RecoveryRun:
        return update_recovery(db, session_id, change)

    with _recovery_context(options, RecoveryCounters()) as (ground, base):
        steps = recovery_steps_for(ground.refusal.error_type, options.settings)
        with begin_attempt(keep, ground.refusal, steps, options.settings) as trying:
            counted = msgspec.structs.replace(ground, counters=trying.run.counters)
            left = iter(trying.next_step, None)
            choice = choose_step(left, counted, base, _step_tools(options), options.confirmed)
            chosen = choice.chosen
            if choice.plan is None or chosen is None:
                return Recovery(
                    ground.refusal, steps, choice, trying.run, fits_at=ground.max_fitting_tokens
                )
            receipt = apply_plan(choice.plan, ApplyMode.FORK, options.target)
            trying.succeed(
                truncated=chosen.truncated_results,
                reverted=chosen.reverted_uuid,
                receipt=receipt.receipt_id,
            )
        return Recovery(
            ground.refusal, steps, choice, trying.run, receipt, ground.max_fitting_tokens
        )


def recovery_options(
    access: SessionAccess, db: sqlite3.Connection, confirmed: frozenset[RecoveryStep] = frozenset()
) -> RecoveryOptions:
    """Return what the policy allows; `db` is read as long as the options are used."""
    window, policy = access.session.context.window, access.policy
    return RecoveryOptions(
        target=access.target,
        settings=read_recovery_settings(policy),
        counter_of=read_estimator(db).for_model,
        window_tokens=None if window.source is ClaimSource.ASSUMED else window.tokens,
        # So much is kept free that the client does not compact at once what was just mended.
        reserve_tokens=sum(policy.integer(f"limit.{name}") or 0 for name in _RESERVE_KEYS),
        confirmed=confirmed,
        summary=read_summary_settings(policy),
    )


BUSY_STATUSES: Final = frozenset({SessionStatus.BUSY, SessionStatus.WAITING, SessionStatus.ACTIVE})


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
"""Ends that are to be expected."""


def preview_recovery(
    access: SessionAccess, db: sqlite3.Connection, confirmed: frozenset[RecoveryStep]
) -> Recovery:
    """Return what a recovery would do, without writing anything. Raises RECOVERY_ERRORS."""
    _require_not_busy(access)
    return plan_recovery(recovery_options(access, db, confirmed), db)


def run_recovery(
    access: SessionAccess, confirmed: frozenset[RecoveryStep] = frozenset()
) -> tuple[Recovery, ResumeResult | None]:
    """Mend a session in a fork, and ask again there where the policy says so (T-11).

    Raises RECOVERY_ERRORS.
    """
    _require_not_busy(access)
    with closing(open_reader(access.store)) as db, closing(Writer(access.store)) as writer:
        clean_up_runs(writer.connection, time.time_ns() // 1_000_000)
        options = recovery_options(access, db, confirmed)
        recovery = recover(options, writer.connection)
    return recovery, _resume(access, recovery, options)


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
    """Mend a session, or return why it was not."""
    try:
        recovery, resumed = run_recovery(access, confirmed)
    except RECOVERY_ERRORS as error:
        return _recovery_failure(error)
    if recovery.receipt is None:
        whys = tuple(each.why for each in recovery.choice.refusals)
        return ActionFailure(whys or ("no step suffices",))
    return recovery, resumed


def _recovery_failure(error: Exception) -> ActionFailure:
    if isinstance(error, OSError):
        where = error.filename or "a file"
        return ActionFailure((f"{where}: {error.strerror or error}: nothing was changed",))
    if isinstance(error, sqlite3.Error):
        return ActionFailure(("; ".join(explain_error(error)),))
    return ActionFailure((str(error),))


def _require_not_busy(access: SessionAccess) -> None:
    if access.session.status in BUSY_STATUSES:
        raise SessionBusyError(f"it is {access.session.status}: wait until it is idle")


def _resume(
    access: SessionAccess, recovery: Recovery, options: RecoveryOptions
) -> ResumeResult | None:
    if recovery.receipt is None or recovery.choice.chosen is None:
        return None
    mode, chosen = access.policy.text("recovery.resume"), recovery.choice.chosen
    prompt = resume_prompt(mode, access.target.transcript, chosen.prompt)
    if prompt is None:
        return None
    return access.client.resume(prompt, recovery.receipt, options.settings.retry)


CONTINUE_PROMPT: Final = "Continue"  # what is said with `continue` (R002-16)


def resume_prompt(mode: str, transcript: Path, reverted_prompt: str | None) -> str | None:
    """Return the prompt to resume with (T-11); None if the policy wants none or none is found.

    `reverted_prompt` is the prompt that a revert removed. Raises OSError.
    """
    if mode == "continue":
        return CONTINUE_PROMPT
    if mode != "last_prompt":
        return None
    return reverted_prompt or _last_prompt(transcript)


def _last_prompt(transcript: Path) -> str | None:
    for entry in reversed(read_entries(transcript)):
        words = [each.text for each in entry.parts if each.kind is PartKind.PROMPT]
        if words and entry.type == "user":
            return sanitize_text("\n".join(words)) or None
    return None


@contextmanager
def _recovery_context(
    options: RecoveryOptions, counters: RecoveryCounters
) -> Iterator[tuple[RecoveryContext, BaseFile]]:
    subject = options.target
    with open_transcript(subject.transcript) as file:
        scan = file.scan()
        source = PlanSource(
            subject.session_id, subject.transcript, options.counter_of, options.window_tokens
        )
        view = read_transcript_view(source, file, scan)
        found = find_refusal(subject.session_id, view.entries, view.decoded_line)
        if found is None:
            raise NothingToRecoverError(
                "it did not end in a prompt that is too long or in an empty message:"
                " `ctxtop compact` makes it smaller"
            )
        _require_new_refusal(subject, view, found)
        ground = RecoveryContext(
            view,
            found,
            options.settings,
            counters,
            window_tokens=options.window_tokens,
            reserve_tokens=options.reserve_tokens,
        )
        yield ground, BaseFile(scan.sha256, scan.size)


def _require_new_refusal(
    target: CompactionTarget, view: TranscriptView, found: SessionRefusal
) -> None:
    """Raise NothingToRecoverError where the refusal came before the session was made or changed."""
    change = ReceiptStore(target.state_folder).last_changes().get(target.session_id)
    refused = next((each for each in view.entries if each.line == found.line), None)
    if change is None or refused is None or (refused.at or 0) > change.at:
        return
    raise NothingToRecoverError(
        f"it was made smaller after the refusal, by receipt {change.receipt_id}, and nothing was"
        f" sent since: {change.resume_command}"
    )


def _step_tools(options: RecoveryOptions) -> RecoveryTools:
    lossless = tuple(each.find_operations for each in STRATEGIES if each.name in DEDUP_STRATEGIES)
    pruning = tuple(
        each.find_operations
        for each in STRATEGIES
        if Severity.FILE_ONLY < each.level <= Severity.SUPERSEDED and not each.is_opt_in
    )
    return RecoveryTools(
        {RecoveryStep.DEDUP: lossless, RecoveryStep.DCP: pruning}, partial(_summarise, options)
    )


def _summarise(options: RecoveryOptions, context: RecoveryContext) -> Operation | Refusal:
    # What was written since the view was made is no part of the plan.
    newest_offset = context.view.lines[-1].offset

    def read_known(path: Path, start: int = 0, /) -> Iterator[Entry]:
        return (each for each in iter_entries(path, start) if each.offset <= newest_offset)

    target = options.target
    source = PlanSource(
        target.session_id, target.transcript, options.counter_of, read_entries=read_known
    )
    whole = read_conversation(source, context.view)
    return summarise_until_it_fits(context, whole, options.summary)
