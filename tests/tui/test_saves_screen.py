"""The saves' report: every state with its reason, on both sizes, and it follows what happens."""

from __future__ import annotations

import json
import os
from contextlib import closing
from typing import TYPE_CHECKING, Any

import pytest
from ctxtop.collectors.demo import make_saves
from ctxtop.core.policy.layers import COMMON, Policies
from ctxtop.core.saves.states import SaveState
from ctxtop.core.store.database import open_reader
from ctxtop.core.store.writer import Writer
from ctxtop.tui.saves_feed import SavesFeed
from ctxtop.tui.screens.saves import CRUMB
from textual.widgets import Footer

from .comparing import compare
from .support import NOW, NOW_MS, Stage, opened

if TYPE_CHECKING:
    from pathlib import Path

    from .support import Opened

SIZES = ((80, 24), (120, 40))


@pytest.fixture
def work(stage: Stage, tmp_path: Path) -> Path:
    """Projects in every state."""
    place = tmp_path / "work"
    make_saves(stage.root, place, NOW)
    return place


def section(it: Opened, name: str) -> list[str]:
    """The lines of one project."""
    lines = it.text.split("\n")
    start = next(n for n, line in enumerate(lines) if line[2:].startswith(name))
    rest = lines[start:]
    return rest[: rest.index("")] if "" in rest else rest


async def test_every_state_is_named_with_its_reason(stage: Stage, work: Path) -> None:
    async with opened(stage) as it:
        await it.press("m")
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
            head, why, *_ = section(it, story)
            assert state in head
            assert "why" in why
        assert "counts an empty list" in " ".join(section(it, "search"))
        assert 'counts ["all"] as one' in " ".join(section(it, "billing"))
        assert "env" not in " ".join(section(it, "ledger"))
        await it.press("escape")
        assert it.app.screen is it.app.fleet


async def test_hostile_titles_are_shown_as_they_are(stage: Stage, work: Path) -> None:
    async with opened(stage) as it:
        await it.press("m")
        parser = "\n".join(section(it, "parser"))
        assert "Use [red]JWT[/red] [/] [31mnow" in parser
        assert "\x1b" not in it.text
        assert "\u202e" not in it.text
        assert "fired again  2 times" in parser


@pytest.mark.parametrize("size", SIZES, ids=["80x24", "120x40"])
async def test_it_fits_and_looks_the_same(stage: Stage, work: Path, size: tuple[int, int]) -> None:
    async with opened(stage, size) as it:
        await it.until(lambda: it.app.view and it.app.view.saves and _measured(it))
        await it.press("m")
        assert all(len(line) <= size[0] - 6 for line in it.text.split("\n"))
        assert it.app.screen.query_one(Footer).region.bottom == size[1]
        compare(it, f"saves-{size[0]}x{size[1]}")


def _measured(it: Opened) -> bool:
    saves = it.app.view.saves if it.app.view else None
    return saves is not None and all(each.saves for each in saves.projects)


async def test_it_follows_what_happens(stage: Stage, work: Path) -> None:
    async with opened(stage) as it:
        await it.press("m")
        assert "triaged" in section(it, "docs")[0]
        stage.clock.ms = NOW_MS + 302_000
        await it.until(lambda: "orphaned" in section(it, "docs")[0])
        put(work / "docs", "last-save-result.json", {"categories": ["decision"], "titles": ["x"]})
        await it.until(lambda: "saved" in section(it, "docs")[0], 20)


async def test_what_may_be_lost_is_told_once_and_until_it_is_over(stage: Stage, work: Path) -> None:
    async with opened(stage) as it:
        # What is older than a day is in the report alone.
        assert it.trouble == ""
        stage.clock.ms = NOW_MS + 302_000
        await it.until(lambda: "orphaned: triaged" in it.trouble)
        assert it.trouble.startswith("✗ save of ")
        assert it.trouble.endswith("(and 1 more)")
        put(work / "docs", "last-save-result.json", {"categories": ["decision"], "titles": ["x"]})
        put(work / "router", "last-save-result.json", {"categories": ["x"], "titles": ["x"]})
        await it.until(lambda: it.trouble == "", 20)


async def test_a_folder_without_saves(stage: Stage) -> None:
    async with opened(stage) as it:
        await it.press("m", "m")
        assert "No save of claude-memory was seen yet" in it.text
        await it.press("escape")
        assert it.app.screen is it.app.fleet


def put(project: Path, name: str, said: dict[str, Any]) -> None:
    path = project / ".claude/memory/.staging" / name
    path.write_text(json.dumps(said), encoding="utf-8")
    written = (NOW_MS + 300_000) * 1_000_000
    os.utime(path, ns=(written, written))


def test_the_stories_have_every_state_but_none(stage: Stage, tmp_path: Path) -> None:
    made = make_saves(stage.root, tmp_path / "work", NOW)
    assert {each.state for each in made} == set(SaveState) - {SaveState.NONE}


def test_the_same_rows_are_judged_once_a_second(tmp_path: Path) -> None:
    store = tmp_path / "s.db"
    Writer(store).close()
    with closing(open_reader(store)) as db:
        feed = SavesFeed(db)
        first = feed.read((), NOW_MS, COMMON)
        assert feed.is_sure(NOW_MS + 10**6)
        assert feed.read((), NOW_MS + 999, COMMON) is first
        # What a session has come to since is judged when the second is over, without a change.
        assert feed.is_sure(NOW_MS + 999)
        assert not feed.is_sure(NOW_MS + 1000)
        assert feed.read((), NOW_MS + 1000, COMMON) is not first
        assert feed.is_sure(NOW_MS + 10**6)
        second = feed.read((), NOW_MS + 1001, COMMON)
        assert feed.read((), NOW_MS + 1002, Policies()) is not second
