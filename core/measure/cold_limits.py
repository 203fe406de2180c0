"""From which size and when a prompt cache that expires is mentioned."""

from typing import Final

import msgspec

DEFAULT_NOTICE_S: Final = 120  # time to write a hand-off or to compact
DEFAULT_NOTICE_MS: Final = DEFAULT_NOTICE_S * 1000

DEFAULT_MIN_TOKENS: Final = 20_000
"""Instructions and tools alone: a session that is started anew writes as much."""

DEFAULT_NOTIFY_TOKENS: Final = 100_000
"""From half a dollar on with the client's default model: worth being interrupted for."""


class ColdLimits(msgspec.Struct, frozen=True):
    """What a policy says of cold prompts."""

    min_tokens: int = DEFAULT_MIN_TOKENS  # less is not shown
    notify_tokens: int = DEFAULT_NOTIFY_TOKENS  # less does not notify; 0 for never
    notice_ms: int = DEFAULT_NOTICE_MS  # how long before its end a cache is going cold


DEFAULT_LIMITS: Final = ColdLimits()
