"""Text that the client took out of the model's sight while the transcript keeps it (peers B.8)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec
from msgspec.structs import replace

from .conversation import PieceKind

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from .conversation import Entry, Piece

CLEARED: Final = "[Old tool result content cleared]"
"""What the model sees for a result that the client cleared (claude-code-formats 3.5)."""


class Cleared(msgspec.Struct, frozen=True):
    """What one request did not hold although lines before it do."""

    results: frozenset[str] = frozenset()
    """Tool calls whose results were replaced by CLEARED."""
    attachments: frozenset[str] = frozenset()
    """Uuids of lines that were left out."""

    def includes(self, entry: Entry, part: Piece) -> bool:
        """Return whether a piece of an entry was cleared."""
        if entry.uuid in self.attachments:
            return True
        return part.kind in _RESULTS and part.tool_use_id in self.results


NOTHING_CLEARED: Final = Cleared()

_RESULTS: Final = frozenset({PieceKind.TOOL_RESULT, PieceKind.AGENT_RETURN})


def cleared_for(answer: Entry, entries: Iterable[Entry]) -> Cleared:
    """Collect what microcompactions had cleared when an answer was asked for.

    The client clears in memory: the process that cleared goes on without the texts, and a
    later one reads them from the transcript and sends them whole (seen in client 2.1.329).
    Of a process its version alone is written down, so another version is another process.
    """
    clearings = [
        entry.microcompaction
        for entry in entries
        if entry.microcompaction is not None
        and entry.offset < answer.offset
        and entry.version == answer.version
    ]
    if not clearings:
        return NOTHING_CLEARED
    return Cleared(
        frozenset(call for each in clearings for call in each.results),
        frozenset(uuid for each in clearings for uuid in each.attachments),
    )


def without_cleared(sent: Sequence[Entry], cleared: Cleared) -> list[Entry]:
    """Return entries as a request held them from which something was cleared."""
    if cleared == NOTHING_CLEARED:
        return list(sent)
    return [_shortened(entry, cleared) for entry in sent if entry.uuid not in cleared.attachments]


def _shortened(entry: Entry, cleared: Cleared) -> Entry:
    if not any(cleared.includes(entry, piece) for piece in entry.parts):
        return entry
    pieces = (
        replace(piece, text=CLEARED, media=0) if cleared.includes(entry, piece) else piece
        for piece in entry.parts
    )
    return replace(entry, parts=tuple(pieces))


def cleared_in(entries: Iterable[Entry]) -> set[str]:
    """Name the tool calls whose results the model saw replaced, as the transcript shows it.

    Microcompact boundaries and content replacements name them; a rewritten transcript holds
    the text in the result's place.
    """
    found: set[str] = set()
    for entry in entries:
        found.update(call for call, _ in entry.replaced_results)
        if entry.microcompaction is not None:
            found.update(entry.microcompaction.results)
        found |= cleared_pieces(entry.parts)
    return found


def cleared_pieces(parts: Iterable[Piece]) -> set[str]:
    """Name the calls whose result is the text that stands for a cleared one."""
    return {
        piece.tool_use_id
        for piece in parts
        if piece.kind in _RESULTS and piece.tool_use_id and piece.text.strip() == CLEARED
    }
