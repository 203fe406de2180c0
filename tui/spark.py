"""A row of numbers as a row of blocks: how something went, in a cell a number."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

BLOCKS: Final = "▁▂▃▄▅▆▇█"

GAP: Final = " "
"""Where there is no number."""


def spark(numbers: Sequence[float | None], cells: int, top: float | None = None) -> str:
    """Draw numbers from 0 to `top`, or to the largest, oldest first, in at most so many cells.

    Where they are more than the cells, a cell shows the largest of its share of them.
    """
    if not numbers or cells < 1:
        return ""
    shown = _shares(numbers, min(cells, len(numbers)))
    most = top or max((each for each in shown if each is not None), default=0) or 1
    return "".join(GAP if each is None else _block(each / most) for each in shown)


def _block(share: float) -> str:
    return BLOCKS[min(max(int(share * len(BLOCKS)), 0), len(BLOCKS) - 1)]


def _shares(numbers: Sequence[float | None], cells: int) -> list[float | None]:
    edges = [round(place * len(numbers) / cells) for place in range(cells + 1)]
    parts = (numbers[start:end] for start, end in pairwise(edges))
    return [max((each for each in part if each is not None), default=None) for part in parts]
