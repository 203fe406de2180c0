"""What an answer used, in tokens, and when an agent goes on after its last one.

The store and its measures need this, and nothing else of what a conversation is made of.
"""

from typing import Final

import msgspec


class TokenUsage(msgspec.Struct, frozen=True, gc=False):
    input_tokens: int = 0  # neither read from nor written to the cache
    cache_creation_tokens: int = 0
    cache_read_tokens: int = 0
    output_tokens: int = 0


def context_tokens(usage: TokenUsage) -> int:
    """Return the tokens that the model saw: the input side of one request.

    Source: the client's own `used_percentage` (claude-code-formats 3.1 A, confirmed on 2.1.329).
    """
    return usage.input_tokens + usage.cache_creation_tokens + usage.cache_read_tokens


AGENT_RESUMED_MS: Final = 2_000  # writing this long after its return: it got another message
