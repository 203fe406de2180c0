"""A table's column headers: find the one at a cell, sort by it, and show the sort order."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import Any, Final

from rich.cells import cell_len
from textual.content import Content

from .formats import fit_left, fit_right, shorten_end
from .tables import Column, Item, Shown

SORTED_SIGNS: Final = {False: "▾", True: "▴"}  # after the header; True if ascending


@dataclass(frozen=True, slots=True)
class ColumnOrder:
    """What a table is sorted by."""

    header: str  # of the column
    ascending: bool


def first_order(column: Column[Any, Any]) -> ColumnOrder:
    """Return the order of the first click: words from A, numbers from the largest."""
    return ColumnOrder(column.header, ascending=not column.right)


def next_order(order: ColumnOrder | None, column: Column[Any, Any]) -> ColumnOrder | None:
    """Return the order after a click: the first one, its reverse, then None for the default."""
    first = first_order(column)
    if order == first:
        return replace(first, ascending=not first.ascending)
    return first if order is None or order.header != first.header else None


def sort_items(
    items: Iterable[Item], columns: Iterable[Column[Item, Shown]], order: ColumnOrder | None
) -> list[Item]:
    """Sort by a column; items without a value come last."""
    column = next((each for each in columns if order and each.header == order.header), None)
    if column is None or column.sort_key is None or order is None:
        return list(items)
    keyed = [(column.sort_key(item), item) for item in items]
    known = [pair for pair in keyed if pair[0] is not None]
    known.sort(key=lambda pair: pair[0], reverse=not order.ascending)
    return [item for _, item in known] + [item for key, item in keyed if key is None]


def column_at(
    columns: Sequence[Column[Item, Shown]], gap: int, x: int
) -> Column[Item, Shown] | None:
    """Return the column at a cell of the header."""
    ends = accumulate(column.cells + gap for column in columns)
    found = (column for column, end in zip(columns, ends, strict=True) if x < end)
    return next(found, None) if x >= 0 else None


def header_line(
    columns: Iterable[Column[Item, Shown]],
    gap: str = " ",
    style: str = "$quiet",
    order: ColumnOrder | None = None,
) -> Content:
    return Content(gap).join(_head(each, style, order) for each in columns)


def _head(column: Column[Item, Shown], style: str, order: ColumnOrder | None) -> Content:
    text = column.header
    if order is not None and column.header == order.header:
        text = sorted_header(column, SORTED_SIGNS[order.ascending])
        style = "bold $foreground"
    fit = fit_right if column.right else fit_left
    return Content.styled(fit(text, column.cells), style)


def sorted_header(column: Column[Item, Shown], sign: str) -> str:
    """Write a header with the sort sign; the header is shortened if both do not fit."""
    room = column.cells - cell_len(column.header)
    if room > len(sign):
        return f"{column.header} {sign}"
    return shorten_end(column.header, max(0, column.cells - len(sign))) + sign
