"""How full one context is: what is in it, of which window, at which level."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING

import msgspec

from .levels import LINES, Level, level_of

if TYPE_CHECKING:
    from .levels import Line
    from .window import Window


class ContextState(StrEnum):
    """How we know what is in the context."""

    MEASURED = "measured"
    ESTIMATED = "estimated"
    UNKNOWN = "unknown"


class Reading(msgspec.Struct, frozen=True):
    """What the transcript says after its last boundary; tokens, None where it is silent."""

    answer_tokens: int | None
    """Input side of the last answer after the last boundary."""
    post_tokens: int | None = None
    """The client's estimate at that boundary."""


class Context(msgspec.Struct, frozen=True):
    """A context's fill."""

    tokens: int | None
    state: ContextState
    window: Window
    lines: tuple[Line, ...] = LINES
    """Where the levels begin, by the policy of its session."""

    @property
    def ratio(self) -> float | None:
        """Share of the window in use, 0..1 and above, never clamped."""
        return None if self.tokens is None else self.tokens / self.window.tokens

    @property
    def level(self) -> Level | None:
        """The most urgent level reached."""
        return level_of(self.ratio, self.lines)


def measure(reading: Reading, window: Window, lines: tuple[Line, ...] = LINES) -> Context:
    """Say what is in use: the last answer, else the boundary's estimate, else unknown.

    Source: claude-code-formats 3.1; before the first answer the client itself
    reports null, not 0.
    """
    if reading.answer_tokens is not None:
        return Context(reading.answer_tokens, ContextState.MEASURED, window, lines)
    if reading.post_tokens is not None:
        return Context(reading.post_tokens, ContextState.ESTIMATED, window, lines)
    return Context(None, ContextState.UNKNOWN, window, lines)
