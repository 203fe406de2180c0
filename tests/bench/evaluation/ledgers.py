"""Q12: what a compaction frees, in two ledgers, and when the prompt cache has paid for it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from .texts import pieces_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ctxtop.core.model.conversation import Entry, MessagePart

READ: Final = 0.1
"""Price of a token that the cache holds, against one that it does not (compaction.md 1.6)."""

WRITE: Final = 1.25
"""Price of a token that is written to the cache for five minutes (compaction.md 1.6)."""


def context_tokens(entries: Sequence[Entry], tokens: Callable[[MessagePart], int]) -> int:
    """Count what is sent, without the system prompt and the tools."""
    return sum(tokens(piece) for piece in pieces_of(entries))


def tokens_before_change(
    original: Sequence[Entry], compacted: Sequence[Entry], tokens: Callable[[MessagePart], int]
) -> int:
    """Count what is sent before the first piece that differs: the cache holds it further on."""
    same = 0
    for before, after in zip(pieces_of(original), pieces_of(compacted), strict=False):
        if before != after:
            break
        same += tokens(before)
    return same


def break_even(before: int, unchanged: int, saved: int, write: float = WRITE) -> float | None:
    """Return after how many requests the cost of the lost cache is recovered.

    None if nothing is saved. `before` tokens were sent, `unchanged` of them come before the first
    edit, and `saved` are no longer sent. Source: compaction.md 1.6, for a warm cache; with a cold
    one the compaction breaks even at once.
    """
    if saved <= 0:
        return None
    first = (before - saved - unchanged) * write + unchanged * READ - before * READ
    return max(0.0, first / (READ * saved))
