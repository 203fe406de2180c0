"""The Cache tab of a session's page: until when it is warm, its sums, and why it was lost."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pytest
from ctxtop.core.measure.timeline import TimelineEventKind
from ctxtop.tui.screens.session.session_screen import SessionScreen
from ctxtop.tui.screens.session.session_tabs import SessionTab
from ctxtop.tui.widgets.row_list import RowList
from ctxtop.tui.widgets.timeline_view import TimelineView

from .support import opened
from .writing import agent_files, answer, append, prompt, session_file

if TYPE_CHECKING:
    from .support import Opened, Stage
    from .writing import Line

MINUTE_S: Final = 60


def cached(read: int, written: int, second: float, reason: str | None = None) -> Line:
    line = answer(read + written, second, model="claude-opus-5")
    line["message"]["usage"] |= {
        "input_tokens": 0,
        "cache_read_input_tokens": read,
        "cache_creation_input_tokens": written,
    }
    line["message"]["diagnostics"] = {"cache_miss_reason": {"type": reason}} if reason else None
    return line


@pytest.fixture
def left_alone(stage: Stage) -> Stage:
    """A session whose cache expired during a pause, with an agent whose tools changed."""
    path = session_file(stage.root, 1)
    agent = [cached(0, 50_000, -90), cached(0, 50_000, -80, "tools_changed")]
    append(
        path,
        *(prompt("Fill the cache", -40 * MINUTE_S), cached(20_000, 80_000, -39 * MINUTE_S)),
        *(prompt("Go on", -2 * MINUTE_S), cached(20_000, 85_000, -100)),
    )
    agent_files(path, "abc1", {"agentType": "reviewer", "description": "look"}, *agent)
    return stage


async def open_tab(it: Opened) -> SessionScreen:
    await it.mark("Fill the cache")
    await it.press("enter")
    await it.reading()
    await it.press("8")
    await it.answered()
    screen = it.app.screen
    assert isinstance(screen, SessionScreen)
    return screen


@pytest.mark.parametrize("size", [(80, 24), (120, 40), (200, 60)])
async def test_the_tab_says_until_when_it_is_warm_and_lists_each_miss(
    left_alone: Stage, size: tuple[int, int]
) -> None:
    async with opened(left_alone, size) as it:
        await open_tab(it)
        words = it.words
        assert "(5 min cache) · 105 k cached" in words
        assert "130 k rewritten in 2 misses" in words
        expired = next(line for line in it.lines if "cache expired" in line)
        assert "≈ cache expired" in expired
        assert "80 k" in expired
        assert "≈ $0.50" in expired
        named = next(line for line in it.lines if "tools changed" in line)
        assert "≈ tools changed" not in named
        assert "reviewer abc1" in named


async def test_the_detail_says_what_was_paid_and_how_long_the_pause_was(left_alone: Stage) -> None:
    async with opened(left_alone) as it:
        await open_tab(it)
        words = " ".join(" ".join(it.part(SessionTab.CACHE)).split())
        assert "pause 37 min" in words
        assert "cached for 5 min" in words
        assert "rewritten 80,000 of 85,000 written" in words
        assert "read 20,000 tokens that is tools and common prompt" in words
        assert "cost ≈ $0.50 to read it ≈ $0.46 less" in words


async def test_the_sums_say_how_often_the_largest_context_was_written(left_alone: Stage) -> None:
    async with opened(left_alone) as it:
        await open_tab(it)
        await it.press("home")
        words = " ".join(" ".join(it.part(SessionTab.CACHE)).split())
        assert "1.6 times the largest context written" in words


async def test_a_miss_is_marked_on_the_timeline_and_opens_its_turn(left_alone: Stage) -> None:
    async with opened(left_alone) as it:
        screen = await open_tab(it)
        graph, rows = screen.query_one(TimelineView), screen.query_one("#rows", RowList)
        assert graph.timeline
        marks = [
            mark for mark in graph.timeline.events if mark.kind is TimelineEventKind.CACHE_MISS
        ]
        # The agent's own miss is not one of the session's turns.
        assert [mark.turn for mark in marks] == [1]
        await it.press("end", "home")
        place = next(n for n, row in enumerate(rows.shown) if "expired" in row.content.plain)
        rows.highlight(rows.shown[place].key)
        await it.press("enter")
        assert graph.turn is None or graph.turn == 1
        assert "cache miss: ≈ cache expired, 80 k rewritten, ≈ $0.50" in it.words


async def test_a_session_without_a_request_says_so(stage: Stage) -> None:
    append(session_file(stage.root, 1), prompt("Fill the cache"))
    async with opened(stage) as it:
        await open_tab(it)
        assert "no request yet" in it.words
