"""Details read from a transcript on demand: context, an answer's tool calls, a line's text."""

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import reduce
from itertools import takewhile
from pathlib import Path
from typing import Final

import msgspec
from msgspec.structs import replace

from ...core.compaction.plan import MAX_TRANSCRIPT_BYTES
from ...core.files.transcript_file import transcript_size
from ...core.measure.composition import (
    DEFAULT_WARN_RESULT_CHARS,
    MAX_ITEMS,
    Composition,
    CompositionSource,
    ContextContent,
    break_down_context,
    context_parts,
    tool_call_name,
)
from ...core.measure.part_sizes import (
    NO_SNAPSHOT,
    PartSizes,
    is_complete,
    lines_to_first_answer,
    size_conversation,
    update_snapshot,
)
from ...core.measure.session_building import stored_token_counts
from ...core.measure.tokens import CachedPartCounter, PartCounter
from ...core.model.answer_rows import TimelineAnswerRow
from ...core.model.context import ContextState, tokens_in_use
from ...core.model.conversation import (
    Entry,
    MessagePart,
    PartKind,
    PromptSnapshot,
    find_cleared_content,
    measured_answers,
    newest_model,
    remove_cleared_content,
    remove_dropped_thinking,
)
from ...core.model.counting_rule import DEFAULT_COUNTING, UNREPORTED_USAGE, CountingRule
from ...core.store.queries import context_queries, session_queries
from ...core.store.token_samples import read_part_counters
from ...core.transcript.entry_decoder import decode_entry, iter_entries, iter_lines
from ...core.transcript.restored_content import with_restored
from ...core.transcript.sanitize import sanitize_text, sanitize_title
from ...core.transcript.visible_messages import visible_entries
from .transcripts.api_requests import SentJson, SentPartLabels, reread_messages, reread_shape
from .transcripts.inherited_context import read_inherited
from .transcripts.transcript_ends import find_recent_start

LARGE_TRANSCRIPT_TAIL_BYTES: Final = 12_000_000
"""The end that is read of a transcript above `MAX_TRANSCRIPT_BYTES`, in about a second: a full
window of 1,000,000 tokens of text has some 4 MB, and its lines twice as much."""


class TranscriptUnavailableError(Exception): ...


def read_composition(
    db: sqlite3.Connection,
    projects: Path,
    session_id: str,
    agent_id: str | None = None,
    counter: PartCounter | None = None,
    *,
    counting: CountingRule = DEFAULT_COUNTING,
    until_offset: int | None = None,
    max_items: int = MAX_ITEMS,
    warn_result_chars: int = DEFAULT_WARN_RESULT_CHARS,
    max_whole_bytes: int = MAX_TRANSCRIPT_BYTES,
    tail_bytes: int = LARGE_TRANSCRIPT_TAIL_BYTES,
) -> Composition:
    """Break down the context of a session, or of one of its agents, by content.

    As it is now, or as it was after the line at byte offset `until_offset`; with at most
    `max_items` of the largest items, of which results of more than `warn_result_chars` are marked
    as oversized. Without a `counter`, texts are counted as `counting` asks. Of a transcript larger
    than `max_whole_bytes`, only the last `tail_bytes` are read, without line numbers. Raises
    TranscriptUnavailableError.
    """
    who = f"agent {agent_id}" if agent_id else f"session {session_id}"
    place = context_queries.find_transcript(db, session_id, agent_id)
    if place is None:
        raise TranscriptUnavailableError(f"{who} has no transcript: its breakdown is unknown")
    file_id, path = place[0], projects / place[1]
    try:
        is_too_large = transcript_size(path) > max_whole_bytes
        start = find_recent_start(path, tail_bytes, until_offset) if is_too_large else 0
        read = iter_entries(path, start)
        entries = [
            *takewhile(lambda entry: until_offset is None or entry.offset <= until_offset, read)
        ]
        inherited = read_inherited(db, projects, path) if agent_id and not is_too_large else None
    except OSError as error:
        why = error.strerror or error
        raise TranscriptUnavailableError(f"{who}: {path} cannot be read: {why}") from error
    current: tuple[int | None, ContextState] = (None, ContextState.UNKNOWN)
    if until_offset is None:
        current = _current_tokens(db, file_id, session_id, agent_id)
    sent = visible_entries(entries)
    if not sent:
        raise TranscriptUnavailableError(f"{who} is empty: {path} has no conversation yet")
    if inherited:
        sent = [inherited.entry, *sent]
    model = newest_model(sent)
    once = CachedPartCounter(counter or read_part_counters(db, counting)(model))
    sent = with_restored(entries, sent, once.tokens)
    context = _SplitConversation(entries, sent, model, current)
    request = _read_request(db, file_id, path, context, agent_id, session_id)
    prompt = reduce(update_snapshot, entries, NO_SNAPSHOT)
    if request and not is_complete(prompt):
        # Not of every request is it kept: with what all turns know, sizes stay the same.
        prompt = request.prompt
    first: Sequence[Entry] = [] if is_too_large else lines_to_first_answer(entries)
    if inherited:
        first, prompt = inherited.first, inherited.prompt if not is_complete(prompt) else prompt
    sizes = size_conversation(entries, sent, first, prompt, once, context.estimated_tokens)
    content = _to_content(context, request, prompt, sizes)
    composition = break_down_context(content, once, max_items, warn_result_chars)
    items = tuple(replace(item, name=sanitize_title(item.name)) for item in composition.largest)
    if is_too_large:
        # Their line numbers would count from where reading began.
        items = tuple(replace(item, line=None, superseded=None) for item in items)
    return replace(
        composition,
        largest=items,
        read_bytes=tail_bytes if is_too_large else None,
        estimator=counting.estimator,
        is_unreported=context.is_unreported,
        part_sizes={
            (entry.offset, place): sizes.of(entry, part) or 0
            for entry in sent
            if entry.uuid is not None  # what the client put back has no line of its own
            for place, part in enumerate(entry.parts)
        },
    )


def _current_tokens(
    db: sqlite3.Connection, file_id: int, session_id: str, agent_id: str | None
) -> tuple[int | None, ContextState]:
    """Return the stored size of the context, which is shown everywhere else."""
    if agent_id is None:
        rows = session_queries.sessions(db, [session_id])
        return tokens_in_use(stored_token_counts(rows[0])) if rows else (None, ContextState.UNKNOWN)
    tokens = session_queries.estimated_next_tokens(db, file_id)
    if tokens is None:
        tokens = session_queries.unreported_tokens(db, file_id, UNREPORTED_USAGE.text_rule)
    return tokens, ContextState.UNKNOWN if tokens is None else ContextState.ESTIMATED


class _SplitConversation:
    """A conversation split at its last measured answer: its context, and what came after."""

    def __init__(
        self,
        entries: Sequence[Entry],
        sent: Sequence[Entry],
        model: str | None,
        current: tuple[int | None, ContextState],
    ) -> None:
        self.entries: Final = entries
        self._tokens, self._state = current
        self.answer: Final = self._find_answer(sent)
        if self.answer:
            message_id = self.answer.message_id
            cut = next(n for n, entry in enumerate(sent) if entry.message_id == message_id)
            before = remove_cleared_content(sent[:cut], find_cleared_content(self.answer, entries))
        else:
            cut, before = len(sent), [*sent]
        self.before: Final = remove_dropped_thinking(before, model)
        self.since: Final = sent[cut:]

    def _find_answer(self, sent: Sequence[Entry]) -> Entry | None:
        answers = [*measured_answers(self.entries, sent)]
        newest = next(iter(answers), None)
        if self._state is not ContextState.MEASURED:
            return newest
        # The client may have gone back to an earlier one.
        return next((each for each in answers if each.context_tokens == self._tokens), newest)

    @property
    def measured_tokens(self) -> int | None:
        is_estimate = self._state is ContextState.ESTIMATED
        if self.answer is None or self.answer.is_estimate or is_estimate:
            return None
        return self.answer.context_tokens

    @property
    def is_unreported(self) -> bool:
        """Whether the last answer came with zeros."""
        answered = (each.context_tokens for each in reversed(self.since or self.before))
        return next((each for each in answered if each is not None), None) == 0

    @property
    def estimated_tokens(self) -> int | None:
        if self._state is ContextState.ESTIMATED:
            return self._tokens
        return self.answer.context_tokens if self.answer else None


class _SentRequest(msgspec.Struct, frozen=True):
    """A request as the client recorded it."""

    messages: list[SentJson]
    prompt: PromptSnapshot


def _read_request(
    db: sqlite3.Connection,
    file_id: int,
    path: Path,
    context: _SplitConversation,
    agent_id: str | None,
    session_id: str,
) -> _SentRequest | None:
    """Read the request behind the last answer, if all its parts are known."""
    if context.answer is None:
        return None
    message_id = context.answer.message_id
    rows = reversed(context_queries.requests(db, session_id, agent_id))
    row = next((row for row in rows if row.message_id == message_id), None)
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
    return _SentRequest(messages, shape)


def _to_content(
    context: _SplitConversation,
    request: _SentRequest | None,
    prompt: PromptSnapshot,
    sizes: PartSizes,
) -> ContextContent:
    parts = context_parts(context.before, sizes)
    if request:
        labels = SentPartLabels(context.before, sizes)
        parts = [part for message in request.messages for part in labels.parts(message)]
    return ContextContent(
        parts=tuple(parts),
        later=tuple(context_parts(context.since, sizes)),
        prompt=prompt,
        overhead_tokens=sizes.overhead,
        measured_tokens=context.measured_tokens,
        estimated_tokens=context.estimated_tokens,
        source=CompositionSource.REQUESTS if request else CompositionSource.PROJECTION,
    )


MAX_LINE_TEXT_CHARS: Final = 20_000  # of the start of a line: more than anybody reads


def read_tool_calls(
    db: sqlite3.Connection, projects: Path, session_id: str, answer: TimelineAnswerRow
) -> tuple[str, ...]:
    """Describe an answer's tool calls; raises TranscriptUnavailableError."""
    with _open_transcript(db, projects, session_id) as path:
        entries = iter_entries(path, answer.offset)
        lines = takewhile(lambda entry: entry.offset <= answer.last_offset, entries)
        return tuple(
            sanitize_title(tool_call_name(part))
            for entry in lines
            if entry.message_id == answer.message_id
            for part in entry.parts
            if part.kind is PartKind.TOOL_INPUT
        )


def read_line_text(db: sqlite3.Connection, projects: Path, session_id: str, number: int) -> str:
    """Read the start of line `number`, from 1; raises TranscriptUnavailableError."""
    with _open_transcript(db, projects, session_id) as path:
        line = next((line for line in iter_lines(path) if line[1] == number), None)
    entry = decode_entry(line[0], line[2], {}, number) if line else None
    if entry is None:
        raise TranscriptUnavailableError(
            f"line {number} of {path} contains nothing that is sent to the model"
        )
    text = "\n".join(_part_texts(entry.parts))
    return sanitize_text(text[:MAX_LINE_TEXT_CHARS])


def _part_texts(parts: tuple[MessagePart, ...]) -> Iterator[str]:
    for part in parts:
        if part.kind is PartKind.TOOL_INPUT:
            yield f"{part.name} {part.text}"
        elif part.text:
            yield part.text
        elif part.media:
            yield "an image or a document"


@contextmanager
def _open_transcript(db: sqlite3.Connection, projects: Path, session_id: str) -> Iterator[Path]:
    place = context_queries.find_transcript(db, session_id, None)
    if place is None:
        raise TranscriptUnavailableError(f"session {session_id} has no transcript")
    path = projects / place[1]
    try:
        yield path
    except OSError as error:
        why = error.strerror or error
        raise TranscriptUnavailableError(f"{path} cannot be read: {why}") from error
