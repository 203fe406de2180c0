"""Sessions and settings for recovery's requirements, and which of them cannot apply."""

from __future__ import annotations

import json
from contextlib import closing
from typing import TYPE_CHECKING, Any, Final

import msgspec
from ctxtop.core.actions.session_recovery import Recovery, RecoveryOptions, recover
from ctxtop.core.compaction.compaction_target import CompactionTarget
from ctxtop.core.compaction.plan import Operation, Severity
from ctxtop.core.compaction.recovery.limit_errors import LimitErrorType as Type
from ctxtop.core.compaction.recovery.limit_errors import SessionRefusal, find_refusal
from ctxtop.core.compaction.recovery.recovery_run import (
    RecoveryCounters,
    RecoveryRun,
    RecoverySettings,
    RecoveryStep,
    advance_run,
    recovery_steps_for,
)
from ctxtop.core.compaction.recovery.recovery_steps import RecoveryChoice, choose_step
from ctxtop.core.store.writer import Writer
from ctxtop.core.transcript.entry_decoder import read_entries

from ... import transcripts as made
from ...recovering import SETTINGS, Chars4, chain, ground, turn
from ..test_recovery_run import NOW, locked

if TYPE_CHECKING:
    from pathlib import Path

TOO_LONG: Final = "prompt is too long: 210000 tokens > 200000 maximum"
FEWER: Final = "prompt is too long: 30000 tokens > 20000 maximum"
FOUND: Final = SessionRefusal(made.SESSION, "k", Type.TOKEN_LIMIT, 210_000, 200_000)
AGGRESSIVE: Final = RecoverySettings(
    step_order=(
        RecoveryStep.AGGRESSIVE,
        RecoveryStep.TRUNCATE,
        RecoveryStep.FIX_EMPTY,
        RecoveryStep.REVERT,
        RecoveryStep.SUMMARIZE,
    ),
    aggressive=True,
)

SUMMARY: Final = Operation("summarize", Severity.SUMMARY, None, "summary", "all", "", 15_000, 0, ())

CANNOT: Final = {
    69: "OpenCode's files of messages and parts: Claude Code has one transcript a session",
    70: "the same files' schema; what is truncated is known by the receipt's operations",
    87: "no API is asked: the summary is made by rules, from the transcript alone",
    90: "the client's own: seen by the collector as a boundary, tested in the client's lab",
}
"""What cannot apply to Claude Code, and why."""


def sizes(*chars: int) -> list[made.JsonLine]:
    turns = [line for n, size in enumerate(chars) for line in turn(f"t{n}", f"{n}" * size)]
    return chain(made.user("look at all of it"), *turns)


def refused(words: str = TOO_LONG, **fields: Any) -> made.JsonLine:  # noqa: ANN401
    return made.refusal("Prompt is too long", error="invalid_request", errorDetails=words, **fields)


def found_in(path: Path, *lines: made.JsonLine) -> SessionRefusal | None:
    rows = [json.loads(line) for line in made.write(path, chain(*lines)).read_bytes().splitlines()]
    return find_refusal(made.SESSION, read_entries(path), lambda line: rows[line - 1])


def talk(*prompts: int) -> list[made.JsonLine]:
    lines = []
    for number, size in enumerate(prompts):
        lines += [made.user(f"{number}" * size), made.assistant(f"m{number}")]
    lines[-1] = made.refusal("Prompt is too long")
    return chain(*lines)


def chosen(
    path: Path,
    lines: list[made.JsonLine],
    settings: RecoverySettings,
    **more: Any,  # noqa: ANN401
) -> RecoveryChoice:
    seen = ground(path, lines, current=30_000, most=20_000, settings=settings, **more)
    steps = recovery_steps_for(seen.refusal.error_type, settings)
    return choose_step(steps, seen, frozenset({RecoveryStep.REVERT}))


def mend(path: Path, lines: list[made.JsonLine], settings: RecoverySettings = SETTINGS) -> Recovery:
    made.write(path, lines)
    state = path.parent / "state"
    with closing(Writer(path.parent / "ctxtop.db")) as writer:
        wanted = RecoveryOptions(
            target=CompactionTarget(made.SESSION, path, None, state, read_entries, lambda _: None),
            settings=settings,
            counter_of=lambda _model: Chars4(),
            window_tokens=None,
            reserve_tokens=0,
            confirmed=frozenset({RecoveryStep.REVERT}),
        )
        return recover(wanted, writer.connection)


def left(steps: Any) -> list[RecoveryStep]:  # noqa: ANN401
    run, found = steps, []
    while (run := advance_run(run, NOW, SETTINGS)).step:
        found.append(run.step)
    return found


def after_reverts(reverted: int) -> RecoveryRun:
    return msgspec.structs.replace(
        locked(), counters=RecoveryCounters(attempts=1, reverted=reverted)
    )


# 1.2.5 Error detection and parsing.
