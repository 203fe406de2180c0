"""What fills a context, from its transcript and from what its client wrote down as sent."""

from __future__ import annotations

from itertools import takewhile
from typing import TYPE_CHECKING, Final

import msgspec
from msgspec.structs import replace

from ..core.cleared import cleared_for, without_cleared
from ..core.compaction.announced import announced_again
from ..core.compaction.limits import LARGEST_BYTES
from ..core.compaction.project import project
from ..core.composition import MAX_ITEMS, Composition, compose
from ..core.context import ContextState, current
from ..core.conversation import Entry, Role
from ..core.material import CountedOnce, Material, Part, Source, parts_of, read_thoughts
from ..core.sessions import counted_of
from ..core.store import queries, request_queries
from ..core.store.estimating import read_estimator
from ..core.thinking import without_dropped
from .clean import clean_title
from .transcripts.conversation import entries_from
from .transcripts.sent_parts import Labels, read_request, read_shape
from .transcripts.window import window_start

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Sequence
    from pathlib import Path

    from ..core.material import Counter, Thought


WINDOW_BYTES: Final = 12_000_000
"""Of a transcript above `LARGEST_BYTES` so much of its end is read, in about a second. A full
window of 1,000,000 tokens of text has some 4 MB, and its lines twice as much."""


class NothingToComposeError(Exception):
    """There is no transcript to look into; the message says why and what to do."""


def read_composition(
    db: sqlite3.Connection,
    projects: Path,
    session_id: str,
    agent_id: str | None = None,
    counter: Counter | None = None,
    *,
    until_offset: int | None = None,
    max_items: int = MAX_ITEMS,
    max_whole_bytes: int = LARGEST_BYTES,
    tail_bytes: int = WINDOW_BYTES,
) -> Composition:
    """Take the context of a session, or of one of its agents, apart as it is now.

    Or as it was when the line at the byte offset `until` was its last. At most so many of the
    largest items are named. Counted with what was learnt on this machine, where no other
    counter is given. Of a transcript of more than `largest` bytes only the last `window` are
    read, and its items have no line numbers.
    Raises NothingToComposeError where it has no transcript, or one without a conversation.
    """
    who = f"agent {agent_id}" if agent_id else f"session {session_id}"
    found = request_queries.transcript(db, session_id, agent_id)
    if found is None:
        raise NothingToComposeError(f"{who} has no transcript: nothing says what fills it")
    file_id, relative = found
    path = projects / relative
    try:
        is_too_large = path.stat().st_size > max_whole_bytes
        start = window_start(path, tail_bytes, until_offset) if is_too_large else 0
        read = entries_from(path, start)
        entries = [
            *takewhile(lambda each: until_offset is None or each.offset <= until_offset, read)
        ]
    except OSError as error:
        why = error.strerror or error
        raise NothingToComposeError(f"{who}: {path} cannot be read: {why}") from error
    sent = project(entries)
    if not sent:
        raise NothingToComposeError(f"{who} says nothing yet: {path} holds no conversation")
    model = next((each.model for each in reversed(sent) if each.output_tokens is not None), None)
    once = CountedOnce(counter or read_estimator(db).for_model(model))
    thoughts = read_thoughts(entries, once)
    now = _Now() if until_offset is not None else _read_now(db, file_id, session_id, agent_id)
    context = _Context(entries, sent, thoughts, model, now, begins_late=is_too_large)
    material = _from_requests(db, file_id, path, context, agent_id, session_id)
    composed = compose(material or _from_transcript(context, once), once, max_items)
    items = tuple(replace(each, name=clean_title(each.name)) for each in composed.largest)
    if is_too_large:
        # They were counted from where the reading began.
        items = tuple(replace(each, line=None, superseded=None) for each in items)
    return replace(composed, largest=items, read_bytes=tail_bytes if is_too_large else None)


class _Now(msgspec.Struct, frozen=True):
    """What the store says is in context: the number that is shown everywhere else."""

    tokens: int | None = None
    state: ContextState = ContextState.UNKNOWN


def _read_now(db: sqlite3.Connection, file_id: int, session_id: str, agent_id: str | None) -> _Now:
    if agent_id is not None:
        left = queries.left_tokens(db, file_id)
        return _Now() if left is None else _Now(left, ContextState.ESTIMATED)
    rows = queries.sessions(db, [session_id])
    return _Now(*current(counted_of(rows[0]))) if rows else _Now()


class _Context:
    """A conversation cut at its last measured answer: what that answer saw, and what came since."""

    def __init__(
        self,
        entries: Sequence[Entry],
        sent: Sequence[Entry],
        thoughts: dict[str | None, Thought],
        model: str | None,
        now: _Now,
        *,
        begins_late: bool,
    ) -> None:
        self.entries: Final = entries
        self.is_partial: Final = begins_late
        """Its first entries are not the session's."""
        self.thoughts: Final = thoughts
        self._now: Final = now
        boundary = max((each.offset for each in entries if each.boundary), default=-1)
        self.answer: Final = self._find_answer(sent, boundary)
        if self.answer:
            of = self.answer.message_id
            cut = next(place for place, each in enumerate(sent) if each.message_id == of)
            before = without_cleared(sent[:cut], cleared_for(self.answer, entries))
        else:
            cut = len(sent)
            away = project([each for each in entries if each.offset < boundary])
            before = [*sent, *announced_again(away, sent)]
        self.before: Final = without_dropped(before, model)
        self.since: Final = sent[cut:]

    def _find_answer(self, sent: Sequence[Entry], boundary: int) -> Entry | None:
        answers = [
            each
            for each in reversed(sent)
            if each.context_tokens and each.offset > boundary and each.message_id
        ]
        if self._now.state is ContextState.MEASURED:
            # The client may have gone back to an earlier one.
            same = (each for each in answers if each.context_tokens == self._now.tokens)
            return next(same, answers[0] if answers else None)
        return answers[0] if answers else None

    @property
    def measured_tokens(self) -> int | None:
        is_estimate = self._now.state is ContextState.ESTIMATED
        if self.answer is None or self.answer.is_estimate or is_estimate:
            return None
        return self.answer.context_tokens

    @property
    def estimated_tokens(self) -> int | None:
        if self._now.state is ContextState.ESTIMATED:
            return self._now.tokens
        return self.answer.context_tokens if self.answer else None

    def parts(self, entries: Sequence[Entry]) -> tuple[Part, ...]:
        return tuple(parts_of(entries, self.thoughts))


def _from_requests(
    db: sqlite3.Connection,
    file_id: int,
    path: Path,
    context: _Context,
    agent_id: str | None,
    session_id: str,
) -> Material | None:
    """Take the request apart that the last measured answer answered; None without its parts."""
    if context.answer is None:
        return None
    answered = context.answer.message_id
    rows = request_queries.requests(db, session_id, agent_id)
    row = next((each for each in reversed(rows) if each.message_id == answered), None)
    if row is None or row.shape is None:
        return None
    keys = request_queries.sent_messages(db, file_id, row.request)
    if keys is None:
        return None
    places = request_queries.part_places(db, file_id, [*keys, row.shape])
    messages = read_request(path, keys, places, row.offset)
    shape = read_shape(path, places.get(row.shape))
    if messages is None or shape is None:
        return None
    labels = Labels(context.before, context.thoughts)
    return Material(
        parts=tuple(part for message in messages for part in labels.parts(message)),
        later=context.parts(context.since),
        system=shape.system,
        tools=shape.tools,
        measured_tokens=context.measured_tokens,
        estimated_tokens=context.estimated_tokens,
        source=Source.REQUESTS,
    )


def _from_transcript(context: _Context, counter: Counter) -> Material:
    snapshots = [each.snapshot for each in context.entries if each.snapshot]
    system = next((each.system for each in reversed(snapshots) if each.system), ())
    tools = next((each.tools for each in reversed(snapshots) if each.tools), ())
    known = bool(system and tools)
    return Material(
        parts=context.parts(context.before),
        later=context.parts(context.since),
        system=system if known else (),
        tools=tools if known else (),
        overhead_tokens=None if known else _learnt_overhead(context, counter),
        measured_tokens=context.measured_tokens,
        estimated_tokens=context.estimated_tokens,
    )


def _learnt_overhead(context: _Context, counter: Counter) -> int:
    """Take what the first request had beyond its messages: system prompt and tools."""
    if context.is_partial:
        return 0
    first = next(
        (each for each in context.entries if each.role is Role.ASSISTANT and each.context_tokens),
        None,
    )
    if first is None:
        return 0
    seen = project([each for each in context.entries if each.offset < first.offset])
    said = sum(counter.tokens(part.content) for part in context.parts(seen) if part.tokens is None)
    return max(0, (first.context_tokens or 0) - said)
