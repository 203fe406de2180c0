"""Long texts as lines of a given width, what matched in them, and the rows of reports."""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final

import msgspec
from msgspec.structs import replace
from rich.cells import cell_len, get_character_cell_size
from textual.content import Content

from ...core.store.bulkhead import NOT_SHOWN, bulkhead, place_of
from .formats import fit_left, fit_right, shorten_end
from .tables import Cell, Column, Item, fitting_columns, share_cells, total_cells

HIT_STYLE: Final = "bold $background on $level-notice"  # what was searched for, wherever it is
FOLD_SIGNS: Final = {True: "▸", False: "▾"}  # before what can be folded; True if it is
TextSpan = tuple[int, int]  # start and end within a text


class Passage(msgspec.Struct, frozen=True):
    line: int
    start: int  # characters into the line
    end: int


class WrappedText(msgspec.Struct, frozen=True):
    lines: tuple[Content, ...]
    passages: tuple[Passage, ...] = ()


def expand_tabs(text: str) -> str:
    """Replace tabs, which have no width of their own: a search then finds what is shown."""
    return text.replace("\t", "    ")


MIN_WRAP_CELLS: Final = 8  # no text is wrapped to fewer


def wrap_spans(text: str, width: int) -> Iterator[TextSpan]:
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
    """Wrap a text; its passages, which are sorted, are drawn in `style`."""
    lines: list[Content] = []
    starts: dict[int, Passage] = {}
    number = 0
    for start, end in wrap_spans(text, width):
        line = Content.styled(text[start:end], base_style)
        while number < len(passages) and passages[number][0] < end:
            first, last = (min(max(each, start), end) - start for each in passages[number])
            if first < last:
                line = line.stylize(style, first, last)
                starts.setdefault(number, Passage(len(lines), first, last))
            if passages[number][1] > end:
                break  # it continues on the next line
            number += 1
        lines.append(line)
    return WrappedText(tuple(lines), tuple(starts.values()))


def _wrapped_line(line: str, room: int) -> Iterator[TextSpan]:
    if len(line) <= room and (line.isascii() or cell_len(line) <= room):
        yield 0, len(line)
        return
    start = 0
    while start < len(line):
        end = start + room if line.isascii() else _fitting_end(line, start, room)
        if end >= len(line):
            yield start, len(line)
            return
        cut = line.rfind(" ", start + 1, end + 1)
        is_between_words = cut > start and bool(line[start:cut].strip())
        yield start, cut if is_between_words else end
        start = cut + 1 if is_between_words else end


def _fitting_end(line: str, start: int, room: int) -> int:
    used = 0
    for place in range(start, len(line)):
        used += get_character_cell_size(line[place])
        if used > room:
            return max(place, start + 1)
    return len(line)


MATCH_STYLE: Final = "bold underline $accent"
LEAD_CHARS: Final = 8  # of the text before a match that would be cut off


def match_pattern(words: Iterable[str]) -> re.Pattern[str] | None:
    """Return what finds any of the words in any case; None without words."""
    parts = sorted({re.escape(word) for word in words if word}, key=len, reverse=True)
    return re.compile("|".join(parts), re.IGNORECASE) if parts else None


def matched_text(text: str, cells: int, pattern: re.Pattern[str] | None, style: str) -> Content:
    """Fit a text to its cells and highlight what matched; the cut moves so that it is visible."""
    if pattern is None:
        return Content.styled(fit_left(text, cells), style)
    shown = fit_left(text, cells)
    found = pattern.search(text)
    if found is not None and not pattern.search(shown):
        start = max(0, found.start() - min(LEAD_CHARS, max(0, cells - len(found[0]) - 2)))
        shown = fit_left(shorten_end(f"…{text[start:]}", cells), cells)
    return highlight_matches(Content.styled(shown, style), pattern)


def highlight_matches(
    text: Content, pattern: re.Pattern[str] | None, style: str = MATCH_STYLE
) -> Content:
    for match in pattern.finditer(text.plain) if pattern else ():
        text = text.stylize(style, *match.span())
    return text


LABEL_CELLS: Final = 14  # cells of a label, with the space after it


def section_heading(name: str) -> Iterator[Content]:
    yield Content("")
    yield heading(name)


Fact = tuple[str, str] | tuple[str, str, str]  # label, text, and style unless it is $foreground


def labeled_lines(facts: Iterable[Fact], width: int) -> Iterator[Content]:
    for label, text, *style in facts:
        head = Content.styled(f"  {label:<{LABEL_CELLS}}", "$quiet")
        value = Content.styled(text, style[0] if style else "$foreground")
        yield from hanging_lines(head, value, width)


def hanging_lines(head: Content, value: Content, width: int) -> Iterator[Content]:
    """Wrap a value; further lines are indented below its beginning."""
    indent = Content(" " * head.cell_length)
    for place, part in enumerate(value.wrap(max(1, width - head.cell_length))):
        yield (indent if place else head) + part


def heading(text: str) -> Content:
    return Content.styled(text, "bold $accent")


def quiet(text: str) -> Content:
    return Content.styled(text, "$quiet")


def join_lines(*parts: Content) -> Content:
    return Content("\n").join(parts)


# Draws a value in a number of cells; a Content that it returns fills them exactly.
Drawing = Callable[[int], Cell | Content]
ScreenColumn = Column[Item, Cell | Drawing]  # a column of a table on a screen


def grow_columns(
    columns: Iterable[ScreenColumn[Item]], items: Sequence[Item], width: int, gap: int = 1
) -> list[ScreenColumn[Item]]:
    """Leave out columns that do not fit, and widen those that grow by what `items` need."""
    shown = fitting_columns(columns, width, lambda fitting: total_cells(fitting, gap))
    growing = [column for column in shown if column.grows_to]
    least = [column.cells for column in growing]
    spare = width - total_cells(shown, gap)
    if spare < 0:
        cells = share_cells(least, sum(least) + spare)
    else:
        more = [_needed_cells(column, items) - column.cells for column in growing]
        cells = [sum(each) for each in zip(least, share_cells(more, spare), strict=True)]
    grown = dict(zip(growing, cells, strict=True))
    return [replace(each, cells=grown.get(each, each.cells)) for each in shown]


def _needed_cells(column: ScreenColumn[Item], items: Iterable[Item]) -> int:
    values = map(column.value, items)
    texts = (value.text for value in values if isinstance(value, Cell))
    longest = max(len(column.header), column.cells, *map(cell_len, texts))
    return min(longest, column.grows_to)


def item_line(columns: Iterable[ScreenColumn[Item]], item: Item, gap: str = " ") -> Content:
    """Draw an item; one that cannot be drawn says so, and costs no other its line."""
    shown = list(columns)
    with bulkhead(place_of(item), NOT_SHOWN):
        return Content(gap).join(_drawn(column, column.value(item)) for column in shown)
    return lost_line(total_cells(shown, len(gap)))


def lost_line(cells: int = 0) -> Content:
    """Write what stands in for a row that could not be drawn."""
    text = "! not shown: a bug in ctxtop, see the log"
    return Content.styled(fit_left(text, cells or len(text)), "bold $level-emergency")


def _drawn(column: ScreenColumn[Item], shown: Cell | Drawing) -> Content:
    drawn = shown if isinstance(shown, Cell) else shown(column.cells)
    if isinstance(drawn, Content):
        return drawn
    fit = fit_right if column.right else fit_left
    return Content.styled(fit(drawn.text, column.cells), drawn.style)
