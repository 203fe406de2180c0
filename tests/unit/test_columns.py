"""How a table's columns share the width of a screen."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from ctxtop.tui.text.column_headers import header_line
from ctxtop.tui.text.tables import ANY_WIDTH, Cell, Column, share_cells
from ctxtop.tui.text.text_lines import grow_columns

if TYPE_CHECKING:
    from ctxtop.tui.text.text_lines import ScreenColumn


@pytest.mark.parametrize(
    ("needs", "room", "cells"),
    [
        ([10, 40], 100, [10, 90]),  # all have what they need, and the last one the rest
        ([10, 90], 60, [10, 50]),  # the short one leaves its part to the long one
        ([90, 10], 60, [50, 10]),
        ([90, 80], 60, [30, 30]),
        ([5, 90, 90], 65, [5, 30, 30]),
        ([10, 10], -3, [0, 0]),
    ],
)
def test_what_one_column_does_not_need_is_left_to_the_others(
    needs: list[int], room: int, cells: list[int]
) -> None:
    assert share_cells(needs, room) == cells


COLUMNS: list[ScreenColumn[tuple[str, str]]] = [
    Column("age", lambda _: Cell("1 d"), cells=5),
    Column("title", lambda each: Cell(each[0]), cells=10, grows_to=30),
    Column("state", lambda _: Cell("done"), cells=6, priority=1),
    Column("text", lambda each: Cell(each[1]), cells=10, grows_to=ANY_WIDTH),
]
ITEMS = [("short", "x" * 50), ("a title of 21 letters", "x")]


@pytest.mark.parametrize(
    ("width", "expected"),
    [
        (20, {"age": 5, "title": 6, "text": 7}),  # narrower than they can be
        (27, {"age": 5, "title": 10, "text": 10}),
        (60, {"age": 5, "title": 21, "state": 6, "text": 25}),
        (100, {"age": 5, "title": 21, "state": 6, "text": 65}),
    ],
)
def test_columns_grow_to_what_their_values_need(width: int, expected: dict[str, int]) -> None:
    found = grow_columns(COLUMNS, ITEMS, width)
    assert {column.header: column.cells for column in found} == expected
    assert header_line(found).cell_length == width


def test_a_column_grows_no_further_than_it_may() -> None:
    items = [("long " * 20, "")]
    found = grow_columns(COLUMNS, items, 100)
    assert {column.header: column.cells for column in found}["title"] == 30
