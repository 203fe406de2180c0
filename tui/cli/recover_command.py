"""`ctxtop recover`: mends a session that ended because its prompt was too long."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING, Any, Final

import click

from ...collectors.recovering import NothingToMendError, Wanted, plan_recovery, recover
from ...collectors.registry import read_registry
from ...collectors.transcripts.conversation import read_conversation
from ...core.claims import Source
from ...core.compaction import plan as plans
from ...core.compaction import receipts
from ...core.compaction.recovery.attempt import NotNowError
from ...core.compaction.recovery.settings import recovery_settings
from ...core.compaction.refused import NotAppliedError, Stop
from ...core.compaction.subject import Subject
from ...core.sessions import Status
from ...core.store.estimating import read_estimator
from ...core.store.writer import Writer
from ..formats import tokens
from .emit import emit
from .options import chosen, reading
from .reading import open_reading
from .report import FAILED, LIVE, UNSAFE, USAGE, RefusedError, say

if TYPE_CHECKING:
    from pathlib import Path

    from ...collectors.recovering import Recovery
    from ...core.policy.policy import Policy
    from ...core.sessions import Session
    from ..places import Places
    from .reading import Reading

UNVERIFIED: Final = 5
"""A check failed after it was done, and everything is as it was (commands.md)."""

KEEP: Final = 10
"""Messages that stay where the policy leaves their number to the client."""

_CODES: Final = {
    Stop.NOTHING: USAGE,
    Stop.LIVE: LIVE,
    Stop.UNSAFE: UNSAFE,
    Stop.UNVERIFIED: UNVERIFIED,
}

_AT_WORK: Final = frozenset({Status.BUSY, Status.WAITING, Status.ACTIVE})


@click.command("recover")
@reading
@click.argument("session")
@click.option("--apply", "is_asked", is_flag=True, help="Do it, in a session of its own.")
@click.option(
    "--confirm-revert",
    "may_revert",
    is_flag=True,
    help="Where nothing else helps, go back before the last prompt.",
)
@click.pass_context
def recover_session(
    context: click.Context, *, session: str, is_asked: bool, may_revert: bool
) -> int:
    """Mend a session that ended in "prompt is too long" or in an empty message.

    The start of SESSION's id is enough. Prints the plan; --apply carries it out on a fork, and
    the session itself stays as it is.
    """
    try:
        with open_reading(chosen(context)) as found:
            wanted = _wanted(found, session, may_revert=may_revert)
            # The estimator reads from the store as long as it is used.
            done = _recover(wanted, found.places) if is_asked else plan_recovery(wanted, found.db)
            return _said(context, done)
    except (RefusedError, NothingToMendError) as error:
        say(f"{session} was not mended: {error}")
        return USAGE
    except _BusyError as error:
        say(f"{session} was not mended: {error}")
        return LIVE
    except NotNowError as error:
        say(f"{session} was not mended: {error.refusal.check}: {error}")
        return LIVE if error.refusal.check == "in_progress" else UNSAFE
    except NotAppliedError as error:
        say(f"{session} was not mended: {error}")
        return _CODES.get(error.stop, FAILED)


class _BusyError(Exception):
    """Somebody is at work in the session."""


def _recover(wanted: Wanted, places: Places) -> Recovery:
    with closing(Writer(places.store)) as writer:
        return recover(wanted, writer.connection)


def _wanted(found: Reading, start: str, *, may_revert: bool) -> Wanted:
    session_id = found.session_id(start) or start
    (session,) = found.sessions(session_id)
    if session.status in _AT_WORK:
        raise _BusyError(f"it is {session.status}: wait until it is idle")
    policy = found.policies.of(session.cwd)
    return Wanted(
        subject=_subject(found.places, session),
        settings=recovery_settings(policy),
        counter_of=read_estimator(found.db).of,
        window_tokens=_window(session),
        reserve_tokens=_reserve(policy),
        may_revert=may_revert,
        keep=policy.whole("compact.preserve_recent") or KEEP,
        template=policy.text("summary.template"),
    )


def _subject(places: Places, session: Session) -> Subject:
    def held_by(session_id: str) -> str | None:
        live = (each for each in read_registry(places.folder) if each.session_id == session_id)
        return next((f"process {each.pid}" for each in live), None)

    return Subject(
        session_id=session.session_id,
        transcript=places.folder.projects / session.path,
        cwd=session.cwd,
        state=compaction_folder(places.store),
        read=read_conversation,
        held_by=held_by,
    )


def compaction_folder(store: Path) -> Path:
    """Name the folder of a store's copies, receipts and locks of changed sessions."""
    return store.with_name(f"{store.name}.compaction")


def _window(session: Session) -> int | None:
    window = session.context.window
    return None if window.source is Source.ASSUMED else window.tokens


def _reserve(policy: Policy) -> int:
    """Keep so much free that the client does not compact at once what was just mended."""
    return sum(
        policy.whole(f"limit.{name}") or 0 for name in ("output_reserve", "autocompact_buffer")
    )


def _said(context: click.Context, recovery: Recovery) -> int:
    emit(context, as_record(recovery), lambda: lines_of(recovery))
    return UNSAFE if recovery.choice.plan is None else 0


def as_record(recovery: Recovery) -> dict[str, Any]:
    """Say a recovery for programs (commands.md)."""
    found, choice, run = recovery.found, recovery.choice, recovery.run
    chosen_step = choice.chosen
    return {
        "session_id": found.session_id,
        "error_type": found.error_type.value,
        "current_tokens": found.current_tokens,
        "max_tokens": found.max_tokens,
        "message_index": found.message_index,
        "state": run.state.value if run else "detected",
        "attempts": run.counters.attempts if run else 0,
        "step": chosen_step.step.value if chosen_step else None,
        "prompt": chosen_step.prompt if chosen_step else None,
        "plan": plans.as_record(choice.plan) if choice.plan else None,
        "refused": [
            {"check": each.check, "why": each.why, "what_to_do": each.what_to_do}
            for each in choice.why_not
        ],
        "receipt": receipts.as_record(recovery.receipt) if recovery.receipt else None,
    }


def lines_of(recovery: Recovery) -> list[str]:
    """Say a recovery for a person."""
    found, choice = recovery.found, recovery.choice
    size = f"{tokens(found.current_tokens)} of {tokens(found.max_tokens)}"
    lines = [f"{found.session_id[:8]} ended in {found.error_type}: {size}"]
    lines += [f"  {each.check}: {each.why} ({each.what_to_do})" for each in choice.why_not]
    if choice.plan is None or choice.chosen is None:
        return [*lines, "no step suffices"]
    plan = choice.plan
    lines.append(
        f"  {choice.chosen.step}: ≈ {tokens(plan.before_tokens)} → {tokens(plan.after_tokens)}"
        f" in {len(plan.operations)} operations, plan {plan.plan_id}"
    )
    lines += [f"    line {each.line}: {each.what}: {each.why}" for each in plan.operations]
    if choice.chosen.prompt:
        lines.append(f"  to ask again: {choice.chosen.prompt}")
    if recovery.receipt is None:
        return [*lines, f"`ctxtop recover {found.session_id[:8]} --apply` does it on a fork"]
    receipt = recovery.receipt
    return [*lines, f"receipt {receipt.receipt_id}; go on with: {receipt.resume_command}"]
