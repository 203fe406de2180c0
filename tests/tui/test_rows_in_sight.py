"""A list of rows asks for the drawing of what is seen, and of nothing else."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ctxtop.tui.text.listing import Row
from ctxtop.tui.widgets.row_list import Rows
from textual.app import App
from textual.content import Content

if TYPE_CHECKING:
    import pytest
    from textual.app import ComposeResult

SEEN, ALL = 10, 500


class Listed(App[None]):
    CSS = "Rows { overflow-x: hidden; }"

    def compose(self) -> ComposeResult:
        yield Rows()


def rows(word: str) -> list[Row]:
    return [Row(f"{number}", Content(f"{word} {number}")) for number in range(ALL)]


async def test_rows_out_of_sight_cost_nothing_until_they_are_seen(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    app = Listed()
    async with app.run_test(size=(40, SEEN)) as pilot:
        shown = app.query_one(Rows)
        shown.show(rows("first"))
        await pilot.pause()
        asked: list[int] = []
        refresh = shown.refresh_lines

        def note(start: int, count: int = 1) -> None:
            asked.append(start)
            refresh(start, count)

        monkeypatch.setattr(shown, "refresh_lines", note)
        shown.show(rows("second"))
        assert asked == list(range(SEEN))
        await pilot.pause()
        assert shown.render_line(3).text.rstrip() == "second 3"
        shown.action_edge(-1)
        await pilot.pause()
        assert shown.render_line(SEEN - 1).text.rstrip() == f"second {ALL - 1}"
        assert shown.render_line(0).text.rstrip() == f"second {ALL - SEEN}"
