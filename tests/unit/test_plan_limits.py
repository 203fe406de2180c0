"""The plan's limits: which reading counts, how old it is, how fast a window is used, by whom."""

from __future__ import annotations

import random

import pytest
from ctxtop.core.measure.limit_use import (
    MIN_STEPS,
    PercentSize,
    WindowShares,
    add_causes,
    add_ratios,
    learn_percent_sizes,
    limit_ratios,
    percent_dollars,
    price_answers,
    share_use,
)
from ctxtop.core.measure.plan_limits import (
    CONTEXT,
    FIVE_HOURS,
    HOUR_MS,
    WEEK,
    BindingLimit,
    Exhaustion,
    LimitReading,
    PlanLimit,
    WindowUse,
    find_binding,
    is_near_limit,
    measure_limits,
)
from ctxtop.core.measure.prompt_cache.cache_ledger import CacheCause, CacheMiss, CauseSource
from ctxtop.core.measure.prompt_cache.rewrites import ReadEnd, ReadPart, Rewrite
from ctxtop.core.model.answer_rows import AnswerRow
from ctxtop.core.model.claude_models import UseKind
from msgspec.structs import replace

from .test_cache_ledger import FIRST, WARM

NOW = 1_800_000_000_000
MINUTE_MS = 60_000
RESET = NOW + 2 * HOUR_MS


def reading(
    minutes_ago: float, used: float, session: str = "s1", **more: int | None
) -> LimitReading:
    at = NOW - round(minutes_ago * MINUTE_MS)
    fields = {"last_at": at, "resets_at": RESET, "answered_at": None, "before_at": None} | more
    return LimitReading(
        FIVE_HOURS,
        session,
        at,
        fields["last_at"] or at,
        used,
        fields["resets_at"],
        fields["answered_at"],
        fields["before_at"],
    )


def measured(*readings: LimitReading) -> PlanLimit:
    (limit,) = measure_limits(readings, NOW)
    return limit


def test_a_reading_is_as_old_as_the_answer_that_confirmed_it() -> None:
    answered = NOW - 30 * MINUTE_MS
    limit = measured(reading(60, 0.4, last_at=NOW, answered_at=answered))
    assert (limit.used_ratio, limit.read_at) == (0.4, NOW)
    assert limit.age_ms(NOW) == 30 * MINUTE_MS


def test_a_value_that_changed_is_younger_than_the_one_before() -> None:
    before = NOW - 10 * MINUTE_MS
    limit = measured(reading(1, 0.4, answered_at=NOW - 60 * MINUTE_MS, before_at=before))
    assert limit.age_ms(NOW) == 10 * MINUTE_MS


def test_the_freshest_session_counts() -> None:
    idle = reading(1, 0.2, "idle", answered_at=NOW - 50 * MINUTE_MS)
    works = reading(5, 0.6, "works", answered_at=NOW - 5 * MINUTE_MS)
    assert measured(idle, works).session_id == "works"
    past = reading(0, 0.99, "past", resets_at=NOW - 1)
    assert measured(past, works).session_id == "works"
    other_plan = reading(600, 0.3, "other", resets_at=RESET + 9 * HOUR_MS)
    assert measured(other_plan, works).session_id == "works"


def test_a_window_that_was_reset_says_nothing_about_now() -> None:
    limit = measured(reading(300, 0.9, resets_at=NOW), reading(400, 0.1, resets_at=NOW))
    assert limit.is_stale(NOW)
    assert (limit.burn, limit.exhaustion) == (None, None)
    assert not limit.is_stale(NOW - 1)


@pytest.mark.parametrize(
    ("window", "used", "hours_left", "near"),
    [
        (FIVE_HOURS, 0.95, 3, True),
        (FIVE_HOURS, 0.95, 1, False),  # nearly all of it is over
        (FIVE_HOURS, 0.89, 3, False),
        (FIVE_HOURS, 1.0, 1, True),
        (WEEK, 0.3, 160, True),
        (WEEK, 0.3, 100, False),
        (WEEK, 0.8, 100, True),
        ("seven_day_opus", 0.95, 100, False),
    ],
)
def test_a_limit_is_near_where_much_is_used_early(
    window: str, used: float, hours_left: int, near: bool
) -> None:
    said = replace(reading(0, used, resets_at=NOW + hours_left * HOUR_MS), window=window)
    assert is_near_limit(said) == near


def test_known_windows_come_first_and_unknown_ones_are_kept() -> None:
    names = ("seven_day_opus", WEEK, FIVE_HOURS)
    readings = [LimitReading(name, "s1", NOW, NOW, 0.1, None) for name in names]
    assert [each.window for each in measure_limits(readings, NOW)] == [
        FIVE_HOURS,
        WEEK,
        "seven_day_opus",
    ]


def test_the_use_of_all_sessions_is_one_sum_that_only_grows() -> None:
    use = WindowUse.of_readings(
        [
            reading(50, 0.10),
            reading(40, 0.20, "s2"),
            reading(39, 0.15, "s3"),  # repeats what its last answer said
            reading(30, 0.25),
            reading(20, 0.05, resets_at=RESET + 5 * HOUR_MS),  # the window was reset
            reading(10, 0.30, "s2"),  # of the window before
            reading(5, 0.15, resets_at=RESET + 5 * HOUR_MS + 1000),
        ]
    )
    assert [round(each, 2) for each in use.sums] == [0.0, 0.1, 0.15, 0.2, 0.3]


def test_a_clients_own_value_falls_where_the_plan_changed() -> None:
    use = WindowUse.of_readings([reading(30, 0.6), reading(20, 0.1), reading(10, 0.2)])
    assert use.sums == pytest.approx((0.0, 0.1))


def test_the_burn_rate_is_that_of_the_last_hour() -> None:
    steps = [reading(minutes, 0.5 - minutes / 600) for minutes in range(120, -1, -5)]
    burn = measured(*steps).burn
    assert burn is not None
    assert burn.ratio_per_hour == pytest.approx(0.1, rel=0.1)
    assert measured(reading(5, 0.1), reading(1, 0.2)).burn is None


def steady(used_now: float, per_hour: float) -> list[LimitReading]:
    return [reading(n, used_now - per_hour * n / 60) for n in range(150, -1, -3)]


def test_a_steady_use_ends_where_it_leads() -> None:
    end = measured(*steady(0.8, 0.2)).exhaustion
    assert end is not None
    assert end.low is not None
    assert end.at is not None
    assert end.low < NOW + HOUR_MS < (end.high or RESET)
    assert end.at == pytest.approx(NOW + HOUR_MS, abs=6 * MINUTE_MS)


def test_a_slow_use_does_not_end_before_the_reset() -> None:
    assert measured(*steady(0.5, 0.1)).exhaustion == Exhaustion(None, None, None)


def test_a_full_window_is_full_since_it_was_confirmed() -> None:
    limit = measured(*steady(1.0, 0.2))
    assert limit.exhaustion is not None
    assert limit.exhaustion.at == limit.fresh_at


def test_nothing_is_projected_from_one_burst() -> None:
    assert measured(reading(30, 0.5)).exhaustion is None
    assert measured(reading(2, 0.2), reading(1, 0.5)).exhaustion is None


def test_what_binds_first() -> None:
    five = PlanLimit(
        FIVE_HOURS, "s1", 0.8, NOW, NOW, RESET, None, Exhaustion(NOW + HOUR_MS, NOW, None)
    )
    week = PlanLimit(WEEK, "s1", 0.8, NOW, NOW, None, None, Exhaustion(None, None, None))
    assert find_binding([five, week], 20.0, NOW) == BindingLimit(CONTEXT, NOW + 20 * MINUTE_MS)
    assert find_binding([five, week], 90.0, NOW) == BindingLimit(FIVE_HOURS, NOW + HOUR_MS)
    assert find_binding([week], None, NOW) is None
    assert find_binding([five], None, RESET) is None


OPUS, SONNET = "claude-opus-5-5", "claude-sonnet-5-5"


def answer(minutes_ago: float, model: str = OPUS, agent: str | None = None) -> AnswerRow:
    at = NOW - round(minutes_ago * MINUTE_MS)
    return AnswerRow(at, "s1", agent, model, 1000, 2000, 1000, 10_000, 100, 0)


def test_kinds_of_tokens_count_by_their_price() -> None:
    (spent,) = price_answers([answer(1), answer(1, "unknown-model")], {})
    # 4 dollars a million for input, 20 for output, 5 and 8 for writes, 0.2 for reads.
    assert {kind: round(usd * 1e6) for kind, usd in spent.dollars.items()} == {
        UseKind.INPUT: 4000,
        UseKind.CACHE_WRITE: 5000 + 8000,
        UseKind.CACHE_READ: 2000,
        UseKind.OUTPUT: 2000,
        UseKind.WEB_SEARCH: 0,
    }


def test_shares_are_of_all_that_was_spent() -> None:
    shares = share_use(price_answers([answer(3), answer(2, agent="a1"), answer(1)], {}))
    assert [(each.name, each.share) for each in shares.sessions] == [("s1", 1.0)]
    assert [each.share for each in shares.agents] == [pytest.approx(1 / 3)]
    assert sum(each.share for each in shares.kinds) == pytest.approx(1)
    assert share_use([]).sessions == ()


def miss(minutes_ago: float, cause: CacheCause, dollars: float | None) -> CacheMiss:
    request = replace(WARM, at=NOW - round(minutes_ago * MINUTE_MS))
    rewrite = Rewrite(FIRST, request, 1000, 300_000, ReadEnd(ReadPart.MESSAGES), 2)
    return CacheMiss(rewrite, cause, CauseSource.INFERRED, cause, (), dollars, None)


def test_cache_misses_are_shares_of_the_window_by_cause() -> None:
    shares = share_use(price_answers([answer(3)], {}))
    (session,) = shares.sessions
    half = session.dollars / 2
    misses = [miss(2, CacheCause.LIFETIME, half), miss(1, CacheCause.TOOLS, None)]
    before = miss(90, CacheCause.MODEL, half)
    found = add_causes(shares, [*misses, before], NOW - HOUR_MS).causes
    assert [(each.name, each.source, each.share) for each in found] == [
        ("lifetime_passed", "inferred", 0.5)
    ]
    assert add_causes(WindowShares(), misses, 0) == WindowShares()


def test_a_percent_is_learned_for_each_model_where_enough_moved() -> None:
    rng = random.Random(1)
    answers, readings, used = [], [reading(200, 0.0)], 0.0
    for n in range(40):
        answers.append(answer(199 - n * 4, SONNET if n % 8 == 0 else OPUS))
        used += 0.02 * rng.uniform(0.9, 1.1) * (0.5 if n % 8 == 0 else 1.0)
        readings.append(reading(198 - n * 4, used))
    spent = price_answers(answers, {})
    use = WindowUse.of_readings(readings)
    prices = {OPUS: 4.0, SONNET: 2.0}
    (size,) = learn_percent_sizes(FIVE_HOURS, use, spent, prices.get)
    assert size.model == OPUS
    assert size.steps >= MIN_STEPS
    assert size.low_tokens <= size.weighted_tokens <= size.high_tokens
    assert size.dollars == pytest.approx(0.021 / 2, rel=0.15)
    assert size.weighted_tokens == pytest.approx(size.dollars / 4 * 1e6)
    few = WindowUse.of_readings(readings[: MIN_STEPS // 2])
    assert learn_percent_sizes(FIVE_HOURS, few, spent, prices.get) == ()


def size_of(window: str, model: str, dollars: float) -> PercentSize:
    return PercentSize(window, model, 1, 1, 1, dollars, MIN_STEPS)


def test_an_amount_is_a_share_of_each_window_that_is_learned_for_the_model() -> None:
    sizes = [
        size_of("seven_day_opus", OPUS, 8.0),
        size_of(WEEK, OPUS, 4.0),
        size_of(FIVE_HOURS, OPUS, 0.5),
        size_of(FIVE_HOURS, SONNET, 0.1),
    ]
    found = percent_dollars(sizes, f"{OPUS}[1m]")
    assert [*found] == [FIVE_HOURS, WEEK, "seven_day_opus"]
    assert limit_ratios(2.0, found) == {FIVE_HOURS: 0.04, WEEK: 0.005, "seven_day_opus": 0.0025}
    assert limit_ratios(None, found) is None
    assert limit_ratios(2.0, percent_dollars(sizes, "claude-haiku-5-5")) is None
    assert percent_dollars(sizes, None) == {}


def test_a_sum_of_shares_is_known_where_every_part_is() -> None:
    both, one = {FIVE_HOURS: 0.25, WEEK: 0.125}, {FIVE_HOURS: 0.5}
    assert add_ratios([both, one]) == {FIVE_HOURS: 0.75}
    assert add_ratios([both, None]) is None
    assert add_ratios([]) is None
