"""How much a session needs a person now: the order of the fleet."""

from enum import IntEnum
from typing import Final

from .session import Session, SessionStatus

RECENT_MS: Final = 24 * 3_600_000
"""How long a session that ended with a prompt that was too long still asks to be recovered, and one
that could not be read still asks for a look."""

FEW_TURNS: Final = 3  # until auto-compact: a person can still choose what is kept
NEAR_TRIGGER: Final = 0.95  # share of the auto-compact trigger, where there is no forecast


class Attention(IntEnum):
    """Why a session is where it is in the list, the most urgent reason first."""

    WAITING = 0
    TOO_LONG = 1
    UNREAD = 2
    UNSAVED = 3
    COMPACTS_SOON = 4
    WORKING = 5
    WARM = 6  # idle, and its next prompt still hits the cache
    IDLE = 7
    ENDED = 8


def attention(session: Session, now_ms: int) -> Attention:
    if session.status is SessionStatus.WAITING:
        return Attention.WAITING
    if session.is_fork_undone and not session.live:
        # It is what its parent is, and asks for nothing.
        return Attention.ENDED
    if session.too_long is not None and (session.live or _is_recent(session, now_ms)):
        return Attention.TOO_LONG
    if session.problem and (session.live or _is_recent(session, now_ms)):
        return Attention.UNREAD
    if not session.live:
        return Attention.ENDED
    if session.is_unsaved(now_ms):
        return Attention.UNSAVED
    if _compacts_soon(session):
        return Attention.COMPACTS_SOON
    if session.is_working or session.status is SessionStatus.BACKGROUND:
        return Attention.WORKING
    return Attention.WARM if session.cache.is_warm(now_ms) else Attention.IDLE


def attention_order(session: Session, now_ms: int) -> tuple[int, int, str]:
    """Sort key: the most urgent first, then the newest activity."""
    newest = -(session.last_activity_at or 0)
    return (attention(session, now_ms), newest, session.session_id)


def _is_recent(session: Session, now_ms: int) -> bool:
    # Of one that could not be read, nothing is known.
    last = session.last_activity_at
    return now_ms - (last or 0) < RECENT_MS or (last is None and bool(session.problem))


def _compacts_soon(session: Session) -> bool:
    trigger = session.context.trigger
    if trigger is None or not trigger.tokens:
        return False
    end = session.outlook.end
    if end is not None:
        return end.turns.p50 <= FEW_TURNS
    return (session.context.trigger_ratio or 0.0) >= NEAR_TRIGGER
