"""What a cell says of a session, in the room that it has."""

from __future__ import annotations

import pytest
from ctxtop.core.activity import Cache, Cost, Doing, DoingKind
from ctxtop.core.forecast import Forecast, Interval
from ctxtop.core.sessions import Status
from ctxtop.tui.session_words import (
    cache_words,
    cost_words,
    doing_words,
    shown_age,
    trail_words,
    turns_words,
)
from rich.cells import cell_len

from .makers import session
from .support import NOW_MS

TOOL = Doing(DoingKind.TOOL, "Bash", "npm test -- --run", NOW_MS - 12_000)
ASKS = Doing(DoingKind.PERSON, "permission", "Bash: rm -rf build", NOW_MS - 240_000)
THINKS = Doing(DoingKind.MODEL, "", since=NOW_MS - 3_000)


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
    doing: Doing | None, cells: int, words: str
) -> None:
    assert doing_words(session(live=True, status=Status.BUSY, doing=doing), cells) == words


def test_what_it_does_never_takes_more_than_its_cells() -> None:
    hostile = Doing(DoingKind.TOOL, "汉" * 50, "[/foo] 🚑" * 50)
    for doing in (TOOL, ASKS, THINKS, hostile, None):
        for status in Status:
            for cells in range(50):
                said = doing_words(session(live=True, status=status, doing=doing), cells)
                assert cell_len(said) <= cells


def test_for_how_long_it_does_so() -> None:
    assert shown_age(session(live=True, doing=ASKS), NOW_MS) == "4 min"
    # Of one that is over the newest thing in flight is no news.
    assert shown_age(session(live=False, doing=ASKS), NOW_MS) == "2 min"
    assert shown_age(session(last_activity_at=NOW_MS + 5_000), NOW_MS) == "0 s"


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
    assert turns_words(ahead, is_trigger=armed)[0] == words
    assert turns_words(None, is_trigger=armed) == ()


@pytest.mark.parametrize(
    ("cost", "words"),
    [
        (Cost(1.2), "≈ $1.20"),
        (Cost(0.004), "≈ $0.00"),
        (Cost(1.2, estimated=False), "$1.20"),
        (Cost(1.2, partial=True), "≈ $1.20+"),
        (Cost(1_204.4), "≈ $1,204"),
    ],
)
def test_the_cost_in_words(cost: Cost, words: str) -> None:
    assert cost_words(cost)[0] == words
    assert cost_words(None) == ()


def test_the_cache_in_words() -> None:
    warm = session(cache=Cache(NOW_MS + 250_000))
    assert cache_words(warm, NOW_MS) == ("≈warm 4 min", "≈warm")
    assert cache_words(warm, NOW_MS + 250_000) == ("≈cold",)
    assert cache_words(session(cache=Cache(NOW_MS + 1, estimated=False)), NOW_MS)[-1] == "warm"
    assert cache_words(session(), NOW_MS) == ()


def test_the_trail_ends_with_the_newest_and_stands_on_zero() -> None:
    assert trail_words((10, 20, 40, 80), 8) == "▁▂▄█"
    assert trail_words((10, 20, 40, 80), 2) == "▁█"
    assert trail_words((80, 80, 1), 8) == "██▁"
    # Growth by a hundredth is no climb.
    assert trail_words((1000, 1005, 1010), 8) == "▁▁▁"
    assert trail_words((80, 80), 8) == "▁▁"
    assert trail_words((), 8) == trail_words((0, 0), 8) == trail_words((5,), 0) == ""
