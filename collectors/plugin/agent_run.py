"""An agent's transcript as a hook reads it: its skills, its blocks, its last words; nothing else.

The client is about to let the agent go: what cannot be read is not known, and no line is
decoded that does not tell. It writes a moment after it has the words, so that the transcript of
a quick agent may not be there yet (2.1.329): that says nothing, as an empty one does.
"""

from __future__ import annotations

import io
import json
import re
from contextlib import ExitStack, contextmanager

from ..regular import open_regular

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path
    from typing import Any, BinaryIO, Final

HEAD_BYTES: Final = 4 * 1024 * 1024
"""Of a transcript's beginning: its task and the skills that it was given."""

TAIL_BYTES: Final = 4 * 1024 * 1024
"""Of its end: the last message, and the client's records after it."""

LARGEST: Final = 256 * 1024 * 1024
"""Bytes that are searched for a block; nobody knows of a larger one whether it had one."""

_PIECE: Final = 1024 * 1024
_FEEDBACK: Final = b"top hook feedback:"
_SKILL: Final = re.compile(r"<command-name>/?([^<]{1,200})</command-name>")


class UnknownRunError(Exception):
    """A transcript that does not tell what was asked; the message says why."""


def given_skills(transcript: Path) -> list[str]:
    """Name the skills whose text the agent had before its first answer; raises OSError."""
    with _opened(transcript) as file:
        head = file.read(HEAD_BYTES)
    found: list[str] = []
    for line in head.split(b"\n"):
        if b'"type":"assistant"' in line or b'"type": "assistant"' in line:
            return found
        if b"<command-name>" not in line:
            continue
        found += [skill[1] for text in _meta_texts(line) if (skill := _SKILL.search(text))]
    return found


def was_blocked(transcript: Path) -> bool:
    """Say whether a hook held the agent up before; raises OSError or UnknownRunError."""
    with _opened(transcript) as file:
        return any(
            text.partition("hook feedback:")[0].endswith("top ") and "hook feedback:" in text
            for line in _lines_with(file, _FEEDBACK)
            for text in _meta_texts(line)
        )


def holds(transcript: Path, text: bytes) -> bool:
    """Say whether any line holds a text, as a grep does; raises OSError or UnknownRunError."""
    with _opened(transcript) as file:
        return bool(_lines_with(file, text))


def last_words(transcript: Path) -> str | None:
    """Give the text of the last assistant message that has one; raises OSError."""
    with _opened(transcript) as file:
        size = file.seek(0, 2)
        file.seek(max(0, size - TAIL_BYTES))
        tail = file.read(TAIL_BYTES)
    words: list[str] = []
    of: str | None = None
    for line in reversed(tail.split(b"\n")):
        if b"assistant" not in line:
            continue
        said = _decode(line)
        message = said.get("message")
        if said.get("type") != "assistant" or not isinstance(message, dict):
            continue
        text = "\n".join(_texts(message)).strip()
        if not text:
            continue
        if of is not None and message.get("id") != of:
            break
        # The blocks of one message stand in a line each.
        of = str(message.get("id"))
        words.append(text)
    return "\n".join(reversed(words)) or None


@contextmanager
def _opened(transcript: Path) -> Iterator[BinaryIO]:
    with ExitStack() as stack:
        try:
            file = stack.enter_context(open_regular(transcript))
        except FileNotFoundError:
            file = io.BytesIO()
        yield file


def _lines_with(file: BinaryIO, mark: bytes) -> list[bytes]:
    if file.seek(0, 2) > LARGEST:
        raise UnknownRunError("the transcript is too large to be searched")
    file.seek(0)
    found: list[bytes] = []
    rest = b""
    while piece := file.read(_PIECE):
        whole, _, after = piece.rpartition(b"\n")
        if not _:
            rest += piece
            continue
        block = rest + whole
        rest = after
        if mark in block:
            found += [line for line in block.split(b"\n") if mark in line]
    return found + ([rest] if mark in rest else [])


def _meta_texts(line: bytes) -> list[str]:
    said = _decode(line)
    message = said.get("message")
    is_meta = said.get("type") == "user" and said.get("isMeta") is True
    return _texts(message) if is_meta and isinstance(message, dict) else []


def _texts(message: dict[str, Any]) -> list[str]:
    content = message.get("content")
    if isinstance(content, str):
        return [content]
    if not isinstance(content, list):
        return []
    return [
        text
        for block in content
        if isinstance(block, dict) and block.get("type") == "text"
        if isinstance(text := block.get("text"), str)
    ]


def _decode(line: bytes) -> dict[str, Any]:
    try:
        said = json.loads(line)
    except (ValueError, RecursionError):
        return {}
    return said if isinstance(said, dict) else {}
