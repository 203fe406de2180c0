"""A context over its turns: what each answer saw, where it was compacted, and what happened.

Times are milliseconds since 1970 (UTC), sizes tokens, offsets bytes in the transcript.
"""

from collections.abc import Iterable
from enum import StrEnum
from typing import Final

import msgspec
from msgspec.structs import replace

from ..model.answer_rows import TimelineAnswerRow
from ..model.context import Context, ContextState
from ..model.levels import DEFAULT_PLACED_THRESHOLDS, Level, PlacedThreshold, reached_level

TimelineTurn = TimelineAnswerRow  # one answer; its `tokens` are what the model saw


class TimelineCompaction(msgspec.Struct, frozen=True):
    turns_before: int
    at: int | None
    pre_tokens: int | None
    post_tokens: int | None
    trigger: str | None
    uuid: str
    next_tokens: int | None = None  # of the first answer after it
    estimated_next_tokens: int | None = None  # with system prompt and tools, before that answer
    counted_messages_alone: int = 0  # `pre_tokens` is without system prompt and tools

    @property
    def next_estimate(self) -> int | None:
        """Tokens of the next request, before its answer."""
        estimated = self.estimated_next_tokens
        return self.post_tokens if estimated is None else estimated


class TimelineEventKind(StrEnum):
    STARTED = "agent_started"
    RETURNED = "agent_returned"
    FAILED = "agent_failed"  # it ended in an error, or did not compress its result
    WARNING = "warning"
    REFUSAL = "refusal"
    MODEL = "model"  # another model answered than before
    CLEARED = "cleared"  # the client stopped sending old tool results: a microcompaction
    CACHE_MISS = "cache_miss"  # what was in the prompt cache was written again


EVENT_PRIORITY: Final = (
    TimelineEventKind.STARTED,
    TimelineEventKind.RETURNED,
    TimelineEventKind.MODEL,
    TimelineEventKind.CLEARED,
    TimelineEventKind.CACHE_MISS,
    TimelineEventKind.WARNING,
    TimelineEventKind.FAILED,
    TimelineEventKind.REFUSAL,
)
"""If several events share a cell, the last of these is shown."""


class TimelineEvent(msgspec.Struct, frozen=True):
    turn: int  # place of the last turn that began before it; 0 before the first
    kind: TimelineEventKind
    at: int | None
    what: str
    level: Level | None = None  # of a warning
    saved_tokens: int | None = None  # by clearing; the client's estimate


class Timeline(msgspec.Struct, frozen=True):
    turns: tuple[TimelineTurn, ...]
    window: int
    compactions: tuple[TimelineCompaction, ...] = ()
    events: tuple[TimelineEvent, ...] = ()
    thresholds: tuple[PlacedThreshold, ...] = DEFAULT_PLACED_THRESHOLDS
    trigger: int | None = None  # None if it is not armed, or unknown
    ends_with_current: bool = False
    """The last turn is no answer, but what is in context since a compaction, a rewind or a
    clearing."""

    limit: int | None = None  # tokens by which the policy measures; None if by the window

    def ratio(self, turn: int) -> float:
        """Return the share of the window that a turn saw, 0..1 and above."""
        return self.turns[turn].tokens / self.window

    def limit_ratio(self, turn: int) -> float:
        """Return the share of the policy's limit that a turn saw, 0..1 and above."""
        return self.turns[turn].tokens / (self.limit or self.window)

    def level(self, turn: int) -> Level | None:
        return reached_level(self.ratio(turn), self.thresholds)

    def growth(self, turn: int) -> int | None:
        """Return the tokens added since the turn before; None if there is none to compare with.

        A compaction between them left so much of the messages alone: that is no size of a context.
        """
        if not turn or any(each.turns_before == turn for each in self.compactions):
            return None
        return self.turns[turn].tokens - self.turns[turn - 1].tokens

    def events_at(self, turn: int) -> tuple[TimelineEvent, ...]:
        return tuple(event for event in self.events if event.turn == turn)


class TurnBucket(msgspec.Struct, frozen=True, gc=False):
    """Turns that share a column of a picture."""

    first: int
    last: int  # inclusive
    peak: int  # tokens


def bucket_turns(timeline: Timeline, start: int, stop: int, count: int) -> list[TurnBucket]:
    """Divide the turns from `start` to before `stop` into `count` columns.

    A column shows its largest turn, so that no peak is lost. If there are fewer turns than
    columns, a turn has several.
    """
    span = stop - start
    if span < 1 or count < 1:
        return []
    buckets = []
    turns = timeline.turns
    for place in range(count):
        first = start + place * span // count
        last = max(first, start + (place + 1) * span // count - 1)
        peak = max(turn.tokens for turn in turns[first : last + 1])
        buckets.append(TurnBucket(first, last, peak))
    return buckets


def with_events(timeline: Timeline, events: Iterable[TimelineEvent]) -> Timeline:
    """Return the timeline with further events."""
    together = sorted((*timeline.events, *events), key=lambda event: (event.turn, event.at or 0))
    return replace(timeline, events=tuple(together))


def is_continuation(timeline: Timeline, previous: Timeline) -> bool:
    """Return whether a timeline starts with all turns of the previous one.

    The last of them may have grown.
    """
    turns, before, last = timeline.turns, previous.turns, len(previous.turns) - 1
    if turns[:last] != before[:last]:
        return False
    return last < 0 or (len(turns) > last and turns[last].message_id == before[last].message_id)


def with_current_context(
    timeline: Timeline, current: Context | None = None, known_to: int | None = None
) -> Timeline:
    """Return the timeline, ending with what is in context now.

    After a compaction without an answer, that is an estimate of the next request. If the client
    rewound or cleared something, it is `current`, which knows of nothing later than `known_to`.
    """
    compaction = timeline.compactions[-1] if timeline.compactions else None
    last = timeline.turns[-1] if timeline.turns else None
    if compaction is not None and compaction.turns_before >= len(timeline.turns):
        at, estimate = compaction.at, compaction.next_estimate
        if estimate is None:
            return timeline
        return _with_last_turn(timeline, estimate, at, mark=compaction.uuid, is_estimate=True)
    tokens = current.tokens if current else None
    if current is None or last is None or tokens is None or tokens == last.tokens:
        return timeline
    if known_to is None or (last.at or 0) > known_to:
        return timeline
    estimated = current.state is ContextState.ESTIMATED
    mark = f"{last.message_id} now"
    return _with_last_turn(timeline, tokens, None, mark=mark, is_estimate=estimated)


def _with_last_turn(
    timeline: Timeline, tokens: int, at: int | None, *, mark: str, is_estimate: bool
) -> Timeline:
    last = timeline.turns[-1] if timeline.turns else None
    turn = TimelineTurn(
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
    return replace(timeline, turns=(*timeline.turns, turn), ends_with_current=True)
