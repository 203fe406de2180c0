"""A session to act on, and what acting on it takes; the collectors provide it."""

from enum import StrEnum
from pathlib import Path
from typing import Protocol

import msgspec

from ..archive.archive_mode import ArchiveMode
from ..compaction.compaction_target import CompactionTarget
from ..compaction.plan import Refusal, RefusalKind
from ..compaction.receipts import CompactionReceipt
from ..compaction.recovery.recovery_run import RecoveryRetry
from ..model.session import Session, SessionStatus
from ..policy.policy import Policy


class Via(StrEnum):
    AUTO = "auto"
    PLUGIN = "plugin"
    TMUX = "tmux"
    CLI = "cli"


class CompactFailure(StrEnum):
    FAILED = "failed"
    NOTHING = "nothing"  # there is nothing to compact, or nobody to ask by this way
    LIVE = "live"  # it is busy, or open elsewhere
    UNSAFE = "unsafe"  # it could not be proved that asking does no harm
    UNTRUSTED = "untrusted"  # nothing may be started in its folder


class NotCompactedError(Exception):
    """The client did not compact; the message says why and what to do."""

    def __init__(self, failure: CompactFailure, message: str) -> None:
        super().__init__(message)
        self.failure = failure


class ClientCompactResult(msgspec.Struct, frozen=True):
    """A compaction that was asked for and is in the transcript; times in ms, sizes in tokens."""

    session_id: str
    via: Via
    requested_at: int
    boundary_uuid: str
    pre_tokens: int | None
    post_tokens: int | None  # of the messages alone, by the client
    seconds: float  # from the request to the boundary
    command: tuple[str, ...] = ()  # what was run for it; empty if an open client did it
    folder: str | None = None  # where that was run
    estimated_next_tokens: int | None = None  # of the whole next request, as the list shows it

    @property
    def next_tokens(self) -> None:
        """No answer follows yet."""
        return

    @property
    def counted_messages_alone(self) -> int:
        return 0

    @property
    def left_tokens(self) -> int | None:
        """What is left in the context; of the messages alone if no more is known."""
        estimate = self.estimated_next_tokens
        return self.post_tokens if estimate is None else estimate

    @property
    def sizes_text(self) -> str:
        """Write what was and what is left: `160,400 to ≈ 23,478 tokens`."""
        before = "?" if self.pre_tokens is None else f"{self.pre_tokens:,}"
        if self.estimated_next_tokens is not None:
            return f"{before} to ≈ {self.estimated_next_tokens:,} tokens"
        left = "?" if self.post_tokens is None else f"{self.post_tokens:,}"
        return f"{before} to {left} tokens of messages"


class ResumeResult(msgspec.Struct, frozen=True):
    prompt: str
    answered: bool  # the fork has a new answer, and it is no refusal
    output: str  # the client's own words, or why it could not be run; one line
    attempts: int
    command: tuple[str, ...] = ()  # what was run; empty if nothing was
    folder: str | None = None  # where that was run


class SessionClient(Protocol):
    """Claude Code itself, asked or run for one session; it can take minutes."""

    def compact(self, via: Via, instructions: str) -> ClientCompactResult:
        """Ask a client to compact. Raises NotCompactedError, OSError."""
        ...

    def compact_closed(self) -> ClientCompactResult:
        """Run the client, within the hourly limit (T-11). Raises NotCompactedError, OSError."""
        ...

    def resume(self, prompt: str, receipt: CompactionReceipt, retry: RecoveryRetry) -> ResumeResult:
        """Send a prompt to the fork that a receipt names."""
        ...


def ask_open_client(client: SessionClient) -> ClientCompactResult:
    """Ask through the plugin, or else through tmux: an open client would not see a run of ours.

    Raises NotCompactedError, OSError.
    """
    try:
        return client.compact(Via.PLUGIN, "")
    except NotCompactedError as error:
        if error.failure is not CompactFailure.UNSAFE:
            raise
        return client.compact(Via.TMUX, "")


class SessionAccess(msgspec.Struct, frozen=True):
    session: Session
    policy: Policy
    store: Path
    target: CompactionTarget
    client: SessionClient


def archived_reason(session: Session) -> str | None:
    """Return why there is no transcript to act on, and how to get it back; None if it is there."""
    if session.status is not SessionStatus.ARCHIVED:
        return None
    if session.archived == ArchiveMode.ALL:
        return f"only the archive has it: run `ctxtop archive restore {session.session_id[:8]}`"
    return "Claude Code deleted its transcript, and the archive has only its summaries"


class NotPlannedError(Exception):
    """No plan can be made; the message says why and what to do."""


class ActionFailure(msgspec.Struct, frozen=True):
    """Nothing was changed."""

    why: tuple[str, ...]  # one line each: what said no, and what to do
    kind: RefusalKind | None = None
    """None if it was no refusal: a file could not be used, or there is nothing to do."""
    refusals: tuple[Refusal, ...] = ()

    def __str__(self) -> str:
        return "; ".join(self.why)
