"""A table's columns, each described once for commands, screens and files; Markdown tables."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

import msgspec

from ..core.transcript.sanitize import one_line

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
    right: bool = False  # its texts stand at its right edge
    flexible: bool = False  # a text that may be cut in its middle; numbers never are
    priority: int = 0  # columns of the highest priority leave first; those of 0 stay
    cells: int = 0  # cells that it takes on a screen; a printed table measures them
    name: str = ""  # where a layout treats it in its own way


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


_MARKUP: Final = re.compile(r"([\\`*_\[\]<>|~&$@#]|:(?=//))")
"""What is markup within a cell: of CommonMark, and of the tables, links and names of GitHub."""

_LINKS: Final = re.compile(r"[\[\]<>]")  # what begins a link, an image or HTML


def escape_markdown(text: str) -> str:
    """Write a text so that Markdown shows it as it is, in one cell of a table."""
    return _MARKUP.sub(r"\\\1", " ".join(text.split()))


def escape_links(text: str) -> str:
    """Write a text that fetches and hides nothing; emphasis and code in it are shown as such."""
    return _LINKS.sub(lambda found: f"\\{found[0]}", one_line(text))


def escape_cell(text: str) -> str:
    """Write a text as `escape_links` does, in one cell of a table."""
    return escape_links(text).replace("|", "\\|")


def code_span(text: str) -> str:
    shown = one_line(text).replace("`", "'")
    return f"`{shown}`"


def markdown_table(
    columns: Sequence[Column[Item, str]], items: Sequence[Item], escape: Callable[[str], str]
) -> list[str]:
    """Write a header and a line for each item, of whose texts `escape` takes the markup."""
    lines = [
        [column.header for column in columns],
        ["---" for _ in columns],
        *([escape(column.value(item)) for column in columns] for item in items),
    ]
    return [f"| {' | '.join(cells)} |" for cells in lines]
