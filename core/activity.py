"""What a session is at right now, whether its prompt cache is warm, and what it has cost."""

from __future__ import annotations

from enum import StrEnum
from typing import Final

import msgspec

TRAIL_ANSWERS: Final = 24
"""Newest contexts that are kept at hand: a cell each of a bar that is read at a glance."""


class DoingKind(StrEnum):
    """What a session waits for."""

    MODEL = "model"
    TOOL = "tool"
    PERSON = "person"


class Doing(msgspec.Struct, frozen=True):
    """The newest thing that began and has not ended."""

    kind: DoingKind
    what: str
    """The tool's name, or what a person is asked for; empty for the model."""
    detail: str = ""
    """What tells it from others of its kind: a command, a file."""
    since: int | None = None
    """When it began, in ms since 1970."""


class Cache(msgspec.Struct, frozen=True):
    """The prompt cache of a session's newest answer."""

    expires_at: int | None
    """In ms since 1970; None where nothing is known."""
    estimated: bool = True
    """Worked out from the answer's time and the cache's lifetime; else the client said so."""

    def is_warm(self, now_ms: int) -> bool | None:
        """Say whether the next request is still read from it; None where nothing is known."""
        return None if self.expires_at is None else now_ms < self.expires_at


class CostSource(StrEnum):
    """Where a cost comes from."""

    STATUS_LINE = "status_line"
    PLUGIN = "plugin"
    TRANSCRIPT = "transcript"
    PRICES = "prices"
    """Answers' tokens by a table of prices."""


class Cost(msgspec.Struct, frozen=True):
    """What a session's answers have cost so far, its agents' with it."""

    usd: float
    estimated: bool = True
    """By a table of prices; else the client said so."""
    partial: bool = False
    """Some answers were of models without a price, and are not in it."""
    source: CostSource = CostSource.PRICES


NO_CACHE: Final = Cache(None)
