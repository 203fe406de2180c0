"""Recover a session that ended in a refusal: plan the steps, and apply them in a fork."""

from __future__ import annotations

from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Final

import msgspec

from ..compaction.apply import apply_plan
from ..compaction.plan import Severity
from ..compaction.receipts import ApplyMode, ReceiptStore
from ..compaction.recovery.recovery_plan import (
    BaseFile,
    RecoveryTools,
    available_steps,
    choose_step,
)
from ..compaction.recovery.recovery_run import RecoveryCounters, begin_attempt, find_refusal
from ..compaction.recovery.recovery_settings import (
    RecoverySettings,
    RecoveryStep,
    recovery_steps_for,
)
from ..compaction.recovery.recovery_steps import RecoveryContext, summarise_until_it_fits
from ..compaction.strategies.strategy_registry import STRATEGIES
from ..compaction.summary_boundary import Conversation, newest_entry, read_common_fields
from ..compaction.transcript_file import open_transcript
from ..compaction.transcript_planning import read_transcript_view
from ..measure.window import ClaimSource
from ..store.automation_records import read_recovery, update_recovery
from ..summaries.summary_settings import SummarySettings, read_summary_settings
from ..transcript.entry_decoder import iter_entries, read_entries

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable, Iterator

    from ..compaction.compaction_target import CompactionTarget
    from ..compaction.plan import Operation, Refusal
    from ..compaction.receipts import CompactionReceipt
    from ..compaction.recovery.recovery_plan import RecoveryChoice
    from ..compaction.recovery.recovery_run import RecoveryRun, SessionRefusal
    from ..compaction.transcript_planning import CounterOf
    from ..compaction.transcript_view import TranscriptView
    from ..model.session import Session
    from ..policy.policy import Policy


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
    counter_of: CounterOf
    """Gives who counts for a model."""
    window_tokens: int | None
    """Where the refusal names no limit; None where it is not known for sure."""
    reserve_tokens: int
    confirmed: frozenset[RecoveryStep] = frozenset()
    """Steps that ask first and that a person has confirmed."""
    keep_messages: int = 10
    """Messages that a summary leaves word for word (`compact.preserve_recent`)."""
    summary: SummarySettings = SummarySettings()
    """What else a policy says of a summary."""


class Recovery(msgspec.Struct, frozen=True):
    """What was found, and what would be done, or was."""

    found: SessionRefusal
    steps: tuple[RecoveryStep, ...]
    """That the refusal calls for, in the policy's order."""
    choice: RecoveryChoice
    run: RecoveryRun | None
    """As it is kept; None where there was no attempt yet."""
    receipt: CompactionReceipt | None = None
    fits_at: int | None = None
    """Tokens at which there is room for an answer; None without a limit."""


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

    Raises NothingToMendError, NotNowError where no attempt may begin, NotAppliedError where the
    plan is refused, and OSError.
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
    target: CompactionTarget,
    session: Session,
    policy: Policy,
    counter_of: CounterOf,
    settings: RecoverySettings,
    confirmed: frozenset[RecoveryStep] = frozenset(),
) -> RecoveryOptions:
    window = session.context.window
    summary = read_summary_settings(policy)
    return RecoveryOptions(
        target=target,
        settings=settings,
        counter_of=counter_of,
        window_tokens=None if window.source is ClaimSource.ASSUMED else window.tokens,
        # So much is kept free that the client does not compact at once what was just mended.
        reserve_tokens=sum(policy.integer(f"limit.{name}") or 0 for name in _RESERVE_KEYS),
        confirmed=confirmed,
        keep_messages=summary.keep_messages,
        summary=summary,
    )


@contextmanager
def _recovery_context(
    options: RecoveryOptions, counters: RecoveryCounters
) -> Iterator[tuple[RecoveryContext, BaseFile]]:
    subject = options.target
    with open_transcript(subject.transcript) as file:
        scan = file.scan()
        view = read_transcript_view(
            subject.transcript, file, scan, iter_entries, options.counter_of
        )
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
    """Raise NothingToMendError where the refusal came before the session was made or changed."""
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
    path = options.target.transcript
    # What was written since the view was made is no part of the plan.
    known = len(context.view.lines)
    entries = tuple(each for each in read_entries(path) if each.line <= known)
    last = newest_entry(entries)
    line = context.view.decoded_line(last.line) if last else {}
    whole = Conversation(entries, read_common_fields(line), context.view.count_tokens, str(path))
    return summarise_until_it_fits(context, whole, options.keep_messages, options.summary)
