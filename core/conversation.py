"""A conversation as its transcript holds it: entries line by line, and the pieces of each.

Texts are as the model reads them, control characters and all: they are measured and edited,
and cleaned before any of them is shown. Names and paths are clean.
"""

from __future__ import annotations

from enum import StrEnum

import msgspec


class Role(StrEnum):
    """Who speaks, as the API knows it."""

    USER = "user"
    ASSISTANT = "assistant"


class PieceKind(StrEnum):
    """What a part of a message is."""

    PROMPT = "prompt"
    """A person's words."""
    TEXT = "text"
    """The model's words."""
    THINKING = "thinking"
    TOOL_INPUT = "tool_input"
    TOOL_RESULT = "tool_result"
    AGENT_RETURN = "agent_return"
    """What an agent gave back, at once or as a notification."""
    ATTACHMENT = "attachment"
    """What the client put in by itself."""
    SUMMARY = "summary"
    """What a compaction kept."""
    META = "meta"
    """What the client wrote in a person's place: a skill's body, a command's output."""


class Piece(msgspec.Struct, frozen=True):
    """One block of a message."""

    kind: PieceKind
    text: str = ""
    name: str = ""
    """Of a tool, or the attachment's kind."""
    tool_use_id: str | None = None
    """Of the call, in the call and in its result."""
    path: str | None = None
    """The file that a tool read or wrote, also in its result, or that was attached."""
    media: int = 0
    """Images and documents."""
    failed: bool = False


class Snapshot(msgspec.Struct, frozen=True):
    """The system prompt and the tools as a client wrote them down."""

    system: tuple[str, ...]
    tools: tuple[tuple[str, str], ...]
    """Name, and the whole schema as JSON."""


class Boundary(msgspec.Struct, frozen=True):
    """What a compaction left of what stands before it; uuids of lines."""

    trigger: str | None = None
    pre_tokens: int | None = None
    post_tokens: int | None = None
    kept_uuids: tuple[str, ...] = ()
    """Messages that stay, in their order."""
    kept_range: tuple[str, str] | None = None
    """First and last message of what stays, where they are not listed."""
    anchor_uuid: str | None = None
    """The line after which they stand."""


class Clearing(msgspec.Struct, frozen=True):
    """What a microcompaction took out of the client's requests; the transcript keeps it."""

    results: tuple[str, ...]
    """Tool calls whose results the model sees replaced by a short text."""
    attachments: tuple[str, ...]
    """Uuids of lines that are not sent any more."""
    saved_tokens: int | None = None
    """By the client's estimate."""


class Entry(msgspec.Struct, frozen=True):
    """One line of the conversation; times are milliseconds since 1970 (UTC)."""

    offset: int
    """Byte offset in the file."""
    length: int
    """Bytes, without the line end."""
    line: int
    """Counted from 1."""
    type: str
    uuid: str | None = None
    parent: str | None = None
    subtype: str | None = None
    at: int | None = None
    role: Role | None = None
    """None for what is no message."""
    parts: tuple[Piece, ...] = ()
    message_id: str | None = None
    model: str | None = None
    context_tokens: int | None = None
    """Input side of the answer's request."""
    output_tokens: int | None = None
    thinking_tokens: int | None = None
    """Of the output, where the API told them apart."""
    leaf_uuid: str | None = None
    """The line that the client remembers as its newest (`last-prompt`)."""
    request_id: str | None = None
    """Id of the `api-request` that it answers."""
    sidechain: bool = False
    hidden: bool = False
    """Never sent: an error of the API's, written down in the place of an answer."""
    boundary: Boundary | None = None
    snapshot: Snapshot | None = None
    replaced_results: tuple[tuple[str, str], ...] = ()
    """Results that the model sees another text for: tool call and text."""
    microcompaction: Clearing | None = None
    version: str | None = None
    """Of the client that wrote it."""
    is_estimate: bool = False
    """`context_tokens` is an estimate that an edit of ctxtop wrote in the place of the API's."""


class Message(msgspec.Struct, frozen=True):
    """One message as it is sent: the lines that follow each other in one role, as one."""

    role: Role
    entries: tuple[Entry, ...]

    @property
    def parts(self) -> tuple[Piece, ...]:
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


def messages_of(entries: tuple[Entry, ...] | list[Entry]) -> list[Message]:
    """Put the lines together that are one message: an answer's, and a user's that follow.

    Source: client 2.1.329 (`api-request-blob` holds the user's lines that follow each other
    as one message, and an answer's lines as another).
    """
    found: list[Message] = []
    for entry in entries:
        if entry.role is None or entry.hidden or not entry.parts:
            continue
        last = found[-1] if found else None
        if last and last.role is entry.role and _is_same(last, entry):
            found[-1] = Message(last.role, (*last.entries, entry))
        else:
            found.append(Message(entry.role, (entry,)))
    return found


def _is_same(message: Message, entry: Entry) -> bool:
    if entry.role is Role.USER:
        return True
    return entry.message_id is not None and message.entries[-1].message_id == entry.message_id
