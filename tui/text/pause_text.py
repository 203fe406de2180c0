"""What pauses and plans cost, for screens and commands; every amount is an estimate."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

from ...core.measure.limit_use import add_ratios, limit_ratios
from ...core.measure.pause_costs import CostUnit, PauseCosts
from ...core.model.pause_ways import PauseWay
from .amounts import amount_phrase, amount_texts
from .formats import plural, shorten, time_of_day, tokens
from .plan_text import break_even_after
from .tables import Cell, Column, TextColumn

if TYPE_CHECKING:
    from ...core.actions.pause_rules import PauseItem
    from ...core.actions.session_pause import PauseResult

WAY_NAMES: Final = {
    PauseWay.LEAVE: "leave it",
    PauseWay.PLAN: "this plan",
    PauseWay.CLIENT: "/compact",
    PauseWay.HAND_OFF: "hand-off note",
}


def cost_texts(amount: float, costs: PauseCosts) -> tuple[str, ...]:
    """Format an amount without its ≈, longest first; in tokens for models without a price."""
    if costs.unit is CostUnit.INPUT_TOKENS:
        return (_input_tokens(amount),)
    return amount_texts(amount, limit_ratios(amount, costs.percent_dollars))


def cost_phrase(amount: float, costs: PauseCosts) -> str:
    """Format an amount for a sentence that has others."""
    if costs.unit is CostUnit.INPUT_TOKENS:
        return _input_tokens(amount)
    return amount_phrase(amount, limit_ratios(amount, costs.percent_dollars))


def _input_tokens(amount: float) -> str:
    return f"{tokens(round(amount))} tokens"


def cost_line(costs: PauseCosts, way: PauseWay, now_ms: int) -> str:
    """Return what a way costs now and once the cache is cold, and when it breaks even."""
    of_way, leave = costs.ways[way], costs.leave
    expires_at = costs.expires_at
    if expires_at is not None and now_ms >= expires_at:
        instead = cost_phrase(leave.cold, costs)
        cold = f"≈ {cost_texts(of_way.cold, costs)[0]} (the cache is cold; unchanged: {instead})"
        return f"{cold}; {_break_even_text(of_way.break_even_cold)}"
    now = f"≈ {cost_texts(of_way.now, costs)[0]}"
    warm = f"{now} now" if expires_at is not None else f"{now} with a warm cache"
    sign = "≈ " * costs.expires_estimated
    after = "" if expires_at is None else f" after {sign}{time_of_day(expires_at)}"
    cold = f"{cost_phrase(of_way.cold, costs)}{after} (cold)"
    return f"{warm}, {cold}; {_break_even_text(of_way.break_even)}"


def _break_even_text(requests: float | None) -> str:
    return "never breaks even" if requests is None else f"breaks even {break_even_after(requests)}"


def totals_line(costs: PauseCosts) -> str:
    """Return what each way costs over the requests that are compared, with a break in between."""
    parts = [
        f"{WAY_NAMES[way]} {cost_phrase(costs.paused_total(way), costs)}"
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


def paused_cost_texts(item: PauseItem, way: PauseWay) -> tuple[str, ...]:
    """Format what a way costs with a break, longest first; empty if that is not known."""
    costs = item.costs
    if costs is None:
        return ()
    return tuple(f"≈ {each}" for each in cost_texts(costs.ways[way].paused, costs))


def _short_cost(item: PauseItem, way: PauseWay) -> str:
    return "".join(paused_cost_texts(item, way)[-1:])


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
            lambda each: _short_cost(each, each.decision.way) if each.acts else "",
            right=True,
        ),
        Column("instead of", lambda each: _short_cost(each, PauseWay.LEAVE), right=True),
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
    found = [(each.costs.ways[way(each)].paused, each.costs) for each in acting if each.costs]
    in_usd = [(amount, costs) for amount, costs in found if costs.unit is CostUnit.USD]
    others = [amount for amount, costs in found if costs.unit is not CostUnit.USD]
    texts = []
    if in_usd:
        ratios = add_ratios([limit_ratios(usd, costs.percent_dollars) for usd, costs in in_usd])
        texts.append(amount_texts(sum(usd for usd, _ in in_usd), ratios)[0])
    if others:
        texts.append(_input_tokens(sum(others)))
    return f"≈ {' and '.join(texts)}"


def result_line(result: PauseResult) -> str:
    session = result.item.session
    done = "left" if result.check and not result.is_failure else "failed"
    state = "paused" if result.check is None else done
    resume = f"; resume with: {result.resume_command}" if result.resume_command else ""
    title = shorten(session.title, 40)
    return f"{state}: {session.session_id[:8]} “{title}”: {result.outcome}{resume}"
