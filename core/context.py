"""How full one context is: what is in it, of which window, at which level."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING

import msgspec

from .counter import NO_NUMBERS, Counted, Numbers, numbers_of
from .levels import LINES, Level, level_of

if TYPE_CHECKING:
    from .levels import Line
    from .trigger import Trigger
    from .window import Window


class ContextState(StrEnum):
    """How we know what is in the context."""

    MEASURED = "measured"
    ESTIMATED = "estimated"
    UNKNOWN = "unknown"


class Context(msgspec.Struct, frozen=True):
    """A context's fill."""

    tokens: int | None
    state: ContextState
    window: Window
    trigger: Trigger | None = None
    token_counts: Numbers = NO_NUMBERS
    thresholds: tuple[Line, ...] = LINES
    """Where the levels begin, by the policy of its session."""

    @property
    def trigger_ratio(self) -> float | None:
        """How far the compaction counter has come to the trigger, 0..1 and above."""
        counter, trigger = self.token_counts.counter, self.trigger
        if counter is None or trigger is None or not trigger.tokens:
            return None
        return counter / trigger.tokens

    @property
    def ratio(self) -> float | None:
        """Share of the window in use, 0..1 and above, never clamped."""
        return None if self.tokens is None else self.tokens / self.window.tokens

    @property
    def level(self) -> Level | None:
        """The most urgent level reached."""
        return level_of(self.ratio, self.thresholds)


def measure(
    stored: Counted,
    window: Window,
    trigger: Trigger | None = None,
    thresholds: tuple[Line, ...] = LINES,
) -> Context:
    """Measure a context by `current` against its window."""
    tokens, state = current(stored)
    return Context(tokens, state, window, trigger, numbers_of(stored), thresholds)


def current(stored: Counted) -> tuple[int | None, ContextState]:
    """Return the tokens in use: the last answer's, else an estimate of the next request, else None.

    Source: claude-code-formats 3.1; before the first answer the client itself
    reports null, not 0. What was edited or cleared since the last answer makes an estimate of
    it, until the next answer.
    """
    if stored.answer is None:
        estimate = stored.boundary_estimate if stored.next_request is None else stored.next_request
        return estimate, ContextState.UNKNOWN if estimate is None else ContextState.ESTIMATED
    if stored.is_answer_estimated or stored.cleared:
        return max(0, stored.answer - stored.cleared), ContextState.ESTIMATED
    return stored.answer, ContextState.MEASURED
