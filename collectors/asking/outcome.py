"""How asking the client ends: compacted, or not and why."""

from __future__ import annotations

from enum import StrEnum

import msgspec


class Via(StrEnum):
    """The way by which the client is asked."""

    AUTO = "auto"
    PLUGIN = "plugin"
    TMUX = "tmux"
    CLI = "cli"


class Why(StrEnum):
    """What kept the client from compacting."""

    FAILED = "failed"
    NOTHING = "nothing"
    """There is nothing to compact, or nobody to ask by this way."""
    LIVE = "live"
    """It is busy, or open elsewhere."""
    UNSAFE = "unsafe"
    """It could not be proved that asking does no harm."""
    UNTRUSTED = "untrusted"
    """Nothing may be started in its folder."""


class NotCompactedError(Exception):
    """The client did not compact; the message says why and what to do."""

    def __init__(self, failure: Why, message: str) -> None:
        super().__init__(message)
        self.failure = failure


class Outcome(msgspec.Struct, frozen=True):
    """A compaction that was asked for and is in the transcript; times in ms, sizes in tokens."""

    session_id: str
    via: Via
    requested_at: int
    boundary_uuid: str
    pre_tokens: int | None
    post_tokens: int | None
    seconds: float
    """From the request to the boundary."""
    command: tuple[str, ...] = ()
    """What was run for it; empty where a client that was open did it."""
    folder: str | None = None
    """Where that was run."""
