"""A part of a whole that is counted, so that sessions can be added up."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from collections.abc import Iterable


class Share(msgspec.Struct, frozen=True):
    """So much of so much, in any unit."""

    part: float = 0
    whole: float = 0

    @property
    def ratio(self) -> float | None:
        """From 0 to 1; None where there is nothing to have a part of."""
        return self.part / self.whole if self.whole else None

    def __add__(self, other: Share) -> Share:
        return Share(self.part + other.part, self.whole + other.whole)


def together(shares: Iterable[Share]) -> Share:
    """Add shares up: large sessions weigh more."""
    return sum(shares, Share())
