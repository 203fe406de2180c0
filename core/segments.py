"""A conversation between its compactions: what stood before each, its summary, what it kept."""

from __future__ import annotations

from itertools import takewhile
from typing import TYPE_CHECKING, Final

import msgspec

from .conversation import Boundary, Entry, PieceKind, Role

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence


_SPOKEN: Final = frozenset(PieceKind) - {PieceKind.META, PieceKind.ATTACHMENT}
"""What a conversation consists of; the client puts the rest at the beginning of any file."""


class Segment(msgspec.Struct, frozen=True):
    """What stands between two compactions, and what the second made of it."""

    entries: tuple[Entry, ...]
    """From the boundary before it, whose summary and attachments come first."""
    end: Entry
    """The line of the boundary."""
    boundary: Boundary
    summary: str
    """Empty where none follows before the next answer."""
    kept: tuple[Entry, ...]
    attached: tuple[Entry, ...] = ()
    """What the client attached before the next answer: files that it read again, or named."""

    @property
    def has_history(self) -> bool:
        """Whether anything that was said stands before the boundary.

        False in a file that begins at its compaction: what was forgotten cannot be known.
        """
        return any(piece.kind in _SPOKEN for entry in self.entries for piece in entry.parts)


def segments(entries: Iterable[Entry]) -> Iterator[Segment]:
    """Cut a conversation at its compactions; what follows the last one is no segment.

    Give the entries of one context: an agent's file whole, a session's without sidechains.
    A line that is appended again counts where it stood first, a boundary too: it is the same
    compaction (claude-code-formats 1.7, point 6; 11.2).
    """
    chain = first_copies(entries)
    ends = [(n, entry.boundary) for n, entry in enumerate(chain) if entry.boundary]
    start = 0
    for number, (end, boundary) in enumerate(ends):
        until = ends[number + 1][0] if number + 1 < len(ends) else len(chain)
        yield Segment(
            entries=tuple(chain[start:end]),
            end=chain[end],
            boundary=boundary,
            summary=_summary(chain[end + 1 : until]),
            kept=kept_by(boundary, chain[:end]),
            attached=_attached(chain[end + 1 : until]),
        )
        start = end + 1


def _attached(after: Iterable[Entry]) -> tuple[Entry, ...]:
    said = takewhile(lambda entry: entry.role is not Role.ASSISTANT or entry.hidden, after)
    return tuple(entry for entry in said if entry.type == "attachment")


def first_copies(entries: Iterable[Entry]) -> list[Entry]:
    """Leave out lines whose uuid stood before, in their order."""
    seen: set[str] = set()
    first = []
    for entry in entries:
        if entry.uuid is None or entry.uuid not in seen:
            first.append(entry)
        if entry.uuid is not None:
            seen.add(entry.uuid)
    return first


def kept_by(boundary: Boundary, before: Sequence[Entry]) -> tuple[Entry, ...]:
    """Find the messages that a compaction keeps, in the order of their lines.

    Clients of 2.1.2xx and later list them; older ones name the first and the last
    (claude-code-formats 3.6). What is not on disk, or a pair that is not there, is left out.
    """
    if boundary.kept_uuids:
        wanted = frozenset(boundary.kept_uuids)
        return tuple(entry for entry in before if entry.uuid in wanted)
    if boundary.kept_range is None:
        return ()
    places = {entry.uuid: place for place, entry in enumerate(before) if entry.uuid}
    head, tail = (places.get(uuid) for uuid in boundary.kept_range)
    if head is None or tail is None:
        return ()
    return tuple(entry for entry in before[head : tail + 1] if entry.role is not None)


def _summary(after: Iterable[Entry]) -> str:
    for entry in after:
        for piece in entry.parts:
            if piece.kind is PieceKind.SUMMARY:
                return piece.text
        if entry.role is Role.ASSISTANT and not entry.hidden:
            break
    return ""
