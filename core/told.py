"""What is told of a compaction beside the client's own numbers: worked out once, then kept."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from .cleared import cleared_in
from .segments import segments
from .summaries.artifacts import Artifacts, artifacts_of
from .summaries.forgotten import Forgotten, divide, forgotten
from .thrash import Refill, find_refill

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from .conversation import Entry

ENGINE: Final = 2
"""Version of the rules: what an older one told is told again."""


class Told(msgspec.Struct, frozen=True):
    """What was forgotten at a compaction, how soon it came, and what was cleared before it."""

    forgotten: Forgotten = Forgotten()
    refill: Refill | None = None
    """None for the first; whether it is thrash says `thrash.thrash`."""
    cleared_results: int = 0
    """Tool results that the model saw replaced since the compaction before."""
    is_known: bool = True
    """False where the file begins at the compaction: nobody can say what stood before it."""


class ShownCleared(msgspec.Struct, frozen=True):
    """A request's message whose tool results were cleared."""

    offset: int
    tool_use_ids: tuple[str, ...]


def tell(
    entries: Iterable[Entry], shown: Sequence[ShownCleared] = ()
) -> Iterator[tuple[Entry, Told]]:
    """Tell of every compaction of one context, in the order of its lines.

    What a compaction kept stands before the next one too. Of what comes after a compaction
    its summary is used, and what the client attached before the next answer: once that answer
    is there, it is told for good. A cleared result counts once, in the segment where it shows
    first.
    """
    standing = Artifacts()
    counted: set[str] = set()
    begin = None
    for segment in segments(entries):
        before = artifacts_of(segment.entries, standing)
        standing, lost = divide(before, segment.summary, segment.kept, segment.attached)
        end = segment.end.offset
        cleared = cleared_in(segment.entries).union(
            *(each.tool_use_ids for each in shown if (begin or 0) <= each.offset < end)
        )
        new = cleared - counted
        counted |= new
        yield (
            segment.end,
            Told(
                forgotten=forgotten(lost),
                refill=None if begin is None else find_refill(segment.entries, segment.boundary),
                cleared_results=len(new),
                is_known=segment.has_history,
            ),
        )
        begin = end


def pack(report: Told) -> str:
    """Write it as the store keeps it."""
    return msgspec.json.encode(report).decode()


def unpack(stored: str | None) -> Told | None:
    """Read it as the store keeps it; None where nothing is told yet, or by newer rules."""
    if stored is None:
        return None
    try:
        return _told.decode(stored)
    except msgspec.DecodeError:
        return None


_told: Final = msgspec.json.Decoder(Told)
