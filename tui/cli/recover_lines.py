"""A recovery for people and for programs: what ended, what each step does, what to type next."""

from __future__ import annotations

import shlex
from textwrap import wrap
from typing import TYPE_CHECKING, Any, Final

from ...core.compaction import plan as plans
from ...core.compaction import receipts
from ..recover_words import ended, hint, unused, what_it_does
from .columns import GAP, SHORTEST, Cell, Column, draw, terminal_width

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ...collectors.recovering import Recovery
    from ...collectors.resuming import Resumed

SHOWN: Final = 8
"""Operations that are named; `--json` lists all."""

_COLUMNS: Final = (
    Column("STEP"),
    Column("", priority=1),
    Column("WHAT IT DOES", flexible=True),
)

_OPERATIONS: Final = (
    Column("LINE", right=True),
    Column("WHAT", flexible=True),
    Column("TOKENS", right=True),
    Column("WHY", flexible=True, priority=1),
)

_YES, _NO = Cell("✓", "ok"), Cell("✗", "quiet")


def as_record(recovery: Recovery, resumed: Resumed | None) -> dict[str, Any]:
    """Say a recovery for programs (commands.md)."""
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
        "plan": plans.as_record(choice.plan) if choice.plan else None,
        "refused": [
            {"check": each.check, "why": each.why, "what_to_do": each.what_to_do}
            for each in choice.refusals
        ],
        "receipt": receipts.as_record(recovery.receipt) if recovery.receipt else None,
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


def lines_of(recovery: Recovery, resumed: Resumed | None) -> list[str]:
    """Say a recovery for a person."""
    return [
        *ended(recovery),
        "",
        *draw(_COLUMNS, list(_steps(recovery)), terminal_width()),
        "",
        *_operations(recovery),
        *_next(recovery, resumed),
    ]


def _steps(recovery: Recovery) -> Iterator[list[Cell | str]]:
    tried = {each.step: each for each in recovery.choice.proposals}
    names = max((len(step) for step in recovery.steps), default=0)
    width = max(SHORTEST, terminal_width() - names - len(GAP) * 2 - 1)
    for step in recovery.steps:
        proposal = tried.get(step)
        if proposal is None:
            yield [step.value, "", Cell(unused(recovery), "quiet")]
        elif proposal.insufficient:
            first, *more = wrap(
                f"{proposal.insufficient.why.rstrip(chr(46))}{hint(proposal)}", width
            )
            yield [step.value, _NO, first]
            for each in more:
                yield ["", "", each]
        else:
            yield [step.value, _YES, what_it_does(recovery, proposal)]


def _operations(recovery: Recovery) -> Iterator[str]:
    plan = recovery.choice.plan
    if plan is None:
        return
    largest = sorted(plan.operations, key=lambda each: -each.tokens_saved)
    rows: list[list[Cell | str]] = [
        [str(each.line or "end"), each.what, f"{each.tokens_saved:,}", each.why]
        for each in largest[:SHOWN]
    ]
    yield from draw(_OPERATIONS, rows, terminal_width())
    if len(largest) > SHOWN:
        yield f"and {len(largest) - SHOWN} smaller ones; --json lists all"
    yield ""


def _next(recovery: Recovery, resumed: Resumed | None) -> Iterator[str]:
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
