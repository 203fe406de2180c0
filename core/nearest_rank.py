"""Percentiles by nearest rank: numbers that really occurred, never ones between them."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Sequence

Number = TypeVar("Number", int, float)


def nearest_rank(ordered: Sequence[Number], share: float) -> Number:
    """Give the percentile of ordered numbers: the one at the rank of its share, rounded up."""
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)]
