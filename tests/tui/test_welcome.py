"""The first run: shown once, changes nothing by itself, and one key leaves it."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import pytest
from ctxtop.collectors.locations.places import PolicySources
from ctxtop.core.actions.automation import Automation
from ctxtop.tui.app import CtxtopApp
from ctxtop.tui.base.ui_state import UiState, UiStateFile
from ctxtop.tui.page_kit.dialogs import ConfirmScreen
from ctxtop.tui.screens.welcome_screen import WelcomeScreen
from msgspec.structs import replace

from .comparing import compare_sizes
from .support import opened, run

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from .support import Opened, Stage


@asynccontextmanager
async def first_run(
    stage: Stage, size: tuple[int, int] = (120, 40), **said: str
) -> AsyncIterator[Opened]:
    sources = PolicySources(tuple((f"ui.{name}", value) for name, value in said.items()))
    app = CtxtopApp(replace(stage.places, policy=sources), welcomes=True)
    async with run(app, stage, size) as it:
        await it.until(lambda: app._fleet is not None and app._fleet.is_attached)
        await it.calm()
        yield it


def is_welcome(it: Opened) -> bool:
    return isinstance(it.app.screen, WelcomeScreen) and "Welcome to ctxtop" in it.words


def asks(it: Opened) -> bool:
    return isinstance(it.app.screen, ConfirmScreen) and "Install it" in it.words


def tree(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("key", ["escape", "enter"])
async def test_one_key_leaves_it_and_it_does_not_come_again(demo: Stage, key: str) -> None:
    before = tree(demo.root)
    async with first_run(demo) as it:
        await it.until(lambda: is_welcome(it))
        told = " ".join(str(each.render()) for each in it.app.screen.query("#touched .words"))
        for words in (str(demo.root), str(demo.places.store), "only if you name one"):
            assert words in told
        await it.press(key)
        assert it.app.screen is it.app.fleet
        await it.until(lambda: UiStateFile(demo.places.store).read().welcomed)
    async with first_run(demo) as it:
        assert not is_welcome(it)
    assert tree(demo.root) == before


@pytest.mark.parametrize("key", ["escape", "enter"])
async def test_nothing_acts_before_it_was_answered(
    demo: Stage, monkeypatch: pytest.MonkeyPatch, key: str
) -> None:
    looks: list[float] = []
    monkeypatch.setattr(Automation, "tick", lambda _: looks.append(1))
    async with first_run(demo) as it:
        await it.until(lambda: is_welcome(it) and it.app.view and it.app.view.scanned)
        # The collector comes by twice a second.
        await asyncio.sleep(2)
        assert looks == []
        await it.press(key)
        await it.until(lambda: bool(looks))
    looks.clear()
    async with opened(demo) as it:
        await it.until(lambda: bool(looks))


async def test_the_policy_and_the_demo_do_without_it(demo: Stage) -> None:
    async with first_run(demo, welcome="false") as it:
        assert not is_welcome(it)
    async with opened(demo) as it:
        assert not is_welcome(it)


async def test_the_palette_shows_it_again(demo: Stage) -> None:
    UiStateFile(demo.places.store).write_changes(UiState(), UiState(welcomed=True))
    async with opened(demo) as it:
        await it.press("colon", *"first steps")
        await it.until(lambda: "never changes" in it.words)
        await it.press("down", "enter")
        await it.until(lambda: is_welcome(it))


async def test_the_demo_is_asked_for(demo: Stage) -> None:
    async with first_run(demo) as it:
        await it.until(lambda: is_welcome(it))
        await it.pilot.press("d")
        for _ in range(500):
            await asyncio.sleep(0.01)
            if it.app.is_left_for_demo:
                break
        assert it.app.is_left_for_demo


async def test_the_plugin_is_shown_then_asked_for_then_installed(stage: Stage) -> None:
    async with first_run(stage) as it:
        await it.until(lambda: is_welcome(it))
        before = tree(stage.root)
        await it.press("i")
        await it.until(lambda: asks(it))
        what = str(it.app.screen.query_one("#what Static").render())
        assert "settings.json" in what
        assert "+++" in what
        assert "new file" in what
        assert it.app.focused is not None
        assert it.app.focused.id == "safe"
        await it.press("enter")
        assert tree(stage.root) == before
        await it.press("i")
        await it.until(lambda: asks(it))
        await it.read_question()
        await it.press("right", "enter")
        await it.until(lambda: it.toasts)
        assert "The plugin is installed" in it.toasts[-1]
        assert (stage.root / "skills" / "ctxtop" / "hooks" / "hooks.json").exists()
        await it.press("i")
        await it.until(lambda: "already installed" in "".join(it.toasts))


async def test_settings_that_cannot_be_changed_are_told(stage: Stage) -> None:
    (stage.root / "settings.json").write_text("{ not json")
    async with first_run(stage) as it:
        await it.until(lambda: is_welcome(it))
        await it.press("i")
        await it.until(lambda: it.toasts)
        assert is_welcome(it)
        assert "settings.json" in it.toasts[0]


async def test_the_mouse_and_the_arrows_choose_too(demo: Stage) -> None:
    async with first_run(demo, (60, 20)) as it:
        await it.until(lambda: is_welcome(it))
        await it.press("down")
        await it.until(lambda: it.app.focused is not None and it.app.focused.id == "demo")
        await it.press("up")
        await it.pilot.click("#go_on")
        await it.calm()
        assert it.app.screen is it.app.fleet


async def test_how_it_looks(demo: Stage) -> None:
    async with opened(demo) as it:
        it.app.action_welcome()
        await it.until(lambda: is_welcome(it))
        # The folder's name differs from run to run.
        for line, words in zip(
            it.app.screen.query("#touched .words"), ("~/.claude", "~/.state"), strict=False
        ):
            line.update(words)  # type: ignore[attr-defined]
        await it.calm()
        await compare_sizes(it, "welcome")
