"""`ctxtop compact`: what could go from a session's context; carried out where that was asked."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import click

from ...core.compaction.limits import LARGEST_BYTES, UNLIMITED, size_note
from ...core.compaction.plan import Harm, as_record
from ...core.compaction.registered import STRATEGIES
from ...core.trigger import BUFFER, RESERVE
from .emit import emit
from .options import chosen, reading
from .reading import open_reading
from .report import LIVE, UNSAFE, USAGE, RefusedError, say
from .undo_command import say_refused, subject_of

if TYPE_CHECKING:
    from pathlib import Path

    from ...core.compaction.plan import Plan, Refusal
    from ...core.compaction.select import Aim
    from ...core.compaction.subject import Subject
    from ...core.sessions import Session
    from .reading import Reading

TARGET: Final = 0.5
"""Of the effective window (compaction.md 7.5; oh-my-opencode has the same)."""

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
@click.option("--force", is_flag=True, help="Also a transcript of more than 200 MB.")
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
    force: bool,
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
        largest = UNLIMITED if force else LARGEST_BYTES
        plan = _plan(found, known, transcript, _aim(known, names, level, share), keep, largest)
        subject = subject_of(found.places, known.session_id, transcript, known.cwd)
    note = size_note(plan.bytes_before)
    if note:
        say(note)
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


def _plan(
    found: Reading, session: Session, transcript: Path, aim: Aim, keep: int, largest: int
) -> Plan:
    from ...collectors.transcripts.conversation import entries_from
    from ...core.compaction.planning import plan_transcript
    from ...core.compaction.protect import Protection
    from ...core.store.estimating import read_estimator

    subject = subject_of(found.places, session.session_id, transcript, session.cwd)
    holder = subject.held_by(session.session_id)
    try:
        return plan_transcript(
            session.session_id,
            transcript,
            entries_from,
            read_estimator(found.db).of,
            aim=aim,
            protection=Protection(tool_turns=keep),
            live=f"the session is open in {holder}" if holder else None,
            largest=largest,
        )
    except OSError as error:
        why = error.strerror or error
        raise RefusedError(f"{transcript} cannot be read: {why}") from error


def _apply(context: click.Context, plan: Plan, subject: Subject, *, in_place: bool) -> int:
    from ...core.compaction.apply import apply_plan
    from ...core.compaction.receipts import Mode
    from ...core.compaction.refused import NotAppliedError
    from .compact_lines import receipt_lines, receipt_record

    try:
        receipt = apply_plan(plan, Mode.IN_PLACE if in_place else Mode.FORK, subject)
    except NotAppliedError as error:
        return say_refused(error)
    return emit(context, receipt_record(receipt), lambda: receipt_lines(receipt))


def _code(refused: tuple[Refusal, ...]) -> int:
    checks = {each.check for each in refused}
    if not checks:
        return 0
    if checks & {"live", "changed"}:
        return LIVE
    return USAGE if checks <= _NOTHING else UNSAFE
