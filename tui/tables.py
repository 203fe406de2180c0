"""A table's columns, each described once: commands, screens and Markdown are drawn from them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

import msgspec

Item = TypeVar("Item")
Shown = TypeVar("Shown")


class Cell(msgspec.Struct, frozen=True):
    """A text of a table, and its style: one of the theme on a screen, of `paint` in print."""

    text: str
    style: str = ""


@dataclass(frozen=True, slots=True)
class Column(Generic[Item, Shown]):
    """A header, what stands below it for an item, and what happens where room is short."""

    header: str
    value: Callable[[Item], Shown]
    right: bool = False
    """Its texts stand at its right edge."""
    flexible: bool = False
    """A text that may be cut in its middle; numbers never are."""
    priority: int = 0
    """Columns of the highest priority leave first; those of 0 stay."""
    cells: int = 0
    """Cells that it takes on a screen; a printed table measures them."""
    name: str = ""
    """Where a layout treats it in its own way."""


TextColumn = Column[Item, Cell | str]
"""A column of a printed table."""


def total_cells(columns: Iterable[Column[Item, Shown]], gap: int) -> int:
    """Count the cells of a line, with `gap` cells between two columns."""
    cells = [column.cells for column in columns]
    return sum(cells) + gap * (len(cells) - 1)


def fitting_columns(
    columns: Iterable[Column[Item, Shown]],
    width: int,
    needed: Callable[[Sequence[Column[Item, Shown]]], int],
) -> list[Column[Item, Shown]]:
    """Leave out columns of the highest priority until the others need at most `width` cells."""
    shown = list(columns)
    while needed(shown) > width and (highest := max(column.priority for column in shown)) > 0:
        shown = [column for column in shown if column.priority != highest]
    return shown
