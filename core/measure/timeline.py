"""A context over its turns: what each answer saw, where it was compacted, and what happened.

Times are milliseconds since 1970 (UTC), sizes tokens, offsets bytes in the transcript.
"""

from __future__ import annotations

from bisect import bisect_right
from enum import StrEnum
from typing import TYPE_CHECKING, Final

import msgspec
from msgspec.structs import replace

from ..model.context import Context, ContextState
from ..store import warning_records
from ..store.queries import timeline_queries
from .levels import DEFAULT_PLACED_THRESHOLDS, Level, PlacedThreshold, reached_level

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Collection, Iterator, Sequence

    from ..store.queries.timeline_queries import TimelineAnswerRow, TimelineMicrocompactionRow


TimelineTurn = timeline_queries.TimelineAnswerRow
"""One answer; its `tokens` are what the model saw."""


class TimelineCompaction(msgspec.Struct, frozen=True):
    """A compaction."""

    turns_before: int
    """How many turns stand before it."""
    at: int | None
    pre_tokens: int | None
    post_tokens: int | None
    trigger: str | None
    uuid: str
    next_tokens: int | None = None
    """What the first answer after it held; None while there is none."""
    estimated_next_tokens: int | None = None
    """Estimate of that, with system prompt and tools, while there is none."""

    @property
    def next_estimate(self) -> int | None:
        """What is known of the next request before its answer."""
        return (
            self.post_tokens if self.estimated_next_tokens is None else self.estimated_next_tokens
        )


class TimelineEventKind(StrEnum):
    """What happened at a turn."""

    STARTED = "agent_started"
    RETURNED = "agent_returned"
    FAILED = "agent_failed"
    """It ended in an error, or did not compress what it gave back."""
    WARNING = "warning"
    REFUSAL = "refusal"
    MODEL = "model"
    """Another model answered than before."""
    CLEARED = "cleared"
    """The client stopped sending old tool results: a microcompaction."""


EVENT_PRIORITY: Final = (
    TimelineEventKind.STARTED,
    TimelineEventKind.RETURNED,
    TimelineEventKind.MODEL,
    TimelineEventKind.CLEARED,
    TimelineEventKind.WARNING,
    TimelineEventKind.FAILED,
    TimelineEventKind.REFUSAL,
)
"""Where several marks share a place, the last of these is the one to show."""

_BAD_ENDS: Final = frozenset({"failed", "error", "killed", "stopped", "cancelled"})


class TimelineEvent(msgspec.Struct, frozen=True):
    """Something that happened."""

    turn: int
    """Place of the last turn that began before it; 0 before the first."""
    kind: TimelineEventKind
    at: int | None
    what: str
    level: Level | None = None
    """Of a warning."""
    saved_tokens: int | None = None
    """What was cleared, by the client's estimate."""


class Timeline(msgspec.Struct, frozen=True):
    """All of it, and against what it is measured."""

    turns: tuple[TimelineTurn, ...]
    window: int
    compactions: tuple[TimelineCompaction, ...] = ()
    events: tuple[TimelineEvent, ...] = ()
    thresholds: tuple[PlacedThreshold, ...] = DEFAULT_PLACED_THRESHOLDS
    """Where the levels begin, as ratios of the window."""
    trigger: int | None = None
    """Where the client compacts by itself; None where it does not, or nobody knows."""
    ends_with_current: bool = False
    """The last turn is none: it stands for what is in context since a compaction, or since the
    client went back or cleared something, which no answer follows."""

    def ratio(self, turn: int) -> float:
        """Share of the window that a turn saw, 0..1 and above."""
        return self.turns[turn].tokens / self.window

    def level(self, turn: int) -> Level | None:
        """Name the level that a turn had reached."""
        return reached_level(self.ratio(turn), self.thresholds)

    def growth(self, turn: int) -> int | None:
        """Tokens more than the turn before saw; after a compaction, than it left.

        None where there is nothing to compare with.
        """
        cut = self.compaction_before(turn)
        before = self.turns[turn - 1].tokens if turn else None
        base = before if cut is None else cut.post_tokens
        return None if base is None else self.turns[turn].tokens - base

    def compaction_before(self, turn: int) -> TimelineCompaction | None:
        """Find the compaction between a turn and the one before it, the last of several."""
        return next((cut for cut in reversed(self.compactions) if cut.turns_before == turn), None)

    def events_at(self, turn: int) -> tuple[TimelineEvent, ...]:
        """List what happened at a turn, in its order."""
        return tuple(mark for mark in self.events if mark.turn == turn)


class TurnBucket(msgspec.Struct, frozen=True, gc=False):
    """Turns that share a place of a picture."""

    first: int
    last: int
    """Place of the last of them, not one behind it."""
    peak: int
    """Most that one of them saw, in tokens."""


def bucket_turns(timeline: Timeline, start: int, stop: int, count: int) -> list[TurnBucket]:
    """Put the turns from `start` to before `stop` into so many places, none left out.

    The largest of a place stands for it, so that no peak is lost. Where there are fewer turns
    than places, a turn has several.
    """
    span = stop - start
    if span < 1 or count < 1:
        return []
    found = []
    turns = timeline.turns
    for place in range(count):
        first = start + place * span // count
        last = max(first, start + (place + 1) * span // count - 1)
        peak = max(turn.tokens for turn in turns[first : last + 1])
        found.append(TurnBucket(first, last, peak))
    return found


def is_continuation(timeline: Timeline, previous: Timeline) -> bool:
    """Whether a timeline starts with all turns of the one that was read before."""
    count = len(previous.turns)
    return timeline.turns[: count - 1] == previous.turns[: count - 1] and (
        not count or (len(timeline.turns) >= count and _is_same_turn(timeline, previous, count - 1))
    )


def _is_same_turn(timeline: Timeline, before: Timeline, place: int) -> bool:
    return timeline.turns[place].message_id == before.turns[place].message_id


def with_current_context(
    timeline: Timeline, current: Context | None = None, known_to: int | None = None
) -> Timeline:
    """Return the timeline, ending with what is in context now.

    After a compaction with no answer yet, that is an estimate of the next request. If the
    client rewound or cleared something, it is `current`, which knows of nothing later than
    `known_to`.
    """
    cut = timeline.compactions[-1] if timeline.compactions else None
    last = timeline.turns[-1] if timeline.turns else None
    if cut is not None and cut.turns_before >= len(timeline.turns):
        if cut.next_estimate is None:
            return timeline
        return _with_resting_turn(
            timeline, cut.next_estimate, cut.at, mark=cut.uuid, is_estimate=True
        )
    tokens = current.tokens if current else None
    if current is None or last is None or tokens is None or tokens == last.tokens:
        return timeline
    if known_to is None or (last.at or 0) > known_to:
        return timeline
    estimated = current.state is ContextState.ESTIMATED
    return _with_resting_turn(
        timeline, tokens, None, mark=f"{last.message_id} now", is_estimate=estimated
    )


def _with_resting_turn(
    timeline: Timeline, tokens: int, at: int | None, *, mark: str, is_estimate: bool
) -> Timeline:
    last = timeline.turns[-1] if timeline.turns else None
    rest = TimelineTurn(
        offset=last.offset if last else 0,
        last_offset=last.last_offset if last else 0,
        message_id=mark,
        at=at,
        model=last.model if last else "",
        tokens=tokens,
        output_tokens=0,
        tool_calls=0,
        is_estimate=int(is_estimate),
    )
    return replace(timeline, turns=(*timeline.turns, rest), ends_with_current=True)


def read_timeline(
    db: sqlite3.Connection,
    owner: tuple[str, str | None],
    context: Context,
    noncompliant: Collection[str] = (),
    previous: Timeline | None = None,
) -> Timeline:
    """Read the timeline of a session, or of one of its agents, against its context's window.

    `failed` names the agents that did not compress what they gave back. Of a timeline that
    was read `before` only what came since is read.
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
    for row in warning_records.context_warnings(db, *owner):
        level = Level(row.level)
        what = f"{level.value} at {int(row.ratio * 100 + 0.5)} %"
        yield TimelineEvent(places.at(row.offset), TimelineEventKind.WARNING, row.at, what, level)


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


def _cleared_text(row: TimelineMicrocompactionRow) -> str:
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
