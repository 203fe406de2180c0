"""`ctxtop compact`, `undo` and `receipts`: plan and apply a compaction, and take it back."""

from __future__ import annotations

from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click
import msgspec

from ...collectors.places import find_places
from ...core.actions.compaction_planning import PlanContext, plan_compaction
from ...core.actions.plan_options import (
    LAST_PROMPT,
    TEMPLATES_BY_SECTIONS,
    WHOLE_STRATEGIES,
    NotPlannedError,
    PlanOptions,
    check_options,
)
from ...core.compaction.plan import plan_to_dict
from ...core.compaction.strategies.strategy_registry import STRATEGIES
from ...core.compaction.transcript_file import large_transcript_note
from ...core.summaries.providers.provider import ProviderName
from ...core.summaries.summary_facts import TEMPLATES as NAMED
from ..compaction_actions import unchanged_message
from .command_errors import (
    DONE,
    FAILED,
    LIVE,
    UNSAFE,
    USAGE,
    RefusedError,
    print_error,
    print_errors,
)
from .command_options import common_options, options_of, store_options
from .command_store import open_snapshot
from .output.printing import print_result, repeat_command

if TYPE_CHECKING:
    from collections.abc import Callable

    from ...collectors.places import Places
    from ...core.compaction.compaction_target import CompactionTarget
    from ...core.compaction.plan import CompactionPlan, CompactionRefusedError, Refusal, RefusalKind
    from ...core.compaction.receipts import CompactionReceipt
    from ...core.model.session import Session
    from .command_store import StoreSnapshot


def print_file_error(error: OSError, path: Path) -> int:
    """Print that nothing was changed and why; returns the exit code."""
    print_error(unchanged_message(error, path))
    return FAILED


VERIFICATION_FAILED: Final = 5
"""A check of the written file failed; everything is as it was."""


def exit_code(stop: RefusalKind) -> int:
    """Return the exit code for a kind of refusal (commands.md)."""
    codes = {"nothing": USAGE, "live": LIVE, "unsafe": UNSAFE, "unverified": VERIFICATION_FAILED}
    return codes[stop.value]


def print_refusals(error: CompactionRefusedError) -> int:
    """Print one line for each check that failed; returns the exit code."""
    for each in error.refusals:
        print_error(f"{each.check}: {each.why}: {each.what_to_do}")
    return exit_code(error.kind)


def state_folder(places: Places) -> Path:
    """Name the folder of copies, receipts and locks."""
    from ...collectors.actions import session_target

    return session_target.state_folder(places.store)


def compaction_target(
    places: Places, session_id: str, transcript: Path, cwd: str | None
) -> CompactionTarget:
    """Look after a session: its transcript is read, and the client's registry is asked."""
    from ...collectors.actions import session_target

    return session_target.compaction_target(
        places.folder, places.store, session_id, transcript, cwd
    )


@click.command()
@common_options
@click.argument("receipt")
@click.option(
    "--op",
    "numbers",
    multiple=True,
    type=click.IntRange(min=1),
    metavar="N",
    help="This operation alone; may be given again. `ctxtop receipts RECEIPT` numbers them.",
)
@click.pass_context
def undo(context: click.Context, *, receipt: str, numbers: tuple[int, ...]) -> int:
    """Take back what a plan did. The start of RECEIPT's id is enough.

    What was written since stays, and a fork is never removed: nothing is lost by it.
    """
    from ...core.compaction.plan import CompactionRefusedError
    from ...core.compaction.undo import undo as take_back

    options = options_of(context)
    places = find_places(options.config_dir, options.db)
    found = find_receipt(places, receipt)
    if found is None:
        return USAGE
    written = found.new_session_id or found.session_id
    subject = compaction_target(places, written, Path(found.target), None)
    try:
        chosen_ones = [number - 1 for number in numbers] or None
        undone = take_back(found.receipt_id, chosen_ones, subject)
    except CompactionRefusedError as error:
        return print_refusals(error)
    except OSError as error:
        return print_file_error(error, Path(found.target))
    record = {
        "receipt_id": undone.receipt_id,
        "undone": [number + 1 for number in undone.undone],
        "sha256": undone.sha256,
    }
    count = len(undone.undone)
    line = f"took back {count} of {len(found.plan.operations)} operations in {written[:8]}"
    return print_result(context, record, lambda: [line, f"go on with: {found.resume_command}"])


def find_receipt(places: Places, start: str) -> CompactionReceipt | None:
    """Find the receipt whose id begins so; says so where there is none, or more than one."""
    from ...core.compaction.receipts import ReceiptStore

    found = ReceiptStore(state_folder(places)).find_by_prefix(start)
    if len(found) == 1:
        return found[0]
    some = "no receipt begins" if not found else f"{len(found)} receipts begin"
    print_error(f"{some} with {start!r}: `ctxtop receipts` lists them")
    return None


ClickCommand = TypeVar("ClickCommand", bound="Callable[..., Any]")

_PLAN_OPTIONS: Final = (
    click.option(
        "--strategy",
        "strategies",
        multiple=True,
        type=click.Choice([*(each.name for each in STRATEGIES), *WHOLE_STRATEGIES]),
        metavar="NAME",
        help="Only this one; may be given again. summarise, cut, revert and rollover go alone.",
    ),
    click.option("--level", type=click.IntRange(0, 8), help="The most harm.  [default: 4]"),
    click.option(
        "--target",
        type=click.FloatRange(0, 1),
        help="Stop at this share of the effective window.  [default: 0.5, none with --level]",
    ),
    click.option(
        "--keep",
        type=click.IntRange(0),
        help="Newest turns with tools that stay; of a summary, newest messages.  [default: 10]",
    ),
    click.option(
        "--template",
        type=click.Choice([*TEMPLATES_BY_SECTIONS, *NAMED]),
        metavar="4|5|8|11",
        help="Sections of a summary.  [default: summary.template of the policy]",
    ),
    click.option(
        "--budget",
        type=click.IntRange(1),
        metavar="TOKENS",
        help="Of a summary.  [default: 8 % of what leaves, 12,000 at the most]",
    ),
    click.option(
        "--provider",
        type=click.Choice([each.value for each in ProviderName]),
        help="Let a model write the summary; its key stands in the environment.  [default: none]",
    ),
    click.option("--model", metavar="NAME", help="The provider's model.  [default: summary.model]"),
    click.option("--keep-turns", type=click.IntRange(1), metavar="N", help="Of cut: newest turns."),
    click.option(
        "--to",
        metavar="PROMPT",
        help=f"Of revert: a prompt's line, its uuid's start, or {LAST_PROMPT}.",
    ),
    click.option("--force", is_flag=True, help="Also a transcript of more than 200 MB."),
)


def plan_options(command: ClickCommand) -> ClickCommand:
    """Add them to a command."""
    return reduce(lambda sofar, option: option(sofar), reversed(_PLAN_OPTIONS), command)


def parse_plan_options(context: click.Context) -> PlanOptions:
    """Collect the options that `plan_options` adds to a command."""
    names = PlanOptions.__struct_fields__
    return msgspec.convert({name: context.params[name] for name in names}, PlanOptions)


_REFUSAL_CODES: Final = {
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
@store_options
@click.argument("session")
@plan_options
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
    from .output.plan_output import PreviewInfo, preview_lines

    wanted = parse_plan_options(context)
    wrong = check_options(wanted, in_place=in_place)
    if in_place and not is_applied:
        wrong = "--in-place needs --apply"
    if wrong:
        raise click.UsageError(wrong, context)
    try:
        with open_snapshot(options_of(context)) as found:
            known = _find_session(found, session)
            subject = _session_target(found, known)
            holder = subject.find_holder(known.session_id)
            live = f"the session is open in {holder}" if holder and in_place else None
            plan = plan_compaction(_plan_context(found, known, live), wanted)
    except (RefusedError, NotPlannedError) as error:
        print_error(str(error))
        return USAGE
    note = large_transcript_note(plan.bytes_before)
    if note:
        print_error(note)
    if plan.refused and (is_applied or not plan.operations):
        return _print_refused_plan(context, plan)
    if is_applied:
        return _apply_plan(context, plan, subject, in_place=in_place)
    if explain is not None:
        return _print_operation(context, plan, explain, subject.transcript)
    about = PreviewInfo(
        known.title, known.context.window.tokens, repeat_command(context, session), holder
    )
    print_result(context, plan_to_dict(plan), lambda: preview_lines(plan, about))
    return _refusal_code(plan.refused)


def _find_session(found: StoreSnapshot, start: str) -> Session:
    (session,) = found.sessions(found.session_id(start))
    return session


def _session_target(found: StoreSnapshot, session: Session) -> CompactionTarget:
    from ...collectors.actions.session_target import resume_folder

    transcript = found.places.folder.projects / session.path
    return compaction_target(found.places, session.session_id, transcript, resume_folder(session))


def _plan_context(found: StoreSnapshot, session: Session, live: str | None) -> PlanContext:
    from ...collectors.actions.session_target import summary_cache_folder
    from ...core.transcript.entry_decoder import iter_entries

    return PlanContext(
        db=found.db,
        transcript=found.places.folder.projects / session.path,
        session=session,
        policy=found.policies.acting.for_project(session.project_root),
        summary_cache=summary_cache_folder(found.places.store),
        read_entries=iter_entries,
        on_message=print_error,
        held_by=live,
    )


def _print_refused_plan(context: click.Context, plan: CompactionPlan) -> int:
    """Print why a plan is refused; `--json` prints the plan with its refusals."""
    from ..text.plan_text import refusal_line

    print_errors(refusal_line(each) for each in plan.refused)
    print_result(context, plan_to_dict(plan), list)
    return _refusal_code(plan.refused)


def _print_operation(
    context: click.Context, plan: CompactionPlan, number: int, transcript: Path
) -> int:
    from .output.plan_output import operation_lines, operation_record

    count = len(plan.operations)
    if number > count:
        raise click.UsageError(f"the plan has {count} operations: give 1 to {count}", context)
    record = operation_record(plan, number, transcript) if options_of(context).as_json else None
    return print_result(context, record, lambda: operation_lines(plan, number, transcript))


def _apply_plan(
    context: click.Context, plan: CompactionPlan, subject: CompactionTarget, *, in_place: bool
) -> int:
    from ...core.compaction.apply import apply_plan
    from ...core.compaction.plan import CompactionRefusedError
    from ...core.compaction.receipts import ApplyMode
    from .output.receipt_output import applied_lines, applied_record

    mode = ApplyMode.FORK
    if in_place:
        mode = ApplyMode.APPEND if plan.only_appends else ApplyMode.IN_PLACE
    try:
        receipt = apply_plan(plan, mode, subject)
    except CompactionRefusedError as error:
        return print_refusals(error)
    except OSError as error:
        return print_file_error(error, subject.transcript)
    return print_result(context, applied_record(receipt), lambda: applied_lines(receipt))


def _refusal_code(refused: tuple[Refusal, ...]) -> int:
    return max((_REFUSAL_CODES.get(each.check, UNSAFE) for each in refused), default=DONE)


@click.command()
@common_options
@click.argument("receipt", required=False)
@click.option("--check", "is_check", is_flag=True, help="Say of each whether it can be taken back.")
@click.option("--all", "is_all", is_flag=True, help="Also what was asked, by itself, or installed.")
@click.pass_context
def receipts(context: click.Context, *, receipt: str | None, is_check: bool, is_all: bool) -> int:
    """List what was carried out, newest first, or show one RECEIPT with its operations.

    The start of its id is enough.
    """
    if receipt is not None and (is_check or is_all):
        option = "--check" if is_check else "--all"
        raise click.UsageError(f"{option} is for all: leave the RECEIPT out", context)
    from ...core.compaction.receipts import ReceiptStore
    from .output import receipt_output as lines

    options = options_of(context)
    places = find_places(options.config_dir, options.db)
    state = state_folder(places)
    if is_check:
        from .output.receipt_output import check_receipts

        return check_receipts(context, state)
    if receipt is not None:
        one = find_receipt(places, receipt)
        if one is None:
            return USAGE
        record = lines.full_receipt_record(one, state)
        return print_result(context, record, lambda: lines.full_receipt_lines(one, state))
    if is_all:
        return _print_history(context, places)
    found = ReceiptStore(state).all()
    return print_result(
        context,
        [lines.receipt_record(each, state) for each in found],
        lambda: lines.receipt_table(found, state) if found else ["no receipts yet"],
    )


def _print_history(context: click.Context, places: Places) -> int:
    """List what the dashboard's page of receipts does."""
    from contextlib import closing

    from ...core.store.database import StoreError, open_reader
    from ..screens.history.receipt_history import read_history
    from .output import receipt_output

    try:
        with closing(open_reader(places.store)) as db:
            found = read_history(db, places.store)
    except StoreError as error:
        print_error(str(error))
        return FAILED
    return print_result(
        context,
        [receipt_output.history_record(each) for each in found],
        lambda: receipt_output.history_table(found),
    )
