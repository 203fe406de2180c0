"""What a compaction kept and what it forgot of all that stood before it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from .segments import segments
from .summaries.artifacts import Artifacts, artifacts_of
from .summaries.forgotten import divide

if TYPE_CHECKING:
    from collections.abc import Iterable

    from .conversation import Entry


class Halves(msgspec.Struct, frozen=True):
    """What stood before a compaction, the most important first."""

    retained: Artifacts
    lost: Artifacts
    is_known: bool = True
    """False where the file begins at the compaction: nobody can say what stood before it."""


def halves_at(entries: Iterable[Entry], uuid: str) -> Halves | None:
    """Divide what stood before the compaction of this uuid; None where it is not there.

    By the rules of `told.tell`: what a compaction kept stands before the next one too.
    """
    standing = Artifacts()
    for segment in segments(entries):
        before = artifacts_of(segment.entries, standing)
        standing, lost = divide(before, segment.summary, segment.kept, segment.attached)
        if uuid in {segment.end.uuid, f"at {segment.end.offset}"}:
            return Halves(standing, lost, segment.has_history)
    return None
