"""What holds of every page, those included that come later: keys, mouse, sizes, words, place."""

from __future__ import annotations

import contextlib
import re
import time
from typing import TYPE_CHECKING, Final

from ctxtop.tui.entities.policy_table import AREA_KEY_PREFIX
from ctxtop.tui.navigation import ROUTES
from ctxtop.tui.page_kit.page import Page
from ctxtop.tui.screens.summaries.summary_list import SummaryList
from ctxtop.tui.widgets.header_footer import Crumbs, KeyLine
from ctxtop.tui.widgets.row_list import RowList, Rows
from rich.cells import cell_len
from textual.command import CommandList, CommandPalette
from textual.widgets import Static

from .pages import WAYS, back, go, is_there
from .support import opened
from .test_ascii import check as check_ascii
from .test_ascii import plainly
from .writing import answer, append, prompt, session_file

if TYPE_CHECKING:
    from ctxtop.tui.widgets.header_footer import FooterKey
    from textual.widget import Widget

    from .support import Opened, Stage

MOVES: Final = ("j", "k", "G", "g", "ctrl+d", "ctrl+u", "tab", "shift+tab")
SIZES: Final = ((60, 20), (240, 70), (40, 12), (80, 24))


def whole(it: Opened) -> None:
    """Every line fills the screen: nothing is cut off, nothing stands beside it."""
    width, height = it.app.screen.size
    lines = it.lines  # drawn each time
    assert len(lines) == height
    assert {cell_len(line) for line in lines} == {width}


async def test_every_page_by_keys_alone(demo: Stage) -> None:
    async with opened(demo) as it:
        await it.mark("Ship the wishlist")
        reached = []
        for way in WAYS:
            if not await go(it, way):
                continue
            reached.append(way.name)
            page = it.app.screen
            await it.press(*MOVES)
            assert it.app.screen is page, way.name
            await it.press("question_mark")
            await it.until(lambda: "Help: " in it.words)
            await it.press("escape")
            assert it.app.screen is page, way.name
            await back(it)
        assert {"session", "agent", "summary", "saves"} <= set(reached)


MOST_KEYS: Final = 8
"""In a footer: more are not read."""


async def click_footer(it: Opened, action: str) -> None:
    line = it.app.screen.query_one(KeyLine)

    def place() -> FooterKey | None:
        return next((each for each in line.keys if each.binding.action.endswith(action)), None)

    await it.until(place)
    await it.calm()
    found = place()
    assert found is not None
    await it.pilot.click(line, offset=(found.start + 1, 0))


async def test_every_page_by_mouse_alone(demo: Stage) -> None:
    async with opened(demo) as it:
        for each in ROUTES:
            await click_footer(it, "command_palette")
            await it.until(lambda: isinstance(it.app.screen, CommandPalette))
            hits = it.app.screen.query_one(CommandList)
            await it.until(
                lambda hits=hits: len(ROUTES) < hits.option_count == len(hits._index_to_line)  # type: ignore[misc]
            )
            place = next(
                n for n, hit in enumerate(hits.options) if str(hit.prompt).startswith(each.title)
            )
            hits.scroll_to(y=hits._index_to_line[place], animate=False)
            await it.calm()
            await it.pilot.click(
                hits, offset=(5, hits._index_to_line[place] - hits.scroll_offset.y + 1)
            )
            await it.until(lambda: not isinstance(it.app.screen, CommandPalette))
            await it.calm()
            if isinstance(it.app.screen, Page):
                await it.until(lambda: is_there(it))
                await it.pilot.click(it.app.screen.query_one(Crumbs), offset=(2, 0))
            await it.until(lambda: it.app.screen is it.app.fleet)
        await it.click("sessions", 1, times=2)
        await it.until(lambda: is_there(it))
        await it.pilot.click(it.app.screen.query_one(Crumbs), offset=(2, 0))
        await it.until(lambda: it.app.screen is it.app.fleet)


async def test_no_page_has_more_keys_in_its_footer_than_one_reads(demo: Stage) -> None:
    async with opened(demo, (80, 24)) as it:  # where there is room, there may be more
        await it.mark("Ship the wishlist")
        for way in WAYS:
            if await go(it, way):
                names = [each.binding.description for each in it.app.screen.query_one(KeyLine).keys]
                assert len(names) <= MOST_KEYS, (way.name, names)
                await back(it)


async def test_every_page_lives_through_every_size(demo: Stage) -> None:
    async with opened(demo) as it:
        await it.mark("Ship the wishlist")
        for way in WAYS:
            if not await go(it, way):
                continue
            page = it.app.screen
            for size in SIZES:
                await it.resize(size)
                await it.until(lambda height=size[1]: len(it.lines) == height)  # type: ignore[misc]
                assert it.app.screen is page, way.name
                whole(it)
                focused = it.app.focused
                if focused is not None and size[0] >= 60:
                    assert focused.region.overlaps(page.region), (way.name, size)
            await back(it)


async def test_every_page_in_ascii(demo: Stage) -> None:
    async with opened(plainly(demo)) as it:
        await it.mark("Ship the wishlist")
        for way in WAYS:
            if await go(it, way):
                check_ascii(it)
                await back(it)


async def test_every_page_without_a_session_says_something(stage: Stage) -> None:
    async with opened(stage, (80, 24)) as it:
        for each in ROUTES:
            await it.press(each.key.split(",")[0])
            await it.calm()
            assert it.app.is_running
            whole(it)
            shown = [line for line in it.lines[1:-1] if line.strip(" │╭╮╰╯─")]
            assert shown or it.toasts, each.name
            await back(it)


async def test_the_place_is_kept_while_data_changes(demo: Stage) -> None:
    async with opened(demo, (80, 24)) as it:
        await it.mark("Ship the wishlist")
        path = session_file(demo.root, 7)
        for number, way in enumerate(WAYS):
            if not await go(it, way):
                continue
            if way.name in {"session", "agent", "summary"}:
                await it.reading()
            await it.press("G")
            await it.calm()
            focused = it.app.focused
            assert focused is not None, way.name
            place = standing(focused)
            before = it.app.view
            append(path, prompt(f"Another task {number}", number), answer(9_000 + number))
            await it.until(lambda before=before: it.app.view is not before)  # type: ignore[misc]
            await it.calm()
            assert it.app.focused is focused, way.name
            # Who stands at the log's end follows it; what is read first begins at its top.
            if place is not None and way.name != "log":
                assert standing(focused) == place, way.name
            await back(it)


def standing(focused: Widget) -> object:
    """Return the reading position: the row's key, the summary ID or the scroll offset."""
    if isinstance(focused, Rows):
        marked = focused.highlighted
        return None if marked is None else focused.shown[marked].key
    if isinstance(focused, SummaryList):
        return focused.summary_id
    return focused.scroll_offset


TITLES: Final = (
    "plain words",
    "修复支付网关的超时问题",
    "family 👨‍👩‍👧‍👦 flags 🇩🇪🇯🇵 skin 👍🏽",
    "e\u0301a\u0308o\u0308 combining marks",
    "إصلاح البحث في الملاحظات",
    "שלום עולם mixed with English",
)


def write_titles(stage: Stage) -> None:
    """Write a session of each title."""
    for number, title in enumerate(TITLES, 1):
        append(session_file(stage.root, number), prompt(title), answer(90_000))


def starts(line: str, sign: str) -> int:
    """Return the cell (not the character) at which `sign` starts."""
    return cell_len(line[: line.index(sign)])


async def test_columns_begin_at_the_same_cell_whatever_the_title(stage: Stage) -> None:
    write_titles(stage)
    async with opened(stage) as it:
        for size in ((80, 24), (120, 40)):
            await it.resize(size)
            assert len(it.titles()) == len(TITLES)
            pane = it.pane("sessions")
            region = pane.rows.region
            rows = it.lines[region.y : region.y + len(TITLES)]
            assert len({starts(row, "45 %") for row in rows}) == 1, rows
            whole(it)
            for row in pane.shown:
                assert row.content.cell_length == pane.row_width


def cells(line: str) -> list[str]:
    """Return the character in each cell; a wide character fills two."""
    found: list[str] = []
    for each in line:
        # What has no width of its own belongs to the cell before it.
        found += [each] * cell_len(each)
    return found


def columns(head: str) -> list[tuple[int, int]]:
    """Return the start and end of each column title; two spaces separate titles."""
    return [match.span() for match in re.finditer(r"\S+(?: \S+)*", head)]


async def test_every_list_keeps_its_columns_whatever_the_title(demo: Stage) -> None:
    write_titles(demo)
    async with opened(demo) as it:
        checked = set()
        for way in WAYS:
            if not await go(it, way):
                continue
            panes = it.app.screen.query(RowList)
            with contextlib.suppress(AssertionError):
                # A list may well have nothing to show.
                await it.until(lambda panes=panes: all(pane.shown for pane in panes), 2)  # type: ignore[misc]
            for size in ((80, 24), (120, 40), (200, 60)):
                await it.resize(size)
                for pane in panes:
                    if keeps_columns(way.name, pane):
                        checked.add(way.name)
            await back(it)
        assert len(checked) > 3, checked


def keeps_columns(page: str, pane: RowList) -> bool:
    """Check a list's rows against its header; return whether there was one to check."""
    head, checked = str(pane.query_one(".head", Static).content), False
    for row in pane.shown:
        for line in row.content.split("\n"):
            assert line.cell_length <= pane.row_width, (page, line.plain)
        if row.height == 1 and head.strip() and not row.key.startswith(AREA_KEY_PREFIX):
            stands = cells(row.content.plain.ljust(pane.row_width + 1))
            # The first column of a tree is indented.
            is_nested = row.content.plain[:1] in {"├", "└", "│"}
            for start, end in columns(head)[is_nested:]:
                edges = stands[start - 1] if start else " ", stands[end]
                assert " " in edges, (page, head, row.content.plain)
            checked = True
    return checked


async def test_a_title_of_a_megabyte_costs_no_page_more_than_a_moment(stage: Stage) -> None:
    append(
        session_file(stage.root, 1),
        prompt("A [/foo] " + "汉\u0301" * 500_000),
        answer(90_000),
    )
    async with opened(stage) as it:
        await it.mark("A ")
        for way in WAYS:
            began = time.process_time()
            await it.press(*way.keys)
            await it.calm()
            assert time.process_time() - began < 3, way.name
            await back(it)
