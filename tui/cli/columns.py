"""Aligned plain columns that fit the terminal; text is data and is never read as markup."""

from __future__ import annotations

import os
import shutil
import sys
from typing import TYPE_CHECKING, Final

import msgspec
from rich.cells import cell_len

from ...collectors.clean import clean_text
from ..formats import fit, fit_right, middle
from ..plain_signs import plain

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

GAP: Final = "  "
SHORTEST: Final = 16
"""Cells of a text that may be cut; below that other columns leave first."""

LONGEST: Final = 48
"""Cells of a text that is not to be cut: a model's whole name has 30, a checked format's fault
45. Only a field that no client writes is longer, and the rows of others stay as they are."""

PIPE_WIDTH: Final = 160
"""Columns where no terminal says how many it has."""

COLOURS: Final = {
    "notice": "36",
    "warning": "33",
    "high": "33;1",
    "emergency": "31",
    "overflow": "31;1",
    "quiet": "2",
    "ok": "32",
    "bad": "31",
}

_BREAKS: Final = {ord("\n"): " ", ord("\t"): " "}


class Column(msgspec.Struct, frozen=True):
    """A column: its head, its side, and what happens to it where room is short."""

    header: str
    right: bool = False
    flexible: bool = False
    """A text that may be cut in its middle; numbers never are."""
    priority: int = 0
    """Columns of the highest rank leave first; rank 0 stays."""


class Cell(msgspec.Struct, frozen=True):
    """What stands in a row, and how it is coloured where colours are wanted."""

    text: str
    colour: str = ""


def draw(columns: Sequence[Column], rows: Iterable[Sequence[Cell | str]], width: int) -> list[str]:
    """Lay out a head and rows in at most `width` cells, as far as the numbers allow."""
    heads = [Cell(column.header.upper(), "quiet") for column in columns]
    table = [heads, *(_cells(columns, row) for row in rows)]
    widths = [max(cell_len(row[place].text) for row in table) for place in range(len(columns))]
    shown = _choose(columns, widths, width)
    _squeeze(columns, widths, shown, width)
    return [
        _line([columns[n] for n in shown], [row[n] for n in shown], [widths[n] for n in shown])
        for row in table
    ]


def one_line(text: str) -> str:
    """Make one harmless line of any text: names on disk can hold escape sequences too."""
    return " ".join(clean_text(text).split())


def terminal_width() -> int:
    """Cells of a line of output."""
    fallback = (80 if sys.stdout.isatty() else PIPE_WIDTH, 24)
    return shutil.get_terminal_size(fallback).columns


def paint(text: str, colour: str) -> str:
    """Colour a text where the output is a terminal that wants colours."""
    return f"\x1b[{COLOURS[colour]}m{text}\x1b[0m" if colour and wants_colours() else text


def wants_colours() -> bool:
    """Say whether the output is a terminal with colours (no-color.org)."""
    return (
        sys.stdout.isatty()
        and not os.environ.get("NO_COLOR")
        and os.environ.get("TERM", "") not in {"", "dumb"}
    )


def put(lines: Iterable[str], *, ascii_only: bool = False) -> None:
    """Print lines, with plain signs where that is asked for or the output is not UTF-8."""
    encoding = output_encoding()
    for line in lines:
        shown = plain(line) if ascii_only or encoding != "utf-8" else line
        print(shown if encoding == "utf-8" else shown.encode(encoding, "replace").decode(encoding))


def output_encoding() -> str:
    """Name the output's encoding the way Python does."""
    import codecs

    return codecs.lookup(getattr(sys.stdout, "encoding", None) or "utf-8").name


def _clean(cell: Cell | str) -> Cell:
    if isinstance(cell, str):
        return Cell(one_line(cell))
    # A drawn cell keeps its spaces.
    return Cell(clean_text(cell.text).translate(_BREAKS), cell.colour)


def _cells(columns: Sequence[Column], row: Sequence[Cell | str]) -> list[Cell]:
    cells = [_clean(cell) for cell in row]
    return [
        cell if column.flexible else Cell(middle(cell.text, LONGEST), cell.colour)
        for column, cell in zip(columns, cells, strict=True)
    ]


def _choose(columns: Sequence[Column], widths: list[int], width: int) -> list[int]:
    shown = list(range(len(columns)))
    while _least(columns, widths, shown) > width:
        highest = max(columns[n].priority for n in shown)
        if highest == 0:
            break
        shown = [n for n in shown if columns[n].priority != highest]
    return shown


def _least(columns: Sequence[Column], widths: list[int], shown: list[int]) -> int:
    cells = (min(widths[n], SHORTEST) if columns[n].flexible else widths[n] for n in shown)
    return sum(cells) + len(GAP) * (len(shown) - 1)


def _squeeze(columns: Sequence[Column], widths: list[int], shown: list[int], width: int) -> None:
    over = sum(widths[n] for n in shown) + len(GAP) * (len(shown) - 1) - width
    while over > 0:
        # The longest text gives first: a short project name need not suffer for a long title.
        longest = max((n for n in shown if columns[n].flexible), key=widths.__getitem__)
        if widths[longest] <= SHORTEST:
            break
        widths[longest] -= 1
        over -= 1


def _line(columns: list[Column], cells: list[Cell], widths: list[int]) -> str:
    parts = []
    for column, cell, width in zip(columns, cells, widths, strict=True):
        text = middle(cell.text, width)
        aligned = (fit_right if column.right else fit)(text, width)
        parts.append(paint(aligned, cell.colour))
    return GAP.join(parts).rstrip()
