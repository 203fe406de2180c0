"""Which way to bring a session to rest before a break, and why others are left as they are."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Final

import msgspec

from ..measure.pause_costs import PauseCosts, PauseQuestion, PlannedSize, PricedModel, compare_ways
from ..model.claude_models import HOUR_MS, parse_version
from ..model.pause_ways import PauseWay
from ..model.session import SessionStatus
from .session_access import Via

if TYPE_CHECKING:
    from ..compaction.plan import CompactionPlan
    from ..model.session import Session
    from ..policy.policy import Policy
    from ..store.automation_records import PauseRecord


class PauseCheck(StrEnum):
    """Why a session is left as it is; a command's exit code follows from it."""

    CLOSED = "closed"  # no client has it open
    BUSY = "busy"
    WAITING = "waiting"
    AGENTS = "agents"
    UNKNOWN = "unknown"  # its context or its cache
    COLD = "cold"
    SMALL = "small"
    PAUSED = "paused"  # an earlier pause, and no answer since
    IDLE_COMPACTION = "idle-compaction"
    UNREACHABLE = "unreachable"
    CHEAPEST = "cheapest"  # nothing costs less than leaving it
    CHANGED = "changed"  # since the preview
    FAILED = "failed"


MIN_LEFT_MS: Final = 20_000
"""Of the cache's time: a request is picked up after at most four seconds, and a client that is
slower would find the cache cold."""


class PauseCandidate(msgspec.Struct, frozen=True):
    """A session as a pause finds it; times in ms since 1970."""

    session: Session
    bytes: int  # of its transcript that were read
    answered_at: int | None  # its newest answer
    via: Via | None = None  # how its client can be asked; None if it cannot
    running_agents: int = 0
    idle_from: int | None = None
    """Tokens from which the client compacts it by itself when idle; None if it never does."""
    opened_at: int | None = None  # when its client started
    near_limit: bool = False  # its client counts a limit of the plan as near
    earlier: PauseRecord | None = None  # of the same newest answer


class PauseDecision(msgspec.Struct, frozen=True):
    way: PauseWay
    why: str  # one line
    check: PauseCheck | None = None  # why it is left as it is; None if it is to be paused


class PauseItem(msgspec.Struct, frozen=True):
    """One session of a preview."""

    candidate: PauseCandidate
    decision: PauseDecision
    costs: PauseCosts | None  # None if its context is unknown

    @property
    def session(self) -> Session:
        return self.candidate.session

    @property
    def acts(self) -> bool:
        return self.decision.check is None


def preview_pause(candidate: PauseCandidate, policy: Policy, now_ms: int) -> PauseItem:
    costs = session_costs(candidate.session, policy)
    return PauseItem(candidate, _decide(candidate, policy, costs, now_ms), costs)


def plan_costs(session: Session, policy: Policy, plan: CompactionPlan) -> PauseCosts | None:
    """Price a plan for a session beside the other ways; None if it changes no context."""
    if not plan.tokens_saved:
        return None
    size = PlannedSize(plan.before_tokens, plan.after_tokens, plan.unmoved_tokens)
    return session_costs(session, policy, size)


def session_costs(
    session: Session, policy: Policy, plan: PlannedSize | None = None
) -> PauseCosts | None:
    """Price the ways for a session, and for a plan of its compaction; None without a size."""
    context = session.context
    tokens = plan.before_tokens if plan else context.sent_tokens or context.tokens
    if not tokens:
        return None
    lasts_an_hour = (session.cache.lifetime_ms or 0) >= HOUR_MS
    return compare_ways(
        PauseQuestion(
            tokens,
            PricedModel(session.model, lasts_an_hour, policy.strings_by_name("price")),
            expires_at=session.cache.expires_at,
            expires_estimated=session.cache.estimated,
            plan=plan,
            percent_dollars=session.percent_dollars,
            requests=policy.count("pause.requests"),
            reread_tokens=policy.count("pause.reread_tokens"),
        )
    )


def _decide(
    candidate: PauseCandidate, policy: Policy, costs: PauseCosts | None, now_ms: int
) -> PauseDecision:
    left = _left_because(candidate, policy, now_ms)
    if left is None and costs is None:
        left = PauseCheck.UNKNOWN, "the size of its context is unknown"
    if left is not None or costs is None:
        check, why = left or (PauseCheck.UNKNOWN, "")
        return PauseDecision(PauseWay.LEAVE, why, check)
    return _choose_way(candidate, policy, costs)


def _left_because(
    candidate: PauseCandidate, policy: Policy, now_ms: int
) -> tuple[PauseCheck, str] | None:
    """Return the first reason to leave a session as it is; None if there is none."""
    return (
        _not_idle(candidate)
        or _not_warm(candidate, now_ms)
        or _too_small(candidate, policy)
        or _paused_before(candidate)
        or _stands_aside(candidate, policy, now_ms)
    )


_Left = tuple[PauseCheck, str]


def _not_idle(candidate: PauseCandidate) -> _Left | None:
    session = candidate.session
    if session.is_waiting:
        asked = session.waiting_for
        what = f" ({asked.tool or asked.kind})" if asked else ""
        return PauseCheck.WAITING, f"it waits for you{what}"
    if session.is_working or session.activity is not None:
        return PauseCheck.BUSY, "it is busy"
    if not session.live:
        return PauseCheck.CLOSED, "it is not open in Claude Code"
    if session.status is not SessionStatus.IDLE:
        return PauseCheck.UNKNOWN, f"it is {session.status}, not known to be idle"
    if candidate.running_agents:
        count = candidate.running_agents
        return PauseCheck.AGENTS, f"{count} of its agents {'is' if count == 1 else 'are'} at work"
    return None


def _not_warm(candidate: PauseCandidate, now_ms: int) -> _Left | None:
    cache = candidate.session.cache
    if cache.expires_at is None or candidate.answered_at is None:
        return PauseCheck.UNKNOWN, "its prompt cache is empty or unknown"
    if not cache.is_warm(now_ms + MIN_LEFT_MS):
        return PauseCheck.COLD, "its prompt cache is cold already"
    return None


def _too_small(candidate: PauseCandidate, policy: Policy) -> _Left | None:
    tokens, least = candidate.session.context.tokens, policy.count("pause.min_tokens")
    if tokens is None:
        return PauseCheck.UNKNOWN, "the size of its context is unknown"
    if tokens < least:
        return PauseCheck.SMALL, f"{tokens:,} tokens are fewer than {least:,} (pause.min_tokens)"
    return None


def _paused_before(candidate: PauseCandidate) -> _Left | None:
    earlier = candidate.earlier
    if earlier is None:
        return None
    if earlier.outcome is None:
        return PauseCheck.PAUSED, "another ctxtop is pausing it, or was interrupted"
    return PauseCheck.PAUSED, f"nothing was said since the last pause ({earlier.outcome})"


IDLE_COMPACTION_SINCE: Final = (2, 1, 329)
"""The client that was seen doing it; when earlier ones compact idle sessions is not known. Where
ctxtop is wrong nothing is done twice: after its own the context is too small for the client's."""

IDLE_COMPACTION_LEFT: Final = 0.1
"""Of the cache's lifetime, when the client compacts: 2.1.329 did 0.1 to 0.4 s after that."""

IDLE_COMPACTION_LATE_MS: Final = 60_000
"""A client whose timer is later than this, as after sleep, does not compact any more: 2.1.329 did
55 s late and not 61 s late."""


def idle_compaction_at(candidate: PauseCandidate, now_ms: int) -> int | None:
    """Return when the client compacts an idle session by itself, in ms since 1970; None if never.

    It does not if somebody types into it in the minute before, which is not foreseen here.
    """
    cache = candidate.session.cache
    if cache.expires_at is None or not cache.is_warm(now_ms):
        return None
    if not _is_compacted_when_idle(candidate):
        return None
    at = cache.expires_at - round(IDLE_COMPACTION_LEFT * HOUR_MS)
    return at if now_ms <= at + IDLE_COMPACTION_LATE_MS else None


def _is_compacted_when_idle(candidate: PauseCandidate) -> bool:
    """Whether the client has set its timer and does not refuse when it ends (2.1.329)."""
    session, least = candidate.session, candidate.idle_from
    version, tokens = parse_version(session.client_version), session.context.tokens
    if version is None or version < IDLE_COMPACTION_SINCE:
        return False
    if (session.cache.lifetime_ms or 0) < HOUR_MS or candidate.near_limit:
        return False
    if _is_resumed(candidate):
        return False
    return least is not None and tokens is not None and tokens >= least


def _is_resumed(candidate: PauseCandidate) -> bool:
    """Whether its client has had no answer yet: it sets the timer when its own turn ends."""
    opened_at, answered_at = candidate.opened_at, candidate.answered_at
    return opened_at is not None and answered_at is not None and answered_at < opened_at


def _stands_aside(candidate: PauseCandidate, policy: Policy, now_ms: int) -> _Left | None:
    if not policy.flag("pause.stand_aside") or idle_compaction_at(candidate, now_ms) is None:
        return None
    return (
        PauseCheck.IDLE_COMPACTION,
        "Claude Code compacts it itself while it is idle, if this machine stays awake",
    )


def _choose_way(candidate: PauseCandidate, policy: Policy, costs: PauseCosts) -> PauseDecision:
    allowed = {PauseWay(name) for name in policy.texts("pause.ways")}
    possible = allowed - ({PauseWay.CLIENT} if candidate.via is None else set())
    cheapest = min((PauseWay.LEAVE, *sorted(possible)), key=costs.paused_total)
    if cheapest is not PauseWay.LEAVE:
        return PauseDecision(cheapest, _REASONS[cheapest])
    if any(costs.paused_saving(way) > 0 for way in allowed - possible):
        why = "it has no ctxtop plugin and is in none of your tmux panes"
        return PauseDecision(cheapest, why, PauseCheck.UNREACHABLE)
    why = f"nothing that pause.ways allows costs less over {costs.requests} requests"
    return PauseDecision(cheapest, why, PauseCheck.CHEAPEST)


_REASONS: Final = {
    PauseWay.CLIENT: "while reading it is cheap",
    PauseWay.HAND_OFF: "a note costs nothing now",
}
