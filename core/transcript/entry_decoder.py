"""Reads a transcript as conversation entries, each with the parts of its message."""

import io
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from sys import intern
from typing import Any, Final

import msgspec
from msgspec import UNSET, Raw, UnsetType
from msgspec.structs import replace

from ..files.transcript_file import open_transcript
from ..model.conversation import Boundary, Entry, MessagePart, Microcompaction, PartKind, Role
from . import lenient_json, line_decoder, reported_usage
from .authorship import CLIENT_TEXT, PROMPT_AUTHORS, line_author, queued_author
from .client_messages import (
    AGENT_TASK_TYPES,
    QUEUED_PROMPT,
    attachment_parts,
    is_agent_message,
    parse_prompt_snapshot,
)
from .lenient_json import NotJsonError, UnexpectedShapeError
from .line_decoder import RawBlock, RawMessage, TranscriptLine
from .line_types import AGENT_OUTPUT_TOOLS, AGENT_TOOLS
from .raw_lines import LINE_PADDING, MAX_LINE_BYTES, complete_line_length, timestamp_to_ms
from .sanitize import sanitize_path, sanitize_title
from .withdrawn_content import parse_withdrawal, read_clearing


class NamedToolCall(msgspec.Struct, frozen=True):
    """The tool and the file of a call, which name its result."""

    name: str
    path: str | None


class _FileInput(msgspec.Struct):
    file_path: str | None = None
    notebook_path: str | None = None
    path: str | None = None


MEDIA_BLOCKS: Final = frozenset({"image", "document"})
THINKING_BLOCKS: Final = frozenset({"thinking", "redacted_thinking"})
_TOOL_CALL_BLOCKS: Final = frozenset({"tool_use", "server_tool_use", "mcp_tool_use"})

_AGENT_TASK_OUTPUT: Final = re.compile(
    rf"<task_type>(?:{'|'.join(sorted(AGENT_TASK_TYPES))})</task_type>|<agent_id>"
)
"""Marks a background task's output as an agent's."""

_file_input_decoder: Final = msgspec.json.Decoder(_FileInput)


def decode_parts(
    blocks: Iterable[RawBlock], kind: PartKind, calls: dict[str, NamedToolCall]
) -> Iterator[MessagePart]:
    """Yield the parts of a message; its texts are of `kind`, unless the client wrote them.

    Tool calls are added to `calls` by id; results of earlier calls get their names from it.
    Raises NotJsonError and UnexpectedShapeError for a result that cannot be read.
    """
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


def _tool_call_part(block: RawBlock, calls: dict[str, NamedToolCall]) -> MessagePart:
    text = "" if block.input is UNSET else str(memoryview(block.input), "utf-8", "replace")
    call = NamedToolCall(sanitize_title(block.name or ""), _input_path(block.input))
    if block.id:
        calls[block.id] = call
    return MessagePart(PartKind.TOOL_INPUT, text, call.name, block.id, call.path)


def _input_path(raw: Raw | UnsetType) -> str | None:
    if raw is UNSET:
        return None
    try:
        found = _file_input_decoder.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError):
        # An input of another tool, whose `path` is something else.
        return None
    path = found.file_path or found.notebook_path or found.path
    return sanitize_path(path) if path else None


def _tool_result_part(block: RawBlock, calls: dict[str, NamedToolCall]) -> MessagePart:
    call = calls.get(block.tool_use_id or "", NamedToolCall("", None))
    blocks = line_decoder.decode_blocks_strictly(block.content)
    text = "\n".join(each.text or "" for each in blocks)
    is_agent = call.name in AGENT_TOOLS or (
        call.name in AGENT_OUTPUT_TOOLS and _AGENT_TASK_OUTPUT.search(text)
    )
    return MessagePart(
        PartKind.AGENT_RETURN if is_agent else PartKind.TOOL_RESULT,
        text,
        call.name,
        block.tool_use_id,
        call.path,
        media=sum(each.type in MEDIA_BLOCKS for each in blocks),
        failed=block.is_error == line_decoder.JSON_TRUE,
    )


# Starts of lines that are no part of the conversation and often long.
_SKIPPED_LINE_STARTS: Final = (
    b'{"type":"api-request',
    b'{"type":"file-history',
    b'{"type":"cost-state',
)

_CHAINED_TYPES: Final = frozenset({"user", "assistant", "system", "attachment", "progress"})
"""Types of lines that have a parent; older clients wrote `progress` between two others."""

_READ_FIELDS: Final = frozenset(
    {
        "type", "subtype", "uuid", "parentUuid", "timestamp", "isSidechain", "isMeta",
        "isCompactSummary", "replacesSpan", "isApiErrorMessage", "leafUuid", "origin",
        "replacements", "microcompactMetadata", "compactMetadata",
    }
)  # fmt: skip
"""Fields that an entry is made of, besides its message."""


def read_entries(path: Path, start: int = 0) -> list[Entry]:
    """Read all entries at once, as `iter_entries` does."""
    return list(iter_entries(path, start))


def iter_entries(path: Path, start: int = 0) -> Iterator[Entry]:
    """Yield the entries from a line's byte offset on; that line counts as line 1.

    A result whose call is before that line has no name. Raises OSError if the file cannot be
    read.
    """
    calls: dict[str, NamedToolCall] = {}
    for offset, number, data in iter_lines(path, start):
        entry = decode_entry(offset, data, calls, number)
        # A line may be long: free it before the next one is read.
        del data
        if entry is not None:
            yield entry
        del entry


def iter_lines(path: Path, start: int = 0) -> Iterator[tuple[int, int, bytes]]:
    """Yield the offset, number and bytes of each whole line from a byte offset on.

    The first line is number 1. The last one may have no line end. Raises OSError if the file
    cannot be read.
    """
    with open_transcript(path) as raw:
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
    """Decode one line; None if it is no entry. Pass the same `calls` for all lines of a file.

    Fields that cannot be read are left out, and named in `unread_fields`.
    """
    # Stripping copies the line, and hardly any line needs it.
    is_plain = data.startswith(b"{") and data.endswith((b"}", b"}\n"))
    text = data if is_plain else data.strip(LINE_PADDING + b"\n")
    if not text or text.startswith(_SKIPPED_LINE_STARTS):
        return None
    place = Entry(offset, len(data.removesuffix(b"\n")), number, type="")
    try:
        try:
            return _to_entry(place, *line_decoder.decode_readable_fields(text), calls)
        except NotJsonError:
            # A lone surrogate in a field that is decoded only here.
            return _to_entry(
                place, *line_decoder.decode_readable_fields(lenient_json.repair_line(text)), calls
            )
    except NotJsonError:
        return None


def _to_entry(
    place: Entry, line: TranscriptLine, unread: tuple[str, ...], calls: dict[str, NamedToolCall]
) -> Entry | None:
    leaf = _remembered_leaf(line)
    is_chained = line.type in _CHAINED_TYPES
    is_entry = is_chained or line.replacements or line.leaf_uuid or leaf is not None
    if not (is_entry or {"type", "replacements", "leafUuid"}.intersection(unread)):
        return None
    entry = replace(
        place,
        type=line.type or "",
        uuid=line.uuid,
        parent=line.parent_uuid,
        subtype=line.subtype,
        author=line_author(line, unread) if line.type == "user" else None,
        at=timestamp_to_ms(line.timestamp),
        sidechain=bool(line.is_sidechain),
        request_id=line.request_ref,
        leaf_uuid=leaf,
        goes_back=leaf is not None and bool(line.explicit),
        # Every line has it: share one string.
        version=intern(line.version) if line.version else None,
        unread_fields=tuple(name for name in unread if _is_used(name, line.type)),
    )
    if line.type == "assistant":
        return _assistant_entry(entry, line, calls)
    if line.type == "user":
        return _user_entry(entry, line, calls)
    if line.type == "attachment":
        return _attachment_entry(entry, line)
    if line.type == "system":
        return _system_entry(entry, line)
    return replace(
        entry,
        replaced_results=tuple(
            (each.tool_use_id, each.replacement or "")
            for each in line.replacements or ()
            if each.tool_use_id
        ),
    )


def _remembered_leaf(line: TranscriptLine) -> str | None:
    """Return the line that the client remembers; "" if a person went back to before the first."""
    if line.type != "last-prompt":
        return None
    return line.leaf_uuid or ("" if line.explicit else None)


def _is_used(field: str, line_type: str | None) -> bool:
    name = field.partition(".")[0]
    if name == "message":
        return line_type in {None, "user", "assistant"}
    return name in _READ_FIELDS


def _with_message(
    entry: Entry, role: Role, message: RawMessage, kind: PartKind, calls: dict[str, NamedToolCall]
) -> Entry:
    try:
        blocks = line_decoder.decode_blocks_strictly(message.content)
        parts = tuple(decode_parts(blocks, kind, calls))
    except UnexpectedShapeError:
        unread = (*entry.unread_fields, "message.content")
        return replace(entry, role=role, unread_fields=unread)
    signed = (each.signature for each in blocks if each.type in THINKING_BLOCKS)
    chars = sum(len(memoryview(raw)) - len('""') for raw in signed if raw is not UNSET)
    return replace(entry, role=role, parts=parts, signature_chars=max(chars, 0))


def _assistant_entry(entry: Entry, line: TranscriptLine, calls: dict[str, NamedToolCall]) -> Entry:
    message = line.message or RawMessage()
    failed = bool(line.is_api_error_message)
    answer = replace(
        _with_message(entry, Role.ASSISTANT, message, PartKind.TEXT, calls),
        message_id=message.id,
        model=sanitize_title(message.model or "") or None,
        hidden=failed,
        withdrawal=read_clearing(message.context_management),
    )
    is_own = failed or line.is_unmetered or message.model == line_decoder.SYNTHETIC_MODEL
    if message.usage is None or is_own:
        return answer
    usage, context = reported_usage.read_usage(message.usage)
    last_output = reported_usage.last_output_tokens(message.usage)
    details = message.usage.output_tokens_details
    return replace(
        answer,
        context_tokens=context,
        output_tokens=usage.output_tokens,
        usage=usage if last_output is None else replace(usage, output_tokens=last_output),
        thinking_tokens=details.thinking_tokens if details else None,
        also_counted_tokens=reported_usage.also_counted_tokens(message.context_management),
        is_estimate=reported_usage.is_estimated_usage(message.usage),
    )


def _user_entry(entry: Entry, line: TranscriptLine, calls: dict[str, NamedToolCall]) -> Entry:
    kind = PartKind.PROMPT if entry.author in PROMPT_AUTHORS else PartKind.META
    if line.is_compact_summary or line.replaces_span:
        kind = PartKind.SUMMARY
    return _with_message(entry, Role.USER, line.message or RawMessage(), kind, calls)


def _attachment_entry(entry: Entry, line: TranscriptLine) -> Entry:
    unread: list[str] = []
    attachment: dict[str, Any] = _read_field("attachment", line.attachment, dict, unread) or {}
    rendered: list[Any] | None = _read_field("rendered", line.rendered, list, unread)
    kind = sanitize_title(str(attachment.get("type") or ""))
    return replace(
        entry,
        role=Role.USER,
        subtype=kind,
        author=queued_author(attachment) if kind == QUEUED_PROMPT else None,
        parts=attachment_parts(kind, attachment, rendered),
        snapshot=parse_prompt_snapshot(attachment) if kind == "prompt_snapshot" else None,
        withdrawal=parse_withdrawal(kind, attachment),
        is_above_limit=attachment.get("overTokenLimit") is True,
        unread_fields=(*entry.unread_fields, *unread),
    )


def _read_field(name: str, raw: Raw | UnsetType, kind: type, unread: list[str]) -> Any:  # noqa: ANN401 -- of that kind
    """Decode a field; None if it is missing. One that cannot be read is added to `unread`."""
    try:
        value = line_decoder.decode_value(raw)
    except UnexpectedShapeError:
        unread.append(name)
        return None
    if isinstance(value, kind | None):
        return value
    unread.append(name)
    return None


def _system_entry(entry: Entry, line: TranscriptLine) -> Entry:
    if line.subtype == line_decoder.COMPACT_BOUNDARY:
        return replace(
            entry, boundary=_to_boundary(line.compact_metadata or line_decoder.CompactMetadata())
        )
    if line.subtype == "microcompact_boundary" and (cleared := line.microcompact_metadata):
        microcompaction = Microcompaction(
            results=tuple(cleared.compacted_tool_ids),
            attachments=tuple(cleared.cleared_attachments),
            saved_tokens=cleared.tokens_saved,
        )
        return replace(entry, microcompaction=microcompaction)
    if line.subtype == "local_command":
        text = line_decoder.decode_string(line.content)
        parts = (MessagePart(PartKind.META, text, "local_command"),) if text else ()
        return replace(entry, role=Role.USER, parts=parts)
    return entry


def _to_boundary(metadata: line_decoder.CompactMetadata) -> Boundary:
    messages, segment = metadata.preserved_messages, metadata.preserved_segment
    head, tail = (segment.head_uuid, segment.tail_uuid) if segment else (None, None)
    anchored = messages or segment
    return Boundary(
        trigger=sanitize_title(metadata.trigger) if metadata.trigger else None,
        pre_tokens=metadata.pre_tokens,
        post_tokens=metadata.post_tokens,
        planned_tokens=metadata.ctxtop_next_tokens,
        kept_uuids=(messages.uuids or ()) if messages else (),
        kept_range=(head, tail) if head and tail else None,
        anchor_uuid=anchored.anchor_uuid if anchored else None,
    )
