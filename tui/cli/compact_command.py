"""`ctxtop compact`: what could go from a session's context; carried out where that was asked."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import click

from ...core.compaction.limits import size_note
from ...core.compaction.plan import as_record
from ..planning import Ground, NotPlannedError, complaint, plan_for
from .again import again
from .compact_options import aims, asked_of
from .emit import emit
from .file_errors import say_unchanged
from .options import chosen, reading
from .reading import open_reading
from .report import DONE, FAILED, LIVE, UNSAFE, USAGE, RefusedError, say, say_all
from .undo_command import say_refused, subject_of

if TYPE_CHECKING:
    from pathlib import Path

    from ...core.compaction.plan import Plan, Refusal
    from ...core.compaction.subject import Subject
    from ...core.sessions import Session
    from .reading import Reading

_CHECKS: Final = {
    "nothing": USAGE,
    "target": USAGE,
    "futile": USAGE,
    "too_few": USAGE,
    "no_prompt": USAGE,
    "first_prompt": USAGE,
    "provider": FAILED,
    "live": LIVE,
    "changed": LIVE,
}
"""Exit codes of what a plan is refused for; all else is not safe."""


@click.command()
@reading
@click.argument("session")
@aims
@click.option("--explain", type=click.IntRange(1), metavar="N", help="Show one operation's words.")
@click.option("--apply", "is_applied", is_flag=True, help="Carry it out, in a fork.")
@click.option("--in-place", is_flag=True, help="With --apply: in the session itself.")
@click.pass_context
def compact(
    context: click.Context,
    /,
    *,
    session: str,
    explain: int | None,
    is_applied: bool,
    in_place: bool,
    **_: object,
) -> int:
    """Plan how to make a session smaller; nothing is written without --apply.

    The start of SESSION's id is enough. Least harm goes first, and no more than is needed.
    Levels 7 and 8 are asked for by name: --strategy summarise, cut, revert or rollover.
    """
    from .compact_lines import About, preview

    wanted = asked_of(context)
    wrong = complaint(wanted, in_place=in_place)
    if in_place and not is_applied:
        wrong = "--in-place needs --apply"
    if wrong:
        raise click.UsageError(wrong, context)
    try:
        with open_reading(chosen(context)) as found:
            known = _session(found, session)
            subject = _subject(found, known)
            holder = subject.find_holder(known.session_id)
            live = f"the session is open in {holder}" if holder and in_place else None
            plan = plan_for(_ground(found, known, live), wanted)
    except (RefusedError, NotPlannedError) as error:
        say(str(error))
        return USAGE
    note = size_note(plan.bytes_before)
    if note:
        say(note)
    if plan.refused and (is_applied or not plan.operations):
        return _refused(context, plan)
    if is_applied:
        return _apply(context, plan, subject, in_place=in_place)
    if explain is not None:
        return _explain(context, plan, explain, subject.transcript)
    about = About(known.title, known.context.window.tokens, again(context, session), holder)
    emit(context, as_record(plan), lambda: preview(plan, about))
    return _code(plan.refused)


def _session(found: Reading, start: str) -> Session:
    (session,) = found.sessions(found.session_id(start))
    return session


def _subject(found: Reading, session: Session) -> Subject:
    from ...collectors.subjects import resume_folder

    transcript = found.places.folder.projects / session.path
    return subject_of(found.places, session.session_id, transcript, resume_folder(session))


def _ground(found: Reading, session: Session, live: str | None) -> Ground:
    from ...collectors.subjects import summary_cache
    from ...collectors.transcripts.conversation import entries_from

    return Ground(
        db=found.db,
        transcript=found.places.folder.projects / session.path,
        session=session,
        policy=found.policies.acting.for_project(session.project_root),
        summary_cache=summary_cache(found.places.store),
        read_entries=entries_from,
        on_message=say,
        held_by=live,
    )


def _refused(context: click.Context, plan: Plan) -> int:
    """Say why nothing is done; programs get the plan with its refusals."""
    from ..plan_words import refusal_line

    say_all(refusal_line(each) for each in plan.refused)
    emit(context, as_record(plan), list)
    return _code(plan.refused)


def _explain(context: click.Context, plan: Plan, number: int, transcript: Path) -> int:
    from .explain_lines import explain, explained

    count = len(plan.operations)
    if number > count:
        raise click.UsageError(f"the plan has {count} operations: give 1 to {count}", context)
    record = explained(plan, number, transcript) if chosen(context).as_json else None
    return emit(context, record, lambda: explain(plan, number, transcript))


def _apply(context: click.Context, plan: Plan, subject: Subject, *, in_place: bool) -> int:
    from ...core.compaction.apply import apply_plan
    from ...core.compaction.receipts import Mode
    from ...core.compaction.refused import NotAppliedError
    from .receipt_lines import applied_lines, applied_record

    mode = Mode.FORK
    if in_place:
        mode = Mode.APPEND if plan.only_appends else Mode.IN_PLACE
    try:
        receipt = apply_plan(plan, mode, subject)
    except NotAppliedError as error:
        return say_refused(error)
    except OSError as error:
        return say_unchanged(error, subject.transcript)
    return emit(context, applied_record(receipt), lambda: applied_lines(receipt))


def _code(refused: tuple[Refusal, ...]) -> int:
    return max((_CHECKS.get(each.check, UNSAFE) for each in refused), default=DONE)
