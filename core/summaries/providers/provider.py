"""What every provider of summaries does, and how it says that it could not."""

from __future__ import annotations

from enum import StrEnum
from typing import Final, Protocol

import msgspec

CHEAP_MODEL: Final = "claude-haiku-4-5"
"""Asked where no other model is named (T-05: ours is cheap by default)."""

SYSTEM: Final = "You are a helpful assistant that creates concise summaries."
"""001-30."""


class ProviderName(StrEnum):
    """Who can be asked."""

    NONE = "none"
    CLAUDE_CLI = "claude"
    ANTHROPIC = "anthropic"
    OPENAI = "openai"


class Request(msgspec.Struct, frozen=True):
    """What a model is asked."""

    text: str
    """The task and the conversation."""
    model: str = CHEAP_MODEL
    max_tokens: int = 8_192
    """Of the answer (R001-05)."""
    system: str = SYSTEM


class ProviderError(Exception):
    """A provider gave no answer; the message says what happened and what to do, in one line.

    Nothing was changed by it (R001-03).
    """

    def __init__(self, message: str, *, passing: bool = False) -> None:
        super().__init__(message)
        self.retryable: Final = passing
        """Asking again may help."""


class Provider(Protocol):
    """Somebody who answers."""

    @property
    def name(self) -> str:
        """What a receipt calls it; the address without a key."""
        ...

    def generate(self, request: Request, timeout_s: float) -> str:
        """Give the answer's text; raises ProviderError."""
        ...
