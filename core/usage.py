"""What an answer of the API cost, and what of it is still in the context."""

from __future__ import annotations

import msgspec


class Usage(msgspec.Struct, frozen=True, gc=False):
    """Token counts of one request, as the API reports them."""

    input_tokens: int = 0
    """Input that was neither read from nor written to the cache."""
    cache_creation_tokens: int = 0
    cache_read_tokens: int = 0
    output_tokens: int = 0


def context_tokens(usage: Usage) -> int:
    """Tokens that the model saw: the input side of one request, output excluded.

    Source: the client's own `used_percentage` (reference: claude-code-formats 3.1 A,
    confirmed on 2.1.329).
    """
    return usage.input_tokens + usage.cache_creation_tokens + usage.cache_read_tokens
