"""What pauses and plans cost, for screens and commands; every amount is an estimate."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

from ...core.measure.pause_costs import CostUnit, PauseCosts, PauseWay
from ..tables import Cell, Column, TextColumn
from .formats import plural, shorten, time_of_day, tokens
from .plan_text import break_even_after

if TYPE_CHECKING:
    from ...core.actions.pause_rules import PauseItem
    from ...core.actions.session_pause import PauseResult

WAY_NAMES: Final = {
    PauseWay.LEAVE: "leave it",
    PauseWay.PLAN: "this plan",
    PauseWay.CLIENT: "/compact",
    PauseWay.HAND_OFF: "hand-off note",
}

_CENT: Final = 0.01


def amount_text(amount: float, unit: CostUnit) -> str:
    """Format an amount without its ≈: $0.12, or 24k tokens for models without a price."""
    if unit is CostUnit.INPUT_TOKENS:
        return f"{tokens(round(amount))} tokens"
    if 0 < amount < _CENT:
        return "<$0.01"
    return f"${amount:,.2f}"


def cost_line(costs: PauseCosts, way: PauseWay, now_ms: int) -> str:
    """Return what a way costs now and once the cache is cold, and when it breaks even."""
    of_way, leave = costs.ways[way], costs.leave
    expires_at = costs.expires_at
    if expires_at is not None and now_ms >= expires_at:
        instead = amount_text(leave.cold, costs.unit)
        cold = f"≈ {amount_text(of_way.cold, costs.unit)} (the cache is cold; unchanged: {instead})"
        return f"{cold}; {_break_even_text(of_way.break_even_cold)}"
    now = f"≈ {amount_text(of_way.now, costs.unit)}"
    warm = f"{now} now" if expires_at is not None else f"{now} with a warm cache"
    sign = "≈ " * costs.expires_estimated
    after = "" if expires_at is None else f" after {sign}{time_of_day(expires_at)}"
    cold = f"{amount_text(of_way.cold, costs.unit)}{after} (cold)"
    return f"{warm}, {cold}; {_break_even_text(of_way.break_even)}"


def _break_even_text(requests: float | None) -> str:
    return "never breaks even" if requests is None else f"breaks even {break_even_after(requests)}"


def totals_line(costs: PauseCosts) -> str:
    """Return what each way costs over the requests that are compared, with a break in between."""
    parts = [
        f"{WAY_NAMES[way]} {amount_text(costs.paused_total(way), costs.unit)}"
        for way in costs.ways
        if way is not PauseWay.PLAN
    ]
    requests = plural(costs.requests, "request")
    return f"≈ over {requests} after a break: {', '.join(parts)}"


def cache_text(item: PauseItem, now_ms: int) -> str:
    """Return until when a session's cache is warm."""
    cache = item.session.cache
    if cache.expires_at is None:
        return "?"
    if not cache.is_warm(now_ms):
        return "cold"
    return "≈ " * cache.estimated + time_of_day(cache.expires_at)


def paused_cost_text(item: PauseItem, way: PauseWay) -> str:
    return f"≈ {amount_text(item.costs.ways[way].paused, item.costs.unit)}" if item.costs else ""


def _way_cell(item: PauseItem) -> Cell:
    name = WAY_NAMES[item.decision.way]
    return Cell(name, "ok" if item.acts else "quiet")


def pause_columns(now_ms: int) -> Sequence[TextColumn[PauseItem]]:
    return (
        Column("session", lambda each: each.session.session_id[:8]),
        Column("title", lambda each: each.session.title, flexible=True, priority=2),
        Column("tokens", lambda each: tokens(each.session.context.tokens), right=True),
        Column("warm until", lambda each: cache_text(each, now_ms), right=True, priority=1),
        Column("do", _way_cell),
        Column(
            "costs",
            lambda each: paused_cost_text(each, each.decision.way) if each.acts else "",
            right=True,
        ),
        Column("instead of", lambda each: paused_cost_text(each, PauseWay.LEAVE), right=True),
        Column("why", lambda each: each.decision.why, flexible=True),
    )


def preview_summary(items: Sequence[PauseItem]) -> str:
    """Return what pausing all of them costs, and what leaving them would, in one line."""
    acting = [each for each in items if each.acts]
    if not acting:
        return "nothing to pause"
    what = f"{len(acting)} of {plural(len(items), 'session')}"
    costs = _sum_text(acting, lambda each: each.decision.way)
    instead = _sum_text(acting, lambda _: PauseWay.LEAVE)
    return f"{what}: {costs} up to the first prompt after the break, instead of {instead}"


def _sum_text(acting: Sequence[PauseItem], way: Callable[[PauseItem], PauseWay]) -> str:
    sums: dict[CostUnit, float] = {}
    for each in acting:
        if each.costs:
            unit = each.costs.unit
            sums[unit] = sums.get(unit, 0.0) + each.costs.ways[way(each)].paused
    return "≈ " + " and ".join(amount_text(amount, unit) for unit, amount in sums.items())


def result_line(result: PauseResult) -> str:
    session = result.item.session
    done = "left" if result.check and not result.is_failure else "failed"
    state = "paused" if result.check is None else done
    resume = f"; resume with: {result.resume_command}" if result.resume_command else ""
    title = shorten(session.title, 40)
    return f"{state}: {session.session_id[:8]} “{title}”: {result.outcome}{resume}"
