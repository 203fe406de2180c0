"""A conversation as its transcript holds it: entries, messages, segments between compactions.

Texts are as the model reads them, control characters included: they are measured and edited,
and sanitized before any of them is shown. Names and paths are sanitized already.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Reversible, Sequence
from enum import StrEnum
from itertools import takewhile
from typing import Any, Final

import msgspec
from msgspec.structs import replace


class TokenUsage(msgspec.Struct, frozen=True, gc=False):
    """Token counts of one request, as the API reports them."""

    input_tokens: int = 0  # input that was neither read from nor written to the cache
    cache_creation_tokens: int = 0
    cache_read_tokens: int = 0
    output_tokens: int = 0


def context_tokens(usage: TokenUsage) -> int:
    """Tokens that the model saw: the input side of one request, output excluded.

    Source: the client's own `used_percentage` (reference: claude-code-formats 3.1 A,
    confirmed on 2.1.329).
    """
    return usage.input_tokens + usage.cache_creation_tokens + usage.cache_read_tokens


AGENT_RESUMED_MS: Final = 2_000
"""An agent that writes this long after it returned was sent another message."""


class Role(StrEnum):
    """Who speaks, as the API knows it."""

    USER = "user"
    ASSISTANT = "assistant"


class PartKind(StrEnum):
    """What a part of a message is."""

    PROMPT = "prompt"  # a person's words
    TEXT = "text"  # the model's words
    THINKING = "thinking"
    TOOL_INPUT = "tool_input"
    TOOL_RESULT = "tool_result"
    AGENT_RETURN = "agent_return"  # what an agent gave back, at once or as a notification
    ATTACHMENT = "attachment"  # what the client put in by itself
    SUMMARY = "summary"  # what a compaction kept
    META = "meta"  # what the client wrote in a person's place: a skill's body, a command's output


class MessagePart(msgspec.Struct, frozen=True, gc=False):
    """One block of a message."""

    kind: PartKind
    text: str = ""
    name: str = ""  # of a tool, or the attachment's kind
    tool_use_id: str | None = None  # of the call, in the call and in its result
    path: str | None = None
    """The file that a tool read or wrote, also in its result, or that was attached."""
    media: int = 0  # images and documents
    failed: bool = False


RESULT_KINDS: Final = frozenset({PartKind.TOOL_RESULT, PartKind.AGENT_RETURN})


def decode_tool_input(text: str) -> dict[str, Any] | None:
    """Decode what a tool was asked; None for what is no object."""
    try:
        asked = msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return None
    return asked if isinstance(asked, dict) else None


class PromptSnapshot(msgspec.Struct, frozen=True):
    """The system prompt and the tools as a client wrote them down."""

    system: tuple[str, ...]
    tools: tuple[tuple[str, str], ...]  # name, and the whole schema as JSON


class Boundary(msgspec.Struct, frozen=True):
    """What a compaction left of what stands before it; uuids of lines."""

    trigger: str | None = None
    pre_tokens: int | None = None
    post_tokens: int | None = None
    kept_uuids: tuple[str, ...] = ()  # messages that stay, in their order
    kept_range: tuple[str, str] | None = None
    """First and last message of what stays, where they are not listed."""
    anchor_uuid: str | None = None  # the line after which they stand


class Microcompaction(msgspec.Struct, frozen=True):
    """What a microcompaction took out of the client's requests; the transcript keeps it."""

    results: tuple[str, ...]  # tool calls whose results the model sees replaced by a short text
    attachments: tuple[str, ...]  # uuids of lines that are not sent any more
    saved_tokens: int | None = None  # by the client's estimate


class Entry(msgspec.Struct, frozen=True, gc=False):
    """One line of the conversation; times are milliseconds since 1970 (UTC)."""

    offset: int  # byte offset in the file
    length: int  # bytes, without the line end
    line: int  # counted from 1
    type: str
    uuid: str | None = None
    parent: str | None = None
    subtype: str | None = None
    at: int | None = None
    role: Role | None = None  # none for what is no message
    parts: tuple[MessagePart, ...] = ()
    message_id: str | None = None
    model: str | None = None
    context_tokens: int | None = None  # input side of the answer's request
    output_tokens: int | None = None
    thinking_tokens: int | None = None  # of the output, where the API told them apart
    leaf_uuid: str | None = None  # the line that the client remembers as its newest (`last-prompt`)
    request_id: str | None = None  # id of the `api-request` that it answers
    sidechain: bool = False
    hidden: bool = False
    """Never sent: an error of the API's, written down in the place of an answer."""
    boundary: Boundary | None = None
    snapshot: PromptSnapshot | None = None
    replaced_results: tuple[tuple[str, str], ...] = ()
    """Results that the model sees another text for: tool call and text."""
    microcompaction: Microcompaction | None = None
    version: str | None = None  # of the client that wrote it
    is_estimate: bool = False
    """`context_tokens` is an estimate that an edit of ctxtop wrote in the place of the API's."""
    unread_fields: tuple[str, ...] = ()
    """Fields of another kind than any version of the client wrote: what they say is not here."""


class ConversationMessage(msgspec.Struct, frozen=True):
    """One message as it is sent: the lines that follow each other in one role, as one."""

    role: Role
    entries: tuple[Entry, ...]

    @property
    def parts(self) -> tuple[MessagePart, ...]:
        """The blocks of all its lines."""
        return tuple(piece for entry in self.entries for piece in entry.parts)

    @property
    def key(self) -> str:
        """An id that is the same whenever the file is read (R003-11)."""
        first = self.entries[0]
        return first.uuid or f"at {first.offset}"

    @property
    def text(self) -> str:
        """What it says, block by block; the calls' inputs and results too (R003-02)."""
        return "\n".join(piece.text for piece in self.parts if piece.text)


def has_prompt(said: Entry | ConversationMessage) -> bool:
    """Whether it holds a person's words, and so begins a turn."""
    return any(piece.kind is PartKind.PROMPT for piece in said.parts)


def only_thinks(entry: Entry) -> bool:
    return all(piece.kind is PartKind.THINKING for piece in entry.parts)


def without_sidechains(entries: Iterable[Entry]) -> Iterator[Entry]:
    """Leave out agents' lines, which stand in a session's own file (clients up to 2.0).

    An agent's file is a sidechain from its first line to its last.
    """
    return (entry for entry in entries if not entry.sidechain)


def last_boundary(entries: Reversible[Entry]) -> Entry | None:
    """Return the line of the last compaction."""
    return next((each for each in reversed(entries) if each.boundary), None)


def entries_since_compaction(entries: Sequence[Entry]) -> Sequence[Entry]:
    """Return the entries after the last compaction, beginning with its summary."""
    for place in range(len(entries), 0, -1):
        if entries[place - 1].boundary:
            return entries[place:]
    return entries


def remembered_leaf(entries: Reversible[Entry]) -> str | None:
    """Return the uuid of the line that the client remembers as its newest."""
    return next((each.leaf_uuid for each in reversed(entries) if each.leaf_uuid), None)


def newest_model(sent: Reversible[Entry]) -> str | None:
    """Return the model of the last answer that the API measured."""
    return next((each.model for each in reversed(sent) if each.output_tokens is not None), None)


def measured_answers(entries: Reversible[Entry], sent: Reversible[Entry]) -> Iterator[Entry]:
    """Yield the answers since the last compaction that say what they saw, the newest first."""
    last = last_boundary(entries)
    start = -1 if last is None else last.offset
    return (
        each
        for each in reversed(sent)
        if each.context_tokens and each.offset > start and each.message_id
    )


def group_messages(entries: tuple[Entry, ...] | list[Entry]) -> list[ConversationMessage]:
    """Put the lines together that are one message: an answer's, and a user's that follow.

    Source: client 2.1.329 (`api-request-blob` holds the user's lines that follow each other
    as one message, and an answer's lines as another).
    """
    found: list[ConversationMessage] = []
    for entry in entries:
        if entry.role is None or entry.hidden or not entry.parts:
            continue
        last = found[-1] if found else None
        if last and last.role is entry.role and _belongs_to(last, entry):
            found[-1] = ConversationMessage(last.role, (*last.entries, entry))
        else:
            found.append(ConversationMessage(entry.role, (entry,)))
    return found


def _belongs_to(message: ConversationMessage, entry: Entry) -> bool:
    if entry.role is Role.USER:
        return True
    return entry.message_id is not None and message.entries[-1].message_id == entry.message_id


_SPOKEN: Final = frozenset(PartKind) - {PartKind.META, PartKind.ATTACHMENT}
"""What a conversation consists of; the client puts the rest at the beginning of any file."""


class Segment(msgspec.Struct, frozen=True):
    """What stands between two compactions, and what the second made of it."""

    entries: tuple[Entry, ...]
    """From the boundary before it, whose summary and attachments come first."""
    end: Entry  # the line of the boundary
    boundary: Boundary
    summary: str  # empty where none follows before the next answer
    kept: tuple[Entry, ...]
    attached: tuple[Entry, ...] = ()
    """What the client attached before the next answer: files that it read again, or named."""

    @property
    def has_history(self) -> bool:
        """Whether anything that was said stands before the boundary.

        False in a file that begins at its compaction: what was forgotten cannot be known.
        """
        return any(piece.kind in _SPOKEN for entry in self.entries for piece in entry.parts)


def split_segments(entries: Iterable[Entry]) -> Iterator[Segment]:
    """Cut a conversation at its compactions; what follows the last one is no segment.

    Give the entries of one context: an agent's file whole, a session's without sidechains.
    A line that is appended again counts where it stood first, a boundary too: it is the same
    compaction (claude-code-formats 1.7, point 6; 11.2).
    """
    chain = drop_repeated_entries(entries)
    ends = [(n, entry.boundary) for n, entry in enumerate(chain) if entry.boundary]
    start = 0
    for number, (end, boundary) in enumerate(ends):
        until = ends[number + 1][0] if number + 1 < len(ends) else len(chain)
        yield Segment(
            entries=tuple(chain[start:end]),
            end=chain[end],
            boundary=boundary,
            summary=_summary_text(chain[end + 1 : until]),
            kept=kept_entries(boundary, chain[:end]),
            attached=_attached(chain[end + 1 : until]),
        )
        start = end + 1


def _attached(after: Iterable[Entry]) -> tuple[Entry, ...]:
    said = takewhile(lambda entry: entry.role is not Role.ASSISTANT or entry.hidden, after)
    return tuple(entry for entry in said if entry.type == "attachment")


def drop_repeated_entries(entries: Iterable[Entry]) -> list[Entry]:
    """Leave out lines whose uuid stood before, in their order."""
    seen: set[str] = set()
    first = []
    for entry in entries:
        if entry.uuid is None or entry.uuid not in seen:
            first.append(entry)
        if entry.uuid is not None:
            seen.add(entry.uuid)
    return first


def kept_entries(boundary: Boundary, before: Sequence[Entry]) -> tuple[Entry, ...]:
    """Find the messages that a compaction keeps, in the order of their lines.

    Clients of 2.1.2xx and later list them; older ones name the first and the last
    (claude-code-formats 3.6). What is not on disk, or a pair that is not there, is left out.
    """
    if boundary.kept_uuids:
        wanted = frozenset(boundary.kept_uuids)
        return tuple(entry for entry in before if entry.uuid in wanted)
    if boundary.kept_range is None:
        return ()
    places = {entry.uuid: place for place, entry in enumerate(before) if entry.uuid}
    head, tail = (places.get(uuid) for uuid in boundary.kept_range)
    if head is None or tail is None:
        return ()
    return tuple(entry for entry in before[head : tail + 1] if entry.role is not None)


def _summary_text(after: Iterable[Entry]) -> str:
    for entry in after:
        for piece in entry.parts:
            if piece.kind is PartKind.SUMMARY:
                return piece.text
        if entry.role is Role.ASSISTANT and not entry.hidden:
            break
    return ""


CLEARED_RESULT_TEXT: Final = "[Old tool result content cleared]"
"""What the model sees for a result that the client cleared (claude-code-formats 3.5)."""


class ClearedContent(msgspec.Struct, frozen=True):
    """What one request did not hold although lines before it do."""

    results: frozenset[str] = frozenset()  # tool calls whose results were replaced by CLEARED
    attachments: frozenset[str] = frozenset()  # uuids of lines that were left out

    def includes(self, entry: Entry, part: MessagePart) -> bool:
        """Return whether a piece of an entry was cleared."""
        if entry.uuid in self.attachments:
            return True
        return part.kind in RESULT_KINDS and part.tool_use_id in self.results


NOTHING_CLEARED: Final = ClearedContent()


def find_cleared_content(answer: Entry, entries: Iterable[Entry]) -> ClearedContent:
    """Collect what microcompactions had cleared when an answer was asked for.

    The client clears in memory: the process that cleared goes on without the texts, and a
    later one reads them from the transcript and sends them whole (seen in client 2.1.329).
    Of a process its version alone is written down, so another version is another process.
    """
    clearings = [
        entry.microcompaction
        for entry in entries
        if entry.microcompaction is not None
        and entry.offset < answer.offset
        and entry.version == answer.version
    ]
    if not clearings:
        return NOTHING_CLEARED
    return ClearedContent(
        frozenset(call for each in clearings for call in each.results),
        frozenset(uuid for each in clearings for uuid in each.attachments),
    )


def remove_cleared_content(sent: Sequence[Entry], cleared: ClearedContent) -> list[Entry]:
    """Return entries as a request held them from which something was cleared."""
    if cleared == NOTHING_CLEARED:
        return list(sent)
    return [
        _with_cleared_results(entry, cleared)
        for entry in sent
        if entry.uuid not in cleared.attachments
    ]


def _with_cleared_results(entry: Entry, cleared: ClearedContent) -> Entry:
    if not any(cleared.includes(entry, piece) for piece in entry.parts):
        return entry
    pieces = (
        replace(piece, text=CLEARED_RESULT_TEXT, media=0)
        if cleared.includes(entry, piece)
        else piece
        for piece in entry.parts
    )
    return replace(entry, parts=tuple(pieces))


def cleared_result_ids(entries: Iterable[Entry]) -> set[str]:
    """Name the tool calls whose results the model saw replaced, as the transcript shows it.

    Microcompact boundaries and content replacements name them; a rewritten transcript holds
    the text in the result's place.
    """
    found: set[str] = set()
    for entry in entries:
        found.update(call for call, _ in entry.replaced_results)
        if entry.microcompaction is not None:
            found.update(entry.microcompaction.results)
        found |= replaced_result_ids(entry.parts)
    return found


def replaced_result_ids(parts: Iterable[MessagePart]) -> set[str]:
    """Name the calls whose result is the text that stands for a cleared one."""
    return {
        piece.tool_use_id
        for piece in parts
        if piece.kind in RESULT_KINDS
        and piece.tool_use_id
        and piece.text.strip() == CLEARED_RESULT_TEXT
    }


_DROPS_THINKING: Final = re.compile(
    r"claude-(?:3-|haiku-[34]|(?:opus-4(?:-[01])?|sonnet-4(?:-[05])?)(?:[-@]\d{8}|$))"
)
"""Models that see the thoughts of the turn at hand alone: before Opus 4.5, before Sonnet 4.6,
and the Haikus before 5.5 (claude-code-formats 3.4)."""


def drops_thinking(model: str | None) -> bool:
    """Whether a model does not see the thinking of earlier turns; an unknown model does."""
    return model is not None and _DROPS_THINKING.match(model) is not None


def is_from_other_model(entry: Entry, model: str | None) -> bool:
    """Whether another model wrote an answer: a model never gets another model's thinking.

    Source: client 2.1.329, which sends a model its own thinking again once it is back in use.
    """
    return model is not None and entry.model is not None and entry.model != model


def remove_dropped_thinking(entries: Sequence[Entry], model: str | None) -> list[Entry]:
    """Leave out the thoughts that a model does not see.

    Another model's, and those before the last prompt where it sees the turn at hand alone.
    """
    last = 0
    if drops_thinking(model):
        last = max((place for place, each in enumerate(entries) if has_prompt(each)), default=0)
    kept = [
        _without_thinking(each) if place < last or is_from_other_model(each, model) else each
        for place, each in enumerate(entries)
    ]
    return [each for each in kept if each.parts]


def _without_thinking(entry: Entry) -> Entry:
    if not any(piece.kind is PartKind.THINKING for piece in entry.parts):
        return entry
    return replace(
        entry,
        parts=tuple(piece for piece in entry.parts if piece.kind is not PartKind.THINKING),
    )
