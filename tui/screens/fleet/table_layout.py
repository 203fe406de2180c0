"""Which columns of a table fit a width, how wide each is, and the header above them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Final, Generic

import msgspec
from msgspec.structs import replace
from textual.content import Content

from ....core.model.levels import PlacedThreshold
from ...text import gauge
from ...text.column_headers import header_line, sorted_header
from ...text.formats import fit_left
from ...text.gauge import PERCENT_CELLS
from ...text.session_text import CACHE_CELLS
from ...text.tables import Item, fitting_columns, total_cells
from ...text.text_lines import ScreenColumn

COLUMN_GAP: Final = " "
MIN_TITLE_CELLS: Final = 24  # a shorter title no longer tells one session from another
MAX_TITLE_CELLS: Final = 80  # from which other columns are worth more
MIN_STATE_CELLS: Final = 12  # a state's shortest word, and its age
MAX_STATE_CELLS: Final = 28  # what a session waits for, and its age
MAX_BAR_CELLS: Final = 40  # a longer bar is not read more exactly
LAST_PRIORITY: Final = 8  # columns of a higher one need room for a longer bar too
MIN_CACHE_CELLS: Final = 5  # ≈cold
WIDE_WIDTH: Final = 150  # of the table in cells; from here on a cold cache says what it costs
NARROW_WIDTH: Final = 90  # of the table in cells; below it the title is worth more than branches
TALL_BAR_CELLS: Final = 14  # from which both marks have their percentage above them

_TITLE_WIDTH: Final = 75  # of the table in cells; from here on the title gets half of every cell

Needs = Mapping[str, int]
"""The cells that each column's longest text needs, by its name; 0 leaves the column out."""

Growth = Sequence[tuple[tuple[str, int], ...]]
"""Groups of columns, each with the cells up to which it grows, in the order of the groups."""


def title_cells(width: int) -> int:
    """Return the cells that a title has at least, before further columns get any.

    24 in a terminal of 80 columns, 40 in one of 120 and 80 in one of 200.
    """
    share = MIN_TITLE_CELLS - 4 + (width - _TITLE_WIDTH) // 2
    return min(max(MIN_TITLE_CELLS, share), MAX_TITLE_CELLS)


class TableLayout(msgspec.Struct, Generic[Item], frozen=True):
    columns: tuple[ScreenColumn[Item], ...]

    @property
    def width(self) -> int:
        return total_cells(self.columns, len(COLUMN_GAP))

    def merge_columns(self, names: Iterable[str], into: str) -> tuple[ScreenColumn[Item], ...]:
        """Return the columns with one wide column in place of all of these."""
        merged = {*names}
        cells = total_cells([each for each in self.columns if each.name in merged], len(COLUMN_GAP))
        return tuple(
            replace(column, cells=cells) if column.name == into else column
            for column in self.columns
            if column.name == into or column.name not in merged
        )

    def header(
        self, thresholds: Iterable[PlacedThreshold], sorted_column: str, sign: str
    ) -> Content:
        """Write the header; above the bars it has the percentages of `thresholds`."""
        headers = []
        for column in self.columns:
            is_sorted = bool(column.header) and column.name == sorted_column
            style = "bold $foreground" if is_sorted else "$quiet"
            name = sorted_header(column, sign) if is_sorted else column.header
            named = replace(column, header=name)
            if column.name == "gauge":
                headers.append(_gauge_header(named, tuple(thresholds)).stylize(style))
            else:
                headers.append(header_line([named], style=style))
        return Content(COLUMN_GAP).join(headers)


def lay_out(
    columns: Iterable[ScreenColumn[Item]], width: int, needs: Needs, growth: Growth
) -> TableLayout[Item]:
    """Choose columns for a width, and lengthen some of them by what is left over."""
    state = min(max(needs.get("doing", 0), MIN_STATE_CELLS), MAX_STATE_CELLS - 9)
    title = max(MIN_TITLE_CELLS, needs.get("title", MAX_TITLE_CELLS))
    starts = {"title": min(title_cells(width), title), "doing": state}
    most = LAST_PRIORITY * 2 if width >= NARROW_WIDTH else 1
    if width >= WIDE_WIDTH:
        starts["cache"] = min(needs.get("cache", MIN_CACHE_CELLS), CACHE_CELLS)
    wanted = [
        replace(column, cells=starts.get(column.name, column.cells))
        for column in columns
        if column.priority <= most and (not column.priority or needs.get(column.name, 1))
    ]
    shown = fitting_columns(wanted, width, _comfortable_width)
    cells = {column.name: column.cells for column in shown}
    spare = width - total_cells(shown, len(COLUMN_GAP))
    if spare < 0:
        _shrink(cells, -spare)
    else:
        _grow(cells, spare, growth)
    return TableLayout(tuple(replace(column, cells=cells[column.name]) for column in shown))


def _comfortable_width(columns: Sequence[ScreenColumn[Item]]) -> int:
    """Count the cells that make these columns worthwhile: a longer bar precedes the last ones."""
    many = any(column.priority > LAST_PRIORITY for column in columns)
    spare = TALL_BAR_CELLS - gauge.MIN_GAUGE_CELLS if many else 0
    return total_cells(columns, len(COLUMN_GAP)) + spare


def _shrink(cells: dict[str, int], missing: int) -> None:
    """Shorten the state, then the title; the bar never."""
    for name, least in (("doing", MIN_STATE_CELLS), ("title", 0)):
        taken = min(missing, max(0, cells[name] - least))
        cells[name] -= taken
        missing -= taken


def _grow(cells: dict[str, int], spare: int, growth: Growth) -> None:
    """Distribute spare cells over the columns that benefit most; the title gets the rest."""
    for group in growth:
        growing = [each for each in group if cells.get(each[0], each[1]) < each[1]]
        while spare and growing:
            for name, _ in growing[:spare]:
                cells[name] += 1
                spare -= 1
            growing = [each for each in growing if cells[each[0]] < each[1]]
    cells["title"] += spare


def _gauge_header(column: ScreenColumn[Item], thresholds: tuple[PlacedThreshold, ...]) -> Content:
    """Write each mark's percentage above it, then the legend of the trigger's line."""
    marks = sorted(gauge.mark_cells(thresholds, column.cells - PERCENT_CELLS).items())
    names = [(cell, f"{threshold.at * 100:.0f}") for cell, threshold in marks]
    words = _place_names(column.header, names) or _place_names(column.header, names[-1:])
    words = words or column.header
    legend = f" {gauge.TRIGGER_MARK}auto"
    if marks and len(words) + len(legend) <= column.cells:
        words += legend
    return Content(fit_left(words, column.cells))


def _place_names(header: str, names: Sequence[tuple[int, str]]) -> str:
    """Write each name above its mark; empty if there is no room.

    Where two names do not fit beside each other, the first ends above its mark.
    """
    starts = [cell for cell, _ in names]
    if any(later - start <= 2 for start, later in pairwise(starts)):
        starts = [starts[0] - len(names[0][1]) + 1, *starts[1:]]
    words = header
    for start, (_, name) in zip(starts, names, strict=True):
        if start <= len(words):
            return ""
        words = f"{words:<{start}}{name}"
    return words
