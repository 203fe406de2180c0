"""Whether a conversation is long enough to be compacted (requirements 001-19 to 001-25)."""

from __future__ import annotations

from typing import Final

import msgspec


class CompactSettings(msgspec.Struct, frozen=True):
    """When to compact; the defaults are not-agent's own (001-19 to 001-22)."""

    max_context_tokens: int = 100_000
    compaction_threshold: float = 0.75
    """Of the maximum, 0..1: summarising needs a fifth of it itself (001-61)."""
    preserve_recent_messages: int = 4
    """Two turns (001-59)."""
    enable_auto_compaction: bool = True

    @property
    def threshold_tokens(self) -> int:
        """Tokens from which on to compact (001-25)."""
        return int(self.max_context_tokens * self.compaction_threshold)

    @property
    def min_messages(self) -> int:
        """Messages that must be there, so that more than one goes (001-24, R001-04)."""
        return self.preserve_recent_messages + 3


class Decision(msgspec.Struct, frozen=True):
    """Yes or no, and why."""

    compact: bool
    reason: str


_DEFAULT: Final = CompactSettings()


def should_compact(
    message_count: int, token_count: int, settings: CompactSettings = _DEFAULT
) -> Decision:
    """Decide whether to compact without being asked (001-23 to 001-25)."""
    if not settings.enable_auto_compaction:
        return Decision(compact=False, reason="Automatic compaction is off.")
    allowed = may_compact(message_count, settings)
    if not allowed.compact:
        return allowed
    threshold = settings.threshold_tokens
    if token_count < threshold:
        return Decision(
            compact=False,
            reason=f"{token_count:,} tokens are below the threshold of {threshold:,}.",
        )
    return Decision(
        compact=True, reason=f"{token_count:,} tokens have reached the threshold of {threshold:,}."
    )


def may_compact(message_count: int, settings: CompactSettings = _DEFAULT) -> Decision:
    """Decide whether there is anything to compact when a person asks for it (R001-04)."""
    if message_count < settings.min_messages:
        return Decision(
            compact=False,
            reason="Not enough messages to compact."
            f" Need at least {settings.min_messages} messages.",
        )
    return Decision(compact=True, reason=f"{message_count} messages can be compacted.")
