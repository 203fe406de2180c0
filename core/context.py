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
    numbers: Numbers = NO_NUMBERS
    lines: tuple[Line, ...] = LINES
    """Where the levels begin, by the policy of its session."""

    @property
    def trigger_ratio(self) -> float | None:
        """How far the compaction counter has come to the trigger, 0..1 and above."""
        counter, trigger = self.numbers.counter, self.trigger
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
        return level_of(self.ratio, self.lines)


def measure(
    counted: Counted,
    window: Window,
    trigger: Trigger | None = None,
    lines: tuple[Line, ...] = LINES,
) -> Context:
    """Measure a context by `current` against its window."""
    tokens, state = current(counted)
    return Context(tokens, state, window, trigger, numbers_of(counted), lines)


def current(counted: Counted) -> tuple[int | None, ContextState]:
    """Return the tokens in use: the last answer's, else an estimate of the next request, else None.

    Source: claude-code-formats 3.1; before the first answer the client itself
    reports null, not 0. What was edited or cleared since the last answer makes an estimate of
    it, until the next answer.
    """
    if counted.answer is None:
        estimate = counted.post if counted.left is None else counted.left
        return estimate, ContextState.UNKNOWN if estimate is None else ContextState.ESTIMATED
    if counted.lowered or counted.cleared:
        return max(0, counted.answer - counted.cleared), ContextState.ESTIMATED
    return counted.answer, ContextState.MEASURED
