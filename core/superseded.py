"""What of a context was overtaken by something later in it (compaction.md 1.4, levels 1 and 2)."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

import msgspec

from .conversation import PieceKind

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .material import Part

SAME_TEXT_CHARS: Final = 200
"""A shorter text that stands there twice is chance (compaction.md 1.4)."""

_READ: Final = "Read"
_WRITE: Final = "Write"
_EDITS: Final = frozenset({"Edit", "MultiEdit", "NotebookEdit"})
_RESULTS: Final = frozenset({PieceKind.TOOL_RESULT, PieceKind.AGENT_RETURN})
_REPEATED: Final = _RESULTS | {PieceKind.ATTACHMENT}


class ReadRange(msgspec.Struct):
    """What of a file a Read asks for; lines from 1, without a limit to the file's end."""

    offset: float | None = None
    limit: float | None = None

    def covers(self, other: ReadRange) -> bool:
        """Say whether it asks for all lines that another asks for."""
        return self._start <= other._start and self._end >= other._end

    @property
    def _start(self) -> float:
        return self.offset or 1

    @property
    def _end(self) -> float:
        return math.inf if self.limit is None else self._start + self.limit


class _Touch(msgspec.Struct, frozen=True):
    """A call that touched a file, and succeeded."""

    place: int
    tool: str
    line: int | None
    range: ReadRange


def superseded(parts: Sequence[Part]) -> dict[int, str]:
    """Say by the part's place what overtook it, with the line at which that stands.

    A Read is overtaken by a Read of the same lines or more, and by any change of its file; a
    Write by the next one; a result by that of the same call later, or by the same text.
    """
    calls: dict[str | None, int] = {
        part.content.tool_use_id: place
        for place, part in enumerate(parts)
        if part.content.kind is PieceKind.TOOL_INPUT and part.content.tool_use_id
    }
    return _same_text(parts) | _same_call(parts, calls) | _files(parts, calls)


def _files(parts: Sequence[Part], calls: dict[str | None, int]) -> dict[int, str]:
    touched: dict[str, list[_Touch]] = {}
    for place, part in enumerate(parts):
        piece = part.content
        if piece.kind not in _RESULTS or piece.failed or piece.path is None:
            continue
        call = calls.get(piece.tool_use_id)
        if call is not None:
            asked = range_of(parts[call].content.text)
            touched.setdefault(piece.path, []).append(_Touch(place, piece.name, part.line, asked))
    found: dict[int, str] = {}
    for touches in touched.values():
        for number, touch in enumerate(touches):
            reasons = (_overtakes(later, touch) for later in touches[number + 1 :])
            why = next(filter(None, reasons), None)
            if why and touch.tool == _READ:
                found[touch.place] = why
            elif why and touch.tool == _WRITE:
                found[calls[parts[touch.place].content.tool_use_id]] = why
    return found


def _overtakes(later: _Touch, touch: _Touch) -> str | None:
    if later.tool == _WRITE:
        return f"overwritten at line {later.line}"
    if touch.tool != _READ:
        return None
    if later.tool in _EDITS:
        return f"edited at line {later.line}"
    if later.tool == _READ and later.range.covers(touch.range):
        return f"read again at line {later.line}"
    return None


def range_of(text: str) -> ReadRange:
    """Read from the input of a Read what of its file it asks for."""
    try:
        return msgspec.json.decode(text, type=ReadRange)
    except (msgspec.DecodeError, UnicodeEncodeError):
        return ReadRange()


def _same_call(parts: Sequence[Part], calls: dict[str | None, int]) -> dict[int, str]:
    found: dict[int, str] = {}
    last: dict[tuple[str, str], Part] = {}
    for place in range(len(parts) - 1, -1, -1):
        part = parts[place]
        call = calls.get(part.content.tool_use_id)
        if part.content.kind not in _RESULTS or call is None:
            continue
        asked = (part.content.name, parts[call].content.text)
        if asked in last:
            found[place] = f"same call again at line {last[asked].line}"
        elif not part.content.failed:
            last[asked] = part
    return found


def _same_text(parts: Sequence[Part]) -> dict[int, str]:
    found: dict[int, str] = {}
    last: dict[str, Part] = {}
    for place in range(len(parts) - 1, -1, -1):
        piece = parts[place].content
        if piece.kind not in _REPEATED or len(piece.text) < SAME_TEXT_CHARS:
            continue
        if piece.text in last:
            found[place] = f"same text again at line {last[piece.text].line}"
        else:
            last[piece.text] = parts[place]
    return found
