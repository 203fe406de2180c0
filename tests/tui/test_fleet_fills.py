"""What fills the marked session, beside its agents."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ctxtop.core.measure.composition import CategoryShare, Composition, CompositionSource
from ctxtop.tui.screens.fleet.fleet_panes import context_lines

from .support import opened

if TYPE_CHECKING:
    from .support import Stage

FILLED = Composition(
    total_tokens=100_000,
    estimated=False,
    source=CompositionSource.REQUESTS,
    categories=(
        CategoryShare("tool results", 61_000, 0.61, estimated=True),
        CategoryShare("your words", 1_000, 0.01, estimated=True),
    ),
    largest=(),
    unexplained_tokens=0,
    later_tokens=0,
)


def test_every_line_has_the_width_and_its_number() -> None:
    for width in range(30, 120):
        lines = list(context_lines(FILLED, 200_000, width))
        assert {line.cell_length for line in lines} == {width}
        assert " 31 %" in lines[1].plain
        assert lines[1].plain.endswith("61 k")


async def test_4_shows_what_fills_the_marked_session_once_the_mark_rests(demo: Stage) -> None:
    async with opened(demo) as it:
        await it.mark("Fix the flaky")
        await it.press("4")
        assert "³ Summaries" not in it.words
        assert '⁴ Breakdown of "Fix the flaky' in it.words
        await it.until(lambda: "tool results" in it.words)
        assert "163 k tokens in context" in it.words
        await it.press("y")
        assert "tool results" in it.app.clipboard
        await it.press("escape", "j")
        assert "reading its transcript" in it.words
        await it.until(lambda: "128 k tokens in context" in it.words)
        await it.press("k")
        assert "163 k tokens in context" in it.words
        await it.press("3")
        assert "³ Summaries" in it.words


async def test_a_mark_that_only_passes_asks_nothing(demo: Stage) -> None:
    async with opened(demo) as it:
        await it.press("4", "1")
        await it.until(lambda: "tokens in context" in it.words)
        asked = len([one for one in it.messages if type(one).__name__ == "Asked"])
        await it.press("j", "j", "j", "j", "k", "k", "k", "k")
        assert len([one for one in it.messages if type(one).__name__ == "Asked"]) == asked
        assert "tokens in context" in it.words


async def test_a_session_that_says_nothing_says_so(demo: Stage) -> None:
    async with opened(demo, (80, 24)) as it:
        await it.mark("Search offline")
        await it.press("4")
        await it.until(lambda: "looking into" not in it.words)
        assert "⁴ Breakdown" in it.words
