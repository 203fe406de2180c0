"""Reads a context's turns, compactions and events from the store, as a timeline."""

from bisect import bisect_right
from collections.abc import Callable, Collection, Iterator, Sequence
from sqlite3 import Connection
from typing import Final

from ..measure.timeline import (
    Timeline,
    TimelineCompaction,
    TimelineEvent,
    TimelineEventKind,
    TimelineTurn,
)
from ..model.context import Context
from ..model.counting_rule import CountingRule
from ..model.transcript_records import ApiErrorRecord, LaunchRecord, MicrocompactionRecord
from ..store import warning_log
from ..store.queries import context_queries

_BAD_ENDS: Final = frozenset({"failed", "error", "killed", "stopped", "cancelled"})

Owner = tuple[str, str | None]  # a session's id, and an agent's or None for the session itself


def read_timeline(
    db: Connection,
    owner: Owner,
    context: Context,
    noncompliant: Collection[str] = (),
    previous: Timeline | None = None,
) -> Timeline:
    """Read the timeline of a session, or of one of its agents, against its context's window.

    `noncompliant` are the ids of agents that did not compress their results. With `previous`,
    the timeline as it was read before, only newer answers are read.
    """
    turns = _read_turns(db, owner, context.counting, previous)
    offsets = [turn.offset for turn in turns]

    def turn_at(offset: int) -> int:
        return max(0, bisect_right(offsets, offset) - 1)

    compactions = tuple(read_compactions(db, owner, context.counting, offsets).values())
    events = [
        *_agent_events(db, owner, noncompliant, turn_at),
        *_other_events(db, owner, turn_at),
        *_model_events(turns),
    ]
    return Timeline(
        turns=turns,
        window=context.window.tokens,
        compactions=compactions,
        events=tuple(sorted(events, key=lambda event: (event.turn, event.at or 0))),
        thresholds=context.thresholds,
        trigger=context.trigger_tokens,
        limit=context.window.limit or None,
    )


def read_compactions(
    db: Connection, owner: Owner, counting: CountingRule, turns: Sequence[int] = ()
) -> dict[int, TimelineCompaction]:
    """Read the compactions of a context, by their offsets; `turns` are the offsets of answers."""
    return {
        offset: TimelineCompaction(bisect_right(turns, offset), *fields)
        for offset, *fields in context_queries.boundaries(db, *owner, counting)
    }


def _read_turns(
    db: Connection, owner: Owner, counting: CountingRule, previous: Timeline | None
) -> tuple[TimelineTurn, ...]:
    known = previous.turns if previous else ()
    if known:
        more = context_queries.answers(db, *owner, known[-1].offset, counting)
        # The last answer may have grown; if it is another one, the file was rewritten.
        if more and more[0].message_id == known[-1].message_id:
            return (*known[:-1], *more)
    return tuple(context_queries.answers(db, *owner, counting=counting))


def _agent_events(
    db: Connection, owner: Owner, noncompliant: Collection[str], turn_at: Callable[[int], int]
) -> Iterator[TimelineEvent]:
    for row in context_queries.context_records(db, LaunchRecord, "launch", *owner):
        title = _agent_title(row.agent_type, row.description)
        yield TimelineEvent(turn_at(row.offset), TimelineEventKind.STARTED, row.at, title)
    for end in context_queries.returns(db, *owner):
        failed = end.status in _BAD_ENDS or end.agent_id in noncompliant
        kind = TimelineEventKind.FAILED if failed else TimelineEventKind.RETURNED
        title = _agent_title(end.agent_type or "agent", end.description or "")
        yield TimelineEvent(turn_at(end.offset), kind, end.at, title)


def _agent_title(agent_type: str, description: str) -> str:
    return f"{agent_type}: {description}" if description else agent_type


def _other_events(
    db: Connection, owner: Owner, turn_at: Callable[[int], int]
) -> Iterator[TimelineEvent]:
    for each in warning_log.context_warnings(db, *owner):
        warning = each.warning
        of_limit = " of the limit" if warning.limit_tokens else ""
        what = f"{warning.level.value} at {int(warning.limit_ratio * 100 + 0.5)} %{of_limit}"
        turn = turn_at(warning.point.offset)
        yield TimelineEvent(turn, TimelineEventKind.WARNING, warning.at, what, warning.level)
    for error in context_queries.context_records(db, ApiErrorRecord, "api_error", *owner):
        turn = turn_at(error.offset)
        yield TimelineEvent(turn, TimelineEventKind.REFUSAL, error.at, error.detail)
    for row in context_queries.context_records(db, MicrocompactionRecord, "clearing", *owner):
        yield TimelineEvent(
            turn_at(row.offset),
            TimelineEventKind.CLEARED,
            row.at,
            _cleared_text(row),
            saved_tokens=row.saved_tokens,
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
