"""Q12: two ledgers and the cache, with the figures of compaction.md 1.6."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from ...bench.evaluation.ledgers import break_even, context_tokens, tokens_before_change
from ...entries import answered, asked, returned

if TYPE_CHECKING:
    from ctxtop.core.model.conversation import MessagePart


@pytest.mark.parametrize(
    ("before", "unchanged", "saved", "five_minutes", "an_hour"),
    [
        (167, 10, 50, 23.6, 39.7),
        (167, 80, 50, 7.5, 13.1),
        (167, 10, 100, 5.6, 9.8),
        (167, 120, 20, 14.5, 24.6),
        (100, 5, 20, 42.1, 70.2),
        (800, 50, 300, 16.2, 27.5),
    ],
)
def test_it_pays_back_as_the_reference_says(
    before: int, unchanged: int, saved: int, five_minutes: float, an_hour: float
) -> None:
    assert break_even(before, unchanged, saved) == pytest.approx(five_minutes, abs=0.1)
    assert break_even(before, unchanged, saved, write=2) == pytest.approx(an_hour, abs=0.1)


def test_what_saves_nothing_never_pays() -> None:
    assert break_even(100, 10, 0) is None
    assert break_even(100, 10, -5) is None


def test_cutting_off_the_end_pays_at_once() -> None:
    assert break_even(100, 80, 20) == 0.0


def test_tokens_are_of_all_pieces() -> None:
    assert context_tokens([asked("abc"), answered("de")], length) == 5


def test_the_cache_holds_what_stands_before_the_first_change() -> None:
    original = [asked("abc"), answered("de"), returned("Bash", "1", "long output"), asked("end")]
    compacted = [*original[:2], returned("Bash", "1", "[cleared]"), original[3]]

    assert tokens_before_change(original, compacted, length) == 5
    assert tokens_before_change(original, original, length) == 19


def length(piece: MessagePart) -> int:
    return len(piece.text)
