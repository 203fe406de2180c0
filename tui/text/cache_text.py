"""The cache ledger in words: causes, what changed, sums of money, columns of its tables."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import msgspec

from ...core.measure.prompt_cache.cache_ledger import (
    CacheCause,
    CacheLedger,
    CacheMiss,
    CacheTotals,
    CauseSource,
    Change,
    ChangeKind,
    ratio,
)
from ...core.measure.prompt_cache.rewrites import ReadPart
from ...core.measure.timeline import Timeline, TimelineEvent, TimelineEventKind
from ...core.model.claude_models import HOUR_MS
from ...core.model.session import Session
from .amounts import list_price
from .formats import (
    date_time,
    duration,
    model_name,
    percent,
    plural,
    time_of_day,
    tokens,
)
from .limits_text import clock_time
from .session_text import rewrite_amounts
from .tables import Column, TextColumn

CAUSE_NAMES: Final = {
    CacheCause.LIFETIME: "cache expired",
    CacheCause.COMPACTION: "compaction",
    CacheCause.OWN_EDIT: "edited by ctxtop",
    CacheCause.MODEL: "model changed",
    CacheCause.VERSION: "client updated",
    CacheCause.SYSTEM: "system prompt changed",
    CacheCause.TOOLS: "tools changed",
    CacheCause.SETTINGS: "settings changed",
    CacheCause.CLEARING: "microcompaction",
    CacheCause.REWIND: "rewind",
    CacheCause.MESSAGES: "messages changed",
    CacheCause.NOT_FOUND: "previous message unknown",
    CacheCause.UNCHANGED: "lost by the service",
    CacheCause.UNKNOWN: "unknown",
}

_CHANGE_NAMES: Final = {
    ChangeKind.COMPACTED: "compacted",
    ChangeKind.CLEARED: "older content cleared",
    ChangeKind.REWOUND: "rewound",
    ChangeKind.RESUMED: "resumed",
    ChangeKind.FORKED: "forked",
    ChangeKind.EDITED: "edited by ctxtop",
    ChangeKind.MODEL: "model",
    ChangeKind.VERSION: "client",
    ChangeKind.SYSTEM: "system prompt",
    ChangeKind.TOOLS_ADDED: "tools added",
    ChangeKind.TOOLS_REMOVED: "tools removed",
    ChangeKind.TOOLS_CHANGED: "tools changed",
    ChangeKind.TOOLS_LOADED: "tools loaded",
    ChangeKind.SETTINGS: "setting",
    ChangeKind.LIFETIME: "cache lifetime",
    ChangeKind.MESSAGES: "messages changed",
    ChangeKind.INSTRUCTIONS: "instructions changed",
    ChangeKind.INSTRUCTIONS_EDITED: "instructions edited",
    ChangeKind.TOOLS_ANNOUNCED: "tools announced",
    ChangeKind.TOOLS_WITHDRAWN: "tools withdrawn",
    ChangeKind.SERVERS_ANNOUNCED: "tool servers announced",
    ChangeKind.AGENTS_LISTED: "agent list sent again",
    ChangeKind.SKILLS_LISTED: "skill list sent again",
}


def cause_name(cause: CacheCause, source: CauseSource) -> str:
    """Name a cause, with ≈ before one that is inferred; that none is known is no guess."""
    is_known = source is CauseSource.CLIENT or cause is CacheCause.UNKNOWN
    return CAUSE_NAMES[cause] if is_known else f"≈ {CAUSE_NAMES[cause]}"


def cause_text(miss: CacheMiss) -> str:
    return cause_name(miss.cause, miss.source)


_READ_ENDS: Final = {
    ReadPart.NOTHING: "nothing",
    ReadPart.OTHER_START: "other tools than before",
    ReadPart.SHARED_START: "tools and common prompt",
    ReadPart.SYSTEM: "the system prompt",
    ReadPart.MESSAGES: "some messages",
    ReadPart.UNKNOWN: "part of its start",
}


def read_end_text(miss: CacheMiss) -> str:
    """Return what a request still read from the cache: what differs, or was lost, follows it."""
    end = miss.rewrite.read_end
    if end.request is not None:
        return f"all of request {end.request:,} of {miss.rewrite.number - 1:,}"
    return _READ_ENDS[end.part]


def client_word(miss: CacheMiss) -> str:
    return (miss.request.reason or "").replace("_", " ")


def change_text(change: Change) -> str:
    name = _CHANGE_NAMES[change.kind]
    if change.kind is ChangeKind.MODEL:
        return " → ".join(map(model_name, change.what.split(" → ")))
    return f"{name}: {change.what}" if change.what else name


_SAID_BY_CAUSE: Final = {
    ChangeKind.REWOUND: CacheCause.REWIND,
    ChangeKind.CLEARED: CacheCause.CLEARING,
}
"""Changes that say no more than the cause that is inferred from them."""


def changes_text(miss: CacheMiss) -> str:
    """List what changed before a miss; beside the API's own word also what is inferred.

    Where no cause is known, where reading ended is all that there is to say first.
    """
    parts = [
        change_text(each) for each in miss.changes if _SAID_BY_CAUSE.get(each.kind) != miss.inferred
    ]
    if miss.source is CauseSource.CLIENT and miss.inferred not in {miss.cause, CacheCause.UNKNOWN}:
        parts.insert(0, f"≈ {CAUSE_NAMES[miss.inferred]}")
    if miss.cause is CacheCause.UNKNOWN:
        parts.insert(0, f"read {read_end_text(miss)}")
    return "; ".join(parts)


HOURS_FROM_MS: Final = 3 * HOUR_MS  # below it, minutes tell whether an hour's cache was missed


def pause_text(miss: CacheMiss) -> str:
    idle = miss.rewrite.idle_ms
    if idle is not None and HOUR_MS <= idle < HOURS_FROM_MS:
        return f"{idle // 60_000} min"
    return duration(idle)


def agent_text(miss: CacheMiss) -> str:
    request = miss.request
    if request.agent_id is None:
        return ""
    return f"{request.agent_type or 'agent'} {request.agent_id[:8]}"


def miss_columns(misses: Sequence[CacheMiss]) -> Sequence[TextColumn[CacheMiss]]:
    """Return the columns for these misses, without those that would say the same of all."""
    owners: list[TextColumn[CacheMiss]] = []
    if len({miss.request.session_id for miss in misses}) > 1:
        owners.append(Column("session", lambda miss: miss.request.session_id[:8], priority=3))
    if any(miss.request.agent_id for miss in misses):
        owners.append(Column("agent", agent_text, flexible=True, priority=4))
    return (
        Column("at", lambda miss: date_time(miss.request.at)),
        *owners,
        Column("model", lambda miss: model_name(miss.request.model), priority=6),
        Column("cause", cause_text),
        Column("client says", client_word, priority=5),
        Column("rewritten", lambda miss: tokens(miss.tokens), right=True),
        Column("cost", lambda miss: list_price(miss.cost_usd), right=True),
        Column("pause", pause_text, right=True, priority=2),
        Column("changed before it", changes_text, flexible=True, priority=1),
    )


class NamedTotals(msgspec.Struct, frozen=True):
    name: str
    totals: CacheTotals
    written_tokens: int  # of all: what `totals` are a share of


def totals_columns(header: str, *, with_ratio: bool) -> Sequence[TextColumn[NamedTotals]]:
    read: list[TextColumn[NamedTotals]] = [
        Column("read", lambda each: percent(each.totals.read_ratio), right=True)
    ]
    return (
        Column(header, lambda each: each.name, flexible=True),
        Column("rewritten", lambda each: tokens(each.totals.rewritten_tokens), right=True),
        Column(
            "of writes",
            lambda each: percent(ratio(each.totals.rewritten_tokens, each.written_tokens)),
            right=True,
        ),
        Column("cost", lambda each: list_price(each.totals.cost_usd), right=True),
        Column("misses", lambda each: f"{each.totals.misses:,}", right=True),
        *(read if with_ratio else ()),
    )


def totals_lines(totals: CacheTotals) -> list[str]:
    """Sum up a ledger: how much was read from the cache, and what was written again."""
    unpriced = f", {totals.unpriced:,} without a price" if totals.unpriced else ""
    read = (
        f"{percent(totals.read_ratio)} of input read from the cache: {tokens(totals.read_tokens)}"
        f" read, {tokens(totals.written_tokens)} written"
        f" ({tokens(totals.written_1h_tokens)} for 1 h, {tokens(totals.written_5m_tokens)}"
        f" for 5 min), {tokens(totals.input_tokens)} not cached"
    )
    rewritten = (
        f"{tokens(totals.rewritten_tokens)} written again in {plural(totals.misses, 'miss')},"
        f" {percent(totals.rewritten_ratio)} of all cache writes: {list_price(totals.cost_usd)},"
        f" {list_price(totals.extra_usd)} more than reading{unpriced}"
    )
    return [read, rewritten]


def rewrite_factor_text(factor: float | None) -> str:
    """Return how often a session wrote its largest context; empty before its first request."""
    return "" if factor is None else f"{factor:.1f} times the largest context written"


def warm_texts(session: Session, now_ms: int) -> tuple[str, ...]:
    """Format until when the next prompt is cached, or since when it is not; longest first."""
    cache = session.cache
    if cache.expires_at is None:
        return ("no cache: the next prompt is written to it",)
    lifetime = "1 h" if cache.lifetime_ms == HOUR_MS else "5 min"
    sign = "≈ " if cache.estimated else ""
    amounts = rewrite_amounts(session, session.cold_prompt(now_ms)) or ("",)
    if cache.is_warm(now_ms):
        head = f"{sign}warm until {time_of_day(cache.expires_at)} ({lifetime} cache)"
        held = f" · {tokens(cache.tokens)} cached"
        ends = [f"{held}, cold {each}" if each else held for each in amounts]
    else:
        head = f"{sign}cold since {clock_time(cache.expires_at, now_ms)}"
        if not cache.is_for_next_model:
            head = "cold: another model was chosen"
        left = f" · the next prompt rewrites {tokens(cache.tokens)}"
        ends = [f"{left}, {each}" if each else left for each in amounts]
    return tuple(f"{head}{each}" for each in ends) if cache.tokens else (head,)


def miss_events(
    timeline: Timeline, ledger: CacheLedger, agent_id: str | None = None
) -> Iterator[TimelineEvent]:
    """Mark the misses of a session's own conversation, or of an agent's, on its timeline."""
    places = {turn.message_id: place for place, turn in enumerate(timeline.turns)}
    for miss in ledger.misses:
        place = places.get(miss.request.message_id)
        if miss.request.agent_id == agent_id and place is not None:
            what = (
                f"{cause_text(miss)}, {tokens(miss.tokens)} rewritten, {list_price(miss.cost_usd)}"
            )
            yield TimelineEvent(place, TimelineEventKind.CACHE_MISS, miss.request.at, what)
