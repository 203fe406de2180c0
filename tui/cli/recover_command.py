"""`ctxtop recover`: repair a session that ended because its prompt was too long."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from textwrap import wrap
from typing import Any, Final

import click

from ...core.actions.session_access import ResumeResult
from ...core.actions.session_recovery import (
    NothingToRecoverError,
    Recovery,
    SessionBusyError,
    preview_recovery,
    run_recovery,
)
from ...core.compaction import plan as plans
from ...core.compaction import receipts
from ...core.compaction.plan import CompactionRefusedError, Operation
from ...core.compaction.recovery.recovery_run import AttemptRefusedError, RecoveryStep
from ..tables import Cell, Column, TextColumn
from ..text.plan_text import recovery_cause_lines, step_effect, step_hint, unused_step_text
from .command_errors import LIVE, UNSAFE, USAGE, RefusedError, print_error
from .command_options import options_of, store_options
from .command_store import open_snapshot
from .compact_commands import exit_code, find_session
from .output.printing import (
    COLUMN_GAP,
    MIN_TEXT_CELLS,
    draw_table,
    print_result,
    terminal_width,
)

MAX_OPERATIONS: Final = 8  # operations that are named; `--json` lists all


@dataclass(frozen=True, slots=True)
class _StepLine:
    """A step of a recovery, whether it frees enough, and what it does; or more of that."""

    step: str
    sign: Cell
    effect: Cell | str


_STEP_COLUMNS: Final[Sequence[TextColumn[_StepLine]]] = (
    Column("step", lambda each: each.step),
    Column("", lambda each: each.sign, priority=1),
    Column("what it does", lambda each: each.effect, flexible=True),
)

_OPERATION_COLUMNS: Final[Sequence[TextColumn[Operation]]] = (
    Column("line", lambda each: str(each.line or "end"), right=True),
    Column("what", lambda each: each.what, flexible=True),
    Column("tokens", lambda each: f"{each.tokens_saved:,}", right=True),
    Column("why", lambda each: each.why, flexible=True, priority=1),
)

_WORKS, _FAILS, _UNKNOWN = Cell("✓", "ok"), Cell("✗", "quiet"), Cell("")


def recovery_record(recovery: Recovery, resumed: ResumeResult | None) -> dict[str, Any]:
    """Return a recovery as a JSON record (commands.md)."""
    found, choice, run = recovery.found, recovery.choice, recovery.run
    chosen = choice.chosen
    return {
        "session_id": found.session_id,
        "error_type": found.error_type.value,
        "current_tokens": found.current_tokens,
        "max_tokens": found.max_tokens,
        "message_index": found.message_index,
        "line": found.line,
        "state": run.state.value if run else "detected",
        "attempts": run.counters.attempts if run else 0,
        "steps": [step.value for step in recovery.steps],
        "step": chosen.step.value if chosen else None,
        "prompt": chosen.prompt if chosen else None,
        "plan": plans.plan_to_dict(choice.plan) if choice.plan else None,
        "refused": [
            {"check": each.check, "why": each.why, "what_to_do": each.what_to_do}
            for each in choice.refusals
        ],
        "receipt": receipts.receipt_to_dict(recovery.receipt) if recovery.receipt else None,
        "resumed": {
            "prompt": resumed.prompt,
            "answered": resumed.answered,
            "said": resumed.output,
            "attempts": resumed.attempts,
            "command": resumed.command or None,
            "folder": resumed.folder,
        }
        if resumed
        else None,
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


def _step_lines(recovery: Recovery) -> Iterator[_StepLine]:
    tried = {each.step: each for each in recovery.choice.proposals}
    names = max((len(step) for step in recovery.steps), default=0)
    width = max(MIN_TEXT_CELLS, terminal_width() - names - len(COLUMN_GAP) * 2 - 1)
    for step in recovery.steps:
        proposal = tried.get(step)
        if proposal is None:
            yield _StepLine(step.value, _UNKNOWN, Cell(unused_step_text(recovery), "quiet"))
        elif proposal.insufficient:
            first, *more = wrap(
                f"{proposal.insufficient.why.rstrip(chr(46))}{step_hint(proposal)}", width
            )
            yield _StepLine(step.value, _FAILS, first)
            for each in more:
                yield _StepLine("", _UNKNOWN, each)
        else:
            yield _StepLine(step.value, _WORKS, step_effect(recovery, proposal))


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
    start, receipt, chosen = recovery.found.session_id[:8], recovery.receipt, recovery.choice.chosen
    if chosen and chosen.prompt:
        yield f"to ask again: {chosen.prompt}"
    if recovery.choice.plan is None:
        yield "no step suffices"
        asking = [each.what_to_do for each in recovery.choice.refusals if each.check == "confirm"]
        for hint in asking or [f"see `ctxtop compact {start}`, or begin a new session"]:
            yield f"next:  {hint}"
    elif receipt is None:
        yield f"next:  ctxtop recover {start} --apply   (in a fork: the session stays as it is)"
    else:
        yield f"done in a fork, {len(receipt.verified)} checks passed"
        if resumed:
            how = "answered" if resumed.answered else f"not answered: {resumed.output}"
            yield f"asked there: {resumed.prompt}  ({how})"
            if resumed.command:
                yield f"ran:   {shlex.join(resumed.command)} in {resumed.folder}"
        yield f"next:  {receipt.resume_command}"
        yield f"undo:  ctxtop undo {receipt.receipt_id}"


@click.command("recover")
@store_options
@click.argument("session")
@click.option("--apply", "is_asked", is_flag=True, help="Do it, in a session of its own.")
@click.option(
    "--confirm",
    "confirmed",
    multiple=True,
    type=click.Choice([each.value for each in RecoveryStep]),
    metavar="STEP",
    help="Allow a step that asks first, as `revert` does; may be given again.",
)
@click.pass_context
def recover_session(
    context: click.Context, *, session: str, is_asked: bool, confirmed: tuple[str, ...]
) -> int:
    """Mend a session that ended in "prompt is too long" or in an empty message.

    The start of SESSION's id is enough. Prints the plan; --apply carries it out on a fork, and
    the session itself stays as it is.
    """
    resumed: ResumeResult | None = None
    try:
        with open_snapshot(options_of(context)) as found:
            access = find_session(found, session)
            allowed = frozenset(map(RecoveryStep, confirmed))
            if is_asked:
                done, resumed = run_recovery(access, allowed)
            else:
                done = preview_recovery(access, found.db, allowed)
    except (RefusedError, NothingToRecoverError) as error:
        return _print_not_recovered(session, str(error), USAGE)
    except SessionBusyError as error:
        return _print_not_recovered(session, str(error), LIVE)
    except AttemptRefusedError as error:
        code = LIVE if error.refusal.check == "in_progress" else UNSAFE
        return _print_not_recovered(session, f"{error.refusal.check}: {error}", code)
    except CompactionRefusedError as error:
        return _print_not_recovered(session, str(error), exit_code(error.kind))
    print_result(
        context,
        recovery_record(done, resumed),
        lambda: recovery_lines(done, resumed),
    )
    return UNSAFE if done.choice.plan is None else 0


def _print_not_recovered(session: str, why: str, code: int) -> int:
    print_error(f"{session} was not mended: {why}")
    return code
