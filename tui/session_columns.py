"""Which columns of the sessions fit a width, and what stands above them.

The choice depends on the width alone: no column comes, goes or moves because data changed.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING, Final

from textual.content import Content

from .formats import fit, fit_right
from .gauge import PERCENT_CELLS, SHORTEST, TRIGGER, mark_cells
from .selection import Order

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ..core.levels import Line

LONGEST_BAR: Final = 40
"""Cells; a longer bar is not read more exactly."""

SHORTEST_TITLE: Final = 20
"""Cells; a shorter title no longer tells one session from another."""

LONGEST_TITLE: Final = 56
"""Cells; hardly any title is longer."""

AGE_CELLS: Final = 6
"""59 min, with a space before it."""

GAP: Final = 1

ESSENTIAL: Final = 3
"""Columns of a higher rank come only where the bar, the title and the state have grown too."""

COMFORT: Final = 14
"""Cells by which those grow first."""


@dataclass(frozen=True, slots=True)
class Column:
    """A column of the table: its head, its cells, and how soon it goes when room is short."""

    name: str
    head: str
    cells: int
    rank: int
    """Columns of the highest rank go first; rank 0 stays."""
    order: Order | None = None
    """What a click on its head sorts by."""
    right: bool = False
    """Its words stand at its right edge."""


_COLUMNS: Final = (
    Column("sign", "", 2, 0, Order.ATTENTION),
    Column("title", "session", SHORTEST_TITLE, 0, Order.NAME),
    Column("project", "project", 12, 7, Order.NAME),
    Column("model", "model", 10, 6, Order.NAME),
    Column("doing", "now", 14, 0, Order.NEWEST),
    Column("gauge", "context", SHORTEST + PERCENT_CELLS, 0, Order.FULLEST),
    Column("fill", "tokens", 15, 8, Order.FULLEST, right=True),
    Column("level", "level", 9, 10, Order.FULLEST),
    Column("trigger", "trigger", 9, 9, Order.FULLEST, right=True),
    Column("until", "turns left", 11, 1, Order.SOONEST, right=True),
    Column("trail", "trail", 8, 3),
    Column("agents", "agents", 6, 2, Order.NONCOMPLIANT, right=True),
    Column("compactions", "↻", 3, 2, Order.COMPACTIONS, right=True),
    Column("cost", "cost", 8, 4, Order.COSTLIEST, right=True),
    Column("cache", "cache", 5, 5),
)

_ONE_STATEMENT: Final = frozenset({"gauge", "level", "fill", "trigger", "until", "trail"})
"""Columns that words take together where a prompt was refused."""

_LONGER: Final = (
    # What is left over goes to these, so many cells at a time, up to a length; then to the next.
    (("gauge", 3, 18 + PERCENT_CELLS), ("doing", 3, 22), ("title", 2, 26), ("until", 1, 14)),
    (
        ("title", 4, LONGEST_TITLE),
        ("gauge", 3, LONGEST_BAR + PERCENT_CELLS),
        ("doing", 2, 44),
        ("until", 1, 20),
        ("trail", 1, 24),
        ("cache", 1, 12),
    ),
)


@dataclass(frozen=True, slots=True)
class Layout:
    """The columns that fit a width, in order."""

    columns: tuple[Column, ...]

    @property
    def width(self) -> int:
        """Cells of a row."""
        return sum(column.cells for column in self.columns) + GAP * (len(self.columns) - 1)

    @property
    def columns_when_refused(self) -> tuple[Column, ...]:
        """The same with one wide cell from the bar to what is left: for words instead of them."""
        gauges = [column for column in self.columns if column.name in _ONE_STATEMENT]
        wide = sum(one.cells for one in gauges) + GAP * (len(gauges) - 1)
        return tuple(
            replace(column, cells=wide) if column.name == "gauge" else column
            for column in self.columns
            if column.name == "gauge" or column.name not in _ONE_STATEMENT
        )

    def header(self, lines: Iterable[Line] = (), order: Order | None = None) -> Content:
        """Write the line above the rows; it names the marks of the bars, which are at `lines`."""
        cells = (_head(column, tuple(lines)) for column in self.columns)
        words = [
            (cell, "bold $foreground" if _sorts(column, order) else "$quiet")
            for column, cell in zip(self.columns, cells, strict=True)
        ]
        return Content(" " * GAP).join(Content.styled(*each) for each in words)

    def order_at(self, x: int) -> Order | None:
        """Say what a click on the head sorts by."""
        start = 0
        for column in self.columns:
            if start <= x < start + column.cells + GAP:
                return column.order
            start += column.cells + GAP
        return None


@lru_cache(maxsize=16)
def lay_out(width: int) -> Layout:
    """Choose columns for a width; what is left over makes some of them longer."""
    columns = list(_COLUMNS)
    while _wanted(columns) > width and any(column.rank for column in columns):
        highest = max(column.rank for column in columns)
        columns = [column for column in columns if column.rank != highest]
    # What cannot go must fit all the same: then the title gives, never the bar.
    spare = max(width - _needed(columns), -SHORTEST_TITLE)
    cells = {column.name: column.cells for column in columns}
    if spare < 0:
        cells["title"] += spare
    else:
        _hand_out(cells, spare)
    return Layout(tuple(replace(column, cells=cells[column.name]) for column in columns))


def _hand_out(cells: dict[str, int], spare: int) -> None:
    """Give what is left over to the columns that tell more when they are longer."""
    for step in _LONGER:
        growing = [each for each in step if each[0] in cells]
        while spare and growing:
            for name, share, most in growing:
                given = min(share, spare, most - cells[name])
                cells[name] += given
                spare -= given
            growing = [each for each in growing if cells[each[0]] < each[2]]
    # Nothing tells more: the title takes it, so that a row is as wide as its pane.
    cells["title"] += spare


def _wanted(columns: list[Column]) -> int:
    """Count the cells with which these columns are worth having: the bar comes before many."""
    many = any(column.rank > ESSENTIAL for column in columns)
    return _needed(columns) + (COMFORT if many else 0)


def _needed(columns: list[Column]) -> int:
    return sum(column.cells for column in columns) + GAP * (len(columns) - 1)


def _sorts(column: Column, order: Order | None) -> bool:
    return order is not None and column.name == order.column


def _head(column: Column, lines: tuple[Line, ...]) -> str:
    if column.name == "gauge":
        return _gauge_head(column, lines)
    return (fit_right if column.right else fit)(column.head, column.cells)


def _gauge_head(column: Column, lines: tuple[Line, ...]) -> str:
    """Write each mark's percentage above it, then what the trigger's line means."""
    marks = sorted(mark_cells(lines, column.cells - PERCENT_CELLS).items())
    names = [f"{line.at * 100:.0f}" for _, line in marks]
    words = column.head
    starts = [cell for cell, _ in marks]
    if all(later - start > 2 for start, later in pairwise([len(words) - 2, *starts])):
        for start, name in zip(starts, names, strict=True):
            words = f"{words:<{start}}{name}"
    elif marks:
        words = f"{words:<{max(starts[0], len(words) + 1)}}{'/'.join(names)}"
    legend = f" {TRIGGER}trigger"
    if marks and len(words) + len(legend) <= column.cells:
        words += legend
    return fit(words, column.cells)
