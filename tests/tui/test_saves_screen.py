"""The saves' page: every state, the noise as a meter, a project whole, and what happens."""

from __future__ import annotations

import json
import os
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from ctxtop.collectors.demo import make_demo_saves
from ctxtop.core.policy.resolve import DEFAULT_POLICIES, Policies
from ctxtop.core.readers.saves_reader import SavesMonitor
from ctxtop.core.saves.save_status import SaveState
from ctxtop.core.store.database import open_reader
from ctxtop.core.store.writer import Writer
from ctxtop.tui.screens.memory_saves_screen import CRUMB, ProjectSaveScreen
from ctxtop.tui.widgets.header_footer import KeyLine
from ctxtop.tui.widgets.row_list import RowList
from rich.cells import cell_len

from .comparing import compare_sizes
from .support import NOW, NOW_MS, WIDE, Stage, opened

if TYPE_CHECKING:
    from .support import Opened


@pytest.fixture
def work(stage: Stage, tmp_path: Path) -> Path:
    """Projects in every state."""
    place = tmp_path / "work"
    make_demo_saves(stage.root, place, NOW)
    return place


def line(it: Opened, name: str) -> str:
    """The line of one project."""
    rows = it.app.screen.query_one(RowList).shown
    return next(row.content.plain for row in rows if row.key.endswith(f"/{name}"))


async def measured(it: Opened) -> None:
    await it.until(lambda: it.app.view and it.app.view.saves and _measured(it))


async def detail(it: Opened, name: str) -> str:
    """Open all that is known of a project."""
    pane = it.app.screen.query_one(RowList)
    keys = [row.key for row in pane.shown]
    pane.rows.highlighted = next(n for n, key in enumerate(keys) if key.endswith(f"/{name}"))
    await it.press("enter")
    await it.until(lambda: isinstance(it.app.screen, ProjectSaveScreen))
    return it.text


async def test_every_state_is_named_with_its_reason(stage: Stage, work: Path) -> None:
    async with opened(stage) as it:
        await it.press("M")
        assert CRUMB in it.lines[0]
        for story, state in (
            ("ledger", "saved"),
            ("gateway", "partial"),
            ("billing", "pending"),
            ("mailer", "orphaned"),
            ("search", "failed unknown"),
            ("assets", "corrupt"),
            ("router", "saving"),
            ("docs", "triaged"),
        ):
            assert state in line(it, story)
        assert "counts an empty list" in await detail(it, "search")
        await it.press("escape")
        assert 'counts ["all"] as one' in await detail(it, "billing")
        assert "why" in it.text
        await it.press("escape")
        assert "env" not in await detail(it, "ledger")
        await it.press("escape", "escape")
        assert it.app.screen is it.app.fleet


async def test_who_needs_somebody_comes_first(stage: Stage, work: Path) -> None:
    async with opened(stage) as it:
        await it.press("m")
        marks = [row.content.plain[0] for row in it.app.screen.query_one(RowList).shown]
        needing = [mark in "▲✗" for mark in marks]
        assert needing == sorted(needing, reverse=True)
        await it.press("y")
        assert it.app.clipboard.startswith(str(work))


async def test_the_noise_is_a_meter_against_what_is_expected(stage: Stage, work: Path) -> None:
    async with opened(stage) as it:
        await measured(it)
        await it.press("M")
        saves = it.app.view.saves if it.app.view else None
        assert saves is not None
        for found in saves.projects:
            last, words = found.saves[-1], line(it, Path(found.project).name)
            assert f"{last.noise.lines:,}" in words
            assert (
                "✗" if any(each.is_expected and not each.is_met for each in last.bands) else "✓"
            ) in words[1:]
        text = await detail(it, "parser")
        assert "its saves, newest first" in text
        assert "added by the last save" in text
        assert "≈" in text


async def test_hostile_titles_are_shown_as_they_are(stage: Stage, work: Path) -> None:
    async with opened(stage) as it:
        await it.press("m")
        assert "Use [red]J" in line(it, "parser")
        parser = await detail(it, "parser")
        assert "Use [red]JWT[/red] [/] [31mnow" in parser
        assert "\x1b" not in it.text
        assert "\u202e" not in it.text
        assert "fired again  2 times" in parser


async def test_how_it_looks(stage: Stage, work: Path) -> None:
    async with opened(stage) as it:
        await measured(it)
        await it.press("M")
        assert it.app.screen.query_one(KeyLine).region.bottom == WIDE[1]
        await compare_sizes(it, "saves")


async def test_how_a_project_looks(stage: Stage, work: Path) -> None:
    async with opened(stage) as it:
        await measured(it)
        await it.press("M")
        await detail(it, "parser")
        assert all(cell_len(line) <= WIDE[0] - 6 for line in it.text.split("\n"))
        await compare_sizes(it, "saves-project")


async def test_it_fits_any_terminal(stage: Stage, work: Path) -> None:
    async with opened(stage) as it:
        await it.press("M")
        for width, height in ((60, 20), (240, 70)):
            await it.resize((width, height))
            await it.until(lambda cells=width: {cell_len(line) for line in it.lines} == {cells})  # type: ignore[misc]
            assert "corrupt" in line(it, "assets")


def _measured(it: Opened) -> bool:
    saves = it.app.view.saves if it.app.view else None
    return saves is not None and all(each.saves for each in saves.projects)


async def test_it_follows_what_happens(stage: Stage, work: Path) -> None:
    async with opened(stage) as it:
        await it.press("m")
        assert "triaged" in line(it, "docs")
        stage.clock.ms = NOW_MS + 302_000
        await it.until(lambda: "orphaned" in line(it, "docs"))
        await detail(it, "docs")
        put(work / "docs", "last-save-result.json", {"categories": ["decision"], "titles": ["x"]})
        await it.until(lambda: "✓ docs" in it.text, 20)
        await it.press("escape")
        assert "saved" in line(it, "docs")


async def test_what_is_lost_is_told_where_one_looks_once_and_until_it_is_over(
    stage: Stage, work: Path
) -> None:
    """In the fleet, as a notification and in the log, wherever the plugin is installed."""
    async with opened(stage) as it:
        # What is older than a day is in the report alone.
        await it.calm()
        assert (it.trouble, it.toasts) == ("", [])
        stage.clock.ms = NOW_MS + 302_000
        await it.until(lambda: it.trouble.endswith("(and 1 more)"))
        assert it.trouble.startswith("✗ save of ")
        assert "orphaned: triaged" in it.trouble
        await it.until(lambda: "".join(it.toasts).count("triaged, and no sign of a save") == 2)
        assert "".join(it.toasts).count("run /memory:save in that project") == 2
        told = len(it.toasts)
        await it.press("L")
        # The toast may still lie over the line.
        await it.until(lambda: not it.app._notifications)
        await it.until(lambda: "save of docs" in "".join(it.lines))
        lost = [each for each in it.lines if "save of docs" in each]
        assert len(lost) == 1
        assert "orphaned: triaged" in lost[0]
        assert "save of ledger" in "".join(it.lines)
        await it.press("escape")
        put(work / "docs", "last-save-result.json", {"categories": ["decision"], "titles": ["x"]})
        put(work / "router", "last-save-result.json", {"categories": ["x"], "titles": ["x"]})
        await it.until(lambda: it.trouble == "", 20)
        assert len(it.toasts) == told


async def test_a_folder_without_saves(stage: Stage) -> None:
    async with opened(stage) as it:
        await it.press("m", "m")
        assert "No claude-memory saves found" in it.words
        await it.press("escape")
        assert it.app.screen is it.app.fleet


def put(project: Path, name: str, said: dict[str, Any]) -> None:
    path = project / ".claude/memory/.staging" / name
    path.write_text(json.dumps(said), encoding="utf-8")
    written = (NOW_MS + 300_000) * 1_000_000
    os.utime(path, ns=(written, written))


def test_the_stories_have_every_state_but_none(stage: Stage, tmp_path: Path) -> None:
    made = make_demo_saves(stage.root, tmp_path / "work", NOW)
    assert {each.state for each in made} == set(SaveState) - {SaveState.NONE}


def test_the_same_rows_are_judged_once_a_second(tmp_path: Path) -> None:
    store = tmp_path / "s.db"
    Writer(store).close()
    with closing(open_reader(store)) as db:
        feed = SavesMonitor(db)
        first = feed.read((), NOW_MS, DEFAULT_POLICIES)
        assert feed.is_current(NOW_MS + 10**6)
        assert feed.read((), NOW_MS + 999, DEFAULT_POLICIES) is first
        # What a session has come to since is judged when the second is over, without a change.
        assert feed.is_current(NOW_MS + 999)
        assert not feed.is_current(NOW_MS + 1000)
        assert feed.read((), NOW_MS + 1000, DEFAULT_POLICIES) is not first
        assert feed.is_current(NOW_MS + 10**6)
        second = feed.read((), NOW_MS + 1001, DEFAULT_POLICIES)
        assert feed.read((), NOW_MS + 1002, Policies()) is not second
