"""Facts about each model by name: window, answer size, automatic compaction, prices."""

import re
from collections.abc import Mapping
from enum import IntFlag, StrEnum
from functools import lru_cache
from typing import Final, Protocol, TypeVar

import msgspec

SMALL_WINDOW: Final = 200_000  # every model before the native 1M ones (claude-code-formats 3.4)
LARGE_WINDOW: Final = 1_000_000  # the only larger window
LARGE_WINDOW_SUFFIX: Final = "[1m]"  # only the client adds it, never the API (formats 3.4)

T = TypeVar("T")

ClientVersion = tuple[int, ...]

ALWAYS_ARMED_BEFORE: Final = (2, 1, 113)  # 2.1.25 to 2.1.42 did at a median of 167,400 (peers 0.2)

ARMED_BY_MODEL_FROM: Final = (2, 1, 241)
"""From about this version the model decides (each was tried in 2.1.329); the documents
of 2.1.240 name the few that were armed before (formats 3.5)."""

UNKNOWN_LARGE_FROM: Final = (2, 1, 241)  # seen in 2.1.329; documents of 2.1.240: 200K
OPUS_4_7_LARGE_FROM: Final = (2, 1, 117)  # 200K before (changelog 2.1.117)

REGISTRY_FROM: Final = (2, 1, 329)
"""Later clients keep a registry entry as long as they are open, also without a screen (seen in
2.1.329; what older ones do with `-p` is not settled)."""


class KnownModel(msgspec.Struct, frozen=True):
    window: int  # tokens in Claude Code, without a suffix
    armed_since: ClientVersion | None  # first client that compacts it by default; None is never
    max_output: int = 32_000  # tokens; above 20,000 the formula caps it (formats 3.4)


def _by_family(*rows: tuple[T, str]) -> Mapping[str, T]:
    """Expand rows of a value and the families that have it, in one text."""
    return {family: value for value, families in rows for family in families.split()}


# By family and version, without a date or a provider's prefix. Opus 4.6 and Sonnet 4.6 have 1M
# at the API, but 200K in Claude Code unless asked for ([1m]).
# Source: claude-code-formats 3.4; windows, answers and arming tried on 2.1.329.
_MODELS: Final = _by_family(
    (KnownModel(LARGE_WINDOW, ARMED_BY_MODEL_FROM, 128_000), "opus-5-5 sonnet-5-5 haiku-5-5"),
    (KnownModel(LARGE_WINDOW, ARMED_BY_MODEL_FROM, 128_000), "fable-5-2 mythos-5-2"),
    (
        KnownModel(LARGE_WINDOW, ARMED_BY_MODEL_FROM, 64_000),
        "fable-5-1 mythos-5-1 opus-5 fable-5 mythos-5 opus-4-8 opus-4-7",
    ),
    (KnownModel(LARGE_WINDOW, ARMED_BY_MODEL_FROM), "mythos-preview"),
    (KnownModel(LARGE_WINDOW, ALWAYS_ARMED_BEFORE, 64_000), "sonnet-5"),
    (KnownModel(SMALL_WINDOW, ALWAYS_ARMED_BEFORE, 64_000), "opus-4-6"),
    (KnownModel(SMALL_WINDOW, ALWAYS_ARMED_BEFORE), "sonnet-4-6"),
    (
        KnownModel(SMALL_WINDOW, None),
        "opus-4-5 sonnet-4-5 haiku-4-5 opus-4-1 opus-4-0 opus-4 sonnet-4-0 sonnet-4 3-7-sonnet",
    ),
    (KnownModel(SMALL_WINDOW, None, 8_192), "3-5-sonnet 3-5-haiku 3-sonnet"),
    (KnownModel(SMALL_WINDOW, None, 4_096), "3-opus 3-haiku"),
)

_FAMILY: Final = re.compile(r"claude-(?P<family>[a-z0-9-]+?)(?:-latest|-v\d+|[-@]\d{8}|:\d+)*$")
_ALIASES: Final = frozenset({"opus", "sonnet", "haiku", "fable", "mythos"})


@lru_cache(maxsize=256)  # every session asks, and few versions are in use
def parse_version(text: str | None) -> ClientVersion | None:
    """Parse a client's version, `2.1.329` or `2.1.329-beta`."""
    match = re.match(r"(\d+)\.(\d+)\.(\d+)", text or "")
    return tuple(map(int, match.groups())) if match else None


def has_registry_entry(client_version: str | None) -> bool:
    """Return whether every open client of this version has a registry entry."""
    version = parse_version(client_version)
    return version is not None and version >= REGISTRY_FROM


def known_model(model: str | None) -> KnownModel | None:
    """Find a model id in the table, ignoring its suffix, date and provider."""
    return _MODELS.get(model_family(model or "") or "")


@lru_cache(maxsize=256)
def model_family(model: str) -> str | None:
    """Return a Claude model's family and version, such as "opus-4-6"."""
    match = _FAMILY.search(model.removesuffix(LARGE_WINDOW_SUFFIX))
    return match["family"] if match else None


def matches_model(key: str, model: str) -> bool:
    """Return whether a setting's key means this model: by its id, or by its family's alias."""
    plain = model.removesuffix(LARGE_WINDOW_SUFFIX)
    if key.removesuffix(LARGE_WINDOW_SUFFIX) == plain:
        return True
    return key in _ALIASES and f"-{key}-" in f"{plain}-"


def is_same_model(name: str, other: str | None) -> bool:
    """Return whether two names differ at most in date, provider or the large window's suffix."""
    if other is None:
        return False
    family = model_family(name)
    if family is not None:
        return family == model_family(other)
    return name.removesuffix(LARGE_WINDOW_SUFFIX) == other.removesuffix(LARGE_WINDOW_SUFFIX)


def find_by_model(values: Mapping[str, T], model: str | None) -> T | None:
    """Return the value for a model: by its id, else by one that differs in date or provider."""
    if model is None:
        return None
    if model in values:
        return values[model]
    family, is_large = model_family(model), model.endswith(LARGE_WINDOW_SUFFIX)
    return next(
        (
            value
            for name, value in values.items()
            if family is not None
            and model_family(name) == family
            and name.endswith(LARGE_WINDOW_SUFFIX) is is_large
        ),
        None,
    )


def table_window(model: str | None, version: ClientVersion | None = None) -> int | None:
    """Return a model's window in tokens by the table; None if it is not in it."""
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
    return SMALL_WINDOW if version and version < UNKNOWN_LARGE_FROM else LARGE_WINDOW


def max_output_tokens(model: str | None) -> int:
    return (known_model(model) or KnownModel(0, None)).max_output


def is_armed(model: str | None, version: ClientVersion | None, window: int) -> bool:
    """Return whether a session auto-compacts although nothing is set (formats 3.5).

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
        # CLAUDE_CODE_DISABLE_1M_CONTEXT limits it to the small window.
        return True
    if window > known.window or known.armed_since is None:
        return False
    return version is None or version >= known.armed_since


MILLION: Final = 1_000_000

NO_PRICES: Final[Mapping[str, str]] = {}

# Price of a cached token in input tokens, for models without cache prices
# (platform.claude.com/docs, pricing, "Prompt caching").
CACHE_WRITE_5M_FACTOR: Final = 1.25
CACHE_WRITE_1H_FACTOR: Final = 2.0
CACHE_READ_FACTOR: Final = 0.1
OUTPUT_FACTOR: Final = 5.0  # of a token of an answer (compaction.md 1.6)


# Lifetime of the prompt cache after its last use (platform.claude.com/docs, prompt caching).
FIVE_MINUTES_MS: Final = 300_000
HOUR_MS: Final = 3_600_000


WEB_SEARCH_DOLLARS: Final = 0.01  # a search by the API's own tool, of any model (client 2.1.332)
US_FACTOR: Final = 1.1  # on tokens of an answer made in the US alone (client 2.1.332)
LONG_PROMPT_TOKENS: Final = 100_000  # a longer prompt has another price (client 2.1.332)


class PriceRate(IntFlag):
    """What changes an answer's price, besides its model; stored as a number."""

    STANDARD = 0
    LONG_PROMPT = 1  # above LONG_PROMPT_TOKENS
    FAST = 2  # `usage.speed`
    US = 4  # `usage.inference_geo`


def prompt_rate(tokens: int) -> PriceRate:
    """Return the rate of a prompt of this length."""
    return PriceRate.LONG_PROMPT if tokens > LONG_PROMPT_TOKENS else PriceRate.STANDARD


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
    """Make a price; cache prices that are left out follow from the input's."""
    return TokenPrice(
        input_price,
        output_price,
        input_price * CACHE_WRITE_5M_FACTOR if write_5m is None else write_5m,
        input_price * CACHE_WRITE_1H_FACTOR if write_1h is None else write_1h,
        input_price * CACHE_READ_FACTOR if read is None else read,
    )


def parse_price(text: str) -> TokenPrice:
    """Parse a policy's price, "4/20" or "4/20/5/8/0.2"; raises ValueError."""
    parts = [float(part) for part in text.split("/")]
    if not 2 <= len(parts) <= 5 or not all(0 <= part < MILLION for part in parts):
        raise ValueError(text)
    return make_price(*parts)


# By family and version; today's prices, also for answers from before a change.
# Source: what client 2.1.332 says that answers cost. It has no price of mythos-preview and 3-opus,
# and takes that of its default model. 3-haiku: platform.claude.com/docs, pricing, as of 2026-11.
_PRICES: Final = _by_family(
    (make_price(8, 40, read=0.2), "fable-5-2 mythos-5-2"),
    (make_price(10, 50, read=0.25), "fable-5-1 mythos-5-1"),
    (make_price(10, 50), "fable-5 mythos-5"),
    (make_price(4, 20, read=0.2), "opus-5-5 mythos-preview 3-opus"),
    (make_price(5, 25), "opus-5 opus-4-8 opus-4-7 opus-4-6 opus-4-5"),
    (make_price(15, 75), "opus-4-1 opus-4-0 opus-4"),
    (make_price(2, 10, read=0.1), "sonnet-5-5"),
    (make_price(2, 10), "sonnet-5"),
    (make_price(3, 15), "sonnet-4-6 sonnet-4-5 sonnet-4-0 sonnet-4 3-7-sonnet 3-5-sonnet"),
    (make_price(0.1, 0.5), "haiku-5-5"),
    (make_price(1, 5), "haiku-4-5"),
    (make_price(0.8, 4), "3-5-haiku"),
    (make_price(0.25, 1.25, 0.3, 0.5, 0.03), "3-haiku"),
)

_LONG_PROMPT_PRICES: Final = {"haiku-5-5": make_price(0.5, 2.5)}

# In fast mode; a model that has none is priced as otherwise (client 2.1.332).
_FAST_PRICES: Final = _by_family(
    (make_price(16, 80, read=0.4), "fable-5-2 mythos-5-2"),
    (make_price(8, 40, read=0.4), "opus-5-5"),
    (make_price(10, 50), "opus-5 opus-4-8"),
    (make_price(30, 150), "opus-4-7 opus-4-6"),
)


def cache_read_factor(model: str | None) -> float:
    """Return the price of a cached token in input tokens; CACHE_READ_FACTOR if unknown."""
    price = find_price(model) if model else None
    return price.read / price.input if price and price.input else CACHE_READ_FACTOR


def find_price(
    model: str, rate: int = PriceRate.STANDARD, custom_prices: Mapping[str, str] = NO_PRICES
) -> TokenPrice | None:
    """Return the price of a model's answers at a `PriceRate`; None if it has none.

    `custom_prices` are by the start of a model's name, the longest match counts, and they are for
    every rate.
    """
    name = model.removesuffix(LARGE_WINDOW_SUFFIX)
    custom = max(filter(name.startswith, custom_prices), key=len, default=None)
    if custom is not None:
        return parse_price(custom_prices[custom])
    return _list_price(model_family(name) or "", int(rate))


@lru_cache(maxsize=256)  # every session asks, and what a rate contains takes long to find out
def _list_price(family: str, rate: int) -> TokenPrice | None:
    price = _price_without_region(family, rate)
    if price is None or not rate & PriceRate.US:
        return price
    return TokenPrice(*(US_FACTOR * each for each in msgspec.structs.astuple(price)))


def _price_without_region(family: str, rate: int) -> TokenPrice | None:
    price = _FAST_PRICES.get(family) if rate & PriceRate.FAST else None
    if price is None and rate & PriceRate.LONG_PROMPT:
        price = _LONG_PROMPT_PRICES.get(family)
    return price or _PRICES.get(family)


class UseKind(StrEnum):
    INPUT = "input"  # that no cache has a part in
    CACHE_WRITE = "cache_write"
    CACHE_READ = "cache_read"
    OUTPUT = "output"
    WEB_SEARCH = "web_search"


class Used(Protocol):
    """What one model used at one rate."""

    @property
    def input_tokens(self) -> int: ...
    @property
    def cache_creation_tokens(self) -> int: ...
    @property
    def cache_1h_tokens(self) -> int: ...
    @property
    def cache_read_tokens(self) -> int: ...
    @property
    def output_tokens(self) -> int: ...
    @property
    def web_searches(self) -> int: ...


def dollars_by_kind(used: Used, price: TokenPrice) -> Mapping[UseKind, float]:
    written_5m = used.cache_creation_tokens - used.cache_1h_tokens
    written = written_5m * price.write_5m + used.cache_1h_tokens * price.write_1h
    return {
        UseKind.INPUT: used.input_tokens * price.input / MILLION,
        UseKind.CACHE_WRITE: written / MILLION,
        UseKind.CACHE_READ: used.cache_read_tokens * price.read / MILLION,
        UseKind.OUTPUT: used.output_tokens * price.output / MILLION,
        UseKind.WEB_SEARCH: used.web_searches * WEB_SEARCH_DOLLARS,
    }
