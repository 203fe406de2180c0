"""A request that was sent as the parts of a context: each block with what the transcript knows."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, Final

from msgspec.structs import replace

from ...core.conversation import Piece, PieceKind, Snapshot
from ...core.material import Part, part_of
from ..clean import clean_title
from .agent_returns import NOTIFICATION, brings_result, is_from_agent
from .attached import snapshot_of, strings_in
from .line_types import MACHINE_TEXT
from .pieces import MEDIA
from .sent import find_spoken, read_back

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from ...core.conversation import Entry
    from ...core.material import Thought
    from ...core.store.rows import PartRow

Json = dict[str, Any]

_BLANK: Final = re.compile(r"\s+")

_REMINDER_END: Final = "</system-reminder>"

_REMINDER: Final = "<system-reminder>"
"""How what the client adds by itself begins; it is also written into the result before it."""


def read_request(
    path: Path, keys: Sequence[int], places: Mapping[int, PartRow], before: int
) -> list[Json] | None:
    """Read a request's messages again; None where one of them stands there no more.

    Raises OSError where the file cannot be read.
    """
    spoken = find_spoken(path, set(keys) - places.keys(), before)
    messages: list[Json] = []
    for key in keys:
        place = places.get(key)
        if place is None and key in spoken:
            messages.append(spoken[key].message)
            continue
        kept = read_back(path, place.offset, place.length, key) if place else None
        message = kept.get("message") if kept else None
        if not isinstance(message, dict):
            return None
        messages.append(message)
    return messages


def read_shape(path: Path, place: PartRow | None) -> Snapshot | None:
    """Read a request's system prompt and tools again.

    Raises OSError where the file cannot be read.
    """
    kept = read_back(path, place.offset, place.length, place.part) if place else None
    shape = kept.get("shape") if kept else None
    if not isinstance(shape, dict):
        return None
    return snapshot_of({"systemPrompt": shape.get("system"), "tools": shape.get("tools")})


class Labels:
    """Knows by its text or its call what each block is, and on which line it stands."""

    def __init__(self, entries: Sequence[Entry], thoughts: dict[str | None, Thought]) -> None:
        self._parts: Final[dict[str, tuple[Part, ...]]] = {}
        self._thoughts: Final[list[Part]] = []
        for entry in entries:
            parts = tuple(part_of(piece, entry, thoughts) for piece in entry.parts)
            self._parts.setdefault(_key("".join(part.content.text for part in parts)), parts)
            for part in parts:
                piece = part.content
                if piece.kind is PieceKind.THINKING:
                    self._thoughts.append(part)
                elif piece.tool_use_id:
                    call = piece.kind is PieceKind.TOOL_INPUT
                    self._parts[_call_key(piece.tool_use_id, call=call)] = (part,)
                elif piece.text:
                    self._parts.setdefault(_key(piece.text), (part,))
        self._thoughts.reverse()

    def parts(self, message: Json) -> Iterator[Part]:
        """Take one message as it was sent apart."""
        content = message.get("content")
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
        for block in blocks if isinstance(blocks, (list, tuple)) else ():
            if isinstance(block, dict):
                yield from self._block(block, str(message.get("role")))

    def _block(self, block: Json, role: str) -> Iterator[Part]:
        if block.get("type") in {"thinking", "redacted_thinking"}:
            if self._thoughts:
                yield self._thoughts.pop()
        elif isinstance(block.get("id"), str) and "input" in block:
            yield self._call(block)
        elif isinstance(block.get("tool_use_id"), str):
            yield from self._result(block)
        elif block.get("type") in MEDIA:
            yield Part(Piece(PieceKind.PROMPT, media=1))
        elif isinstance(block.get("text"), str):
            yield from self._text(block["text"], role)

    def _call(self, block: Json) -> Part:
        known = self._parts.get(_call_key(block["id"], call=True))
        if known:
            return known[0]
        text = json.dumps(block["input"], ensure_ascii=False)
        name = clean_title(str(block.get("name") or ""))
        return Part(Piece(PieceKind.TOOL_INPUT, text, name, block["id"]))

    def _result(self, block: Json) -> Iterator[Part]:
        known = self._parts.get(_call_key(block["tool_use_id"], call=False))
        piece = known[0].content if known else Piece(PieceKind.TOOL_RESULT)
        line = known[0].line if known else None
        content = block.get("content")
        blocks = content if isinstance(content, list) else []
        text = "\n".join(strings_in(content))
        own, added = text, ""
        if text.startswith(piece.text) and text[len(piece.text) :].lstrip().startswith(_REMINDER):
            own, added = piece.text, text[len(piece.text) :]
        media = sum(isinstance(each, dict) and each.get("type") in MEDIA for each in blocks)
        yield Part(replace(piece, text=own, media=media), line)
        for each in added.split(_REMINDER)[1:]:
            yield from self._text(_REMINDER + each, "user")

    def _text(self, text: str, role: str) -> Iterator[Part]:
        known = self._parts.get(_key(text))
        if known:
            yield from known
        elif role == "assistant":
            yield Part(Piece(PieceKind.TEXT, text))
        elif NOTIFICATION in text:
            # It is sent with a word before it that no person said it (client 2.1.329).
            told = text[text.index(NOTIFICATION) :]
            kind = PieceKind.AGENT_RETURN if is_from_agent(told) else PieceKind.META
            yield Part(Piece(kind, text), self._line_of(told))
        elif brings_result(text):
            yield Part(Piece(PieceKind.AGENT_RETURN, text))
        elif text.startswith(_REMINDER):
            yield Part(Piece(PieceKind.ATTACHMENT, text))
        else:
            kind = PieceKind.META if MACHINE_TEXT.match(text) else PieceKind.PROMPT
            yield Part(Piece(kind, text))

    def _line_of(self, notification: str) -> int | None:
        known = self._parts.get(_key(notification.rstrip().removesuffix(_REMINDER_END)))
        return known[0].line if known else None


def _key(text: str) -> str:
    # Where two texts are joined the client adds or takes away a line's end.
    return _BLANK.sub("", text)


def _call_key(tool_use_id: str, *, call: bool) -> str:
    return f"{'call' if call else 'result'} of {tool_use_id}"
