"""Recovery's requirements: what is truncated (002-59 to 002-74)."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import msgspec
from ctxtop.core.actions.stored_recoveries import read_recovery
from ctxtop.core.compaction.recovery.recovery_run import (
    FINISHED_STATES,
    RecoverySettings,
    RecoveryStep,
    advance_run,
    cancel_run,
    finish_run,
)
from ctxtop.core.compaction.recovery.recovery_steps import (
    TRUNCATION_MESSAGE,
    chars_to_free,
    propose_aggressive_truncation,
    propose_truncation,
)
from ctxtop.core.store.writer import Writer
from ctxtop.core.transcript.entry_decoder import read_entries
from ctxtop.core.transcript.visible_messages import visible_entries

from ... import transcripts as made
from ...recovering import SETTINGS, carried_out, chain, ground, turn
from ..test_recovery_run import NOW, locked
from .given import AGGRESSIVE, FEWER, chosen, left, mend, refused, sizes


def test_002_59() -> None:
    """Nothing is pending, and nothing locked, once it has ended in any way."""
    running = advance_run(locked(), NOW, SETTINGS)
    exhausted = msgspec.structs.replace(locked(), steps=())
    late = advance_run(running, NOW + 120_000, SETTINGS)
    for run in (
        finish_run(running, NOW),
        cancel_run(running, NOW),
        late,
        advance_run(exhausted, NOW, SETTINGS),
    ):
        assert run.state in FINISHED_STATES
        assert run.holder is None


def test_002_60() -> None:
    assert left(locked()) == list(SETTINGS.step_order)
    assert locked().counters.attempts == 1


# 1.2.7 Aggressive truncation.


def test_002_61() -> None:
    assert AGGRESSIVE.aggressive
    assert not SETTINGS.aggressive


def test_002_62(path: Path) -> None:
    seen = ground(path, sizes(4000), current=25_000, most=20_000)
    assert chars_to_free(seen) == (25_000 - 10_000) * 4


def test_002_63(path: Path) -> None:
    """Gross: what stands in its place is not subtracted."""
    seen = ground(path, sizes(20_000, 20_000, 20_000), current=20_000, most=20_000)
    assert chars_to_free(seen) == 40_000
    assert len(propose_aggressive_truncation(seen).operations) == 2


def test_002_64(path: Path) -> None:
    assert SETTINGS.max_truncate == 20
    for truncate in (propose_aggressive_truncation, propose_truncation):
        seen = ground(path, sizes(*[600] * 25), current=30_000, most=20_000)
        assert len(truncate(seen).operations) == 20


def test_the_limit_of_truncations_is_for_all_steps(path: Path) -> None:
    """002-64: one limit for both steps: the second one gets what the first one left."""
    tried = chosen(path, sizes(*[600] * 25), AGGRESSIVE).proposals[:2]
    assert [len(each.operations) for each in tried] == [20, 0]
    assert tried[1].insufficient
    assert tried[1].insufficient.why == "20 results were truncated, which is the limit"


def test_truncations_are_stored_with_the_run(path: Path) -> None:
    """002-64 and 002-101: they count too if a later step is the one that suffices."""
    copies = [line for call in ("t0", "t1") for line in turn(call, "b" * 40_000)]
    newest = [line for number in range(12) for line in turn(f"n{number}", "c" * 8000)]
    words = "prompt is too long: 68000 tokens > 44000 maximum"
    lines = chain(
        made.user("go"),
        *copies,
        *turn("t2", "a" * 60_000),
        *newest,
        made.user("on"),
        refused(words),
    )
    order = (RecoveryStep.TRUNCATE, RecoveryStep.DEDUP)
    done = mend(path, lines, RecoverySettings(step_order=order, max_truncate=1))
    assert done.choice.chosen
    assert done.choice.chosen.step is RecoveryStep.DEDUP
    with closing(Writer(path.parent / "ctxtop.db")) as writer:
        stored = read_recovery(writer.connection, made.SESSION)
    assert stored
    assert stored.counters.truncated == 1


def test_002_65() -> None:
    assert SETTINGS.target_ratio == 0.5


def test_002_66() -> None:
    assert SETTINGS.chars_per_token == 4


def test_002_67(path: Path) -> None:
    seen = ground(path, sizes(499, 500), current=30_000, most=20_000)
    assert SETTINGS.min_output_chars == 500
    assert [each.line for each in propose_aggressive_truncation(seen).operations] == [5]


# 1.2.8 Single truncation.


def test_002_68(path: Path) -> None:
    assert [each.step for each in chosen(path, sizes(90_000), SETTINGS).proposals][
        -1
    ] is RecoveryStep.TRUNCATE
    some = msgspec.structs.replace(AGGRESSIVE, max_truncate=1)
    assert [each.step for each in chosen(path, sizes(8000, 8000), some).proposals][
        1
    ] is RecoveryStep.TRUNCATE


def test_002_71(path: Path) -> None:
    """The receipt records it: how long it was, what went, and a copy of it all."""
    mended = mend(path, chain(*sizes(80_000), refused(FEWER)))
    receipt = mended.receipt
    assert receipt
    assert receipt.backup
    assert "80,000 characters" in receipt.plan.operations[0].why
    assert receipt.plan.operations[0].bytes_saved > 79_000


def test_002_72(path: Path) -> None:
    lines = sizes(80_000)
    done = carried_out(
        path, propose_truncation(ground(path, lines, current=30_000, most=20_000)).operations
    )
    assert done[2]["message"]["content"][0]["content"] == TRUNCATION_MESSAGE
    assert done[:2] == lines[:2]


def test_002_73() -> None:
    assert TRUNCATION_MESSAGE == (
        "[TOOL RESULT TRUNCATED - Context limit exceeded. Original output was too large and has"
        " been truncated to recover the session. Please re-run this tool if you need the full"
        " output.]"
    )
    assert len(TRUNCATION_MESSAGE) == 179


def test_002_74(path: Path) -> None:
    """What is sent after a resume of the fork is the message."""
    mended = mend(path, chain(*sizes(80_000), refused(FEWER)))
    assert mended.receipt
    sent = visible_entries(read_entries(Path(mended.receipt.target)))
    assert TRUNCATION_MESSAGE in [piece.text for entry in sent for piece in entry.parts]


# 1.2.9 Empty messages.
