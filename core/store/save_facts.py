"""Facts of transcripts about the saves that a Stop hook of claude-memory starts."""

from __future__ import annotations

import msgspec


class StopBlockFact(msgspec.Struct, frozen=True, array_like=True):
    """The line in which a session is told why a Stop hook kept it from ending."""

    offset: int
    uuid: str
    at: int | None
    text: str
    lines: int
    chars: int
    """Of the whole text; what is kept may be cut."""


class StopHookFact(msgspec.Struct, frozen=True, array_like=True):
    """What the client wrote down of the Stop hooks of one end of a turn."""

    offset: int
    at: int | None
    hooks: int
    blocked: int
    duration_ms: int | None
    """Of the slowest, where the client told it."""
    commands: str
    """JSON, a list."""


class NoteFact(msgspec.Struct, frozen=True, array_like=True):
    """What claude-memory told at a prompt: that a save was done, or is not."""

    offset: int
    at: int | None
    text: str
