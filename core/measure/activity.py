"""Finds what a session is doing or waits for, whether its cache is warm, and its cost."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from ..model.claude_models import FIVE_MINUTES_MS, HOUR_MS, dollars_by_kind, find_price
from ..model.session_activity import (
    UNKNOWN_CACHE,
    Activity,
    ActivityKind,
    CostSource,
    PromptCache,
    SessionCost,
    WaitingFor,
    WaitingKind,
)
from ..model.transcript_records import TurnState

if TYPE_CHECKING:
    from ..model.answer_rows import ActivityRow, ModelUsageRow


RECENT_CONTEXTS: Final = 24  # newest contexts kept for a sparkline: one a cell


CACHE_LIFETIMES_MS: Final = {"5m": FIVE_MINUTES_MS, "1h": HOUR_MS}  # by the API's names

_ASKING_TOOLS: Final = {"AskUserQuestion": "an answer", "ExitPlanMode": "approval of a plan"}
"""Tools that wait for a person, and for what."""

_PERMISSION_NOTICES: Final = frozenset({"permission_prompt", "worker_permission_prompt"})


BACKGROUND_AGENT_MS: Final = 30 * 60_000  # of silence after which an agent counts as no longer run


def find_activity(row: ActivityRow, now_ms: int) -> Activity | None:
    """Return what a live session is doing; None if nothing is in flight, or if it is unknown.

    The client's registry is the best source for whether it waits for a person, the transcript
    for which tool is running. If they disagree, the newer one wins.
    """
    call = None
    if row.call_name is not None:
        call = Activity(ActivityKind.TOOL, row.call_name, row.call_detail or "", row.call_at)
    if row.live_status == "waiting":
        return _waiting_for_person(row, call, row.waiting_for or "an answer", row.live_updated_at)
    if call and call.what in _ASKING_TOOLS:
        return replace(call, kind=ActivityKind.PERSON, what=_ASKING_TOOLS[call.what])
    newest = max(row.turn_at or 0, row.call_at or 0)
    if row.live_status == "idle" and (row.live_updated_at or 0) >= newest:
        return _find_background(row, now_ms)
    if _is_asked_for_permission(row, newest):
        return _waiting_for_person(row, call, "permission", row.hook_at)
    if call:
        return call
    if row.turn in {TurnState.ASKED, TurnState.RESULT}:
        return Activity(ActivityKind.MODEL, "", since=row.turn_at)
    if row.live_status == "busy":
        return Activity(ActivityKind.MODEL, "", since=row.live_updated_at)
    return None


def _find_background(row: ActivityRow, now_ms: int) -> Activity | None:
    """Return what runs beside an idle session; None if nothing does.

    The Stop hook lists it whole, the registry says it of shells alone, and agents that were
    started and have not returned tell it of themselves.
    """
    if row.stopped_tasks:
        kind = row.stopped_task or "task"
        more = f" and {row.stopped_tasks - 1} more" if row.stopped_tasks > 1 else ""
        return Activity(ActivityKind.BACKGROUND, f"{kind}{more}")
    if row.has_shell:
        return Activity(ActivityKind.BACKGROUND, "shell")
    agents_at = row.agents_at
    if row.stopped_tasks is None and agents_at and now_ms - agents_at < BACKGROUND_AGENT_MS:
        return Activity(ActivityKind.BACKGROUND, "agent")
    return None


def _waiting_for_person(
    row: ActivityRow, call: Activity | None, what: str, since: int | None
) -> Activity:
    tool = call.what if call else row.hook_tool
    detail = ": ".join(part for part in (tool, call.detail if call else "") if part)
    return Activity(ActivityKind.PERSON, what, detail, since)


def _is_asked_for_permission(row: ActivityRow, newest: int) -> bool:
    asked = row.hook_event == "PermissionRequest" or (
        row.hook_event == "Notification" and row.hook_kind in _PERMISSION_NOTICES
    )
    return asked and (row.hook_at or 0) >= max(newest, row.live_updated_at or 0)


_TOOL_KINDS: Final = {"AskUserQuestion": WaitingKind.QUESTION, "ExitPlanMode": WaitingKind.PLAN}
_PERMISSION_WORD: Final = "permission"  # in what the client's registry says of one that waits


def find_waiting(row: ActivityRow, activity: Activity | None) -> WaitingFor | None:
    """Return what a live session waits for; None if it waits for nobody."""
    if activity is None or activity.kind is not ActivityKind.PERSON:
        return None
    tool, text = row.call_name or row.hook_tool or "", row.call_detail or ""
    if kind := _TOOL_KINDS.get(tool):
        return WaitingFor(kind, tool, text if kind is WaitingKind.QUESTION else "", activity.since)
    if _PERMISSION_WORD in activity.what:
        return WaitingFor(WaitingKind.PERMISSION, tool, text, activity.since)
    return WaitingFor(WaitingKind.OTHER, "", activity.what, activity.since)


def find_prompt_cache(row: ActivityRow) -> PromptCache:
    """Return until when the next request is read from the last answer's cache.

    The client's report is used if it is the newest: of its status line, or of a resume. Else it
    is the answer's time plus the lifetime of what was last written. After a compaction there is
    nothing to read.
    """
    if row.answer_at is None:
        return UNKNOWN_CACHE
    lifetime = HOUR_MS if row.cache_1h_tokens else FIVE_MINUTES_MS
    cache = PromptCache(
        row.answer_at + lifetime,
        tokens=row.cached_tokens or None,
        lifetime_ms=lifetime,
        used_at=row.answer_at,
    )
    if row.status_cache_warm is not None and (row.status_at or 0) >= row.answer_at:
        cache = replace(cache, lifetime_ms=row.status_cache_ttl_ms or lifetime)
        if row.status_cache_cold_tokens is not None:
            tokens = row.status_cache_cold_tokens
            cache = replace(cache, tokens=tokens or None, tokens_estimated=False)
        expires = row.status_cache_expires_at
        if expires is not None or not row.status_cache_warm:
            return replace(cache, expires_at=expires or row.status_at, estimated=False)
    elif (row.resume_tokens or 0) > 0 and (row.hook_at or 0) >= row.answer_at:
        cache = replace(cache, tokens=row.resume_tokens, tokens_estimated=False)
        if row.resume_expired and row.hook_at is not None:
            expires = min(row.hook_at, row.answer_at + lifetime)
            cache = replace(cache, expires_at=expires)
    return cache if cache.tokens else UNKNOWN_CACHE


MIN_REPORTED_SHARE: Final = 0.5
"""A share of the estimate: a client that reports less has not counted the whole session. Before
about 2.1.246 (`cost-state`) it counted from its own start, and a resume starts it again."""


def estimate_cost(
    rows: Iterable[ModelUsageRow], custom_prices: Mapping[str, str]
) -> SessionCost | None:
    """Price answers in dollars; None if no answer has a price.

    Each answer counts once, an agent's for its session. `custom_prices` are by the start of a
    model's name.
    """
    usd, priced, unpriced = 0.0, False, False
    for row in rows:
        price = find_price(row.model, row.rate, custom_prices)
        if price is None:
            unpriced = True
            continue
        priced = True
        usd += sum(dollars_by_kind(row, price).values())
    return SessionCost(usd, estimated=True, partial=unpriced) if priced else None


def choose_cost(
    row: ActivityRow | None, estimate: SessionCost | None, *, forked: bool
) -> SessionCost | None:
    """Return a session's cost in dollars: the client's report if it covers the whole session.

    The client's total includes agents and requests that no line records (titles, compactions),
    and only grows: the largest report counts. It is not used if later answers cost more than it
    says, nor for a fork, whose client may go on counting its parent's.
    """
    if row is None or forked:
        return estimate
    # None: after the last answer.
    transcript_at = None if row.is_transcript_cost_newer else 0
    reports = (
        (row.status_at, row.status_cost_usd, CostSource.STATUS_LINE),
        (row.measured_at, row.measured_cost_usd, CostSource.PLUGIN),
        (transcript_at, row.transcript_cost_usd, CostSource.TRANSCRIPT),
    )
    known = [(at, usd, source) for at, usd, source in reports if usd]
    if not known:
        return estimate
    _, usd, source = max(known, key=lambda report: report[1])
    estimated = estimate.usd if estimate else 0.0
    is_newest = any(at is None or at >= (row.answer_at or 0) for at, *_ in known)
    if usd >= estimated or (is_newest and usd >= estimated * MIN_REPORTED_SHARE):
        return SessionCost(usd, estimated=False, source=source)
    return estimate
