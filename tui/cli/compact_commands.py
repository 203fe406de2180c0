"""`ctxtop compact`, `undo`, `receipts` and `trigger`: plan, apply and take back a compaction."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from functools import reduce
from pathlib import Path
from typing import Any, Final, TypeVar

import click
import msgspec

from ...collectors.places import Places, find_places
from ...collectors.plugin.compact_requests import instruction_problem
from ...collectors.session_target import open_session, receipt_target
from ...core.actions.session_access import (
    ActionFailure,
    ClientCompactResult,
    CompactFailure,
    NotCompactedError,
    NotPlannedError,
    SessionAccess,
    Via,
)
from ...core.actions.session_compaction import (
    PlanContext,
    apply_compaction,
    in_place_mode,
    plan_compaction,
    undo_receipt,
)
from ...core.compaction.compaction_target import CompactionTarget
from ...core.compaction.plan import (
    LAST_PROMPT,
    TEMPLATES_BY_SECTIONS,
    WHOLE_STRATEGIES,
    CompactionPlan,
    PlanOptions,
    Refusal,
    RefusalKind,
    check_options,
    plan_to_dict,
)
from ...core.compaction.receipts import ApplyMode, CompactionReceipt
from ...core.compaction.transcript_planning import STRATEGIES
from ...core.compaction.transcript_view import large_transcript_note
from ...core.store.database import state_folder
from ...core.summaries.model_summary import ProviderName
from ...core.summaries.summary_facts import TEMPLATES as NAMED
from ..text.formats import iso_time, tokens
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
from .command_store import StoreSnapshot, open_snapshot
from .output.printing import print_result, repeat_command

VERIFICATION_FAILED: Final = 5  # a check of the written file failed; everything is as it was


def exit_code(stop: RefusalKind) -> int:
    """Return the exit code for a kind of refusal (commands.md)."""
    codes = {"nothing": USAGE, "live": LIVE, "unsafe": UNSAFE, "unverified": VERIFICATION_FAILED}
    return codes[stop.value]


def print_failure(failure: ActionFailure) -> int:
    """Print that nothing was changed and why; returns the exit code."""
    print_errors(failure.why)
    return FAILED if failure.kind is None else exit_code(failure.kind)


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
    options = options_of(context)
    places = find_places(options.config_dir, options.db)
    found = find_receipt(places, receipt)
    if found is None:
        return USAGE
    target = receipt_target(places.folder, places.store, found)
    chosen_ones = [number - 1 for number in numbers] or None
    undone = undo_receipt(target, found, chosen_ones)
    if isinstance(undone, ActionFailure):
        return print_failure(undone)
    record = {
        "receipt_id": undone.receipt_id,
        "undone": [number + 1 for number in undone.undone],
        "sha256": undone.sha256,
    }
    count = len(undone.undone)
    line = (
        f"took back {count} of {len(found.plan.operations)} operations in {target.session_id[:8]}"
    )
    return print_result(context, record, lambda: [line, f"go on with: {found.resume_command}"])


def find_receipt(places: Places, start: str) -> CompactionReceipt | None:
    """Find the receipt whose id begins so; says so where there is none, or more than one."""
    from ...core.compaction.receipts import ReceiptStore

    found = ReceiptStore(state_folder(places.store)).find_by_prefix(start)
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
    names = context.params.keys() & set(PlanOptions.__struct_fields__)
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
    wrong = check_options(wanted)
    if in_place and not is_applied:
        wrong = "--in-place needs --apply"
    if wrong:
        raise click.UsageError(wrong, context)
    try:
        with open_snapshot(options_of(context)) as found:
            access = find_session(found, session)
            holder = access.target.find_holder(access.target.session_id)
            plan = plan_compaction(PlanContext(access, found.db, print_error), wanted)
    except (RefusedError, NotPlannedError) as error:
        print_error(str(error))
        return USAGE
    note = large_transcript_note(plan.bytes_before)
    if note:
        print_error(note)
    if plan.refused and (is_applied or not plan.operations):
        return _print_refused_plan(context, plan)
    if is_applied:
        mode = in_place_mode(plan) if in_place else ApplyMode.FORK
        return _apply_plan(context, plan, access.target, mode)
    if explain is not None:
        return _print_operation(context, plan, explain, access.target.transcript)
    known = access.session
    about = PreviewInfo(
        known.title, known.context.window.tokens, repeat_command(context, session), holder
    )
    print_result(context, plan_to_dict(plan), lambda: preview_lines(plan, about))
    return _refusal_code(plan.refused)


def find_session(found: StoreSnapshot, start: str) -> SessionAccess:
    """Open the session whose id starts with a prefix. Raises RefusedError."""
    (session,) = found.sessions(found.session_id(start) or start)
    policy = found.policies.acting.for_project(session.project_root)
    return open_session(found.places.folder, found.places.store, session, policy)


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
    context: click.Context, plan: CompactionPlan, target: CompactionTarget, mode: ApplyMode
) -> int:
    from .output.receipt_output import applied_lines, applied_record

    receipt = apply_compaction(target, plan, mode)
    if isinstance(receipt, ActionFailure):
        return print_failure(receipt)
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
    state = state_folder(places.store)
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


_FAILURE_CODES: Final = {
    CompactFailure.FAILED: FAILED,
    CompactFailure.NOTHING: USAGE,
    CompactFailure.LIVE: LIVE,
    CompactFailure.UNSAFE: UNSAFE,
    CompactFailure.UNTRUSTED: UNSAFE,
}


@click.command()
@store_options
@click.argument("session")
@click.argument("text", nargs=-1)
@click.option(
    "--via",
    type=click.Choice([via.value for via in Via]),
    default=Via.AUTO.value,
    show_default=True,
    help="The plugin's module in the client, keys to its tmux pane, or a run of its own.",
)
@click.pass_context
def trigger(context: click.Context, *, session: str, text: tuple[str, ...], via: str) -> int:
    """Ask the client itself to compact a session, and wait until it has.

    The start of SESSION's id is enough. TEXT tells the summariser what matters.
    """
    words = " ".join(text).strip()
    wrong = instruction_problem(words)
    if wrong:
        raise click.UsageError(wrong, context)
    try:
        with open_snapshot(options_of(context)) as found:
            access = find_session(found, session)
    except RefusedError as error:
        print_error(str(error))
        return USAGE
    try:
        outcome = access.client.compact(Via(via), words)
    except NotCompactedError as error:
        print_error(f"{access.session.session_id[:8]} was not compacted: {error}")
        return _FAILURE_CODES[error.failure]
    return print_result(context, outcome_record(outcome), lambda: _outcome_lines(outcome))


def outcome_record(outcome: ClientCompactResult) -> dict[str, Any]:
    """Return a compaction's outcome as a JSON record (commands.md)."""
    return {
        "via": outcome.via.value,
        "requested_at": iso_time(outcome.requested_at),
        "boundary_uuid": outcome.boundary_uuid,
        "pre_tokens": outcome.pre_tokens,
        "post_tokens": outcome.post_tokens,
        "command": outcome.command or None,
        "folder": outcome.folder,
    }


def _outcome_lines(outcome: ClientCompactResult) -> list[str]:
    sizes = f"{tokens(outcome.pre_tokens)} → {tokens(outcome.post_tokens)}"
    said = [f"compacted via {outcome.via.value} in {outcome.seconds:.1f} s: {sizes}"]
    if outcome.command:
        said.append(f"ran {shlex.join(outcome.command)} in {outcome.folder}")
    return said
