"""An enum whose members follow each other in a circle."""

from __future__ import annotations

from enum import Enum
from typing import Self


class CycleEnum(Enum):
    """Its members are in the order in which a key cycles through them."""

    @property
    def next(self) -> Self:
        members = list(type(self))
        return members[(members.index(self) + 1) % len(members)]
