"""Details read from a transcript on demand: context, an answer's tool calls, a line's text."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from itertools import takewhile
from pathlib import Path
from typing import Final

import msgspec
from msgspec.structs import replace

from ...core.compaction.plan import MAX_TRANSCRIPT_BYTES
from ...core.measure.composition import (
    MAX_ITEMS,
    Composition,
    CompositionSource,
    ContextContent,
    ContextPart,
    break_down_context,
    context_parts,
    tool_call_name,
)
from ...core.measure.tokens import CachedPartCounter, PartCounter, ThinkingTokens, measure_thinking
from ...core.model.context import ContextState, tokens_in_use
from ...core.model.session import stored_token_counts
from ...core.store.queries import context_queries, session_queries
from ...core.store.queries.context_queries import TimelineAnswerRow
from ...core.store.token_samples import read_estimator
from ...core.transcript.conversation import (
    Entry,
    MessagePart,
    PartKind,
    Role,
    find_cleared_content,
    last_boundary,
    measured_answers,
    newest_model,
    remove_cleared_content,
    remove_dropped_thinking,
)
from ...core.transcript.entry_decoder import decode_entry, iter_entries, iter_lines
from ...core.transcript.sanitize import sanitize_text, sanitize_title
from ...core.transcript.visible_messages import reannounced_attachments, visible_entries
from .transcripts.api_requests import SentPartLabels, reread_messages, reread_shape
from .transcripts.transcript_ends import find_recent_start

LARGE_TRANSCRIPT_TAIL_BYTES: Final = 12_000_000
"""Of a transcript above `MAX_TRANSCRIPT_BYTES` so much of its end is read, in about a second.

A full window of 1,000,000 tokens of text has some 4 MB, and its lines twice as much."""


class TranscriptUnavailableError(Exception):
    """There is no transcript to look into; the message says why and what to do."""


def read_composition(
    db: sqlite3.Connection,
    projects: Path,
    session_id: str,
    agent_id: str | None = None,
    counter: PartCounter | None = None,
    *,
    until_offset: int | None = None,
    max_items: int = MAX_ITEMS,
    max_whole_bytes: int = MAX_TRANSCRIPT_BYTES,
    tail_bytes: int = LARGE_TRANSCRIPT_TAIL_BYTES,
) -> Composition:
    """Break down the context of a session, or of one of its agents, by content.

    As it is now, or as it was when the line at byte offset `until_offset` was the last one.
    At most `max_items` of the largest items are named. Without a `counter`, tokens are counted
    with what was calibrated on this machine. Of a transcript larger than `max_whole_bytes`, only
    the last `tail_bytes` are read, and its items have no line numbers.
    Raises TranscriptUnavailableError without a readable transcript that has a conversation.
    """
    who = f"agent {agent_id}" if agent_id else f"session {session_id}"
    found = context_queries.find_transcript(db, session_id, agent_id)
    if found is None:
        raise TranscriptUnavailableError(f"{who} has no transcript: nothing says what fills it")
    file_id, relative = found
    path = projects / relative
    try:
        is_too_large = path.stat().st_size > max_whole_bytes
        start = find_recent_start(path, tail_bytes, until_offset) if is_too_large else 0
        read = iter_entries(path, start)
        entries = [
            *takewhile(lambda each: until_offset is None or each.offset <= until_offset, read)
        ]
    except OSError as error:
        why = error.strerror or error
        raise TranscriptUnavailableError(f"{who}: {path} cannot be read: {why}") from error
    sent = visible_entries(entries)
    if not sent:
        raise TranscriptUnavailableError(f"{who} says nothing yet: {path} holds no conversation")
    model = newest_model(sent)
    once = CachedPartCounter(counter or read_estimator(db).for_model(model))
    thoughts = measure_thinking(entries, once)
    now = (
        _StoredContext()
        if until_offset is not None
        else _read_stored_context(db, file_id, session_id, agent_id)
    )
    context = _SplitConversation(entries, sent, thoughts, model, now, begins_late=is_too_large)
    material = _content_from_request(db, file_id, path, context, agent_id, session_id)
    composed = break_down_context(
        material or _content_from_transcript(context, once), once, max_items
    )
    items = tuple(replace(each, name=sanitize_title(each.name)) for each in composed.largest)
    if is_too_large:
        # They were counted from where the reading began.
        items = tuple(replace(each, line=None, superseded=None) for each in items)
    return replace(composed, largest=items, read_bytes=tail_bytes if is_too_large else None)


class _StoredContext(msgspec.Struct, frozen=True):
    """What the store says is in context: the number that is shown everywhere else."""

    tokens: int | None = None
    state: ContextState = ContextState.UNKNOWN


def _read_stored_context(
    db: sqlite3.Connection, file_id: int, session_id: str, agent_id: str | None
) -> _StoredContext:
    if agent_id is not None:
        left = session_queries.estimated_next_tokens(db, file_id)
        return _StoredContext() if left is None else _StoredContext(left, ContextState.ESTIMATED)
    rows = session_queries.sessions(db, [session_id])
    return (
        _StoredContext(*tokens_in_use(stored_token_counts(rows[0]))) if rows else _StoredContext()
    )


class _SplitConversation:
    """A conversation cut at its last measured answer: what that answer saw, and what came since."""

    def __init__(
        self,
        entries: Sequence[Entry],
        sent: Sequence[Entry],
        thoughts: dict[str | None, ThinkingTokens],
        model: str | None,
        now: _StoredContext,
        *,
        begins_late: bool,
    ) -> None:
        self.entries: Final = entries
        self.is_partial: Final = begins_late  # does not begin with the session
        self.thoughts: Final = thoughts
        self._now: Final = now
        self.answer: Final = self._find_answer(sent)
        if self.answer:
            of = self.answer.message_id
            cut = next(place for place, each in enumerate(sent) if each.message_id == of)
            before = remove_cleared_content(sent[:cut], find_cleared_content(self.answer, entries))
        else:
            cut = len(sent)
            last = last_boundary(entries)
            start = -1 if last is None else last.offset
            away = visible_entries([each for each in entries if each.offset < start])
            before = [*sent, *reannounced_attachments(away, sent)]
        self.before: Final = remove_dropped_thinking(before, model)
        self.since: Final = sent[cut:]

    def _find_answer(self, sent: Sequence[Entry]) -> Entry | None:
        answers = [*measured_answers(self.entries, sent)]
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

    def parts(self, entries: Sequence[Entry]) -> tuple[ContextPart, ...]:
        return tuple(context_parts(entries, self.thoughts))


def _content_from_request(
    db: sqlite3.Connection,
    file_id: int,
    path: Path,
    context: _SplitConversation,
    agent_id: str | None,
    session_id: str,
) -> ContextContent | None:
    """Return the content of the request behind the last answer, if all its parts are known."""
    if context.answer is None:
        return None
    answered = context.answer.message_id
    rows = context_queries.requests(db, session_id, agent_id)
    row = next((each for each in reversed(rows) if each.message_id == answered), None)
    if row is None or row.shape is None:
        return None
    keys = context_queries.sent_messages(db, file_id, row.request)
    if keys is None:
        return None
    places = context_queries.request_parts(db, file_id, [*keys, row.shape])
    messages = reread_messages(path, keys, places, row.offset)
    shape = reread_shape(path, places.get(row.shape))
    if messages is None or shape is None:
        return None
    labels = SentPartLabels(context.before, context.thoughts)
    return ContextContent(
        parts=tuple(part for message in messages for part in labels.parts(message)),
        later=context.parts(context.since),
        system=shape.system,
        tools=shape.tools,
        measured_tokens=context.measured_tokens,
        estimated_tokens=context.estimated_tokens,
        source=CompositionSource.REQUESTS,
    )


def _content_from_transcript(context: _SplitConversation, counter: PartCounter) -> ContextContent:
    snapshots = [each.snapshot for each in context.entries if each.snapshot]
    system = next((each.system for each in reversed(snapshots) if each.system), ())
    tools = next((each.tools for each in reversed(snapshots) if each.tools), ())
    known = bool(system and tools)
    return ContextContent(
        parts=context.parts(context.before),
        later=context.parts(context.since),
        system=system if known else (),
        tools=tools if known else (),
        overhead_tokens=None if known else _estimate_overhead(context, counter),
        measured_tokens=context.measured_tokens,
        estimated_tokens=context.estimated_tokens,
    )


def _estimate_overhead(context: _SplitConversation, counter: PartCounter) -> int:
    if context.is_partial:
        return 0
    first = next(
        (each for each in context.entries if each.role is Role.ASSISTANT and each.context_tokens),
        None,
    )
    if first is None:
        return 0
    seen = visible_entries([each for each in context.entries if each.offset < first.offset])
    said = sum(counter.tokens(part.content) for part in context.parts(seen) if part.tokens is None)
    return max(0, (first.context_tokens or 0) - said)


MAX_LINE_TEXT_CHARS: Final = 20_000  # of a line: its start, as much as a person reads of it


def read_tool_calls(
    db: sqlite3.Connection,
    projects: Path,
    session_id: str,
    answer: TimelineAnswerRow,
    agent_id: str | None = None,
) -> tuple[str, ...]:
    """Describe an answer's tool calls; raises TranscriptUnavailableError."""
    path = _transcript_path(db, projects, session_id, agent_id)
    try:
        lines = takewhile(
            lambda entry: entry.offset <= answer.last_offset, iter_entries(path, answer.offset)
        )
        return tuple(
            sanitize_title(tool_call_name(piece))
            for entry in lines
            if entry.message_id == answer.message_id
            for piece in entry.parts
            if piece.kind is PartKind.TOOL_INPUT
        )
    except OSError as error:
        raise TranscriptUnavailableError(
            f"{path} cannot be read: {error.strerror or error}"
        ) from error


def read_line_text(
    db: sqlite3.Connection,
    projects: Path,
    session_id: str,
    number: int,
    agent_id: str | None = None,
) -> str:
    """Read the start of line `number`, from 1; raises TranscriptUnavailableError."""
    path = _transcript_path(db, projects, session_id, agent_id)
    try:
        found = next((line for line in iter_lines(path) if line[1] == number), None)
    except OSError as error:
        raise TranscriptUnavailableError(
            f"{path} cannot be read: {error.strerror or error}"
        ) from error
    entry = decode_entry(found[0], found[2], {}, number) if found else None
    if entry is None:
        raise TranscriptUnavailableError(f"line {number} of {path} holds nothing that is sent")
    text = "\n".join(_part_texts(entry.parts))
    return sanitize_text(text[:MAX_LINE_TEXT_CHARS])


def _part_texts(pieces: tuple[MessagePart, ...]) -> Iterator[str]:
    for piece in pieces:
        if piece.kind is PartKind.TOOL_INPUT:
            yield f"{piece.name} {piece.text}"
        elif piece.text:
            yield piece.text
        elif piece.media:
            yield "an image or a document"


def _transcript_path(
    db: sqlite3.Connection, projects: Path, session_id: str, agent_id: str | None
) -> Path:
    found = context_queries.find_transcript(db, session_id, agent_id)
    if found is None:
        raise TranscriptUnavailableError(f"session {session_id} has no transcript")
    return projects / found[1]
