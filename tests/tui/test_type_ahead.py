"""Keys typed while a text field opens: none is lost, and none acts on the page below."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest
from ctxtop.tui.screens.search.search_screen import SearchScreen
from ctxtop.tui.screens.summaries.summaries_screen import SummariesScreen
from ctxtop.tui.widgets.controls import FilterBar, FilterInput
from textual import events
from textual.command import CommandPalette
from textual.widgets import Input

from .support import opened

if TYPE_CHECKING:
    from .support import Opened, Stage

TYPED = "qauthj2"
"""Each is also a key of the dashboard, and the first one leaves it."""


def type_at_once(it: Opened, *keys: str) -> None:
    """Send keys as a terminal does that reads them in one go."""
    for key in keys:
        it.app.post_message(events.Key(key, key if len(key) == 1 else None))


def value(it: Opened) -> str | None:
    return it.app.focused.value if isinstance(it.app.focused, Input) else None


@pytest.mark.parametrize("load_s", [0.0, 0.05])
async def test_what_is_typed_behind_the_key_of_the_search_is_its_text(
    demo: Stage, monkeypatch: pytest.MonkeyPatch, load_s: float
) -> None:
    mount = SearchScreen.on_mount

    def mount_late(screen: SearchScreen) -> None:
        time.sleep(load_s)
        mount(screen)

    monkeypatch.setattr(SearchScreen, "on_mount", mount_late)
    async with opened(demo) as it:
        for _ in range(5):
            type_at_once(it, "F", *TYPED)
            await it.until(lambda: value(it) == TYPED)
            assert isinstance(it.app.screen, SearchScreen)
            await it.press("escape", "escape")
            await it.until(lambda: it.app.screen is it.app.fleet)


async def test_keys_that_come_one_by_one_meanwhile_keep_their_order(demo: Stage) -> None:
    async with opened(demo) as it:
        type_at_once(it, "F", "a", "b")
        for key in "cdefgh":
            await it.pilot.pause(0)
            type_at_once(it, key)
        await it.until(lambda: value(it) == "abcdefgh")


@pytest.mark.parametrize("key", ["slash", "J", "colon"])
async def test_other_fields_lose_nothing_either(demo: Stage, key: str) -> None:
    async with opened(demo) as it:
        type_at_once(it, key, *TYPED)
        await it.until(lambda: value(it) == TYPED)
        assert isinstance(it.app.screen, CommandPalette) == (key != "slash")


async def test_a_field_that_does_not_come_holds_no_key_for_long(
    demo: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ctxtop.tui.base.type_ahead.MAX_OPENING_S", 0.05)
    async with opened(demo) as it:
        it.app.expect_typing()
        type_at_once(it, "question_mark")
        await it.until(lambda: it.app.screen is not it.app.fleet)


async def test_a_new_search_of_summaries_begins_empty(demo: Stage) -> None:
    async with opened(demo) as it:
        await it.press("S")
        await it.until(lambda: isinstance(it.app.screen, SummariesScreen))
        await it.press("slash", *"auth", "enter")
        page = it.app.screen
        assert isinstance(page, SummariesScreen)
        assert page.words == "auth"
        await it.press("slash")
        assert (page.query_one(FilterBar).value, page.words) == ("", "")
        await it.press(*"auth")
        assert page.query_one(FilterInput).value == page.words == "auth"


async def test_typing_replaces_the_filter_of_before(demo: Stage) -> None:
    async with opened(demo) as it:
        await it.press("L")
        await it.press("slash", *"one", "enter", "slash")
        await it.until(lambda: value(it) == "one")
        await it.press(*"two")
        await it.until(lambda: value(it) == "two")
