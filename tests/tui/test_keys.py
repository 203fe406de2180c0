"""Every key of the fleet's screen, and the mouse."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from ctxtop.tui.app import CtxtopApp
from ctxtop.tui.base.theme import THEMES
from ctxtop.tui.screens.fleet.session_list import SessionOrder
from ctxtop.tui.screens.help_and_commands import HelpScreen, help_text
from ctxtop.tui.widgets.controls import FilterBar
from ctxtop.tui.widgets.row_list import RowList
from textual.command import CommandPalette

from .support import opened

if TYPE_CHECKING:
    from .support import Stage


async def test_the_mark_moves_with_the_keys_of_vi_and_less(demo: Stage) -> None:
    async with opened(demo, (120, 24)) as it:
        rows = it.pane("sessions").rows
        places = []
        for key in ("j", "j", "k", "down", "up", "G", "k", "g", "ctrl+d", "ctrl+u", "end", "home"):
            await it.press(key)
            places.append(rows.highlighted)
        page = places[8]
        assert page is not None
        assert page > 2
        assert places == [1, 2, 1, 2, 1, 19, 18, 0, page, 0, 19, 0]


async def test_the_agents_follow_the_mark(demo: Stage) -> None:
    async with opened(demo) as it:
        await it.mark("Search p95")
        assert len(it.rows("agents")) == 5
        await it.mark("Search offline")
        assert it.rows("agents") == {}


async def test_enter_shows_a_session_s_report_and_esc_goes_back(demo: Stage) -> None:
    async with opened(demo) as it:
        await it.mark("Fix the flaky")
        await it.press("enter")
        await it.reading()
        assert "sessions › Fix the flaky checkout tests" in it.lines[0]
        for words in (
            "163,412 tokens  82 %",
            "the last answer's input",
            "200,000",
            "known for this model",
            "82 %",
            demo.titled("Fix the flaky").session_id,
            "idle in tmux work:@2.%2",
            "2026-11-20 11:57:40, 2 min ago",
            "warning at 82 %",
        ):
            assert words in it.text
        await it.press("escape")
        assert it.app.screen is it.app.fleet


async def test_a_report_names_the_compactions_and_a_refusal(demo: Stage) -> None:
    async with opened(demo) as it:
        await it.mark("Explain the invoice run")
        await it.press("enter")
        await it.reading()
        assert it.text.count("20 lines") == 0
        assert "→ ≈" in it.text
        assert "last refusal" in it.text
        assert "164,300 tokens" in it.text


async def test_numbers_go_to_the_panes_and_enter_opens_what_is_there(demo: Stage) -> None:
    async with opened(demo) as it:
        await it.mark("Ship the wishlist")
        await it.press("2", "j", "enter")
        await it.reading()
        assert "sessions › Ship the wishlist: API, page, review › node-backend" in it.lines[0]
        assert "Changed files" in it.words
        await it.press("escape", "g", "enter")
        await it.reading()
        assert demo.titled("Ship the wishlist").session_id in it.text
        await it.press("escape", "3", "enter")
        await it.reading()
        assert "sessions › Ship the wishlist: API, page, review › general-purpose" in it.lines[0]
        assert "flushed every five seconds" in it.words
        await it.press("escape", "escape")
        assert it.pane("sessions").rows.has_focus
        await it.press("2", "1")
        assert it.pane("sessions").rows.has_focus


async def test_a_long_text_scrolls_with_the_keys(demo: Stage) -> None:
    async with opened(demo, (120, 24)) as it:
        await it.press("3", "enter")
        await it.reading()
        page = it.app.screen.query_one("#page")
        places = []
        for key in ("j", "k", "space", "ctrl+u", "G", "g"):
            await it.press(key)
            places.append(page.scroll_offset.y)
        end = page.max_scroll_y
        assert end > 10
        assert places[:2] == [1, 0]
        assert places[2] > 5
        assert places[3:] == [0, end, 0]


async def test_a_filter_works_while_it_is_typed_and_esc_clears_it(demo: Stage) -> None:
    async with opened(demo) as it:
        await it.press("slash", *"title:check")
        assert it.titles() == ["Fix the flaky checkout tests", "Move checkout to the new tax API"]
        assert "2 match “title:check”" in it.status
        await it.press("enter")
        assert it.pane("sessions").rows.has_focus
        assert it.app.fleet.query_one(FilterBar).display
        assert len(it.titles()) == 2
        await it.press("j")
        await it.settle()
        assert it.pane("sessions").key == demo.titled("Move checkout").session_id
        await it.press("escape")
        assert len(it.titles()) == 19
        assert it.pane("sessions").key == demo.titled("Move checkout").session_id
        assert not it.app.fleet.query_one(FilterBar).display


async def test_esc_in_the_bar_clears_and_leaves_it(demo: Stage) -> None:
    async with opened(demo) as it:
        await it.press("slash", *"opus", "escape")
        assert len(it.titles()) == 19
        assert it.pane("sessions").rows.has_focus
        assert not it.app.fleet.query_one(FilterBar).display


async def test_a_filter_that_matches_nothing_says_so_and_keeps_the_focus(demo: Stage) -> None:
    async with opened(demo) as it:
        await it.press("slash", *"nothing-has-this", "enter")
        assert "no session matches “nothing-has-this”; Esc shows all" in it.words
        assert it.pane("sessions").rows.has_focus
        await it.settle()
        await it.press("enter", "y", "j", "G", "z", "z", "escape")
        assert len(it.titles()) == 19
        assert it.pane("sessions").rows.has_focus
        await it.press("j")
        assert it.pane("sessions").rows.highlighted == 1


async def test_a_filter_may_hold_what_markup_would_obey(demo: Stage) -> None:
    async with opened(demo) as it:
        await it.press("slash", *"[/foo]")
        assert it.titles() == ["Show [/foo] and [bold red] as they are"]
        assert "1 match “[/foo]”" in it.status
        await it.press(*"[bold]x")
        assert "no session matches “[/foo][bold]x”" in it.words


async def test_the_summaries_search_looks_through_all_and_esc_restores(demo: Stage) -> None:
    async with opened(demo) as it:
        await it.press("3", "slash", *"terraf")
        await it.settle()
        assert 0 < len(it.rows("summaries")) < 28
        assert len(it.titles()) == 19
        await it.press("enter", "escape")
        await it.settle()
        assert len(it.rows("summaries")) == 28
        await it.press("slash", *"quux*(", "enter")
        await it.settle()
        assert "no summary has the words “quux*(”; Esc shows all" in it.words
        await it.press("escape")
        await it.settle()
        assert len(it.rows("summaries")) == 28


async def test_each_pane_keeps_its_own_words(demo: Stage) -> None:
    async with opened(demo) as it:
        await it.press("slash", *"shop", "enter", "3", "slash")
        bar = it.app.fleet.query_one(FilterBar)
        assert bar.value == ""
        await it.press(*"tax", "enter", "1", "slash")
        assert bar.value == "shop"
        await it.press("escape", "3")
        assert it.app.fleet.search == "tax"
        await it.press("escape", "escape")
        assert (it.app.fleet.search, it.app.fleet.arrangement.filter_text) == ("", "")


async def test_s_goes_through_the_orders(demo: Stage) -> None:
    async with opened(demo) as it:
        need = it.titles()
        firsts = {}
        for order in [*list(SessionOrder)[1:], SessionOrder.ATTENTION]:
            await it.press("s")
            assert f"sort: {order.value} ▾" in it.words
            firsts[order] = it.titles()[0]
        assert firsts[SessionOrder.FULLEST] == "Explain the invoice run"
        assert firsts[SessionOrder.SOONEST] == "Fix the flaky checkout tests"
        assert firsts[SessionOrder.NEWEST] == "Move checkout to the new tax API"
        assert firsts[SessionOrder.NONCOMPLIANT] == "Search p95 below 120 ms"
        assert firsts[SessionOrder.NAME] == "Map the ingest worker"
        assert it.titles() == need
        assert it.pane("sessions").key == demo.titled("Rotate").session_id


async def test_y_copies_what_is_marked(demo: Stage) -> None:
    async with opened(demo) as it:
        await it.mark("Ship the wishlist")
        session_id = demo.titled("Ship the wishlist").session_id
        await it.press("y")
        assert it.app.clipboard == session_id
        assert f"copied session id {session_id}" in "\n".join(it.toasts)
        await it.press("2", "j", "y")
        assert it.app.clipboard.startswith("[COMPRESSED] agent_type: node-backend")
        assert "\n" in it.app.clipboard
        await it.press("g", "y")
        assert it.app.clipboard == session_id
        await it.press("3", "y")
        await it.until(lambda: it.app.clipboard.startswith("I went through"))
        assert len(it.app.clipboard.split("\n")) == 41


async def test_y_copies_the_whole_of_what_is_read(demo: Stage) -> None:
    async with opened(demo) as it:
        await it.press("3", "enter")
        await it.reading()
        await it.press("y")
        assert len(it.app.clipboard.split("\n")) == 41


async def test_z_shows_one_pane_alone_and_esc_gives_it_back(demo: Stage) -> None:
    async with opened(demo) as it:
        await it.press("z")
        assert it.app.fleet.zoomed is it.pane("sessions")
        assert "Summaries" not in it.words
        assert next(iter(it.rows().values())) in it.words
        await it.press("escape")
        assert it.app.fleet.zoomed is None
        assert "Summaries" in it.words
        await it.press("3", "z", "z")
        assert it.app.fleet.zoomed is None
        await it.press("z")
        row = next(iter(it.rows("summaries").values())).split("\n")[0]
        assert len(row) > 100
        assert row in it.words
        await it.press("escape")
        assert len(next(iter(it.rows("summaries").values())).split("\n")[0]) < 60


async def test_another_pane_takes_the_place_of_the_one_that_is_alone(demo: Stage) -> None:
    async with opened(demo) as it:
        await it.press("z", "2")
        assert it.app.fleet.zoomed is it.pane("agents")
        assert it.pane("agents").region.height > 30
        assert not it.pane("sessions").display
        await it.press("4")
        assert it.app.fleet.zoomed is it.pane("fills")
        assert it.pane("fills").region.width == it.app.size.width
        await it.press("slash")
        assert it.app.fleet.query_one(FilterBar).region.height == 1
        await it.press("escape", "z")
        shown = {pane.id for pane in it.app.fleet.query(RowList) if pane.display}
        assert shown == {"sessions", "agents", "fills"}


async def test_t_goes_through_our_themes(demo: Stage) -> None:
    async with opened(demo) as it:
        seen = []
        for _ in THEMES:
            await it.press("t")
            seen.append(it.app.theme)
        assert sorted(seen) == sorted(theme.name for theme in THEMES)
        assert seen[-1] == THEMES[0].name
        it.app.theme = "nord"
        await it.press("t")
        assert it.app.theme == THEMES[0].name


async def test_help_names_every_key_that_says_what_it_does(demo: Stage) -> None:
    async with opened(demo) as it:
        active = it.app.screen.active_bindings.values()
        explained = {
            entry.binding.tooltip
            for entry in active
            # Textual's own second key for leaving.
            if entry.binding.tooltip and entry.binding.key != "ctrl+q"
        }
        assert len(explained) > 15
        await it.press("question_mark")
        shown = it.app.screen
        assert isinstance(shown, HelpScreen)
        for words in explained:
            assert words in help_text(shown._keys).plain
        await it.press("escape")
        assert it.app.screen is it.app.fleet


@pytest.mark.parametrize("key", ["escape", "question_mark", "q", "enter"])
async def test_help_closes_and_the_app_stays(demo: Stage, key: str) -> None:
    async with opened(demo) as it:
        await it.press("question_mark", key)
        assert it.app.screen is it.app.fleet
        assert it.app.is_running


@pytest.mark.parametrize("key", ["colon", "ctrl+p"])
async def test_the_palette_opens_and_does_what_it_says(demo: Stage, key: str) -> None:
    async with opened(demo) as it:
        await it.press(key)
        await it.until(lambda: isinstance(it.app.screen, CommandPalette))
        await it.press(*"change the sort")
        await it.until(lambda: "change the sort order" in it.words and "this pane" not in it.words)
        await it.press("enter")
        await it.until(lambda: it.app.screen is it.app.fleet)
        await it.until(lambda: "sort: fullest" in it.words)


@pytest.mark.parametrize("key", ["q", "ctrl+c"])
async def test_quit_ends_with_0_and_both_threads_end(demo: Stage, key: str) -> None:
    async with opened(demo) as it:
        await it.pilot.press(key)
    assert it.app.return_code == 0
    assert not any(thread.is_alive() for thread in it.app.feed._threads)


async def test_a_click_marks_and_a_double_click_opens(demo: Stage) -> None:
    async with opened(demo) as it:
        rows = it.pane("sessions").rows
        await it.pilot.click(rows, offset=(20, 3))
        await it.settle()
        assert rows.highlighted == 3
        assert it.app.screen is it.app.fleet
        await it.pilot.click(rows, offset=(20, 18))
        assert rows.highlighted == 18
        await it.pilot.double_click(rows, offset=(20, 1))
        await it.reading()
        assert "Fix the flaky checkout tests" in it.lines[0]
        await it.press("escape")
        await it.pilot.click(it.pane("summaries").rows, offset=(5, 3))
        await it.pilot.pause()
        assert it.pane("summaries").rows.highlighted == 1
        await it.press("y")
        await it.until(lambda: it.app.clipboard)


async def test_a_click_beside_the_rows_does_nothing(demo: Stage) -> None:
    async with opened(demo, (120, 60)) as it:
        rows = it.pane("sessions").rows
        await it.pilot.click(rows, offset=(20, rows.size.height - 1))
        await it.pilot.click("#status")
        assert rows.highlighted == 0
        assert it.app.screen is it.app.fleet


def test_the_keys_of_the_footer_are_at_most_eight() -> None:
    from ctxtop.tui.screens.fleet.fleet_screen import FleetScreen
    from ctxtop.tui.widgets.row_list import Rows
    from textual.binding import Binding

    shown = [
        binding
        for place in (CtxtopApp, FleetScreen, Rows)
        for binding in place.BINDINGS
        if isinstance(binding, Binding) and binding.show
    ]
    assert len(shown) <= 8
