"""What began in a conversation and has not ended: its open tool calls, and whose turn it is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec

from ...core.store.facts import CallFact, Turn
from ..clean import clean_title
from ..times import to_ms
from .glance import BlockGlance
from .lines import NotJsonError, ShapeError, decode_blocks, decode_line

if TYPE_CHECKING:
    from msgspec import Raw, UnsetType

    from .glance import MessageGlance

TELLING: Final = (
    "command",
    "file_path",
    "notebook_path",
    "pattern",
    "url",
    "query",
    "description",
    "skill",
    "subject",
    "path",
    "prompt",
)
"""Fields of a tool's input that tell its call from others, the most telling first
(inputs of 2.1.329's own tools)."""

INTERRUPTED: Final = "[Request interrupted"
"""How the line begins that the client writes when a person stops it."""

_input: Final = msgspec.json.Decoder(dict[str, Any])


class InFlight:
    """The open calls of one run of lines, those of earlier runs that it ends, and the turn.

    A call that is written again stands where it was first, unless it had ended.
    """

    def __init__(self) -> None:
        self._open: dict[str, tuple[int, memoryview]] = {}
        self._ended: dict[str, None] = {}
        self._turn: tuple[Turn, int, str | None] | None = None
        self._is_first = False

    def mark_file_start(self) -> None:
        """Hear that the run is a file's first: no call stands before it."""
        self._is_first = True

    def set_turn(self, turn: Turn, offset: int, timestamp: str | None) -> None:
        """Hear whose turn it is from a line on; the first word on a line counts."""
        if self._turn is None or self._turn[1] != offset:
            self._turn = turn, offset, timestamp

    def add_calls(self, offset: int, line: memoryview, calls: list[BlockGlance]) -> None:
        """Take in the tool calls of an answer's line."""
        for block in calls:
            if block.id:
                self._open.setdefault(block.id, (offset, line))

    def add_results(self, message: MessageGlance) -> None:
        """Take in the results that a user's line brings."""
        for block in message.content if type(message.content) is list else ():
            name = block.tool_use_id if type(block) is BlockGlance else None
            if name:
                self._open.pop(name, None)
                if not self._is_first:
                    self._ended[name] = None

    def open_calls(self) -> tuple[CallFact, ...]:
        """Hand over the calls that have no result among these lines."""
        facts = (_fact(name, *place) for name, place in self._open.items())
        return tuple(fact for fact in facts if fact is not None)

    def ended_calls(self) -> tuple[str, ...]:
        """Name the calls whose results are among these lines, and that may stand before them."""
        return tuple(self._ended)

    def session_fields(self) -> dict[str, Any]:
        """Give the fields of the session's fact."""
        if self._turn is None:
            return {}
        turn, offset, stamp = self._turn
        return {"turn": turn, "turn_at": to_ms(stamp), "turn_offset": offset}


def _fact(call: str, offset: int, data: memoryview) -> CallFact | None:
    try:
        line = decode_line(data)
        blocks = decode_blocks(line.message.content) if line.message else []
    except (NotJsonError, ShapeError):
        return None
    for block in blocks:
        if block.id == call:
            return CallFact(
                offset=offset,
                tool_use_id=call,
                at=to_ms(line.timestamp),
                name=clean_title(block.name or ""),
                detail=_detail(block.input),
            )
    return None


def _detail(raw: Raw | UnsetType) -> str:
    """Say in one line what tells a call from others of its tool."""
    if raw is msgspec.UNSET:
        return ""
    try:
        said = _input.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return ""
    named = (said.get(name) for name in TELLING)
    # A tool that we do not know: its first words are the best guess.
    words = (value for value in (*named, *said.values()) if isinstance(value, str) and value)
    return clean_title(next(words, ""))
