"""API requests as the client records them: their lines, and a request's messages.

Client 2.1.329 writes one `api-request` line a request, which names its messages by hash.
A message that was made up for the request stands in an `api-request-blob` line, and the
system prompt with the tools in an `api-request-shape` line; one that is the conversation's
own has no such line: its hash is that of the user's or assistant's lines themselves.
"""

from __future__ import annotations

import hashlib
import json
import re
import struct
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from ....core.files.safe_open import open_regular
from ....core.measure.composition import ContextPart, context_parts
from ....core.measure.tokens import ThinkingTokens
from ....core.store.transcript_records import RequestPartRecord, RequestRecord
from ....core.transcript.client_messages import (
    TASK_NOTIFICATION,
    is_agent_message,
    is_agent_notification,
    iter_json_strings,
    parse_prompt_snapshot,
)
from ....core.transcript.conversation import Entry, MessagePart, PartKind, PromptSnapshot
from ....core.transcript.entry_decoder import MEDIA_BLOCKS, iter_lines
from ....core.transcript.line_decoder import Count
from ....core.transcript.line_types import CLIENT_TEXT
from ....core.transcript.raw_lines import MAX_LINE_BYTES, text_key, timestamp_to_ms
from ....core.transcript.sanitize import sanitize_title

MESSAGE_PART: Final = "message"
SHAPE_PART: Final = "shape"

REQUEST_PART_HEAD: Final = re.compile(
    rb'\{"type":"api-request-(?:(blob)|shape)"'
    rb'(?:,"(?:sessionId|agentId|timestamp|version)":"[^"\\]{0,200}"){0,4}'
    rb',"(?:hash|shapeHash)":"([^"\\]{1,200})"'
)
"""The head of a line that holds a part of a request: nothing behind its hash is looked at."""

REQUEST_TYPE: Final = b"api-request"  # of a request's line; those of its parts begin with it


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
    """Read where a part of a request stands, from the head of its line alone."""
    found = REQUEST_PART_HEAD.match(data)
    if not found:
        return None
    kind = MESSAGE_PART if found[1] else SHAPE_PART
    return RequestPartRecord(offset, len(data), text_key(found[2].decode("utf-8", "replace")), kind)


def read_request_line(offset: int, data: bytes | memoryview) -> RequestRecord | None:
    """Read a request's line; None where a field is missing or of another kind."""
    try:
        said = _request_decoder.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    return RequestRecord(
        offset=offset,
        length=len(data),
        request=text_key(said.id),
        at=timestamp_to_ms(said.timestamp),
        model=sanitize_title(said.params.model) if said.params and said.params.model else None,
        query_source=sanitize_title(said.query_source) if said.query_source else None,
        shape=text_key(said.shape_hash) if said.shape_hash else None,
        base=text_key(said.base) if said.base else None,
        keep=said.keep,
        tail=pack_keys(map(text_key, said.tail)),
    )


def pack_keys(keys: Iterable[int]) -> bytes:
    listed = list(keys)
    return struct.pack(f">{len(listed)}q", *listed)


def reread_part(path: Path, offset: int, length: int, key: int) -> dict[str, Any] | None:
    """Read a part's line again; None if the file changed there. Raises OSError."""
    with open_regular(path) as file:
        file.seek(offset)
        data = file.read(min(length, MAX_LINE_BYTES))
    found = REQUEST_PART_HEAD.match(data)
    if not found or text_key(found[2].decode("utf-8", "replace")) != key:
        return None
    try:
        value = json.loads(data)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


class SentMessage(msgspec.Struct, frozen=True):
    """A message of the conversation as it was sent, and the lines that it was put together of."""

    key: int
    offsets: tuple[int, ...]
    message: dict[str, Any]


def find_sent_messages(path: Path, wanted: Collection[int], before: int) -> dict[int, SentMessage]:
    """Find messages that have no blob in the conversation's own lines before an offset.

    The user's lines that follow each other are one message, and so are the lines of one
    answer (seen in client 2.1.329, which remembers a message by the same hash).
    Raises OSError where the file cannot be read.
    """
    found: dict[int, SentMessage] = {}
    run = _MessageRun()
    for offset, line in _iter_message_lines(path, before):
        run = run.with_line(offset, line)
        if run.role:
            key = text_key(run.hash())
            if key in wanted:
                found[key] = SentMessage(
                    key, run.offsets, {"role": run.role, "content": run.content}
                )
    return found


class _MessageRun(msgspec.Struct, frozen=True):
    role: str = ""
    message_id: str | None = None
    offsets: tuple[int, ...] = ()
    content: tuple[Any, ...] = ()

    def with_line(self, offset: int, line: dict[str, Any]) -> _MessageRun:
        message = line.get("message")
        if not isinstance(message, dict) or message.get("content") is None:
            return _MessageRun()
        role, message_id, content = message.get("role"), message.get("id"), message["content"]
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
        if not isinstance(role, str) or not isinstance(blocks, list):
            return _MessageRun()
        sent = tuple(_block_as_sent(block) for block in blocks)
        same = role == self.role and (
            role == "user" or (message_id is not None and message_id == self.message_id)
        )
        if same:
            return _MessageRun(role, message_id, (*self.offsets, offset), (*self.content, *sent))
        return _MessageRun(role, message_id, (offset,), sent)

    def hash(self) -> str:
        text = json.dumps(
            {"content": self.content, "role": self.role},
            ensure_ascii=False,
            separators=(",", ":"),
            sort_keys=True,
        )
        return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()


def _block_as_sent(block: Any) -> Any:  # noqa: ANN401 -- any JSON
    """Leave out what the client adds when it writes a block down, or moves from turn to turn."""
    if not isinstance(block, dict):
        return block
    return {name: value for name, value in block.items() if name not in {"cache_control", "caller"}}


_MESSAGE_LINE: Final = re.compile(rb'"type":"(?:user|assistant)"')


def _iter_message_lines(path: Path, before: int) -> Iterator[tuple[int, dict[str, Any]]]:
    for offset, _, data in iter_lines(path):
        if offset >= before:
            return
        if _MESSAGE_LINE.search(data) and not data.startswith(b'{"type":"api-request'):
            try:
                line = json.loads(data)
            except (ValueError, RecursionError):
                continue
            if isinstance(line, dict) and line.get("type") in {"user", "assistant"}:
                yield offset, line


SentJson = dict[str, Any]

_WHITESPACE: Final = re.compile(r"\s+")

_REMINDER_END: Final = "</system-reminder>"

_REMINDER_START: Final = "<system-reminder>"  # the client may also add it to the result before it


def reread_messages(
    path: Path, keys: Sequence[int], places: Mapping[int, RequestPartRecord], before: int
) -> list[SentJson] | None:
    """Read a request's messages again; None if one is gone. Raises OSError."""
    spoken = find_sent_messages(path, set(keys) - places.keys(), before)
    messages: list[SentJson] = []
    for key in keys:
        place = places.get(key)
        if place is None and key in spoken:
            messages.append(spoken[key].message)
            continue
        kept = reread_part(path, place.offset, place.length, key) if place else None
        message = kept.get("message") if kept else None
        if not isinstance(message, dict):
            return None
        messages.append(message)
    return messages


def reread_shape(path: Path, place: RequestPartRecord | None) -> PromptSnapshot | None:
    """Read a request's system prompt and tools again; raises OSError."""
    kept = reread_part(path, place.offset, place.length, place.part) if place else None
    shape = kept.get("shape") if kept else None
    if not isinstance(shape, dict):
        return None
    return parse_prompt_snapshot({"systemPrompt": shape.get("system"), "tools": shape.get("tools")})


class SentPartLabels:
    """Knows by its text or its call what each block is, and on which line it stands."""

    def __init__(
        self, entries: Sequence[Entry], thoughts: dict[str | None, ThinkingTokens]
    ) -> None:
        self._parts: Final[dict[str, tuple[ContextPart, ...]]] = {}
        self._thoughts: Final[list[ContextPart]] = []
        for entry in entries:
            parts = tuple(context_parts([entry], thoughts))
            self._parts.setdefault(_match_key("".join(part.content.text for part in parts)), parts)
            for part in parts:
                piece = part.content
                if piece.kind is PartKind.THINKING:
                    self._thoughts.append(part)
                elif piece.tool_use_id:
                    call = piece.kind is PartKind.TOOL_INPUT
                    self._parts[_call_key(piece.tool_use_id, call=call)] = (part,)
                elif piece.text:
                    self._parts.setdefault(_match_key(piece.text), (part,))
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
        piece = known[0].content if known else MessagePart(PartKind.TOOL_RESULT)
        line = known[0].line if known else None
        content = block.get("content")
        blocks = content if isinstance(content, list) else []
        text = "\n".join(iter_json_strings(content))
        own, added = text, ""
        if text.startswith(piece.text) and text[len(piece.text) :].lstrip().startswith(
            _REMINDER_START
        ):
            own, added = piece.text, text[len(piece.text) :]
        media = sum(isinstance(each, dict) and each.get("type") in MEDIA_BLOCKS for each in blocks)
        yield ContextPart(replace(piece, text=own, media=media), line)
        for each in added.split(_REMINDER_START)[1:]:
            yield from self._text(_REMINDER_START + each, "user")

    def _text(self, text: str, role: str) -> Iterator[ContextPart]:
        known = self._parts.get(_match_key(text))
        if known:
            yield from known
        elif role == "assistant":
            yield ContextPart(MessagePart(PartKind.TEXT, text))
        elif TASK_NOTIFICATION in text:
            # It is sent with a word before it that no person said it (client 2.1.329).
            told = text[text.index(TASK_NOTIFICATION) :]
            kind = PartKind.AGENT_RETURN if is_agent_notification(told) else PartKind.META
            yield ContextPart(MessagePart(kind, text), self._line_of(told))
        elif is_agent_message(text):
            yield ContextPart(MessagePart(PartKind.AGENT_RETURN, text))
        elif text.startswith(_REMINDER_START):
            yield ContextPart(MessagePart(PartKind.ATTACHMENT, text))
        else:
            kind = PartKind.META if CLIENT_TEXT.match(text) else PartKind.PROMPT
            yield ContextPart(MessagePart(kind, text))

    def _line_of(self, notification: str) -> int | None:
        known = self._parts.get(_match_key(notification.rstrip().removesuffix(_REMINDER_END)))
        return known[0].line if known else None


def _match_key(text: str) -> str:
    # Where two texts are joined the client adds or takes away a line's end.
    return _WHITESPACE.sub("", text)


def _call_key(tool_use_id: str, *, call: bool) -> str:
    return f"{'call' if call else 'result'} of {tool_use_id}"
