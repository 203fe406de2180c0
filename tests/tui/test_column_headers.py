"""Heads of tables: tooltips, the order that a click chooses, and its sign."""

from __future__ import annotations

from ctxtop.tui.screens.fleet.session_table import lay_out_columns, measured_by
from ctxtop.tui.text.column_headers import (
    ColumnOrder,
    column_at,
    header_line,
    next_order,
    sort_items,
)
from ctxtop.tui.text.formats import used_percent
from ctxtop.tui.text.gauge import FULL_CELL, gauge
from ctxtop.tui.text.listing import Row
from ctxtop.tui.text.tables import Column
from ctxtop.tui.widgets.row_list import RowList, Rows
from msgspec.structs import replace
from textual import on
from textual.app import App, ComposeResult
from textual.content import Content
from textual.widgets import Static

from .makers import WINDOW, context, session

Entry = tuple[str, int | None]

NAME: Column[Entry, str] = Column(
    "name", lambda it: it[0], cells=8, tooltip="what it is called", sort_key=lambda it: it[0]
)
SIZE: Column[Entry, str] = Column(
    "size", lambda it: str(it[1]), right=True, cells=4, sort_key=lambda it: it[1]
)
NOTE: Column[Entry, str] = Column("note", lambda _: "", cells=6)
COLUMNS = (NAME, SIZE, NOTE)
ENTRIES: list[Entry] = [("b", 1), ("a", None), ("c", 3)]


def test_words_rise_first_and_numbers_fall_first_and_the_third_click_restores() -> None:
    for column, first in ((NAME, True), (SIZE, False)):
        one = next_order(None, column)
        assert one == ColumnOrder(column.header, ascending=first)
        two = next_order(one, column)
        assert two == ColumnOrder(column.header, ascending=not first)
        assert next_order(two, column) is None
    assert next_order(ColumnOrder("name", ascending=True), SIZE) == next_order(None, SIZE)


def test_what_has_no_value_is_last_in_both_orders() -> None:
    for ascending, expected in ((False, "cba"), (True, "bca")):
        order = ColumnOrder("size", ascending=ascending)
        assert "".join(name for name, _ in sort_items(ENTRIES, COLUMNS, order)) == expected
    assert sort_items(ENTRIES, COLUMNS, None) == ENTRIES
    assert sort_items(ENTRIES, COLUMNS, ColumnOrder("gone", ascending=True)) == ENTRIES


def test_the_sign_stands_in_the_head_even_without_room() -> None:
    line = header_line(COLUMNS, order=ColumnOrder("size", ascending=False))
    assert line.plain == "name     si…▾ note  "
    assert header_line(COLUMNS, order=ColumnOrder("name", ascending=True)).plain[:7] == "name ▴ "
    assert header_line(COLUMNS).plain == "name     size note  "


def test_a_cell_belongs_to_the_column_before_its_gap() -> None:
    found = [column_at(COLUMNS, 1, x) for x in (-1, 0, 8, 9, 13, 14, 20, 21)]
    assert found == [None, NAME, NAME, SIZE, SIZE, NOTE, NOTE, None]


class Table(App[None]):
    def compose(self) -> ComposeResult:
        yield RowList(id="table", name="Table")

    def on_mount(self) -> None:
        self.draw()

    @on(Rows.RoomChanged)
    def draw(self) -> None:
        table = self.query_one(RowList)
        table.show_columns(COLUMNS)
        table.show_rows([Row(name, Content(name)) for name, _ in table.in_order(ENTRIES)])


async def test_a_click_on_a_head_sorts_and_shows_the_top() -> None:
    app = Table()
    async with app.run_test() as pilot:
        table = app.query_one(RowList)
        table.highlight("c")
        assert await pilot.click(".head", offset=(10, 0))
        assert [row.key for row in table.shown] == ["c", "b", "a"]
        assert table.key == "c"
        assert await pilot.click(".head", offset=(1, 0))
        assert [row.key for row in table.shown] == ["a", "b", "c"]
        assert table.key == "a"
        # A head without an order leaves all as it is.
        assert await pilot.click(".head", offset=(15, 0))
        assert [row.key for row in table.shown] == ["a", "b", "c"]
        await pilot.hover(".head", offset=(1, 0))
        assert app.query_one(".head", Static).tooltip == "what it is called"
        await pilot.hover(".head", offset=(10, 0))
        assert app.query_one(".head", Static).tooltip is None


def test_the_header_names_what_the_bars_are_full_at() -> None:
    """A limit of the settings, the window, or for some sessions the one and for some the other."""
    by_window = session(context=context(80_000))
    limited = replace(context(80_000), window=replace(WINDOW, limit=100_000))
    by_limit = session(context=limited)
    assert used_percent(by_window.context) == "40 %"
    assert used_percent(limited) == "80 %"
    assert gauge(limited, 10).plain.count(FULL_CELL) == 2 * gauge(
        by_window.context, 10
    ).plain.count(FULL_CELL)
    for sessions, name in (
        ([by_window, by_window], "context"),
        ([by_limit, by_limit], "of limit"),
        ([by_window, by_limit], "of window or limit"),
    ):
        header = lay_out_columns(160).session_header(measured_by=measured_by(sessions)).plain
        assert f" {name} " in header
