"""What stands at the end of a conversation: what its compactions kept, and what came since."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..segments import first_copies, segments
from .artifacts import Artifacts, artifacts_of
from .forgotten import divide

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ..conversation import Entry


def standing_now(entries: Iterable[Entry]) -> Artifacts:
    """Gather what the next compaction can forget; the same that `told.tell` judges it by.

    Give the entries of one context: an agent's file whole, a session's without sidechains.
    """
    chain = first_copies(entries)
    standing = Artifacts()
    for segment in segments(chain):
        standing, _ = divide(
            artifacts_of(segment.entries, standing), segment.summary, segment.kept, segment.attached
        )
    return artifacts_of(since_last(chain), standing)


def since_last(entries: Sequence[Entry]) -> Sequence[Entry]:
    """Give what follows the last compaction, its summary first."""
    ends = [number for number, entry in enumerate(entries) if entry.boundary]
    return entries[ends[-1] + 1 :] if ends else entries
