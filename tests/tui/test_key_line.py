"""The keys at the foot: pressed by a click, explained under the mouse, never in the way."""

from __future__ import annotations

from typing import ClassVar

import pytest
from ctxtop.tui.widgets.header_footer import KeyLine
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType

NARROW = 24
RED = (255, 0, 0)


class Keyed(App[None]):
    CSS = """
    KeyLine {
        dock: bottom;
        height: 1;
        text-wrap: nowrap;
        text-overflow: clip;
        .key-line--hovered { background: red; }
    }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("o", "open", "Öffne 汉", tooltip="shows it whole"),
        Binding("enter", "open", "the same"),
        Binding("x", "never", "Never", key_display="⏎"),
        Binding("h", "hide", "Hidden", show=False),
        Binding("e", "end", "End"),
    ]

    def __init__(self) -> None:
        super().__init__()
        self.done: list[str] = []
        self.bells = 0

    def compose(self) -> ComposeResult:
        yield KeyLine()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        del parameters
        return None if action == "never" else True

    def bell(self) -> None:
        self.bells += 1

    def action_open(self) -> None:
        self.done.append("open")

    def action_end(self) -> None:
        self.done.append("end")


def lit(line: KeyLine) -> str:
    """What stands on the color of the mouse."""
    return "".join(
        each.text
        for each in line.render_line(0)
        if each.style and each.style.bgcolor and each.style.bgcolor.triplet == RED
    )


async def test_each_action_has_one_key_that_a_click_presses() -> None:
    app = Keyed()
    async with app.run_test(size=(60, 5)) as pilot:
        line = app.query_one(KeyLine)
        await pilot.pause()
        own = [each for each in line.keys if each.binding.action in {"open", "never", "end"}]
        assert [(each.binding.key, each.binding.description) for each in own] == [
            ("o", "Öffne 汉"),
            ("x", "Never"),
            ("e", "End"),
        ]
        text = line.render_line(0).text
        assert text.rstrip().endswith("End")
        for each in own:
            await pilot.click(line, offset=(each.start + each.width - 1, 0))
        assert app.done == ["open", "end"]
        assert app.bells == 1
        await pilot.click(line, offset=(59, 0))
        assert app.done == ["open", "end"]


async def test_what_a_key_does_is_told_under_the_mouse() -> None:
    app = Keyed()
    async with app.run_test(size=(60, 5)) as pilot:
        line = app.query_one(KeyLine)
        await pilot.pause()
        shown = next(each for each in line.keys if each.binding.action == "open")
        await pilot.hover(line, offset=(shown.start + 1, 0))
        assert line.tooltip == "shows it whole"
        assert lit(line) == f" {shown.display} {shown.binding.description} "
        await pilot.hover(line, offset=(59, 0))
        assert line.tooltip is None
        await pilot.hover(line, offset=(shown.start + 1, 0))
        await pilot.hover(None, offset=(5, 1))
        assert line.hovered is None
        assert lit(line) == ""


@pytest.mark.parametrize("width", [NARROW, 5, 1])
async def test_what_has_no_room_is_cut_and_nothing_scrolls(width: int) -> None:
    app = Keyed()
    async with app.run_test(size=(width, 3)) as pilot:
        line = app.query_one(KeyLine)
        await pilot.pause()
        assert line.region.height == 1
        assert line.render_line(0).cell_length == width
