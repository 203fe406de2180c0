"""The fleet's screen in every size, in every theme, and without colors."""

from __future__ import annotations

import itertools
import re
from typing import TYPE_CHECKING

import pytest
from ctxtop.tui.base.theme import THEMES
from rich.cells import cell_len

from .support import opened
from .writing import answer, append, prompt, session_file

if TYPE_CHECKING:
    from .support import Opened, Stage

SIZES = [(40, 10), (60, 20), (80, 24), (100, 30), (120, 40), (160, 50), (240, 70)]
BAR = re.compile(r"██|┊")
WINDOW_OF_THE_PICTURE = {"#c5c8c6", "#292929", "#ff5f57", "#febc2e", "#28c840"}
NUMBERED = re.compile(r"[█▏▎▍▌▋▊▉┊ ]{10,46} (≈?\d+ %|–)")


def fits(it: Opened) -> bool:
    """Whether every row of every visible pane has exactly the pane's width."""
    panes = [it.pane(name) for name in ("sessions", "agents", "summaries")]
    return all(
        line.cell_length == pane.row_width
        for pane in panes
        if pane.region.height
        for row in pane.shown
        for line in row.content.split("\n")
    )


async def check(it: Opened, size: tuple[int, int]) -> None:
    """Look at what must hold on every screen of every size."""
    width, height = size
    await it.until(lambda: fits(it), 2)
    assert len(it.lines) == height
    assert {cell_len(line) for line in it.lines} == {width}
    pane = it.pane("sessions").rows.region
    # Without the scroll bar, which is drawn of blocks as well.
    shown = [line[: line.rfind("%") + 1] for line in it.lines[pane.y : pane.bottom]]
    bars = [line for line in shown if BAR.search(line)]
    assert all(NUMBERED.search(line) for line in bars)
    assert bars or not pane.height


async def test_each_size_has_its_numbers(demo: Stage) -> None:
    async with opened(demo) as it:
        await it.mark("Ship the wishlist")
        for size in SIZES:
            await it.resize(size)
            await check(it, size)
            for key in "123":
                await it.press(key)
                await check(it, size)
                await it.press("z")
                await it.press("z")
            await check(it, size)
            await it.press("1", "slash", *"ship", "enter")
            await it.settle()
            await check(it, size)
            await it.press("escape", "question_mark", "escape", "enter")
            await it.reading()
            assert len(it.lines) == size[1]
            await it.press("G", "escape")
            await check(it, size)


async def test_a_terminal_that_is_resized_while_it_runs(demo: Stage) -> None:
    async with opened(demo) as it:
        await it.mark("Ship the wishlist")
        for size in (*SIZES, *reversed(SIZES), *itertools.islice(SIZES, 0, None, 2)):
            await it.resize(size)
            await it.calm()
            await it.pilot.pause(0.03)
            await it.calm()
            await check(it, size)
            assert it.pane("sessions").key == demo.titled("Ship the wishlist").session_id


@pytest.mark.parametrize("size", [(1, 1), (5, 3), (12, 4), (20, 6), (400, 3)])
async def test_no_size_is_too_small_to_live(demo: Stage, size: tuple[int, int]) -> None:
    async with opened(demo, size) as it:
        await it.press("j", "2", "3", "1", "z", "z", "slash", "a", "escape", "s", "p", "p")
        await it.press("enter")
        await it.reading()
        await it.press("escape", "question_mark", "escape")
        await it.resize((120, 40))
        await it.until(lambda: "Ship the w" in it.words)


async def test_80_by_24_has_one_lower_pane_which_2_and_3_turn(demo: Stage) -> None:
    async with opened(demo, (80, 24)) as it:
        assert "─ ² Agents ─" in it.words
        assert "─ ³ Summaries ─" not in it.words
        await it.press("3")
        assert "─ ² Agents ─" not in it.words
        assert "─ ³ Summaries ─" in it.words
        assert "¹ Sessions" in it.words
        await it.press("escape")
        assert it.pane("sessions").rows.has_focus
        assert "³ Summaries" in it.words
        await it.press("2")
        assert "² Agents" in it.words


@pytest.mark.parametrize("size", [(40, 10), (120, 12), (80, 17)])
async def test_where_one_pane_fits_a_line_says_how_to_see_the_others(
    demo: Stage, size: tuple[int, int]
) -> None:
    async with opened(demo, size) as it:
        assert "1 2 3 4 switch panes" in it.lines[0]
        assert "─ ¹ Sessions ─" in it.words
        await it.press("2")
        assert "─ ² Agents" in it.words
        assert "─ ¹ Sessions ─" not in it.words
        await it.press("3")
        assert "─ ³ Summaries ─" in it.words
        await it.press("escape")
        assert "─ ¹ Sessions ─" in it.words
        await it.resize((120, 40))
        await it.until(lambda: "19 sessions" in it.status)


async def test_wide_screens_have_every_column(demo: Stage) -> None:
    async with opened(demo, (200, 60)) as it:
        head = it.lines[2]
        for word in (
            "session",
            "branch",
            "model",
            "state",
            "context",
            "left",
            "agents",
            "cost",
            "cache",
            "last prompt",
        ):
            assert word in head


async def test_many_sessions_scroll_and_cut_nothing(stage: Stage) -> None:
    for number in range(1, 10):
        for folder in "abcdef":
            path = session_file(stage.root, number, f"-home-dev-{folder}")
            path = path.with_name(f"{ord(folder):x}{path.name[2:]}")
            append(path, prompt(f"Task {folder}{number}"), answer(150_000 + number))
    async with opened(stage, (80, 24)) as it:
        assert len(it.titles()) == 54
        await check(it, (80, 24))
        await it.press("G")
        assert it.titles()[-1] in it.words
        await it.press("g")
        assert it.titles()[0] in it.words


async def test_every_theme_draws(demo: Stage) -> None:
    async with opened(demo) as it:
        for theme in (*(theme.name for theme in THEMES), "nord", "textual-light"):
            it.app.theme = theme
            await it.calm()
            await check(it, (120, 40))
            assert "Fix the" in it.app.export_screenshot().replace("&#160;", " ")
            await it.press("question_mark", "escape", "enter")
            await it.reading()
            await it.press("escape")


async def test_no_color_leaves_greys_and_every_number(
    demo: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    async with opened(demo) as it:
        await check(it, (120, 40))
        assert it.app.no_color
        found = re.findall(r"fill: ?(#[0-9a-f]{6})", it.app.export_screenshot())
        shades = set(found) - WINDOW_OF_THE_PICTURE
        assert shades
        assert all(len({shade[1:3], shade[3:5], shade[5:7]}) == 1 for shade in shades), shades
        for sign in ("▲", "●", "○", "✗", "↻", "≈", "┊", "▏"):
            assert sign in it.words
