"""What a hook reads of an agent's transcript: its skills, earlier blocks and last message.

The client is about to let the agent stop, so what cannot be read counts as unknown, and only lines
that can hold an answer are decoded. The client writes the transcript a moment later than it has
the text (2.1.329): a missing transcript is read as an empty one.
"""

from __future__ import annotations

import io
import json
import re
from contextlib import ExitStack, contextmanager

from ...core.files.safe_open import open_regular

TYPE_CHECKING = False

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path
    from typing import Any, BinaryIO, Final


HEAD_BYTES: Final = 4 * 1024 * 1024
"""Of a transcript's beginning: its task and the skills that it was given."""

TAIL_BYTES: Final = 4 * 1024 * 1024
"""Of its end: the last message, and the client's records after it."""

MAX_SEARCHED_BYTES: Final = 256 * 1024 * 1024
"""Bytes that are searched for a block; nobody knows of a larger one whether it had one."""

_CHUNK_BYTES: Final = 1024 * 1024
_FEEDBACK: Final = b"top hook feedback:"
_SKILL: Final = re.compile(r"<command-name>/?([^<]{1,200})</command-name>")


class TranscriptTooLargeError(Exception):
    """A transcript that does not tell what was asked; the message says why."""


def find_preloaded_skills(transcript: Path) -> list[str]:
    """Name the skills whose text the agent had before its first answer; raises OSError."""
    with _open_transcript(transcript) as file:
        head = file.read(HEAD_BYTES)
    found: list[str] = []
    for line in head.split(b"\n"):
        if b'"type":"assistant"' in line or b'"type": "assistant"' in line:
            return found
        if b"<command-name>" not in line:
            continue
        found += [skill[1] for text in _meta_texts(line) if (skill := _SKILL.search(text))]
    return found


def was_blocked_before(transcript: Path) -> bool:
    """Whether a hook has already blocked the agent from stopping.

    Raises OSError or TranscriptTooLargeError.
    """
    with _open_transcript(transcript) as file:
        return any(
            text.partition("hook feedback:")[0].endswith("top ") and "hook feedback:" in text
            for line in _lines_with(file, _FEEDBACK)
            for text in _meta_texts(line)
        )


def contains_text(transcript: Path, text: bytes) -> bool:
    """Whether any line contains `text`, as grep would; raises OSError, TranscriptTooLargeError."""
    with _open_transcript(transcript) as file:
        return bool(_lines_with(file, text))


def read_last_message(transcript: Path) -> str | None:
    """Return the text of the last assistant message that has any; raises OSError.

    None if the last `TAIL_BYTES` hold no such message.
    """
    with _open_transcript(transcript) as file:
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
def _open_transcript(transcript: Path) -> Iterator[BinaryIO]:
    with ExitStack() as stack:
        try:
            file = stack.enter_context(open_regular(transcript))
        except FileNotFoundError:
            file = io.BytesIO()
        yield file


def _lines_with(file: BinaryIO, mark: bytes) -> list[bytes]:
    if file.seek(0, 2) > MAX_SEARCHED_BYTES:
        raise TranscriptTooLargeError("the transcript is too large to be searched")
    file.seek(0)
    found: list[bytes] = []
    rest = b""
    while piece := file.read(_CHUNK_BYTES):
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
