"""After how many requests an edit has paid for the cache that it made cold (compaction.md 1.6)."""

from __future__ import annotations

import msgspec

from ..prices import WRITE_1_HOUR, WRITE_5_MINUTES, read_share


class BreakEven(msgspec.Struct, frozen=True):
    """Requests after which it costs no more than before, by how long the cache is kept."""

    five_minutes: float | None
    """None where it never does."""
    one_hour: float | None
    cold: float = 0.0
    """Nothing is lost where the cache is cold already."""


def break_even(context: int, position: int, saved: int, model: str | None = None) -> BreakEven:
    """Work it out for a context and what is freed of it, all in tokens.

    `position` are the tokens before the first change, which stay warm; `read` is what a token
    costs that `model` reads from the cache, in tokens of input. The first request after the
    change costs (context - saved - position) * write + position * read - context * read more,
    and each later one saves read * saved.
    """
    read = read_share(model)
    return BreakEven(
        _requests(context, position, saved, WRITE_5_MINUTES, read),
        _requests(context, position, saved, WRITE_1_HOUR, read),
    )


def _requests(context: int, position: int, saved: int, write: float, read: float) -> float | None:
    if saved <= 0 or read <= 0:
        return None
    extra = max(0, context - saved - position) * write + (position - context) * read
    return max(0.0, extra / (read * saved))
