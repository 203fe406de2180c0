"""An enum whose members one key leads through, round and round."""

from __future__ import annotations

from enum import Enum
from typing import Self


class CycleEnum(Enum):
    """Its members are in the order in which the key leads through them."""

    @property
    def next(self) -> Self:
        """The one that the next press leads to."""
        members = list(type(self))
        return members[(members.index(self) + 1) % len(members)]
