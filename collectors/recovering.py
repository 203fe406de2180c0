"""Recovery of one session: its transcript read, a plan made, and carried out when asked."""

from __future__ import annotations

from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Final

import msgspec

from ..core.claims import Source
from ..core.compaction.apply import apply_plan
from ..core.compaction.line_file import open_lines
from ..core.compaction.plan import Harm
from ..core.compaction.planning import read_view
from ..core.compaction.receipts import Mode, Receipts
from ..core.compaction.recovery.attempt import attempt
from ..core.compaction.recovery.detection import find_refusal
from ..core.compaction.recovery.ground import Ground
from ..core.compaction.recovery.order import steps_for
from ..core.compaction.recovery.planning import Base, choose, steps_left
from ..core.compaction.recovery.run import Counters
from ..core.compaction.recovery.settings import RecoverySettings, Step
from ..core.compaction.recovery.steps import Tools
from ..core.compaction.recovery.summarise import summarise_until_it_fits
from ..core.compaction.registered import STRATEGIES
from ..core.compaction.whole import Whole, envelope_of, newest
from ..core.store.recovery_rows import change_run, read_run
from ..core.summaries.settings import SummarySettings, summary_settings
from .transcripts.conversation import entries_from, read_conversation

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable, Iterator

    from ..core.compaction.plan import Operation, Refusal
    from ..core.compaction.planning import CounterOf
    from ..core.compaction.receipts import Receipt
    from ..core.compaction.recovery.planning import Choice
    from ..core.compaction.recovery.run import Found, Run
    from ..core.compaction.subject import Subject
    from ..core.compaction.view import View
    from ..core.policy.policy import Policy
    from ..core.sessions import Session

DUPLICATES: Final = frozenset({"duplicate-results", "unchanged-reads", "repeated-attachments"})
"""Strategies that leave out what is said twice: the step `dedup` of the preset omo-latest."""

_RESERVES: Final = ("output_reserve", "autocompact_buffer")


class NothingToMendError(Exception):
    """The session did not end in a refusal that recovery is for."""


class Wanted(msgspec.Struct, frozen=True):
    """The session, and what recovery may do to it."""

    target: Subject
    settings: RecoverySettings
    counter_of: CounterOf
    """Gives who counts for a model."""
    window_tokens: int | None
    """Where the refusal names no limit; None where it is not known for sure."""
    reserve_tokens: int
    confirmed: frozenset[Step] = frozenset()
    """Steps that ask first and that a person has confirmed."""
    keep_messages: int = 10
    """Messages that a summary leaves word for word (`compact.preserve_recent`)."""
    summary: SummarySettings = SummarySettings()
    """What else a policy says of a summary."""


class Recovery(msgspec.Struct, frozen=True):
    """What was found, and what would be done, or was."""

    found: Found
    steps: tuple[Step, ...]
    """That the refusal calls for, in the policy's order."""
    choice: Choice
    run: Run | None
    """As it is kept; None where there was no attempt yet."""
    receipt: Receipt | None = None
    fits_at: int | None = None
    """Tokens at which there is room for an answer; None without a limit."""


def plan_recovery(options: Wanted, db: sqlite3.Connection) -> Recovery:
    """Say what would be done; nothing is written.

    Raises NothingToMendError, and OSError where the transcript cannot be read.
    """
    run = read_run(db, options.target.session_id)
    counters = run.counters if run else Counters()
    with _ground(options, counters) as (ground, base):
        steps = steps_for(ground.refusal.error_type, options.settings)
        left = steps_left(ground, steps)
        choice = choose(left, ground, base, _tools(options), options.confirmed)
        return Recovery(ground.refusal, steps, choice, run, fits_at=ground.max_fitting_tokens)


def recover(options: Wanted, db: sqlite3.Connection) -> Recovery:
    """Mend the session in a fork, under its lock; the original stays as it is.

    Raises NothingToMendError, NotNowError where no attempt may begin, NotAppliedError where the
    plan is refused, and OSError.
    """

    def keep(session_id: str, change: Callable[[Run | None], Run]) -> Run:
        return change_run(db, session_id, change)

    with _ground(options, Counters()) as (ground, base):
        steps = steps_for(ground.refusal.error_type, options.settings)
        with attempt(keep, ground.refusal, steps, options.settings) as trying:
            counted = msgspec.structs.replace(ground, counters=trying.run.counters)
            left = iter(trying.next_step, None)
            choice = choose(left, counted, base, _tools(options), options.confirmed)
            chosen = choice.chosen
            if choice.plan is None or chosen is None:
                return Recovery(
                    ground.refusal, steps, choice, trying.run, fits_at=ground.max_fitting_tokens
                )
            receipt = apply_plan(choice.plan, Mode.FORK, options.target)
            trying.succeed(
                truncated=chosen.truncated_results,
                reverted=chosen.reverted_uuid,
                receipt=receipt.receipt_id,
            )
        return Recovery(
            ground.refusal, steps, choice, trying.run, receipt, ground.max_fitting_tokens
        )


def wanted_of(
    target: Subject,
    session: Session,
    policy: Policy,
    counter_of: CounterOf,
    settings: RecoverySettings,
    confirmed: frozenset[Step] = frozenset(),
) -> Wanted:
    """Say what a policy lets recovery do to a session."""
    window = session.context.window
    summary = summary_settings(policy)
    return Wanted(
        target=target,
        settings=settings,
        counter_of=counter_of,
        window_tokens=None if window.source is Source.ASSUMED else window.tokens,
        # So much is kept free that the client does not compact at once what was just mended.
        reserve_tokens=sum(policy.integer(f"limit.{name}") or 0 for name in _RESERVES),
        confirmed=confirmed,
        keep_messages=summary.keep_messages,
        summary=summary,
    )


@contextmanager
def _ground(options: Wanted, counters: Counters) -> Iterator[tuple[Ground, Base]]:
    subject = options.target
    with open_lines(subject.transcript) as file:
        scan = file.scan()
        view = read_view(subject.transcript, file, scan, entries_from, options.counter_of)
        found = find_refusal(subject.session_id, view.entries, view.decoded_line)
        if found is None:
            raise NothingToMendError(
                "it did not end in a prompt that is too long or in an empty message:"
                " `ctxtop compact` makes it smaller"
            )
        _require_news(subject, view, found)
        ground = Ground(
            view,
            found,
            options.settings,
            counters,
            window_tokens=options.window_tokens,
            reserve_tokens=options.reserve_tokens,
        )
        yield ground, Base(scan.sha256, scan.size)


def _require_news(target: Subject, view: View, found: Found) -> None:
    """Raise NothingToMendError where the refusal came before the session was made or changed."""
    change = Receipts(target.state_folder).last_changes().get(target.session_id)
    refused = next((each for each in view.entries if each.line == found.line), None)
    if change is None or refused is None or (refused.at or 0) > change.at:
        return
    raise NothingToMendError(
        f"it was made smaller after the refusal, by receipt {change.receipt_id}, and nothing was"
        f" sent since: {change.resume_command}"
    )


def _tools(options: Wanted) -> Tools:
    lossless = tuple(each.find_operations for each in STRATEGIES if each.name in DUPLICATES)
    pruning = tuple(
        each.find_operations
        for each in STRATEGIES
        if Harm.FILE_ONLY < each.level <= Harm.SUPERSEDED and not each.is_opt_in
    )
    return Tools({Step.DEDUP: lossless, Step.DCP: pruning}, partial(_summarise, options))


def _summarise(options: Wanted, context: Ground) -> Operation | Refusal:
    path = options.target.transcript
    # What was written since the view was made is no part of the plan.
    known = len(context.view.lines)
    entries = tuple(each for each in read_conversation(path) if each.line <= known)
    last = newest(entries)
    line = context.view.decoded_line(last.line) if last else {}
    whole = Whole(entries, envelope_of(line), context.view.count_tokens, str(path))
    return summarise_until_it_fits(context, whole, options.keep_messages, options.summary)
