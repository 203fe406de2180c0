"""What tokens cost: Anthropic's list prices by model, and those that a policy sets."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from .models import LARGE_MARK, family_of

if TYPE_CHECKING:
    from collections.abc import Mapping

MILLION: Final = 1_000_000

WRITE_5_MINUTES: Final = 1.25
WRITE_1_HOUR: Final = 2.0
READ: Final = 0.1
"""Price of a cached token in tokens of input, where a model has none of its own
(platform.claude.com/docs, pricing, "Prompt caching")."""

PARTS: Final = 5
"""Of a price as it is written: input, output, write for 5 minutes, for an hour, read."""


class Price(msgspec.Struct, frozen=True):
    """Dollars for a million tokens."""

    input: float
    output: float
    write_5m: float
    write_1h: float
    read: float


def price(
    input_price: float,
    output_price: float,
    write_5m: float | None = None,
    write_1h: float | None = None,
    read: float | None = None,
) -> Price:
    """Make a price of dollars for a million tokens; what is left out follows from the input."""
    return Price(
        input_price,
        output_price,
        input_price * WRITE_5_MINUTES if write_5m is None else write_5m,
        input_price * WRITE_1_HOUR if write_1h is None else write_1h,
        input_price * READ if read is None else read,
    )


def parse_price(text: str) -> Price:
    """Read a price as a policy writes it, "4/20" or "4/20/5/8/0.2"; raises ValueError."""
    parts = [float(part) for part in text.split("/")]
    if not 2 <= len(parts) <= PARTS or not all(0 <= part < MILLION for part in parts):
        raise ValueError(text)
    return price(*parts)


# By family and version; the prices of today, also for answers of before a change. Fast mode,
# web searches and other tiers are not in it.
# Source: platform.claude.com/docs/en/about-claude/pricing as of 2026-11.
_TABLE: Final[Mapping[str, Price]] = {
    "fable-5-1": price(10, 50, read=0.25),
    "mythos-5-1": price(10, 50, read=0.25),
    "fable-5": price(10, 50),
    "mythos-5": price(10, 50),
    "opus-5-5": price(4, 20, read=0.2),
    "opus-5": price(5, 25),
    "opus-4-8": price(5, 25),
    "opus-4-7": price(5, 25),
    "opus-4-6": price(5, 25),
    "opus-4-5": price(5, 25),
    "opus-4-1": price(15, 75),
    "opus-4-0": price(15, 75),
    "opus-4": price(15, 75),
    "3-opus": price(15, 75),
    "sonnet-5-5": price(2, 10, read=0.1),
    "sonnet-5": price(2, 10),
    "sonnet-4-6": price(3, 15),
    "3-7-sonnet": price(3, 15),
    "3-5-sonnet": price(3, 15),
    "haiku-4-5": price(1, 5),
    "3-5-haiku": price(0.8, 4),
    "3-haiku": price(0.25, 1.25, 0.3, 0.5, 0.03),
}

_SONNET_4: Final = (price(3, 15), price(3, 15), price(6, 22.5))

# The same where long prompts cost more: up to 100,000 tokens, up to 200,000, and above.
_BY_LENGTH: Final[Mapping[str, tuple[Price, Price, Price]]] = {
    "sonnet-4-5": _SONNET_4,
    "sonnet-4-0": _SONNET_4,
    "sonnet-4": _SONNET_4,
    "haiku-5-5": (price(0.1, 0.5), price(0.5, 2.5), price(0.5, 2.5)),
}


def read_share(model: str | None) -> float:
    """Give the price of a model's cached token in its tokens of input; READ where none is known."""
    found = price_of(model, 0, {}) if model else None
    return found.read / found.input if found and found.input else READ


def price_of(model: str, band: int, custom_prices: Mapping[str, str]) -> Price | None:
    """Find the price of a model's answers; None for a model that has none.

    `own` are prices by the beginning of a model's name, the longest of which counts; `band`
    says how long the prompt was, as `spending_queries.SpendingRow` does.
    """
    name = model.removesuffix(LARGE_MARK)
    named = max((start for start in custom_prices if name.startswith(start)), key=len, default=None)
    if named is not None:
        return parse_price(custom_prices[named])
    family = family_of(name) or ""
    stepped = _BY_LENGTH.get(family)
    return stepped[band] if stepped else _TABLE.get(family)
