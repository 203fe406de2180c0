"""Long texts as lines of a given width, and the rows and headings that reports are made of."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from rich.cells import cell_len, get_character_cell_size
from textual.content import Content

from ..tables import Cell, Column, Item, Shown
from .formats import fit_left, fit_right

TAB: Final = "    "  # a tab has no width of its own on a screen
MIN_WRAP_CELLS: Final = 8  # cells; for less nothing is worth wrapping
FOLD_SIGNS: Final = {True: "▸", False: "▾"}  # before what can be folded; True where it is
TextSpan = tuple[int, int]  # start and end within a text


@dataclass(frozen=True, slots=True)
class Passage:
    """Where a passage of a text stands on its lines."""

    line: int
    start: int  # characters into the line
    end: int


@dataclass(frozen=True, slots=True)
class WrappedText:
    """A text as lines, and where its passages begin."""

    lines: tuple[Content, ...]
    passages: tuple[Passage, ...] = ()


def expand_tabs(text: str) -> str:
    """Make a text's characters be cells: what is searched in it is searched in this."""
    return text.replace("\t", TAB)


def wrap_spans(text: str, width: int) -> Iterator[TextSpan]:
    """Cut a text at its lines' ends, and between words where a line is too long."""
    room = max(MIN_WRAP_CELLS, width)
    start = 0
    for line in text.split("\n"):
        yield from ((start + a, start + b) for a, b in _wrapped_line(line, room))
        start += len(line) + 1


def wrap_text(
    text: str,
    width: int,
    passages: Sequence[TextSpan] = (),
    style: str = "",
    base_style: str = "$foreground",
) -> WrappedText:
    """Wrap a text; its passages, in their order, are drawn in `style`."""
    lines: list[Content] = []
    places: list[Passage] = []
    number = 0
    begun = -1
    for start, end in wrap_spans(text, width):
        line = Content.styled(text[start:end], base_style)
        while number < len(passages) and passages[number][0] < end:
            from_, to = (min(max(each, start), end) - start for each in passages[number])
            if from_ < to:
                line = line.stylize(style, from_, to)
                if begun != number:
                    places.append(Passage(len(lines), from_, to))
                    begun = number
            if passages[number][1] > end:
                # The rest of it stands on the next line.
                break
            number += 1
        lines.append(line)
    return WrappedText(tuple(lines), tuple(places))


def _wrapped_line(line: str, room: int) -> Iterator[TextSpan]:
    if len(line) <= room and (line.isascii() or cell_len(line) <= room):
        yield 0, len(line)
        return
    cells = line.isascii()
    start = 0
    while start < len(line):
        end = start + room if cells else _fitting_end(line, start, room)
        if end >= len(line):
            yield start, len(line)
            return
        cut = line.rfind(" ", start + 1, end + 1)
        if cut <= start or not line[start:cut].strip():
            yield start, end
            start = end
        else:
            yield start, cut
            start = cut + 1


def _fitting_end(line: str, start: int, room: int) -> int:
    used = 0
    for place in range(start, len(line)):
        used += get_character_cell_size(line[place])
        if used > room:
            return max(place, start + 1)
    return len(line)


LABEL_CELLS: Final = 14  # cells of a label, with the space after it


def section_heading(name: str) -> Iterator[Content]:
    """Head what follows, with a blank line before it."""
    yield Content("")
    yield Content.styled(name, "bold $accent")


def labelled_line(
    label: str, text: str, width: int, style: str = "$foreground"
) -> Iterator[Content]:
    """Write a value beside its label."""
    head = Content.styled(f"  {label:<{LABEL_CELLS}}", "$quiet")
    yield from hanging_lines(head, Content.styled(text, style), width)


Fact = tuple[str, str] | tuple[str, str, str]  # label, text, and style unless it is $foreground


def labelled_lines(facts: Iterable[Fact], width: int) -> Iterator[Content]:
    for label, text, *style in facts:
        yield from labelled_line(label, text, width, *style)


def hanging_lines(head: Content, value: Content, width: int) -> Iterator[Content]:
    """Break a long value between words; what follows stands below its beginning."""
    indent = Content(" " * head.cell_length)
    for place, part in enumerate(value.wrap(max(1, width - head.cell_length))):
        yield (indent if place else head) + part


class SessionTab(StrEnum):
    """A part of the page; its place is the key that opens it."""

    BREAKDOWN = "Fills"
    ITEMS = "Items"
    COMPACTIONS = "Compactions"
    WARNINGS = "Warnings"
    SOURCES = "Evidence"
    ABOUT = "About"


SHORT_TAB_NAMES: Final = ("Fills", "Items", "Compact", "Warn", "Why", "About")
"""Their names where there is no room."""


def heading(words: str) -> Content:
    """Write a line above others."""
    return Content.styled(words, "bold $accent")


def quiet(words: str) -> Content:
    """Write what is less than the rest."""
    return Content.styled(words, "$quiet")


def join_lines(*parts: Content) -> Content:
    """Put parts below each other."""
    return Content("\n").join(parts)


Drawing = Callable[[int], Cell | Content]
"""Draws in so many cells; what it returns as Content takes exactly these."""

ScreenColumn = Column[Item, Cell | Drawing]  # a column of a table on a screen


def header_line(
    columns: Iterable[Column[Item, Shown]], gap: str = " ", style: str = "$quiet"
) -> Content:
    """Write the line above the items."""
    texts = (_fit(column, column.header) for column in columns)
    return Content.styled(gap.join(texts), style)


def item_line(columns: Iterable[ScreenColumn[Item]], item: Item, gap: str = " ") -> Content:
    """Write an item's line."""
    return Content(gap).join(_drawn(column, column.value(item)) for column in columns)


def _drawn(column: ScreenColumn[Item], shown: Cell | Drawing) -> Content:
    drawn = shown if isinstance(shown, Cell) else shown(column.cells)
    if isinstance(drawn, Cell):
        return Content.styled(_fit(column, drawn.text), drawn.style)
    return drawn


def _fit(column: Column[Item, Shown], text: str) -> str:
    return (fit_right if column.right else fit_left)(text, column.cells)
