"""What a cell says of a session, in the room that it has."""

from __future__ import annotations

import pytest
from ctxtop.core.measure.activity import Activity, ActivityKind, PromptCache, SessionCost
from ctxtop.core.measure.forecast import Forecast, Interval
from ctxtop.core.model.session import SessionStatus
from ctxtop.tui.text.session_text import (
    cache_texts,
    cost_texts,
    doing_age,
    doing_text,
    history_sparkline,
    turns_left_texts,
)
from rich.cells import cell_len

from .makers import session
from .support import NOW_MS

TOOL = Activity(ActivityKind.TOOL, "Bash", "npm test -- --run", NOW_MS - 12_000)
ASKS = Activity(ActivityKind.PERSON, "permission", "Bash: rm -rf build", NOW_MS - 240_000)
THINKS = Activity(ActivityKind.MODEL, "", since=NOW_MS - 3_000)


@pytest.mark.parametrize(
    ("doing", "cells", "words"),
    [
        (TOOL, 30, "Bash npm test -- --run"),
        (TOOL, 14, "Bash npm …-run"),
        (TOOL, 8, "Bash"),
        (ASKS, 40, "waits: permission Bash: rm -rf build"),
        (ASKS, 24, "waits: permission Bas…ld"),
        (ASKS, 17, "waits: permission"),
        (ASKS, 14, "waits for you"),
        (ASKS, 7, "waits"),
        (THINKS, 8, "thinking"),
        (THINKS, 7, "thinks"),
        (None, 20, "working"),
    ],
)
def test_what_it_does_in_the_room_that_there_is(
    doing: Activity | None, cells: int, words: str
) -> None:
    assert doing_text(session(live=True, status=SessionStatus.BUSY, activity=doing), cells) == words


def test_what_it_does_never_takes_more_than_its_cells() -> None:
    hostile = Activity(ActivityKind.TOOL, "汉" * 50, "[/foo] 🚑" * 50)
    for doing in (TOOL, ASKS, THINKS, hostile, None):
        for status in SessionStatus:
            for cells in range(50):
                said = doing_text(session(live=True, status=status, activity=doing), cells)
                assert cell_len(said) <= cells


def test_for_how_long_it_does_so() -> None:
    assert doing_age(session(live=True, activity=ASKS), NOW_MS) == "4 min"
    # Of one that is over the newest thing in flight is no news.
    assert doing_age(session(live=False, activity=ASKS), NOW_MS) == "2 min"
    assert doing_age(session(last_activity_at=NOW_MS + 5_000), NOW_MS) == "0 s"


@pytest.mark.parametrize(
    ("low", "high", "armed", "words"),
    [
        (12, 12, True, "≈ 12 turns"),
        (2, 4, True, "≈ 2–4 turns"),
        (1, 1, True, "≈ 1 turn"),
        (2, 4, False, "≈ 2–4 turns to full"),
        (123, 456, True, "≈ 120–460 turns"),
    ],
)
def test_the_forecast_in_words(low: int, high: int, armed: bool, words: str) -> None:
    ahead = Forecast(Interval(low, high, low, high), None)
    assert turns_left_texts(ahead, is_trigger=armed)[0] == words
    assert turns_left_texts(None, is_trigger=armed) == ()


@pytest.mark.parametrize(
    ("cost", "words"),
    [
        (SessionCost(1.2), "≈ $1.20"),
        (SessionCost(0.004), "≈ $0.00"),
        (SessionCost(1.2, estimated=False), "$1.20"),
        (SessionCost(1.2, partial=True), "≈ $1.20+"),
        (SessionCost(1_204.4), "≈ $1,204"),
    ],
)
def test_the_cost_in_words(cost: SessionCost, words: str) -> None:
    assert cost_texts(cost)[0] == words
    assert cost_texts(None) == ()


def test_the_cache_in_words() -> None:
    warm = session(cache=PromptCache(NOW_MS + 250_000))
    assert cache_texts(warm, NOW_MS) == ("≈warm 4 min", "≈warm")
    assert cache_texts(warm, NOW_MS + 250_000) == ("≈cold",)
    assert (
        cache_texts(session(cache=PromptCache(NOW_MS + 1, estimated=False)), NOW_MS)[-1] == "warm"
    )
    assert cache_texts(session(), NOW_MS) == ()


def test_the_trail_ends_with_the_newest_and_stands_on_zero() -> None:
    assert history_sparkline((10, 20, 40, 80), 8) == "▁▂▄█"
    assert history_sparkline((10, 20, 40, 80), 2) == "▁█"
    assert history_sparkline((80, 80, 1), 8) == "██▁"
    # Growth by a hundredth is no climb.
    assert history_sparkline((1000, 1005, 1010), 8) == "▁▁▁"
    assert history_sparkline((80, 80), 8) == "▁▁"
    assert (
        history_sparkline((), 8) == history_sparkline((0, 0), 8) == history_sparkline((5,), 0) == ""
    )
