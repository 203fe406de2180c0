"""A conversation as its transcript holds it: entries, messages, segments between compactions.

Texts are as the model reads them, control characters included, because they are measured and
edited; sanitize them before you show them. Names and paths are sanitized already.
"""

import re
from collections.abc import Iterable, Iterator, Reversible, Sequence
from enum import StrEnum
from itertools import takewhile
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from .answer_facts import TokenUsage


class Role(StrEnum):
    USER = "user"
    ASSISTANT = "assistant"


class Author(StrEnum):
    """Who wrote the texts of a line of the user's role (`authorship`)."""

    PERSON = "person"  # typed them, or started the client with them (`claude -p`, an SDK)
    CALLER = "caller"  # the model that started the agent
    CTXTOP = "ctxtop"  # the hand-off that begins a session
    OTHER = "other"  # the client, a hook, a channel, another session, an agent


class PartKind(StrEnum):
    PROMPT = "prompt"  # what the model is asked, by a person or by the model that started an agent
    TEXT = "text"  # the model's words
    THINKING = "thinking"
    TOOL_INPUT = "tool_input"
    TOOL_RESULT = "tool_result"
    AGENT_RETURN = "agent_return"  # what an agent returned, at once or as a notification
    ATTACHMENT = "attachment"  # what the client added by itself
    SUMMARY = "summary"  # what a compaction left
    META = "meta"  # the client's text in a user's line: a skill's body, a command's output


class MessagePart(msgspec.Struct, frozen=True, gc=False):
    kind: PartKind
    text: str = ""
    name: str = ""  # of the tool, or the attachment's kind
    tool_use_id: str | None = None  # of a call and of its result
    path: str | None = None  # of the file that a call or its result is about, or that was attached
    media: int = 0  # number of images and documents
    failed: bool = False


RESULT_KINDS: Final = frozenset({PartKind.TOOL_RESULT, PartKind.AGENT_RETURN})

_OUTPUT_TAGS: Final = ("<local-command-stdout>", "<bash-stdout>")


def is_command_output(part: MessagePart) -> bool:
    """Whether a part is the output of a command that a person ran in the client."""
    if part.kind is not PartKind.META:
        return False
    return part.name == "local_command" or part.text.startswith(_OUTPUT_TAGS)


def decode_tool_input(text: str) -> dict[str, Any] | None:
    """Decode a call's input; None for anything but a JSON object."""
    try:
        value = msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def canonical_tool_input(text: str) -> str:
    """Return a text that is equal for equal inputs, whatever their key order and spacing."""
    value = decode_tool_input(text)
    return text if value is None else msgspec.json.encode(value, order="deterministic").decode()


class PromptSnapshot(msgspec.Struct, frozen=True):
    system: tuple[str, ...]
    tools: tuple[tuple[str, str], ...]  # name and whole schema as JSON


class Boundary(msgspec.Struct, frozen=True):
    """What a compaction kept of the entries before it; uuids of lines."""

    trigger: str | None = None
    pre_tokens: int | None = None
    post_tokens: int | None = None
    planned_tokens: int | None = None  # of the next request, if ctxtop wrote the boundary
    kept_uuids: tuple[str, ...] = ()  # in their order
    kept_range: tuple[str, str] | None = None  # first and last kept message, if they are not listed
    anchor_uuid: str | None = None  # the line that the kept messages follow


class Microcompaction(msgspec.Struct, frozen=True):
    """What a microcompaction removed from the client's requests; the transcript keeps it."""

    results: tuple[str, ...]  # tool calls whose results the model sees replaced by a short text
    attachments: tuple[str, ...]  # uuids of lines that are no longer sent
    saved_tokens: int | None = None  # by the client's estimate


class Withdrawal(msgspec.Struct, frozen=True):
    """What is sent no longer from a line on, an attachment or an answer; the file keeps it."""

    results: tuple[str, ...] = ()  # tool calls whose results are replaced by `stand_in`
    stand_in: str = ""
    by_tool: bool = False  # a connector withdrew them
    thinking: bool = False  # that of the answers before the attachment
    first_thinking: tuple[str, int] | None = None  # only from this one of an answer on: id, number
    advice: bool = False  # what advisors said before the attachment
    large_files: bool = False  # what is attached whole since the last answer
    oldest_results: int = 0  # so many, while the answer that says it is the newest


class Entry(msgspec.Struct, frozen=True, gc=False):
    """One line of the conversation; times are milliseconds since 1970 (UTC)."""

    offset: int  # byte offset in the file
    length: int  # bytes, without the line end
    line: int  # from 1
    type: str
    uuid: str | None = None
    parent: str | None = None
    subtype: str | None = None
    at: int | None = None
    role: Role | None = None  # None if the line is no message
    author: Author | None = None  # of the texts in a user's line
    parts: tuple[MessagePart, ...] = ()
    message_id: str | None = None
    model: str | None = None
    context_tokens: int | None = None  # input side of the answer's request
    output_tokens: int | None = None
    usage: TokenUsage | None = None  # summed over a server-side tool loop; the last step's output
    thinking_tokens: int | None = None  # part of the output, if the API reported it
    also_counted_tokens: int = 0  # cleared from the request; the next compaction counts them
    signature_chars: int = 0  # of its thinking: all of it, encrypted, whatever its text says
    leaf_uuid: str | None = None
    """The line that the client remembers as its newest (`last-prompt`); "" if none is left."""
    goes_back: bool = False  # a person chose that line: those behind it are undone
    request_id: str | None = None  # id of the `api-request` that it answers
    sidechain: bool = False
    hidden: bool = False  # never sent: an API error that was recorded in place of an answer
    boundary: Boundary | None = None
    snapshot: PromptSnapshot | None = None
    replaced_results: tuple[tuple[str, str], ...] = ()  # tool call, and the text the model sees
    microcompaction: Microcompaction | None = None
    withdrawal: Withdrawal | None = None
    is_above_limit: bool = False  # a file that was attached whole all the same
    version: str | None = None  # of the client that wrote it
    is_estimate: bool = False  # `context_tokens` is an estimate by an edit of ctxtop
    unread_fields: tuple[str, ...] = ()  # missing here: no client version wrote their type

    @property
    def takes_back(self) -> bool:
        """Whether something before it is sent no longer, or by another text."""
        return bool(self.replaced_results or self.microcompaction or self.withdrawal)


class ConversationMessage(msgspec.Struct, frozen=True):
    """One message as it is sent: consecutive lines of one role."""

    role: Role
    entries: tuple[Entry, ...]

    @property
    def parts(self) -> tuple[MessagePart, ...]:
        return tuple(part for entry in self.entries for part in entry.parts)

    @property
    def key(self) -> str:
        """An id that stays the same on every read of the file (R003-11)."""
        first = self.entries[0]
        return first.uuid or f"at {first.offset}"

    @property
    def text(self) -> str:
        """All text, calls' inputs and results included (R003-02)."""
        return "\n".join(part.text for part in self.parts if part.text)


def has_prompt(message: Entry | ConversationMessage) -> bool:
    """Return whether a message holds a person's words, and so begins a turn."""
    return any(part.kind is PartKind.PROMPT for part in message.parts)


def has_summary(entry: Entry) -> bool:
    return any(part.kind is PartKind.SUMMARY for part in entry.parts)


def only_thinks(entry: Entry) -> bool:
    return all(part.kind is PartKind.THINKING for part in entry.parts)


def with_parts(entry: Entry, parts: Iterable[MessagePart]) -> Entry:
    changed = tuple(parts)
    return entry if changed == entry.parts else replace(entry, parts=changed)


def without_sidechains(entries: Iterable[Entry]) -> Iterator[Entry]:
    """Leave out agents' lines in a session's file (clients up to 2.0); not for an agent's file."""
    return (entry for entry in entries if not entry.sidechain)


def last_boundary(entries: Reversible[Entry]) -> Entry | None:
    return next((entry for entry in reversed(entries) if entry.boundary), None)


def entries_since_compaction(entries: Sequence[Entry]) -> Sequence[Entry]:
    """Return the entries after the last compaction, its summary first."""
    for place in range(len(entries), 0, -1):
        if entries[place - 1].boundary:
            return entries[place:]
    return entries


def remembered_leaf(entries: Reversible[Entry]) -> str | None:
    leaves = (entry.leaf_uuid for entry in reversed(entries) if entry.leaf_uuid is not None)
    return next(leaves, None) or None


def went_back_to(entries: Reversible[Entry]) -> str | None:
    """Return the line that a person went back to, if nothing was written since.

    "" is before the first prompt. The client then resumes exactly there (2.1.332).
    """
    leaf = None
    for entry in reversed(entries):
        if entry.leaf_uuid is None:
            if entry.uuid and not entry.sidechain:
                return None
            continue
        # It writes the newest one again, without saying that a person chose it.
        if leaf is not None and entry.leaf_uuid != leaf:
            return None
        leaf = entry.leaf_uuid
        if entry.goes_back:
            return leaf
    return None


def newest_model(sent: Reversible[Entry]) -> str | None:
    return next((entry.model for entry in reversed(sent) if entry.output_tokens is not None), None)


def measured_answers(entries: Reversible[Entry], sent: Reversible[Entry]) -> Iterator[Entry]:
    """Yield the answers since the last compaction whose context was measured, newest first."""
    last = last_boundary(entries)
    start = -1 if last is None else last.offset
    return (
        entry
        for entry in reversed(sent)
        if entry.context_tokens and entry.offset > start and entry.message_id
    )


def group_messages(entries: tuple[Entry, ...] | list[Entry]) -> list[ConversationMessage]:
    """Group the lines of one answer, and consecutive lines of the user.

    Source: client 2.1.329 (`api-request-blob`).
    """
    messages: list[ConversationMessage] = []
    for entry in entries:
        if entry.role is None or entry.hidden or not entry.parts:
            continue
        last = messages[-1] if messages else None
        if last and last.role is entry.role and _belongs_to(last, entry):
            messages[-1] = ConversationMessage(last.role, (*last.entries, entry))
        else:
            messages.append(ConversationMessage(entry.role, (entry,)))
    return messages


def _belongs_to(message: ConversationMessage, entry: Entry) -> bool:
    if entry.role is Role.USER:
        return True
    return entry.message_id is not None and message.entries[-1].message_id == entry.message_id


class Segment(msgspec.Struct, frozen=True):
    """The entries between two compactions, and what the second one made of them."""

    entries: tuple[Entry, ...]  # the first compaction's summary and attachments come first
    end: Entry  # the line of the second boundary
    boundary: Boundary
    summary: str  # empty if none follows before the next answer
    kept: tuple[Entry, ...]
    attached: tuple[Entry, ...] = ()  # added before the next answer: files read again or named

    @property
    def has_history(self) -> bool:
        """Whether any conversation precedes the boundary.

        False in a file that begins at its compaction: what was forgotten cannot be known. The
        client begins any file with meta lines and attachments, which do not count.
        """
        added = {PartKind.META, PartKind.ATTACHMENT}
        return any(part.kind not in added for entry in self.entries for part in entry.parts)


def split_segments(entries: Iterable[Entry]) -> Iterator[Segment]:
    """Split a conversation at its compactions; the entries after the last one are no segment.

    `entries` are of one context: an agent's file, or a session's without sidechains. A line that
    was appended again, a boundary too, counts only where it first stood (claude-code-formats 1.7,
    point 6; 11.2).
    """
    chain = drop_repeated_entries(entries)
    ends = [(place, entry.boundary) for place, entry in enumerate(chain) if entry.boundary]
    start = 0
    for number, (end, boundary) in enumerate(ends):
        until = ends[number + 1][0] if number + 1 < len(ends) else len(chain)
        # A compaction is complete once an answer follows it.
        after = list(
            takewhile(
                lambda entry: entry.role is not Role.ASSISTANT or entry.hidden,
                chain[end + 1 : until],
            )
        )
        yield Segment(
            entries=tuple(chain[start:end]),
            end=chain[end],
            boundary=boundary,
            summary=next(
                (
                    part.text
                    for entry in after
                    for part in entry.parts
                    if part.kind is PartKind.SUMMARY
                ),
                "",
            ),
            kept=kept_entries(boundary, chain[:end]),
            attached=tuple(entry for entry in after if entry.type == "attachment"),
        )
        start = end + 1


def drop_repeated_entries(entries: Iterable[Entry]) -> list[Entry]:
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
    (claude-code-formats 3.6). A message or a range that is not on disk is left out.
    """
    if boundary.kept_uuids:
        kept = frozenset(boundary.kept_uuids)
        return tuple(entry for entry in before if entry.uuid in kept)
    if boundary.kept_range is None:
        return ()
    places = {entry.uuid: place for place, entry in enumerate(before) if entry.uuid}
    head, tail = (places.get(uuid) for uuid in boundary.kept_range)
    if head is None or tail is None:
        return ()
    return tuple(entry for entry in before[head : tail + 1] if entry.role is not None)


CLEARED_RESULT_TEXT: Final = "[Old tool result content cleared]"  # (formats 3.5)


class ClearedContent(msgspec.Struct, frozen=True):
    """What one request did not hold although lines before it do."""

    results: frozenset[str]  # tool calls whose results were replaced by CLEARED_RESULT_TEXT
    attachments: frozenset[str]  # uuids of lines that were left out

    def includes(self, entry: Entry, part: MessagePart) -> bool:
        if entry.uuid in self.attachments:
            return True
        return part.kind in RESULT_KINDS and part.tool_use_id in self.results


def find_cleared_content(answer: Entry, entries: Iterable[Entry]) -> ClearedContent:
    """Collect what microcompactions had cleared from the request of an answer.

    The client clears in memory: the process that cleared continues without the texts, and a
    later one reads them from the transcript and sends them whole (seen in client 2.1.329).
    A line names only the version of its process, so another version is another process.
    """
    clearings = [
        entry.microcompaction
        for entry in entries
        if entry.microcompaction is not None
        and entry.offset < answer.offset
        and entry.version == answer.version
    ]
    return ClearedContent(
        frozenset(call for clearing in clearings for call in clearing.results),
        frozenset(uuid for clearing in clearings for uuid in clearing.attachments),
    )


def remove_cleared_content(sent: Sequence[Entry], cleared: ClearedContent) -> list[Entry]:
    return [
        with_parts(
            entry,
            (
                replace(part, text=CLEARED_RESULT_TEXT, media=0)
                if cleared.includes(entry, part)
                else part
                for part in entry.parts
            ),
        )
        for entry in sent
        if entry.uuid not in cleared.attachments
    ]


def cleared_result_ids(entries: Iterable[Entry]) -> set[str]:
    """Return the tool calls whose results the model saw replaced.

    Clearings and replacements name them; a rewritten transcript holds the replacement itself.
    """
    ids: set[str] = set()
    for entry in entries:
        ids.update(call for call, _ in entry.replaced_results)
        if entry.microcompaction is not None:
            ids.update(entry.microcompaction.results)
        if entry.withdrawal is not None:
            ids.update(entry.withdrawal.results)
        ids |= replaced_result_ids(entry.parts)
    return ids


def replaced_result_ids(parts: Iterable[MessagePart]) -> set[str]:
    return {
        part.tool_use_id
        for part in parts
        if part.kind in RESULT_KINDS
        and part.tool_use_id
        and part.text.strip() == CLEARED_RESULT_TEXT
    }


_DROPS_THINKING: Final = re.compile(
    r"claude-(?:3-|haiku-[34]|(?:opus-4(?:-[01])?|sonnet-4(?:-[05])?)(?:[-@]\d{8}|$))"
)
"""Models that see the thinking of the current turn only: before Opus 4.5, before Sonnet 4.6,
and the Haikus before 5.5 (claude-code-formats 3.4)."""


def drops_thinking(model: str | None) -> bool:
    """Return whether a model does not see the thinking of earlier turns; unknown models do."""
    return model is not None and _DROPS_THINKING.match(model) is not None


_UNBOUND_MODELS: Final = re.compile(r"claude-(?:3-|(?:opus|sonnet|haiku)-4(?:\D|$))")
"""Models known to accept their thinking after a changed text: all before the fifth generation.
Unknown models are taken to bind it (compaction.md 2.5: the preserved-thinking pages name Fable
5.1 and later, Opus, Sonnet and Haiku 5.5)."""


def binds_thinking(model: str | None) -> bool:
    """Whether a model accepts its thinking only after an unchanged conversation; yes if unknown."""
    return model is None or _UNBOUND_MODELS.match(model) is None


def is_from_other_model(entry: Entry, model: str | None) -> bool:
    """Return whether another model wrote an answer: no model gets its thinking (client 2.1.329)."""
    return model is not None and entry.model is not None and entry.model != model


def remove_dropped_thinking(entries: Sequence[Entry], model: str | None) -> list[Entry]:
    """Leave out other models' thinking, and for some models all before the last prompt."""
    last_prompt = 0
    if drops_thinking(model):
        last_prompt = max((n for n, entry in enumerate(entries) if has_prompt(entry)), default=0)
    kept = [
        with_parts(entry, (part for part in entry.parts if part.kind is not PartKind.THINKING))
        if place < last_prompt or is_from_other_model(entry, model)
        else entry
        for place, entry in enumerate(entries)
    ]
    return [entry for entry in kept if entry.parts]


DONE_STATUSES: Final = frozenset({"completed", "deleted", "cancelled"})
IN_PROGRESS: Final = "in_progress"
