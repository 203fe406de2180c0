"""Token count, share of the limit and compression level of a conversation."""

from __future__ import annotations

import math
import re
from enum import StrEnum
from typing import TYPE_CHECKING, Final

import msgspec

from ..measure.models import table_window
from ..measure.tokens import estimate_tokens

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from ..transcript.conversation import ConversationMessage


CHARS_PER_TOKEN: Final = 4
"""Of text that is not Korean, and where nothing better can count (R003-01, R003-10)."""

KOREAN_CHARS_PER_TOKEN: Final = 1.5
"""R003-10."""

_KOREAN: Final = re.compile("[\u1100-\u11ff\u3130-\u318f\uac00-\ud7a3]")
"""Hangul: syllables, and the letters that they are made of."""


class CountingMethod(StrEnum):
    """By what a text is counted (T-03)."""

    TIKTOKEN = "tiktoken"
    CHARS4 = "chars4"
    SCRIPT = "script"
    """Characters, by the script that they belong to."""


class TokenCount(msgspec.Struct, frozen=True):
    """Tokens of one text or of many."""

    tokens: int
    estimated: bool
    """By the number of characters, not by a tokenizer's table."""


class CounterSettings(msgspec.Struct, frozen=True):
    """How to count."""

    counter: CountingMethod = CountingMethod.TIKTOKEN
    per_message_overhead: int = 4
    """Tokens that a message's role and its frame take (R003-01)."""


class LimitSettings(msgspec.Struct, frozen=True):
    """How large a model's window is taken to be."""

    default_tokens: int = 100_000
    """Of a model that nobody knows (R003-03)."""
    safety_factor: float = 0.8
    """Share of the real window that counts as the limit (R003-03)."""
    overrides: Mapping[str, int] = {}
    """Limits in tokens by model, taken as they are."""

    def with_limit(self, model: str, tokens: int) -> LimitSettings:
        """Set one model's limit; one that is not above 0 is ignored (R003-03)."""
        if tokens <= 0:
            return self
        return msgspec.structs.replace(self, overrides={**self.overrides, model: tokens})


_DEFAULT_COUNTER: Final = CounterSettings()
_DEFAULT_LIMITS: Final = LimitSettings()


def count_tokens(text: object, counter: CountingMethod = CountingMethod.TIKTOKEN) -> int:
    """Count a text's tokens; what is no text has none (003-11, R003-01)."""
    return count_text_tokens(text, counter).tokens


def count_text_tokens(
    text: object, counter: CountingMethod = CountingMethod.TIKTOKEN
) -> TokenCount:
    """Count a text's tokens, and say whether only its characters were counted."""
    if not isinstance(text, str):
        return TokenCount(0, estimated=False)
    if counter is CountingMethod.SCRIPT:
        return TokenCount(_count_by_script(text), estimated=True)
    if counter is CountingMethod.TIKTOKEN:
        try:
            return TokenCount(estimate_tokens(text), estimated=False)
        except (OSError, ValueError, ImportError):
            # The table is not there or damaged, or the text cannot be encoded.
            pass
    return TokenCount(math.ceil(len(text) / CHARS_PER_TOKEN), estimated=True)


def count_message_tokens(
    messages: Iterable[ConversationMessage], settings: CounterSettings = _DEFAULT_COUNTER
) -> TokenCount:
    """Count messages with all that is in them: calls' inputs and results too (R003-02)."""
    tokens, estimated = 0, settings.counter is not CountingMethod.TIKTOKEN
    for message in messages:
        tokens += settings.per_message_overhead
        for piece in message.parts:
            for text in (piece.name, piece.text):
                counted = count_text_tokens(text, settings.counter)
                tokens += counted.tokens
                estimated |= counted.estimated
    return TokenCount(tokens, estimated)


def model_limit(model: str | None, settings: LimitSettings = _DEFAULT_LIMITS) -> int:
    """Tokens that a model may hold: as set, else a safe share of its window (003-12, R003-03)."""
    if model is not None and model in settings.overrides:
        return settings.overrides[model]
    window = table_window(model)
    return settings.default_tokens if window is None else int(window * settings.safety_factor)


def usage_ratio(
    messages: Iterable[ConversationMessage],
    model: str | None,
    limits: LimitSettings = _DEFAULT_LIMITS,
    settings: CounterSettings = _DEFAULT_COUNTER,
) -> float:
    """Share of a model's limit that messages take, 0..1 and above (003-13)."""
    return count_message_tokens(messages, settings).tokens / model_limit(model, limits)


def _count_by_script(text: str) -> int:
    korean = len(_KOREAN.findall(text))
    return math.ceil(korean / KOREAN_CHARS_PER_TOKEN + (len(text) - korean) / CHARS_PER_TOKEN)


class CompressionLevel(StrEnum):
    """How much to take away, mildest first."""

    LIGHT = "light"
    MEDIUM = "medium"
    AGGRESSIVE = "aggressive"


class LevelSet(StrEnum):
    """How many of the levels are used."""

    THREE = "three"
    TWO = "two"
    """Without medium, as the implementation had it (R003-04, T-02)."""


class TriggerSettings(msgspec.Struct, frozen=True):
    """Where levels begin: shares of the limit, 0..1, each inclusive (T-22)."""

    usage_threshold: float = 0.85
    medium_threshold: float = 0.90
    """T-02."""
    emergency_threshold: float = 0.95
    """From here on compression is forced (003-25)."""
    min_messages: int = 6
    """Fewer are three exchanges at most, and are left alone (R003-04)."""
    levels: LevelSet = LevelSet.THREE


class CompressionDecision(msgspec.Struct, frozen=True):
    """Whether to compress, and why."""

    compress: bool
    forced: bool
    """Done where that is allowed, else said until a person answers (003-25)."""
    level: CompressionLevel | None
    reason: str
    remaining_tokens: int
    """Until compression begins, 0 where it has begun."""
    remaining_percent: int
    """Of the limit."""


_DEFAULT_TRIGGER: Final = TriggerSettings()


def should_compress(
    usage_ratio: float, threshold: float = _DEFAULT_TRIGGER.usage_threshold
) -> bool:
    """Whether a share of the limit (0..1 and above) has reached the threshold (003-14)."""
    return usage_ratio >= threshold


def get_compression_level(
    usage_ratio: float, settings: TriggerSettings = _DEFAULT_TRIGGER
) -> CompressionLevel | None:
    """Name the level of a share of the limit, None below all of them (003-15, T-02)."""
    if usage_ratio >= settings.emergency_threshold:
        return CompressionLevel.AGGRESSIVE
    if settings.levels is LevelSet.THREE and usage_ratio >= settings.medium_threshold:
        return CompressionLevel.MEDIUM
    if usage_ratio >= settings.usage_threshold:
        return CompressionLevel.LIGHT
    return None


def decide_compression(
    used_tokens: int,
    limit_tokens: int,
    message_count: int,
    settings: TriggerSettings = _DEFAULT_TRIGGER,
) -> CompressionDecision:
    """Decide for a conversation of `used_tokens` whether to compress it; the limit is above 0."""
    ratio = used_tokens / limit_tokens
    level = get_compression_level(ratio, settings)
    enough = message_count >= settings.min_messages
    return CompressionDecision(
        compress=enough and level is not None,
        forced=enough and ratio >= settings.emergency_threshold,
        level=level if enough else None,
        reason=_trigger_reason(ratio, level, settings)
        if enough
        else f"Only {message_count} messages: {settings.min_messages} are needed",
        remaining_tokens=max(0, int(limit_tokens * settings.usage_threshold) - used_tokens),
        remaining_percent=max(0, round((settings.usage_threshold - ratio) * 100)),
    )


def _trigger_reason(ratio: float, level: CompressionLevel | None, settings: TriggerSettings) -> str:
    used = f"{ratio:.1%}".replace(".0%", "%")
    if level is CompressionLevel.AGGRESSIVE:
        return f"Emergency: {used} of the limit is at or above {settings.emergency_threshold:.0%}"
    if level is not None:
        return f"High usage: {used} of the limit is at or above {settings.usage_threshold:.0%}"
    return f"Normal: {used} of the limit is below {settings.usage_threshold:.0%}"


class CompactThreshold(msgspec.Struct, frozen=True):
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


class CompactDecision(msgspec.Struct, frozen=True):
    """Yes or no, and why."""

    compact: bool
    reason: str


_DEFAULT_THRESHOLD: Final = CompactThreshold()


def should_compact(
    message_count: int, token_count: int, settings: CompactThreshold = _DEFAULT_THRESHOLD
) -> CompactDecision:
    """Decide whether to compact without being asked (001-23 to 001-25)."""
    if not settings.enable_auto_compaction:
        return CompactDecision(compact=False, reason="Automatic compaction is off.")
    allowed = may_compact(message_count, settings)
    if not allowed.compact:
        return allowed
    threshold = settings.threshold_tokens
    if token_count < threshold:
        return CompactDecision(
            compact=False,
            reason=f"{token_count:,} tokens are below the threshold of {threshold:,}.",
        )
    return CompactDecision(
        compact=True, reason=f"{token_count:,} tokens have reached the threshold of {threshold:,}."
    )


def may_compact(
    message_count: int, settings: CompactThreshold = _DEFAULT_THRESHOLD
) -> CompactDecision:
    """Decide whether there is anything to compact when a person asks for it (R001-04)."""
    if message_count < settings.min_messages:
        return CompactDecision(
            compact=False,
            reason="Not enough messages to compact."
            f" Need at least {settings.min_messages} messages.",
        )
    return CompactDecision(compact=True, reason=f"{message_count} messages can be compacted.")
