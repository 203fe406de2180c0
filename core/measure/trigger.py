"""Where the client compacts a context automatically, and how we know."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import msgspec

from .models import ClientVersion, is_armed, max_output_tokens
from .window import (
    DEFAULT_AUTO_COMPACT,
    SOURCE_DESCRIPTIONS,
    AutoCompactConfig,
    Claim,
    ClaimSource,
    choose_claim,
)

OUTPUT_RESERVE: Final = 20_000
"""Tokens kept free for an answer, at the most (formats 3.5; tried on 2.1.329)."""

OLD_OUTPUT_RESERVE: Final = 32_000
"""The same before 2.1.21, when the whole answer was kept free (changelog 2.1.21)."""

OLD_OUTPUT_RESERVE_BEFORE: Final = (2, 1, 21)

TRIGGER_BUFFER: Final = 13_000
"""Tokens between the trigger and the end of the effective window (formats 3.5)."""

MIN_TRIGGER_SHARE: Final = 0.5
"""Of the window: an automatic boundary below it was made because a prompt was refused."""


class Trigger(msgspec.Struct, frozen=True):
    """The trigger in tokens of the compaction counter, or None where it is not armed."""

    tokens: int | None
    source: ClaimSource
    contradicting: tuple[Claim, ...] = ()  # weaker evidence that says another size

    @property
    def why(self) -> str:
        """The evidence in words for a person."""
        if self.tokens is not None:
            return SOURCE_DESCRIPTIONS[self.source]
        return _NOT_ARMED_REASONS.get(self.source, f"not armed: {SOURCE_DESCRIPTIONS[self.source]}")


_NOT_ARMED_REASONS: Final = {
    ClaimSource.TABLE: "not armed: this model is compacted only when the API refuses a prompt",
    ClaimSource.SESSION_COMPACTION: (
        "not armed: this session was compacted only at its window's end"
    ),
    ClaimSource.CONTEXT_REPORT: "not armed: /context drew no buffer for it",
    ClaimSource.SETTINGS: "switched off by a settings file",
    ClaimSource.ENVIRONMENT: "switched off by an environment variable of the client",
}


class AutoCompaction(msgspec.Struct, frozen=True):
    """An automatic compaction: the trigger lies above `low` and not above `high`, in tokens."""

    low: int  # what an earlier request held, which was sent without a compaction
    high: int  # the counter when the client compacted: `preTokens`
    armed: bool | None = None
    """It came before a request (True), or because the API refused one (False); None where the
    client writes no requests down."""


class TriggerEvidence(msgspec.Struct, frozen=True):
    """What was seen that tells a trigger."""

    model: str | None  # as it was asked for, with its mark where there is one
    version: ClientVersion | None
    window: int  # tokens
    config: AutoCompactConfig = DEFAULT_AUTO_COMPACT
    declared_window: int | None = None
    """Tokens; an agent's definition ends its window here, if that is earlier."""
    own_compactions: tuple[AutoCompaction, ...] = ()
    """Automatic compactions of this session with this window."""
    report: Claim | None = None  # what `/context` drew in this session
    other_compactions: tuple[AutoCompaction, ...] = ()
    """Those of other sessions of this model and version."""
    answer_tokens: int = 0
    """Tokens that the last answer saw: what it has passed by is no trigger any more."""


def find_trigger(evidence: TriggerEvidence) -> Trigger:
    """Decide the trigger (R: the issue's order; reference: formats 3.5, peers 0.2).

    What sessions show is believed over the table, and names the table's value where that
    explains it.
    """
    verdict = choose_claim(list(trigger_claims(evidence)))
    winner = verdict.winner
    return Trigger(winner.tokens, winner.source, verdict.contradicting)


def trigger_tokens(
    window: int, config: AutoCompactConfig, model: str | None, version: ClientVersion | None
) -> int:
    """Tokens at which an armed client compacts: window - min(max output, 20,000) - 13,000.

    Source: formats 3.5; 2.1.329 compacted at each value of it that was tried: windows of
    100,000 to 1,000,000, percentages of 12.5 to 99, and answers of 8,000 and more.
    """
    if version and version < OLD_OUTPUT_RESERVE_BEFORE:
        reserve = OLD_OUTPUT_RESERVE
    else:
        reserve = min(config.max_output or max_output_tokens(model), OUTPUT_RESERVE)
    effective = window - reserve
    tokens = effective - TRIGGER_BUFFER
    if config.percent:
        tokens = min(int(effective * config.percent.value / 100), tokens)
    return max(tokens, 0)


def learn_trigger(
    observed: Iterable[AutoCompaction], expected: Iterable[int], window: int
) -> int | None:
    """Learn a trigger in tokens from automatic compactions; None where they tell nothing.

    The first expected value that explains them, else the smallest counter at which the
    client compacted. One below half the window answered a refused prompt, where nobody knows
    that it did not.
    """
    told = [
        each
        for each in observed
        if each.armed is not False
        and (each.armed or each.high > window * MIN_TRIGGER_SHARE)
        and each.high <= window - OUTPUT_RESERVE
    ]
    if not told:
        return None
    explaining = (tokens for tokens in expected if explains_compactions(told, tokens))
    return next(explaining, min(each.high for each in told))


def never_armed(observed: Iterable[AutoCompaction], expected: int, window: int) -> bool:
    """Whether a session ran past its trigger and compacted only at the end of the window."""
    told = [each for each in observed if each.high > window * MIN_TRIGGER_SHARE]
    return bool(told) and all(
        each.low > expected and window - OUTPUT_RESERVE < each.high <= window for each in told
    )


def explains_compactions(observed: Iterable[AutoCompaction], tokens: int) -> bool:
    """Whether the automatic compactions are consistent with a trigger at `tokens`."""
    told = list(observed)
    return bool(told) and all(each.low < tokens <= each.high for each in told)


def trigger_claims(evidence: TriggerEvidence) -> Iterable[Claim]:
    """Yield the claims about the trigger, in tokens, strongest first."""
    setup, window = evidence.config, evidence.window
    expected = _expected_trigger(evidence, window)
    causes: tuple[int, ...] = (expected,)
    if setup.disabled_by:
        yield Claim(None, setup.disabled_by)
    elif declared := _declared_window(evidence):
        ends = _expected_trigger(evidence, min(window, declared.tokens or window))
        yield Claim(ends, declared.source)
        # A compaction at the declared trigger confirms it.
        causes = (ends, expected)
    own = learn_trigger(evidence.own_compactions, causes, window)
    if own and own >= evidence.answer_tokens:
        yield Claim(own, ClaimSource.SESSION_COMPACTION)
    elif never_armed(evidence.own_compactions, expected, window):
        yield Claim(None, ClaimSource.SESSION_COMPACTION)
    if (
        evidence.report
        and (evidence.report.tokens or evidence.answer_tokens) >= evidence.answer_tokens
    ):
        yield evidence.report
    if others := learn_trigger(evidence.other_compactions, (expected,), window):
        yield Claim(others, ClaimSource.OTHER_SESSIONS)
    armed = is_armed(evidence.model, evidence.version, window)
    yield Claim(expected if armed else None, ClaimSource.TABLE)


def _declared_window(evidence: TriggerEvidence) -> Claim | None:
    """Find where somebody ends the window; an agent's definition can only lower it."""
    window, declared = evidence.config.window, evidence.declared_window
    if declared and (window is None or declared < (window.tokens or 0)):
        return Claim(declared, ClaimSource.DEFINITION)
    return window


def _expected_trigger(evidence: TriggerEvidence, window: int) -> int:
    return trigger_tokens(window, evidence.config, evidence.model, evidence.version)
