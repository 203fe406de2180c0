"""Finds how large a window is and where the client compacts, by the best evidence."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final

import msgspec

from ..model import claude_models
from ..model.claude_models import LARGE_WINDOW, SMALL_WINDOW, ClientVersion
from ..model.context_window import (
    OUTPUT_RESERVE,
    TRIGGER_BUFFER,
    Claim,
    ClaimSource,
    Trigger,
    Window,
    choose_claim,
)

if TYPE_CHECKING:
    from .effective_config import ResolvedSetting


MIN_CONFIGURED_WINDOW: Final = 100_000
MAX_CONFIGURED_WINDOW: Final = 1_000_000
"""Tokens; the client clamps the variable to these, and ignores a setting below the first
(formats 3.5; seen in 2.1.329)."""

AUTO_COMPACT_VARIABLES: Final = (
    "CLAUDE_AUTOCOMPACT_PCT_OVERRIDE",
    "CLAUDE_CODE_AUTO_COMPACT_WINDOW",
    "CLAUDE_CODE_DISABLE_1M_CONTEXT",
    "CLAUDE_CODE_IDLE_COMPACT_MIN_TOKENS",
    "CLAUDE_CODE_MAX_CONTEXT_TOKENS",
    "CLAUDE_CODE_MAX_OUTPUT_TOKENS",
    "DISABLE_AUTO_COMPACT",
    "DISABLE_COMPACT",
)
"""Variables that decide when a client compacts; nothing else of its environment is read."""

AUTO_COMPACT_OPTION: Final = "--autocompact"  # kept among the variables, under its own name
SHORTHAND_LIMIT: Final = 10_000  # below, the option counts thousands (client 2.1.329 says so)


class PercentClaim(msgspec.Struct, frozen=True):
    """A share of the effective window, 0 to 100, and who set it."""

    value: float
    source: ClaimSource


# Tokens from which an idle session is compacted, and the least that the variable can set (client
# 2.1.329, its code).
DEFAULT_IDLE_FROM: Final = 200_000
MIN_IDLE_FROM: Final = 100_000


class AutoCompactConfig(msgspec.Struct, frozen=True):
    """The client's configuration of automatic compaction; None where nothing is set."""

    disabled_by: ClaimSource | None = None
    window: Claim | None = None  # where the client ends its window for compaction
    percent: PercentClaim | None = None  # compact at this share, if that is earlier
    large_window_disabled_by: ClaimSource | None = None  # limits large models to the small window
    max_context: Claim | None = None  # the window of a model that the client does not know
    max_output: int | None = None  # tokens of an answer
    idle_from: int | None = DEFAULT_IDLE_FROM
    """Tokens from which the client compacts a session that is idle; None if it never does."""


DEFAULT_AUTO_COMPACT: Final = AutoCompactConfig()


class _Variable(msgspec.Struct, frozen=True):
    text: str
    source: ClaimSource

    @property
    def is_true(self) -> bool:
        return self.text.strip().lower() in {"1", "true", "yes", "on"}

    @property
    def tokens(self) -> int | None:
        """A number of tokens; the client takes `500k` for 500,000 (seen in 2.1.329)."""
        match = re.fullmatch(r"\s*(\d{1,9})\s*([kKmM]?)\s*", self.text)
        if not match:
            return None
        return int(match[1]) * {"": 1, "k": 1_000, "m": 1_000_000}[match[2].lower()] or None


def read_auto_compact_config(
    settings: Mapping[str, ResolvedSetting], environment: Mapping[str, str], model: str | None
) -> AutoCompactConfig:
    """Read the configuration for a model (formats 3.5; each rule tried on client 2.1.329).

    Variables in settings win over those that the client was started with, a variable over the
    command line's option, that over a setting, and a setting for the model over one for all.
    """
    variables = {
        name: variable
        for name in AUTO_COMPACT_VARIABLES
        if (variable := _find_variable(name, settings, environment)) is not None
    }

    def source_if_true(name: str) -> ClaimSource | None:
        variable = variables.get(name)
        return variable.source if variable and variable.is_true else None

    enabled = settings.get("autoCompactEnabled")
    disabled_in_settings = enabled is not None and enabled.value is False
    output = variables.get("CLAUDE_CODE_MAX_OUTPUT_TOKENS")
    disabled_by = (
        source_if_true("DISABLE_COMPACT")
        or source_if_true("DISABLE_AUTO_COMPACT")
        or (ClaimSource.SETTINGS if disabled_in_settings else None)
    )
    idle = settings.get("idleCompaction")
    is_idle_off = disabled_by is not None or (idle is not None and idle.value is False)
    return AutoCompactConfig(
        disabled_by=disabled_by,
        window=_configured_window(variables, environment.get(AUTO_COMPACT_OPTION), settings, model),
        percent=_configured_percent(variables.get("CLAUDE_AUTOCOMPACT_PCT_OVERRIDE")),
        large_window_disabled_by=source_if_true("CLAUDE_CODE_DISABLE_1M_CONTEXT"),
        max_context=_to_claim(variables.get("CLAUDE_CODE_MAX_CONTEXT_TOKENS")),
        max_output=output.tokens if output else None,
        idle_from=None if is_idle_off else _idle_from(variables),
    )


def _idle_from(variables: Mapping[str, _Variable]) -> int:
    variable = variables.get("CLAUDE_CODE_IDLE_COMPACT_MIN_TOKENS")
    tokens = variable.tokens if variable else None
    return max(MIN_IDLE_FROM, DEFAULT_IDLE_FROM if tokens is None else tokens)


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


def _to_claim(variable: _Variable | None) -> Claim | None:
    tokens = variable.tokens if variable else None
    return Claim(tokens, variable.source) if variable and tokens else None


def _configured_window(
    variables: Mapping[str, _Variable],
    option: str | None,
    settings: Mapping[str, ResolvedSetting],
    model: str | None,
) -> Claim | None:
    claim = _to_claim(variables.get("CLAUDE_CODE_AUTO_COMPACT_WINDOW"))
    if claim is None and option == "auto":
        return None
    if claim is None and option:
        claim = _to_claim(_Variable(option, ClaimSource.COMMAND_LINE))
        if claim and claim.tokens and claim.tokens < SHORTHAND_LIMIT:
            claim = Claim(claim.tokens * 1_000, claim.source)
    if claim and claim.tokens:
        clamped = min(max(claim.tokens, MIN_CONFIGURED_WINDOW), MAX_CONFIGURED_WINDOW)
        return Claim(clamped, claim.source)
    for setting in (_setting_for_model(settings, model), settings.get("autoCompactWindow")):
        value = setting.value if setting else None
        if isinstance(value, int) and value >= MIN_CONFIGURED_WINDOW:
            return Claim(min(value, MAX_CONFIGURED_WINDOW), ClaimSource.SETTINGS)
    return None


def _setting_for_model(
    settings: Mapping[str, ResolvedSetting], model: str | None
) -> ResolvedSetting | None:
    for key, setting in settings.items():
        match = re.fullmatch(r"modelSettings\.(.*)\.autoCompactWindow", key, re.DOTALL)
        if match and model and claude_models.matches_model(match[1], model):
            return setting
    return None


def _configured_percent(variable: _Variable | None) -> PercentClaim | None:
    if variable is None:
        return None
    try:
        value = float(variable.text)
    except ValueError:
        return None
    return PercentClaim(value, variable.source) if 0 < value <= 100 else None


class WindowEvidence(msgspec.Struct, frozen=True):
    """The evidence of a window in tokens; None if there is none."""

    model: str | None
    asked_model: str | None = None  # with the large-window suffix, if the session asked for it
    version: ClientVersion | None = None
    config: AutoCompactConfig = DEFAULT_AUTO_COMPACT
    policy_tokens: int | None = None  # a person's setting for this model: above all evidence (T-26)
    plugin_tokens: int | None = None  # measured inside the client in this session with this model
    status_line_tokens: int | None = None  # `context_window_size` of this session with this model
    session_peak_tokens: int = 0  # largest context of this model in this session
    compacted_window: int | None = None  # the only window that fits the session's own compactions
    report_tokens: int | None = None  # by `/context` in this session
    limit_tokens: int | None = None  # the maximum in the error of a refused prompt of this session
    others_tokens: int | None = None  # window of other sessions of this model and version


def find_window(evidence: WindowEvidence) -> Window:
    verdict = choose_claim(window_claims(evidence))
    winner = verdict.winner
    return Window(winner.tokens or SMALL_WINDOW, winner.source, verdict.contradicting)


def window_claims(evidence: WindowEvidence) -> list[Claim]:
    """Return the claims about the window, strongest first.

    Source: the issue's order; peers 0.1, formats 3.4. A size that a later answer outgrew belongs
    to an earlier setting and is no claim.
    """
    peak = evidence.session_peak_tokens
    usage = max(LARGE_WINDOW, peak) if peak > SMALL_WINDOW else None
    claims = [
        Claim(evidence.plugin_tokens, ClaimSource.PLUGIN),
        Claim(evidence.status_line_tokens, ClaimSource.STATUS_LINE),
        _configured_claim(evidence),
        Claim(usage, ClaimSource.SESSION_USAGE),
        Claim(evidence.compacted_window, ClaimSource.SESSION_COMPACTION),
        Claim(evidence.report_tokens, ClaimSource.CONTEXT_REPORT),
        Claim(evidence.limit_tokens, ClaimSource.API_ERROR),
        Claim(evidence.others_tokens, ClaimSource.OTHER_SESSIONS),
    ]
    known = claude_models.table_window(evidence.asked_model or evidence.model, evidence.version)
    unknown = Claim(claude_models.unknown_model_window(evidence.version), ClaimSource.ASSUMED)
    policy = Claim(evidence.policy_tokens, ClaimSource.POLICY)
    return [
        *([policy] if policy.tokens else []),
        *(claim for claim in claims if claim and claim.tokens and claim.tokens >= peak),
        Claim(known, ClaimSource.TABLE) if known else unknown,
    ]


def requested_large_model(asked: str | None, model: str | None) -> str | None:
    is_large = model is not None and asked == f"{model}{claude_models.LARGE_WINDOW_SUFFIX}"
    return asked if is_large else None


def _configured_claim(evidence: WindowEvidence) -> Claim | None:
    config, asked = evidence.config, evidence.asked_model or evidence.model
    if (
        config.large_window_disabled_by
        and claude_models.table_window(asked, evidence.version) == LARGE_WINDOW
    ):
        return Claim(SMALL_WINDOW, config.large_window_disabled_by)
    # The client ignores the variable for models that it knows (seen in 2.1.329).
    return config.max_context if claude_models.known_model(evidence.model) is None else None


OLD_OUTPUT_RESERVE: Final = 32_000
OLD_OUTPUT_RESERVE_BEFORE: Final = (2, 1, 21)  # they kept the whole answer free (changelog 2.1.21)
MIN_TRIGGER_SHARE: Final = 0.5  # of the window: boundaries below followed a refused prompt
MIN_REFUSED_TOKENS: Final = SMALL_WINDOW - OUTPUT_RESERVE
"""The API refuses no smaller prompt of a model of the table: it would leave room for an answer in
the smallest window."""


class AutoCompaction(msgspec.Struct, frozen=True):
    """An automatic compaction: the trigger lies above `low` and not above `high`, in tokens."""

    low: int  # an earlier request, which was sent without a compaction
    high: int  # the counter when the client compacted: `preTokens`
    armed: bool | None = None
    """It came before a request (True), or because the API refused one (False); None if the
    client records no requests."""
    is_precomputed: bool = False
    """Its summary was made at the trigger, and used only once the API refused a prompt."""


class TriggerEvidence(msgspec.Struct, frozen=True):
    model: str | None  # as it was asked for, with its suffix
    version: ClientVersion | None
    window: int  # tokens
    config: AutoCompactConfig = DEFAULT_AUTO_COMPACT
    declared_window: int | None = None  # tokens; where an agent's definition ends its window
    own_compactions: tuple[AutoCompaction, ...] = ()
    """Of this session with this window, oldest first."""
    report: Claim | None = None  # by `/context` in this session
    other_compactions: tuple[AutoCompaction, ...] = ()  # of sessions of this model and version
    answer_tokens: int = 0  # context of the last answer: a trigger below it is outdated
    passed_tokens: int = 0
    """The smaller context of the last two answers, with no compaction between them: a client that
    compacts below it would have done so."""
    compact_hook: str = ""  # a hook that can block the compaction, in words for a person


def find_trigger(evidence: TriggerEvidence) -> Trigger:
    """Return the trigger of the strongest claim (R: the issue's order; formats 3.5, peers 0.2)."""
    verdict = choose_claim(list(trigger_claims(evidence)))
    winner = verdict.winner
    return Trigger(winner.tokens, winner.source, verdict.contradicting, winner.detail)


def trigger_tokens(
    window: int, config: AutoCompactConfig, model: str | None, version: ClientVersion | None
) -> int:
    """Return where an armed client compacts: window - min(max output, 20,000) - 13,000.

    Source: formats 3.5; 2.1.329 compacted at each value that was tried: windows of
    100,000 to 1,000,000, percentages of 12.5 to 99, and answers of 8,000 and more.
    """
    is_old = version is not None and version < OLD_OUTPUT_RESERVE_BEFORE
    effective = window - (OLD_OUTPUT_RESERVE if is_old else _output_reserve(config, model))
    tokens = effective - TRIGGER_BUFFER
    if config.percent:
        tokens = min(int(effective * config.percent.value / 100), tokens)
    return max(tokens, 0)


def _output_reserve(config: AutoCompactConfig, model: str | None) -> int:
    """Return the tokens at the window's end that the client keeps free for an answer."""
    return min(config.max_output or claude_models.max_output_tokens(model), OUTPUT_RESERVE)


def _usable(observed: Iterable[AutoCompaction], window: int, reserve: int) -> list[AutoCompaction]:
    """Select the compactions that show a trigger.

    One below half the window, or with less than a `reserve` left, counts as the answer to a
    refused prompt, unless it is known to be none (`armed`).
    """
    return [
        each
        for each in observed
        if each.armed or (each.armed is None and _is_unforced(each.high, window, reserve))
    ]


def _is_unforced(tokens: int, window: int, reserve: int) -> bool:
    """Whether the API would have accepted a prompt of so many tokens."""
    return window * MIN_TRIGGER_SHARE < tokens <= window - reserve


def _learn_trigger(usable: Sequence[AutoCompaction], expected: Iterable[int]) -> int | None:
    """Learn a trigger in tokens from automatic compactions; None if there are none.

    The first expected value that explains them, else the smallest counter at which the client
    compacted.
    """
    if not usable:
        return None
    explaining = (tokens for tokens in expected if explains_compactions(usable, tokens))
    return next(explaining, min(each.high for each in usable))


def _newest_agreeing(observed: Sequence[AutoCompaction]) -> list[AutoCompaction]:
    """Return the newest of a session's compactions that one trigger explains, oldest first.

    A flag of the server lets a client pass its trigger while the summary is prepared (2.1.330):
    the first compaction that shows it counts, and not those before it.
    """
    agreeing: list[AutoCompaction] = []
    low = 0
    for each in reversed(observed):
        low = max(low, each.low)
        if agreeing and low >= min(each.high, *(other.high for other in agreeing)):
            break
        agreeing.insert(0, each)
    return agreeing


def _is_never_armed(
    observed: Iterable[AutoCompaction], expected: int, window: int, reserve: int
) -> bool:
    """Whether a session passed its trigger by each time, and was compacted only when it had to be.

    A client that checked a turn late compacts before a request, and mostly with room for an answer.
    """
    large = [each for each in observed if each.high > window * MIN_TRIGGER_SHARE]
    return bool(large) and all(
        not each.armed and each.low > expected and window - reserve < each.high <= window
        for each in large
    )


def explains_compactions(observed: Sequence[AutoCompaction], tokens: int) -> bool:
    """Return whether the automatic compactions are consistent with a trigger at `tokens`."""
    return bool(observed) and all(each.low < tokens <= each.high for each in observed)


def trigger_claims(evidence: TriggerEvidence) -> Iterator[Claim]:
    """Yield the claims about the trigger, strongest first.

    Above all is that the session passed the trigger of the strongest one.
    """
    claims = list(_trigger_claims(evidence))
    if is_passed(claims[0].tokens, evidence.passed_tokens):
        yield Claim(None, ClaimSource.SESSION_ANSWERS, evidence.compact_hook)
    yield from claims


def is_passed(trigger: int | None, passed_tokens: int) -> bool:
    return trigger is not None and trigger <= passed_tokens


def _trigger_claims(evidence: TriggerEvidence) -> Iterator[Claim]:
    config, window, peak = evidence.config, evidence.window, evidence.answer_tokens

    def trigger_in(size: int) -> int:
        return trigger_tokens(size, config, evidence.model, evidence.version)

    expected = trigger_in(window)
    causes: tuple[int, ...] = (expected,)
    if config.disabled_by:
        yield Claim(None, config.disabled_by)
    elif declared := _declared_window(evidence):
        ends = trigger_in(min(window, declared.tokens or window))
        yield Claim(ends, declared.source)
        # A compaction at the declared trigger confirms it.
        causes = (ends, expected)
    reserve = _output_reserve(config, evidence.model)
    usable = _usable(evidence.own_compactions, window, reserve)
    own = _learn_trigger(_newest_agreeing(usable), causes)
    if own and own >= peak:
        yield Claim(own, ClaimSource.SESSION_COMPACTION)
    elif _is_never_armed(evidence.own_compactions, expected, window, reserve):
        yield Claim(None, ClaimSource.SESSION_COMPACTION)
    if evidence.report and (evidence.report.tokens or peak) >= peak:
        yield evidence.report
    if others := _learn_trigger(_usable(evidence.other_compactions, window, reserve), (expected,)):
        yield Claim(others, ClaimSource.OTHER_SESSIONS)
    armed = claude_models.is_armed(evidence.model, evidence.version, window)
    yield Claim(expected if armed else None, ClaimSource.TABLE)


def _declared_window(evidence: TriggerEvidence) -> Claim | None:
    """Return where somebody ends the window; an agent's definition can only lower it."""
    window, declared = evidence.config.window, evidence.declared_window
    if declared and (window is None or declared < (window.tokens or 0)):
        return Claim(declared, ClaimSource.DEFINITION)
    return window
