"""`ctxtop recover`: repair a session that ended because its prompt was too long."""

import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path
from textwrap import wrap
from typing import Final

import click

from ...core.actions import session_recovery
from ...core.actions.session_access import ResumeResult
from ...core.actions.session_recovery import Recovery
from ...core.compaction import plan as plans
from ...core.compaction.plan import CompactionRefusedError, Operation
from ...core.compaction.recovery.recovery_run import AttemptRefusedError, RecoveryStep
from ..base.command_errors import DONE, LIVE, UNSAFE, USAGE, RefusedError, print_error
from ..text.plan_text import recovery_cause_lines, step_effect, step_hint, unused_step_text
from ..text.tables import Cell, Column, TextColumn
from .command_options import options_of, store_command
from .command_store import open_snapshot
from .compact_commands import exit_code, open_target
from .json_records import Record, record_of, records_of
from .printing import COLUMN_GAP, MIN_TEXT_CELLS, draw_table, print_result, terminal_width


@store_command("recover")
@click.argument("session")
@click.option("--apply", "is_applied", is_flag=True, help="Apply the plan in a fork.")
@click.option(
    "--confirm",
    "confirmed",
    multiple=True,
    type=click.Choice([each.value for each in RecoveryStep]),
    metavar="STEP",
    help="Allow a step that needs confirmation, such as `revert`; repeatable.",
)
@click.option("--again", is_flag=True, help="Make another fork of one that was recovered already.")
def recover_session(
    context: click.Context,
    *,
    session: str,
    is_applied: bool,
    confirmed: tuple[str, ...],
    again: bool,
) -> int:
    """Repair a session that the API refuses.

    For a session that ended in "prompt is too long" or an empty message. SESSION is an id or its
    start. Prints the plan; --apply carries it out in a fork and leaves the session unchanged.
    """
    resumed: ResumeResult | None = None
    try:
        with open_snapshot(options_of(context)) as snapshot:
            access = open_target(snapshot, session)
            allowed = frozenset(map(RecoveryStep, confirmed))
            if is_applied:
                recovery, resumed = session_recovery.run_recovery(access, allowed, again=again)
            else:
                recovery = session_recovery.preview_recovery(access, snapshot.db, allowed)
    except (RefusedError, session_recovery.NothingToRecoverError) as error:
        return _print_not_recovered(session, str(error), USAGE)
    except session_recovery.SessionBusyError as error:
        return _print_not_recovered(session, str(error), LIVE)
    except AttemptRefusedError as error:
        code = LIVE if error.refusal.check == "in_progress" else UNSAFE
        return _print_not_recovered(session, f"{error.refusal.check}: {error}", code)
    except CompactionRefusedError as error:
        return _print_not_recovered(session, str(error), exit_code(error.kind))
    record = _recovery_record(recovery, resumed, access.target.state_folder)
    print_result(context, record, lambda: recovery_lines(recovery, resumed))
    return UNSAFE if recovery.choice.plan is None else DONE


def _print_not_recovered(session: str, why: str, code: int) -> int:
    print_error(f"{session} was not recovered: {why}")
    return code


def _recovery_record(recovery: Recovery, resumed: ResumeResult | None, state: Path) -> Record:
    from ..entities.receipt_history import receipt_entry
    from .compaction_output import history_record

    choice, run, receipt = recovery.choice, recovery.run, recovery.receipt
    return {
        **record_of(
            recovery.found, "session_id error_type current_tokens max_tokens message_index line"
        ),
        "state": run.state.value if run else "detected",
        "attempts": run.counters.attempts if run else 0,
        "steps": [step.value for step in recovery.steps],
        **record_of(choice, "step=chosen.step prompt=chosen.prompt"),
        "plan": plans.plan_to_dict(choice.plan) if choice.plan else None,
        "refused": records_of(choice.refusals, "check why what_to_do"),
        "receipt": receipt
        and history_record(receipt_entry(receipt, state, is_recovery=True), receipt),
        "recovered": recovery.earlier
        and record_of(recovery.earlier, "receipt_id session_id=fork_id at resume_command"),
        "resumed": resumed
        and {
            **record_of(resumed, "prompt answered said=output attempts"),
            "command": resumed.command or None,
            "folder": resumed.folder,
        },
    }


def recovery_lines(recovery: Recovery, resumed: ResumeResult | None) -> list[str]:
    return [
        *recovery_cause_lines(recovery),
        "",
        *draw_table(_STEP_COLUMNS, list(_step_lines(recovery))),
        "",
        *_operation_lines(recovery),
        *_next_lines(recovery, resumed),
    ]


# A step, whether it frees enough, and its effect; the effect may continue on further lines.
StepLine = tuple[str, Cell, Cell | str]
_STEP_COLUMNS: Final[Sequence[TextColumn[StepLine]]] = (
    Column("step", lambda each: each[0]),
    Column("", lambda each: each[1], priority=1),
    Column("what it does", lambda each: each[2], flexible=True),
)
_WORKS, _FAILS, _UNKNOWN = Cell("✓", "ok"), Cell("✗", "quiet"), Cell("")


def _step_lines(recovery: Recovery) -> Iterator[StepLine]:
    tried = {each.step: each for each in recovery.choice.proposals}
    names = max((len(step) for step in recovery.steps), default=0)
    width = max(MIN_TEXT_CELLS, terminal_width() - names - len(COLUMN_GAP) * 2 - 1)
    for step in recovery.steps:
        proposal = tried.get(step)
        if proposal is None:
            yield step.value, _UNKNOWN, Cell(unused_step_text(recovery), "quiet")
        elif proposal.insufficient:
            why = proposal.insufficient.why.rstrip(".")
            first, *more = wrap(f"{why}{step_hint(proposal)}", width)
            yield step.value, _FAILS, first
            yield from (("", _UNKNOWN, line) for line in more)
        else:
            yield step.value, _WORKS, f"{step_effect(recovery, proposal)}, sufficient"


MAX_OPERATIONS: Final = 8  # operations that are named; `--json` lists all
_OPERATION_COLUMNS: Final[Sequence[TextColumn[Operation]]] = (
    Column("line", lambda each: str(each.line or "end"), right=True),
    Column("what", lambda each: each.what, flexible=True),
    Column("tokens", lambda each: f"{each.tokens_saved:,}", right=True),
    Column("why", lambda each: each.why, flexible=True, priority=1),
)


def _operation_lines(recovery: Recovery) -> Iterator[str]:
    plan = recovery.choice.plan
    if plan is None:
        return
    largest = sorted(plan.operations, key=lambda each: -each.tokens_saved)
    yield from draw_table(_OPERATION_COLUMNS, largest[:MAX_OPERATIONS])
    if len(largest) > MAX_OPERATIONS:
        yield f"and {len(largest) - MAX_OPERATIONS} smaller ones; --json lists all"
    yield ""


def _next_lines(recovery: Recovery, resumed: ResumeResult | None) -> Iterator[str]:
    start, receipt, choice = recovery.found.session_id[:8], recovery.receipt, recovery.choice
    if choice.chosen and choice.chosen.prompt:
        yield f"to ask again: {choice.chosen.prompt}"
    if choice.plan is None:
        yield "no recovery step frees enough"
        hints = [each.what_to_do for each in choice.refusals if each.check == "confirm"]
        for hint in hints or [f"see `ctxtop compact {start}`, or start a new session"]:
            yield f"next:  {hint}"
    elif receipt is None:
        again = "--apply --again" if recovery.earlier else "--apply"
        yield f"next:  ctxtop recover {start} {again}   (in a fork: the session is unchanged)"
    else:
        yield f"done in a fork, {len(receipt.verified)} checks passed"
        if resumed:
            how = "answered" if resumed.answered else f"not answered: {resumed.output}"
            yield f"asked there: {resumed.prompt}  ({how})"
            if resumed.command:
                yield f"ran:   {shlex.join(resumed.command)} in {resumed.folder}"
        yield f"next:  {receipt.resume_command}"
        yield f"undo:  ctxtop undo {receipt.receipt_id}"
