"""How large a model's context window is, by the best evidence and the client's configuration."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, Final

import msgspec

from .models import (
    LARGE_WINDOW,
    LARGE_WINDOW_SUFFIX,
    SMALL_WINDOW,
    ClientVersion,
    known_model,
    matches_model,
    table_window,
    unknown_model_window,
)

if TYPE_CHECKING:
    from .effective_config import ResolvedSetting


class ClaimSource(StrEnum):
    """Where a claim comes from, strongest first."""

    POLICY = "policy"
    PLUGIN = "plugin"
    STATUS_LINE = "status_line"
    ENVIRONMENT = "environment"
    COMMAND_LINE = "command_line"
    SETTINGS = "settings"
    DEFINITION = "definition"
    SESSION_USAGE = "session_usage"
    SESSION_COMPACTION = "session_compaction"
    CONTEXT_REPORT = "context_report"
    API_ERROR = "api_error"
    OTHER_SESSIONS = "other_sessions"
    TABLE = "model_table"
    ASSUMED = "assumed"


SOURCE_DESCRIPTIONS: Final = {
    ClaimSource.POLICY: "your policy sets it (limit.override)",
    ClaimSource.PLUGIN: "the client itself measured it (plugin)",
    ClaimSource.STATUS_LINE: "the client's status line said so",
    ClaimSource.ENVIRONMENT: "an environment variable of the client sets it",
    ClaimSource.COMMAND_LINE: "the client's command line sets it (--autocompact)",
    ClaimSource.SETTINGS: "a settings file sets it",
    ClaimSource.DEFINITION: "the agent's definition sets it",
    ClaimSource.SESSION_USAGE: "this session used more than 200,000",
    ClaimSource.SESSION_COMPACTION: "this session was compacted there",
    ClaimSource.CONTEXT_REPORT: "/context said so in this session",
    ClaimSource.API_ERROR: "the API refused a prompt above it",
    ClaimSource.OTHER_SESSIONS: "other sessions of this model and version show it",
    ClaimSource.TABLE: "known of this model and client version",
    ClaimSource.ASSUMED: "assumed: the model is not known",
}
"""The evidence in words for a person."""


class Claim(msgspec.Struct, frozen=True):
    """A size in tokens that a source claims; None is that there is none."""

    tokens: int | None
    source: ClaimSource


class ChosenClaim(msgspec.Struct, frozen=True):
    """The claim that is believed, and those that contradict it."""

    winner: Claim
    contradicting: tuple[Claim, ...] = ()


def choose_claim(claims: Sequence[Claim]) -> ChosenClaim:
    """Believe the first claim; keep those of a real source that say something else.

    The claims stand in the order of their strength, the last one always holds (R: the
    issue's order). What a table says is no contradiction to what was seen.
    """
    winner = claims[0]
    others = [
        claim
        for claim in claims[1:]
        if claim.source not in {ClaimSource.TABLE, ClaimSource.ASSUMED}
        and claim.tokens != winner.tokens
    ]
    return ChosenClaim(winner, tuple(others))


MIN_CONFIGURED_WINDOW: Final = 100_000
MAX_CONFIGURED_WINDOW: Final = 1_000_000
"""Tokens; the client clamps the variable to these, and ignores a setting below the first
(formats 3.5; seen in 2.1.329)."""

AUTO_COMPACT_VARIABLES: Final = (
    "CLAUDE_AUTOCOMPACT_PCT_OVERRIDE",
    "CLAUDE_CODE_AUTO_COMPACT_WINDOW",
    "CLAUDE_CODE_DISABLE_1M_CONTEXT",
    "CLAUDE_CODE_MAX_CONTEXT_TOKENS",
    "CLAUDE_CODE_MAX_OUTPUT_TOKENS",
    "DISABLE_AUTO_COMPACT",
    "DISABLE_COMPACT",
)
"""What of a client's environment decides when it compacts; nothing else of it is looked at."""


AUTO_COMPACT_OPTION: Final = "--autocompact"
"""The client's option; its value is kept among the variables, under the option's name."""

AUTO_WINDOW: Final = "auto"

SHORTHAND_LIMIT: Final = 10_000
"""The option takes 200 for 200,000 (client 2.1.329 says so of itself)."""


class PercentClaim(msgspec.Struct, frozen=True):
    """A share of the effective window, 0 to 100, and who set it."""

    value: float
    source: ClaimSource


class AutoCompactConfig(msgspec.Struct, frozen=True):
    """What is set; None where nobody set anything."""

    disabled_by: ClaimSource | None = None  # who switched automatic compaction off
    window: Claim | None = None
    """Where the client believes its window to end when it compacts, in tokens."""
    percent: PercentClaim | None = None
    """Compaction comes at this share of the effective window, if that is earlier."""
    large_window_disabled_by: ClaimSource | None = None
    """Who holds models with a large window to the small one."""
    max_context: Claim | None = None
    """The window of a model that the client does not know, in tokens."""
    max_output: int | None = None  # tokens of an answer


DEFAULT_AUTO_COMPACT: Final = AutoCompactConfig()


class _Variable(msgspec.Struct, frozen=True):
    text: str
    source: ClaimSource


def read_auto_compact_config(
    settings: Mapping[str, ResolvedSetting], environment: Mapping[str, str], model: str | None
) -> AutoCompactConfig:
    """Read what holds for a model (formats 3.5; each rule tried on client 2.1.329).

    What settings put into the environment wins over what the client was started with, a
    variable over the option of the command line, that over a setting, and a setting for the
    model over one for all.
    """
    variables = {
        name: variable
        for name in AUTO_COMPACT_VARIABLES
        if (variable := _find_variable(name, settings, environment)) is not None
    }
    return AutoCompactConfig(
        disabled_by=_switched_off(variables, settings),
        window=_configured_window(variables, environment.get(AUTO_COMPACT_OPTION), settings, model),
        percent=_percent(variables),
        large_window_disabled_by=_source_if_true(variables.get("CLAUDE_CODE_DISABLE_1M_CONTEXT")),
        max_context=_token_claim(variables.get("CLAUDE_CODE_MAX_CONTEXT_TOKENS")),
        max_output=_parse_tokens(variables.get("CLAUDE_CODE_MAX_OUTPUT_TOKENS")),
    )


def _find_variable(
    name: str, settings: Mapping[str, ResolvedSetting], environment: Mapping[str, str]
) -> _Variable | None:
    setting = settings.get(f"env.{name}")
    if setting is not None:
        value = setting.value
        text = str(value).lower() if isinstance(value, bool) else str(value)
        return _Variable(text, ClaimSource.SETTINGS)
    text = environment.get(name, "")
    return _Variable(text, ClaimSource.ENVIRONMENT) if text else None


def _switched_off(
    variables: Mapping[str, _Variable], settings: Mapping[str, ResolvedSetting]
) -> ClaimSource | None:
    for name in ("DISABLE_COMPACT", "DISABLE_AUTO_COMPACT"):
        if source := _source_if_true(variables.get(name)):
            return source
    enabled = settings.get("autoCompactEnabled")
    return ClaimSource.SETTINGS if enabled is not None and enabled.value is False else None


def _configured_window(
    variables: Mapping[str, _Variable],
    option: str | None,
    settings: Mapping[str, ResolvedSetting],
    model: str | None,
) -> Claim | None:
    variable = _token_claim(variables.get("CLAUDE_CODE_AUTO_COMPACT_WINDOW"))
    if variable and variable.tokens:
        clamped = min(max(variable.tokens, MIN_CONFIGURED_WINDOW), MAX_CONFIGURED_WINDOW)
        return Claim(clamped, variable.source)
    if option == AUTO_WINDOW:
        return None
    tokens = _parse_tokens(_Variable(option, ClaimSource.COMMAND_LINE)) if option else None
    if tokens:
        tokens *= 1_000 if tokens < SHORTHAND_LIMIT else 1
        return Claim(
            min(max(tokens, MIN_CONFIGURED_WINDOW), MAX_CONFIGURED_WINDOW), ClaimSource.COMMAND_LINE
        )
    for setting in (_setting_for_model(settings, model), settings.get("autoCompactWindow")):
        value = setting.value if setting else None
        if (
            isinstance(value, int)
            and not isinstance(value, bool)
            and value >= MIN_CONFIGURED_WINDOW
        ):
            return Claim(min(value, MAX_CONFIGURED_WINDOW), ClaimSource.SETTINGS)
    return None


def _setting_for_model(
    settings: Mapping[str, ResolvedSetting], model: str | None
) -> ResolvedSetting | None:
    for key, setting in settings.items():
        if key.startswith("modelSettings.") and key.endswith(".autoCompactWindow") and model:
            named = key.removeprefix("modelSettings.").removesuffix(".autoCompactWindow")
            if matches_model(named, model):
                return setting
    return None


def _percent(variables: Mapping[str, _Variable]) -> PercentClaim | None:
    variable = variables.get("CLAUDE_AUTOCOMPACT_PCT_OVERRIDE")
    if variable is None:
        return None
    try:
        value = float(variable.text)
    except ValueError:
        return None
    return PercentClaim(value, variable.source) if 0 < value <= 100 else None


def _token_claim(variable: _Variable | None) -> Claim | None:
    tokens = _parse_tokens(variable)
    return Claim(tokens, variable.source) if variable and tokens else None


def _parse_tokens(variable: _Variable | None) -> int | None:
    """Read a number of tokens; the client takes `500k` for 500,000 (seen in 2.1.329)."""
    found = re.fullmatch(r"\s*(\d{1,9})\s*([kKmM]?)\s*", variable.text) if variable else None
    if not found:
        return None
    return int(found[1]) * {"": 1, "k": 1_000, "m": 1_000_000}[found[2].lower()] or None


def _source_if_true(variable: _Variable | None) -> ClaimSource | None:
    said = variable and variable.text.strip().lower() in {"1", "true", "yes", "on"}
    return variable.source if variable and said else None


class Window(msgspec.Struct, frozen=True):
    """A window in tokens, and how we know."""

    tokens: int
    source: ClaimSource
    contradicting: tuple[Claim, ...] = ()  # weaker evidence that says another size

    @property
    def why(self) -> str:
        """The evidence in words for a person."""
        return SOURCE_DESCRIPTIONS[self.source]


class WindowEvidence(msgspec.Struct, frozen=True):
    """What was seen that tells a window; tokens, None where nothing was seen."""

    model: str | None
    asked_model: str | None = None
    """The same with its mark for a large window, where the session was asked for it."""
    version: ClientVersion | None = None
    config: AutoCompactConfig = DEFAULT_AUTO_COMPACT
    policy_tokens: int | None = None  # what a person sets for this model: above all evidence (T-26)
    plugin_tokens: int | None = None
    """What the module inside the client was told of this session with this model."""
    status_line_tokens: int | None = None  # `context_window_size` of this session with this model
    session_peak_tokens: int = 0  # most that an answer of this model saw in this session
    compacted_window: int | None = None
    """The only window whose trigger the session's own automatic compactions fit."""
    report_tokens: int | None = None  # window that `/context` named in this session
    limit_tokens: int | None = None  # the maximum that a refused prompt of this session was told
    others_tokens: int | None = None  # window that other sessions of this model and version show


def find_window(evidence: WindowEvidence) -> Window:
    """Decide the window in tokens by the strongest claim."""
    verdict = choose_claim(window_claims(evidence))
    winner = verdict.winner
    return Window(winner.tokens or SMALL_WINDOW, winner.source, verdict.contradicting)


def window_claims(evidence: WindowEvidence) -> list[Claim]:
    """List what is claimed of the window, in tokens, the strongest first.

    Source: the issue's order; peers 0.1, formats 3.4. What the client said and a later answer
    outgrew is of an earlier setting and is no claim.
    """
    peak = evidence.session_peak_tokens
    claims: list[Claim] = []
    if evidence.policy_tokens:
        claims.append(Claim(evidence.policy_tokens, ClaimSource.POLICY))
    claims += [
        Claim(tokens, source)
        for tokens, source in (
            (evidence.plugin_tokens, ClaimSource.PLUGIN),
            (evidence.status_line_tokens, ClaimSource.STATUS_LINE),
        )
        if tokens and peak <= tokens
    ]
    said = _configured_claim(evidence)
    if said and (said.tokens or 0) >= peak:
        claims.append(said)
    if peak > SMALL_WINDOW:
        claims.append(Claim(max(LARGE_WINDOW, peak), ClaimSource.SESSION_USAGE))
    claims += [
        Claim(tokens, source)
        for tokens, source in (
            (evidence.compacted_window, ClaimSource.SESSION_COMPACTION),
            (evidence.report_tokens, ClaimSource.CONTEXT_REPORT),
            (evidence.limit_tokens, ClaimSource.API_ERROR),
            (evidence.others_tokens, ClaimSource.OTHER_SESSIONS),
        )
        if tokens and tokens >= peak
    ]
    known = table_window(evidence.asked_model or evidence.model, evidence.version)
    claims.append(
        Claim(known, ClaimSource.TABLE)
        if known
        else Claim(unknown_model_window(evidence.version), ClaimSource.ASSUMED)
    )
    return claims


def requested_large_model(asked: str | None, model: str | None) -> str | None:
    """Return `asked` if it asks for the large window of `model`, else None."""
    if (
        asked
        and asked.endswith(LARGE_WINDOW_SUFFIX)
        and asked.removesuffix(LARGE_WINDOW_SUFFIX) == model
    ):
        return asked
    return None


def _configured_claim(evidence: WindowEvidence) -> Claim | None:
    setup, asked = evidence.config, evidence.asked_model or evidence.model
    if setup.large_window_disabled_by and table_window(asked, evidence.version) == LARGE_WINDOW:
        return Claim(SMALL_WINDOW, setup.large_window_disabled_by)
    # Of a model that it knows the client believes no variable (seen in 2.1.329).
    return setup.max_context if known_model(evidence.model) is None else None
