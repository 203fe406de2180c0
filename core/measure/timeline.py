"""A context over its turns: what each answer saw, where it was compacted, and what happened.

Times are milliseconds since 1970 (UTC), sizes tokens, offsets bytes in the transcript.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final

import msgspec
from msgspec.structs import replace

from ..model.context import Context, ContextState
from ..store.queries import context_queries
from .levels import DEFAULT_PLACED_THRESHOLDS, Level, PlacedThreshold, reached_level

TimelineTurn = context_queries.TimelineAnswerRow  # one answer; its `tokens` are what the model saw


class TimelineCompaction(msgspec.Struct, frozen=True):
    """A compaction."""

    turns_before: int  # how many turns stand before it
    at: int | None
    pre_tokens: int | None
    post_tokens: int | None
    trigger: str | None
    uuid: str
    next_tokens: int | None = None  # what the first answer after it held; None while there is none
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
    FAILED = "agent_failed"  # it ended in an error, or did not compress what it gave back
    WARNING = "warning"
    REFUSAL = "refusal"
    MODEL = "model"  # another model answered than before
    CLEARED = "cleared"  # the client stopped sending old tool results: a microcompaction


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


class TimelineEvent(msgspec.Struct, frozen=True):
    """Something that happened."""

    turn: int  # place of the last turn that began before it; 0 before the first
    kind: TimelineEventKind
    at: int | None
    what: str
    level: Level | None = None  # of a warning
    saved_tokens: int | None = None  # what was cleared, by the client's estimate


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
    last: int  # place of the last of them, not one behind it
    peak: int  # most that one of them saw, in tokens


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
