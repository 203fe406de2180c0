"""`ctxtop compact`, `undo`, `receipts` and `trigger`: plan, apply and take back a compaction."""

import shlex
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Final

import click
import msgspec

from ...collectors.locations.places import Places
from ...collectors.plugin_files.compact_requests import instruction_problem
from ...collectors.session_target import open_session, receipt_target
from ...core.actions import session_access, session_compaction
from ...core.actions.pause_rules import plan_costs
from ...core.compaction import plan as plans
from ...core.compaction.compaction_target import CompactionTarget
from ...core.compaction.compression_level import DueCompression, due_compression
from ...core.compaction.plan import CompactionPlan, PlanOptions, Refusal, RefusalKind
from ...core.compaction.policy_strategy import with_policy_strategy
from ...core.compaction.receipts import ApplyMode, CompactionReceipt, ReceiptStore
from ...core.compaction.transcript_planning import STRATEGIES
from ...core.compaction.transcript_view import large_transcript_note
from ...core.compaction.turn_restoring import RestoredTurn
from ...core.measure.pause_costs import PauseCosts
from ...core.store.database import StoreError, open_reader, state_folder
from ...core.summaries.model_summary import ProviderName
from ...core.summaries.summary_facts import TEMPLATES
from ..base.command_errors import (
    DONE,
    FAILED,
    LIVE,
    UNSAFE,
    USAGE,
    RefusedError,
    print_error,
    print_errors,
)
from ..text.formats import tokens_before_and_after
from .command_options import (
    TargetParameter,
    add_alias,
    common_command,
    options_of,
    store_command,
)
from .command_store import StoreSnapshot, open_snapshot
from .json_records import Record, costs_record, record_of
from .printing import print_result, repeat_command

VERIFICATION_FAILED: Final = 5  # a check of the written file failed; everything is as it was
_EXIT_CODES: Final = {
    RefusalKind.NOTHING: USAGE,
    RefusalKind.LIVE: LIVE,
    RefusalKind.UNSAFE: UNSAFE,
    RefusalKind.UNVERIFIED: VERIFICATION_FAILED,
}


def exit_code(kind: RefusalKind) -> int:
    return _EXIT_CODES[kind]


def _print_failure(failure: session_access.ActionFailure) -> int:
    print_errors(failure.why)
    return FAILED if failure.kind is None else exit_code(failure.kind)


@common_command()
@click.argument("receipt")
@click.option(
    "--op",
    "numbers",
    multiple=True,
    type=click.IntRange(min=1),
    metavar="N",
    help="Undo only this operation; repeatable. `ctxtop history RECEIPT` numbers them.",
)
def undo(context: click.Context, *, receipt: str, numbers: tuple[int, ...]) -> int:
    """Undo a change. RECEIPT is an id or its start.

    Everything written since is kept, and forks are never deleted.
    """
    places = options_of(context).places
    found = _find_receipt(places, receipt)
    if found is None:
        return USAGE
    target = receipt_target(places.folder, places.store, found)
    undone = session_compaction.undo_receipt(
        target, found, [number - 1 for number in numbers] or None
    )
    if isinstance(undone, session_access.ActionFailure):
        return _print_failure(undone)
    record = {
        "receipt_id": undone.receipt_id,
        "undone": [number + 1 for number in undone.undone],
        "sha256": undone.sha256,
    }
    count = f"{len(undone.undone)} of {len(found.plan.operations)}"
    return print_result(
        context,
        record,
        lambda: [
            f"undid {count} operations in {target.session_id[:8]}",
            f"resume with: {found.resume_command}",
        ],
    )


def _find_receipt(places: Places, start: str) -> CompactionReceipt | None:
    """Find the receipt whose id begins so; prints an error unless there is exactly one."""
    matches = ReceiptStore(state_folder(places.store)).find_by_prefix(start)
    if len(matches) == 1:
        return matches[0]
    what = f"{len(matches)} receipt ids start" if matches else "no receipt id starts"
    print_error(f"{what} with {start!r}: `ctxtop history` lists them")
    return None


_REFUSAL_CODES: Final = {
    "nothing": USAGE,
    "target": USAGE,
    "futile": USAGE,
    "too_few": USAGE,
    "digest_longer": USAGE,
    "no_turn": USAGE,
    "no_prompt": USAGE,
    "first_prompt": USAGE,
    "provider": FAILED,
    "live": LIVE,
    "changed": LIVE,
}
"""Exit codes by the check that refuses a plan; UNSAFE for all others."""


@store_command()
@click.argument("session")
@click.option(
    "--strategy",
    "strategies",
    multiple=True,
    type=click.Choice([*(each.name for each in STRATEGIES), *plans.WHOLE_STRATEGIES]),
    metavar="NAME",
    help="Only this strategy; repeatable. condense, summarize, cut, revert and rollover cannot be"
    " combined.",
)
@click.option(
    "--level",
    type=click.IntRange(0, 8),
    metavar="N",
    help="The highest level: 0 changes only the file, 8 removes turns.  [default: 4]",
)
@click.option(
    "--target",
    type=TargetParameter(),
    metavar="50%|80k",
    help="Stop at this share of the window, or at so many tokens.  [default: 50%, none with"
    " --level]",
)
@click.option(
    "--keep",
    type=click.IntRange(0),
    metavar="N",
    help="How many of the newest tool turns to keep (5), or messages for summarize (10).",
)
@click.option(
    "--template",
    type=click.Choice([*plans.TEMPLATES_BY_SECTIONS, *TEMPLATES]),
    metavar="4|5|8|11",
    help="Number of sections in the summary.  [default: summary.template]",
)
@click.option(
    "--budget",
    type=click.IntRange(1),
    metavar="TOKENS",
    help="Size of the summary; your messages, rules, anchors and earlier summaries come on top."
    "  [default: summary.max_tokens]",
)
@click.option(
    "--provider",
    type=click.Choice([each.value for each in ProviderName]),
    help="Let a model write the summary, with a key from the environment.  [default: none]",
)
@click.option("--model", metavar="NAME", help="The provider's model.  [default: summary.model]")
@click.option(
    "--keep-turns",
    type=click.IntRange(1),
    metavar="N",
    help="For cut: how many of the newest turns to keep.",
)
@click.option(
    "--to",
    metavar="PROMPT",
    help="For revert: the prompt to go back to: its line, the start "
    f"of its uuid, or {plans.LAST_PROMPT}.",
)
@click.option(
    "--restore-turn",
    type=click.IntRange(min=1),
    metavar="N",
    help="Print condensed turn N in full; with --apply, put it back into the context.",
)
@click.option("--force", is_flag=True, help="Allow transcripts above 200 MB.")
@click.option(
    "--explain", type=click.IntRange(1), metavar="N", help="Show one operation, before and after."
)
@click.option("--apply", "is_applied", is_flag=True, help="Apply the plan in a fork.")
@click.option("--in-place", is_flag=True, help="With --apply: change the session itself.")
def compact(
    context: click.Context,
    /,
    *,
    session: str,
    restore_turn: int | None,
    explain: int | None,
    is_applied: bool,
    in_place: bool,
    **_: object,
) -> int:
    """Plan a compaction; writes nothing without --apply.

    SESSION is an id or its start. The least harmful changes come first, and no more than needed.
    Levels 7 (summary) and 8 (removes turns) need --strategy condense, summarize, cut, revert or
    rollover; without options, a policy's compact.strategy chooses condense, summarize or cut.
    condense reaches the target: it uses levels 2 to 4 first, then turns the oldest turns into a
    digest that keeps your words and decisions word for word.
    """
    from .compaction_output import preview_lines

    names = context.params.keys() & set(PlanOptions.__struct_fields__)
    options = msgspec.convert({name: context.params[name] for name in names}, PlanOptions)
    if in_place and not is_applied:
        raise click.UsageError("--in-place needs --apply", context)
    try:
        with open_snapshot(options_of(context)) as snapshot:
            access = open_target(snapshot, session)
            window = access.session.context.window.tokens
            options = _with_target_share(context, options, window)
            options = with_policy_strategy(options, access.policy)
            _check_options(context, options)
            holder = access.target.find_holder(access.target.session_id)
            due = due_compression(access.policy, access.session.context)
            plan_context = session_compaction.PlanContext(access, snapshot.db, print_error)
            if restore_turn is not None and not is_applied:
                turn = session_compaction.read_condensed_turn(plan_context, restore_turn)
                return _print_turn(context, turn)
            plan = session_compaction.plan_compaction(plan_context, options)
    except (RefusedError, session_access.NotPlannedError) as error:
        print_error(str(error))
        return USAGE
    costs = plan_costs(access.session, access.policy, plan)
    if note := large_transcript_note(plan.bytes_before):
        print_error(note)
    if plan.refused and (is_applied or not plan.operations):
        return _print_refused_plan(context, plan, due, costs)
    if is_applied:
        mode = session_compaction.in_place_mode(plan) if in_place else ApplyMode.FORK
        return _apply_plan(context, plan, access.target, mode)
    if explain is not None:
        return _print_operation(context, plan, explain, access.target.transcript)
    title = access.session.title
    command = repeat_command(context, session)
    print_result(
        context,
        _plan_record(plan, due, costs),
        lambda: preview_lines(plan, due, title, window, command, open_in=holder, costs=costs),
    )
    return _refusal_code(plan.refused)


def _with_target_share(context: click.Context, options: PlanOptions, window: int) -> PlanOptions:
    """Convert a target in tokens to a share of the window."""
    if options.target is None or options.target <= 1:
        return options
    if options.target > window:
        size = f"{options.target:,.0f} tokens is more than its window of {window:,}"
        raise click.UsageError(f"--target: {size}: name less, e.g. 50%", context)
    return msgspec.structs.replace(options, target=options.target / window)


def _check_options(context: click.Context, options: PlanOptions) -> None:
    if problem := plans.check_options(options):
        raise click.UsageError(problem, context)


def _print_turn(context: click.Context, turn: RestoredTurn | Refusal) -> int:
    from .compaction_output import turn_lines, turn_record

    if isinstance(turn, Refusal):
        print_error(f"{turn.why}: {turn.what_to_do}")
        return USAGE
    return print_result(context, turn_record(turn), lambda: turn_lines(turn))


def open_target(snapshot: StoreSnapshot, start: str) -> session_access.SessionAccess:
    """Open the session whose id begins so. Raises RefusedError."""
    session = snapshot.session(start)
    if why := session_access.archived_reason(session):
        raise RefusedError(f"{session.session_id[:8]} has no transcript: {why}")
    policy = snapshot.policies.acting.for_project(session.project_root)
    return open_session(snapshot.places.folder, snapshot.places.store, session, policy)


def _plan_record(plan: CompactionPlan, due: DueCompression, costs: PauseCosts | None) -> Record:
    compression = record_of(due, "level reason tokens_left limit_tokens limit_share")
    return plans.plan_to_dict(plan) | {"compression": compression, "costs": costs_record(costs)}


def _print_refused_plan(
    context: click.Context, plan: CompactionPlan, due: DueCompression, costs: PauseCosts | None
) -> int:
    from ..text.plan_text import refusal_line

    print_errors(refusal_line(each) for each in plan.refused)
    print_result(context, _plan_record(plan, due, costs), list)
    return _refusal_code(plan.refused)


def _print_operation(
    context: click.Context, plan: CompactionPlan, number: int, transcript: Path
) -> int:
    from .compaction_output import operation_lines, operation_record

    count = len(plan.operations)
    if number > count:
        raise click.UsageError(f"the plan has {count} operations: use 1 to {count}", context)
    record = operation_record(plan, number, transcript) if options_of(context).as_json else None
    return print_result(context, record, lambda: operation_lines(plan, number, transcript))


def _apply_plan(
    context: click.Context, plan: CompactionPlan, target: CompactionTarget, mode: ApplyMode
) -> int:
    from .compaction_output import applied_lines, applied_record

    receipt = session_compaction.apply_compaction(target, plan, mode)
    if isinstance(receipt, session_access.ActionFailure):
        return _print_failure(receipt)
    return print_result(context, applied_record(receipt), lambda: applied_lines(receipt))


def _refusal_code(refused: tuple[Refusal, ...]) -> int:
    return max((_REFUSAL_CODES.get(each.check, UNSAFE) for each in refused), default=DONE)


@common_command()
@click.argument("receipt", required=False)
@click.option("--check", "is_check", is_flag=True, help="Test whether each change can be undone.")
@click.option(
    "--all",
    "is_all",
    is_flag=True,
    help="Include requests to Claude Code, automatic runs and installations.",
)
def history(context: click.Context, *, receipt: str | None, is_check: bool, is_all: bool) -> int:
    """List all changes, newest first, or the operations of one.

    RECEIPT is an id or its start.
    """
    if receipt is not None and (is_check or is_all):
        option = "--check" if is_check else "--all"
        raise click.UsageError(f"{option} applies to all: omit RECEIPT", context)
    from ..entities.receipt_history import read_receipt_entries
    from . import compaction_output as output

    places = options_of(context).places
    state = state_folder(places.store)
    if is_check:
        return output.print_checked_receipts(context, state)
    if receipt is not None:
        one = _find_receipt(places, receipt)
        if one is None:
            return USAGE
        entry = read_receipt_entries(places.store, [one])[one.receipt_id]
        record = output.full_receipt_record(entry, one, state)
        return print_result(context, record, lambda: output.full_receipt_lines(one, state))
    found = ReceiptStore(state).all()
    if is_all:
        return _print_history(context, places, found)
    entries = read_receipt_entries(places.store, found)
    return print_result(
        context,
        [output.history_record(entries[each.receipt_id], each) for each in found],
        lambda: output.receipt_table(found, state) if found else [],
        "no changes yet",
    )


add_alias("receipts", history)


def _print_history(
    context: click.Context, places: Places, found: Sequence[CompactionReceipt]
) -> int:
    from ..entities.receipt_history import read_history
    from .compaction_output import history_record, history_table

    try:
        with closing(open_reader(places.store)) as db:
            entries = read_history(db, places.store)
    except StoreError as error:
        print_error(str(error))
        return FAILED
    receipts = {each.receipt_id: each for each in found}
    records = [history_record(each, receipts.get(each.receipt_id or "")) for each in entries]
    return print_result(context, records, lambda: history_table(entries), "no actions yet")


_FAILURE_CODES: Final = {
    session_access.CompactFailure.FAILED: FAILED,
    session_access.CompactFailure.NOTHING: USAGE,
    session_access.CompactFailure.LIVE: LIVE,
    session_access.CompactFailure.UNSAFE: UNSAFE,
    session_access.CompactFailure.UNTRUSTED: UNSAFE,
}


@store_command()
@click.argument("session")
@click.argument("text", nargs=-1)
@click.option(
    "--via",
    type=click.Choice([via.value for via in session_access.Via]),
    default=session_access.Via.AUTO.value,
    show_default=True,
    help="How to ask: through the plugin, tmux, or a separate run.",
)
def trigger(context: click.Context, *, session: str, text: tuple[str, ...], via: str) -> int:
    """Ask Claude Code to compact a session, and wait for it.

    SESSION is an id or its start. TEXT says what the summary should keep.
    """
    instructions = " ".join(text).strip()
    if problem := instruction_problem(instructions):
        raise click.UsageError(problem, context)
    try:
        with open_snapshot(options_of(context)) as snapshot:
            access = open_target(snapshot, session)
    except RefusedError as error:
        print_error(str(error))
        return USAGE
    try:
        result = access.client.compact(session_access.Via(via), instructions)
    except session_access.NotCompactedError as error:
        print_error(f"{access.session.session_id[:8]} was not compacted: {error}")
        return _FAILURE_CODES[error.failure]
    record = {
        **record_of(
            result,
            "via requested_at boundary_uuid pre_tokens post_tokens estimated_next_tokens",
        ),
        "command": result.command or None,
        "folder": result.folder,
    }
    return print_result(context, record, lambda: _result_lines(result))


def _result_lines(result: session_access.ClientCompactResult) -> list[str]:
    sizes = tokens_before_and_after(result)
    lines = [f"compacted via {result.via.value} in {result.seconds:.1f} s: {sizes}"]
    if result.command:
        lines.append(f"ran {shlex.join(result.command)} in {result.folder}")
    return lines
