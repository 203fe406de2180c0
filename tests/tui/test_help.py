"""The help: on every page its own keys, all signs, and what one looks for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ctxtop.tui.screens.help_and_commands import (
    GLOBAL_GROUP,
    MOVEMENT_GROUP,
    PAGE_GROUP,
    HelpScreen,
    sign_groups,
)

from .support import opened

if TYPE_CHECKING:
    from .support import Stage


async def test_it_is_grouped_and_has_every_sign(demo: Stage) -> None:
    async with opened(demo, (120, 150)) as it:
        await it.press("question_mark")
        words = it.words
        places = [
            words.index(group) for group in (PAGE_GROUP, GLOBAL_GROUP, MOVEMENT_GROUP, "Signs")
        ]
        assert places == sorted(places)
        for _, some in sign_groups():
            for sign, meaning in some:
                assert any(sign in line and meaning[:40] in line for line in it.lines), sign


async def test_a_page_has_its_own(demo: Stage) -> None:
    async with opened(demo, (120, 60)) as it:
        await it.press("M", "question_mark")
        assert "Help: saves of claude-memory" in it.words
        assert "copy the project's folder" in it.words
        assert "change the sort order" not in it.words


async def test_words_are_looked_for_and_esc_shows_all_again(demo: Stage) -> None:
    async with opened(demo, (80, 24)) as it:
        await it.press("question_mark", "slash", *"40+ turns")
        assert "at least 40 turns" in it.words
        assert PAGE_GROUP not in it.words
        await it.press(*"zzz")
        assert "no key or symbol matches" in it.words
        await it.press("escape")
        assert PAGE_GROUP in it.words
        assert len(it.app.screen_stack) == 3
        await it.press("escape")
        assert it.is_home


async def test_it_scrolls_where_it_is_long(demo: Stage) -> None:
    async with opened(demo, (60, 20)) as it:
        await it.press("question_mark")
        assert PAGE_GROUP in it.words
        await it.press("G")
        assert PAGE_GROUP not in it.words
        assert "not known yet" in it.words
        await it.press("g", "j", "k", "space")
        assert isinstance(it.app.screen, HelpScreen)
