"""The log: what the past and the present tell, its filter, and that it follows its end."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from ctxtop.collectors.demo import DemoFolder, make_demo_history
from ctxtop.core.model.problem import Problem
from ctxtop.tui.base.messages import NoticeReported, ProblemReported, ProblemResolved
from ctxtop.tui.page_kit.page import ReadingScreen
from ctxtop.tui.screens.log.log_screen import EMPTY_TEXT, LogScreen
from ctxtop.tui.text.severity import EventSeverity
from ctxtop.tui.widgets.controls import FilterBar
from ctxtop.tui.widgets.row_list import RowList
from rich.cells import cell_len

from .comparing import compare_sizes, counted
from .support import NOW, NOW_MS, Stage, opened

if TYPE_CHECKING:
    from .support import Opened

WRONG = Problem("projects/[red]x", "cannot be read \x1b[31m(rights)", "check its permissions")


@pytest.fixture
def past(demo: Stage) -> Stage:
    """The demo in which something has happened."""
    folder = DemoFolder(demo.root, demo.sessions)
    make_demo_history(folder, demo.places.store, NOW)
    return demo


def rows(it: Opened) -> list[str]:
    return [row.content.plain for row in it.app.screen.query_one(RowList).shown]


async def open_log(it: Opened) -> RowList:
    await it.press("L")
    await it.until(lambda: isinstance(it.app.screen, LogScreen))
    await it.until(lambda: any("read, " in row for row in rows(it)))
    return it.app.screen.query_one(RowList)


async def test_it_tells_what_was_set_aside_and_what_was_done(past: Stage) -> None:
    async with opened(past) as it:
        await open_log(it)
        text = "\n".join(rows(it))
        for words in (
            "could not be read: not JSON",
            "weather-report",
            "2 of an unknown type",
            "MoonRise",
            "compacted: ≈ 171,900 to 82,400 tokens",
            "not changed automatically: a process has the",
            "a store was moved aside and rebuilt",
            "tokens, auto",
            "reached at",
            "read, ",
        ):
            assert words in text, words
        assert "\x1b" not in it.words
        await it.press("escape")
        assert it.app.screen is it.app.fleet


async def test_the_end_is_followed_by_whoever_stands_there(past: Stage) -> None:
    async with opened(past, (120, 24)) as it:
        pane = await open_log(it)
        assert pane.rows.highlighted == len(pane.shown) - 1
        it.app.post_message(ProblemReported(WRONG))
        await it.until(lambda: "cannot be read [31m(rights)" in rows(it)[-1])
        assert pane.rows.highlighted == len(pane.shown) - 1
        await it.press("k", "k")
        key = pane.key
        it.app.post_message(ProblemResolved(WRONG.where))
        await it.until(lambda: rows(it)[-1].rstrip().endswith("resolved"))
        assert pane.key == key
        assert "G: to the end" in it.words
        await it.press("G")
        assert "follows the end" in it.words


async def test_it_is_filtered_by_words_and_by_level(past: Stage) -> None:
    async with opened(past) as it:
        await open_log(it)
        count = len(rows(it))
        await it.press("slash", *"auto", "!", *"hook")
        assert it.app.screen.query_one(FilterBar).value == "auto!hook"
        await it.press("escape")
        assert len(rows(it)) == count
        await it.press("slash", *"weather", "enter")
        assert [row for row in rows(it) if "weather-report" not in row] == []
        await it.press("escape")
        assert len(rows(it)) == count
        await it.press("l")
        assert 0 < len(rows(it)) < count
        assert all("▲" in row or "✗" in row for row in rows(it))
        assert "warnings only" in it.words
        await it.press("l")
        assert "problems only" in it.words
        await it.press("escape")
        assert len(rows(it)) == count


async def test_paused_it_stands_still(past: Stage) -> None:
    async with opened(past) as it:
        await open_log(it)
        await it.press("p")
        before = rows(it)
        it.app.post_message(NoticeReported(Problem("somewhere", "something", "nothing")))
        await it.calm()
        assert rows(it) == before
        await it.press("p")
        await it.until(lambda: "something" in rows(it)[-1])


async def test_an_entry_is_opened_and_copied_whole(past: Stage) -> None:
    async with opened(past) as it:
        await open_log(it)
        await it.press("slash", *"not JSON", "enter", "y")
        assert "offset  " in it.app.clipboard
        await it.press("enter")
        await it.until(lambda: isinstance(it.app.screen, ReadingScreen))
        assert "`ctxtop scan --bad` lists all" in it.text
        await it.press("escape")
        assert isinstance(it.app.screen, LogScreen)


async def test_the_mouse_opens_an_entry(past: Stage) -> None:
    async with opened(past) as it:
        pane = await open_log(it)
        await it.pilot.click(pane.rows, offset=(20, 3), times=2)
        await it.until(lambda: isinstance(it.app.screen, ReadingScreen))


async def test_a_folder_where_nothing_happened(stage: Stage) -> None:
    async with opened(stage, (80, 20)) as it:
        await it.press("L")
        await it.until(lambda: isinstance(it.app.screen, LogScreen))
        await it.until(lambda: EMPTY_TEXT[:30] in it.words)


async def test_it_fits_any_terminal(past: Stage) -> None:
    async with opened(past) as it:
        pane = await open_log(it)
        for width, height in ((60, 20), (240, 70)):
            await it.resize((width, height))
            await it.until(lambda cells=width: {cell_len(line) for line in it.lines} == {cells})  # type: ignore[misc]
            assert pane.rows.size.height > 8


async def test_how_it_looks(past: Stage) -> None:
    async with opened(past) as it:
        await counted(it)
        it.app.event_log._events.clear()
        it.app.event_log.add(
            NOW_MS - 9_000, EventSeverity.NOTE, "scan", "27 files", "read, 1.4 MB in 0.3 s"
        )
        it.app.event_log.add(
            NOW_MS - 5_000, EventSeverity.PROBLEM, "problem", WRONG.where, WRONG.what, WRONG.fix
        )
        it.app.event_log.add(NOW_MS - 1_000, EventSeverity.NOTE, "problem", WRONG.where, "resolved")
        await open_log(it)
        await compare_sizes(it, "log")
