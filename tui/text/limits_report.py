"""The plan's limits and who used them, by label: for the limits page and for `ctxtop limits`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final, TypeVar

from ...core.measure.plan_limits import BindingLimit, PlanLimit, find_binding
from ...core.transcript.sanitize import one_line
from .formats import model_name, shorten, tokens
from .limits_text import (
    binding_text,
    burn_text,
    exhaustion_text,
    limit_percent,
    limit_style,
    reading_text,
    resets_text,
)

if TYPE_CHECKING:
    from ...core.measure.limit_use import CauseShare, PercentSize, UseShare
    from ...core.model.session import Session
    from ...core.readers.limits_reader import LimitsReport

ShareT = TypeVar("ShareT", bound="UseShare")

NO_LIMITS: Final = (
    "No client has reported the limits of a plan. Claude Code gives them to its status line where"
    " a subscriber is logged in (`ctxtop hooks install` sets up ctxtop's), never with an API key."
)
MAX_SHARES: Final = 5  # of sessions or agents in a line; all are in `ctxtop limits --json`
MIN_SHARE: Final = 0.005  # rounded to a percent; less is only said to be so
TITLE_CELLS: Final = 24  # of a session's title in such a line

_KIND_NAMES: Final = {
    "input": "uncached input",
    "cache_write": "cache writes",
    "web_search": "web searches",
    "cache_read": "cache reads",
    "output": "output",
}


def limit_facts(
    report: LimitsReport, limit: PlanLimit, titles: Mapping[str, str], now_ms: int
) -> Iterator[tuple[str, str, str]]:
    """Yield labels, texts and styles; of a window that was reset only what was last known."""
    yield "used", reading_text(limit, now_ms), limit_style(limit, now_ms)
    if limit.is_stale(now_ms):
        return
    yield from _plain("resets", resets_text(limit, now_ms))
    yield from _plain("burn rate", burn_text(limit))
    yield from _plain("projection", exhaustion_text(limit, now_ms))
    for size in report.percent_sizes_of(limit.window):
        yield from _plain("one percent", percent_size_text(size))
    shares = report.shares.get(limit.window)
    if shares is None:
        return

    def title(of: UseShare) -> str:
        return shorten(one_line(titles.get(of.name, of.name[:8])), TITLE_CELLS)

    def agent(of: UseShare) -> str:
        return f"{one_line(report.agent_types.get(of.name, 'agent'))} {of.name[:8]}"

    yield from _plain("used by", _estimated(_shares_text(shares.sessions, title)))
    yield from _plain("agents", _estimated(_shares_text(shares.agents, agent)))
    kinds = _shares_text(shares.kinds, lambda each: _KIND_NAMES[each.name])
    yield from _plain("tokens", _estimated(kinds))
    yield from _plain("cache misses", _shares_text(shares.causes, _cause_name))


def _cause_name(share: CauseShare) -> str:
    # They import much that the session's page, which imports this module, needs only later.
    from ...core.measure.prompt_cache.cache_ledger import CacheCause, CauseSource
    from .cache_text import cause_name

    # Its ≈ says that the cause is inferred; another one, that the share is estimated.
    return f"{cause_name(CacheCause(share.name), CauseSource(share.source))} ≈"


def _plain(label: str, text: str) -> Iterator[tuple[str, str, str]]:
    if text:
        yield label, text, "$foreground"


def _shares_text(shares: Sequence[ShareT], name: Callable[[ShareT], str]) -> str:
    """Write the largest shares."""
    shown = [f"{name(each)} {_share_percent(each.share)}" for each in shares[:MAX_SHARES]]
    more = len(shares) - MAX_SHARES
    return " · ".join([*shown, *([f"{more} more"] if more > 0 else [])])


def _estimated(shares: str) -> str:
    """Mark shares: the plan's own weights are not known."""
    return f"≈ {shares}" if shares else ""


def _share_percent(share: float) -> str:
    return limit_percent(share) if share >= MIN_SHARE else "<1%"


def percent_size_text(size: PercentSize) -> str:
    low, middle, high = map(
        tokens, map(round, (size.low_tokens, size.weighted_tokens, size.high_tokens))
    )
    return (
        f"≈ {middle} weighted tokens of {model_name(size.model)} ({low} to {high}), or"
        f" ${size.dollars:,.2f} at list prices; from {size.steps} steps"
    )


def session_binding(
    limits: Sequence[PlanLimit], session: Session, now_ms: int
) -> BindingLimit | None:
    """Return what a session reaches first; None if it is not open, or nothing is projected."""
    if not session.live:
        return None
    end = session.outlook.end
    return find_binding(limits, end.minutes.p50 if end and end.minutes else None, now_ms)


def reached_first(
    limits: Sequence[PlanLimit], sessions: Sequence[Session], now_ms: int
) -> Iterator[tuple[str, str]]:
    for session in sessions:
        if text := binding_text(session_binding(limits, session, now_ms), now_ms):
            yield one_line(session.title), text
