"""A context's window, where the client compacts it, and the claims that they are chosen from."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import Final, Self

import msgspec

from .claude_models import LARGE_WINDOW


class Certainty(StrEnum):
    """How far a source can be wrong, surest first."""

    CERTAIN = "certain"  # the client said so, or a person decided it
    SEEN = "seen"  # the session's own events show it
    LIKELY = "likely"  # it held wherever else it was checked
    ASSUMED = "assumed"


_CERTAIN, _SEEN, _LIKELY, _ASSUMED = Certainty


class ClaimSource(StrEnum):
    """Where a claim comes from, strongest first, with the evidence in words for a person."""

    description: str
    certainty: Certainty

    def __new__(cls, value: str, description: str, certainty: Certainty) -> Self:
        source = str.__new__(cls, value)
        source._value_, source.description, source.certainty = value, description, certainty
        return source

    POLICY = "policy", "set by you (limit.override)", _CERTAIN
    PLUGIN = "plugin", "measured by Claude Code itself (plugin)", _CERTAIN
    STATUS_LINE = "status_line", "reported by Claude Code's status line", _CERTAIN
    ENVIRONMENT = "environment", "set by an environment variable of Claude Code", _CERTAIN
    COMMAND_LINE = "command_line", "set on Claude Code's command line (--autocompact)", _CERTAIN
    SETTINGS = "settings", "set by a settings file", _CERTAIN
    DEFINITION = "definition", "set by the agent's definition", _CERTAIN
    SESSION_USAGE = "session_usage", "this session used more than 200,000 tokens", _SEEN
    SESSION_COMPACTION = "session_compaction", "this session was compacted at this size", _SEEN
    SESSION_ANSWERS = "session_answers", "this session continued above it uncompacted", _SEEN
    CONTEXT_REPORT = "context_report", "reported by /context in this session", _SEEN
    API_ERROR = "api_error", "the API refused a longer prompt", _SEEN
    OTHER_SESSIONS = "other_sessions", "seen in other sessions of this model and version", _LIKELY
    TABLE = "model_table", "known for this model and Claude Code version", _LIKELY
    ASSUMED = "assumed", "assumed: the model is unknown", _ASSUMED


class Claim(msgspec.Struct, frozen=True):
    """A source's claim of a size in tokens; None claims that there is none."""

    tokens: int | None
    source: ClaimSource
    detail: str = ""  # what of the source's it is, in words for a person


class ChosenClaim(msgspec.Struct, frozen=True):
    winner: Claim
    contradicting: tuple[Claim, ...] = ()


def choose_claim(claims: Sequence[Claim]) -> ChosenClaim:
    """Believe the first claim, and keep those that contradict it (R: the issue's order).

    `claims` are sorted, strongest first, and never empty. A table's value does not contradict
    what was seen.
    """
    winner = claims[0]
    tables = {ClaimSource.TABLE, ClaimSource.ASSUMED}
    others = [
        claim
        for claim in claims[1:]
        if claim.source not in tables and claim.tokens != winner.tokens
    ]
    return ChosenClaim(winner, tuple(others))


class Window(msgspec.Struct, frozen=True):
    tokens: int
    source: ClaimSource
    contradicting: tuple[Claim, ...] = ()  # weaker evidence of another size
    limit: int | None = None
    """Tokens by which the policy measures; None if by this window, 0 if it measures nothing."""

    @property
    def why(self) -> str:
        return self.source.description


UNKNOWN_WINDOW: Final = Window(LARGE_WINDOW, ClaimSource.ASSUMED)  # of what could not be read


OUTPUT_RESERVE: Final = 20_000  # maximum kept free for an answer (formats 3.5; tried on 2.1.329)


TRIGGER_BUFFER: Final = 13_000  # tokens between trigger and effective window (formats 3.5)


_NOT_ARMED_REASONS: Final = {
    ClaimSource.TABLE: "not armed: this model is compacted only after the API has refused a prompt",
    ClaimSource.SESSION_COMPACTION: (
        "not armed: this session was compacted only at the end of its window"
    ),
    ClaimSource.SESSION_ANSWERS: ("not compacted: two answers in a row were above the trigger"),
    ClaimSource.CONTEXT_REPORT: "not armed: /context showed no buffer for it",
    ClaimSource.SETTINGS: "turned off by a settings file",
    ClaimSource.ENVIRONMENT: "turned off by an environment variable of Claude Code",
}


class Trigger(msgspec.Struct, frozen=True):
    """The trigger in tokens of the compaction counter, or None if it is not armed."""

    tokens: int | None
    source: ClaimSource
    contradicting: tuple[Claim, ...] = ()  # weaker evidence of another size
    detail: str = ""  # the believed claim's

    @property
    def why(self) -> str:
        return claim_reason(Claim(self.tokens, self.source, self.detail))

    @property
    def is_passed(self) -> bool:
        """Whether the session passed its trigger and was not compacted: nothing will do it."""
        return self.source is ClaimSource.SESSION_ANSWERS


def claim_reason(claim: Claim) -> str:
    """Describe why a trigger is claimed, or that there is none."""
    source = claim.source
    if claim.tokens is None:
        reason = _NOT_ARMED_REASONS.get(source, f"not armed: {source.description}")
    else:
        reason = source.description
    return f"{reason}; {claim.detail}" if claim.detail else reason
