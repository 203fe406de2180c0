"""Decodes a transcript line: its fields, content blocks and token usage, only those used.

Fields that are long or that differ by client version stay raw bytes until they are needed.
"""

from collections.abc import Iterable
from typing import Annotated, Any, Final, TypeVar

import msgspec
from msgspec import UNSET, Meta, Raw, UnsetType, field

from .lenient_json import (
    NotJsonError,
    UnexpectedShapeError,
    decode_checked,
    drop_unreadable_fields,
    repair_line,
)
from .raw_lines import timestamp_to_ms
from .reported_usage import (
    ContextManagement,
    Count,
    DetailedUsage,
    ForkSource,
    PausedResponse,
    RawUsage,
    name_answer,
)

StructT = TypeVar("StructT", bound=msgspec.Struct)

Dollars = Annotated[float, Meta(ge=0, le=1_000_000_000)]  # a larger cost is an error


class RawMessage(msgspec.Struct, gc=False):
    id: str | None = None
    model: str | None = None
    content: Raw | UnsetType = UNSET
    usage: DetailedUsage | None = None
    stop_reason: Raw | UnsetType = UNSET
    paused: list[PausedResponse] | None = field(name="pausedResponses", default=None)
    context_management: ContextManagement | None = None


class CacheMissReason(msgspec.Struct, gc=False):
    """Why the API read less from its cache than an earlier request had left there."""

    type: str | None = None
    cache_missed_input_tokens: Count | None = None


class Diagnostics(msgspec.Struct, gc=False):  # of an answer, since about 2.1.205
    cache_miss_reason: CacheMissReason | None = None


class PlanInput(msgspec.Struct):
    plan: str | None = None


class AgentInput(msgspec.Struct):
    subagent_type: str | None = None
    description: str | None = None
    prompt: str | None = None
    model: str | None = None


class RawBlock(msgspec.Struct, gc=False):
    type: str | None = None
    text: str | None = None
    thinking: str | None = None
    signature: Raw | UnsetType = UNSET  # of thinking
    id: str | None = None
    name: str | None = None
    input: Raw | UnsetType = UNSET
    tool_use_id: str | None = None
    content: Raw | UnsetType = UNSET
    is_error: Raw | UnsetType = UNSET


class PreservedMessages(msgspec.Struct, rename="camel"):
    """The messages that a compaction kept: a list, or the first and the last (older clients)."""

    anchor_uuid: str | None = None
    uuids: tuple[str, ...] | None = None
    head_uuid: str | None = None
    tail_uuid: str | None = None


class CompactMetadata(msgspec.Struct, rename="camel"):
    trigger: str | None = None
    pre_tokens: Count | None = None
    post_tokens: Count | None = None
    ctxtop_next_tokens: Count | None = None  # only of a boundary that ctxtop wrote
    cumulative_dropped_tokens: Count | None = None
    precomputed: bool = False  # made in the background, and used once a prompt was refused
    duration_ms: Count | None = None
    preserved_messages: PreservedMessages | None = None
    preserved_segment: PreservedMessages | None = None


class MicrocompactMetadata(msgspec.Struct, rename="camel"):
    tokens_saved: Count | None = None
    compacted_tool_ids: list[str] = []
    cleared_attachments: list[str] = field(name="clearedAttachmentUUIDs", default_factory=list)


class AgentToolResult(msgspec.Struct, rename="camel"):  # `toolUseResult` of an agent's tool call
    agent_id: str | None = None
    task_id: str | None = None
    teammate_id: str | None = field(name="teammate_id", default=None)
    name: Raw | UnsetType = UNSET  # of a teammate; by it the team's messages name the sender
    status: str | None = None
    resolved_model: str | None = None
    content: Raw | UnsetType = UNSET
    total_tokens: Count | None = None
    total_tool_use_count: Count | None = None
    usage: RawUsage | None = None


class TaskOutput(msgspec.Struct):
    task_id: str | None = None
    task_type: str | None = None
    status: str | None = None
    result: str | None = None
    output: str | None = None


class TaskToolResult(msgspec.Struct):
    """`toolUseResult` of the tools that wait for a background task, or stop one."""

    retrieval_status: str | None = None
    task: TaskOutput | None = None
    task_id: str | None = None
    task_type: str | None = None


class MessageOrigin(msgspec.Struct):  # of a user's line
    kind: str | None = None


class SourceSession(msgspec.Struct):  # a session that this one was copied from, and how
    id: str | None = None
    via: str | None = None


class WorktreeSession(msgspec.Struct, rename="camel"):
    """The git worktree that a session entered (`worktree-state`)."""

    original_cwd: str | None = None  # where it was before
    worktree_path: str | None = None


class ProgressStep(msgspec.Struct, rename="camel"):
    """The agent's own line inside a `progress` line."""

    type: str | None = None
    uuid: str | None = None
    timestamp: str | None = None
    request_id: str | None = None
    message: RawMessage | None = None
    is_unmetered: bool | None = None


class ProgressData(msgspec.Struct, rename="camel"):
    type: str | None = None
    agent_id: str | None = None
    message: Raw | UnsetType = UNSET


class ModelIdentity(msgspec.Struct, rename="camel"):  # of the model's introduction
    model_id: str | None = None


class Attachment(msgspec.Struct):
    type: str | None = None
    identity: ModelIdentity | None = None
    prompt: Raw | UnsetType = UNSET
    content: Raw | UnsetType = UNSET
    stdout: Raw | UnsetType = UNSET
    messages: Raw | UnsetType = UNSET


class HookInfo(msgspec.Struct, rename="camel"):
    """A hook in a `stop_hook_summary`; the client's own has no duration."""

    command: str | None = None
    duration_ms: Count | None = None


class ResultReplacement(msgspec.Struct, rename="camel"):
    """The text that the model sees for a tool's result."""

    tool_use_id: str | None = None
    replacement: str | None = None


class TranscriptLine(msgspec.Struct, gc=False, rename="camel"):
    """The envelope of any line; common fields come first, in the client's order."""

    parent_uuid: str | None = None
    is_sidechain: bool | None = None
    cwd: str | None = None
    git_branch: str | None = None
    session_id: str | None = None
    version: str | None = None
    type: str | None = None
    subtype: str | None = None
    message: RawMessage | None = None
    is_meta: bool | None = None
    uuid: str | None = None
    timestamp: str | None = None
    tool_use_result: Raw | UnsetType = UNSET
    attachment: Raw | UnsetType = UNSET
    is_compact_summary: bool | None = None
    replaces_span: bool | None = None  # it takes the place of messages, as a summary does
    is_api_error_message: bool | None = None
    is_unmetered: bool | None = None
    logical_parent_uuid: str | None = None
    request_ref: str | None = None
    request_id: str | None = None
    tool_denial_kind: str | None = None
    compact_metadata: CompactMetadata | None = None
    microcompact_metadata: MicrocompactMetadata | None = None
    rendered: Raw | UnsetType = UNSET
    replacements: list[ResultReplacement] | None = None
    origin: MessageOrigin | None = None
    prompt_source: str | None = None
    turn_origin: str | None = None
    # What marks a message as not typed by the person, whatever the value (`authorship`).
    email_sender_turn: Raw | UnsetType = UNSET
    from_another_session: Raw | UnsetType = UNSET
    from_connector: Raw | UnsetType = UNSET
    handed_off: Raw | UnsetType = UNSET
    is_virtual: Raw | UnsetType = UNSET
    is_visible_in_transcript_only: Raw | UnsetType = UNSET
    projects_user_turn: Raw | UnsetType = UNSET
    prompt_rewritten: Raw | UnsetType = UNSET
    queue_skip_attachments: Raw | UnsetType = UNSET
    queue_transcript_only: Raw | UnsetType = UNSET
    scheduled_task_id: Raw | UnsetType = UNSET
    text_not_typed: Raw | UnsetType = UNSET
    turn_companion: Raw | UnsetType = UNSET
    verified_slack_human_turn: Raw | UnsetType = UNSET
    wakeup_source: Raw | UnsetType = UNSET
    forked_from: ForkSource | None = None
    error: Raw | UnsetType = UNSET
    error_details: Raw | UnsetType = UNSET
    custom_title: str | None = None
    ai_title: str | None = None
    summary: str | None = None
    last_prompt: str | None = None
    leaf_uuid: str | None = None
    explicit: bool | None = None  # of a `last-prompt`: a person went back to it
    data: Raw | UnsetType = UNSET
    parent_tool_use_id: str | None = field(name="parentToolUseID", default=None)
    content: Raw | UnsetType = UNSET
    context_usage: Raw | UnsetType = UNSET
    sessions: Raw | UnsetType = UNSET
    agent_id: str | None = None
    result: Raw | UnsetType = UNSET
    total_cost: Dollars | None = field(name="totalCostUSD", default=None)
    hook_infos: Raw | UnsetType = UNSET
    hook_errors: Raw | UnsetType = UNSET
    hook_label: Raw | UnsetType = UNSET
    stop_reason: Raw | UnsetType = UNSET
    worktree_session: Raw | UnsetType = UNSET
    relocated_cwd: str | None = None  # of a `relocated`: its transcript was moved too

    @property
    def at(self) -> int | None:
        """Milliseconds since 1970 (UTC)."""
        return timestamp_to_ms(self.timestamp)

    @property
    def is_rewind_marker(self) -> bool:
        """Whether a boundary only says which messages a rewind kept: nothing was compacted.

        Such a one is its own anchor, and took no time (client 2.1.332, its code).
        """
        found = self.compact_metadata or CompactMetadata()
        anchor = (found.preserved_messages or PreservedMessages()).anchor_uuid
        return anchor is not None and anchor == self.uuid and found.duration_ms == 0

    def name_at(self, offset: int) -> str:
        return self.uuid or f"at {offset}"


SYNTHETIC_MODEL: Final = "<synthetic>"  # of an answer that the client made up: no request, no usage
COMPACT_BOUNDARY: Final = "compact_boundary"  # subtype of the line that a compaction leaves


JSON_TRUE: Final = Raw(b"true")
END_OF_TURN: Final = Raw(b'"end_turn"')  # why an answer stopped, if the model is done

_QUOTE, _BRACE, _NULL = b'"{n'
_line_decoder: Final = msgspec.json.Decoder(TranscriptLine)
_blocks_decoder: Final = msgspec.json.Decoder(list[RawBlock])
_string_decoder: Final = msgspec.json.Decoder(str)
_attachment_decoder: Final = msgspec.json.Decoder(Attachment | None)


def decode_line(data: bytes | memoryview) -> TranscriptLine:
    """Decode all fields; raises NotJsonError or UnexpectedShapeError with the reason."""
    try:
        return _named(decode_checked(data, _line_decoder.decode))
    except NotJsonError:
        return _named(decode_checked(repair_line(bytes(data)), _line_decoder.decode))


def _named(line: TranscriptLine) -> TranscriptLine:
    if line.message is not None and line.type == "assistant":
        name_answer(line.message, line)
    return line


def decode_readable_fields(data: bytes) -> tuple[TranscriptLine, tuple[str, ...]]:
    """Decode a line, and name the fields that were left out for their unexpected type.

    Raises NotJsonError.
    """
    try:
        return decode_line(data), ()
    except UnexpectedShapeError:
        readable, unread = drop_unreadable_fields(repair_line(data), TranscriptLine)
        return _named(_line_decoder.decode(readable)), unread


def decode_blocks(content: Raw | UnsetType) -> list[RawBlock]:
    """Decode a message's content, a string or a list of blocks; anything else is empty.

    Raises NotJsonError if its bytes are not UTF-8: fields that are kept raw are not checked before.
    """
    try:
        return decode_blocks_strictly(content)
    except UnexpectedShapeError:
        return []


def message_blocks(line: TranscriptLine) -> list[RawBlock]:
    """Decode the content of a line's message; raises NotJsonError as `decode_blocks` does."""
    return decode_blocks(line.message.content) if line.message else []


def join_texts(blocks: Iterable[RawBlock]) -> str:
    return "\n".join(block.text or "" for block in blocks if block.type == "text")


def decode_blocks_strictly(content: Raw | UnsetType) -> list[RawBlock]:
    """Decode as `decode_blocks` does; raises UnexpectedShapeError for any other type."""
    if content is UNSET or (first := memoryview(content)[0]) == _NULL:
        return []
    if first == _QUOTE:
        return [RawBlock(type="text", text=decode_checked(content, _string_decoder.decode))]
    return decode_checked(content, _blocks_decoder.decode)


def decode_attachment(line: TranscriptLine) -> Attachment | None:
    """Raises NotJsonError as `decode_blocks` does, and UnexpectedShapeError."""
    if line.attachment is UNSET:
        return None
    attachment: Attachment | None = decode_checked(line.attachment, _attachment_decoder.decode)
    return attachment


def decode_optional(raw: Raw | UnsetType, kind: type[StructT]) -> StructT | None:
    """Return None for a missing field, and for one of another type (a string on errors).

    Raises NotJsonError as `decode_blocks` does.
    """
    if raw is UNSET or memoryview(raw)[0] != _BRACE:
        return None
    try:
        return decode_checked(raw, lambda data: msgspec.json.decode(data, type=kind))
    except UnexpectedShapeError:
        return None


def decode_list(raw: Raw | UnsetType, kind: type[StructT]) -> list[StructT]:
    """Return an empty list for a missing field, and for one of another type.

    Raises NotJsonError as `decode_blocks` does.
    """
    if raw is UNSET:
        return []
    try:
        return decode_checked(raw, msgspec.json.Decoder(list[kind]).decode)  # type: ignore[valid-type]
    except UnexpectedShapeError:
        return []


def decode_string(raw: Raw | UnsetType) -> str:
    """Return an empty string for a missing field, and for one of another type."""
    if raw is UNSET or memoryview(raw)[0] != _QUOTE:
        return ""
    return decode_checked(raw, _string_decoder.decode)


def decode_value(raw: Raw | UnsetType) -> Any:  # noqa: ANN401 -- any JSON
    """Decode a field whose type differs by version; raises NotJsonError as `decode_blocks` does.

    Raises UnexpectedShapeError for a number that no float holds, such as 1e999.
    """
    return None if raw is UNSET else decode_checked(raw, msgspec.json.decode)


def read_cache_miss(diagnostics: Raw | UnsetType) -> CacheMissReason | None:
    """Return why an answer missed the cache; None if it says nothing, or nothing known."""
    if diagnostics is UNSET:  # as most lines of answers
        return None
    found = decode_optional(diagnostics, Diagnostics)
    return found.cache_miss_reason if found else None
