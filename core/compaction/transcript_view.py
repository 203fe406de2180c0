"""A transcript opened for planning: its lines, and the blocks of it that the model sees."""

import hashlib
import json
import os
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import KW_ONLY, dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, BinaryIO, Final

import msgspec
from msgspec.structs import replace

from ..files.json_spans import JsonSpan, find_span
from ..files.safe_open import open_regular
from ..model.claude_models import LARGE_WINDOW, SMALL_WINDOW
from ..model.conversation import Entry, MessagePart, remembered_leaf
from ..summaries.mentions import NameIndex, decoded_text
from ..transcript.raw_lines import MAX_LINE_BYTES, complete_line_length
from .plan import DEFAULT_RESULT_CAPS, MAX_TRANSCRIPT_BYTES, Refusal, ResultCaps

HASH_CHUNK_CHARS: Final = 1 << 16  # encoded at once: a text of many MB is not held twice


def hash_text(text: str, hex_digits: int) -> str:
    """Return the first hex digits of a text's SHA-256 (UTF-8, lone surrogates as they are)."""
    digest = hashlib.sha256()
    for start in range(0, len(text), HASH_CHUNK_CHARS):
        digest.update(text[start : start + HASH_CHUNK_CHARS].encode("utf-8", "surrogatepass"))
    return digest.hexdigest()[:hex_digits]


def text_digest(text: str) -> str:
    """Return the hash that identifies equal texts."""
    return hash_text(text, 16)


INDEXED_CHARS: Final = 400  # what a Read asks for, a short command, the start of a result


def shorten_part(part: MessagePart, chars: int = INDEXED_CHARS) -> MessagePart:
    """Cut a part's text for holding it; equal parts stay equal, others different."""
    if len(part.text) <= chars:
        return part
    return replace(part, text=f"{part.text[:chars]}\n{text_digest(part.text)}")


class FileLine(msgspec.Struct, frozen=True):
    """One line of the file, whether it is part of the conversation or not."""

    number: int  # counted from 1
    offset: int
    content_bytes: int  # without the line end
    type: str = ""  # its own; empty if it could not be read
    has_result: bool = False  # it may hold a `toolUseResult`
    is_ended: bool = True  # false for a last line without a line end

    @property
    def total_bytes(self) -> int:
        """Bytes with the line end, if it has one."""
        return self.content_bytes + self.is_ended


class VisibleBlock(msgspec.Struct, frozen=True):
    index: int  # among all blocks that are sent, from 0
    entry: Entry
    part: MessagePart  # its text cut to INDEXED_CHARS; `edit_builder.read_text` reads all of it
    tokens_before: int  # tokens of the blocks before it
    tokens: int  # with the JSON around it, by `size_parts`
    chars: int
    digest: str  # of its whole text
    factor: float = 1.0  # what one token by the view's `count_tokens` takes in its line
    is_replaced: bool = False  # the client sends another text than the line holds
    protected_reason: str | None = None  # why it stays as it is; None if it may be changed
    anchor_score: float | None = None  # of a text that somebody marked (2.2.2); None for others

    @property
    def line(self) -> int:
        """The number of its line, from 1."""
        return self.entry.line

    @property
    def call_id(self) -> str | None:
        """The tool call that it is or answers."""
        return self.part.tool_use_id


class TranscriptScan(msgspec.Struct, frozen=True):
    """A file from end to end, as it was while it was read."""

    lines: tuple[FileLine, ...]  # all complete lines
    torn_line: FileLine | None  # an incomplete line at the end of the file, which nobody reads
    sha256: str
    size: int
    longest_line_bytes: int  # with its line end, also of a line that is too long for `lines`
    size_and_mtime: tuple[int, int]  # when the scan began

    @property
    def end_offset(self) -> int:
        """Byte behind the last complete line and its line end."""
        return self.lines[-1].offset + self.lines[-1].total_bytes if self.lines else 0


_TYPE: Final = re.compile(rb'\A\s*\{"type":\s*"([\w-]{1,60})"')


class OpenTranscript:
    def __init__(self, file: BinaryIO) -> None:
        self._file: Final = file

    def scan(self) -> TranscriptScan:
        """Read all lines once, keeping only the places of this moment's. Raises OSError."""
        before = self._state()
        left = before[0]
        digest = hashlib.sha256()
        lines: list[FileLine] = []
        torn: FileLine | None = None
        self._file.seek(0)
        offset = longest = line_bytes = 0
        while data := self._file.readline(min(MAX_LINE_BYTES, left)):
            left -= len(data)
            digest.update(data)
            line_bytes += len(data)
            longest = max(longest, line_bytes)
            if data.endswith(b"\n"):
                lines.append(_scan_line(len(lines) + 1, offset, data))
                line_bytes = 0
            elif line_bytes == len(data) < MAX_LINE_BYTES:
                # The last of the file: only there a line is cut off before its end.
                last = _scan_line(len(lines) + 1, offset, data)
                if complete_line_length(data):
                    lines.append(last)
                else:
                    torn = last
            offset += len(data)
        return TranscriptScan(tuple(lines), torn, digest.hexdigest(), offset, longest, before)

    def read_line(self, line: FileLine) -> bytes:
        """Read a line's bytes without the line end; raises OSError."""
        # Not through the buffer, which would be refilled for each line.
        return os.pread(self._file.fileno(), line.content_bytes, line.offset)

    def is_same_file(self, path: Path, scan: TranscriptScan) -> bool:
        """Return whether a path still names this file, uncut since the scan. Raises OSError."""
        own = os.fstat(self._file.fileno())
        return os.path.samestat(path.stat(follow_symlinks=False), own) and own.st_size >= scan.size

    def has_changed(self, scan: TranscriptScan) -> bool:
        return self._state() != scan.size_and_mtime

    def _state(self) -> tuple[int, int]:
        now = os.fstat(self._file.fileno())
        return now.st_size, now.st_mtime_ns


def _scan_line(number: int, offset: int, data: bytes) -> FileLine:
    type_ = _TYPE.match(data[:200])
    return FileLine(
        number=number,
        offset=offset,
        content_bytes=len(data.removesuffix(b"\n")),
        type=type_[1].decode() if type_ else "",
        has_result=b'"toolUseResult"' in data,
        is_ended=data.endswith(b"\n"),
    )


@contextmanager
def open_transcript(path: Path) -> Iterator[OpenTranscript]:
    """Open a transcript to plan for it; no link is followed. Raises OSError."""
    with open_regular(path, 1 << 20) as file:
        yield OpenTranscript(file)


LARGE_TRANSCRIPT_BYTES: Final = 50_000_000  # planning and applying take a second for every 10 MB
_MB: Final = 1_000_000


def large_transcript_note(size: int) -> str | None:
    """Return a one-line note for a large transcript, else None. `size` is in bytes."""
    if size <= LARGE_TRANSCRIPT_BYTES:
        return None
    return f"the transcript is {size / _MB:,.0f} MB: planning and applying take a while"


def check_transcript_size(size: int, max_bytes: int = MAX_TRANSCRIPT_BYTES) -> Refusal | None:
    if size <= max_bytes:
        return None
    return Refusal(
        "file-size",
        f"the transcript is {size / _MB:,.0f} MB, more than the limit of {max_bytes / _MB:,.0f} MB",
        "pass --force, with three times that size free on disk",
    )


def check_line_size(scan: TranscriptScan) -> Refusal | None:
    """Refuse a line that is longer than any that is read."""
    if scan.longest_line_bytes <= MAX_LINE_BYTES:
        return None
    return Refusal(
        "line-size",
        f"it has a line of {scan.longest_line_bytes / _MB:,.0f} MB, more than the limit of"
        f" {MAX_LINE_BYTES / _MB:,.0f} MB",
        "check the file: Claude Code does not write such lines",
    )


CACHED_LINES: Final = 8
CACHED_BYTES: Final = 1 << 20
"""Lines that are held while a strategy goes back and forth between them, and their bytes
together; of longer lines the last one is held besides."""


@dataclass(eq=False)
class TranscriptView:
    """A transcript as strategies see it, and which of its lines and blocks are changed already."""

    blocks: Sequence[VisibleBlock]
    lines: Sequence[FileLine]
    read_line: Callable[[FileLine], bytes]  # reads a line's bytes; raises OSError
    count_tokens: Callable[[MessagePart], int]  # estimates a part, with the JSON around it
    _: KW_ONLY
    model: str | None = None
    protected_lines: Mapping[int, str] = field(default_factory=dict)
    """Lines that no strategy touches, each with the reason."""
    entries: Sequence[Entry] = ()  # of the whole file, whether sent or not; their texts are cut
    overhead_tokens: int = 0
    """Of the system prompt and the tools, with what is measured and in no block."""
    bound_end: int = 0
    """Index behind the thinking before which nothing may change (`find_bound_end`)."""
    torn_line: FileLine | None = None  # an incomplete line at the end of the file
    window_tokens: int = 0
    """Of the session's model; if 0 is passed, of the smallest model that holds the context."""
    trigger_tokens: int | None = None  # where the client compacts by itself, if that is known
    result_caps: ResultCaps = DEFAULT_RESULT_CAPS

    def __post_init__(self) -> None:
        if not self.window_tokens:
            self.window_tokens = SMALL_WINDOW if self.tokens <= SMALL_WINDOW else LARGE_WINDOW
        calls = [each for each in self.blocks if each.call_id]
        self._calls = {each.call_id: each for each in calls if each.part.kind == "tool_input"}
        self._results = {each.call_id: each for each in calls if each.part.kind != "tool_input"}
        self.tokens_before_line = {each.line: each.tokens_before for each in reversed(self.blocks)}
        """Tokens of the conversation before a line's first block."""
        self.leaf_lines = find_leaf_lines(self.entries)
        self._copies = _lines_of_same_uuid(self.entries)
        self._block_counts = Counter(each.line for each in self.blocks)
        self._changed_lines: set[int] = set()
        self._changed_blocks: set[int] = set()
        self._line_cache: dict[int, tuple[bytes, Any]] = {}
        self._long_line: tuple[int, tuple[bytes, Any]] = (0, (b"", None))
        self._spans: dict[tuple[int, str], JsonSpan] = {}

    @cached_property
    def tokens(self) -> int:
        """What the next request has: what the newest answer saw, as measured, and what follows."""
        return self.overhead_tokens + sum(each.tokens for each in self.blocks)

    @cached_property
    def line_tokens(self) -> Mapping[int, int]:
        """Tokens of each line that is sent, by its offset."""
        sizes = Counter[int]()
        for block in self.blocks:
            sizes[block.entry.offset] += block.tokens
        return sizes

    @cached_property
    def name_index(self) -> NameIndex:
        """Counts which blocks hold a name; the texts are read for it, once."""
        return NameIndex(self._texts())

    def call_of(self, block: VisibleBlock) -> VisibleBlock | None:
        return self._calls.get(block.call_id)

    def result_of(self, block: VisibleBlock) -> VisibleBlock | None:
        return self._results.get(block.call_id)

    def copies_of(self, number: int) -> tuple[int, ...]:
        """Return the other lines with the same uuid: they are changed alike."""
        return self._copies.get(number, ())

    def is_held(self, number: int) -> bool:
        """Whether a line, or another one with its uuid, can neither be removed nor changed."""
        lines = (number, *self.copies_of(number))
        return any(line in self.protected_lines or line in self.leaf_lines for line in lines)

    def changeable_blocks(self) -> Iterator[VisibleBlock]:
        return (each for each in self.blocks if self.is_changeable(each))

    def is_changeable(self, block: VisibleBlock) -> bool:
        """Whether a block is unprotected, sent as its line holds it, and not changed yet."""
        return block.protected_reason is None and self.is_untouched(block)

    def is_untouched(self, block: VisibleBlock) -> bool:
        """Whether a block is sent as its line holds it, and not changed yet."""
        return not block.is_replaced and block.line not in self._changed_lines

    def is_changed(self, block: VisibleBlock) -> bool:
        """Whether an operation changes a block already; no second one may."""
        return block.index in self._changed_blocks

    def record_change(self, block: VisibleBlock, before: str, after: str) -> None:
        """Note that an operation changes a block, and its text before and after."""
        self._changed_blocks.add(block.index)
        self.name_index.replace_text(before, after)

    def mark_line_changed(self, number: int) -> None:
        """Note that an operation changes a line; if it holds one block, others pass it over."""
        if self._block_counts[number] == 1:
            self._changed_lines.add(number)

    def line(self, number: int) -> FileLine:
        """Return a line of the file, or the incomplete one at its end; raises IndexError."""
        if self.torn_line and number == self.torn_line.number:
            return self.torn_line
        return self.lines[number - 1]

    def line_bytes(self, number: int) -> bytes:
        """Read a complete line's bytes without the line end; raises OSError."""
        return self._load(number)[0]

    def line_sha256(self, number: int) -> str:
        """Hash a line's bytes without the line end, or the incomplete one's; raises OSError."""
        is_torn = self.torn_line is not None and self.torn_line.number == number
        data = self.read_line(self.line(number)) if is_torn else self.line_bytes(number)
        return hashlib.sha256(data).hexdigest()

    def decoded_line(self, number: int) -> Any:  # noqa: ANN401 -- any JSON
        """Decode a line; None if it is not JSON. It is not to be changed."""
        return self._load(number)[1]

    def value_span(self, number: int, pointer: str) -> JsonSpan:
        """Find the place of a value in a line; raises JsonPointerError."""
        data = self.line_bytes(number)
        span = self._spans.get((number, pointer))
        if span is None:
            span = self._spans[number, pointer] = find_span(data, pointer)
        return span

    def count_tokens_with_text(self, block: VisibleBlock, text: str) -> int:
        """Estimate what a block would take with another text and no image."""
        return round(block.factor * self.count_tokens(replace(block.part, text=text, media=0)))

    def _texts(self) -> Iterator[str]:
        counted: set[tuple[int, str | None]] = set()
        for block in self.blocks:
            if block.is_replaced:
                yield block.part.text
            elif (block.line, block.call_id) not in counted:
                counted.add((block.line, block.call_id))
                yield decoded_text(self.decoded_line(block.line), block.call_id)

    def _load(self, number: int) -> tuple[bytes, Any]:
        if number == self._long_line[0]:
            return self._long_line[1]
        cached = self._line_cache.get(number)
        if cached is not None:
            return cached
        line = self.lines[number - 1]
        if line.content_bytes > CACHED_BYTES:
            # Two of them at once would take twice the room.
            self._long_line = (0, (b"", None))
            self._long_line = (number, self._decode(line))
            return self._long_line[1]
        room = CACHED_BYTES - sum(len(data) for data, _ in self._line_cache.values())
        if len(self._line_cache) >= CACHED_LINES or line.content_bytes > room:
            self._line_cache.clear()
            self._spans.clear()
        cached = self._line_cache[number] = self._decode(line)
        return cached

    def _decode(self, line: FileLine) -> tuple[bytes, Any]:
        data = self.read_line(line)
        try:
            return data, msgspec.json.decode(data)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            pass
        # A lone surrogate is not JSON to the fast decoder.
        try:
            return data, json.loads(data)
        except (ValueError, RecursionError):
            return data, None


def find_leaf_lines(entries: Sequence[Entry]) -> set[int]:
    """Find the line that the client resumes from (`last-prompt`), with its copies."""
    leaf = remembered_leaf(entries)
    return {each.line for each in entries if leaf and each.uuid == leaf}


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
