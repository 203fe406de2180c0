"""The first frame, while the sessions' screen is still being made."""

from __future__ import annotations

import threading
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import pytest
from ctxtop.tui.app import MAX_HELD_KEYS, CtxtopApp, OpeningScreen
from ctxtop.tui.base.keymap import all_bindings
from ctxtop.tui.screens.help_and_commands import HelpScreen
from ctxtop.tui.screens.summaries.summaries_screen import SummariesScreen
from ctxtop.tui.screens.welcome_screen import WelcomeScreen
from textual.css.stylesheet import Stylesheet

from .support import run

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from .support import Opened, Stage

LEAVING = {"q", "ctrl+c", "ctrl+q"}
SUSPENDING = {"ctrl+z"}
EVERY_KEY = sorted({key for bound in all_bindings() for key in bound.keys} - LEAVING - SUSPENDING)


@asynccontextmanager
async def opening(
    stage: Stage, monkeypatch: pytest.MonkeyPatch, *, welcomes: bool = False
) -> AsyncIterator[tuple[Opened, threading.Event]]:
    """Open the dashboard on its first frame; it stays there until the event is set."""
    may_open = threading.Event()
    read = CtxtopApp._read_state_and_settings

    def wait(app: CtxtopApp) -> object:
        may_open.wait()
        return read(app)

    monkeypatch.setattr(CtxtopApp, "_read_state_and_settings", wait)
    app = CtxtopApp(stage.places, welcomes=welcomes)
    try:
        async with run(app, stage) as it:
            await it.until(lambda: isinstance(app.screen, OpeningScreen))
            yield it, may_open
    finally:
        may_open.set()


async def until_open(it: Opened, may_open: threading.Event) -> None:
    may_open.set()
    await it.until(lambda: it.app._fleet is not None and it.app._fleet.is_attached)


@pytest.mark.parametrize("some", [EVERY_KEY[start::8] for start in range(8)])
async def test_no_key_of_any_page_ends_it(
    demo: Stage, monkeypatch: pytest.MonkeyPatch, some: list[str]
) -> None:
    async with opening(demo, monkeypatch) as (it, may_open):
        for key in some:
            await it.press(key)
            assert isinstance(it.app.screen, OpeningScreen), key
        assert it.app.is_running
        await until_open(it, may_open)
        await it.calm()
        assert it.app.is_running


async def test_a_key_typed_ahead_acts_as_soon_as_it_can(
    demo: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with opening(demo, monkeypatch) as (it, may_open):
        await it.press("S", "question_mark")
        await until_open(it, may_open)
        await it.until(lambda: isinstance(it.app.screen, HelpScreen))
        assert isinstance(it.app.screen_stack[-2], SummariesScreen)


async def test_a_key_held_down_is_not_kept_for_ever(
    demo: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with opening(demo, monkeypatch) as (it, _):
        await it.press(*["j"] * (MAX_HELD_KEYS + 5))
        screen = it.app.screen
        assert isinstance(screen, OpeningScreen)
        assert len(screen.held_keys) == MAX_HELD_KEYS


async def test_what_was_typed_ahead_does_not_answer_the_welcome_page(
    demo: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with opening(demo, monkeypatch, welcomes=True) as (it, may_open):
        await it.press("escape", "enter", "d")
        await until_open(it, may_open)
        await it.until(lambda: isinstance(it.app.screen, WelcomeScreen))
        await it.calm()
        assert isinstance(it.app.screen, WelcomeScreen)
        assert not it.app.ui_state.welcomed


@pytest.mark.parametrize("key", ["q", "ctrl+c"])
async def test_it_can_be_left_before_it_is_open(
    demo: Stage, monkeypatch: pytest.MonkeyPatch, key: str
) -> None:
    async with opening(demo, monkeypatch) as (it, _):
        await it.pilot.press(key)
        await it.until(lambda: it.app._is_leaving)


async def test_no_style_sheet_is_parsed_again_for_the_theme_or_a_page(
    demo: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    parsed_again: list[Stylesheet] = []
    monkeypatch.setattr(Stylesheet, "reparse", parsed_again.append)
    async with opening(demo, monkeypatch) as (it, may_open):
        await until_open(it, may_open)
        await it.press("S")
        await it.until(lambda: isinstance(it.app.screen, SummariesScreen))
    assert not parsed_again
