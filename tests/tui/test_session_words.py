"""What a cell says of a session, in the room that it has."""

from __future__ import annotations

import math

import pytest
from ctxtop.core.measure.plan_limits import FIVE_HOURS, WEEK
from ctxtop.core.model.claude_models import HOUR_MS
from ctxtop.core.model.cold_prompt import ColdLimits, RewriteCost
from ctxtop.core.model.outlook import Forecast, Interval, Outlook
from ctxtop.core.model.session import SessionStatus
from ctxtop.core.model.session_activity import Activity, ActivityKind, PromptCache, SessionCost
from ctxtop.tui.cli.json_records import forecast_fields
from ctxtop.tui.text.amounts import amount_texts
from ctxtop.tui.text.cache_text import warm_texts
from ctxtop.tui.text.formats import turns_left
from ctxtop.tui.text.session_text import (
    CACHE_CELLS,
    cache_texts,
    cold_texts,
    cost_texts,
    doing_age,
    doing_text,
    history_sparkline,
    resume_cost_text,
    state_text,
    turns_left_text,
)
from msgspec.structs import replace
from rich.cells import cell_len

from .makers import context, session
from .support import NOW_MS

TOOL = Activity(ActivityKind.TOOL, "Bash", "npm test -- --run", NOW_MS - 12_000)
ASKS = Activity(ActivityKind.PERSON, "permission", "Bash: rm -rf build", NOW_MS - 240_000)
THINKS = Activity(ActivityKind.MODEL, "", since=NOW_MS - 3_000)


@pytest.mark.parametrize(
    ("doing", "cells", "words"),
    [
        (TOOL, 30, "Bash npm test -- --run"),
        (TOOL, 14, "Bash npm test…"),
        (TOOL, 8, "Bash"),
        (ASKS, 40, "waits: permission Bash: rm -rf build"),
        (ASKS, 24, "waits: permission Bash:…"),
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


@pytest.mark.parametrize(
    ("path", "shown"),
    [
        ("/home/dev/shop/src/a.py", "Read src/a.py"),
        ("/home/dev/shop2/src/a.py", "Read /home/dev/shop2/src/a.py"),
        ("C:\\shop\\a.py", "Read a.py"),
    ],
)
def test_a_path_is_relative_to_the_project(path: str, shown: str) -> None:
    reads = session(
        live=True,
        project_root="/home/dev/shop",
        cwd="C:\\shop",
        activity=Activity(ActivityKind.TOOL, "Read", path),
    )
    assert doing_text(reads, 60) == shown


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
    ("low", "words"), [(7, "7+ turns"), (12, "10+ turns"), (47, "40+ turns"), (512, "90+ turns")]
)
def test_far_away_only_a_lower_bound_is_told(low: int, words: str) -> None:
    far = Outlook(
        Forecast(
            Interval(600, math.inf, low, math.inf), Interval(300, math.inf, low / 2, math.inf)
        ),
        None,
    )
    shown = session(live=True, outlook=far)
    assert turns_left_text(shown) == words
    assert f"{turns_left(far.end)} turns" == words
    fields = forecast_fields(far)
    assert fields["turns_left"] == {"p50": None, "p80": None, "low": low, "high": None}
    assert fields["minutes_left"] == {"p50": None, "p80": None, "low": low / 2, "high": None}


@pytest.mark.parametrize(
    ("low", "typical", "words"),
    [
        (0, 0, "< 1 turn"),
        (1, 1, "≈ 1 turn"),
        (2, 3.4, "≈ 3 turns"),
        (9, 12, "≈ 12 turns"),
        (12, 12, "10+ turns"),
        (42, 90, "40+ turns"),
        (123, 456, "90+ turns"),
    ],
)
def test_the_turns_left_have_one_form(low: int, typical: float, words: str) -> None:
    ahead = Outlook(Forecast(Interval(typical, typical, low, 500), None), None)
    assert turns_left_text(session(live=True, outlook=ahead)) == words
    # A session that has ended has no turns left, whatever its forecast was.
    assert turns_left_text(session(live=False, outlook=ahead)) == ""
    assert turns_left_text(session(live=True)) == ""


@pytest.mark.parametrize(
    ("cost", "words"),
    [
        (SessionCost(1.2), "≈ $1.20"),
        (SessionCost(0.004), "≈ <$0.01"),
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
    assert cache_texts(warm, NOW_MS + 250_000 + HOUR_MS + 1) == ("cold",)
    assert (
        cache_texts(session(cache=PromptCache(NOW_MS + 1, estimated=False)), NOW_MS)[-1] == "warm"
    )
    assert cache_texts(session(), NOW_MS) == ()


EXPIRED = PromptCache(NOW_MS, tokens=225_000, lifetime_ms=HOUR_MS)


def test_a_cold_cache_says_what_the_next_prompt_rewrites_and_what_it_costs() -> None:
    cold = session(live=True, cache=EXPIRED, rewrite_cost=RewriteCost(2.3, 0.1))
    assert cache_texts(cold, NOW_MS) == (
        "≈cold: your next prompt rewrites ≈225 k, ≈$2.30",
        "≈cold 225 k $2.30",
        "≈cold 225 k",
        "≈cold",
    )
    soon = cache_texts(cold, NOW_MS - 100_000)
    assert soon[0] == "≈warm 1 min, then your next prompt rewrites ≈225 k, ≈$2.30"
    assert soon[1:] == ("≈warm 1 min", "≈warm") == cache_texts(cold, NOW_MS - 119_000)[1:]
    assert cache_texts(cold, NOW_MS - 121_000) == ("≈warm 2 min", "≈warm")


def test_an_ended_session_says_what_a_resume_rewrites() -> None:
    by_client = replace(EXPIRED, estimated=False, tokens_estimated=False)
    ended = session(cache=by_client)
    assert cache_texts(ended, NOW_MS) == ("cold: a resume rewrites 225 k", "cold 225 k", "cold")
    priced = replace(ended, rewrite_cost=RewriteCost(2.3, 0.1))
    assert cache_texts(priced, NOW_MS)[1] == "cold 225 k ≈$2.30"
    guessed = replace(priced, cache=EXPIRED)
    assert cache_texts(guessed, NOW_MS + 2 * HOUR_MS)[1] == "cold ≈225 k $2.30"


def test_an_idle_session_s_state_names_the_price_of_its_cold_cache() -> None:
    idle = session(
        live=True,
        status=SessionStatus.IDLE,
        cache=EXPIRED,
        rewrite_cost=RewriteCost(2.3, 0.1),
    )
    found = [state_text(idle, cells, NOW_MS) for cells in (28, 18, 12, 10)]
    assert found == ["idle · cold ≈$2.30", "idle · cold ≈$2.30", "cold ≈$2.30", "cold"]
    assert state_text(idle, 28, NOW_MS - 90_000) == "idle · cold in 1 min"
    assert state_text(idle, 28, NOW_MS - 121_000) == "idle"
    assert state_text(replace(idle, rewrite_cost=None), 28, NOW_MS) == "idle · cold"
    asking = Activity(ActivityKind.PERSON, "an answer")
    waiting = replace(idle, status=SessionStatus.WAITING, activity=asking)
    assert state_text(waiting, 28, NOW_MS) == doing_text(waiting, 28)


def test_what_works_uses_its_cache_by_itself() -> None:
    busy = session(live=True, status=SessionStatus.BUSY, cache=EXPIRED)
    assert cache_texts(busy, NOW_MS) == ("≈cold",)
    assert cold_texts(busy, NOW_MS) == ()


def test_a_resume_says_what_it_rewrites_or_how_long_it_does_not() -> None:
    ended = session(cache=EXPIRED)
    assert resume_cost_text(ended, NOW_MS) == "≈cold: a resume rewrites ≈225 k"
    assert resume_cost_text(ended, NOW_MS - 600_000) == (
        "≈warm 10 min: until then a resume reads ≈225 k from the cache"
    )
    assert resume_cost_text(session(), NOW_MS) == ""


def test_the_cache_of_another_model_is_cold_before_it_expires() -> None:
    other = replace(EXPIRED, is_for_next_model=False)
    assert cache_texts(session(cache=other), NOW_MS - HOUR_MS)[-1] == "cold"
    assert warm_texts(session(cache=other), NOW_MS - HOUR_MS)[0] == (
        "cold: another model was chosen · the next prompt rewrites 225 k"
    )


def test_a_subscriber_sees_shares_of_the_plans_window_first() -> None:
    idle = session(
        live=True,
        status=SessionStatus.IDLE,
        cache=EXPIRED,
        rewrite_cost=RewriteCost(2.3, 0.1),
        percent_dollars={FIVE_HOURS: 0.8, WEEK: 8.0},
    )
    long, short, *_ = cache_texts(idle, NOW_MS)
    assert long == "≈cold: your next prompt rewrites ≈225 k, ≈3 % of 5h ($2.30)"
    assert short == "≈cold 225 k 3% 5h"
    assert cell_len(short) <= CACHE_CELLS
    assert [state_text(idle, cells, NOW_MS) for cells in (24, 14)] == [
        "idle · cold ≈3% 5h",
        "cold ≈3% 5h",
    ]
    cold = warm_texts(idle, NOW_MS)
    assert cold[0].endswith("the next prompt rewrites 225 k, ≈3 % of 5h ($2.30)")
    assert cold[1].endswith("the next prompt rewrites 225 k, ≈3% 5h")
    warm = warm_texts(idle, NOW_MS - HOUR_MS // 2)
    assert warm[0].endswith("225 k cached, cold ≈3 % of 5h ($2.30)")


def test_amounts_that_are_small_or_more_than_a_window() -> None:
    assert amount_texts(0.004, None) == ("<$0.01",)
    assert amount_texts(0.0, None) == ("$0.00",)
    assert amount_texts(123.4, None) == ("$123",)
    assert amount_texts(0.1, {FIVE_HOURS: 0.002})[1] == "<1% 5h"
    assert amount_texts(0.0, {FIVE_HOURS: 0.0})[1] == "0% 5h"
    assert amount_texts(50.0, {WEEK: 1.2}) == ("120 % of week ($50.00)", "120% week")


def test_a_policy_says_from_which_size_on_and_how_early_it_is_mentioned() -> None:
    limits = ColdLimits(min_tokens=225_001, notice_ms=600_000)
    quiet = session(cache=EXPIRED, cold_limits=limits)
    assert cache_texts(quiet, NOW_MS) == ("≈cold",)
    early = session(cache=EXPIRED, cold_limits=replace(limits, min_tokens=225_000))
    assert cache_texts(early, NOW_MS - 600_000)[0].startswith("≈warm 10 min, then")


def test_the_history_is_drawn_as_the_bar_is_from_0_to_the_window() -> None:
    def drawn(*contexts: int, cells: int = 8) -> str:
        return history_sparkline(
            session(recent_contexts=contexts, context=context(contexts[-1])), cells
        )

    assert drawn(10_000, 60_000, 110_000, 190_000) == "▁▃▅█"
    assert drawn(10_000, 60_000, 110_000, 190_000, cells=2) == "▅█"
    # Growth by a hundredth is no climb, and a small context is low.
    assert drawn(20_000, 20_200, 20_400) == "▁▁▁"
    # Two show no course.
    assert drawn(80_000, 90_000) == ""
    assert drawn(1, 2, 3, cells=0) == ""


def test_the_history_ends_where_the_bar_is() -> None:
    grown = session(recent_contexts=(10_000, 20_000), context=context(190_000))
    assert history_sparkline(grown, 8) == "▁▁█"
