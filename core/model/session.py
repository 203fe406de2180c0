"""A session: its title, its status and its measured context."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Final

import msgspec

from .cold_prompt import DEFAULT_LIMITS, ColdLimits, ColdPrompt, RewriteCost, find_cold_prompt
from .context import (
    Context,
    ContextState,
)
from .context_window import UNKNOWN_WINDOW
from .outlook import NO_OUTLOOK, Outlook
from .problem import Problem
from .session_activity import (
    UNKNOWN_CACHE,
    Activity,
    ActivityKind,
    PromptCache,
    SessionCost,
    WaitingFor,
)
from .stored_rows import UsageRow
from .transcript_records import ClientReportRecord

UNSAVED_MS: Final = 10 * 60_000  # the longest that a prompt or a compaction takes to be written
UNSAVED_DAYS_MS: Final = 2 * 24 * 3_600_000  # nothing takes so long

TOO_LONG: Final = "too_long"


class SessionStatus(StrEnum):
    WAITING = "waiting"
    BUSY = "busy"
    IDLE = "idle"
    BACKGROUND = "background"  # idle, and an agent or a shell that it started runs
    ACTIVE = "active"
    TOO_LONG = "too_long"
    UNREAD = "not_read"  # not, or not to its end: what is known of it may be out of date
    ENDED = "ended"
    GONE = "gone"
    ARCHIVED = "archived"  # its file is gone, and ctxtop's archive has it


LIVE_STATUSES: Final = frozenset(
    {
        *(SessionStatus.WAITING, SessionStatus.BUSY, SessionStatus.IDLE),
        *(SessionStatus.BACKGROUND, SessionStatus.ACTIVE),
    }
)


WORKING_STATUSES: Final = frozenset({SessionStatus.BUSY, SessionStatus.ACTIVE})
SILENT_ANSWERS: Final = 3
"""Answers in a row without text or tool call: the compaction before them went wrong (R002-09)."""


BRANCH: Final = "branch"  # a fork that Claude Code made


class PromptTooLong(msgspec.Struct, frozen=True):
    """The API refused the last prompt: its size and the limit in tokens, if it named them."""

    prompt_tokens: int | None
    limit_tokens: int | None


class Session(msgspec.Struct, frozen=True):
    """One session; times are milliseconds since 1970 (UTC)."""

    session_id: str
    title: str
    project: str
    cwd: str | None  # where it is now; it may be a folder that nobody trusts
    model: str | None
    client_version: str | None
    status: SessionStatus
    live: bool
    tmux: str | None
    context: Context
    too_long: PromptTooLong | None
    refusal: str | None  # the API's message, if the last answer was one and was not recovered
    compactions: int
    last_compaction_at: int | None
    agents: int
    started_at: int | None
    last_activity_at: int | None
    path: str  # below the projects folder; empty before the first prompt
    outlook: Outlook = NO_OUTLOOK
    agents_noncompliant: int | None = None  # did not compress their results; None if not checked
    agents_copied: int = 0  # of a fork: its parent's, which count for that
    noncompliant_copied: int = 0  # of those
    forked_from: str | None = None  # the session that it was made from, by the client or by ctxtop
    activity: Activity | None = None  # None if nothing is in flight, or it is unknown
    waiting_for: WaitingFor | None = None  # None if it waits for nobody
    cache: PromptCache = UNKNOWN_CACHE
    rewrite_cost: RewriteCost | None = None  # of what the cache holds; None if it has no price
    percent_dollars: Mapping[str, float] = {}
    """What one percent of each of the plan's windows has been for its model; empty if no limits
    are reported, or too little is known."""
    cold_limits: ColdLimits = DEFAULT_LIMITS  # by its policy
    cost: SessionCost | None = None  # None if no answer has a price
    usage: UsageRow | None = None  # with its agents'; None if it has no answers
    project_root: str | None = None  # where it began, or was moved to: its policy is read there
    git_branch: str | None = None  # at the last prompt
    last_prompt: str | None = None
    recent_contexts: tuple[int, ...] = ()  # tokens, oldest first; includes what compactions left
    client: ClientReportRecord | None = None  # what its status line said; None if it has none
    is_silent: bool = False  # SILENT_ANSWERS in a row after its last compaction, and it is idle
    deleted_at: int | None = None  # Claude Code deletes its file then; None if it is gone already
    archived: str = ""  # how much the archive has of a file that is gone: all, summaries
    recovered_in: str | None = None
    """The fork that ctxtop made after the last answer was refused: it continues there. It is
    None again if that fork is undone or gone, or if the session itself was continued."""
    problem: str = ""  # why it is not read, or not to its end
    live_at: int | None = None  # when its client last told its status; None unless it is open
    fork_kind: str | None = None
    """How ctxtop made it of `forked_from`: a strategy, or `levels`; BRANCH if the client did."""
    is_fork_undone: bool = False  # what ctxtop made of it was undone: it is as its parent was

    def is_unsaved(self, now_ms: int) -> bool:
        """Whether its client is at work and writes no transcript: all of it will be lost.

        The client is busy since long after the last line, with no call in flight that explains
        it. A compaction writes nothing for minutes.
        """
        in_flight = self.activity is not None and self.activity.kind is not ActivityKind.MODEL
        if self.status is not SessionStatus.BUSY or in_flight or self.live_at is None:
            return False
        silent_ms = self.live_at - (self.last_activity_at or 0)
        if self.path and silent_ms >= UNSAVED_DAYS_MS:
            return True
        return silent_ms >= UNSAVED_MS and now_ms - self.live_at >= UNSAVED_MS

    @property
    def spent_tokens(self) -> int | None:
        """The tokens of all answers, each request whole; None unless the policy shows them."""
        if self.usage is None or not self.context.counting.shows_spent:
            return None
        spent = self.usage
        inputs = spent.input_tokens + spent.cache_creation_tokens + spent.cache_read_tokens
        return inputs + spent.output_tokens

    @property
    def is_working(self) -> bool:
        return self.status in WORKING_STATUSES

    @property
    def is_waiting(self) -> bool:
        """Whether it waits for a person."""
        if self.status is SessionStatus.WAITING:
            return True
        # Clients that keep no registry do not record the status, but a pending question shows it.
        activity = self.activity
        return self.live and activity is not None and activity.kind is ActivityKind.PERSON

    def cold_prompt(self, now_ms: int) -> ColdPrompt:
        """Return what its next prompt writes to the prompt cache again, now and later."""
        return find_cold_prompt(self.cache, self.rewrite_cost, now_ms, self.cold_limits.notice_ms)

    @property
    def cold_notice_at(self) -> int | None:
        """When to notify that its cache is about to expire (ms since 1970); None for never.

        Only while it waits for a person: what it does itself keeps the cache warm.
        """
        cache, limits = self.cache, self.cold_limits
        # What runs in the background uses no cache of its.
        is_idle = self.status in {SessionStatus.IDLE, SessionStatus.BACKGROUND}
        waits = self.live and (is_idle or self.is_waiting)
        is_large = 0 < limits.notify_tokens <= (cache.tokens or 0)
        if not (waits and is_large and cache.is_for_next_model) or cache.expires_at is None:
            return None
        return cache.expires_at - limits.notice_ms if limits.notice_ms else None

    @property
    def fill_ratio(self) -> float:
        """Share of the limit that is in use, or of the window that a refused prompt would use."""
        if self.too_long is None:
            return self.context.limit_ratio or 0.0
        if self.too_long.prompt_tokens and self.too_long.limit_tokens:
            return self.too_long.prompt_tokens / self.too_long.limit_tokens
        return 1.0


def unread_session(session_id: str, problem: Problem) -> Session:
    """Make a session that could not be measured: all that is known of it is its id."""
    return Session(
        session_id=session_id,
        title=f"session {session_id[:8]}",
        project="",
        cwd=None,
        model=None,
        client_version=None,
        status=SessionStatus.UNREAD,
        live=False,
        tmux=None,
        context=Context(None, ContextState.UNKNOWN, UNKNOWN_WINDOW),
        too_long=None,
        refusal=None,
        compactions=0,
        last_compaction_at=None,
        agents=0,
        started_at=None,
        last_activity_at=None,
        path="",
        problem=problem.what,
    )
