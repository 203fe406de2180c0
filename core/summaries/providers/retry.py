"""Asking again when a provider fails in passing (requirements 002-92 to 002-97)."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

import msgspec

from .provider import ProviderError

if TYPE_CHECKING:
    from collections.abc import Callable

    from .provider import Provider, Request


class RetrySettings(msgspec.Struct, frozen=True):
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
        """Give the wait after an attempt, from 0: 2, 4, 8, …, at most 30 (002-97)."""
        return min(self.first_delay_s * self.factor**attempt, self.max_delay_s)


DEFAULT: Final = RetrySettings()


def ask_again(
    provider: Provider,
    request: Request,
    settings: RetrySettings = DEFAULT,
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
