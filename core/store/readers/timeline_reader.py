"""Reads a context's turns, compactions and events from the store, as a timeline."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection, Iterator, Sequence
from typing import TYPE_CHECKING, Final

from ...measure.timeline import (
    Timeline,
    TimelineCompaction,
    TimelineEvent,
    TimelineEventKind,
    TimelineTurn,
)
from ...model.context import Context
from .. import warning_log
from ..queries import timeline_queries
from ..queries.timeline_queries import TimelineAnswerRow
from ..transcript_records import MicrocompactionRecord

if TYPE_CHECKING:
    import sqlite3


_BAD_ENDS: Final = frozenset({"failed", "error", "killed", "stopped", "cancelled"})


def read_timeline(
    db: sqlite3.Connection,
    owner: tuple[str, str | None],
    context: Context,
    noncompliant: Collection[str] = (),
    previous: Timeline | None = None,
) -> Timeline:
    """Read the timeline of a session, or of one of its agents, against its context's window.

    `noncompliant` names the agents that did not compress what they gave back. Of a timeline that
    was read before (`previous`) only what came since is read.
    """
    session_id, agent_id = owner
    turns = _read_turns(db, session_id, agent_id, previous)
    places = _TurnIndex(turns)
    cuts = tuple(
        TimelineCompaction(
            places.before(row.offset),
            row.at,
            row.pre_tokens,
            row.post_tokens,
            row.trigger,
            row.uuid,
            row.next_tokens,
            row.estimated_next_tokens,
        )
        for row in timeline_queries.boundaries(db, session_id, agent_id)
    )
    marks = [
        *_agent_events(db, owner, noncompliant, places),
        *_warning_events(db, owner, places),
        *_refusal_events(db, owner, places),
        *_microcompaction_events(db, owner, places),
        *_model_events(turns),
    ]
    return Timeline(
        turns=turns,
        window=context.window.tokens,
        compactions=cuts,
        events=tuple(sorted(marks, key=lambda mark: (mark.turn, mark.at or 0))),
        thresholds=context.thresholds,
        trigger=context.trigger.tokens if context.trigger else None,
    )


def _read_turns(
    db: sqlite3.Connection, session_id: str, agent_id: str | None, before: Timeline | None
) -> tuple[TimelineAnswerRow, ...]:
    known = before.turns if before else ()
    if known:
        more = timeline_queries.answers(db, session_id, agent_id, known[-1].offset)
        # The last one may have grown; another in its place is of a file that was written anew.
        if more and more[0].message_id == known[-1].message_id:
            return (*known[:-1], *more)
    return tuple(timeline_queries.answers(db, session_id, agent_id))


class _TurnIndex:
    """Finds the turn that a byte offset belongs to."""

    def __init__(self, turns: Sequence[TimelineTurn]) -> None:
        self._offsets = [turn.offset for turn in turns]

    def before(self, offset: int) -> int:
        """Count the turns that begin before it."""
        return bisect_right(self._offsets, offset)

    def at(self, offset: int) -> int:
        """Name the last turn that begins there or before."""
        return max(0, self.before(offset) - 1)


def _agent_events(
    db: sqlite3.Connection,
    owner: tuple[str, str | None],
    failed: Collection[str],
    places: _TurnIndex,
) -> Iterator[TimelineEvent]:
    for row in timeline_queries.launches(db, *owner):
        what = _agent_title(row.agent_type, row.description)
        yield TimelineEvent(places.at(row.offset), TimelineEventKind.STARTED, row.at, what)
    for end in timeline_queries.returns(db, *owner):
        bad = end.status in _BAD_ENDS or end.agent_id in failed
        kind = TimelineEventKind.FAILED if bad else TimelineEventKind.RETURNED
        what = _agent_title(end.agent_type or "agent", end.description or "")
        yield TimelineEvent(places.at(end.offset), kind, end.at, what)


def _agent_title(agent_type: str, description: str) -> str:
    return f"{agent_type}: {description}" if description else agent_type


def _warning_events(
    db: sqlite3.Connection, owner: tuple[str, str | None], places: _TurnIndex
) -> Iterator[TimelineEvent]:
    for row in warning_log.context_warnings(db, *owner):
        warning = row.warning
        what = f"{warning.level.value} at {int(warning.ratio * 100 + 0.5)} %"
        turn = places.at(warning.point.offset)
        yield TimelineEvent(turn, TimelineEventKind.WARNING, warning.at, what, warning.level)


def _refusal_events(
    db: sqlite3.Connection, owner: tuple[str, str | None], places: _TurnIndex
) -> Iterator[TimelineEvent]:
    for row in timeline_queries.api_errors(db, *owner):
        yield TimelineEvent(places.at(row.offset), TimelineEventKind.REFUSAL, row.at, row.detail)


def _microcompaction_events(
    db: sqlite3.Connection, owner: tuple[str, str | None], places: _TurnIndex
) -> Iterator[TimelineEvent]:
    for row in timeline_queries.microcompactions(db, *owner):
        turn, what = places.at(row.offset), _cleared_text(row)
        yield TimelineEvent(
            turn, TimelineEventKind.CLEARED, row.at, what, saved_tokens=row.saved_tokens
        )


def _cleared_text(row: MicrocompactionRecord) -> str:
    counts = ((row.results, "tool result"), (row.attachments, "attachment"))
    parts = [f"{number} {thing}{'' if number == 1 else 's'}" for number, thing in counts if number]
    saved = "" if row.saved_tokens is None else f" (≈{row.saved_tokens:,} tokens)"
    return f"{' and '.join(parts) or 'old text'}{saved}"


def _model_events(turns: Sequence[TimelineTurn]) -> Iterator[TimelineEvent]:
    before = turns[0].model if turns else ""
    for place, turn in enumerate(turns):
        if turn.model != before:
            yield TimelineEvent(place, TimelineEventKind.MODEL, turn.at, turn.model)
            before = turn.model
