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
    """Say what is in use: the last answer, else the boundary's estimate, else unknown.

    Source: claude-code-formats 3.1; before the first answer the client itself
    reports null, not 0.
    """
    numbers = numbers_of(counted)
    if counted.answer is not None:
        return Context(counted.answer, ContextState.MEASURED, window, trigger, numbers, lines)
    if counted.post is not None:
        return Context(counted.post, ContextState.ESTIMATED, window, trigger, numbers, lines)
    return Context(None, ContextState.UNKNOWN, window, trigger, numbers, lines)
