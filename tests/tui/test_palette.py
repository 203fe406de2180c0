"""The palette, jumping to a session, the themes, and the way back by crumbs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from ctxtop.tui.page_kit.page import Page
from ctxtop.tui.screens.help_and_commands import match_score
from ctxtop.tui.widgets.header_footer import SEPARATOR, Crumbs, shorten_crumbs
from rich.cells import cell_len
from textual.command import CommandPalette

from .comparing import compare
from .support import opened

if TYPE_CHECKING:
    from .support import Opened, Stage


async def palette(it: Opened, *keys: str) -> None:
    await it.press(*keys)
    await it.until(lambda: isinstance(it.app.screen, CommandPalette))


def test_all_words_must_be_there_and_the_first_come_first() -> None:
    assert match_score("Fix the tests", ["zz"]) == 0
    assert match_score("Fix the tests", ["fix", "zz"]) == 0
    assert match_score("Fix the tests", ["fix"]) == 1
    assert match_score("Fix the tests", ["fix"]) > match_score("Fix the tests", ["tests"]) > 0


async def test_it_offers_what_the_keys_do_just_now_with_their_keys(demo: Stage) -> None:
    async with opened(demo) as it:
        await palette(it, "colon")
        await it.until(lambda: "Filter" in it.words)
        assert "change the sort order" in it.words
        assert "(s)" in it.words
        await it.press("escape", "M", "colon")
        await it.until(lambda: "copy the project's folder" in it.words)
        assert "change the sort order" not in it.words


async def test_a_session_is_found_by_its_title_and_opened(demo: Stage) -> None:
    async with opened(demo) as it:
        await palette(it, "colon")
        await it.press(*"p95 search")
        await it.until(
            lambda: "Search p95 below 120 ms" in it.words and "Go to session" in it.words
        )
        await it.press("down", "enter")
        await it.until(lambda: isinstance(it.app.screen, Page))
        assert "Search p95" in it.lines[0]


async def test_a_page_is_found_by_its_earlier_name_too(demo: Stage) -> None:
    async with opened(demo) as it:
        for earlier, now in (("policy", "Settings"), ("receipts", "History")):
            await palette(it, "colon")
            await it.press(*earlier)
            await it.until(lambda now=now: now in it.words)  # type: ignore[misc]
            await it.press("escape")


async def test_jump_shows_sessions_at_once(demo: Stage) -> None:
    async with opened(demo) as it:
        await palette(it, "J")
        await it.until(lambda: "Rotate" in it.words and "Go to session" in it.words)
        await it.press(*"wishlist")
        await it.until(lambda: it.words.count("Go to session in") == 1)
        await it.press("enter")
        await it.until(lambda: isinstance(it.app.screen, Page))
        assert "Ship the wishlist" in it.lines[0]


async def test_a_marked_theme_is_shown_and_leaving_gives_the_old_one_back(demo: Stage) -> None:
    async with opened(demo) as it:
        it.app.search_themes()
        await palette(it)
        await it.press(*"nord")
        await it.until(lambda: it.app.theme == "nord")
        await it.press("escape")
        await it.until(lambda: it.app.screen is it.app.fleet)
        await it.until(lambda: it.app.theme == "ctxtop-dark")
        it.app.search_themes()
        await palette(it)
        await it.press(*"gruvbox")
        await it.until(lambda: it.app.theme == "gruvbox")
        await it.press("enter")
        await it.until(lambda: it.app.screen is it.app.fleet)
        await it.calm()
        assert it.app.theme == "gruvbox"
        assert it.app.ui_state.theme == "gruvbox"


async def test_how_the_palette_looks(demo: Stage) -> None:
    async with opened(demo, (100, 30)) as it:
        await palette(it, "colon")
        await it.press(*"shop")
        await it.until(lambda: "Go to session in shop" in it.words)
        it.app.screen.query_one("CommandInput").cursor_blink = False  # type: ignore[attr-defined]
        await it.calm()
        await compare(it, "palette")


@pytest.mark.parametrize("cells", [10, 20, 40, 80, 200])
@pytest.mark.parametrize("middle", ["a", "汉字" * 40, "x" * 1_000_000, "[/foo]"])
def test_crumbs_fit_and_the_longest_gives(cells: int, middle: str) -> None:
    path = ("sessions", middle, "agent")
    shown = shorten_crumbs(path, cells)
    assert len(shown) == 3
    total = sum(cell_len(crumb) for crumb in shown) + 2 * cell_len(SEPARATOR)
    assert total <= max(cells, 3 * 8 + 2 * cell_len(SEPARATOR))
    assert cells < 40 or (shown[0], shown[2]) == ("sessions", "agent")


async def test_a_click_at_a_crumb_goes_back(demo: Stage) -> None:
    async with opened(demo) as it:
        await it.mark("Ship the wishlist")
        await it.press("2", "j", "enter")
        await it.until(lambda: isinstance(it.app.screen, Page))
        crumbs = it.app.screen.query_one(Crumbs)
        assert len(crumbs.path) == 3
        await it.pilot.click(crumbs, offset=(len(it.lines[0]) - 2, 0))
        await it.pilot.click(crumbs, offset=(len(" sessions › Ship the wi"), 0))
        await it.until(
            lambda: isinstance(it.app.screen, Page) and it.app.screen.crumbs[1:] == crumbs.path[1:2]
        )
        await it.pilot.click(it.app.screen.query_one(Crumbs), offset=(3, 0))
        await it.until(lambda: it.app.screen is it.app.fleet)
