"""`ctxtop compact`: what could go from a session's context; carried out where that was asked."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import click

from ...core.compaction.plan import Harm, as_record
from ...core.compaction.registered import STRATEGIES
from ...core.trigger import BUFFER, RESERVE
from .emit import emit
from .options import chosen, reading
from .reading import open_reading
from .report import FAILED, LIVE, UNSAFE, USAGE, RefusedError, say

if TYPE_CHECKING:
    from pathlib import Path

    from ...core.compaction.plan import Plan, Refusal
    from ...core.compaction.select import Aim
    from ...core.compaction.subject import Subject
    from ...core.sessions import Session
    from .reading import Reading

TARGET: Final = 0.5
"""Of the effective window (compaction.md 7.5; oh-my-opencode has the same)."""

UNVERIFIED: Final = 5

_NOTHING: Final = frozenset({"nothing", "target", "futile"})


@click.command()
@reading
@click.argument("session")
@click.option(
    "--strategy",
    "names",
    multiple=True,
    type=click.Choice([each.name for each in STRATEGIES]),
    metavar="NAME",
    help="Only this one; may be given again.",
)
@click.option("--level", type=click.IntRange(0, 8), help="The most harm.  [default: 4]")
@click.option(
    "--target",
    type=click.FloatRange(0, 1),
    help="Stop at this share of the effective window.  [default: 0.5, none with --level]",
)
@click.option(
    "--keep", type=click.IntRange(0), default=10, show_default=True, help="Newest turns with tools."
)
@click.option("--explain", type=click.IntRange(1), metavar="N", help="Show one operation's words.")
@click.option("--apply", "is_applied", is_flag=True, help="Carry it out, in a fork.")
@click.option("--in-place", is_flag=True, help="With --apply: in the session itself.")
@click.pass_context
def compact(
    context: click.Context,
    *,
    session: str,
    names: tuple[str, ...],
    level: int | None,
    target: float | None,
    keep: int,
    explain: int | None,
    is_applied: bool,
    in_place: bool,
) -> int:
    """Plan how to make a session smaller; nothing is written without --apply.

    The start of SESSION's id is enough. Least harm goes first, and no more than is needed.
    """
    if in_place and not is_applied:
        raise click.UsageError("--in-place needs --apply", context)
    from . import compact_lines

    with open_reading(chosen(context)) as found:
        known = _session(found, session)
        transcript = found.places.folder.projects / known.path
        everything = target is None and (level is not None or bool(names))
        share = None if everything else (TARGET if target is None else target)
        plan = _plan(found, known, transcript, _aim(known, names, level, share), keep)
        subject = _subject(found, known, transcript)
    if is_applied and not plan.refused:
        return _apply(context, plan, subject, in_place=in_place)
    if explain is not None:
        if explain > len(plan.operations):
            raise click.UsageError(f"the plan has {len(plan.operations)} operations", context)
        lines = compact_lines.explain(plan, explain, transcript.read_bytes().split(b"\n"))
    else:
        lines = compact_lines.preview(plan)
    emit(context, as_record(plan), lambda: lines)
    return _code(plan.refused)


def _session(found: Reading, start: str) -> Session:
    session_id = found.session_id(start)
    (session,) = found.sessions(session_id)
    return session


def _aim(session: Session, names: tuple[str, ...], level: int | None, target: float | None) -> Aim:
    from ...core.compaction.select import Aim

    effective = session.context.window.tokens - RESERVE - BUFFER
    return Aim(
        level=Harm.INPUTS if level is None else Harm(level),
        strategies=names,
        target_tokens=None if target is None else round(target * effective),
    )


def _plan(found: Reading, session: Session, transcript: Path, aim: Aim, keep: int) -> Plan:
    from ...collectors.transcripts.conversation import entries_from
    from ...core.compaction.planning import plan_transcript
    from ...core.compaction.protect import Protection
    from ...core.store.estimating import read_estimator

    holder = _holder(found, session.session_id)
    try:
        return plan_transcript(
            session.session_id,
            transcript,
            entries_from,
            read_estimator(found.db).of,
            aim=aim,
            protection=Protection(tool_turns=keep),
            live=f"the session is open in {holder}" if holder else None,
        )
    except OSError as error:
        why = error.strerror or error
        raise RefusedError(f"{transcript} cannot be read: {why}") from error


def _holder(found: Reading, session_id: str) -> str | None:
    from ...collectors.registry import read_registry

    live = read_registry(found.places.folder)
    return next((f"process {each.pid}" for each in live if each.session_id == session_id), None)


def _subject(found: Reading, session: Session, transcript: Path) -> Subject:
    from ...collectors.transcripts.conversation import read_conversation
    from ...core.compaction.subject import Subject

    return Subject(
        session_id=session.session_id,
        transcript=transcript,
        cwd=session.cwd,
        state=found.places.store.parent / "compaction",
        read=read_conversation,
        held_by=lambda session_id: _holder(found, session_id),
    )


def _apply(context: click.Context, plan: Plan, subject: Subject, *, in_place: bool) -> int:
    from ...core.compaction.apply import apply_plan
    from ...core.compaction.receipts import Mode
    from ...core.compaction.refused import NotAppliedError, Stop
    from .compact_lines import receipt_lines, receipt_record

    codes = {Stop.NOTHING: USAGE, Stop.LIVE: LIVE, Stop.UNSAFE: UNSAFE, Stop.UNVERIFIED: UNVERIFIED}
    try:
        receipt = apply_plan(plan, Mode.IN_PLACE if in_place else Mode.FORK, subject)
    except NotAppliedError as error:
        say(f"{subject.session_id[:8]} was not changed: {error}")
        return codes.get(error.stop, FAILED)
    return emit(context, receipt_record(receipt), lambda: receipt_lines(receipt))


def _code(refused: tuple[Refusal, ...]) -> int:
    checks = {each.check for each in refused}
    if not checks:
        return 0
    if checks & {"live", "changed"}:
        return LIVE
    return USAGE if checks <= _NOTHING else UNSAFE
