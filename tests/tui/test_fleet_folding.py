"""The heading of the ended sessions, the counts that filter, and the line under the list."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ctxtop.tui.base.ui_state import UiStateFile
from ctxtop.tui.screens.fleet.fleet_panes import SessionDetail
from ctxtop.tui.screens.fleet.session_list import ENDED_KEY, SessionOrder
from ctxtop.tui.widgets.controls import FilterBar
from ctxtop.tui.widgets.header_footer import StatusLine

from .support import opened

if TYPE_CHECKING:
    from .support import Stage


async def test_ended_sessions_fold_and_stay_folded_at_the_next_start(demo: Stage) -> None:
    async with opened(demo) as it:
        assert it.rows()[ENDED_KEY].startswith("▾ ended · 11")
        await it.press("G", "left")
        assert list(it.rows())[-1] == ENDED_KEY == it.pane("sessions").key
        assert it.rows()[ENDED_KEY].startswith("▸ ended · 11")
        assert len(it.rows()) == 9
        file = UiStateFile(demo.places.store)
        await it.until(lambda: file.read().ended_folded is True)
    async with opened(demo) as it:
        assert len(it.rows()) == 9
        await it.press("G", "enter")
        assert len(it.rows()) == 20
        # Whoever looks for something finds it among all.
        await it.press("left", "slash", *"invoice")
        assert [it.app.fleet.shown[0].session_id] == list(it.rows())


async def test_after_a_sort_the_top_is_shown(demo: Stage) -> None:
    async with opened(demo, (120, 24)) as it:
        await it.press("G", "s")
        assert it.app.fleet.arrangement.order is SessionOrder.FULLEST
        assert it.pane("sessions").rows.scroll_offset.y == 0
        assert it.app.fleet.marked == it.app.fleet.shown[0].session_id


async def test_a_click_on_a_count_shows_what_it_counts(demo: Stage) -> None:
    async with opened(demo) as it:
        line = it.app.fleet.query_one(StatusLine)
        for words, typed, found in (
            ("3 working", "is:working", 3),
            ("8 live", "live:", 8),
            ("19 sessions", "", 19),
            ("1 warning", "live: >=80%", 1),
        ):
            await it.pilot.click(line, offset=(it.status.index(words) + 1, 0))
            await it.calm()
            assert (it.app.fleet.query_one(FilterBar).value, len(it.titles())) == (typed, found)


async def test_the_line_under_the_list_is_that_of_the_marked_row(demo: Stage) -> None:
    async with opened(demo, (160, 40)) as it:
        line = it.app.fleet.query_one(SessionDetail)
        assert str(line.render()).startswith("Rotate the database password · waits: Bash: ")
        await it.press("j")
        assert str(line.render()).startswith("Fix the flaky checkout tests · shop · ")


async def test_the_header_explains_its_columns(demo: Stage) -> None:
    async with opened(demo) as it:
        head = it.pane("sessions").query_one(".head")
        x = it.lines[head.region.y].index("left") - head.region.x
        await it.pilot.hover(head, offset=(x, 0))
        assert "auto-compacts" in str(head.tooltip)


async def test_a_mistyped_key_is_said(demo: Stage) -> None:
    async with opened(demo, (160, 40)) as it:
        await it.press("slash", *"lvel:high")
        assert 'unknown filter "lvel:". Use level:, is:, model:' in it.words
