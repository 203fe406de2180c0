"""Decodes a transcript line: its fields, content blocks and token usage, only those used.

Of what is long, and of what differs by version, the bytes are kept and decoded when asked for.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from typing import Annotated, Any, Final, TypeVar

import msgspec
from msgspec import UNSET, Meta, Raw, UnsetType, field

from .conversation import TokenUsage, context_tokens
from .raw_lines import replace_lone_surrogates, timestamp_to_ms

T = TypeVar("T")
StructT = TypeVar("StructT", bound=msgspec.Struct)

Count = Annotated[int, Meta(ge=0, le=1 << 40)]
"""A number of tokens, calls or milliseconds; sums of any larger one would not fit the store."""


Dollars = Annotated[float, Meta(ge=0, le=1_000_000_000)]
"""What a session cost; a larger sum is none."""


class CacheCreation(msgspec.Struct, gc=False):
    """Cache writes by lifetime; clients before 2.1.152 wrote only these."""

    ephemeral_5m_input_tokens: Count | None = None
    ephemeral_1h_input_tokens: Count | None = None


class UsageIteration(msgspec.Struct, gc=False):
    """Counts of one request, or of one step of a server-side tool loop."""

    type: str | None = None
    input_tokens: Count | None = None
    cache_creation_input_tokens: Count | None = None
    cache_read_input_tokens: Count | None = None
    output_tokens: Count | None = None
    cache_creation: CacheCreation | None = None


class RawUsage(UsageIteration, gc=False):
    """`message.usage`; where there are iterations its own counts are their sums."""

    iterations: list[UsageIteration] | None = None


class OutputDetails(msgspec.Struct, gc=False):
    """What the output consisted of."""

    thinking_tokens: Count | None = None


class DetailedUsage(RawUsage, gc=False):
    """`message.usage` with what only some answers have."""

    output_tokens_details: OutputDetails | None = None


class RawMessage(msgspec.Struct, gc=False):
    """`message` of a user's or assistant's line."""

    id: str | None = None
    model: str | None = None
    content: Raw | UnsetType = UNSET
    usage: DetailedUsage | None = None


class PlanInput(msgspec.Struct):
    """Input of the tool that shows a plan."""

    plan: str | None = None


class AgentInput(msgspec.Struct):
    """Input of the tool that starts an agent."""

    subagent_type: str | None = None
    description: str | None = None
    prompt: str | None = None
    model: str | None = None


class RawBlock(msgspec.Struct, gc=False):
    """One block of a message's content, or of a tool's result."""

    type: str | None = None
    text: str | None = None
    thinking: str | None = None
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
    """`compactMetadata` of a boundary."""

    trigger: str | None = None
    pre_tokens: Count | None = None
    post_tokens: Count | None = None
    cumulative_dropped_tokens: Count | None = None
    duration_ms: Count | None = None
    preserved_messages: PreservedMessages | None = None
    preserved_segment: PreservedMessages | None = None


class MicrocompactMetadata(msgspec.Struct, rename="camel"):
    """`microcompactMetadata` of a line that says what the client cleared."""

    trigger: str | None = None
    pre_tokens: Count | None = None
    tokens_saved: Count | None = None
    compacted_tool_ids: list[str] = []
    cleared_attachments: list[str] = field(name="clearedAttachmentUUIDs", default_factory=list)


class AgentToolResult(msgspec.Struct, rename="camel"):
    """`toolUseResult` of an agent's tool call."""

    agent_id: str | None = None
    task_id: str | None = None
    teammate_id: str | None = field(name="teammate_id", default=None)
    name: Raw | UnsetType = UNSET  # of a teammate; by it the team's messages name the sender
    status: str | None = None
    resolved_model: str | None = None
    content: Raw | UnsetType = UNSET
    total_tokens: Count | None = None
    total_tool_use_count: Count | None = None
    total_duration_ms: Count | None = None
    usage: RawUsage | None = None


class TaskOutput(msgspec.Struct):
    """What `task` says in the result of the tool that waits for a background task."""

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


class ForkSource(msgspec.Struct, rename="camel"):
    """Which session a copied line comes from (/branch, the SDK)."""

    session_id: str | None = None
    message_uuid: str | None = None


class MessageOrigin(msgspec.Struct):
    """Where a user's line came from."""

    kind: str | None = None


class SourceSession(msgspec.Struct):
    """One of the sessions that a session was copied from, and how."""

    id: str | None = None
    via: str | None = None


class ProgressStep(msgspec.Struct):
    """The agent's own line inside a `progress` line."""

    type: str | None = None
    uuid: str | None = None
    timestamp: str | None = None
    message: RawMessage | None = None


class ProgressData(msgspec.Struct, rename="camel"):
    """`data` of a `progress` line."""

    type: str | None = None
    agent_id: str | None = None
    message: Raw | UnsetType = UNSET


class ModelIdentity(msgspec.Struct, rename="camel"):
    """`attachment.identity` of the model's introduction."""

    model_id: str | None = None


class Attachment(msgspec.Struct):
    """What the client put in by itself."""

    type: str | None = None
    identity: ModelIdentity | None = None
    prompt: Raw | UnsetType = UNSET
    content: Raw | UnsetType = UNSET
    stdout: Raw | UnsetType = UNSET
    messages: Raw | UnsetType = UNSET


class ResultReplacement(msgspec.Struct, rename="camel"):
    """The text that the model sees for a tool's result."""

    tool_use_id: str | None = None
    replacement: str | None = None


class TranscriptLine(msgspec.Struct, gc=False, rename="camel"):
    """The envelope of any line; the fields that most lines have come first, as they stand there."""

    parent_uuid: str | None = None
    is_sidechain: bool | None = None
    cwd: str | None = None
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
    is_api_error_message: bool | None = None
    logical_parent_uuid: str | None = None
    request_ref: str | None = None
    tool_denial_kind: str | None = None
    compact_metadata: CompactMetadata | None = None
    microcompact_metadata: MicrocompactMetadata | None = None
    rendered: Raw | UnsetType = UNSET
    replacements: list[ResultReplacement] | None = None
    origin: MessageOrigin | None = None
    forked_from: ForkSource | None = None
    error: Raw | UnsetType = UNSET
    error_details: Raw | UnsetType = UNSET
    custom_title: str | None = None
    ai_title: str | None = None
    summary: str | None = None
    last_prompt: str | None = None
    leaf_uuid: str | None = None
    data: Raw | UnsetType = UNSET
    parent_tool_use_id: str | None = field(name="parentToolUseID", default=None)
    content: Raw | UnsetType = UNSET
    context_usage: Raw | UnsetType = UNSET
    sessions: Raw | UnsetType = UNSET
    agent_id: str | None = None
    result: Raw | UnsetType = UNSET
    hook_count: Raw | UnsetType = UNSET
    hook_infos: Raw | UnsetType = UNSET
    hook_errors: Raw | UnsetType = UNSET
    total_cost: Dollars | None = field(name="totalCostUSD", default=None)

    @property
    def at(self) -> int | None:
        """When it was written; milliseconds since 1970 (UTC)."""
        return timestamp_to_ms(self.timestamp)

    def name_at(self, offset: int) -> str:
        """Return its uuid, or else where it stands."""
        return self.uuid or f"at {offset}"


SYNTHETIC_MODEL: Final = "<synthetic>"
"""The model of an answer that the client made up: no request, no usage."""

COMPACT_BOUNDARY: Final = "compact_boundary"
"""The subtype of the `system` line that a compaction leaves."""


class NotJsonError(ValueError):
    """A line that is not a JSON object."""


class UnexpectedShapeError(ValueError):
    """A line that is JSON, with a field of another kind than any version wrote."""


JSON_TRUE: Final = Raw(b"true")

_QUOTE, _BRACE, _NULL = b'"{n'
_line_decoder: Final = msgspec.json.Decoder(TranscriptLine)
_blocks_decoder: Final = msgspec.json.Decoder(list[RawBlock])
_string_decoder: Final = msgspec.json.Decoder(str)
_attachment_decoder: Final = msgspec.json.Decoder(Attachment | None)
_fields_decoder: Final = msgspec.json.Decoder(dict[str, Raw])


def decode_checked(data: bytes | memoryview | Raw, decode: Callable[[Any], T]) -> T:
    """Decode with a decoder of msgspec; raises NotJsonError or UnexpectedShapeError instead."""
    try:
        return decode(data)
    except msgspec.ValidationError as error:
        raise UnexpectedShapeError(str(error)) from error
    except RecursionError as error:
        raise NotJsonError("nested too deeply") from error
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise NotJsonError(str(error)) from error


def decode_line(data: bytes | memoryview) -> TranscriptLine:
    """Decode a line whole; raises NotJsonError or UnexpectedShapeError with the reason."""
    try:
        return decode_checked(data, _line_decoder.decode)
    except NotJsonError:
        return decode_checked(repair_line(bytes(data)), _line_decoder.decode)


def decode_readable_fields(data: bytes) -> tuple[TranscriptLine, tuple[str, ...]]:
    """Decode a line without the fields of another kind than any version wrote, and name those.

    Raises NotJsonError.
    """
    try:
        return decode_line(data), ()
    except UnexpectedShapeError:
        unread: list[str] = []
        line = _decode_field_by_field(repair_line(data), TranscriptLine, unread)
        return line, tuple(unread)


_DIVIDED_FIELDS: Final[dict[str, type[msgspec.Struct]]] = {
    "message": RawMessage,
    "compactMetadata": CompactMetadata,
}
"""Of these the readable fields count, too."""


def _decode_field_by_field(
    data: bytes | Raw, kind: type[StructT], unread: list[str], path: str = ""
) -> StructT:
    present = _fields_decoder.decode(data)
    known: dict[str, Any] = {}
    for each in msgspec.structs.fields(kind):
        raw = present.get(each.encode_name)
        if raw is None:
            continue
        inner = _DIVIDED_FIELDS.get(each.encode_name)
        try:
            known[each.name] = msgspec.json.decode(raw, type=each.type)
        except msgspec.ValidationError:
            if inner is not None and memoryview(raw)[0] == _BRACE:
                name = f"{each.encode_name}."
                known[each.name] = _decode_field_by_field(raw, inner, unread, name)
            else:
                unread.append(path + each.encode_name)
    return kind(**known)


def decode_blocks(content: Raw | UnsetType) -> list[RawBlock]:
    """Decode a message's content, which is a string or a list of blocks; else there are none.

    Raises NotJsonError where its bytes are not UTF-8: of a part that was only skipped
    nobody has looked at the bytes.
    """
    try:
        return decode_blocks_strictly(content)
    except UnexpectedShapeError:
        return []


def message_blocks(line: TranscriptLine) -> list[RawBlock]:
    """Decode what a line's message holds; raises NotJsonError as `decode_blocks` does."""
    return decode_blocks(line.message.content) if line.message else []


def join_texts(blocks: Iterable[RawBlock]) -> str:
    return "\n".join(block.text or "" for block in blocks if block.type == "text")


def decode_blocks_strictly(content: Raw | UnsetType) -> list[RawBlock]:
    """Decode as `decode_blocks` does; raises UnexpectedShapeError for content of another kind."""
    if content is UNSET or (first := memoryview(content)[0]) == _NULL:
        return []
    if first == _QUOTE:
        return [RawBlock(type="text", text=decode_checked(content, _string_decoder.decode))]
    return decode_checked(content, _blocks_decoder.decode)


def decode_attachment(line: TranscriptLine) -> Attachment | None:
    """Decode what the client put in by itself.

    Raises NotJsonError as `decode_blocks` does, and UnexpectedShapeError.
    """
    if line.attachment is UNSET:
        return None
    found: Attachment | None = decode_checked(line.attachment, _attachment_decoder.decode)
    return found


def decode_optional(raw: Raw | UnsetType, kind: type[StructT]) -> StructT | None:
    """Decode a part that may be missing or of another kind (a string on errors).

    Raises NotJsonError as `decode_blocks` does.
    """
    if raw is UNSET or memoryview(raw)[0] != _BRACE:
        return None
    try:
        return decode_checked(raw, lambda data: msgspec.json.decode(data, type=kind))
    except UnexpectedShapeError:
        return None


def decode_list(raw: Raw | UnsetType, kind: type[StructT]) -> list[StructT]:
    """Decode a list of parts; empty where it is missing or of another kind.

    Raises NotJsonError as `decode_blocks` does.
    """
    if raw is UNSET:
        return []
    try:
        return decode_checked(raw, msgspec.json.Decoder(list[kind]).decode)  # type: ignore[valid-type]
    except UnexpectedShapeError:
        return []


def decode_string(raw: Raw | UnsetType) -> str:
    """Decode a part that is a text where it is what is asked for; else the empty text."""
    value = decode_value(raw)
    return value if isinstance(value, str) else ""


def decode_value(raw: Raw | UnsetType) -> Any:  # noqa: ANN401 -- any JSON
    """Decode a part whose kind differs by version; raises NotJsonError as `decode_blocks` does."""
    return None if raw is UNSET else decode_checked(raw, msgspec.json.decode)


def repair_line(line: bytes) -> bytes:
    """Write a line that the client still reads as strict JSON; what is not odd stays as it is.

    Raises NotJsonError with the reason where nothing can read it.
    """
    text = line.decode("utf-8", "replace")
    try:
        value = json.loads(text, parse_constant=_reject_constant)
    except NotJsonError:
        raise
    except (ValueError, RecursionError) as error:
        raise NotJsonError(str(error)) from error
    if not isinstance(value, dict):
        raise NotJsonError("not an object")
    return replace_lone_surrogates(text).encode()


def _reject_constant(constant: str) -> object:
    raise NotJsonError(f"{constant} is Python's, not JSON's")


def read_usage(usage: RawUsage) -> tuple[TokenUsage, int]:
    """Read what was spent, summed over a server-side tool loop, and what its last step saw."""
    spent = _to_token_usage(usage)
    last = _last_model_iteration(usage.iterations) if usage.iterations else None
    return spent, context_tokens(spent if last is None else _to_token_usage(last))


def last_output_tokens(usage: RawUsage) -> int | None:
    """Read the output of the last step of a server-side tool loop; None where there was none."""
    last = _last_model_iteration(usage.iterations) if usage.iterations else None
    return None if last is None else last.output_tokens


def is_estimated_usage(usage: RawUsage) -> bool:
    """Return whether an edit of ctxtop lowered what the last step saw (strategies.usage).

    The sums stay what was paid, and the one step beside them says less. The client writes no
    such counts: where it writes one step, its counts are the sums.
    """
    if usage.iterations is None or len(usage.iterations) != 1:
        return False
    return context_tokens(_to_token_usage(usage.iterations[0])) < context_tokens(
        _to_token_usage(usage)
    )


def one_hour_cache_tokens(usage: RawUsage) -> int:
    """Read how many tokens were written to the cache for an hour, not for five minutes."""
    nested = usage.cache_creation
    return (nested.ephemeral_1h_input_tokens or 0) if nested else 0


def _last_model_iteration(iterations: list[UsageIteration]) -> UsageIteration | None:
    """Find the last step that was the model's own (a server's tool may report its own usage)."""
    for step in reversed(iterations):
        if step.type in {None, "message"}:
            return step
    return None


def _to_token_usage(counts: UsageIteration) -> TokenUsage:
    return TokenUsage(
        counts.input_tokens or 0,
        _cache_creation_tokens(counts),
        counts.cache_read_input_tokens or 0,
        counts.output_tokens or 0,
    )


def _cache_creation_tokens(counts: UsageIteration) -> int:
    """Return the larger of the flat and nested counts: clients before 2.1.152 wrote a flat 0."""
    flat, nested = counts.cache_creation_input_tokens or 0, counts.cache_creation
    if nested is None:
        return flat
    by_lifetime = (nested.ephemeral_5m_input_tokens or 0) + (nested.ephemeral_1h_input_tokens or 0)
    return max(flat, by_lifetime)
