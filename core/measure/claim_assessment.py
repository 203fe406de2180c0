"""Every claim about a session's window and trigger, and whether it was believed."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Final

import msgspec

from ..model.session import context_evidence
from ..policy.resolve import DEFAULT_POLICIES
from ..store.queries import session_queries
from .evidence import Evidence, read_evidence_rows
from .window import Claim, ClaimSource, choose_claim

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterable, Iterator, Sequence

    from ..policy.resolve import Policies
    from ..store.queries.log_queries import MeasurementComparisonRow


class Certainty(StrEnum):
    """How far a source can be wrong, surest first."""

    CERTAIN = "certain"
    """The client itself said so, or a person decides it."""
    SEEN = "seen"
    """What happened shows it."""
    LIKELY = "likely"
    """It held where it was looked at, elsewhere."""
    ASSUMED = "assumed"


CERTAINTY_OF_SOURCE: Final = {
    ClaimSource.POLICY: Certainty.CERTAIN,
    ClaimSource.PLUGIN: Certainty.CERTAIN,
    ClaimSource.STATUS_LINE: Certainty.CERTAIN,
    ClaimSource.ENVIRONMENT: Certainty.CERTAIN,
    ClaimSource.COMMAND_LINE: Certainty.CERTAIN,
    ClaimSource.SETTINGS: Certainty.CERTAIN,
    ClaimSource.DEFINITION: Certainty.CERTAIN,
    ClaimSource.SESSION_USAGE: Certainty.SEEN,
    ClaimSource.SESSION_COMPACTION: Certainty.SEEN,
    ClaimSource.CONTEXT_REPORT: Certainty.SEEN,
    ClaimSource.API_ERROR: Certainty.SEEN,
    ClaimSource.OTHER_SESSIONS: Certainty.LIKELY,
    ClaimSource.TABLE: Certainty.LIKELY,
    ClaimSource.ASSUMED: Certainty.ASSUMED,
}


class ClaimStatus(StrEnum):
    """What became of a claim."""

    BELIEVED = "believed"
    AGREES = "agrees"
    CONTRADICTS = "contradicts"
    """Something real says another size, and is overruled by what is stronger."""
    REPLACED = "replaced"
    """The table says another size; what was seen stands above it."""


class ClaimSubject(StrEnum):
    """What a claim is of."""

    WINDOW = "window"
    TRIGGER = "trigger"


class AssessedClaim(msgspec.Struct, frozen=True):
    """A claim of a size in tokens, and how it stands."""

    subject: ClaimSubject
    claim: Claim
    status: ClaimStatus
    certainty: Certainty


def read_assessed_claims(
    db: sqlite3.Connection, session_id: str, policies: Policies = DEFAULT_POLICIES
) -> tuple[AssessedClaim, ...]:
    """List every claim of a session's window, then of its trigger, the strongest first."""
    evidence = Evidence(read_evidence_rows(db), policies)
    for row in session_queries.sessions(db, [session_id]):
        window, trigger = evidence.claims_of(context_evidence(row))
        return (
            *assess_claims(ClaimSubject.WINDOW, window),
            *assess_claims(ClaimSubject.TRIGGER, trigger),
        )
    return ()


def assess_claims(subject: ClaimSubject, claims: Sequence[Claim]) -> Iterator[AssessedClaim]:
    """Yield the status of each claim; `claims` must be sorted, strongest first."""
    verdict = choose_claim(claims)
    for place, claim in enumerate(claims):
        if place == 0:
            standing = ClaimStatus.BELIEVED
        elif claim in verdict.contradicting:
            standing = ClaimStatus.CONTRADICTS
        elif claim.tokens == verdict.winner.tokens:
            standing = ClaimStatus.AGREES
        else:
            standing = ClaimStatus.REPLACED
        yield AssessedClaim(subject, claim, standing, CERTAINTY_OF_SOURCE[claim.source])


class MeasurementComparison(msgspec.Struct, frozen=True):
    """How many sessions were measured, and which of them the transcript tells otherwise."""

    equal: int
    not_comparable: int
    """The transcript has no answer of that moment: nothing to compare with."""
    different: tuple[MeasurementComparisonRow, ...]


def compare_measurements(rows: Iterable[MeasurementComparisonRow]) -> MeasurementComparison:
    """Compare the newest measurement of each session with the transcript's answer, in tokens.

    `session.measure` tells the input side of the last answer, as the status line does (seen
    in 2.1.329): it is equal or one of the two is wrong.
    """
    listed = list(rows)
    told = [row for row in listed if row.answer_tokens is not None]
    different = tuple(row for row in told if row.answer_tokens != row.measured_tokens)
    return MeasurementComparison(len(told) - len(different), len(listed) - len(told), different)
