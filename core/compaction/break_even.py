"""After how many requests an edit has paid for the cache that it made cold (compaction.md 1.6)."""

from __future__ import annotations

from typing import Final

import msgspec

READ: Final = 0.1
"""Price of a token that is read from the cache, in tokens of input."""

WRITE_5_MINUTES: Final = 1.25
WRITE_1_HOUR: Final = 2.0
"""Prices of a token that is written to the cache (Anthropic's prices, compaction.md 1.6)."""


class BreakEven(msgspec.Struct, frozen=True):
    """Requests after which it costs no more than before, by how long the cache is kept."""

    five_minutes: float | None
    """None where it never does."""
    one_hour: float | None
    cold: float = 0.0
    """Nothing is lost where the cache is cold already."""


def break_even(context: int, position: int, saved: int) -> BreakEven:
    """Work it out for a context and what is freed of it, all in tokens.

    `position` are the tokens before the first change, which stay warm. The first request
    after the change costs (context - saved - position) * write + position * READ
    - context * READ more, and each later one saves READ * saved.
    """
    return BreakEven(
        _requests(context, position, saved, WRITE_5_MINUTES),
        _requests(context, position, saved, WRITE_1_HOUR),
    )


def _requests(context: int, position: int, saved: int, write: float) -> float | None:
    if saved <= 0:
        return None
    extra = max(0, context - saved - position) * write + (position - context) * READ
    return max(0.0, extra / (READ * saved))
