"""The tab of common settings: drafts, effects, the diff before writing, undo, keys and mouse."""

from __future__ import annotations

import json
import tomllib
from typing import TYPE_CHECKING

import pytest
from ctxtop.collectors.install.install_plan import apply_install, plan_install
from ctxtop.collectors.install.settings_file import (
    InstallOptions,
    SettingsScope,
    settings_location,
)
from ctxtop.core.actions.preset_steps import preset_steps
from ctxtop.tui.page_kit.dialogs import ConfirmScreen
from ctxtop.tui.page_kit.setting_editor import ValueScreen
from ctxtop.tui.screens.settings.common_pane import CommonPane
from ctxtop.tui.screens.settings.policy_screen import PolicyScreen
from ctxtop.tui.screens.settings.preset_page import PresetScreen
from ctxtop.tui.widgets.level_control import LevelControl
from ctxtop.tui.widgets.row_list import RowList
from ctxtop.tui.widgets.setting_controls import LABEL_CELLS, SetControl
from textual.widgets import Input

from .comparing import compare_sizes, counted
from .support import opened
from .test_policy_screen import SAID, config, confirm, give, hide_paths, text

if TYPE_CHECKING:
    from pathlib import Path

    from ctxtop.tui.widgets.setting_controls import SettingControl

    from .support import Opened, Stage

__all__ = ["config"]


async def open_common(it: Opened) -> PolicyScreen:
    await it.press("P")
    screen = it.app.screen
    assert isinstance(screen, PolicyScreen)
    await it.until(lambda: screen._snapshot is not None and control(it, "threshold").draft)
    await it.answered()
    return screen


def control(it: Opened, key: str) -> SettingControl:
    return it.app.screen.query_one(CommonPane).control(key)


def shown(it: Opened, key: str) -> str:
    return " ".join(str(control(it, key).render()).split())


async def focus(it: Opened, key: str) -> None:
    control(it, key).focus()
    await it.calm()


async def test_a_preset_s_steps_are_on_the_page_as_the_command_has_them(stage: Stage) -> None:
    async with opened(stage) as it:
        await open_common(it)
        await focus(it, "preset")
        await it.press("right", "v")
        screen = it.app.screen
        assert isinstance(screen, PresetScreen)
        await it.until(lambda: "injects" in screen._content.plain)
        words = " ".join(screen._content.plain.split())
        for step in preset_steps("clnode"):
            text, default = (" ".join(each.split()) for each in (step.text, step.default_text))
            assert f"{step.step} {text}" in words
            assert (f"default {default}" in words) is (text != default)
        await it.press("escape")
        assert control(it, "preset").draft == "clnode"
        await it.press("2")
        await it.press("v")
        assert isinstance(it.app.screen, PolicyScreen), "only beside the control"


async def is_asked(it: Opened) -> None:
    await it.until(lambda: isinstance(it.app.screen, ConfirmScreen) and it.app.screen.is_mounted)


def levels(file: Path) -> list[str]:
    table = tomllib.loads(file.read_text())
    return [str(each) for each in table["policy"]["threshold"]]


async def test_a_moved_level_is_a_draft_then_a_diff_then_the_file(
    demo: Stage, config: Path
) -> None:
    async with opened(demo) as it:
        await open_common(it)
        assert "4 sessions above 70% now" in shown(it, "threshold")
        await it.press("space", "left", "shift+left")
        assert "warning 74%" in shown(it, "threshold")
        assert "changed" in shown(it, "threshold")
        assert "would reach warning" in shown(it, "threshold")
        assert text(config) == SAID
        await it.press("enter")
        asked = await confirm(it)
        assert "0.74:warning:suggest" in asked
        await it.until(lambda: text(config) != SAID)
        assert levels(config) == [
            "0.7:notice:reassure",
            "0.74:warning:suggest",
            "0.85:high:offer_compact",
            "0.95:emergency:alert",
            "1:overflow:recover",
        ]
        await it.until(lambda: "your file" in shown(it, "threshold"))
        await it.press("left", "enter")
        await confirm(it)
        await it.until(lambda: "0.73:warning:suggest" in levels(config))
        assert len(levels(config)) == 5
        await it.until(lambda: "u undoes threshold" in it.words)
        await it.press("u")
        await confirm(it)
        await it.until(lambda: "0.74:warning:suggest" in levels(config))
        await it.until(lambda: "warning 74%" in shown(it, "threshold"))


async def test_levels_keep_their_order_and_a_draft_is_forgotten(demo: Stage, config: Path) -> None:
    async with opened(demo) as it:
        await open_common(it)
        await it.press(*["shift+right"] * 4)
        assert "notice 79% warning 80%" in shown(it, "threshold")
        await it.press("backspace")
        assert "notice 70%" in shown(it, "threshold")
        assert "changed" not in shown(it, "threshold")
        await it.press("left", "enter")
        await is_asked(it)
        await it.press("enter")
        assert text(config) == SAID
        # What was not written stays a draft.
        assert "notice 69%" in shown(it, "threshold")
        await it.press("escape")
        assert it.is_home
        assert text(config) == SAID


async def test_the_mouse_drags_a_level_and_clicks_save(demo: Stage, config: Path) -> None:
    async with opened(demo) as it:
        await open_common(it)
        bar = control(it, "threshold")
        assert isinstance(bar, LevelControl)
        place = bar._cell(0.85)
        await it.pilot.mouse_down(bar, offset=(LABEL_CELLS + place, 0))
        await it.pilot.hover(bar, offset=(LABEL_CELLS + place + 4, 0))
        await it.pilot.mouse_up(bar, offset=(LABEL_CELLS + place + 4, 0))
        await it.calm()
        assert bar.level is not None
        assert bar.level.level == "high"
        assert 0.85 < bar.level.at < 0.95
        assert "notice 70% warning 80%" in shown(it, "threshold")
        assert text(config) == SAID
        bar.focus()
        await it.calm()
        # Before there was a draft, Enter would have typed a value.
        assert "⏎ Save" in it.lines[-1]
        bar.action_reset()
        await it.calm()
        assert "⏎ Type" in it.lines[-1]
        bar.action_step(1)
        await it.pilot.click(bar, offset=(bar.size.width - 5, 0))
        await is_asked(it)
        await it.press("escape")
        await it.pilot.click(bar, offset=(LABEL_CELLS + 3, 1))
        await it.calm()
        assert bar.level.level == "notice"


async def test_switches_choices_and_sliders_are_written(demo: Stage, config: Path) -> None:
    async with opened(demo) as it:
        await open_common(it)
        for key, keys, written in (
            ("notify.toast", ("left",), "toast = false"),
            ("mode", ("right",), 'mode = "suggest" # nothing by itself'),
            ("notify.quiet", ("right",), 'quiet = "22:00-07:00"'),
            ("backup.keep_days", ("right", "right"), "keep_days = 40"),
        ):
            await focus(it, key)
            await it.press(*keys, "enter")
            asked = await confirm(it)
            assert f"+{written}" in asked
            await it.until(lambda written=written: written in text(config))  # type: ignore[misc]
            await it.until(lambda key=key: "your file" in shown(it, key))  # type: ignore[misc]
        assert "min_tokens = 20000" in text(config)


async def test_what_is_set_above_the_files_is_refused(demo: Stage, config: Path) -> None:
    async with opened(demo) as it:
        await open_common(it)
        assert "command line" in shown(it, "notify.bell")
        await focus(it, "notify.bell")
        await it.press("left", "enter")
        await it.until(lambda: any("set on the command line" in each for each in it.toasts))
        assert text(config) == SAID


async def test_enter_types_a_value_where_nothing_was_changed(demo: Stage, config: Path) -> None:
    async with opened(demo) as it:
        await open_common(it)
        await it.press("enter")
        await it.until(lambda: isinstance(it.app.screen, ValueScreen) and it.app.screen.is_mounted)
        it.app.screen.query_one(Input).value = "60%, 75%"
        await it.press("enter")
        asked = await confirm(it)
        assert "0.6:notice:reassure" in asked
        await it.until(lambda: "notice 60% warning 75% high 85%" in shown(it, "threshold"))
        await focus(it, "price")
        await it.press("enter")
        await it.until(lambda: isinstance(it.app.screen, ValueScreen) and it.app.screen.is_mounted)
        it.app.screen.query_one(Input).value = "claude-new=5/25"
        await it.press("enter")
        await confirm(it)
        await it.until(lambda: "claude-new=5/25" in shown(it, "price"))


async def test_tabs_by_key_by_mouse_and_by_search(demo: Stage, config: Path) -> None:
    async with opened(demo) as it:
        screen = await open_common(it)
        await it.press("2")
        assert screen.query_one(RowList).is_on_screen
        assert "common settings" not in it.lines[-1]
        await it.press("1")
        assert not screen.query_one("#all").display
        await it.pilot.click("#tabs", offset=(16, 0))
        await it.calm()
        assert screen.tab == 1
        await it.press("1", "slash", *"hysteresis", "enter")
        assert screen.tab == 1
        rows = [row.key for row in screen.query_one(RowList).shown]
        assert rows == ["area rearm", "rearm.hysteresis"]
        await it.press("escape", "1", "escape")
        assert it.is_home


async def test_what_hooks_may_do_is_a_plan_that_is_confirmed(stage: Stage, tmp_path: Path) -> None:
    give(stage, tmp_path / "config.toml")
    places = stage.places
    options = InstallOptions(places.store, ("steer",), as_plugin=True, status_line=True)
    location = settings_location(SettingsScope.USER, places.config_dir, tmp_path)
    apply_install(plan_install(location, places.config_dir, options), places.store)
    hooks = places.config_dir / "skills" / "ctxtop" / "hooks" / "hooks.json"
    before = hooks.read_text()
    async with opened(stage) as it:
        await open_common(it)
        features = control(it, "hooks")
        await it.until(lambda: features.draft == ("steer",))
        assert isinstance(features, SetControl)
        await focus(it, "hooks")
        await it.press("right", "space")
        assert "inject (on): gives a starting agent" in shown(it, "hooks")
        assert hooks.read_text() == before
        await it.press("enter")
        await is_asked(it)
        what = str(it.app.screen.query_one("#what Static").render())
        assert "hooks.json" in what
        assert "inject" in what
        await it.read_question()
        await it.press("right", "enter")
        await it.until(lambda: features.saved == ("inject", "steer"))
        assert json.loads(hooks.read_text())["hooks"]["SubagentStart"]
        assert not features.is_changed


@pytest.mark.parametrize("size", [(80, 24), (40, 24)])
async def test_every_control_is_reached_with_the_keys(
    demo: Stage, config: Path, size: tuple[int, int]
) -> None:
    async with opened(demo, size) as it:
        await open_common(it)
        controls = it.app.screen.query_one(CommonPane).controls
        for each in controls:
            assert it.app.focused is each
            assert each.is_on_screen
            await it.press("down")


async def test_how_it_looks(demo: Stage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hide_paths(demo, monkeypatch, tmp_path)
    async with opened(demo) as it:
        await counted(it)
        await open_common(it)
        await it.press("space", "shift+left")
        await compare_sizes(it, "settings-common")
