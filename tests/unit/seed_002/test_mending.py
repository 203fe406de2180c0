"""Recovery's requirements: empty messages, reverts and summaries (002-75 to 002-91)."""

from __future__ import annotations

from pathlib import Path

import msgspec
from ctxtop.core.actions import session_recovery
from ctxtop.core.compaction.recovery.limit_errors import LimitErrorType as Type
from ctxtop.core.compaction.recovery.recovery_run import (
    RecoveryCounters,
    RecoverySettings,
    RecoveryStep,
    advance_run,
    finish_run,
    recovery_steps_for,
)
from ctxtop.core.compaction.recovery.recovery_steps import (
    EMPTY_MESSAGE_TEXT,
    propose_empty_fix,
    propose_revert,
)
from ctxtop.core.transcript.entry_decoder import read_entries
from ctxtop.tui.cli.recover_command import recovery_lines

from ... import transcripts as made
from ...recovering import SETTINGS, carried_out, chain, ground, turn
from ..test_recovery_run import NOW, locked
from .given import AGGRESSIVE, FEWER, after_reverts, chosen, found_in, left, mend, refused, talk


def empty_answer() -> list[made.JsonLine]:
    lines = [made.user("go"), made.assistant("m1", content=[made.text(" ")]), made.user("on")]
    return chain(
        *lines, made.refusal("API Error: 400 messages.1: all messages must have non-empty content")
    )


def test_002_75(path: Path) -> None:
    found = found_in(path, *empty_answer())
    assert found
    assert found.error_type is Type.NON_EMPTY_CONTENT


def test_002_76(path: Path) -> None:
    """By its index; all where that leads to none."""
    lines = [*empty_answer()[:2], made.user("on"), made.assistant("m2", content=[made.text("")])]
    at_one = propose_empty_fix(ground(path, chain(*lines), index=1)).operations
    everywhere = propose_empty_fix(ground(path, chain(*lines), index=40)).operations
    assert ([each.line for each in at_one], len(everywhere)) == ([2], 2)


def test_002_77(path: Path) -> None:
    """An empty part is filled; where there is none, one is put in."""
    for content in ([made.text(""), made.tool("Bash", "t")], []):
        lines = chain(made.user("go"), made.assistant("m1", content=content))
        done = carried_out(path, propose_empty_fix(ground(path, lines)).operations)
        assert done[1]["message"]["content"][0] == made.text(EMPTY_MESSAGE_TEXT)


def test_002_78() -> None:
    assert EMPTY_MESSAGE_TEXT == "[user interrupted]"


def test_002_79(path: Path) -> None:
    mended = mend(path, empty_answer())
    assert any("fills 1 empty message:" in line for line in recovery_lines(mended, None))


# 1.2.10 Going back.


def test_002_80(path: Path) -> None:
    lines = talk(400, 400, 40_000)
    settings = RecoverySettings(step_order=(RecoveryStep.TRUNCATE, RecoveryStep.REVERT))
    found = chosen(path, lines, settings)
    assert [each.step for each in found.proposals] == [RecoveryStep.TRUNCATE, RecoveryStep.REVERT]
    done = carried_out(path, found.proposals[-1].operations)
    assert done[-1]["type"] == "assistant"
    assert not done[-1].get("isApiErrorMessage")


def test_002_81(path: Path) -> None:
    """All before the person's words stays, and the words are given back to be asked again."""
    proposal = propose_revert(ground(path, talk(400, 400, 40_000), current=12_000, most=8000))
    assert proposal.prompt == "2" * 40_000


def test_002_82(path: Path) -> None:
    assert SETTINGS.max_revert == 3
    used = ground(
        path, talk(400, 40_000), current=12_000, most=8000, counters=RecoveryCounters(reverted=3)
    )
    assert propose_revert(used).insufficient


def test_002_83(path: Path) -> None:
    assert SETTINGS.min_messages == 2
    assert propose_revert(ground(path, talk(40_000), current=12_000, most=8000)).insufficient


def test_002_84() -> None:
    run = msgspec.structs.replace(locked(), steps=(RecoveryStep.REVERT,))
    ended = finish_run(advance_run(run, NOW, SETTINGS), NOW, reverted="u")
    assert (ended.counters.reverted, ended.counters.last_reverted) == (1, "u")


def test_002_85() -> None:
    assert RecoveryStep.REVERT in left(after_reverts(2))
    assert RecoveryStep.REVERT not in left(after_reverts(3))


# 1.2.11 Summarizing.


def long_talk() -> list[made.JsonLine]:
    lines = [line for n in range(12) for line in turn(f"t{n}", f"{n} is the word " * 600)]
    return chain(made.user("look"), *lines, made.assistant("end"), made.user("on"), refused(FEWER))


def test_002_86(path: Path) -> None:
    """Of the whole history: a boundary and a summary are appended."""
    mended = mend(path, long_talk(), RecoverySettings(step_order=(RecoveryStep.SUMMARIZE,)))
    assert mended.choice.plan
    assert mended.choice.plan.only_appends
    assert mended.receipt
    written = read_entries(Path(mended.receipt.target))
    (boundary,) = [each.boundary for each in written if each.boundary]
    # As the client counts it: with the system prompt and the tools.
    assert boundary.pre_tokens == mended.choice.plan.before_tokens


def test_002_88(path: Path) -> None:
    """Nobody is asked: the session goes on with the model that it had."""
    mended = mend(path, long_talk(), RecoverySettings(step_order=(RecoveryStep.SUMMARIZE,)))
    assert mended.receipt
    assert "--model" not in mended.receipt.resume_command


def test_002_89(path: Path) -> None:
    """Only where a policy says so (T-11)."""
    made.write(path, chain(made.user("the last words"), refused()))
    assert session_recovery.resume_prompt("none", path, None) is None
    assert session_recovery.resume_prompt("continue", path, None) == "Continue"
    assert session_recovery.resume_prompt("last_prompt", path, None) == "the last words"
    assert session_recovery.resume_prompt("last_prompt", path, "taken out") == "taken out"


def test_002_91() -> None:
    """In the seed's own order it is the last."""
    assert recovery_steps_for(Type.TOKEN_LIMIT, AGGRESSIVE)[-1] is RecoveryStep.SUMMARIZE


# 1.2.12 Retry and back-off.
