"""How urgently a conversation should be compressed, and how much room is left until then.

Source: requirements 003-14, 003-15, 003-24, 003-25, R003-04 and T-02.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final

import msgspec


class CompressionLevel(StrEnum):
    """How much to take away, mildest first."""

    LIGHT = "light"
    MEDIUM = "medium"
    AGGRESSIVE = "aggressive"


class Levels(StrEnum):
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
    levels: Levels = Levels.THREE


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


_DEFAULT: Final = TriggerSettings()


def should_compress(usage_ratio: float, threshold: float = _DEFAULT.usage_threshold) -> bool:
    """Say whether a share of the limit (0..1 and above) has reached the threshold (003-14)."""
    return usage_ratio >= threshold


def get_compression_level(
    usage_ratio: float, settings: TriggerSettings = _DEFAULT
) -> CompressionLevel | None:
    """Name the level of a share of the limit, None below all of them (003-15, T-02)."""
    if usage_ratio >= settings.emergency_threshold:
        return CompressionLevel.AGGRESSIVE
    if settings.levels is Levels.THREE and usage_ratio >= settings.medium_threshold:
        return CompressionLevel.MEDIUM
    if usage_ratio >= settings.usage_threshold:
        return CompressionLevel.LIGHT
    return None


def decide_compression(
    used_tokens: int, limit_tokens: int, message_count: int, settings: TriggerSettings = _DEFAULT
) -> CompressionDecision:
    """Decide for a conversation of `used_tokens` whether to compress it; the limit is above 0."""
    ratio = used_tokens / limit_tokens
    level = get_compression_level(ratio, settings)
    enough = message_count >= settings.min_messages
    return CompressionDecision(
        compress=enough and level is not None,
        forced=enough and ratio >= settings.emergency_threshold,
        level=level if enough else None,
        reason=_reason(ratio, level, settings)
        if enough
        else f"Only {message_count} messages: {settings.min_messages} are needed",
        remaining_tokens=max(0, int(limit_tokens * settings.usage_threshold) - used_tokens),
        remaining_percent=max(0, round((settings.usage_threshold - ratio) * 100)),
    )


def _reason(ratio: float, level: CompressionLevel | None, settings: TriggerSettings) -> str:
    used = f"{ratio:.1%}".replace(".0%", "%")
    if level is CompressionLevel.AGGRESSIVE:
        return f"Emergency: {used} of the limit is at or above {settings.emergency_threshold:.0%}"
    if level is not None:
        return f"High usage: {used} of the limit is at or above {settings.usage_threshold:.0%}"
    return f"Normal: {used} of the limit is below {settings.usage_threshold:.0%}"
