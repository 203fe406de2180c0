"""Who used the plan's limits, and how much one percent of a window has been."""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Final

import msgspec
from msgspec.structs import replace

from ..model.claude_models import (
    MILLION,
    TokenPrice,
    UseKind,
    dollars_by_kind,
    find_price,
    is_same_model,
)

if TYPE_CHECKING:
    from ..model.answer_rows import AnswerRow
    from .plan_limits import WindowUse
    from .prompt_cache.cache_ledger import CacheMiss


class Spent(msgspec.Struct, frozen=True):
    """What an answer would cost by list prices: a plan's limits count alike, as far as seen."""

    answer: AnswerRow
    dollars: Mapping[UseKind, float]

    @property
    def total(self) -> float:
        return sum(self.dollars.values())


def price_answers(answers: Iterable[AnswerRow], custom_prices: Mapping[str, str]) -> list[Spent]:
    """Price answers by kind of token; those of a model without a price are left out."""
    found: list[Spent] = []
    prices: dict[tuple[str, int], TokenPrice | None] = {}
    for each in answers:
        key = (each.model, each.rate)
        if key not in prices:
            prices[key] = find_price(*key, custom_prices)
        price = prices[key]
        if price is not None:
            found.append(Spent(each, dollars_by_kind(each, price)))
    return found


class UseShare(msgspec.Struct, frozen=True):
    name: str  # a session's id, an agent's, or a kind of token
    share: float  # of all that is known to have used the window
    dollars: float


class CauseShare(UseShare, frozen=True, kw_only=True):
    """`name` is a cause of cache misses."""

    source: str  # who named it, a `CauseSource`


class WindowShares(msgspec.Struct, frozen=True):
    """Who used a window, the most first, by the prices of what was sent and answered."""

    sessions: tuple[UseShare, ...] = ()
    agents: tuple[UseShare, ...] = ()  # the rest is the sessions' own
    kinds: tuple[UseShare, ...] = ()
    causes: tuple[CauseShare, ...] = ()  # of what was written to the cache again


def share_use(spent: Sequence[Spent]) -> WindowShares:
    sessions: defaultdict[str, float] = defaultdict(float)
    agents: defaultdict[str, float] = defaultdict(float)
    kinds: defaultdict[str, float] = defaultdict(float)
    for each in spent:
        sessions[each.answer.session_id] += each.total
        if each.answer.agent_id:
            agents[each.answer.agent_id] += each.total
        for kind, dollars in each.dollars.items():
            kinds[kind.value] += dollars
    total = sum(sessions.values())
    if not total:
        return WindowShares()
    return WindowShares(_shares(sessions, total), _shares(agents, total), _shares(kinds, total))


def add_causes(shares: WindowShares, misses: Iterable[CacheMiss], since_ms: int) -> WindowShares:
    """Add what part of a window was spent on cache misses, by their causes."""
    by_source: defaultdict[str, defaultdict[str, float]] = defaultdict(lambda: defaultdict(float))
    for miss in misses:
        if (miss.request.at or 0) >= since_ms:
            by_source[miss.source.value][miss.cause.value] += miss.cost_usd or 0.0
    total = sum(each.dollars for each in shares.sessions)
    if not total:
        return shares
    causes = [
        CauseShare(each.name, each.share, each.dollars, source=source)
        for source, dollars in by_source.items()
        for each in _shares(dollars, total)
    ]
    return replace(shares, causes=tuple(sorted(causes, key=lambda each: -each.dollars)))


def _shares(dollars: Mapping[str, float], total: float) -> tuple[UseShare, ...]:
    rising = sorted(dollars.items(), key=lambda item: (-item[1], item[0]))
    return tuple(UseShare(name, usd / total, usd) for name, usd in rising if usd)


MIN_STEP: Final = 0.02  # of a window in one measured step: readings may be rounded to a percent
MIN_STEPS: Final = 5  # for a model: fewer show no spread
MIN_MODEL_SHARE: Final = 0.9  # of a step's dollars: then the step is the model's


class PercentSize(msgspec.Struct, frozen=True):
    """What one percent of a window has been for a model."""

    window: str
    model: str
    weighted_tokens: float  # median, in input tokens: others count by their price
    low_tokens: float  # p10
    high_tokens: float  # p90
    dollars: float  # the median at list prices
    steps: int  # that it was learned from


def percent_dollars(sizes: Iterable[PercentSize], model: str | None) -> dict[str, float]:
    """Return what one percent of each window has been for a model, as far as it is learned.

    The two known windows come first.
    """
    found = {each.window: each.dollars for each in sizes if is_same_model(each.model, model)}
    if not found:
        return {}
    from .plan_limits import WINDOW_LENGTHS_MS  # not before the first paint

    known = [each for each in WINDOW_LENGTHS_MS if each in found]
    return {window: found[window] for window in [*known, *sorted(found.keys() - {*known})]}


def limit_ratios(
    usd: float | None, dollars_of_percent: Mapping[str, float]
) -> dict[str, float] | None:
    """Convert an amount to shares of the plan's windows; None where no size is learned."""
    if usd is None or not dollars_of_percent:
        return None
    return {window: usd / each / 100 for window, each in dollars_of_percent.items()}


def add_ratios(parts: Sequence[Mapping[str, float] | None]) -> dict[str, float] | None:
    """Add up shares of windows; None if a part has none, for then the sum is not known."""
    known = [each for each in parts if each]
    if not known or len(known) < len(parts):
        return None
    windows = [each for each in known[0] if all(each in part for part in known)]
    return {window: sum(part[window] for part in known) for window in windows}


def learn_percent_sizes(
    window: str,
    use: WindowUse,
    spent: Sequence[Spent],
    input_price: Callable[[str], float | None],
) -> tuple[PercentSize, ...]:
    """Compare how much the window moved with what all sessions spent meanwhile.

    Use on another machine moves the window too: a percent then seems smaller than it is, which
    the spread shows. A model is left out where too few steps are its own.
    """
    by_model: defaultdict[str, list[float]] = defaultdict(list)
    for moved, meanwhile in _steps(use, spent):
        total = sum(each.total for each in meanwhile)
        dollars: defaultdict[str, float] = defaultdict(float)
        for each in meanwhile:
            dollars[each.answer.model] += each.total
        model = max(dollars, key=dollars.__getitem__, default=None)
        if model is not None and dollars[model] >= MIN_MODEL_SHARE * total:
            by_model[model].append(total / (moved * 100))
    found: list[PercentSize] = []
    for model, sizes in sorted(by_model.items()):
        price = input_price(model)
        sizes.sort()
        if len(sizes) < MIN_STEPS or not price or not sizes[len(sizes) // 2]:
            continue
        middle, low, high = (
            sizes[int(share * (len(sizes) - 1) + 0.5)] for share in (0.5, 0.1, 0.9)
        )
        weight = MILLION / price
        found.append(
            PercentSize(
                window, model, middle * weight, low * weight, high * weight, middle, len(sizes)
            )
        )
    return tuple(found)


def _steps(use: WindowUse, spent: Sequence[Spent]) -> Iterable[tuple[float, Sequence[Spent]]]:
    """Yield steps in which enough was used, with the answers between their readings."""
    times = [each.answer.at for each in spent]
    start = 0
    for place in range(1, len(use.times)):
        moved = use.sums[place] - use.sums[start]
        if moved < MIN_STEP:
            continue
        begin, end = (bisect_right(times, use.times[each]) for each in (start, place))
        yield moved, spent[begin:end]
        start = place
