"""What is known of models by name and client version: window, answer, automatic compaction."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

import msgspec

SMALL_WINDOW: Final = 200_000
"""Tokens; every model before the native 1M ones (reference: claude-code-formats 3.4)."""

LARGE_WINDOW: Final = 1_000_000
"""Tokens; the only larger window that there is."""

LARGE_MARK: Final = "[1m]"
"""What the client adds to a model's name; the API's name never has it (formats 3.4)."""

Version = tuple[int, ...]

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


class Known(msgspec.Struct, frozen=True):
    """A model of the table."""

    window: int
    """Tokens in Claude Code, without a mark."""
    armed_since: Version | None
    """Client from which it compacts by itself where nothing is set; None is never."""
    max_output: int = 32_000
    """Tokens; above 20,000 only the cap of the formula counts (formats 3.4)."""


_LARGE: Final = Known(LARGE_WINDOW, ARMED_BY_MODEL_FROM, 64_000)
_LARGEST: Final = Known(LARGE_WINDOW, ARMED_BY_MODEL_FROM, 128_000)
_SMALL: Final = Known(SMALL_WINDOW, None)
_OLD: Final = Known(SMALL_WINDOW, None, 8_192)

# Models by family and version, without a date or a provider's prefix. Opus 4.6 and
# Sonnet 4.6 have 1M at the API, but 200K in Claude Code unless asked for ([1m]).
# Source: claude-code-formats 3.4; windows, answers and arming tried on 2.1.329.
_TABLE: Final = {
    "opus-5-5": _LARGEST,
    "sonnet-5-5": _LARGEST,
    "haiku-5-5": _LARGEST,
    "fable-5-1": _LARGE,
    "opus-5": _LARGE,
    "sonnet-5": Known(LARGE_WINDOW, ALWAYS_ARMED_BEFORE, 64_000),
    "fable-5": _LARGE,
    "mythos-5": _LARGE,
    "opus-4-8": _LARGE,
    "opus-4-7": _LARGE,
    "opus-4-6": Known(SMALL_WINDOW, ALWAYS_ARMED_BEFORE, 64_000),
    "sonnet-4-6": Known(SMALL_WINDOW, ALWAYS_ARMED_BEFORE),
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
def parse_version(text: str | None) -> Version | None:
    """Read a client's version, `2.1.329` or `2.1.329-beta`; None where it is none."""
    found = re.match(r"(\d+)\.(\d+)\.(\d+)", text or "")
    return tuple(map(int, found.groups())) if found else None


REGISTERS_FROM: Final = (2, 1, 329)
"""Clients from this version on keep an entry in the registry as long as they are open, also
without a screen (seen in 2.1.329; what older ones do with `-p` is not settled)."""


def is_registered(client_version: str | None) -> bool:
    """Report whether the registry has an entry of every open client of this version."""
    version = parse_version(client_version)
    return version is not None and version >= REGISTERS_FROM


def known_model(model: str | None) -> Known | None:
    """Find a model id in the table, by its name without a mark, a date or a provider."""
    return _TABLE.get(family_of(model or "") or "")


@lru_cache(maxsize=256)
def family_of(model: str) -> str | None:
    """Name a model's family and version, as in "opus-4-6"; None for what is no Claude model."""
    found = _FAMILY.search(model.removesuffix(LARGE_MARK))
    return found["family"] if found else None


def is_named(key: str, model: str) -> bool:
    """Say whether a setting's key means this model: its id, or its family's alias."""
    plain = model.removesuffix(LARGE_MARK)
    if key.removesuffix(LARGE_MARK) == plain:
        return True
    return key in _ALIASES and f"-{key}-" in f"{plain}-"


def table_window(model: str | None, version: Version | None = None) -> int | None:
    """Window in tokens of a model id by the table, or None for one that it does not hold."""
    if model is None:
        return None
    if model.endswith(LARGE_MARK):
        return LARGE_WINDOW
    known = known_model(model)
    if known is None:
        return None
    if version and version < OPUS_4_7_LARGE_FROM and "opus-4-7" in model:
        return SMALL_WINDOW
    return known.window


def unknown_window(version: Version | None) -> int:
    """Window in tokens that the client gives a model which it does not know."""
    return SMALL_WINDOW if version and version < UNKNOWN_LARGE_FROM else LARGE_WINDOW


def max_output(model: str | None) -> int:
    """Largest answer of a model in tokens, as the client asks for it."""
    known = known_model(model)
    return known.max_output if known else Known(0, None).max_output


def is_armed(model: str | None, version: Version | None, window: int) -> bool:
    """Say whether a session compacts by itself although nothing is set (formats 3.5).

    Tried on 2.1.329 with every model of the table: those with a native 1M window do, the
    4.6 ones at 200K, and ids that it does not know; the 4.5 ones do not, and neither does
    a 4.6 one with its mark for the large window.
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
