"""How much smaller a compaction made a context, and what share of its facts it kept."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Final

import msgspec

if TYPE_CHECKING:
    from .artifacts import ArtifactCounts

DEFAULT_TARGET_REDUCTION: Final = (0.5, 0.7)  # `compact.target_reduction` (001-12)


class ReductionFlag(StrEnum):
    """Where a reduction is, seen from the range that the policy aims for (001-12)."""

    BELOW = "below"
    IN = "within"
    ABOVE = "above"


def flag_reduction(share: float | None, target: tuple[float, float]) -> ReductionFlag | None:
    """Compare the share that was freed with the target, both 0..1; None if nothing was freed."""
    if not share:
        return None
    least, most = target
    if share < least:
        return ReductionFlag.BELOW
    return ReductionFlag.ABOVE if share > most else ReductionFlag.IN


class KeptShares(msgspec.Struct, frozen=True):
    """Shares of what was known before a compaction, 0..1; None if there was nothing (001-14)."""

    files: float | None
    identifiers: float | None
    decisions: float | None


def kept_shares(kept: ArtifactCounts, lost: ArtifactCounts) -> KeptShares:
    return KeptShares(
        _share(kept.files, lost.files),
        _share(kept.identifiers, lost.identifiers),
        _share(kept.decisions, lost.decisions),
    )


def _share(kept: int, lost: int) -> float | None:
    return kept / (kept + lost) if kept + lost else None
