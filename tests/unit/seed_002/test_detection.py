"""Recovery's requirements: how a refusal is found, and what is tried (002-37 to 002-58)."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import msgspec
from ctxtop.core.compaction.recovery.limit_errors import LimitErrorType as Type
from ctxtop.core.compaction.recovery.limit_errors import parse_limit_error as parse
from ctxtop.core.compaction.recovery.recovery_run import (
    RecoverySettings,
    RecoveryState,
    RecoveryStep,
    mark_pending,
    record_refusal,
    recovery_steps_for,
)
from ctxtop.core.compaction.recovery.recovery_steps import (
    EMPTY_MESSAGE_TEXT,
    chars_to_free,
    propose_aggressive_truncation,
    propose_empty_fix,
    propose_revert,
    propose_truncation,
)
from ctxtop.tui.cli.recover_command import recovery_lines

from ... import transcripts as made
from ...recovering import SETTINGS, carried_out, chain, ground
from ..test_recovery_run import NOW, locked
from .given import (
    AGGRESSIVE,
    FEWER,
    FOUND,
    SUMMARY,
    TOO_LONG,
    chosen,
    found_in,
    mend,
    refused,
    sizes,
    talk,
)

if TYPE_CHECKING:
    from pathlib import Path


def test_002_37(path: Path) -> None:
    """Seen without a person; whether it is mended without one, `decide_recovery` says."""
    assert found_in(path, made.user(), refused())


def test_002_38(path: Path) -> None:
    """The source is the answer that the client makes up, and its API error."""
    assert found_in(path, made.user(), refused())
    assert found_in(path, made.user(), made.refusal(TOO_LONG))
    assert found_in(path, made.user(TOO_LONG), made.assistant()) is None


def test_002_39() -> None:
    inner = {"error": {"error": {"message": TOO_LONG}}}
    for error in (
        TOO_LONG,
        inner,
        json.dumps(inner),
        {"data": {"responseBody": json.dumps(inner)}},
    ):
        parsed = parse(error)
        assert parsed
        assert parsed.max_tokens == 200_000


def test_002_40() -> None:
    for words in ("prompt is too long", "context_length_exceeded", "non-empty content"):
        assert parse(words)
    assert parse("overloaded") is None


def test_002_41() -> None:
    for words in ("210000 tokens > 200000 maximum", "210,000 tokens > 200,000 maximum"):
        parsed = parse(f"prompt is too long: {words}")
        assert parsed
        assert (parsed.current_tokens, parsed.max_tokens) == (210_000, 200_000)


def test_002_42() -> None:
    for words in ("messages.12: non-empty content", "messages[12]: non-empty content"):
        parsed = parse(words)
        assert parsed
        assert parsed.message_index == 12


def test_002_43() -> None:
    fields = {"current_tokens", "max_tokens", "error_type", "message_index"}
    more = {"request_id", "provider_id", "model_id"}
    parsed = parse(TOO_LONG)
    assert parsed
    assert fields | more <= set(parsed.__struct_fields__)


def test_002_44() -> None:
    steps = recovery_steps_for(Type.TOKEN_LIMIT, RecoverySettings(step_order=AGGRESSIVE.step_order))
    assert steps == (
        RecoveryStep.TRUNCATE,
        RecoveryStep.FIX_EMPTY,
        RecoveryStep.REVERT,
        RecoveryStep.SUMMARIZE,
    )


def test_002_45() -> None:
    assert recovery_steps_for(Type.NON_EMPTY_CONTENT, AGGRESSIVE)[0] is RecoveryStep.FIX_EMPTY
    assert RecoveryStep.TRUNCATE not in recovery_steps_for(Type.NON_EMPTY_CONTENT, AGGRESSIVE)


def test_002_46(path: Path) -> None:
    """Needs no sizes: half of what is there is the target."""
    last = RecoverySettings(
        step_order=(RecoveryStep.TRUNCATE, RecoveryStep.AGGRESSIVE), aggressive=True
    )
    assert recovery_steps_for(Type.BEDROCK, last)[0] is RecoveryStep.AGGRESSIVE
    seen = ground(path, sizes(40_000, 40_000), error_type=Type.BEDROCK, settings=last)
    assert chars_to_free(seen) == (seen.tokens - seen.tokens // 2) * 4


def test_002_47() -> None:
    assert recovery_steps_for(Type.CONTEXT_LENGTH, SETTINGS) == recovery_steps_for(
        Type.TOKEN_LIMIT, SETTINGS
    )


def test_002_48() -> None:
    run = mark_pending(record_refusal(None, FOUND, SETTINGS.step_order, NOW, SETTINGS), NOW)
    assert (run.state, run.found) == (RecoveryState.PENDING, FOUND)


# 1.2.6 The pipeline.


def test_002_49(path: Path) -> None:
    """Only what is idle is locked and mended: nothing follows the refusal."""
    assert locked().state is RecoveryState.LOCKED
    assert found_in(path, made.user(), refused(), made.user("again"), made.assistant()) is None


def test_002_50() -> None:
    off = msgspec.structs.replace(AGGRESSIVE, aggressive=False)
    assert RecoveryStep.AGGRESSIVE in recovery_steps_for(Type.TOKEN_LIMIT, AGGRESSIVE)
    assert RecoveryStep.AGGRESSIVE not in recovery_steps_for(Type.TOKEN_LIMIT, off)


def test_002_51(path: Path) -> None:
    seen = ground(path, sizes(40_000), current=30_000, most=20_000)
    assert chars_to_free(seen) == (30_000 - 10_000) * 4


def test_002_52(path: Path) -> None:
    seen = ground(path, sizes(600, 40_000, 20_000), current=30_000, most=20_000)
    assert [each.line for each in propose_aggressive_truncation(seen).operations] == [5, 7, 3]


def test_002_53(path: Path) -> None:
    enough = chosen(path, sizes(90_000, 600), AGGRESSIVE)
    assert (enough.chosen and enough.chosen.step) is RecoveryStep.AGGRESSIVE
    assert len(enough.chosen.operations if enough.chosen else ()) == 1
    little = chosen(path, sizes(8000), AGGRESSIVE)
    assert [each.step for each in little.proposals][:2] == [
        RecoveryStep.AGGRESSIVE,
        RecoveryStep.TRUNCATE,
    ]


def test_002_54(path: Path) -> None:
    """One result after the other, the largest first; one that is truncated is left."""
    seen = ground(path, sizes(20_000, 60_000), current=30_000, most=20_000)
    assert [each.line for each in propose_truncation(seen).operations] == [5]
    nothing = ground(path, sizes(100), current=30_000, most=20_000)
    assert propose_truncation(nothing).insufficient


def test_002_55(path: Path) -> None:
    lines = chain(made.user(""), made.assistant("m1", content=[]), made.user("on"))
    done = carried_out(path, propose_empty_fix(ground(path, lines)).operations)
    assert done[0]["message"]["content"] == EMPTY_MESSAGE_TEXT
    assert done[1]["message"]["content"] == [made.text(EMPTY_MESSAGE_TEXT)]


def test_002_56(path: Path) -> None:
    seen = ground(path, talk(400, 400, 40_000), current=12_000, most=8000)
    assert len(carried_out(path, propose_revert(seen).operations)) == 4


def test_002_57(path: Path) -> None:
    """No provider is asked: what a summary is made of is counted for the newest model."""
    assert ground(path, sizes(600)).view.model == made.MODEL
    found = chosen(path, sizes(8000), SETTINGS, summarize=lambda _: SUMMARY)
    assert (found.chosen and found.chosen.step) is RecoveryStep.SUMMARIZE


def test_002_58(path: Path) -> None:
    lines = chain(*sizes(80_000), refused(FEWER))
    assert any(
        line.startswith("done in a fork") for line in recovery_lines(mend(path, lines), None)
    )
    other = path.with_name("other") / path.name
    other.parent.mkdir()
    lines = chain(*sizes(100), refused(FEWER))
    assert "no recovery step frees enough" in recovery_lines(
        mend(other, lines, RecoverySettings(step_order=(RecoveryStep.TRUNCATE,))), None
    )
