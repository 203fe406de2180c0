"""Text that tries to be more than text: it is shown, never obeyed."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from ctxtop.core.transcript.sanitize import MAX_LONG_TITLE_CHARS
from ctxtop.tui.app import CtxtopApp
from ctxtop.tui.page_kit.page import ReadingScreen
from textual import events
from textual.command import CommandPalette

from .pages import WAYS, back, go
from .support import opened
from .writing import (
    agent_files,
    answer,
    append,
    boundary,
    launch,
    line,
    prompt,
    returned,
    session_file,
)

if TYPE_CHECKING:
    import pytest

    from .support import Opened, Stage

MARKUP: Final = "see [/foo] and [bold red]x[/] @click=app.quit [link=http://e.x]y"
ESCAPES: Final = "a\x1b]0;t\x07b\x1b[31mc\x9b32md\x00e\x08f\x7fg\x1b]52;c;aGk=\x1b\\h"
BIDI: Final = "i\u202ej\u2066k\u200el\u061cm"
THIN: Final = "n\u200bo\u200dp\ufeffq\u0301r"
HOSTILE: Final = f"{MARKUP} {ESCAPES} {BIDI} {THIN}"

# What a terminal could obey: C0, DEL, C1, and what turns the direction of reading.
OBEYED: Final = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\ufeff]")


def is_harmless(it: Opened) -> bool:
    """Look through every cell of the screen."""
    found = [OBEYED.findall(one) for one in it.lines]
    assert not any(found), found
    return True


def hostile_session(stage: Stage, title: str = HOSTILE) -> None:
    """Write a session in which everything that has words is hostile."""
    path = session_file(stage.root, 1, "-home-[bold]")
    meta = {"agentType": HOSTILE, "description": HOSTILE, "toolUseId": "toolu_1", "model": HOSTILE}
    kept = {"role": "user", "content": HOSTILE}
    append(
        path,
        line("user", cwd=f"/home/{HOSTILE}", message={"role": "user", "content": title}),
        launch("toolu_1", HOSTILE, HOSTILE, 21_000),
        returned("toolu_1", "abc1", f"{HOSTILE}\n{HOSTILE}"),
        boundary(2_000),
        line("user", message=kept, isCompactSummary=True),
        line("custom-title", customTitle=title),
        answer(100_000, model="claude-haiku-4-5"),
    )
    agent_files(path, "abc1", meta, prompt(HOSTILE), answer(30_000, model=f"m-{HOSTILE}"))


async def test_every_screen_is_harmless_and_shows_the_words(stage: Stage) -> None:
    hostile_session(stage)
    async with opened(stage, (240, 70)) as it:
        assert is_harmless(it)
        (title,) = it.titles()
        assert title.startswith(MARKUP)
        assert "see [/foo] and [bold red]x[/]" in it.words
        await it.until(lambda: len(it.rows("agents")) == 2)
        assert all("[" in row for row in it.rows("agents").values())
        assert len(it.rows("summaries")) == 2
        for pane in "123":
            await it.press(pane, "G", "enter")
            await it.reading()
            assert is_harmless(it)
            assert "[/foo]" in it.words
            await it.press("y", "escape")
            assert is_harmless(it)
            assert it.app.is_running
        await it.press("question_mark")
        assert is_harmless(it)


async def test_every_page_is_harmless(stage: Stage) -> None:
    hostile_session(stage)
    async with opened(stage, (160, 50)) as it:
        await it.until(lambda: len(it.rows("agents")) == 2)
        for way in WAYS:
            if await go(it, way):
                assert is_harmless(it)
                for key in ("j", "G", "tab", "j"):
                    await it.press(key)
                assert is_harmless(it)
                await it.press("question_mark")
                assert is_harmless(it)
                await it.press("escape")
                await it.resize((60, 20))
                assert is_harmless(it)
                await it.resize((160, 50))
                await back(it)
            assert it.app.is_running


async def test_the_palette_shows_titles_as_they_are(stage: Stage) -> None:
    hostile_session(stage)
    async with opened(stage) as it:
        for key in ("J", "colon"):
            await it.press(key)
            await it.until(lambda: isinstance(it.app.screen, CommandPalette))
            await it.press(*"[/foo]")
            await it.until(lambda: "see [/foo] and [bold red]x[/]" in it.words)
            assert is_harmless(it)
            await it.press("escape")
            await it.until(lambda: it.app.screen is it.app.fleet)


async def test_crumbs_and_the_help_show_titles_as_they_are(stage: Stage) -> None:
    hostile_session(stage)
    async with opened(stage) as it:
        await it.press("enter")
        await it.reading()
        assert "sessions › see [/foo] and [bold red]x[/]" in it.lines[0]
        await it.press("question_mark")
        assert "Help: see [/foo] and [bold" in it.words
        assert is_harmless(it)


async def test_a_toast_of_a_level_is_harmless(stage: Stage) -> None:
    hostile_session(stage)
    async with opened(stage) as it:
        append(session_file(stage.root, 1, "-home-[bold]"), answer(150_000))
        await it.until(lambda: it.toasts)
        await it.calm()
        assert is_harmless(it)
        assert "notice: 70 % reached" in it.words
        assert "see [/foo] and [bold red]x[/]" in it.words


async def test_a_toast_of_what_was_copied_is_harmless(stage: Stage) -> None:
    hostile_session(stage)
    async with opened(stage) as it:
        await it.press("3", "y")
        assert is_harmless(it)
        assert "see [/foo] and [bold red]x[/]" in it.words
        assert "\x1b" not in it.app.clipboard
        await it.until(lambda: len(it.rows("agents")) == 2)
        await it.press("2", "G", "y")
        assert is_harmless(it)
        assert "copied result of see [/foo]" in it.words


async def test_a_filter_and_a_search_show_what_was_typed(stage: Stage) -> None:
    hostile_session(stage)
    async with opened(stage) as it:
        await it.press("slash", *"[/foo] [bold", "enter")
        assert "1 match “[/foo] [bold”" in it.status
        await it.press("escape", "3", "slash", *"[/foo]", "enter")
        await it.settle()
        assert len(it.rows("summaries")) == 2
        assert "/[/foo]" in it.words


async def test_what_is_pasted_into_a_filter_is_harmless(stage: Stage) -> None:
    hostile_session(stage)
    async with opened(stage) as it:
        await it.press("slash")
        it.app.post_message(events.Paste(f"[/foo]{ESCAPES}{BIDI}"))
        await it.until(lambda: "[/foo]" in it.app.fleet.arrangement.filter_text)
        assert is_harmless(it)


async def test_a_trouble_with_a_hostile_name_is_harmless(stage: Stage) -> None:
    name = "x\x1b[31m[foo]\u202e.jsonl"
    folder = stage.root / "projects" / "-p"
    folder.mkdir()
    (folder / name).symlink_to(folder)
    async with opened(stage) as it:
        await it.until(lambda: "is not a regular file" in it.trouble)
        assert is_harmless(it)
        assert "x[31m[foo].jsonl" in it.trouble


async def test_files_with_hostile_names_are_harmless(stage: Stage) -> None:
    folder = stage.root / "projects" / "-home\x1b[31m[bold]\u202e"
    path = folder / "s\x1b]0;t\x07[foo]\u202e.jsonl"
    no_folder = answer(9_000)
    del no_folder["cwd"]
    append(path, no_folder, launch("toolu_1", "reviewer", "", 21_000) | {"cwd": None})
    agent_files(path, "a\x1b[31m\u202e", {}, answer(30_000))
    async with opened(stage, (160, 40)) as it:
        assert is_harmless(it)
        assert "bold]" in it.words
        await it.press("y")
        assert is_harmless(it)
        await it.press("enter")
        await it.reading()
        assert is_harmless(it)
        # The toast of the copy may lie over it.
        await it.until(lambda: "[foo]" in it.words)
        await it.press("escape", "2", "G", "y", "enter")
        await it.reading()
        assert is_harmless(it)
        append(path, answer(190_000))
        await it.until(lambda: len(it.toasts) == 3)
        assert is_harmless(it)


async def test_a_folder_with_a_hostile_name_is_harmless(stage: Stage) -> None:
    root = stage.root.parent / "e\x1b[31m[bold]\u202evil"
    stage.root.rename(root)
    stage.places = type(stage.places)(root, stage.places.store)
    async with opened(stage) as it:
        assert "No sessions yet" in it.words
        assert is_harmless(it)
        assert "bold]" in it.words


async def test_a_hostile_notice_is_harmless(stage: Stage) -> None:
    async with opened(stage, notice=f"there is no folder {HOSTILE}") as it:
        await it.until(lambda: it.toasts)
        await it.calm()
        assert is_harmless(it)
        assert "[/foo]" in it.words


async def test_a_title_of_a_megabyte_is_one_short_line(stage: Stage) -> None:
    hostile_session(stage, "A [/foo] " + "汉\u0301" * 500_000)
    async with opened(stage) as it:
        (row,) = it.rows().values()
        assert "A [/foo" in row
        assert len(it.titles()[0]) <= MAX_LONG_TITLE_CHARS
        await it.press("enter")
        await it.reading()
        assert is_harmless(it)


async def test_a_text_of_200_kilobytes_is_read_and_scrolled(stage: Stage) -> None:
    path = session_file(stage.root, 1)
    words = "one [/foo] line of words that is about as long as lines are\n" * 3_400
    append(
        path,
        prompt("Long"),
        launch("toolu_1", "reviewer", "long", 21_000),
        returned("toolu_1", "abc1", words),
    )
    async with opened(stage) as it:
        await it.press("3", "enter")
        await it.reading()
        await it.until(lambda: "one [/foo] line" in it.words, 5)
        await it.press("G")
        page = it.app.screen.query_one("#page")
        assert page.scroll_offset.y > 3_000
        await it.press("g", "space", "y", "escape")
        assert it.app.screen is it.app.fleet
        assert len(it.app.clipboard) > 190_000


async def test_a_click_on_what_looks_like_a_link_does_nothing(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened_links: list[str] = []
    monkeypatch.setattr(CtxtopApp, "open_url", lambda _, url, **__: opened_links.append(url))
    hostile_session(stage, "[@click=app.quit]quit[/] [link=http://e.x]go[/link]")
    async with opened(stage) as it:
        for column in range(2, 40, 4):
            await it.pilot.click("#sessions", offset=(column, 2))
        await it.calm()
        assert it.app.is_running
        assert opened_links == []
        if isinstance(it.app.screen, ReadingScreen):
            await it.press("escape")
        assert "[@click=app.quit]" in it.titles()[0]
