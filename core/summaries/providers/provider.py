"""The interface of a summary provider: its request, its error, and how a request is retried."""

from __future__ import annotations

import time
from collections.abc import Callable
from enum import StrEnum
from typing import Final, Protocol

import msgspec

CHEAP_MODEL: Final = "claude-haiku-4-5"
"""Asked where no other model is named (T-05: ours is cheap by default)."""

SYSTEM_PROMPT: Final = "You are a helpful assistant that creates concise summaries."
"""001-30."""


class ProviderName(StrEnum):
    """Who can be asked."""

    NONE = "none"
    CLAUDE_CLI = "claude"
    ANTHROPIC = "anthropic"
    OPENAI = "openai"


class SummaryRequest(msgspec.Struct, frozen=True):
    """What a model is asked."""

    text: str
    """The task and the conversation."""
    model: str = CHEAP_MODEL
    max_tokens: int = 8_192
    """Of the answer (R001-05)."""
    system: str = SYSTEM_PROMPT


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

    def generate(self, request: SummaryRequest, timeout_s: float) -> str:
        """Return the answer's text; raises ProviderError."""
        ...


class ProviderRetry(msgspec.Struct, frozen=True):
    """How often, and after how long."""

    retries: int = 2
    first_delay_s: float = 2.0
    factor: float = 2.0
    max_delay_s: float = 30.0
    attempt_timeout_s: float = 60.0
    """Of each attempt (`compact.timeout_s`)."""
    total_timeout_s: float = 120.0
    """Of all together (compaction.md 7.5)."""

    def delay_s(self, attempt: int) -> float:
        """Return the seconds to wait after an attempt, from 0: 2, 4, 8, …, at most 30 (002-97)."""
        return min(self.first_delay_s * self.factor**attempt, self.max_delay_s)


DEFAULT_RETRY: Final = ProviderRetry()


def generate_with_retries(
    provider: Provider,
    request: SummaryRequest,
    settings: ProviderRetry = DEFAULT_RETRY,
    *,
    sleep: Callable[[float], None] = time.sleep,
    clock: Callable[[], float] = time.monotonic,
) -> str:
    """Ask until there is an answer that says something; raises the last ProviderError.

    An empty answer is a failure. What asking again cannot mend is said at once.
    """
    end = clock() + settings.total_timeout_s
    attempt = 0
    while True:
        try:
            answer = provider.generate(
                request, max(1.0, min(settings.attempt_timeout_s, end - clock()))
            )
            if answer.strip():
                return answer
            raise ProviderError(f"{provider.name} gave an empty summary", passing=True)
        except ProviderError as error:
            wait = settings.delay_s(attempt)
            if not error.retryable or attempt >= settings.retries or clock() + wait >= end:
                raise
        sleep(wait)
        attempt += 1
