"""How a client is set up to compact by itself: settings files and environment, as one."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

import msgspec

from .claims import Claim, Source
from .models import is_named

if TYPE_CHECKING:
    from collections.abc import Mapping

    from .settings import Setting

LEAST_WINDOW: Final = 100_000
MOST_WINDOW: Final = 1_000_000
"""Tokens; the client clamps the variable to these, and ignores a setting below the first
(formats 3.5; seen in 2.1.329)."""

VARIABLES: Final = (
    "CLAUDE_AUTOCOMPACT_PCT_OVERRIDE",
    "CLAUDE_CODE_AUTO_COMPACT_WINDOW",
    "CLAUDE_CODE_DISABLE_1M_CONTEXT",
    "CLAUDE_CODE_MAX_CONTEXT_TOKENS",
    "CLAUDE_CODE_MAX_OUTPUT_TOKENS",
    "DISABLE_AUTO_COMPACT",
    "DISABLE_COMPACT",
)
"""What of a client's environment decides when it compacts; nothing else of it is looked at."""


AUTOCOMPACT: Final = "--autocompact"
"""The client's option; its value is kept among the variables, under the option's name."""

AUTO: Final = "auto"

SHORTHAND_BELOW: Final = 10_000
"""The option takes 200 for 200,000 (client 2.1.329 says so of itself)."""


class Percent(msgspec.Struct, frozen=True):
    """A share of the effective window, 0 to 100, and who set it."""

    value: float
    source: Source


class ClientSetup(msgspec.Struct, frozen=True):
    """What is set; None where nobody set anything."""

    disabled_by: Source | None = None
    """Who switched automatic compaction off."""
    window: Claim | None = None
    """Where the client believes its window to end when it compacts, in tokens."""
    percent: Percent | None = None
    """Compaction comes at this share of the effective window, if that is earlier."""
    large_window_disabled_by: Source | None = None
    """Who holds models with a large window to the small one."""
    max_context: Claim | None = None
    """The window of a model that the client does not know, in tokens."""
    max_output: int | None = None
    """Tokens of an answer."""


NOTHING_SET: Final = ClientSetup()


class _Variable(msgspec.Struct, frozen=True):
    text: str
    source: Source


def read_setup(
    settings: Mapping[str, Setting], environment: Mapping[str, str], model: str | None
) -> ClientSetup:
    """Read what holds for a model (formats 3.5; each rule tried on client 2.1.329).

    What settings put into the environment wins over what the client was started with, a
    variable over the option of the command line, that over a setting, and a setting for the
    model over one for all.
    """
    variables = {
        name: variable
        for name in VARIABLES
        if (variable := _variable(name, settings, environment)) is not None
    }
    return ClientSetup(
        disabled_by=_switched_off(variables, settings),
        window=_window(variables, environment.get(AUTOCOMPACT), settings, model),
        percent=_percent(variables),
        large_window_disabled_by=_truthy(variables.get("CLAUDE_CODE_DISABLE_1M_CONTEXT")),
        max_context=_claim(variables.get("CLAUDE_CODE_MAX_CONTEXT_TOKENS")),
        max_output=_count(variables.get("CLAUDE_CODE_MAX_OUTPUT_TOKENS")),
    )


def _variable(
    name: str, settings: Mapping[str, Setting], environment: Mapping[str, str]
) -> _Variable | None:
    setting = settings.get(f"env.{name}")
    if setting is not None:
        value = setting.value
        text = str(value).lower() if isinstance(value, bool) else str(value)
        return _Variable(text, Source.SETTINGS)
    text = environment.get(name, "")
    return _Variable(text, Source.ENVIRONMENT) if text else None


def _switched_off(
    variables: Mapping[str, _Variable], settings: Mapping[str, Setting]
) -> Source | None:
    for name in ("DISABLE_COMPACT", "DISABLE_AUTO_COMPACT"):
        if source := _truthy(variables.get(name)):
            return source
    enabled = settings.get("autoCompactEnabled")
    return Source.SETTINGS if enabled is not None and enabled.value is False else None


def _window(
    variables: Mapping[str, _Variable],
    option: str | None,
    settings: Mapping[str, Setting],
    model: str | None,
) -> Claim | None:
    variable = _claim(variables.get("CLAUDE_CODE_AUTO_COMPACT_WINDOW"))
    if variable and variable.tokens:
        clamped = min(max(variable.tokens, LEAST_WINDOW), MOST_WINDOW)
        return Claim(clamped, variable.source)
    if option == AUTO:
        return None
    tokens = _count(_Variable(option, Source.COMMAND_LINE)) if option else None
    if tokens:
        tokens *= 1_000 if tokens < SHORTHAND_BELOW else 1
        return Claim(min(max(tokens, LEAST_WINDOW), MOST_WINDOW), Source.COMMAND_LINE)
    for setting in (_of_model(settings, model), settings.get("autoCompactWindow")):
        value = setting.value if setting else None
        if isinstance(value, int) and not isinstance(value, bool) and value >= LEAST_WINDOW:
            return Claim(min(value, MOST_WINDOW), Source.SETTINGS)
    return None


def _of_model(settings: Mapping[str, Setting], model: str | None) -> Setting | None:
    for key, setting in settings.items():
        if key.startswith("modelSettings.") and key.endswith(".autoCompactWindow") and model:
            named = key.removeprefix("modelSettings.").removesuffix(".autoCompactWindow")
            if is_named(named, model):
                return setting
    return None


def _percent(variables: Mapping[str, _Variable]) -> Percent | None:
    variable = variables.get("CLAUDE_AUTOCOMPACT_PCT_OVERRIDE")
    if variable is None:
        return None
    try:
        value = float(variable.text)
    except ValueError:
        return None
    return Percent(value, variable.source) if 0 < value <= 100 else None


def _claim(variable: _Variable | None) -> Claim | None:
    tokens = _count(variable)
    return Claim(tokens, variable.source) if variable and tokens else None


def _count(variable: _Variable | None) -> int | None:
    """Read a number of tokens; the client takes `500k` for 500,000 (seen in 2.1.329)."""
    found = re.fullmatch(r"\s*(\d{1,9})\s*([kKmM]?)\s*", variable.text) if variable else None
    if not found:
        return None
    return int(found[1]) * {"": 1, "k": 1_000, "m": 1_000_000}[found[2].lower()] or None


def _truthy(variable: _Variable | None) -> Source | None:
    said = variable and variable.text.strip().lower() in {"1", "true", "yes", "on"}
    return variable.source if variable and said else None
