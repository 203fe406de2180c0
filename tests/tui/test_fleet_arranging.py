"""Sorting, grouping, folding, pins, marks and the filter, by keys and by mouse."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from ctxtop.tui.base.ui_state import UiStateFile
from ctxtop.tui.screens.fleet.session_list import ENDED_KEY, SessionOrder
from ctxtop.tui.widgets.controls import FilterBar, FilterInput

from .support import opened
from .writing import answer, append

if TYPE_CHECKING:
    from .support import Opened, Stage


LAST = "Why does March close a day late?"  # in the order of attention


def marked_row(it: Opened) -> str:
    pane = it.pane("sessions")
    assert pane.key is not None
    return it.rows()[pane.key]


async def turned(it: Opened, title: str) -> None:
    await it.until(lambda: title in it.words)


async def click_head(it: Opened, word: str) -> None:
    head = it.pane("sessions").query_one(".head")
    line = it.lines[head.region.y]
    await it.pilot.click(head, offset=(line.index(word) - head.region.x, 0))
    await it.calm()


async def test_a_click_on_a_head_sorts_and_a_second_one_gives_need_back(demo: Stage) -> None:
    async with opened(demo) as it:
        need = it.titles()
        for word, order in (
            ("context", SessionOrder.FULLEST),
            ("left", SessionOrder.SOONEST),
            ("agents", SessionOrder.NONCOMPLIANT),
            ("session", SessionOrder.NAME),
            ("state", SessionOrder.NEWEST),
        ):
            await click_head(it, word)
            assert it.app.fleet.arrangement.order is order
            assert f"sort: {order.value} ▾" in it.words
        await click_head(it, "state")
        assert it.app.fleet.arrangement.order is SessionOrder.ATTENTION
        assert it.titles() == need


async def test_o_groups_by_project_and_the_mark_stays_on_its_session(demo: Stage) -> None:
    async with opened(demo) as it:
        await it.mark("Search p95")
        await it.press("o")
        assert it.pane("sessions").key == demo.titled("Search p95").session_id
        headings = [key for key in it.rows() if key.startswith("/")]
        assert len(headings) == len({one.project for one in it.app.fleet.shown})
        heading = it.rows()["/atlas-api"]
        for words in ("▾ atlas-api", "sessions", "live", "fullest 78 %"):
            assert words in heading
        await it.press("o")
        assert it.pane("sessions").key == demo.titled("Search p95").session_id
        assert [key for key in it.rows() if key.startswith("/")] == [ENDED_KEY]


@pytest.mark.parametrize("keys", [("left", "right"), ("enter", "enter")])
async def test_a_heading_folds_and_unfolds(demo: Stage, keys: tuple[str, str]) -> None:
    async with opened(demo) as it:
        await it.press("o", "g")
        heading = it.pane("sessions").key
        assert heading is not None
        before = len(it.rows())
        await it.press(keys[0])
        assert len(it.rows()) < before
        assert marked_row(it).startswith("▸ ")
        assert len(it.titles()) == 19
        await it.press(keys[1])
        assert len(it.rows()) == before
        assert it.pane("sessions").key == heading


async def test_folding_from_a_session_marks_its_heading(demo: Stage) -> None:
    async with opened(demo) as it:
        await it.mark("Search p95")
        await it.press("o", "left")
        assert it.pane("sessions").key == "/atlas-api"
        await it.settle()
        assert it.rows("agents") == {}
        assert "no session is selected" in it.words
        await it.press("y", "space", "b", "c", "2", "1")
        assert it.app.screen is it.app.fleet
        await it.press("right", "j")
        await it.settle()
        assert it.app.fleet.marked is not None


async def test_a_click_on_a_heading_marks_and_a_double_click_folds(demo: Stage) -> None:
    async with opened(demo, (120, 60)) as it:
        await it.press("o", "j", "j")
        await it.click("sessions", 0)
        assert marked_row(it).startswith("▾ ")
        await it.click("sessions", 0, times=2)
        assert marked_row(it).startswith("▸ ")


async def test_a_long_list_is_laid_out_a_page_at_a_time(
    demo: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ctxtop.tui.screens.fleet.fleet_panes.ROWS_PER_PAGE", 7)
    async with opened(demo) as it:
        assert len(it.titles()) == 19
        *names, more = it.rows()
        assert len(names) == 7
        assert "13 more" in it.rows()[more]
        await it.press("G", "y", "space", "b", "left", "c")
        assert it.app.fleet.marked is None
        await it.press("enter")
        assert len(it.rows()) == 15
        # The mark stands on the first of the new rows.
        assert it.pane("sessions").rows.highlighted == 7
        assert it.app.fleet.marked == it.app.fleet.shown[7].session_id
        await it.press("G", "enter")
        assert len(it.rows()) == 20


async def test_space_marks_several_and_y_copies_all_their_ids(demo: Stage) -> None:
    async with opened(demo) as it:
        await it.press("space", "j", "j", "space")
        first, third = demo.titled("Rotate").session_id, demo.titled("Move checkout").session_id
        assert "2 marked" in it.status
        assert "▲◆" in it.words
        await it.press("y")
        assert it.app.clipboard == f"{first}\n{third}"
        assert any("2 session ids" in toast for toast in it.toasts)
        await it.press("c")
        assert any("only one session" in toast for toast in it.toasts)
        await it.press("escape")
        await it.press("slash", *"is:marked", "enter")
        assert len(it.titles()) == 2
        await it.press("escape", "escape")
        assert "marked" not in it.status
        await it.press("y")
        assert "\n" not in it.app.clipboard


async def test_a_pin_stays_on_top_also_after_the_next_start(demo: Stage) -> None:
    last = demo.titled(LAST).session_id
    async with opened(demo) as it:
        await it.press("G", "b")
        assert next(iter(it.rows())) == last
        assert it.pane("sessions").key == last
        await it.press("s", "o")
        file = UiStateFile(demo.places.store)
        await it.until(lambda: file.read().grouped)
        assert (file.read().pins, file.read().order) == ((last,), "fullest")
    async with opened(demo) as it:
        assert it.app.fleet.arrangement.grouped
        assert it.app.fleet.arrangement.order is SessionOrder.FULLEST
        assert it.app.fleet.shown[0].session_id == last
        await it.press("o", "g", "b", "s", "s", "s", "s", "s", "s", "s")
        assert it.titles()[0] == "Rotate the database password"


async def test_a_filter_by_keys_is_understood_while_it_is_typed(demo: Stage) -> None:
    async with opened(demo) as it:
        await it.press("slash", *"level:")
        assert len(it.titles()) == 19
        assert "level: notice warning" in it.words
        await it.press(*"warning+")
        titles = it.titles()
        assert "Fix the flaky checkout tests" in titles
        assert len(titles) < 5
        assert f"{len(titles)} match “level:warning+”" in it.status
        assert "level: notice" not in it.words
        await it.press("escape", "slash", *"is:hungry")
        assert "is:hungry is not valid. Use waiting" in it.words
        assert len(it.titles()) == 19
        await it.press("enter")
        assert it.pane("sessions").rows.has_focus


async def test_tab_takes_what_is_suggested(demo: Stage) -> None:
    async with opened(demo) as it:
        await it.press("slash", *"is:w")
        typed = it.app.fleet.query_one(FilterInput)
        await it.until(lambda: typed._suggestion == "is:waiting")
        await it.press("tab")
        assert it.app.fleet.query_one(FilterBar).value == "is:waiting"
        assert it.titles() == ["Rotate the database password"]


async def test_the_mark_stays_in_sight_when_its_row_moves(demo: Stage) -> None:
    async with opened(demo, (120, 24)) as it:
        await it.mark("Search offline")
        growing = demo.titled("Search offline")
        append(growing.transcript, answer(900_000))
        await it.until(lambda: "900 k" in it.words or "90 %" in marked_row(it))
        assert it.pane("sessions").key == growing.session_id
        assert "Search off" in it.words


async def test_a_click_on_a_tab_turns_the_lower_pane(demo: Stage) -> None:
    async with opened(demo, (80, 24)) as it:
        assert "² Agents  ³ Summaries  ⁴ Breakdown" in it.words
        for name, title in (("³ Summaries", "³ Summaries"), ("⁴ Breakdown", "⁴ Breakdown of")):
            y = next(n for n, line in enumerate(it.lines) if "² Agents  ³" in line)
            await it.pilot.click(offset=(it.lines[y].index(name) + 1, y))
            await turned(it, title)
        assert "² Agents of" not in it.words
    async with opened(demo, (120, 40)) as it:
        assert "² Agents  ³ Summaries" not in it.words
