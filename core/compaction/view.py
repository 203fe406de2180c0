"""What a strategy looks at: the pieces that the model sees, and the lines that hold them.

No text of the conversation is kept here but its first characters: a line is read again from
its file when its words are needed, so that a transcript of any size fits.
"""

from __future__ import annotations

import json
from collections import Counter
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, Protocol

import msgspec
from msgspec.structs import replace

from ..conversation import Entry, Piece  # noqa: TC001 -- msgspec reads them
from .holders import Holders, spoken
from .pointer import Span, find_value
from .text_hash import text_hash

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

KEPT_CHARS: Final = 400
"""Of a text that is kept: what a Read asks for, a short command, the start of a result."""

HELD_LINES: Final = 8
HELD_BYTES: Final = 1 << 20
"""Lines that are held while a strategy goes back and forth between them, and their bytes
together; of longer ones the last is held besides."""

DIGEST_HEX: Final = 16
"""Of a text's hash, by which equal texts are known."""


class Line(msgspec.Struct, frozen=True):
    """One line of the file, whether it is part of the conversation or not."""

    number: int
    """Counted from 1."""
    offset: int
    length: int
    """Bytes, without the line end."""
    type: str = ""
    """As it says itself; empty where it could not be read."""
    has_result: bool = False
    """It may hold a `toolUseResult`."""
    is_ended: bool = True
    """False for a last line without a line end."""

    @property
    def size(self) -> int:
        """Bytes with the line end, where it has one."""
        return self.length + self.is_ended


class Slot(msgspec.Struct, frozen=True):
    """A piece of what the model sees, and its place."""

    place: int
    """Among all pieces that are sent, from 0."""
    entry: Entry
    piece: Piece
    """Its text cut to KEPT_CHARS; `View.text` reads all of it."""
    position: int
    """Tokens that stand before it."""
    tokens: int
    """Estimated, with what stands around it."""
    chars: int
    digest: str
    """Of its whole text."""

    replaced: bool = False
    """The client sends another text than the line holds."""
    protected: str | None = None
    """Why it stays as it is; None for what may be changed."""

    @property
    def line(self) -> int:
        """The line that holds it, from 1."""
        return self.entry.line

    @property
    def call(self) -> str | None:
        """The tool call that it is or answers."""
        return self.piece.tool_use_id


class LineSource(Protocol):
    """Who reads lines of the transcript again."""

    def read(self, line: Line) -> bytes:
        """Give a line's bytes without the line end; raises OSError."""
        ...


class PieceCounter(Protocol):
    """Who counts tokens: `Estimator.of(model)`."""

    def tokens(self, piece: Piece) -> int:
        """Estimate the tokens of one piece, and of what stands around it."""
        ...


class View:
    """A transcript as strategies see it; nothing of it changes while it is looked at."""

    def __init__(
        self,
        slots: Sequence[Slot],
        lines: Sequence[Line],
        source: LineSource,
        counter: PieceCounter,
        *,
        model: str | None = None,
        kept: Mapping[int, str] | None = None,
        entries: Sequence[Entry] = (),
        overhead: int = 0,
        torn: Line | None = None,
    ) -> None:
        self.slots: Final = tuple(slots)
        self.lines: Final = tuple(lines)
        self.model: Final = model
        self.kept: Final = kept or {}
        """Lines that no strategy touches, each with the reason."""
        self.overhead: Final = overhead
        """Tokens of the system prompt and the tools."""
        self.torn: Final = torn
        """Half a line at the end of the file."""
        self._source: Final = source
        self._counter: Final = counter
        self.entries: Final = tuple(entries)
        """All of the file's, whether they are sent or not; their texts are cut."""
        self.remembered: Final = _remembered(self.entries)
        """The line that the client goes on from (`last-prompt`)."""
        self._copies: Final = _copies(self.entries)
        self._calls: Final = {
            each.call: each for each in self.slots if each.call and each.piece.kind == "tool_input"
        }
        self._results: Final = {
            each.call: each for each in self.slots if each.call and each.piece.kind != "tool_input"
        }
        self.positions: Final = {each.line: each.position for each in reversed(self.slots)}
        """Tokens of the conversation that stand before a line's first piece."""
        counted = Counter(each.line for each in self.slots)
        self._alone: Final = {number for number, pieces in counted.items() if pieces == 1}
        self._settled: Final[set[int]] = set()
        self._changed: Final[set[int]] = set()
        self._held: Final[dict[int, tuple[bytes, Any]]] = {}
        self._long_line, self._long = 0, (b"", None)
        self._spans: Final[dict[tuple[int, str], Span]] = {}

    def with_slots(self, slots: Sequence[Slot]) -> View:
        """Return a fresh view of the same transcript, without changes."""
        return View(
            slots,
            self.lines,
            self._source,
            self._counter,
            model=self.model,
            kept=self.kept,
            entries=self.entries,
            overhead=self.overhead,
            torn=self.torn,
        )

    @property
    def tokens(self) -> int:
        """What the conversation and what stands before it takes now, estimated."""
        return self.overhead + sum(each.tokens for each in self.slots)

    @cached_property
    def holders(self) -> Holders:
        """Count which pieces hold a name; the texts are read for it, once."""
        return Holders(self._texts())

    def call_of(self, slot: Slot) -> Slot | None:
        """Give the call that a result answers."""
        return self._calls.get(slot.call or "")

    def result_of(self, slot: Slot) -> Slot | None:
        """Give the result of a call."""
        return self._results.get(slot.call or "")

    def copies_of(self, number: int) -> tuple[int, ...]:
        """Name the other lines that carry a line's uuid: they are stubbed like it."""
        return self._copies.get(number, ())

    def open(self) -> Iterator[Slot]:
        """Give what may be changed: not protected, and sent as its line holds it."""
        return (each for each in self.slots if self.is_open(each))

    def is_open(self, slot: Slot) -> bool:
        """Say whether a slot may be changed, and none of the operations so far does."""
        free = slot.protected is None and not slot.replaced
        return free and slot.line not in self._settled

    def is_changed(self, slot: Slot) -> bool:
        """Say whether an operation was found that changes a slot: no other one can."""
        return slot.place in self._changed

    def change(self, slot: Slot, before: str, after: str) -> None:
        """Learn that an operation changes a slot, and what it says then."""
        self._changed.add(slot.place)
        self.holders.replace(before, after)

    def settle(self, number: int) -> None:
        """Learn that an operation changes a line: if it holds one piece, others pass it over."""
        if number in self._alone:
            self._settled.add(number)

    def line(self, number: int) -> Line:
        """Return a line of the file, or the half one at its end; raises IndexError."""
        if self.torn and number == self.torn.number:
            return self.torn
        return self.lines[number - 1]

    def raw(self, number: int) -> bytes:
        """Read a line's bytes without the line end; raises OSError."""
        return self._load(number)[0]

    def raw_torn(self) -> bytes:
        """Read half a line at the end of the file; empty where there is none. Raises OSError."""
        return self._source.read(self.torn) if self.torn else b""

    def value(self, number: int) -> Any:  # noqa: ANN401 -- any JSON
        """Decode a line; None for what is no JSON. It is not to be changed."""
        return self._load(number)[1]

    def span(self, number: int, pointer: str) -> Span:
        """Find where a value stands in a line; raises PointerError."""
        data = self.raw(number)
        found = self._spans.get((number, pointer))
        if found is None:
            found = self._spans[number, pointer] = find_value(data, pointer)
        return found

    def count(self, piece: Piece) -> int:
        """Estimate the tokens of a piece, with what stands around it."""
        return self._counter.tokens(piece)

    def count_as(self, slot: Slot, text: str) -> int:
        """Estimate what a slot would take with another text and no picture."""
        return self.count(replace(slot.piece, text=text, media=0))

    def _texts(self) -> Iterator[str]:
        counted: set[tuple[int, str | None]] = set()
        for slot in self.slots:
            if slot.replaced:
                yield slot.piece.text
            elif (slot.line, slot.call) not in counted:
                counted.add((slot.line, slot.call))
                yield spoken(self.value(slot.line), slot.call)

    def _load(self, number: int) -> tuple[bytes, Any]:
        if number == self._long_line:
            return self._long
        held = self._held.get(number)
        if held is not None:
            return held
        line = self.lines[number - 1]
        if line.length > HELD_BYTES:
            # Two of them at once would take twice the room.
            self._long_line, self._long = 0, (b"", None)
            self._long = self._decode(line)
            self._long_line = number
            return self._long
        room = HELD_BYTES - sum(len(data) for data, _ in self._held.values())
        if len(self._held) >= HELD_LINES or line.length > room:
            self._held.clear()
            self._spans.clear()
        held = self._held[number] = self._decode(line)
        return held

    def _decode(self, line: Line) -> tuple[bytes, Any]:
        data = self._source.read(line)
        return data, _decoded(data)


def _copies(entries: Sequence[Entry]) -> dict[int, tuple[int, ...]]:
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


def _remembered(entries: Sequence[Entry]) -> frozenset[int]:
    leaf = next((each.leaf for each in reversed(entries) if each.leaf), None)
    return frozenset(each.line for each in entries if leaf and each.uuid == leaf)


def slim(piece: Piece, chars: int = KEPT_CHARS) -> Piece:
    """Cut a piece's text to what an index may hold; equal pieces stay equal, others different."""
    if len(piece.text) <= chars:
        return piece
    return replace(piece, text=f"{piece.text[:chars]}\n{digest(piece.text)}")


def digest(text: str) -> str:
    """Give the hash by which equal texts are known."""
    return text_hash(text, DIGEST_HEX)


def _decoded(data: bytes) -> Any:  # noqa: ANN401 -- any JSON
    try:
        return msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        # Half a sign is no JSON to the fast decoder.
        try:
            return json.loads(data)
        except (ValueError, RecursionError):
            return None
