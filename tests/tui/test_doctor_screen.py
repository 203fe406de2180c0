"""The doctor's page: checks one after another, what to do, and once more."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from ctxtop.tui.doctor import all_checks
from ctxtop.tui.doctor.doctor_check import DoctorCheck, failed, noted, passed
from ctxtop.tui.page_kit.page import ReadingScreen
from ctxtop.tui.screens.doctor_screen import DoctorScreen
from ctxtop.tui.widgets.row_list import RowList

from .comparing import compare_sizes, counted
from .support import Stage, opened

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pytest

    from .support import Opened

CHECKS = (
    passed("claude folder", "/home/dev/.claude"),
    passed("projects", "29 transcripts in /home/dev/.claude/projects"),
    passed("registry", "8 open sessions"),
    noted("links", "1 skipped (links or special files), e.g. -home-dev-shop/notes.jsonl"),
    passed("watching", "inotify: 61 folders; max_user_watches 192,536, max_user_instances 128"),
    failed("clock", "1 transcript dated in the future: [red]x", "set this machine's clock"),
    passed("store", "/home/dev/.local/state/ctxtop/store-1.db, 1,204,224 bytes, m017_automatic"),
    noted("bad lines", "2 lines could not be read", "`ctxtop scan --bad` lists them"),
    failed(
        "hook log",
        "1 file, 0.4 MB, last written 2026-11-20 11:48:00+00:00; other users can read it",
        "chmod 600 /home/dev/.local/state/ctxtop/store-1.db.logs/hooks.jsonl",
    ),
    passed("sqlite", "3.40.1 with FTS5"),
    passed("terminal", "TERM=xterm-256color, a terminal, colors, NO_COLOR unset, utf-8"),
)


def rows(it: Opened) -> list[str]:
    return [row.content.plain for row in it.app.screen.query_one(RowList).shown]


async def open_doctor(it: Opened) -> DoctorScreen:
    await it.press("D")
    screen = it.app.screen
    assert isinstance(screen, DoctorScreen)
    await it.until(lambda: screen._is_done)
    return screen


def give(monkeypatch: pytest.MonkeyPatch, *checks: DoctorCheck) -> None:
    def each_check(_: object) -> Iterator[DoctorCheck]:
        yield from checks

    monkeypatch.setattr(all_checks, "each_check", each_check)


async def test_it_makes_the_checks_of_the_command(demo: Stage) -> None:
    async with opened(demo) as it:
        screen = await open_doctor(it)
        names = [check.name for check in screen._checks]
        assert names == [check.name for check in all_checks.check_all(demo.places)]
        assert "claude folder" in rows(it)[0]
        signs = Counter(row[0] for row in rows(it))
        assert f"Doctor · {signs['✓']} ✓" in it.words
        await it.press("escape")
        assert it.app.screen is it.app.fleet


async def test_what_is_wrong_says_what_to_do(demo: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    give(monkeypatch, *CHECKS)
    async with opened(demo) as it:
        await open_doctor(it)
        assert "7 ✓ · 2 ! · 2 ✗" in it.words
        assert [row[0] for row in rows(it)] == [*"✓✓✓!✓✗✓!✗✓✓"]
        assert "→ set this machine's clock" in rows(it)[5]
        await it.press("n", "y")
        assert it.app.clipboard.startswith("1 skipped")
        await it.press("n", "y")
        assert it.app.clipboard == "set this machine's clock"
        await it.press("n", "n", "enter")
        await it.until(lambda: isinstance(it.app.screen, ReadingScreen))
        assert "chmod 600" in it.text
        await it.press("escape", "n")
        assert it.app.screen.query_one(RowList).rows.highlighted == 3
        await it.press("g", "y")
        assert it.app.clipboard == "/home/dev/.claude"


async def test_it_checks_again(demo: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    give(monkeypatch, *CHECKS)
    async with opened(demo) as it:
        screen = await open_doctor(it)
        give(monkeypatch, *CHECKS[:5], passed("clock", "no transcript is dated in the future"))
        await it.press("full_stop")
        await it.until(lambda: screen._is_done and len(rows(it)) == 6)
        assert "5 ✓ · 1 !" in it.words


async def test_a_check_that_breaks_is_told(demo: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    def each_check(_: object) -> Iterator[DoctorCheck]:
        yield CHECKS[0]
        raise ValueError("no such thing")

    monkeypatch.setattr(all_checks, "each_check", each_check)
    async with opened(demo) as it:
        await open_doctor(it)
        assert "ValueError: no such thing" in it.words


async def test_a_double_click_opens(demo: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    give(monkeypatch, *CHECKS)
    async with opened(demo) as it:
        await open_doctor(it)
        await it.pilot.click(it.app.screen.query_one(RowList).rows, offset=(9, 2), times=2)
        await it.until(lambda: isinstance(it.app.screen, ReadingScreen))
        assert "8 open sessions" in it.text


async def test_how_it_looks(demo: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    give(monkeypatch, *CHECKS)
    async with opened(demo) as it:
        await counted(it)
        await open_doctor(it)
        await compare_sizes(it, "doctor")
