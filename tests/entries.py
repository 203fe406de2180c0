"""A conversation's entries made by hand: only what a test is about is named."""

# ruff: noqa: ANN401 -- any field may be named

from __future__ import annotations

import json
from itertools import count
from typing import TYPE_CHECKING, Any, Final

from ctxtop.core.model.conversation import Author, Boundary, Entry, MessagePart, PartKind, Role

if TYPE_CHECKING:
    from collections.abc import Iterator

_lines: Final[Iterator[int]] = count(1)


def entry(*pieces: MessagePart, **fields: Any) -> Entry:
    """A line of the conversation, after all that were made before it."""
    line = next(_lines)
    known: dict[str, Any] = {
        "offset": line * 100,
        "length": 99,
        "line": line,
        "type": "user",
        "uuid": f"line {line}",
        "role": Role.USER,
        "parts": pieces,
    }
    return Entry(**(known | fields))


def asked(words: str, **fields: Any) -> Entry:
    """A person's prompt."""
    known: dict[str, Any] = {"author": Author.PERSON}
    return entry(MessagePart(PartKind.PROMPT, words), **(known | fields))


def answered(words: str = "", context: int = 1000, output: int = 10, **fields: Any) -> Entry:
    """An answer of the model's own words."""
    return _answer((MessagePart(PartKind.TEXT, words),), context, output, **fields)


def called(tool: str, call: str, context: int = 1000, output: int = 10, **asked_for: Any) -> Entry:
    """An answer that calls a tool."""
    path = asked_for.get("file_path")
    piece = MessagePart(PartKind.TOOL_INPUT, json.dumps(asked_for), tool, call, path)
    return _answer((piece,), context, output)


def returned(
    tool: str, call: str, words: str = "done", path: str | None = None, **fields: Any
) -> Entry:
    """A tool's result."""
    return entry(MessagePart(PartKind.TOOL_RESULT, words, tool, call, path, **fields))


def attached(kind: str, words: str, path: str | None = None) -> Entry:
    """What the client put in by itself."""
    return entry(MessagePart(PartKind.ATTACHMENT, words, kind, path=path), type="attachment")


def compacted(**fields: Any) -> Entry:
    """A boundary's line."""
    return entry(type="system", role=None, boundary=Boundary(**fields))


def summed_up(words: str) -> Entry:
    """A compaction's summary."""
    return entry(MessagePart(PartKind.SUMMARY, words))


def touched(tool: str, path: str, call: str) -> tuple[Entry, Entry]:
    """A tool's call on a file, and its result."""
    return called(tool, call, file_path=path), returned(tool, call, path=path)


def _answer(pieces: tuple[MessagePart, ...], context: int, output: int, **fields: Any) -> Entry:
    made = entry(
        *pieces,
        type="assistant",
        role=Role.ASSISTANT,
        context_tokens=context,
        output_tokens=output,
        **fields,
    )
    return made if made.message_id else _with_id(made)


def _with_id(made: Entry) -> Entry:
    from msgspec.structs import replace

    return replace(made, message_id=f"msg {made.line}")
