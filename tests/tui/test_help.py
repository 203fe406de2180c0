"""The help: on every page its own keys, all signs, and what one looks for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ctxtop.tui.base.keymap import with_own_display
from ctxtop.tui.screens.help_and_commands import (
    GLOBAL_GROUP,
    MOVEMENT_GROUP,
    PAGE_GROUP,
    TEXTUAL_ACTIONS,
    TEXTUAL_SECOND_KEYS,
    HelpScreen,
    explain_keys,
    sign_groups,
)
from ctxtop.tui.screens.session.session_screen import SessionScreen
from ctxtop.tui.screens.settings.policy_screen import PolicyScreen
from ctxtop.tui.screens.summaries.summaries_screen import SummariesScreen
from textual.widgets import Input

from .pages import WAYS, back, go
from .support import opened

if TYPE_CHECKING:
    from .support import Opened, Stage


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


async def test_each_key_of_each_page_is_in_its_help_once_with_its_own_label(demo: Stage) -> None:
    async with opened(demo, (120, 60)) as it:
        await has_each_key_once(it)
        for way in WAYS:
            if await go(it, way):
                await has_each_key_once(it)
                await back(it)


async def has_each_key_once(it: Opened) -> None:
    """Compare the help of the page on top with what its keys do."""
    active = it.app.screen.active_bindings
    wanted: dict[str, str] = {}
    for key, (_, binding, _, tooltip) in active.items():
        if key not in TEXTUAL_SECOND_KEYS and not binding.system:
            shown = it.app.get_key_display(with_own_display(binding))
            assert shown not in wanted, shown
            wanted[shown] = tooltip or TEXTUAL_ACTIONS.get(binding.action, "")
    declared = [
        each
        for keys in type(it.app.screen)._merge_bindings().key_to_bindings.values()
        for each in keys
        if each.tooltip
    ]
    # Two pages have keys for one of their tabs, and one for rules alone; letters are typed where
    # there is an input.
    if not isinstance(
        it.app.screen, (SessionScreen, PolicyScreen, SummariesScreen)
    ) and not isinstance(it.app.focused, Input):
        assert {each.key for each in declared} <= active.keys()
    explained = [
        (shown, row.what)
        for row in explain_keys(active, it.app.get_key_display)
        for shown in row.keys
    ]
    without = {"left", "right", "^pgup", "^pgdn", "←", "→"}  # nothing to scroll sideways
    missing = {shown for shown, what in wanted.items() if not what}
    # An input has the usual keys of inputs.
    assert missing <= without or isinstance(it.app.focused, Input), missing
    assert sorted(explained) == sorted((a, b) for a, b in wanted.items() if b)


async def test_the_timelines_keys_are_explained_one_by_one(demo: Stage) -> None:
    async with opened(demo, (120, 80)) as it:
        await it.press("1", "enter", "question_mark")
        words = [line.split("│")[-2].strip() for line in it.lines if line.count("│") > 1]
        rows = {" ".join(line.split()) for line in words}
        assert {"← previous turn", "→ next turn", "- zoom out"} <= rows, rows
        assert any(row.endswith("zoom in") and row.startswith("+ =") for row in rows), rows
        assert not any("←→" in row or "+-" in row for row in rows)


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
