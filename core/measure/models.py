"""What is known of each model by name: window, answer size, automatic compaction, prices."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Final

import msgspec

SMALL_WINDOW: Final = 200_000
"""Tokens; every model before the native 1M ones (reference: claude-code-formats 3.4)."""

LARGE_WINDOW: Final = 1_000_000  # tokens; the only larger window that there is
LARGE_WINDOW_SUFFIX: Final = "[1m]"
"""What the client adds to a model's name; the API's name never has it (formats 3.4)."""

ClientVersion = tuple[int, ...]

ALWAYS_ARMED_BEFORE: Final = (2, 1, 113)
"""Clients before this compact by themselves whatever the model (2.1.25 to 2.1.42: median of
the sizes at which they did 167,400; peers 0.2)."""

ARMED_BY_MODEL_FROM: Final = (2, 1, 241)
"""From about here the model decides (seen in 2.1.329: each model of the table was tried);
before, the documents of 2.1.240 name the few that were armed (formats 3.5)."""

UNKNOWN_LARGE_FROM: Final = (2, 1, 241)
"""Later clients give a model that they do not know the large window (seen in 2.1.329;
documents of 2.1.240: 200K)."""

OPUS_4_7_LARGE_FROM: Final = (2, 1, 117)
"""Until then the client counted it against 200K (changelog 2.1.117)."""


class KnownModel(msgspec.Struct, frozen=True):
    """A model of the table."""

    window: int  # tokens in Claude Code, without a mark
    armed_since: ClientVersion | None
    """Client from which it compacts by itself where nothing is set; None is never."""
    max_output: int = 32_000
    """Tokens; above 20,000 only the cap of the formula counts (formats 3.4)."""


_LARGE: Final = KnownModel(LARGE_WINDOW, ARMED_BY_MODEL_FROM, 64_000)
_LARGEST: Final = KnownModel(LARGE_WINDOW, ARMED_BY_MODEL_FROM, 128_000)
_SMALL: Final = KnownModel(SMALL_WINDOW, None)
_OLD: Final = KnownModel(SMALL_WINDOW, None, 8_192)

# Models by family and version, without a date or a provider's prefix. Opus 4.6 and
# Sonnet 4.6 have 1M at the API, but 200K in Claude Code unless asked for ([1m]).
# Source: claude-code-formats 3.4; windows, answers and arming tried on 2.1.329.
_MODELS: Final = {
    "opus-5-5": _LARGEST,
    "sonnet-5-5": _LARGEST,
    "haiku-5-5": _LARGEST,
    "fable-5-1": _LARGE,
    "opus-5": _LARGE,
    "sonnet-5": KnownModel(LARGE_WINDOW, ALWAYS_ARMED_BEFORE, 64_000),
    "fable-5": _LARGE,
    "mythos-5": _LARGE,
    "opus-4-8": _LARGE,
    "opus-4-7": _LARGE,
    "opus-4-6": KnownModel(SMALL_WINDOW, ALWAYS_ARMED_BEFORE, 64_000),
    "sonnet-4-6": KnownModel(SMALL_WINDOW, ALWAYS_ARMED_BEFORE),
    "opus-4-5": _SMALL,
    "sonnet-4-5": _SMALL,
    "haiku-4-5": _SMALL,
    "opus-4-1": _SMALL,
    "opus-4": _SMALL,
    "sonnet-4": _SMALL,
    "3-7-sonnet": _SMALL,
    "3-5-sonnet": _OLD,
    "3-5-haiku": _OLD,
    "3-opus": _OLD,
}

_FAMILY: Final = re.compile(r"claude-(?P<family>[a-z0-9-]+?)(?:-latest|-v\d+|[-@]\d{8}|:\d+)*$")

_ALIASES: Final = frozenset({"opus", "sonnet", "haiku", "fable", "mythos"})


@lru_cache(maxsize=256)  # asked for each session, and few versions are in use
def parse_version(text: str | None) -> ClientVersion | None:
    """Read a client's version, `2.1.329` or `2.1.329-beta`; None where it is none."""
    found = re.match(r"(\d+)\.(\d+)\.(\d+)", text or "")
    return tuple(map(int, found.groups())) if found else None


REGISTRY_FROM: Final = (2, 1, 329)
"""Clients from this version on keep an entry in the registry as long as they are open, also
without a screen (seen in 2.1.329; what older ones do with `-p` is not settled)."""


def has_registry_entry(client_version: str | None) -> bool:
    """Report whether the registry has an entry of every open client of this version."""
    version = parse_version(client_version)
    return version is not None and version >= REGISTRY_FROM


def known_model(model: str | None) -> KnownModel | None:
    """Find a model id in the table, by its name without a mark, a date or a provider."""
    return _MODELS.get(model_family(model or "") or "")


@lru_cache(maxsize=256)
def model_family(model: str) -> str | None:
    """Name a model's family and version, as in "opus-4-6"; None for what is no Claude model."""
    found = _FAMILY.search(model.removesuffix(LARGE_WINDOW_SUFFIX))
    return found["family"] if found else None


def matches_model(key: str, model: str) -> bool:
    """Whether a setting's key means this model: by its id, or by its family's alias."""
    plain = model.removesuffix(LARGE_WINDOW_SUFFIX)
    if key.removesuffix(LARGE_WINDOW_SUFFIX) == plain:
        return True
    return key in _ALIASES and f"-{key}-" in f"{plain}-"


def table_window(model: str | None, version: ClientVersion | None = None) -> int | None:
    """Window in tokens of a model id by the table, or None for one that it does not hold."""
    if model is None:
        return None
    if model.endswith(LARGE_WINDOW_SUFFIX):
        return LARGE_WINDOW
    known = known_model(model)
    if known is None:
        return None
    if version and version < OPUS_4_7_LARGE_FROM and "opus-4-7" in model:
        return SMALL_WINDOW
    return known.window


def unknown_model_window(version: ClientVersion | None) -> int:
    """Window in tokens that the client gives a model which it does not know."""
    return SMALL_WINDOW if version and version < UNKNOWN_LARGE_FROM else LARGE_WINDOW


def max_output_tokens(model: str | None) -> int:
    """Largest answer of a model in tokens, as the client asks for it."""
    known = known_model(model)
    return known.max_output if known else KnownModel(0, None).max_output


def is_armed(model: str | None, version: ClientVersion | None, window: int) -> bool:
    """Whether a session auto-compacts although nothing is set (formats 3.5).

    Tried on 2.1.329 with every model of the table: those with a native 1M window do, the 4.6
    models do at 200K, and so do unknown ids; the 4.5 models do not, and neither does a 4.6
    model with the large-window suffix.
    """
    if version and version < ALWAYS_ARMED_BEFORE:
        return True
    known = known_model(model)
    if known is None:
        return True
    if window < known.window:
        # Held to the small window by CLAUDE_CODE_DISABLE_1M_CONTEXT.
        return True
    if window > known.window or known.armed_since is None:
        return False
    return version is None or version >= known.armed_since


MILLION: Final = 1_000_000

CACHE_WRITE_5M_FACTOR: Final = 1.25
CACHE_WRITE_1H_FACTOR: Final = 2.0
CACHE_READ_FACTOR: Final = 0.1
"""Price of a cached token in tokens of input, where a model has none of its own
(platform.claude.com/docs, pricing, "Prompt caching")."""

MAX_PRICE_PARTS: Final = 5
"""Of a price as it is written: input, output, write for 5 minutes, for an hour, read."""


class TokenPrice(msgspec.Struct, frozen=True):
    """Dollars for a million tokens."""

    input: float
    output: float
    write_5m: float
    write_1h: float
    read: float


def make_price(
    input_price: float,
    output_price: float,
    write_5m: float | None = None,
    write_1h: float | None = None,
    read: float | None = None,
) -> TokenPrice:
    """Make a price of dollars for a million tokens; what is left out follows from the input."""
    return TokenPrice(
        input_price,
        output_price,
        input_price * CACHE_WRITE_5M_FACTOR if write_5m is None else write_5m,
        input_price * CACHE_WRITE_1H_FACTOR if write_1h is None else write_1h,
        input_price * CACHE_READ_FACTOR if read is None else read,
    )


def parse_price(text: str) -> TokenPrice:
    """Read a price as a policy writes it, "4/20" or "4/20/5/8/0.2"; raises ValueError."""
    parts = [float(part) for part in text.split("/")]
    if not 2 <= len(parts) <= MAX_PRICE_PARTS or not all(0 <= part < MILLION for part in parts):
        raise ValueError(text)
    return make_price(*parts)


# By family and version; the prices of today, also for answers of before a change. Fast mode,
# web searches and other tiers are not in it.
# Source: platform.claude.com/docs/en/about-claude/pricing as of 2026-11.
_PRICES: Final[Mapping[str, TokenPrice]] = {
    "fable-5-1": make_price(10, 50, read=0.25),
    "mythos-5-1": make_price(10, 50, read=0.25),
    "fable-5": make_price(10, 50),
    "mythos-5": make_price(10, 50),
    "opus-5-5": make_price(4, 20, read=0.2),
    "opus-5": make_price(5, 25),
    "opus-4-8": make_price(5, 25),
    "opus-4-7": make_price(5, 25),
    "opus-4-6": make_price(5, 25),
    "opus-4-5": make_price(5, 25),
    "opus-4-1": make_price(15, 75),
    "opus-4-0": make_price(15, 75),
    "opus-4": make_price(15, 75),
    "3-opus": make_price(15, 75),
    "sonnet-5-5": make_price(2, 10, read=0.1),
    "sonnet-5": make_price(2, 10),
    "sonnet-4-6": make_price(3, 15),
    "3-7-sonnet": make_price(3, 15),
    "3-5-sonnet": make_price(3, 15),
    "haiku-4-5": make_price(1, 5),
    "3-5-haiku": make_price(0.8, 4),
    "3-haiku": make_price(0.25, 1.25, 0.3, 0.5, 0.03),
}

_SONNET_4: Final = (make_price(3, 15), make_price(3, 15), make_price(6, 22.5))

# The same where long prompts cost more: up to 100,000 tokens, up to 200,000, and above.
_PRICES_BY_PROMPT_LENGTH: Final[Mapping[str, tuple[TokenPrice, TokenPrice, TokenPrice]]] = {
    "sonnet-4-5": _SONNET_4,
    "sonnet-4-0": _SONNET_4,
    "sonnet-4": _SONNET_4,
    "haiku-5-5": (make_price(0.1, 0.5), make_price(0.5, 2.5), make_price(0.5, 2.5)),
}


def cache_read_factor(model: str | None) -> float:
    """Return the price of a cached token in input tokens; CACHE_READ_FACTOR if unknown."""
    found = find_price(model, 0, {}) if model else None
    return found.read / found.input if found and found.input else CACHE_READ_FACTOR


def find_price(model: str, band: int, custom_prices: Mapping[str, str]) -> TokenPrice | None:
    """Find the price of a model's answers; None for a model that has none.

    `custom_prices` are by the beginning of a model's name, the longest of which counts; `band`
    says how long the prompt was, as `ModelUsageRow` does.
    """
    name = model.removesuffix(LARGE_WINDOW_SUFFIX)
    named = max((start for start in custom_prices if name.startswith(start)), key=len, default=None)
    if named is not None:
        return parse_price(custom_prices[named])
    family = model_family(name) or ""
    stepped = _PRICES_BY_PROMPT_LENGTH.get(family)
    return stepped[band] if stepped else _PRICES.get(family)
