"""A slider's track: where a value stands on it, and which value a cell stands for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from textual.content import Content

DOT, HOLE = "●", "○"
KNOB, LEFT, RIGHT = "●", "━", "─"

DOTS: Final = 9
"""Values up to which each has a dot of its own."""


@dataclass(frozen=True, slots=True)
class Scale:
    """The values that a slider can have."""

    lowest: int
    highest: int
    step: int = 1

    @property
    def count(self) -> int:
        """How many there are."""
        return (self.highest - self.lowest) // self.step + 1

    @property
    def is_dotted(self) -> bool:
        """Say whether each value has a dot."""
        return self.count <= DOTS

    def nearest(self, value: int) -> int:
        """Give the value of the scale that is nearest."""
        steps = round((value - self.lowest) / self.step)
        return self.lowest + min(max(steps, 0), self.count - 1) * self.step

    def place(self, value: int, cells: int) -> int:
        """Give the cell, from 0, that a value stands in."""
        if self.is_dotted:
            return (value - self.lowest) // self.step
        span = max(1, self.highest - self.lowest)
        return round((value - self.lowest) * (cells - 1) / span)

    def value_at(self, cell: int, cells: int) -> int:
        """Give the value that a cell stands for; beside the track that is an end."""
        if self.is_dotted:
            return self.nearest(self.lowest + cell * self.step)
        span = self.highest - self.lowest
        return self.nearest(round(self.lowest + cell * span / max(1, cells - 1)))

    def track_cells(self, room: int) -> int:
        """Give the cells of the track in a room of so many."""
        return self.count if self.is_dotted else max(2, room)


def track(scale: Scale, value: int, cells: int, style: str) -> Content:
    """Draw the track; what is reached is told by its sign too, not by its colour alone."""
    place = scale.place(value, cells)
    if scale.is_dotted:
        reached, rest = DOT * (place + 1), HOLE * (cells - place - 1)
    else:
        reached, rest = LEFT * place + KNOB, RIGHT * (cells - place - 1)
    return Content.styled(reached, style) + Content.styled(rest, "$bar-mark")
