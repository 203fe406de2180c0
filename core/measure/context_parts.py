"""What a context is made of, before it is counted, and which parts something later superseded."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from enum import StrEnum
from typing import Final, Protocol

import msgspec

from ..transcript.conversation import RESULT_KINDS, Entry, MessagePart, PartKind
from ..transcript.line_types import EDIT_TOOLS


class CompositionSource(StrEnum):
    """Where it is known from what the model was sent."""

    REQUESTS = "requests"  # the client wrote down what it sent: each text is the one that was sent
    PROJECTION = "projection"  # put together from the transcript, as the client would on a resume


class PartCounter(Protocol):
    """Who counts the tokens of a piece."""

    def tokens(self, part: MessagePart) -> int:
        """Estimate the tokens of one piece, and of what stands around it."""
        ...


class CachedPartCounter:
    """Counts no piece twice."""

    def __init__(self, counter: PartCounter) -> None:
        self._counter = counter
        self._known: dict[MessagePart, int] = {}

    def tokens(self, part: MessagePart) -> int:
        found = self._known.get(part)
        if found is None:
            found = self._known[part] = self._counter.tokens(part)
        return found


class ContextPart(msgspec.Struct, frozen=True):
    """A piece of the context and where it stands in the transcript."""

    content: MessagePart
    line: int | None = None  # counted from 1; None for what no line of the conversation holds
    tokens: int | None = None
    """Where they are known without counting the text: of a thought, whose text is not kept."""
    measured: bool = False  # the API itself told these tokens


class ContextContent(msgspec.Struct, frozen=True):
    """A context: what stands before the conversation, and the conversation's pieces."""

    parts: tuple[ContextPart, ...]
    later: tuple[ContextPart, ...] = ()  # what came after the request that was measured
    system: tuple[str, ...] = ()
    tools: tuple[tuple[str, str], ...] = ()  # name, and the whole schema as JSON
    overhead_tokens: int | None = None
    """System prompt and tools together, where only their size is known."""
    measured_tokens: int | None = None
    """What the API said of the request; None where nothing was measured since a boundary."""
    estimated_tokens: int | None = None
    """What is in context by an estimate, where that is known otherwise than by its parts."""
    source: CompositionSource = CompositionSource.PROJECTION


def context_parts(
    entries: Iterable[Entry], thinking: dict[str | None, ThinkingTokens]
) -> list[ContextPart]:
    """Split a conversation's entries into parts; `thinking` comes from `measure_thinking`."""
    return [context_part(piece, entry, thinking) for entry in entries for piece in entry.parts]


def context_part(
    part: MessagePart, entry: Entry, thinking: dict[str | None, ThinkingTokens]
) -> ContextPart:
    """Make the part that a piece of an entry is."""
    thought = thinking.get(entry.message_id) if is_thinking(part) else None
    if thought is None:
        return ContextPart(part, entry.line)
    return ContextPart(part, entry.line, thought.tokens, thought.measured)


class ThinkingTokens(msgspec.Struct, frozen=True):
    """What each piece of thinking of one answer takes in the context."""

    tokens: int
    measured: bool


def measure_thinking(
    entries: Sequence[Entry], counter: PartCounter
) -> dict[str | None, ThinkingTokens]:
    """Measure by message id what each thinking part of an answer takes.

    The API's count is used if there is one. Else, as clients no longer write the text of
    thinking, it is what is left of the answer's output after its text and calls
    (claude-code-formats 2.4, 2.5).
    """
    answers: dict[str, list[Entry]] = {}
    for entry in entries:
        if entry.message_id is not None and entry.output_tokens is not None:
            answers.setdefault(entry.message_id, []).append(entry)
    found: dict[str | None, ThinkingTokens] = {}
    for message_id, lines in answers.items():
        pieces = [piece for line in lines for piece in line.parts]
        thinking = [piece for piece in pieces if is_thinking(piece)]
        if not thinking:
            continue
        told = next((each.thinking_tokens for each in lines if each.thinking_tokens), None)
        if told is None and any(piece.text for piece in thinking):
            continue
        said = sum(counter.tokens(piece) for piece in pieces if not is_thinking(piece))
        left = (max(each.output_tokens or 0 for each in lines) - said) if told is None else told
        found[message_id] = ThinkingTokens(max(0, left) // len(thinking), told is not None)
    return found


def is_thinking(part: MessagePart) -> bool:
    return part.kind == "thinking"


MIN_REPEATED_CHARS: Final = 200
"""A shorter text that stands there twice is chance (compaction.md 1.4)."""

_READ: Final = "Read"
_WRITE: Final = "Write"
_REPEATED_KINDS: Final = RESULT_KINDS | {PartKind.ATTACHMENT}


class ReadRange(msgspec.Struct):
    """What of a file a Read asks for; lines from 1, without a limit to the file's end."""

    offset: float | None = None
    limit: float | None = None

    def covers(self, other: ReadRange) -> bool:
        return self._start <= other._start and self._end >= other._end

    @property
    def _start(self) -> float:
        return self.offset or 1

    @property
    def _end(self) -> float:
        return math.inf if self.limit is None else self._start + self.limit


class _FileAccess(msgspec.Struct, frozen=True):
    """A call that touched a file, and succeeded."""

    place: int
    tool: str
    line: int | None
    range: ReadRange


def find_superseded(parts: Sequence[ContextPart]) -> dict[int, str]:
    """Map the index of each superseded part to what superseded it, and at which line.

    A Read is superseded by a Read of the same lines or more, and by any change of its file; a
    Write by the next one; a result by a later result of the same call, or by the same text.
    """
    calls: dict[str | None, int] = {
        part.content.tool_use_id: place
        for place, part in enumerate(parts)
        if part.content.kind is PartKind.TOOL_INPUT and part.content.tool_use_id
    }
    return _repeated_texts(parts) | _repeated_calls(parts, calls) | _superseded_files(parts, calls)


def _superseded_files(parts: Sequence[ContextPart], calls: dict[str | None, int]) -> dict[int, str]:
    touched: dict[str, list[_FileAccess]] = {}
    for place, part in enumerate(parts):
        piece = part.content
        if piece.kind not in RESULT_KINDS or piece.failed or piece.path is None:
            continue
        call = calls.get(piece.tool_use_id)
        if call is not None:
            asked = parse_read_range(parts[call].content.text)
            touched.setdefault(piece.path, []).append(
                _FileAccess(place, piece.name, part.line, asked)
            )
    found: dict[int, str] = {}
    for touches in touched.values():
        for number, touch in enumerate(touches):
            reasons = (_why_superseded(later, touch) for later in touches[number + 1 :])
            why = next(filter(None, reasons), None)
            if why and touch.tool == _READ:
                found[touch.place] = why
            elif why and touch.tool == _WRITE:
                found[calls[parts[touch.place].content.tool_use_id]] = why
    return found


def _why_superseded(later: _FileAccess, touch: _FileAccess) -> str | None:
    if later.tool == _WRITE:
        return f"overwritten at line {later.line}"
    if touch.tool != _READ:
        return None
    if later.tool in EDIT_TOOLS:
        return f"edited at line {later.line}"
    if later.tool == _READ and later.range.covers(touch.range):
        return f"read again at line {later.line}"
    return None


def parse_read_range(text: str) -> ReadRange:
    """Read from the input of a Read what of its file it asks for."""
    try:
        return msgspec.json.decode(text, type=ReadRange)
    except (msgspec.DecodeError, UnicodeEncodeError):
        return ReadRange()


def _repeated_calls(parts: Sequence[ContextPart], calls: dict[str | None, int]) -> dict[int, str]:
    found: dict[int, str] = {}
    last: dict[tuple[str, str], ContextPart] = {}
    for place in range(len(parts) - 1, -1, -1):
        part = parts[place]
        call = calls.get(part.content.tool_use_id)
        if part.content.kind not in RESULT_KINDS or call is None:
            continue
        asked = (part.content.name, parts[call].content.text)
        if asked in last:
            found[place] = f"same call again at line {last[asked].line}"
        elif not part.content.failed:
            last[asked] = part
    return found


def _repeated_texts(parts: Sequence[ContextPart]) -> dict[int, str]:
    found: dict[int, str] = {}
    last: dict[str, ContextPart] = {}
    for place in range(len(parts) - 1, -1, -1):
        piece = parts[place].content
        if piece.kind not in _REPEATED_KINDS or len(piece.text) < MIN_REPEATED_CHARS:
            continue
        if piece.text in last:
            found[place] = f"same text again at line {last[piece.text].line}"
        else:
            last[piece.text] = parts[place]
    return found
