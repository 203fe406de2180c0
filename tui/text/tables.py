"""A table's columns, each described once for commands, screens and files; Markdown tables."""

import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, Generic, TypeVar

import msgspec

from ...core.transcript.sanitize import one_line

Item = TypeVar("Item")
Shown = TypeVar("Shown")


class Cell(msgspec.Struct, frozen=True):
    """A text and its style: one of the theme on a screen, of `paint` in print."""

    text: str
    style: str = ""


class Column(msgspec.Struct, Generic[Item, Shown], frozen=True):
    """A header, how to get an item's value, and what to do if room is short."""

    header: str
    value: Callable[[Item], Shown]
    right: bool = False  # aligned at the right edge
    flexible: bool = False  # may be shortened in the middle; numbers never are
    priority: int = 0  # columns of the highest priority are left out first, those of 0 never
    cells: int = 0  # width on a screen; a printed table measures it
    grows_to: int = 0  # width on a screen, if its values need it and there is room
    name: str = ""  # for layouts that treat it specially
    tooltip: str = ""  # what the header stands for
    sort_key: Callable[[Item], Any] | None = None
    """What a click on the header sorts by; it returns None for an item without a value. A column
    without a key cannot be sorted."""


TextColumn = Column[Item, Cell | str]  # a column of a printed table


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


ANY_WIDTH: Final = 10_000  # of a column that grows to what its longest value needs


def share_cells(needs: Sequence[int], room: int) -> list[int]:
    """Divide `room` between columns: what one does not need is left to the others.

    If all have what they need, the last one gets the rest.
    """
    cells = [0] * len(needs)
    left = max(0, room)
    smallest_first = sorted(range(len(needs)), key=needs.__getitem__)
    for place, column in enumerate(smallest_first):
        cells[column] = min(needs[column], left // (len(needs) - place))
        left -= cells[column]
    cells[-1] += left
    return cells


_MARKUP: Final = re.compile(r"([\\`*_\[\]<>|~&$@#]|:(?=//))")
"""Markup within a cell: of CommonMark, and of the tables, links and names of GitHub."""

_LINKS: Final = re.compile(r"[\[\]<>]")  # what begins a link, an image or HTML


def escape_markdown(text: str) -> str:
    """Escape a text so that Markdown shows it as it is, in one cell of a table."""
    return _MARKUP.sub(r"\\\1", " ".join(text.split()))


def escape_links(text: str) -> str:
    """Escape what fetches or hides something in Markdown; keeps emphasis and code."""
    return _LINKS.sub(lambda found: f"\\{found[0]}", one_line(text))


def escape_cell(text: str) -> str:
    """Escape links for one cell of a table."""
    return escape_links(text).replace("|", "\\|")


def code_span(text: str) -> str:
    shown = one_line(text).replace("`", "'")
    return f"`{shown}`"


def markdown_table(
    columns: Sequence[Column[Item, str]], items: Sequence[Item], escape: Callable[[str], str]
) -> list[str]:
    """Write a table in Markdown; `escape` is applied to every value."""
    lines = [
        [column.header for column in columns],
        ["---" for _ in columns],
        *([escape(column.value(item)) for column in columns] for item in items),
    ]
    return [f"| {' | '.join(cells)} |" for cells in lines]
