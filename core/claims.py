"""Claims: what a piece of evidence says of a size, and which of several is believed."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Final

import msgspec

if TYPE_CHECKING:
    from collections.abc import Sequence


class Source(StrEnum):
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


WORDS: Final = {
    Source.POLICY: "your policy sets it (limit.override)",
    Source.PLUGIN: "the client itself measured it (plugin)",
    Source.STATUS_LINE: "the client's status line said so",
    Source.ENVIRONMENT: "an environment variable of the client sets it",
    Source.COMMAND_LINE: "the client's command line sets it (--autocompact)",
    Source.SETTINGS: "a settings file sets it",
    Source.DEFINITION: "the agent's definition sets it",
    Source.SESSION_USAGE: "this session used more than 200,000",
    Source.SESSION_COMPACTION: "this session was compacted there",
    Source.CONTEXT_REPORT: "/context said so in this session",
    Source.API_ERROR: "the API refused a prompt above it",
    Source.OTHER_SESSIONS: "other sessions of this model and version show it",
    Source.TABLE: "known of this model and client version",
    Source.ASSUMED: "assumed: the model is not known",
}
"""The evidence in words for a person."""


class Claim(msgspec.Struct, frozen=True):
    """A size in tokens that a source claims; None is that there is none."""

    tokens: int | None
    source: Source


class Verdict(msgspec.Struct, frozen=True):
    """The claim that is believed, and those that contradict it."""

    winner: Claim
    contradicting: tuple[Claim, ...] = ()


def decide(claims: Sequence[Claim]) -> Verdict:
    """Believe the first claim; keep those of a real source that say something else.

    The claims stand in the order of their strength, the last one always holds (R: the
    issue's order). What a table says is no contradiction to what was seen.
    """
    winner = claims[0]
    others = [
        claim
        for claim in claims[1:]
        if claim.source not in {Source.TABLE, Source.ASSUMED} and claim.tokens != winner.tokens
    ]
    return Verdict(winner, tuple(others))
