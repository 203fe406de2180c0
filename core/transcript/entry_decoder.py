"""Reads a transcript as conversation entries, each with the parts of its message."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from pathlib import Path
from sys import intern
from typing import Any, Final

import msgspec
from msgspec import UNSET, Raw, UnsetType
from msgspec.structs import replace

from ..files.safe_open import open_regular
from .client_messages import (
    AGENT_TASK_TYPES,
    attachment_parts,
    is_agent_message,
    parse_prompt_snapshot,
)
from .conversation import Boundary, Entry, MessagePart, Microcompaction, PartKind, Role
from .line_decoder import (
    MicrocompactMetadata,
    NotJsonError,
    RawUsage,
    decode_string,
    is_estimated_usage,
    read_usage,
    repair_line,
)
from .line_types import AGENT_OUTPUT_TOOLS, AGENT_TOOLS, CLIENT_TEXT
from .raw_lines import LINE_PADDING, MAX_LINE_BYTES, complete_line_length, timestamp_to_ms
from .sanitize import sanitize_path, sanitize_title


class MessageBlock(msgspec.Struct):
    """One block of a message's content, or of a tool's result."""

    type: str | None = None
    text: str | None = None
    thinking: str | None = None
    id: str | None = None
    name: str | None = None
    input: Raw | UnsetType = UNSET
    tool_use_id: str | None = None
    content: list[MessageBlock] | str | None = None
    is_error: bool | None = None


class MessageContent(msgspec.Struct):
    """What every message has."""

    content: list[MessageBlock] | str | None = None


class NamedToolCall(msgspec.Struct, frozen=True):
    """A tool call, as far as its result is named by it."""

    name: str
    path: str | None


class _FileInput(msgspec.Struct):
    """The fields by which tools name the file that they touch."""

    file_path: str | None = None
    notebook_path: str | None = None
    path: str | None = None


MEDIA_BLOCKS: Final = frozenset({"image", "document"})

THINKING_BLOCKS: Final = frozenset({"thinking", "redacted_thinking"})
_TOOL_CALL_BLOCKS: Final = frozenset({"tool_use", "server_tool_use", "mcp_tool_use"})

_AGENT_TASK_OUTPUT: Final = re.compile(
    rf"<task_type>(?:{'|'.join(sorted(AGENT_TASK_TYPES))})</task_type>|<agent_id>"
)
"""How the result of asking for a background task's output names an agent's."""

_file_input_decoder: Final = msgspec.json.Decoder(_FileInput)


def decode_parts(
    content: list[MessageBlock] | str | None, kind: PartKind, calls: dict[str, NamedToolCall]
) -> tuple[MessagePart, ...]:
    """Decode a message's content; its texts are of `kind`, unless the client wrote them.

    Tool calls are added to `calls` by id; results of earlier calls get their names from it.
    """
    if isinstance(content, str):
        content = [MessageBlock(type="text", text=content)]
    return tuple(_block_parts(content or [], kind, calls))


def local_command_parts(content: Raw | UnsetType) -> tuple[MessagePart, ...]:
    """Decode the output of a local command, which the client sends as a user message."""
    try:
        text = decode_string(content)
    except NotJsonError:
        return ()
    return (MessagePart(PartKind.META, text, "local_command"),) if text else ()


def _block_parts(
    blocks: list[MessageBlock], kind: PartKind, calls: dict[str, NamedToolCall]
) -> Iterator[MessagePart]:
    for block in blocks:
        if block.type == "text" and block.text:
            yield MessagePart(_text_kind(block.text, kind), block.text)
        elif block.type in THINKING_BLOCKS:
            yield MessagePart(PartKind.THINKING, block.thinking or "")
        elif block.type in _TOOL_CALL_BLOCKS:
            yield _tool_call_part(block, calls)
        elif block.type in MEDIA_BLOCKS:
            yield MessagePart(kind, media=1)
        elif block.tool_use_id is not None:
            yield _tool_result_part(block, calls)


def _text_kind(text: str, kind: PartKind) -> PartKind:
    if kind not in {PartKind.PROMPT, PartKind.META}:
        return kind
    if is_agent_message(text):
        return PartKind.AGENT_RETURN
    return PartKind.META if CLIENT_TEXT.match(text) else kind


def _tool_call_part(block: MessageBlock, calls: dict[str, NamedToolCall]) -> MessagePart:
    text = "" if block.input is UNSET else str(memoryview(block.input), "utf-8", "replace")
    call = NamedToolCall(sanitize_title(block.name or ""), _input_path(block.input))
    if block.id:
        calls[block.id] = call
    return MessagePart(PartKind.TOOL_INPUT, text, call.name, block.id, call.path)


def _input_path(raw: Raw | UnsetType) -> str | None:
    if raw is UNSET:
        return None
    try:
        named = _file_input_decoder.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError):
        # An input of another tool, whose `path` is something else.
        return None
    path = named.file_path or named.notebook_path or named.path
    return sanitize_path(path) if path else None


def _tool_result_part(block: MessageBlock, calls: dict[str, NamedToolCall]) -> MessagePart:
    call = calls.get(block.tool_use_id or "", NamedToolCall("", None))
    content = block.content
    blocks = [] if content is None or isinstance(content, str) else content
    text = content if isinstance(content, str) else "\n".join(each.text or "" for each in blocks)
    kind = PartKind.TOOL_RESULT
    asked_of_agent = call.name in AGENT_OUTPUT_TOOLS and _AGENT_TASK_OUTPUT.search(text)
    if call.name in AGENT_TOOLS or asked_of_agent:
        kind = PartKind.AGENT_RETURN
    return MessagePart(
        kind,
        text,
        call.name,
        block.tool_use_id,
        call.path,
        media=sum(each.type in MEDIA_BLOCKS for each in blocks),
        failed=bool(block.is_error),
    )


SYNTHETIC_MODEL: Final = "<synthetic>"
"""The model of an answer that the client made up; no API ever measured it."""

LAST_PROMPT_TYPE: Final = "last-prompt"
"""The line in which the client remembers which line is its newest."""

SKIPPED_LINE_STARTS: Final = (
    b'{"type":"api-request',
    b'{"type":"file-history',
    b'{"type":"cost-state',
)
"""How lines begin that are no part of the conversation and often long."""


class _OutputDetails(msgspec.Struct):
    thinking_tokens: int | None = None


class _DetailedUsage(RawUsage):
    output_tokens_details: _OutputDetails | None = None


class _EntryMessage(MessageContent):
    """`message` of a user's or assistant's line."""

    id: str | None = None
    model: str | None = None
    usage: _DetailedUsage | None = None


class _PreservedRange(msgspec.Struct, rename="camel"):
    anchor_uuid: str | None = None
    uuids: tuple[str, ...] = ()
    head_uuid: str | None = None
    tail_uuid: str | None = None


class _BoundaryMetadata(msgspec.Struct, rename="camel"):
    trigger: str | None = None
    pre_tokens: int | None = None
    post_tokens: int | None = None
    preserved_messages: _PreservedRange | None = None
    preserved_segment: _PreservedRange | None = None


class _ResultReplacement(msgspec.Struct, rename="camel"):
    tool_use_id: str | None = None
    replacement: str | None = None


class _EntryOrigin(msgspec.Struct):
    kind: str | None = None


class _EntryLine(msgspec.Struct, rename="camel"):
    type: str | None = None
    subtype: str | None = None
    uuid: str | None = None
    parent_uuid: str | None = None
    timestamp: str | None = None
    is_sidechain: bool | None = None
    is_meta: bool | None = None
    is_compact_summary: bool | None = None
    is_api_error_message: bool | None = None
    request_ref: str | None = None
    leaf_uuid: str | None = None
    origin: _EntryOrigin | None = None
    message: Raw | UnsetType = UNSET
    content: Raw | UnsetType = UNSET
    attachment: dict[str, Any] | None = None
    rendered: list[Any] | None = None
    compact_metadata: _BoundaryMetadata | None = None
    microcompact_metadata: MicrocompactMetadata | None = None
    version: str | None = None
    replacements: list[_ResultReplacement] | None = None


_CHAINED_TYPES: Final = frozenset({"user", "assistant", "system", "attachment", "progress"})
"""Types of lines that have a parent; older clients wrote `progress` between two others."""

_entry_line_decoder: Final = msgspec.json.Decoder(_EntryLine)
_message_decoder: Final = msgspec.json.Decoder(_EntryMessage)


def read_entries(path: Path, start: int = 0) -> list[Entry]:
    """Read the entries of a transcript in the order of its file; what is no entry is left out.

    For what has to look at all of them at once; `iter_entries` gives them one by one.
    Raises OSError where the file cannot be read.
    """
    return list(iter_entries(path, start))


def iter_entries(path: Path, start: int = 0) -> Iterator[Entry]:
    """Yield the entries from a line's byte offset on; that line counts as line 1.

    A result whose call is before that line has no name. Raises OSError if the file cannot be
    read.
    """
    calls: dict[str, NamedToolCall] = {}
    for offset, number, data in iter_lines(path, start):
        entry = decode_entry(offset, data, calls, number)
        # A line may be long: it is held no longer than it takes to read it.
        del data
        if entry is not None:
            yield entry
        del entry


def iter_lines(path: Path, start: int = 0) -> Iterator[tuple[int, int, bytes]]:
    """Yield the offset, number and bytes of each whole line from a byte offset on.

    The first line is number 1. The last one may have no line end. Raises OSError if the file
    cannot be read.
    """
    with open_regular(path) as raw:
        file, offset, number = io.BufferedReader(raw, 1 << 20), start, 0  # type: ignore[type-var]
        file.seek(start)
        while data := file.readline(MAX_LINE_BYTES):
            number += 1
            begin, offset = offset, offset + len(data)
            if data.endswith(b"\n") or complete_line_length(data):
                yield begin, number, data
            del data


def decode_entry(
    offset: int, data: bytes, calls: dict[str, NamedToolCall], number: int = 0
) -> Entry | None:
    """Read one line; None for what is no entry. `calls` is kept from line to line."""
    # To strip it is to copy it, and hardly a line needs it.
    whole = data.startswith(b"{") and data.endswith((b"}", b"}\n"))
    text = data if whole else data.strip(LINE_PADDING + b"\n")
    if not text or text.startswith(SKIPPED_LINE_STARTS):
        return None
    line = _decode_line(text)
    if line is None or not (line.type in _CHAINED_TYPES or line.replacements or line.leaf_uuid):
        return None
    entry = Entry(
        offset=offset,
        length=len(data.removesuffix(b"\n")),
        line=number,
        type=line.type or "",
        uuid=line.uuid,
        parent=line.parent_uuid,
        subtype=line.subtype,
        at=timestamp_to_ms(line.timestamp),
        sidechain=bool(line.is_sidechain),
        request_id=line.request_ref,
        leaf_uuid=line.leaf_uuid if line.type == LAST_PROMPT_TYPE else None,
        # Every line says it: it is held once.
        version=intern(line.version) if line.version else None,
    )
    if line.type == "assistant":
        return _assistant_entry(entry, line, calls)
    if line.type == "user":
        return _user_entry(entry, line, calls)
    if line.type == "attachment":
        return _attachment_entry(entry, line)
    if line.type == "system":
        return _system_entry(entry, line)
    named = [(each.tool_use_id, each.replacement) for each in line.replacements or ()]
    return replace(entry, replaced_results=tuple((who, what or "") for who, what in named if who))


def _decode_line(text: bytes) -> _EntryLine | None:
    try:
        return _entry_line_decoder.decode(text)
    except msgspec.ValidationError:
        return None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        try:
            return _entry_line_decoder.decode(repair_line(text))
        except (NotJsonError, msgspec.DecodeError, RecursionError):
            return None


def _decode_message(raw: Raw | UnsetType) -> _EntryMessage:
    if raw is UNSET:
        return _EntryMessage()
    try:
        return _message_decoder.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError):
        # Of another kind than any version wrote: the line is there and says nothing.
        return _EntryMessage()


def _assistant_entry(entry: Entry, line: _EntryLine, calls: dict[str, NamedToolCall]) -> Entry:
    said = _decode_message(line.message)
    failed = bool(line.is_api_error_message)
    answer = replace(
        entry,
        role=Role.ASSISTANT,
        parts=decode_parts(said.content, PartKind.TEXT, calls),
        message_id=said.id,
        model=sanitize_title(said.model or "") or None,
        hidden=failed,
    )
    if said.usage is None or said.model == SYNTHETIC_MODEL or failed:
        return answer
    spent, context = read_usage(said.usage)
    details = said.usage.output_tokens_details
    return replace(
        answer,
        context_tokens=context,
        output_tokens=spent.output_tokens,
        thinking_tokens=details.thinking_tokens if details else None,
        is_estimate=is_estimated_usage(said.usage),
    )


def _user_entry(entry: Entry, line: _EntryLine, calls: dict[str, NamedToolCall]) -> Entry:
    kind = PartKind.META if line.is_meta else PartKind.PROMPT
    if line.is_compact_summary:
        kind = PartKind.SUMMARY
    elif line.origin and line.origin.kind == "task-notification":
        kind = PartKind.META
    return replace(
        entry,
        role=Role.USER,
        parts=decode_parts(_decode_message(line.message).content, kind, calls),
    )


def _attachment_entry(entry: Entry, line: _EntryLine) -> Entry:
    attachment = line.attachment or {}
    kind = sanitize_title(str(attachment.get("type") or ""))
    return replace(
        entry,
        role=Role.USER,
        subtype=kind,
        parts=attachment_parts(kind, attachment, line.rendered),
        snapshot=parse_prompt_snapshot(attachment) if kind == "prompt_snapshot" else None,
    )


def _system_entry(entry: Entry, line: _EntryLine) -> Entry:
    if line.subtype == "compact_boundary":
        return replace(entry, boundary=_to_boundary(line.compact_metadata or _BoundaryMetadata()))
    if line.subtype == "microcompact_boundary":
        return replace(entry, microcompaction=_to_microcompaction(line.microcompact_metadata))
    if line.subtype == "local_command":
        return replace(entry, role=Role.USER, parts=local_command_parts(line.content))
    return entry


def _to_boundary(said: _BoundaryMetadata) -> Boundary:
    messages, segment = said.preserved_messages, said.preserved_segment
    ends = (segment.head_uuid, segment.tail_uuid) if segment else (None, None)
    anchored = messages or segment
    return Boundary(
        trigger=sanitize_title(said.trigger) if said.trigger else None,
        pre_tokens=said.pre_tokens,
        post_tokens=said.post_tokens,
        kept_uuids=messages.uuids if messages else (),
        kept_range=(ends[0], ends[1]) if ends[0] and ends[1] else None,
        anchor_uuid=anchored.anchor_uuid if anchored else None,
    )


def _to_microcompaction(said: MicrocompactMetadata | None) -> Microcompaction | None:
    if said is None:
        return None
    return Microcompaction(
        results=tuple(said.compacted_tool_ids),
        attachments=tuple(said.cleared_attachments),
        saved_tokens=said.tokens_saved,
    )
