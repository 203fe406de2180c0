"""The screens as pictures: a change of how they look is seen, and accepted or not."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ctxtop.tui.widgets.controls import FilterInput

from .comparing import compare, compare_sizes, counted
from .support import opened

if TYPE_CHECKING:
    from .support import Stage

LEADER: Final = "Ship the wishlist"


async def test_the_fleet(demo: Stage) -> None:
    async with opened(demo) as it:
        await counted(it)
        await it.mark(LEADER)
        await compare_sizes(it, "fleet")


async def test_the_fleet_at_its_smallest_and_widest(demo: Stage) -> None:
    async with opened(demo) as it:
        await counted(it)
        await it.mark(LEADER)
        for size in ((60, 20), (240, 70)):
            await it.resize(size)
            await compare(it, f"fleet-{size[0]}x{size[1]}")


async def test_the_fleet_by_projects(demo: Stage) -> None:
    async with opened(demo) as it:
        await counted(it)
        await it.mark("Rewrite the OpenAPI")
        await it.press("b", "o", "space")
        await it.mark("Ledger")
        await it.press("left")
        await it.settle()
        await compare_sizes(it, "fleet-grouped")


async def test_the_fleet_while_a_filter_is_typed(demo: Stage) -> None:
    async with opened(demo) as it:
        await counted(it)
        await it.press("slash", *"live: is:")
        it.app.fleet.query_one(FilterInput).cursor_blink = False
        await it.settle()
        await compare(it, "fleet-filter")


async def test_what_fills_the_marked_session(demo: Stage) -> None:
    async with opened(demo) as it:
        await counted(it)
        await it.mark("Fix the flaky")
        await it.press("4", "1")
        await it.until(lambda: "tool results" in it.words)
        await compare(it, "fleet-fills")
        await it.press("v")
        await it.until(lambda: "❯ " in it.words)
        await compare_sizes(it, "conversation")


async def test_a_summary(demo: Stage) -> None:
    async with opened(demo, (80, 24)) as it:
        await it.press("3", "enter")
        await it.reading()
        await compare(it, "summary")
        await it.resize((200, 60))
        await compare(it, "summary-200x60-ctxtop-dark")


async def test_the_help(demo: Stage) -> None:
    async with opened(demo, (100, 42)) as it:
        await counted(it)
        await it.press("question_mark")
        await compare(it, "help")


async def test_nothing_to_show(stage: Stage) -> None:
    async with opened(stage, (80, 24)) as it:
        # The folder's name differs from run to run.
        it.pane("sessions").empty = "No sessions yet in ~/.claude."
        await it.calm()
        await compare(it, "empty")
