"""The policy's page: every value with its origin, changed in a file, and taken back."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from ctxtop.collectors.locations.places import PolicySources, trust_file_path
from ctxtop.core.policy.schema import KEYS
from ctxtop.tui.page_kit.dialogs import ConfirmScreen
from ctxtop.tui.page_kit.setting_editor import ValueScreen
from ctxtop.tui.screens.settings.policy_screen import PolicyScreen
from ctxtop.tui.widgets.row_list import RowList
from msgspec.structs import replace
from textual.content import Content
from textual.widgets import Button, Input, Static

from ..trusted_files import trust
from .comparing import compare_sizes, counted
from .support import Stage, opened
from .writing import answer, append, prompt, session_file

if TYPE_CHECKING:
    from pathlib import Path

    from .support import Opened

SAID = """\
# What I like.
[policy]
mode = "observe" # nothing by itself

# Small machines.
[compact]
min_tokens = 20000
bye = "x"
"""


NOTICE = "▲ config.toml: compact.bye: no such key; did you mean compact.by?"


@pytest.fixture
def config(demo: Stage, tmp_path: Path) -> Path:
    """The demo with a person's own file, a variable and an option."""
    file = tmp_path / "config" / "config.toml"
    file.parent.mkdir()
    file.write_text(SAID)
    give(demo, file)
    return file


def give(stage: Stage, file: Path) -> None:
    sources = PolicySources(
        command_line=(("notify.bell", "on"),),
        environ={"CTXTOP_POLICY_SUMMARY__LEVELS": "2"},
        user_file=file,
        trust_file=trust_file_path(),
    )
    stage.places = replace(stage.places, policy=sources)


def text(file: Path) -> str:
    return file.read_text() if file.exists() else ""


def write(file: Path, said: str) -> None:
    file.parent.mkdir(exist_ok=True)
    file.write_text(said)


def chmod(file: Path, rights: int) -> None:
    file.chmod(rights)


def mode(file: Path) -> int:
    return file.stat().st_mode & 0o777


def rows(it: Opened) -> dict[str, str]:
    return {row.key: row.content.plain for row in it.app.screen.query_one(RowList).shown}


async def open_policy(it: Opened) -> PolicyScreen:
    await it.press("P")
    screen = it.app.screen
    assert isinstance(screen, PolicyScreen)
    await it.press("2")
    await it.until(lambda: screen._snapshot is not None and rows(it))
    return screen


async def mark(it: Opened, key: str) -> None:
    pane = it.app.screen.query_one(RowList)
    pane.rows.highlighted = [row.key for row in pane.shown].index(key)
    await it.calm()


async def change(it: Opened, key: str, said: str) -> None:
    """Type a value, and come to the question."""
    await mark(it, key)
    await it.press("enter")
    await it.until(lambda: isinstance(it.app.screen, ValueScreen) and it.app.screen.is_mounted)
    it.app.screen.query_one(Input).value = said
    await it.press("enter")


async def confirm(it: Opened) -> str:
    await it.until(lambda: isinstance(it.app.screen, ConfirmScreen) and it.app.screen.is_mounted)
    assert isinstance(it.app.screen.focused, Button)
    assert it.app.screen.focused.id == "safe"
    words = it.words
    await it.read_question()
    await it.press("right", "enter")
    return words


async def test_every_value_stands_in_its_area_with_its_origin(demo: Stage, config: Path) -> None:
    async with opened(demo) as it:
        await open_policy(it)
        found = rows(it)
        assert {key for key in found if not key.startswith("area ")} == set(KEYS)
        for key, words in (
            ("mode", ("● mode", "observe", "your file")),
            ("notify.bell", ("● ", "true", "command line")),
            ("summary.levels", ("● ", "2", "environment")),
            ("compact.min_tokens", ("20,000 tokens", "your file")),
            ("limit.default", ("200,000 tokens", "built in", "size of a fixed")),
        ):
            assert all(word in found[key] for word in words), found[key]
        assert "compact.bye: no such key; did you mean compact.by?" in it.words
        assert "4 ● set" in it.words
        assert "mode=observe" not in it.app.clipboard
        await mark(it, "mode")
        await it.press("y")
        assert it.app.clipboard == "mode=observe"


async def test_an_area_is_folded_and_opened(demo: Stage, config: Path) -> None:
    async with opened(demo) as it:
        await open_policy(it)
        await mark(it, "area compact")
        await it.press("enter")
        assert not any(key.startswith("compact.") for key in rows(it))
        assert "values, 1 ● set" in rows(it)["area compact"]
        # What is looked for is found in folded areas too.
        await it.press("slash", *"compact.by", "enter")
        assert "compact.by" in rows(it)
        await it.press("escape")
        await mark(it, "area compact")
        await it.press("enter")
        assert "compact.by" in rows(it)


async def test_what_is_set_alone_and_what_has_words(demo: Stage, config: Path) -> None:
    async with opened(demo) as it:
        await open_policy(it)
        await it.press("l")
        assert set(rows(it)) >= {"mode", "notify.bell", "summary.levels", "compact.min_tokens"}
        assert len([key for key in rows(it) if not key.startswith("area ")]) == 4
        await it.press("escape", "slash", *"recovery retry", "enter")
        assert all(key.startswith(("recovery.retry", "area ")) for key in rows(it))
        await it.press("escape")
        assert set(KEYS) <= set(rows(it))
        await it.press("slash", *"qqq")
        assert "no key has “qqq”; Esc shows all" in it.words
        await it.press("escape", "escape")
        assert it.app.screen is it.app.fleet


async def test_a_value_is_checked_shown_written_and_taken_back(demo: Stage, config: Path) -> None:
    chmod(config, 0o640)
    async with opened(demo) as it:
        await open_policy(it)
        await change(it, "mode", "sometimes")
        said = it.app.screen.query_one("#said", Static)
        assert "✗ one of observe, suggest, auto" in str(said.content)
        assert isinstance(it.app.screen, ValueScreen)
        it.app.screen.query_one(Input).value = "suggest"
        await it.press("enter")
        asked = await confirm(it)
        assert '-mode = "observe" # nothing by itself' in asked
        assert '+mode = "suggest" # nothing by itself' in asked
        await it.until(lambda: "suggest" in rows(it)["mode"])
        assert text(config) == SAID.replace("observe", "suggest")
        assert mode(config) == 0o640
        await it.until(lambda: it.app.feed.policies.common.text("mode") == "suggest", 20)
        await it.until(lambda: "u undoes mode" in it.words)
        await it.press("u")
        await confirm(it)
        await it.until(lambda: "observe" in rows(it)["mode"])
        assert text(config) == SAID
        await it.press("u")
        await it.until(lambda: any("there is no change to undo" in each for each in it.toasts))


async def test_the_safe_answer_writes_nothing(demo: Stage, config: Path) -> None:
    async with opened(demo) as it:
        await open_policy(it)
        await change(it, "mode", "suggest")
        await it.until(lambda: isinstance(it.app.screen, ConfirmScreen))
        await it.press("enter")
        assert isinstance(it.app.screen, PolicyScreen)
        await it.press("enter")
        await it.until(lambda: isinstance(it.app.screen, ValueScreen))
        await it.press("escape")
        assert isinstance(it.app.screen, PolicyScreen)
        assert text(config) == SAID


async def test_the_default_takes_the_key_out(demo: Stage, config: Path) -> None:
    async with opened(demo) as it:
        await open_policy(it)
        await mark(it, "mode")
        await it.press("enter")
        await it.until(lambda: isinstance(it.app.screen, ValueScreen) and it.app.screen.is_mounted)
        await it.press("ctrl+r")
        await confirm(it)
        await it.until(lambda: "built in" in rows(it)["mode"])
        assert text(config) == SAID.replace('mode = "observe" # nothing by itself\n', "")


async def test_what_is_said_above_the_files_says_why_it_stays(demo: Stage, config: Path) -> None:
    async with opened(demo) as it:
        await open_policy(it)
        for key, why in (
            ("notify.bell", "set on the command line"),
            ("summary.levels", "unset CTXTOP_POLICY_SUMMARY__LEVELS"),
        ):
            await mark(it, key)
            await it.press("enter")
            assert isinstance(it.app.screen, PolicyScreen)
            assert any(why in toast for toast in it.toasts)


async def test_a_file_that_is_made_is_for_nobody_else(demo: Stage, tmp_path: Path) -> None:
    file = tmp_path / "new" / "config.toml"
    give(demo, file)
    async with opened(demo) as it:
        await open_policy(it)
        await change(it, "compact.target_reduction", "0.4, 0.6")
        await confirm(it)
        await it.until(lambda: text(file) and "0.4, 0.6" in rows(it)["compact.target_reduction"])
        assert text(file) == "[compact]\ntarget_reduction = [0.4, 0.6]\n"
        assert mode(file) == 0o600
        assert mode(file.parent) == 0o700


async def test_a_file_that_was_changed_meanwhile_is_left_alone(demo: Stage, config: Path) -> None:
    async with opened(demo) as it:
        await open_policy(it)
        await change(it, "mode", "suggest")
        await it.until(lambda: isinstance(it.app.screen, ConfirmScreen))
        write(config, "# mine\n")
        await confirm(it)
        await it.until(lambda: any("was changed meanwhile" in toast for toast in it.toasts))
        assert text(config) == "# mine\n"


async def test_a_project_has_its_own(stage: Stage, tmp_path: Path) -> None:
    project = tmp_path / "shop"
    write(project / ".ctxtop.toml", "[compact]\nmin_tokens = 1\n")
    trust(project)
    give(stage, tmp_path / "config.toml")
    path = session_file(stage.root, 1)
    append(path, {**prompt("Fill it"), "cwd": str(project)}, {**answer(9_000), "cwd": str(project)})
    async with opened(stage) as it:
        screen = await open_policy(it)
        assert "50,000 tokens" in rows(it)["compact.min_tokens"]
        await it.press("o")
        await it.until(lambda: "project's file" in rows(it)["compact.min_tokens"])
        await mark(it, "compact.min_tokens")
        await it.press("enter")
        await it.until(lambda: isinstance(it.app.screen, ValueScreen) and it.app.screen.is_mounted)
        it.app.screen.query_one(Input).value = "77"
        await it.press("ctrl+o", "enter")
        await confirm(it)
        await it.until(lambda: "77 tokens" in rows(it)["compact.min_tokens"])
        assert text(project / ".ctxtop.toml") == "[compact]\nmin_tokens = 77\n"
        await it.press("o")
        await it.until(lambda: screen._snapshot and screen._snapshot.folder is None)
        assert "50,000 tokens" in rows(it)["compact.min_tokens"]


async def test_what_a_project_says_in_vain_is_shown_with_why_and_what_would_allow_it(
    stage: Stage, tmp_path: Path
) -> None:
    project = tmp_path / "shop"
    evil = project / "vendor" / "evil"
    evil.mkdir(parents=True)
    write(project / ".ctxtop.toml", 'mode = "auto"\ncompact.by = "client"\nui.ascii = true\n')
    write(evil / ".ctxtop.toml", "compliance.line_limit = 3\n")
    give(stage, tmp_path / "config.toml")
    path = session_file(stage.root, 1)
    walked = {**answer(9_000), "cwd": str(evil)}
    append(path, {**prompt("Fill it"), "cwd": str(project)}, walked)
    async with opened(stage, (200, 60)) as it:
        await open_policy(it)
        assert f"1 project's file sets more than an untrusted one may: {project}" in it.words
        await it.press("o")
        await it.until(lambda: "▲ mode" in rows(it)["mode"])
        assert "suggest" in rows(it)["mode"]
        assert "ignored: auto (it lets ctxtop change" in rows(it)["mode"]
        assert "▲ ui.ascii" in rows(it)["ui.ascii"]
        assert "false" in rows(it)["ui.ascii"]
        assert "project's file" not in rows(it)["compliance.line_limit"]
        assert "2 values of this project's file ignored (mode, compact.by)" in it.words
        # A long path is cut in its middle; the screen above holds 200 cells.
        assert "shop` shows it, and asks" in it.words
        trust(project)
        await it.until(lambda: "● mode" in rows(it)["mode"])
        assert "project's file" in rows(it)["mode"]
        assert "▲ ui.ascii" in rows(it)["ui.ascii"]


async def test_the_mouse_changes_a_value(demo: Stage, config: Path) -> None:
    async with opened(demo) as it:
        await open_policy(it)
        await it.pilot.click(it.app.screen.query_one(RowList).rows, offset=(9, 2), times=2)
        await it.until(lambda: isinstance(it.app.screen, ValueScreen) and it.app.screen.is_mounted)
        await it.pilot.click("#safe")
        await it.calm()
        assert isinstance(it.app.screen, PolicyScreen)


async def test_without_a_file_it_says_so(demo: Stage) -> None:
    async with opened(demo, (60, 20)) as it:
        await open_policy(it)
        await it.press("o", "enter")
        assert any("there is no config file" in toast for toast in it.toasts)


def hide_paths(demo: Stage, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Use a relative settings path, so that snapshots do not depend on the temporary folder."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "config.toml").write_text(SAID)
    give(demo, type(tmp_path)("config.toml"))
    monkeypatch.setattr(
        "ctxtop.tui.entities.policy_table.notice_lines", lambda *_: [Content(NOTICE)]
    )


async def test_how_it_looks(
    demo: Stage,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    hide_paths(demo, monkeypatch, tmp_path)
    async with opened(demo) as it:
        await counted(it)
        await open_policy(it)
        await it.press("home")
        await it.calm()
        await compare_sizes(it, "policy")


async def test_how_a_change_looks(
    demo: Stage,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    hide_paths(demo, monkeypatch, tmp_path)
    async with opened(demo) as it:
        await counted(it)
        await open_policy(it)
        await it.press("home", "down")
        await it.calm()
        await it.press("enter")
        await it.until(lambda: isinstance(it.app.screen, ValueScreen) and it.app.screen.is_mounted)
        field = it.app.screen.query_one(Input)
        field.cursor_blink = False  # a slow machine draws it while it is off
        field.value = "many"
        await it.calm()
        await compare_sizes(it, "policy-value")
