"""Amounts of money, for those who pay by the token and for those whose plan has limits."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from .formats import NOTHING

LEAST_USD: Final = 0.01  # less is not worth a number
LEAST_RATIO: Final = 0.01  # of a window: the same
WHOLE_DOLLARS_FROM: Final = 100  # US dollars from which cents are not shown


def dollars(usd: float | None) -> str:
    """Write US dollars, with cents below WHOLE_DOLLARS_FROM."""
    if usd is None:
        return NOTHING
    if 0 < usd < LEAST_USD:
        return f"<${LEAST_USD:.2f}"
    return f"${usd:,.2f}" if usd < WHOLE_DOLLARS_FROM else f"${usd:,.0f}"


def list_price(usd: float | None) -> str:
    """Write an amount by list prices, which is an estimate."""
    return NOTHING if usd is None else f"≈ {dollars(usd)}"


def amount_texts(usd: float, ratios: Mapping[str, float] | None) -> tuple[str, ...]:
    """Write an amount without its ≈, longest first: `3 % of 5h ($2.30)`, `3% 5h`.

    As a share of the first of the plan's windows, where its shares are known, else in dollars.
    """
    if not ratios:
        return (dollars(usd),)
    window, percent = _first_share(ratios, "%")
    return f"{amount_phrase(usd, ratios)} ({dollars(usd)})", f"{percent} {window}"


def amount_phrase(usd: float, ratios: Mapping[str, float] | None) -> str:
    """Write an amount beside others in a sentence: its share alone, `3 % of 5h`, or dollars."""
    if not ratios:
        return dollars(usd)
    window, percent = _first_share(ratios, " %")
    return f"{percent} of {window}"


def _first_share(ratios: Mapping[str, float], unit: str) -> tuple[str, str]:
    """Return the first window's short name, and its share with a unit."""
    from .limits_text import limit_percent, short_window_name  # not before the first paint

    window, ratio = next(iter(ratios.items()))
    sign, shown = ("<", LEAST_RATIO) if 0 < ratio < LEAST_RATIO else ("", ratio)
    return short_window_name(window), f"{sign}{limit_percent(shown, unit)}"
