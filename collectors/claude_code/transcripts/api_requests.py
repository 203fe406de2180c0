"""API requests as the client records them: their lines, and a request's messages.

Client 2.1.329 writes an `api-request` line for each request, which names its messages by hash.
A message made up for the request is in an `api-request-blob` line, and the system prompt with
the tools in an `api-request-shape` line. A message of the conversation has no such line: its hash
is that of the user's or assistant's lines themselves.
"""

from __future__ import annotations

import hashlib
import json
import re
import struct
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from ....core.files.transcript_file import open_transcript
from ....core.measure.composition import ContextPart, context_parts
from ....core.measure.part_sizes import PartSizes
from ....core.model.conversation import Entry, MessagePart, PartKind, PromptSnapshot
from ....core.model.transcript_records import RequestPartRecord, RequestRecord
from ....core.transcript.authorship import CLIENT_TEXT
from ....core.transcript.client_messages import (
    TASK_NOTIFICATION,
    is_agent_message,
    is_agent_notification,
    iter_json_strings,
    parse_prompt_snapshot,
)
from ....core.transcript.entry_decoder import MEDIA_BLOCKS, iter_lines
from ....core.transcript.raw_lines import MAX_LINE_BYTES, text_key, timestamp_to_ms
from ....core.transcript.reported_usage import Count
from ....core.transcript.sanitize import sanitize_title

REQUEST_PART_HEAD: Final = re.compile(
    rb'\{"type":"api-request-(?:(blob)|shape)"'
    rb'(?:,"(?:sessionId|agentId|timestamp|version)":"[^"\\]{0,200}"){0,4}'
    rb',"(?:hash|shapeHash)":"([^"\\]{1,200})"'
)
"""The head of a line with a part of a request; it is read up to the hash."""

REQUEST_TYPE: Final = b"api-request"  # of a request's line; those of its parts begin with it


SentJson = dict[str, Any]  # a message or a block as it was sent
JsonObject = dict[str, Any]


class _RequestParams(msgspec.Struct):
    model: str | None = None


class _RequestLine(msgspec.Struct, rename="camel"):
    id: str
    timestamp: str | None = None
    query_source: str | None = None
    shape_hash: str | None = None
    params: _RequestParams | None = None
    base: str | None = None
    keep: Count = 0
    tail: list[str] = []


_request_decoder: Final = msgspec.json.Decoder(_RequestLine)


def read_request_part(offset: int, data: bytes | memoryview) -> RequestPartRecord | None:
    """Read the place of a part of a request, from the head of its line alone."""
    head = REQUEST_PART_HEAD.match(data)
    if not head:
        return None
    key = text_key(head[2].decode("utf-8", "replace"))
    return RequestPartRecord(offset, len(data), key)


def read_request_line(offset: int, data: bytes | memoryview) -> RequestRecord | None:
    """Read a request's line; None if a field is missing or of another type."""
    try:
        line = _request_decoder.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    keys = [text_key(each) for each in line.tail]
    return RequestRecord(
        offset=offset,
        length=len(data),
        request=text_key(line.id),
        at=timestamp_to_ms(line.timestamp),
        model=(line.params and line.params.model) or None,
        query_source=line.query_source or None,
        shape=text_key(line.shape_hash) if line.shape_hash else None,
        base=text_key(line.base) if line.base else None,
        keep=line.keep,
        tail=struct.pack(f">{len(keys)}q", *keys),
    )


def reread_part(path: Path, offset: int, length: int, key: int) -> dict[str, Any] | None:
    """Read a part's line again; None if the file changed there. Raises OSError."""
    with open_transcript(path) as file:
        file.seek(offset)
        data = file.read(min(length, MAX_LINE_BYTES))
    part = read_request_part(offset, data)
    if part is None or part.part != key:
        return None
    try:
        value = json.loads(data)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def reread_request(path: Path, offset: int, length: int) -> JsonObject | None:
    """Read the parameters of a request again; None if the file changed there. Raises OSError."""
    with open_transcript(path) as file:
        file.seek(offset)
        data = file.read(min(length, MAX_LINE_BYTES))
    try:
        line = json.loads(data)
    except (ValueError, RecursionError):
        return None
    params = line.get("params") if isinstance(line, dict) else None
    return params if isinstance(params, dict) else None


def find_sent_messages(path: Path, wanted: Collection[int], before: int) -> dict[int, SentJson]:
    """Find messages without a blob in the conversation's own lines before an offset.

    Consecutive lines of the user are one message, and so are the lines of one answer (seen in
    client 2.1.329, which remembers a message by the same hash). Raises OSError.
    """
    found: dict[int, SentJson] = {}
    run = _MessageRun()
    for line in _iter_message_lines(path, before):
        run = run.with_line(line)
        if run.role and (key := text_key(run.hash())) in wanted:
            found[key] = {"role": run.role, "content": run.content}
    return found


class _MessageRun(msgspec.Struct, frozen=True):
    role: str = ""
    message_id: str | None = None
    content: tuple[Any, ...] = ()

    def with_line(self, line: dict[str, Any]) -> _MessageRun:
        message = line.get("message")
        if not isinstance(message, dict) or message.get("content") is None:
            return _MessageRun()
        role, message_id, content = message.get("role"), message.get("id"), message["content"]
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
        if not isinstance(role, str) or not isinstance(blocks, list):
            return _MessageRun()
        sent = tuple(map(_block_as_sent, blocks))
        is_same = role == self.role and (
            role == "user" or (message_id is not None and message_id == self.message_id)
        )
        return _MessageRun(role, message_id, (*self.content, *sent) if is_same else sent)

    def hash(self) -> str:
        text = json.dumps(
            {"content": self.content, "role": self.role},
            ensure_ascii=False,
            separators=(",", ":"),
            sort_keys=True,
        )
        return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()


def _block_as_sent(block: Any) -> Any:  # noqa: ANN401 -- any JSON
    """Leave out fields that the client adds in the transcript, or that change between turns."""
    if not isinstance(block, dict):
        return block
    return {name: value for name, value in block.items() if name not in {"cache_control", "caller"}}


def _iter_message_lines(path: Path, before: int) -> Iterator[SentJson]:
    for offset, _, data in iter_lines(path):
        if offset >= before:
            return
        has_message = b'"type":"user"' in data or b'"type":"assistant"' in data
        if has_message and not data.startswith(b'{"type":"api-request'):
            try:
                line = json.loads(data)
            except (ValueError, RecursionError):
                continue
            if isinstance(line, dict) and line.get("type") in {"user", "assistant"}:
                yield line


_REMINDER_START: Final = "<system-reminder>"  # the client may also add it to the result before it


def reread_messages(
    path: Path, keys: Sequence[int], places: Mapping[int, RequestPartRecord], before: int
) -> list[SentJson] | None:
    """Read a request's messages again; None if one is gone. Raises OSError."""
    found = find_sent_messages(path, set(keys) - places.keys(), before)
    messages: list[SentJson] = []
    for key in keys:
        place, message = places.get(key), found.get(key)
        if place:
            part = reread_part(path, place.offset, place.length, key)
            message = part.get("message") if part else None
        if not isinstance(message, dict):
            return None
        messages.append(message)
    return messages


def reread_shape(path: Path, place: RequestPartRecord | None) -> PromptSnapshot | None:
    """Read a request's system prompt and tools again; raises OSError."""
    part = reread_part(path, place.offset, place.length, place.part) if place else None
    shape = part.get("shape") if part else None
    if not isinstance(shape, dict):
        return None
    return parse_prompt_snapshot({"systemPrompt": shape.get("system"), "tools": shape.get("tools")})


class SentPartLabels:
    """Labels sent blocks with the parts and lines of the conversation, by text or call."""

    def __init__(self, entries: Sequence[Entry], sizes: PartSizes) -> None:
        self._parts: Final[dict[str, tuple[ContextPart, ...]]] = {}
        self._thoughts: Final[list[ContextPart]] = []
        for entry in entries:
            parts = tuple(context_parts([entry], sizes))
            self._parts.setdefault(_match_key("".join(part.content.text for part in parts)), parts)
            for part in parts:
                content = part.content
                if content.kind is PartKind.THINKING:
                    self._thoughts.append(part)
                elif content.tool_use_id:
                    is_call = content.kind is PartKind.TOOL_INPUT
                    self._parts[_call_key(content.tool_use_id, call=is_call)] = (part,)
                elif content.text:
                    self._parts.setdefault(_match_key(content.text), (part,))
        self._thoughts.reverse()

    def parts(self, message: SentJson) -> Iterator[ContextPart]:
        content = message.get("content")
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
        for block in blocks if isinstance(blocks, (list, tuple)) else ():
            if isinstance(block, dict):
                yield from self._block(block, str(message.get("role")))

    def _block(self, block: SentJson, role: str) -> Iterator[ContextPart]:
        if block.get("type") in {"thinking", "redacted_thinking"}:
            if self._thoughts:
                yield self._thoughts.pop()
        elif isinstance(block.get("id"), str) and "input" in block:
            yield self._call(block)
        elif isinstance(block.get("tool_use_id"), str):
            yield from self._result(block)
        elif block.get("type") in MEDIA_BLOCKS:
            yield ContextPart(MessagePart(PartKind.PROMPT, media=1))
        elif isinstance(block.get("text"), str):
            yield from self._text(block["text"], role)

    def _call(self, block: SentJson) -> ContextPart:
        known = self._parts.get(_call_key(block["id"], call=True))
        if known:
            return known[0]
        text = json.dumps(block["input"], ensure_ascii=False)
        name = sanitize_title(str(block.get("name") or ""))
        return ContextPart(MessagePart(PartKind.TOOL_INPUT, text, name, block["id"]))

    def _result(self, block: SentJson) -> Iterator[ContextPart]:
        known = self._parts.get(_call_key(block["tool_use_id"], call=False))
        part = known[0].content if known else MessagePart(PartKind.TOOL_RESULT)
        line = known[0].line if known else None
        content = block.get("content")
        blocks = content if isinstance(content, list) else []
        size = known[0].tokens if known else None
        text = "\n".join(iter_json_strings(content))
        reminders = text.removeprefix(part.text)
        if not text.startswith(part.text) or not reminders.lstrip().startswith(_REMINDER_START):
            reminders = ""
        own = text[: len(text) - len(reminders)]
        media = sum(isinstance(each, dict) and each.get("type") in MEDIA_BLOCKS for each in blocks)
        sent = replace(part, text=own, media=media)
        if sent != part:
            # Another text of the same result is on the same scale.
            is_text = size is not None and part.text and media == part.media
            size = round((size or 0) * len(own) / len(part.text)) if is_text else None
        yield ContextPart(sent, line, size)
        for reminder in reminders.split(_REMINDER_START)[1:]:
            yield from self._text(_REMINDER_START + reminder, "user")

    def _text(self, text: str, role: str) -> Iterator[ContextPart]:
        known = self._parts.get(_match_key(text))
        if known:
            yield from known
        elif role == "assistant":
            yield ContextPart(MessagePart(PartKind.TEXT, text))
        elif TASK_NOTIFICATION in text:
            # It is sent after a note that no person wrote it (client 2.1.329).
            notification = text[text.index(TASK_NOTIFICATION) :]
            kind = PartKind.AGENT_RETURN if is_agent_notification(notification) else PartKind.META
            key = _match_key(notification.rstrip().removesuffix("</system-reminder>"))
            original = self._parts.get(key)
            line = original[0].line if original else None
            yield ContextPart(MessagePart(kind, text), line)
        elif is_agent_message(text):
            yield ContextPart(MessagePart(PartKind.AGENT_RETURN, text))
        elif text.startswith(_REMINDER_START):
            yield ContextPart(MessagePart(PartKind.ATTACHMENT, text))
        else:
            kind = PartKind.META if CLIENT_TEXT.match(text) else PartKind.PROMPT
            yield ContextPart(MessagePart(kind, text))


def _match_key(text: str) -> str:
    # The client adds or removes line ends where it joins texts.
    return "".join(text.split())


def _call_key(tool_use_id: str, *, call: bool) -> str:
    return f"{'call' if call else 'result'} of {tool_use_id}"
