"""What a context is made of, before anything of it is counted."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Protocol

import msgspec

from .conversation import Piece  # noqa: TC001 -- msgspec reads it

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from .conversation import Entry


class Source(StrEnum):
    """Where it is known from what the model was sent."""

    REQUESTS = "requests"
    """The client wrote down what it sent: each text is the one that was sent."""
    PROJECTION = "projection"
    """Put together from the transcript, as the client would on a resume."""


class Counter(Protocol):
    """Who counts the tokens of a piece."""

    def tokens(self, part: Piece) -> int:
        """Estimate the tokens of one piece, and of what stands around it."""
        ...


class CountedOnce:
    """Counts no piece twice."""

    def __init__(self, counter: Counter) -> None:
        self._counter = counter
        self._known: dict[Piece, int] = {}

    def tokens(self, part: Piece) -> int:
        """Give what was counted, or count."""
        found = self._known.get(part)
        if found is None:
            found = self._known[part] = self._counter.tokens(part)
        return found


class Part(msgspec.Struct, frozen=True):
    """A piece of the context and where it stands in the transcript."""

    content: Piece
    line: int | None = None
    """Counted from 1; None for what no line of the conversation holds."""
    tokens: int | None = None
    """Where they are known without counting the text: of a thought, whose text is not kept."""
    measured: bool = False
    """The API itself told these tokens."""


class Material(msgspec.Struct, frozen=True):
    """A context: what stands before the conversation, and the conversation's pieces."""

    parts: tuple[Part, ...]
    later: tuple[Part, ...] = ()
    """What came after the request that was measured."""
    system: tuple[str, ...] = ()
    tools: tuple[tuple[str, str], ...] = ()
    """Name, and the whole schema as JSON."""
    overhead_tokens: int | None = None
    """System prompt and tools together, where only their size is known."""
    measured_tokens: int | None = None
    """What the API said of the request; None where nothing was measured since a boundary."""
    estimated_tokens: int | None = None
    """What is in context by an estimate, where that is known otherwise than by its parts."""
    source: Source = Source.PROJECTION


def parts_of(entries: Iterable[Entry], thinking: dict[str | None, Thought]) -> list[Part]:
    """Take the entries of a conversation apart; thoughts are those of `read_thoughts`."""
    return [part_of(piece, entry, thinking) for entry in entries for piece in entry.parts]


def part_of(part: Piece, entry: Entry, thinking: dict[str | None, Thought]) -> Part:
    """Make the part that a piece of an entry is."""
    thought = thinking.get(entry.message_id) if is_thought(part) else None
    if thought is None:
        return Part(part, entry.line)
    return Part(part, entry.line, thought.tokens, thought.measured)


class Thought(msgspec.Struct, frozen=True):
    """What each piece of thinking of one answer takes in the context."""

    tokens: int
    measured: bool


def read_thoughts(entries: Sequence[Entry], counter: Counter) -> dict[str | None, Thought]:
    """Tell the tokens of thinking by answer: what the API told, else what its text does not say.

    The texts of thoughts are not written down any more: what is left of the answer's output
    after its words and calls is what was thought (claude-code-formats 2.4, 2.5).
    """
    answers: dict[str, list[Entry]] = {}
    for entry in entries:
        if entry.message_id is not None and entry.output_tokens is not None:
            answers.setdefault(entry.message_id, []).append(entry)
    found: dict[str | None, Thought] = {}
    for message_id, lines in answers.items():
        pieces = [piece for line in lines for piece in line.parts]
        thinking = [piece for piece in pieces if is_thought(piece)]
        if not thinking:
            continue
        told = next((each.thinking_tokens for each in lines if each.thinking_tokens), None)
        if told is None and any(piece.text for piece in thinking):
            continue
        said = sum(counter.tokens(piece) for piece in pieces if not is_thought(piece))
        left = (max(each.output_tokens or 0 for each in lines) - said) if told is None else told
        found[message_id] = Thought(max(0, left) // len(thinking), told is not None)
    return found


def is_thought(part: Piece) -> bool:
    """Say whether a piece is thinking."""
    return part.kind == "thinking"
