"""Widgets that draw lines themselves learn of every size that they are drawn in."""

from __future__ import annotations

from ctxtop.tui.text.listing import Row
from ctxtop.tui.widgets.row_list import RowList, Rows
from textual import on
from textual.app import App, ComposeResult
from textual.containers import Horizontal
from textual.content import Content
from textual.widgets import Static

WIDTH = 80


class Pair(App[None]):
    CSS = "RowList, Static { width: 1fr; }"

    def __init__(self) -> None:
        super().__init__()
        self.list = RowList(id="rows", name="Rows")

    def compose(self) -> ComposeResult:
        with Horizontal():
            yield self.list

    @on(Rows.RoomChanged)
    def draw(self) -> None:
        if self.list.is_attached:
            self.list.show_rows([Row("row", Content("x" * self.list.row_width))])


async def test_rows_are_drawn_again_when_the_layout_is_known_before_the_resize() -> None:
    app = Pair()
    async with app.run_test(size=(WIDTH, 10)) as pilot:
        await pilot.pause()
        assert len(app.list.shown[0].content) == WIDTH
        app.query_one(Horizontal).mount(Static("beside it"))
        # What a scroll does: the layout that follows finds no widget of another size.
        compositor = app.screen._compositor
        compositor.reflow_visible(app.screen, app.size)
        assert compositor.full_map
        await pilot.pause()
        app.export_screenshot()  # without a terminal nothing else draws
        for _ in ("Resize", "RoomChanged"):
            await pilot.pause()
        assert app.list.row_width == WIDTH // 2
        assert len(app.list.shown[0].content) == WIDTH // 2
