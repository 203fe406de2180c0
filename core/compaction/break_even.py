"""After how many requests an edit has paid for the cache that it made cold (compaction.md 1.6)."""

from __future__ import annotations

import msgspec

from ..prices import WRITE_1_HOUR, WRITE_5_MINUTES, read_share


class BreakEven(msgspec.Struct, frozen=True):
    """Requests after which it costs no more than before, by how long the cache is kept."""

    requests_5m: float | None
    """None where it never does."""
    requests_1h: float | None
    cold: float = 0.0
    """Nothing is lost where the cache is cold already."""


def break_even(
    context_tokens: int, tokens_before: int, saved_tokens: int, model: str | None = None
) -> BreakEven:
    """Work it out for a context and what is freed of it, all in tokens.

    `position` are the tokens before the first change, which stay warm; `read` is what a token
    costs that `model` reads from the cache, in tokens of input. The first request after the
    change costs (context - saved - position) * write + position * read - context * read more,
    and each later one saves read * saved.
    """
    read = read_share(model)
    return BreakEven(
        _requests(context_tokens, tokens_before, saved_tokens, WRITE_5_MINUTES, read),
        _requests(context_tokens, tokens_before, saved_tokens, WRITE_1_HOUR, read),
    )


def _requests(
    context_tokens: int,
    tokens_before: int,
    saved_tokens: int,
    write_factor: float,
    read_factor: float,
) -> float | None:
    if saved_tokens <= 0 or read_factor <= 0:
        return None
    extra = (
        max(0, context_tokens - saved_tokens - tokens_before) * write_factor
        + (tokens_before - context_tokens) * read_factor
    )
    return max(0.0, extra / (read_factor * saved_tokens))
