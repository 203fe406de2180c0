"""What a session is doing or waits for, its prompt cache, and its cost."""

from __future__ import annotations

from enum import StrEnum
from typing import Final

import msgspec


class ActivityKind(StrEnum):
    MODEL = "model"
    TOOL = "tool"
    PERSON = "person"
    BACKGROUND = "background"  # it is idle, and wakes when what runs beside it ends


class Activity(msgspec.Struct, frozen=True):
    """The newest thing that began and has not ended."""

    kind: ActivityKind
    what: str  # the tool's name, or what a person is asked for; empty for the model
    detail: str = ""  # a command, a file
    since: int | None = None  # milliseconds since 1970


class PromptCache(msgspec.Struct, frozen=True):
    expires_at: int | None  # milliseconds since 1970; None if unknown
    estimated: bool = True  # from the answer's time and the cache's lifetime, not by the client
    tokens: int | None = None  # that it holds: a prompt sent after it expired writes them again
    lifetime_ms: int | None = None  # of what was last written: five minutes or an hour
    tokens_estimated: bool = True  # what the last answer read and wrote, not by the client
    used_at: int | None = None  # by the last answer; milliseconds since 1970
    is_for_next_model: bool = True  # each model has its own: another one was chosen since

    def is_warm(self, now_ms: int) -> bool | None:
        """Return whether the next request would be read from the cache; None if unknown."""
        if self.expires_at is None:
            return None
        return self.is_for_next_model and now_ms < self.expires_at


class CostSource(StrEnum):
    STATUS_LINE = "status_line"
    PLUGIN = "plugin"
    TRANSCRIPT = "transcript"
    PRICES = "prices"  # answers' tokens by a table of prices


class SessionCost(msgspec.Struct, frozen=True):
    """The cost of a session's answers so far, its agents' included."""

    usd: float
    estimated: bool = True  # by a table of prices, not by the client
    partial: bool = False  # without answers of models that have no price
    source: CostSource = CostSource.PRICES


UNKNOWN_CACHE: Final = PromptCache(None)


class WaitingKind(StrEnum):
    PERMISSION = "permission"
    QUESTION = "question"
    PLAN = "plan"
    OTHER = "other"


class WaitingFor(msgspec.Struct, frozen=True):
    kind: WaitingKind
    tool: str  # that asks for permission; empty if it is not known
    text: str  # the command, the file or the question; for OTHER the client's own words
    since: int | None  # milliseconds since 1970
