"""What a session's page reads: records from the store, and a turn's context from the file."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec

if TYPE_CHECKING:
    import sqlite3

    from ....core.measure.compaction_report import CompactionReport, SteeringOutcome
    from ....core.measure.composition import Composition
    from ....core.measure.evidence import AssessedClaim
    from ....core.measure.timeline import TimelineTurn
    from ....core.measure.window import Trigger, Window
    from ....core.model.session import Session
    from ....core.policy.resolve import Policies
    from ....core.store.queries.query_rows import CompactionRow
    from ....core.store.warning_log import ContextWarning


class SessionDetails(msgspec.Struct, frozen=True):
    """What the store has of a session."""

    compactions: tuple[tuple[CompactionRow, CompactionReport | None], ...] = ()
    """Newest first, each with what is told of it; None: nothing yet."""
    warnings: tuple[ContextWarning, ...] = ()  # oldest first
    steering: tuple[tuple[SteeringOutcome, ...], ...] = ()  # what each compaction was asked to keep
    reasons: tuple[AssessedClaim, ...] = ()  # every claim of its window and its trigger
    resolved: tuple[Window, Trigger | None] | None = None  # what they led to


def read_session_details(
    db: sqlite3.Connection,
    session: Session,
    policies: Policies,
    previous: SessionDetails | None = None,
) -> SessionDetails:
    """Read it, judged by these policies; what cannot have changed is taken from `before`."""
    from ....core.measure.compaction_report import decode_report, steering_outcomes
    from ....core.store.queries.agent_queries import answer_items
    from ....core.store.queries.session_queries import compactions
    from ....core.store.readers.fleet_reader import read_assessed_claims
    from ....core.store.warning_log import context_warnings

    judged = (session.context.window, session.context.trigger)
    # The whole store is asked for them.
    if previous is not None and previous.resolved == judged:
        reasons = previous.reasons
    else:
        reasons = read_assessed_claims(db, session.session_id, policies)
    rows = [(row, decode_report(row.report)) for row in compactions(db, session.session_id)]
    return SessionDetails(
        compactions=tuple(rows),
        warnings=tuple(context_warnings(db, session.session_id)),
        steering=tuple(steering_outcomes(rows, answer_items(db, "steer", session.session_id))),
        reasons=reasons,
        resolved=judged,
    )


MAX_ITEMS: Final = 200  # the largest of a context: more than a person looks through
CACHED_TURNS: Final = 64  # turns whose answers are kept: to go back and forth reads no file again


@dataclass(frozen=True, slots=True)
class TurnDetails:
    """What is known of one turn."""

    composition: Composition | None = None  # none where the transcript does not tell it
    calls: tuple[str, ...] = ()
    problem: str = ""  # why not


class TurnDetailsCache:
    """The moments that were looked up, by turn; None is now."""

    def __init__(self) -> None:
        self._found: dict[int | None, TurnDetails] = {}

    def clear(self) -> None:
        self._found.clear()

    def get(self, turn: TimelineTurn | None) -> TurnDetails | None:
        """Return the details of a turn (None: now), None if they were not looked up yet."""
        return self._found.get(_key(turn))

    def put(self, turn: TimelineTurn | None, moment: TurnDetails) -> None:
        """Keep it; the oldest goes."""
        self._found.pop(_key(turn), None)
        self._found[_key(turn)] = moment
        if len(self._found) > CACHED_TURNS:
            self._found.pop(next(iter(self._found)))


def _key(turn: TimelineTurn | None) -> int | None:
    return None if turn is None else turn.last_offset


def read_turn_details(
    db: sqlite3.Connection,
    projects: Path,
    session_id: str,
    newest: TimelineTurn | None,
    past: TimelineTurn | None,
) -> TurnDetails:
    """Read the composition and the tool calls as of turn `past`; None reads the current ones."""
    from ....collectors.claude_code.transcript_details import (
        TranscriptUnavailableError,
        read_composition,
        read_tool_calls,
    )

    turn = past or newest
    try:
        found = read_composition(
            db,
            projects,
            session_id,
            until_offset=past.last_offset if past else None,
            max_items=MAX_ITEMS,
        )
        calls = read_tool_calls(db, projects, session_id, turn) if turn else ()
    except TranscriptUnavailableError as error:
        return TurnDetails(problem=str(error))
    return TurnDetails(found, calls)
