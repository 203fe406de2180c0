"""Reading back what was sent: parts of requests, and messages as the conversation's lines."""

from __future__ import annotations

import hashlib
import io
import json
import re
from typing import TYPE_CHECKING, Any, Final

import msgspec

from ...core.keys import text_key
from ..regular import open_regular
from ..tail import LONGEST_LINE
from .requests import PART

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator
    from pathlib import Path


def read_back(path: Path, offset: int, length: int, key: int) -> dict[str, Any] | None:
    """Read a part's line again; None where another text stands there now.

    Raises OSError where the file cannot be read.
    """
    with open_regular(path) as file:
        file.seek(offset)
        data = file.read(min(length, LONGEST_LINE))
    found = PART.match(data)
    if not found or text_key(found[2].decode("utf-8", "replace")) != key:
        return None
    try:
        value = json.loads(data)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


class Spoken(msgspec.Struct, frozen=True):
    """A message of the conversation as it was sent, and the lines that it was put together of."""

    key: int
    offsets: tuple[int, ...]
    message: dict[str, Any]


def find_spoken(path: Path, wanted: Collection[int], before: int) -> dict[int, Spoken]:
    """Find messages that have no blob in the conversation's own lines before an offset.

    The user's lines that follow each other are one message, and so are the lines of one
    answer (seen in client 2.1.329, which remembers a message by the same hash).
    Raises OSError where the file cannot be read.
    """
    found: dict[int, Spoken] = {}
    run = _Run()
    for offset, line in _conversation(path, before):
        run = run.with_line(offset, line)
        if run.role:
            key = text_key(run.hash())
            if key in wanted:
                found[key] = Spoken(key, run.offsets, {"role": run.role, "content": run.content})
    return found


class _Run(msgspec.Struct, frozen=True):
    role: str = ""
    message_id: str | None = None
    offsets: tuple[int, ...] = ()
    content: tuple[Any, ...] = ()

    def with_line(self, offset: int, line: dict[str, Any]) -> _Run:
        message = line.get("message")
        if not isinstance(message, dict) or message.get("content") is None:
            return _Run()
        role, message_id, content = message.get("role"), message.get("id"), message["content"]
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
        if not isinstance(role, str) or not isinstance(blocks, list):
            return _Run()
        sent = tuple(_as_sent(block) for block in blocks)
        same = role == self.role and (
            role == "user" or (message_id is not None and message_id == self.message_id)
        )
        if same:
            return _Run(role, message_id, (*self.offsets, offset), (*self.content, *sent))
        return _Run(role, message_id, (offset,), sent)

    def hash(self) -> str:
        text = json.dumps(
            {"content": self.content, "role": self.role},
            ensure_ascii=False,
            separators=(",", ":"),
            sort_keys=True,
        )
        return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()


def _as_sent(block: Any) -> Any:  # noqa: ANN401 -- any JSON
    """Leave out what the client adds when it writes a block down, or moves from turn to turn."""
    if not isinstance(block, dict):
        return block
    return {name: value for name, value in block.items() if name not in {"cache_control", "caller"}}


_SPOKEN: Final = re.compile(rb'"type":"(?:user|assistant)"')


def _conversation(path: Path, before: int) -> Iterator[tuple[int, dict[str, Any]]]:
    with open_regular(path) as raw:
        file, offset = io.BufferedReader(raw), 0  # type: ignore[type-var]
        while offset < before and (data := file.readline(LONGEST_LINE)):
            if _SPOKEN.search(data) and not data.startswith(b'{"type":"api-request'):
                try:
                    line = json.loads(data)
                except (ValueError, RecursionError):
                    line = None
                if isinstance(line, dict) and line.get("type") in {"user", "assistant"}:
                    yield offset, line
            offset += len(data)
