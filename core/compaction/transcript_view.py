"""What a strategy reads: the blocks that the model sees, and the lines that hold them."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, Final, Protocol

import msgspec
from msgspec.structs import replace

from ..files.json_spans import JsonSpan, find_span
from ..measure.models import LARGE_WINDOW, SMALL_WINDOW
from ..summaries.name_index import NameIndex, decoded_text
from ..transcript.conversation import Entry, MessagePart, remembered_leaf

HASH_CHUNK_CHARS: Final = 1 << 16
"""Characters that are written as bytes at once: a text of many MB is not there twice."""


def hash_text(text: str, hex_digits: int) -> str:
    """Return the first hex digits of a text's SHA-256 (UTF-8, lone surrogates as they are)."""
    hashed = hashlib.sha256()
    for start in range(0, len(text), HASH_CHUNK_CHARS):
        hashed.update(text[start : start + HASH_CHUNK_CHARS].encode("utf-8", "surrogatepass"))
    return hashed.hexdigest()[:hex_digits]


INDEXED_CHARS: Final = 400
"""Of a text that is kept: what a Read asks for, a short command, the start of a result."""

CACHED_LINES: Final = 8
CACHED_BYTES: Final = 1 << 20
"""Lines that are held while a strategy goes back and forth between them, and their bytes
together; of longer ones the last is held besides."""

DIGEST_HEX_CHARS: Final = 16  # of a text's hash, by which equal texts are known


class FileLine(msgspec.Struct, frozen=True):
    """One line of the file, whether it is part of the conversation or not."""

    number: int  # counted from 1
    offset: int
    content_bytes: int  # bytes, without the line end
    type: str = ""  # as it says itself; empty where it could not be read
    has_result: bool = False  # it may hold a `toolUseResult`
    is_ended: bool = True  # false for a last line without a line end

    @property
    def total_bytes(self) -> int:
        """Bytes with the line end, where it has one."""
        return self.content_bytes + self.is_ended


class VisibleBlock(msgspec.Struct, frozen=True):
    """A piece of what the model sees, and its place."""

    index: int  # among all pieces that are sent, from 0
    entry: Entry
    part: MessagePart  # its text cut to INDEXED_CHARS; `edit_builder.read_text` reads all of it
    tokens_before: int  # tokens that stand before it
    tokens: int  # estimated, with what stands around it
    chars: int
    digest: str  # of its whole text

    is_replaced: bool = False  # the client sends another text than the line holds
    protected_reason: str | None = None  # why it stays as it is; None for what may be changed

    @property
    def line(self) -> int:
        """The line that holds it, from 1."""
        return self.entry.line

    @property
    def call_id(self) -> str | None:
        """The tool call that it is or answers."""
        return self.part.tool_use_id


class LineReader(Protocol):
    """Reads lines of the transcript again."""

    def read_line(self, line: FileLine) -> bytes:
        """Read a line's bytes without the line end; raises OSError."""
        ...


class TokenCounter(Protocol):
    """Counts tokens: `Estimator.for_model(model)`."""

    def tokens(self, part: MessagePart) -> int:
        """Estimate the tokens of one piece, and of what stands around it."""
        ...


class TranscriptView:
    """A transcript as strategies see it, and which of its lines and blocks are changed already."""

    def __init__(
        self,
        blocks: Sequence[VisibleBlock],
        lines: Sequence[FileLine],
        source: LineReader,
        counter: TokenCounter,
        *,
        model: str | None = None,
        protected_lines: Mapping[int, str] | None = None,
        entries: Sequence[Entry] = (),
        overhead_tokens: int = 0,
        torn_line: FileLine | None = None,
        window_tokens: int | None = None,
    ) -> None:
        self.blocks: Final = tuple(blocks)
        self.lines: Final = tuple(lines)
        self.model: Final = model
        self.protected_lines: Final = protected_lines or {}
        """Lines that no strategy touches, each with the reason."""
        self.overhead_tokens: Final = overhead_tokens
        """Tokens of the system prompt and the tools."""
        self.torn_line: Final = torn_line
        """Half a line at the end of the file."""
        common = SMALL_WINDOW if self.tokens <= SMALL_WINDOW else LARGE_WINDOW
        self.window_tokens: Final = window_tokens or common
        """Of the session's model; where it is not known, of the smallest that holds the context."""
        self._source: Final = source
        self._counter: Final = counter
        self.entries: Final = tuple(entries)
        """All of the file's, whether they are sent or not; their texts are cut."""
        self.leaf_lines: Final = _leaf_lines(self.entries)
        """The line that the client goes on from (`last-prompt`)."""
        self._copies: Final = _lines_of_same_uuid(self.entries)
        self._calls: Final = {
            each.call_id: each
            for each in self.blocks
            if each.call_id and each.part.kind == "tool_input"
        }
        self._results: Final = {
            each.call_id: each
            for each in self.blocks
            if each.call_id and each.part.kind != "tool_input"
        }
        self.tokens_before_line: Final = {
            each.line: each.tokens_before for each in reversed(self.blocks)
        }
        """Tokens of the conversation that stand before a line's first piece."""
        counted = Counter(each.line for each in self.blocks)
        self._single_block_lines: Final = {
            number for number, pieces in counted.items() if pieces == 1
        }
        self._lines_changed: Final[set[int]] = set()
        self._blocks_changed: Final[set[int]] = set()
        self._line_cache: Final[dict[int, tuple[bytes, Any]]] = {}
        self._long_line_number, self._long_line_content = 0, (b"", None)
        self._spans: Final[dict[tuple[int, str], JsonSpan]] = {}

    def with_blocks(self, blocks: Sequence[VisibleBlock]) -> TranscriptView:
        """Return a fresh view of the same transcript, without changes."""
        return TranscriptView(
            blocks,
            self.lines,
            self._source,
            self._counter,
            model=self.model,
            protected_lines=self.protected_lines,
            entries=self.entries,
            overhead_tokens=self.overhead_tokens,
            torn_line=self.torn_line,
            window_tokens=self.window_tokens,
        )

    @property
    def tokens(self) -> int:
        """What the conversation and what stands before it takes now, estimated."""
        return self.overhead_tokens + sum(each.tokens for each in self.blocks)

    @cached_property
    def name_index(self) -> NameIndex:
        """Count which pieces hold a name; the texts are read for it, once."""
        return NameIndex(self._texts())

    def call_of(self, block: VisibleBlock) -> VisibleBlock | None:
        return self._calls.get(block.call_id or "")

    def result_of(self, block: VisibleBlock) -> VisibleBlock | None:
        return self._results.get(block.call_id or "")

    def copies_of(self, number: int) -> tuple[int, ...]:
        """Return the other lines with the same uuid: they are stubbed alike."""
        return self._copies.get(number, ())

    def changeable_blocks(self) -> Iterator[VisibleBlock]:
        """Yield the blocks that are unprotected and sent exactly as their line holds them."""
        return (each for each in self.blocks if self.is_changeable(each))

    def is_changeable(self, block: VisibleBlock) -> bool:
        """Whether a block may be changed and its line has no operation yet."""
        free = block.protected_reason is None and not block.is_replaced
        return free and block.line not in self._lines_changed

    def is_changed(self, block: VisibleBlock) -> bool:
        """Whether an operation changes a block already; no second one may."""
        return block.index in self._blocks_changed

    def record_change(self, block: VisibleBlock, before: str, after: str) -> None:
        """Note that an operation changes a block, and its text before and after."""
        self._blocks_changed.add(block.index)
        self.name_index.replace_text(before, after)

    def mark_line_changed(self, number: int) -> None:
        """Note that an operation changes a line; if it holds one block, others pass it over."""
        if number in self._single_block_lines:
            self._lines_changed.add(number)

    def line(self, number: int) -> FileLine:
        """Return a line of the file, or the half one at its end; raises IndexError."""
        if self.torn_line and number == self.torn_line.number:
            return self.torn_line
        return self.lines[number - 1]

    def line_bytes(self, number: int) -> bytes:
        """Read a line's bytes without the line end; raises OSError."""
        return self._load(number)[0]

    def line_sha256(self, number: int) -> str:
        """Hash a line's bytes without the line end, or the half one's; raises OSError."""
        torn = self.torn_line
        is_torn = torn is not None and torn.number == number
        data = self._source.read_line(self.line(number)) if is_torn else self.line_bytes(number)
        return hashlib.sha256(data).hexdigest()

    def decoded_line(self, number: int) -> Any:  # noqa: ANN401 -- any JSON
        """Decode a line; None for what is no JSON. It is not to be changed."""
        return self._load(number)[1]

    def value_span(self, number: int, pointer: str) -> JsonSpan:
        """Find where a value stands in a line; raises JsonPointerError."""
        data = self.line_bytes(number)
        found = self._spans.get((number, pointer))
        if found is None:
            found = self._spans[number, pointer] = find_span(data, pointer)
        return found

    def count_tokens(self, part: MessagePart) -> int:
        """Estimate the tokens of a piece, with what stands around it."""
        return self._counter.tokens(part)

    def count_tokens_with_text(self, block: VisibleBlock, text: str) -> int:
        """Estimate what a block would take with another text and no picture."""
        return self.count_tokens(replace(block.part, text=text, media=0))

    def _texts(self) -> Iterator[str]:
        counted: set[tuple[int, str | None]] = set()
        for slot in self.blocks:
            if slot.is_replaced:
                yield slot.part.text
            elif (slot.line, slot.call_id) not in counted:
                counted.add((slot.line, slot.call_id))
                yield decoded_text(self.decoded_line(slot.line), slot.call_id)

    def _load(self, number: int) -> tuple[bytes, Any]:
        if number == self._long_line_number:
            return self._long_line_content
        held = self._line_cache.get(number)
        if held is not None:
            return held
        line = self.lines[number - 1]
        if line.content_bytes > CACHED_BYTES:
            # Two of them at once would take twice the room.
            self._long_line_number, self._long_line_content = 0, (b"", None)
            self._long_line_content = self._decode(line)
            self._long_line_number = number
            return self._long_line_content
        room = CACHED_BYTES - sum(len(data) for data, _ in self._line_cache.values())
        if len(self._line_cache) >= CACHED_LINES or line.content_bytes > room:
            self._line_cache.clear()
            self._spans.clear()
        held = self._line_cache[number] = self._decode(line)
        return held

    def _decode(self, line: FileLine) -> tuple[bytes, Any]:
        data = self._source.read_line(line)
        return data, _decode_json(data)


def _lines_of_same_uuid(entries: Sequence[Entry]) -> dict[int, tuple[int, ...]]:
    lines: dict[str, list[int]] = {}
    for entry in entries:
        if entry.uuid:
            lines.setdefault(entry.uuid, []).append(entry.line)
    return {
        number: tuple(each for each in numbers if each != number)
        for numbers in lines.values()
        if len(numbers) > 1
        for number in numbers
    }


def _leaf_lines(entries: Sequence[Entry]) -> frozenset[int]:
    leaf = remembered_leaf(entries)
    return frozenset(each.line for each in entries if leaf and each.uuid == leaf)


def shorten_part(part: MessagePart, chars: int = INDEXED_CHARS) -> MessagePart:
    """Cut a piece's text to what an index may hold; equal pieces stay equal, others different."""
    if len(part.text) <= chars:
        return part
    return replace(part, text=f"{part.text[:chars]}\n{text_digest(part.text)}")


def text_digest(text: str) -> str:
    """Return the hash that identifies equal texts."""
    return hash_text(text, DIGEST_HEX_CHARS)


def _decode_json(data: bytes) -> Any:  # noqa: ANN401 -- any JSON
    try:
        return msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        # Half a sign is no JSON to the fast decoder.
        try:
            return json.loads(data)
        except (ValueError, RecursionError):
            return None
