"""What a session is at, whether its cache is warm and what it has cost, for programs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from .times import time_of

if TYPE_CHECKING:
    from ...core.activity import Cache, Cost, Doing
    from ...core.sessions import Session

Record = dict[str, Any]

_WARM: Final = {True: "warm", False: "cold", None: None}


def of_session(found: Session, now_ms: int) -> Record:
    """Give the keys of `ctxtop sessions` that tell of now, and of the money."""
    return {
        "doing": _doing(found.activity),
        "trail_tokens": list(found.recent_contexts),
        **_cache(found.cache, now_ms),
        **of_cost(found.cost),
    }


def of_cost(cost: Cost | None) -> Record:
    """Give the keys that tell what something has cost, in dollars."""
    return {
        "cost_usd": round(cost.usd, 6) if cost else None,
        "cost_source": cost.source.value if cost else None,
        "cost_estimated": cost.estimated if cost else None,
        "cost_partial": cost.partial if cost else None,
    }


def _doing(doing: Doing | None) -> Record | None:
    if doing is None:
        return None
    return {
        "kind": doing.kind.value,
        "what": doing.what,
        "detail": doing.detail,
        "since": time_of(doing.since),
    }


def _cache(cache: Cache, now_ms: int) -> Record:
    is_known = cache.expires_at is not None
    return {
        "cache_state": _WARM[cache.is_warm(now_ms)],
        "cache_expires_at": time_of(cache.expires_at),
        "cache_estimated": cache.estimated if is_known else None,
    }
