"""How many tokens a conversation has, and of how many, before the API has said so.

Source: requirements 003-11 to 003-13 and R003-01 to R003-03, R003-10. What the API reports is
always preferred (T-03): these counts are for texts that it has not seen.
"""

from __future__ import annotations

import math
import re
from enum import StrEnum
from typing import TYPE_CHECKING, Final

import msgspec

from ..models import table_window
from ..tokens import estimate_tokens

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from ..conversation import Message

CHARS_PER_TOKEN: Final = 4
"""Of text that is not Korean, and where nothing better can count (R003-01, R003-10)."""

KOREAN_CHARS_PER_TOKEN: Final = 1.5
"""R003-10."""

_KOREAN: Final = re.compile("[\u1100-\u11ff\u3130-\u318f\uac00-\ud7a3]")
"""Hangul: syllables, and the letters that they are made of."""


class Counter(StrEnum):
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

    counter: Counter = Counter.TIKTOKEN
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


_COUNTER: Final = CounterSettings()
_LIMITS: Final = LimitSettings()


def count_tokens(text: object, counter: Counter = Counter.TIKTOKEN) -> int:
    """Count a text's tokens; what is no text has none (003-11, R003-01)."""
    return count_text(text, counter).tokens


def count_text(text: object, counter: Counter = Counter.TIKTOKEN) -> TokenCount:
    """Count a text's tokens, and say whether only its characters were counted."""
    if not isinstance(text, str):
        return TokenCount(0, estimated=False)
    if counter is Counter.SCRIPT:
        return TokenCount(_by_script(text), estimated=True)
    if counter is Counter.TIKTOKEN:
        try:
            return TokenCount(estimate_tokens(text), estimated=False)
        except (OSError, ValueError, ImportError):
            # The table is not there or damaged, or the text cannot be encoded.
            pass
    return TokenCount(math.ceil(len(text) / CHARS_PER_TOKEN), estimated=True)


def count_messages(messages: Iterable[Message], settings: CounterSettings = _COUNTER) -> TokenCount:
    """Count messages with all that is in them: calls' inputs and results too (R003-02)."""
    tokens, estimated = 0, settings.counter is not Counter.TIKTOKEN
    for message in messages:
        tokens += settings.per_message_overhead
        for piece in message.parts:
            for text in (piece.name, piece.text):
                counted = count_text(text, settings.counter)
                tokens += counted.tokens
                estimated |= counted.estimated
    return TokenCount(tokens, estimated)


def get_model_limit(model: str | None, settings: LimitSettings = _LIMITS) -> int:
    """Tokens that a model may hold: as set, else a safe share of its window (003-12, R003-03)."""
    if model is not None and model in settings.overrides:
        return settings.overrides[model]
    window = table_window(model)
    return settings.default_tokens if window is None else int(window * settings.safety_factor)


def get_usage_ratio(
    messages: Iterable[Message],
    model: str | None,
    limits: LimitSettings = _LIMITS,
    settings: CounterSettings = _COUNTER,
) -> float:
    """Share of a model's limit that messages take, 0..1 and above (003-13)."""
    return count_messages(messages, settings).tokens / get_model_limit(model, limits)


def _by_script(text: str) -> int:
    korean = len(_KOREAN.findall(text))
    return math.ceil(korean / KOREAN_CHARS_PER_TOKEN + (len(text) - korean) / CHARS_PER_TOKEN)
