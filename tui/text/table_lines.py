"""Lines of a screen's table: its header, and an item's cells as its columns draw them."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from textual.content import Content

from ..tables import Cell, Column, Item, Shown
from .formats import fit_left, fit_right

Drawing = Callable[[int], Cell | Content]
"""Draws in so many cells; what it returns as Content takes exactly these."""

ScreenColumn = Column[Item, Cell | Drawing]
"""A column of a table on a screen."""


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
