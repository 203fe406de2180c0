"""Why a session's window and trigger are believed: every claim, and how it stands."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Final

import msgspec

from .claims import Claim, Source, decide
from .evidence import Evidence, read_facts
from .policy.layers import COMMON
from .sessions import seen_of
from .store import queries

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterator, Sequence

    from .policy.layers import Policies


class Sureness(StrEnum):
    """How far a source can be wrong, surest first."""

    CERTAIN = "certain"
    """The client itself said so, or a person decides it."""
    SEEN = "seen"
    """What happened shows it."""
    LIKELY = "likely"
    """It held where it was looked at, elsewhere."""
    ASSUMED = "assumed"


SURENESS: Final = {
    Source.POLICY: Sureness.CERTAIN,
    Source.PLUGIN: Sureness.CERTAIN,
    Source.STATUS_LINE: Sureness.CERTAIN,
    Source.ENVIRONMENT: Sureness.CERTAIN,
    Source.COMMAND_LINE: Sureness.CERTAIN,
    Source.SETTINGS: Sureness.CERTAIN,
    Source.DEFINITION: Sureness.CERTAIN,
    Source.SESSION_USAGE: Sureness.SEEN,
    Source.SESSION_COMPACTION: Sureness.SEEN,
    Source.CONTEXT_REPORT: Sureness.SEEN,
    Source.API_ERROR: Sureness.SEEN,
    Source.OTHER_SESSIONS: Sureness.LIKELY,
    Source.TABLE: Sureness.LIKELY,
    Source.ASSUMED: Sureness.ASSUMED,
}


class Standing(StrEnum):
    """What became of a claim."""

    BELIEVED = "believed"
    AGREES = "agrees"
    CONTRADICTS = "contradicts"
    """Something real says another size, and is overruled by what is stronger."""
    REPLACED = "replaced"
    """The table says another size; what was seen stands above it."""


class Subject(StrEnum):
    """What a claim is of."""

    WINDOW = "window"
    TRIGGER = "trigger"


class Reason(msgspec.Struct, frozen=True):
    """A claim of a size in tokens, and how it stands."""

    subject: Subject
    claim: Claim
    status: Standing
    certainty: Sureness


def read_reasons(
    db: sqlite3.Connection, session_id: str, policies: Policies = COMMON
) -> tuple[Reason, ...]:
    """List every claim of a session's window, then of its trigger, the strongest first."""
    evidence = Evidence(read_facts(db), policies)
    for row in queries.sessions(db, [session_id]):
        window, trigger = evidence.claims_of(seen_of(row))
        return (*reasons_of(Subject.WINDOW, window), *reasons_of(Subject.TRIGGER, trigger))
    return ()


def reasons_of(subject: Subject, claims: Sequence[Claim]) -> Iterator[Reason]:
    """Say how claims stand that are in the order of their strength."""
    verdict = decide(claims)
    for place, claim in enumerate(claims):
        if place == 0:
            standing = Standing.BELIEVED
        elif claim in verdict.contradicting:
            standing = Standing.CONTRADICTS
        elif claim.tokens == verdict.winner.tokens:
            standing = Standing.AGREES
        else:
            standing = Standing.REPLACED
        yield Reason(subject, claim, standing, SURENESS[claim.source])
