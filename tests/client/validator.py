"""What the real API would refuse of a request, in its own words; the scripted one refuses it too.

The words are those of the API's 400 answers that issues of clients quote. The API
joins a user's messages that follow each other, and the real client leaves that to it after a
compaction. It joins answers too; the client never does that, and here it is refused.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections import Counter
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

Json = dict[str, Any]

LONGEST_REQUEST: Final = 32 << 20
"""Bytes of a body; a larger one is answered with 413 by the real API."""

LARGEST_IMAGE: Final = 5 << 20
"""Bytes of an image's base64 text."""

_MAGIC: Final = {
    "image/png": b"\x89PNG\r\n\x1a\n",
    "image/jpeg": b"\xff\xd8\xff",
    "image/gif": b"GIF8",
    "image/webp": b"RIFF",
}
"""How the data of each type of image begins."""

_ID: Final = re.compile(r"[a-zA-Z0-9_-]+")

_THOUGHTS: Final = frozenset({"thinking", "redacted_thinking"})


def refusals(body: Json) -> list[str]:
    """List what is wrong with a body of /v1/messages, the first of it as the API says it first."""
    if len(json.dumps(body)) > LONGEST_REQUEST:
        return ["Request exceeds the maximum size"]
    messages = body.get("messages")
    if not isinstance(messages, list) or not messages:
        return ["messages: at least one message is required"]
    one_a_role = _joined(messages)
    return [*_roles(messages), *_contents(messages), *_pairs(one_a_role), *_server_pairs(messages)]


def blocks_of(content: object) -> list[Json]:
    """List a content's blocks; a text alone is one."""
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    return [one for one in content if isinstance(one, dict)] if isinstance(content, list) else []


def open_answers(messages: list[Json]) -> list[int]:
    """Return the places of the answers of the turn whose results wait for the model.

    A message of results begins no turn, not even if a prompt follows them in it.
    """
    found: list[int] = []
    for place in range(len(messages) - 1, -1, -1):
        role = messages[place].get("role")
        if role == "assistant":
            found.insert(0, place)
        elif role != "system" and not _typed(messages[place], "tool_result", "user"):
            break
    return found if found and _typed(messages[-1], "tool_result", "user") else []


def _roles(messages: list[Json]) -> Iterator[str]:
    before = None
    for place, message in enumerate(messages):
        role = message.get("role")
        if role not in {"user", "assistant", "system"}:
            yield f"messages.{place}.role: Input should be 'user', 'assistant' or 'system'"
        elif before is None and role != "user":
            yield 'messages: first message must use the "user" role'
        elif role == before == "assistant":
            yield (
                'messages: roles must alternate between "user" and "assistant", '
                f'but found multiple "{role}" roles in a row'
            )
        before = role
    if before == "assistant":
        yield "The conversation must end with a user message."


def _contents(messages: list[Json]) -> Iterator[str]:
    for place, message in enumerate(messages):
        at, content = f"messages.{place}", message.get("content")
        if not isinstance(content, str | list):
            yield f"{at}.content: Input should be a valid list"
        elif not content and message.get("role") != "system":
            # The client sends empty ones that carry nothing but a turn's effort.
            yield f"{at}: all messages must have non-empty content"
        blocks = blocks_of(content)
        for number, block in enumerate(blocks):
            yield from _block(f"{at}.content.{number}", block)
        if message.get("role") == "assistant" and blocks and blocks[-1].get("type") in _THOUGHTS:
            yield f"{at}: The final block in an assistant message cannot be `thinking`."


def _block(at: str, block: Json) -> Iterator[str]:
    kind = block.get("type")
    if not isinstance(kind, str):
        yield f"{at}.type: Field required"
    elif kind == "text":
        yield from _text(block)
    elif kind == "image":
        yield from _image(f"{at}.image", block.get("source"))
    elif kind == "tool_use":
        if not isinstance(block.get("input"), dict):
            yield f"{at}.tool_use.input: Input should be a valid dictionary"
        if not isinstance(block.get("name"), str) or not block["name"]:
            yield f"{at}.tool_use.name: String should have at least 1 character"
        if not _ID.fullmatch(str(block.get("id") or "")):
            yield f"{at}.tool_use.id: String should match pattern '^[a-zA-Z0-9_-]+$'"
    elif kind == "tool_result":
        yield from _result(f"{at}.tool_result", block)


def _text(block: Json) -> Iterator[str]:
    text = block.get("text")
    if not text:
        yield "messages: text content blocks must be non-empty"
    elif not str(text).strip():
        yield "messages: text content blocks must contain non-whitespace text"


def _result(at: str, block: Json) -> Iterator[str]:
    content = block.get("content")
    if not isinstance(content, str | list | None):
        yield f"{at}.content: Input should be a valid list"
    if block.get("is_error") and not content:
        yield f"{at}: content cannot be empty if `is_error` is true"
    if isinstance(content, list):
        for number, part in enumerate(content):
            yield from _block(f"{at}.content.{number}", part)


def _image(at: str, source: object) -> Iterator[str]:
    if not isinstance(source, dict):
        yield f"{at}.source: Field required"
        return
    if source.get("type") != "base64":
        return
    kind, data = str(source.get("media_type")), str(source.get("data") or "")
    if kind not in _MAGIC:
        known = "', '".join(_MAGIC)
        yield f"{at}.source.base64.media_type: Input should be '{known}'"
        return
    if len(data) > LARGEST_IMAGE:
        size = f"{len(data)} bytes > {LARGEST_IMAGE} bytes"
        yield f"{at}.source.base64: image exceeds 5 MB maximum: {size}"
    try:
        decoded = base64.b64decode(data, validate=True)
    except (binascii.Error, ValueError):
        yield f"{at}.source.base64.data: Input should be a valid base64"
        return
    if not decoded.startswith(_MAGIC[kind]):
        yield (
            f"{at}.source.base64.data: "
            f"The image was specified using the {kind} media type, but does not appear to be one"
        )


def _pairs(messages: list[Json]) -> Iterator[str]:
    """Each call has its one result at the head of the very next message, and no other is there."""
    ids = Counter(
        block.get("id")
        for message in messages
        for block in _typed(message, "tool_use", "assistant")
    )
    if any(count > 1 for count in ids.values()):
        yield "messages: `tool_use` ids must be unique"
    called: list[str] = []
    for place, message in enumerate([*messages, {"role": "user", "content": []}]):
        results = _typed(message, "tool_result", "user")
        headed = [str(block.get("tool_use_id")) for block in _head(message)]
        missing = [one for one in called if one not in headed]
        if missing:
            yield (
                f"messages.{place - 1}: `tool_use` ids were found without `tool_result` blocks "
                f"immediately after: {', '.join(missing)}. Each `tool_use` block must have a "
                "corresponding `tool_result` block in the next message."
            )
        given = Counter(str(block.get("tool_use_id")) for block in results)
        for number, block in enumerate(blocks_of(message.get("content"))):
            name = str(block.get("tool_use_id"))
            if block.get("type") != "tool_result":
                continue
            if name not in called:
                yield (
                    f"messages.{place}.content.{number}: unexpected `tool_use_id` found in "
                    f"`tool_result` blocks: {name}. Each `tool_result` block must have a "
                    "corresponding `tool_use` block in the previous message."
                )
            elif given[name] > 1:
                yield (
                    f"messages.{place}.content.{number}: each tool_use must have a single result. "
                    f"Found multiple `tool_result` blocks with id: {name}"
                )
        called = [str(block.get("id")) for block in _typed(message, "tool_use", "assistant")]


def _joined(messages: list[Json]) -> list[Json]:
    found: list[Json] = []
    for message in messages:
        if found and message.get("role") == found[-1].get("role") == "user":
            before = blocks_of(found[-1].get("content"))
            content = [*before, *blocks_of(message.get("content"))]
            found[-1] = {"role": "user", "content": content}
        else:
            found.append(message)
    return found


def _typed(message: Json, kind: str, role: str) -> list[Json]:
    if message.get("role") != role:
        return []
    return [block for block in blocks_of(message.get("content")) if block.get("type") == kind]


def _head(message: Json) -> Iterator[Json]:
    """The results that stand before anything else is said."""
    for block in blocks_of(message.get("content")) if message.get("role") == "user" else ():
        if block.get("type") != "tool_result":
            return
        yield block


def _server_pairs(messages: list[Json]) -> Iterator[str]:
    """What a server's tool returned stands in the message of its call, behind it."""
    for place, message in enumerate(messages):
        called: set[object] = set()
        for number, block in enumerate(blocks_of(message.get("content"))):
            kind, name = str(block.get("type")), block.get("tool_use_id")
            if kind == "server_tool_use":
                called.add(block.get("id"))
            elif kind.endswith("_tool_result") and name not in called:
                yield (
                    f"messages.{place}.content.{number}: unexpected `tool_use_id` found in "
                    f"`{kind}` blocks: {name}. Each `{kind}` block must have a "
                    "corresponding `server_tool_use` block before it."
                )
