"""How large a model's window is, by the best evidence there is, and which that was."""

from __future__ import annotations

import msgspec

from .claims import WORDS, Claim, Source, decide
from .client_setup import NOTHING_SET, ClientSetup
from .models import (
    LARGE_MARK,
    LARGE_WINDOW,
    SMALL_WINDOW,
    Version,
    known_model,
    table_window,
    unknown_window,
)


class Window(msgspec.Struct, frozen=True):
    """A window in tokens, and how we know."""

    tokens: int
    source: Source
    contradicting: tuple[Claim, ...] = ()
    """Weaker evidence that says another size."""

    @property
    def why(self) -> str:
        """The evidence in words for a person."""
        return WORDS[self.source]


class WindowEvidence(msgspec.Struct, frozen=True):
    """What was seen that tells a window; tokens, None where nothing was seen."""

    model: str | None
    asked_model: str | None = None
    """The same with its mark for a large window, where the session was asked for it."""
    version: Version | None = None
    config: ClientSetup = NOTHING_SET
    policy_tokens: int | None = None
    """What a person sets for this model: above all evidence (T-26)."""
    plugin_tokens: int | None = None
    """What the module inside the client was told of this session with this model."""
    status_line_tokens: int | None = None
    """`context_window_size` of this session with this model."""
    session_peak_tokens: int = 0
    """Most that an answer of this model saw in this session."""
    compacted_window: int | None = None
    """The only window whose trigger the session's own automatic compactions fit."""
    report_tokens: int | None = None
    """Window that `/context` named in this session."""
    limit_tokens: int | None = None
    """The maximum that a refused prompt of this session was told."""
    others_tokens: int | None = None
    """Window that other sessions of this model and version show."""


def find_window(evidence: WindowEvidence) -> Window:
    """Decide the window in tokens by the strongest claim."""
    verdict = decide(window_claims(evidence))
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
        claims.append(Claim(evidence.policy_tokens, Source.POLICY))
    claims += [
        Claim(tokens, source)
        for tokens, source in (
            (evidence.plugin_tokens, Source.PLUGIN),
            (evidence.status_line_tokens, Source.STATUS_LINE),
        )
        if tokens and peak <= tokens
    ]
    said = _by_setup(evidence)
    if said and (said.tokens or 0) >= peak:
        claims.append(said)
    if peak > SMALL_WINDOW:
        claims.append(Claim(max(LARGE_WINDOW, peak), Source.SESSION_USAGE))
    claims += [
        Claim(tokens, source)
        for tokens, source in (
            (evidence.compacted_window, Source.SESSION_COMPACTION),
            (evidence.report_tokens, Source.CONTEXT_REPORT),
            (evidence.limit_tokens, Source.API_ERROR),
            (evidence.others_tokens, Source.OTHER_SESSIONS),
        )
        if tokens and tokens >= peak
    ]
    known = table_window(evidence.asked_model or evidence.model, evidence.version)
    claims.append(
        Claim(known, Source.TABLE)
        if known
        else Claim(unknown_window(evidence.version), Source.ASSUMED)
    )
    return claims


def asked_large(asked: str | None, model: str | None) -> str | None:
    """Take the client's own name of the model where it asks for the large window of the same."""
    if asked and asked.endswith(LARGE_MARK) and asked.removesuffix(LARGE_MARK) == model:
        return asked
    return None


def _by_setup(evidence: WindowEvidence) -> Claim | None:
    setup, asked = evidence.config, evidence.asked_model or evidence.model
    if setup.large_window_disabled_by and table_window(asked, evidence.version) == LARGE_WINDOW:
        return Claim(SMALL_WINDOW, setup.large_window_disabled_by)
    # Of a model that it knows the client believes no variable (seen in 2.1.329).
    return setup.max_context if known_model(evidence.model) is None else None
