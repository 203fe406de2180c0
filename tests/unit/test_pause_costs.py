"""What leaving, compacting and starting over cost, by hand-made sums."""

from __future__ import annotations

import pytest
from ctxtop.core.compaction.plan import requests_to_break_even
from ctxtop.core.measure.pause_costs import (
    BASE_TOKENS,
    CLIENT_SUMMARY_TOKENS,
    CostUnit,
    PauseQuestion,
    PlannedSize,
    PricedModel,
    compare_ways,
)
from ctxtop.core.measure.plan_limits import FIVE_HOURS
from ctxtop.core.model.claude_models import CACHE_WRITE_1H_FACTOR, CACHE_WRITE_5M_FACTOR
from ctxtop.core.model.pause_ways import PauseWay
from ctxtop.tui.cli.json_records import costs_record
from ctxtop.tui.text.pause_text import cost_line, cost_texts, totals_line
from msgspec.structs import replace

OPUS = PricedModel("claude-opus-5-5", lasts_an_hour=True)
# Dollars for a token: $0.20 read, $8 written for an hour, $5 for five minutes, $20 of an answer.
READ, WRITE, WRITE_5M, OUTPUT = 0.2e-6, 8e-6, 5e-6, 20e-6

QUESTION = PauseQuestion(225_000, OPUS, plan=PlannedSize(225_000, 100_000, 40_000))


def test_leaving_a_session_reads_it_now_and_writes_it_again_once_it_is_cold() -> None:
    costs = compare_ways(QUESTION)
    assert costs.unit is CostUnit.USD
    assert costs.leave.now == pytest.approx(225_000 * READ)
    assert costs.leave.cold == costs.leave.paused == pytest.approx(225_000 * WRITE)
    assert costs.paused_total(PauseWay.LEAVE) == pytest.approx(
        225_000 * WRITE + 19 * 225_000 * READ
    )


def test_the_clients_compaction_reads_the_whole_context_once_and_writes_a_small_one() -> None:
    client = compare_ways(QUESTION).ways[PauseWay.CLIENT]
    left = BASE_TOKENS + CLIENT_SUMMARY_TOKENS
    asked = 225_000 * READ + CLIENT_SUMMARY_TOKENS * OUTPUT
    assert client.paused == pytest.approx(asked + left * WRITE)
    assert client.now == pytest.approx(asked + BASE_TOKENS * READ + CLIENT_SUMMARY_TOKENS * WRITE)
    # Once the cache is cold the same summary costs what a cold prompt does.
    assert client.cold - client.now == pytest.approx(225_000 * (WRITE - READ))
    assert client.later == pytest.approx(left * READ)


def test_a_plan_writes_what_follows_its_first_change() -> None:
    plan = compare_ways(QUESTION).ways[PauseWay.PLAN]
    assert plan.now == pytest.approx(40_000 * READ + 60_000 * WRITE)
    assert plan.cold == pytest.approx(100_000 * WRITE)


@pytest.mark.parametrize(
    ("lasts_an_hour", "factor"), [(True, CACHE_WRITE_1H_FACTOR), (False, CACHE_WRITE_5M_FACTOR)]
)
def test_a_plan_breaks_even_when_the_plan_itself_says_so(
    lasts_an_hour: bool,
    factor: float,
) -> None:
    priced = PricedModel("claude-opus-5-5", lasts_an_hour)
    plan = compare_ways(replace(QUESTION, priced=priced)).ways[PauseWay.PLAN]
    told = requests_to_break_even(225_000, 40_000, 125_000, factor, "claude-opus-5-5")
    assert plan.break_even == pytest.approx(told)
    assert plan.break_even_cold == 0


def test_a_note_costs_nothing_until_the_new_session_writes_it() -> None:
    costs = compare_ways(replace(QUESTION, reread_tokens=0))
    note = costs.ways[PauseWay.HAND_OFF]
    assert note.paused == pytest.approx((BASE_TOKENS + 12_000) * WRITE)
    more = compare_ways(replace(QUESTION, reread_tokens=24_000)).ways[PauseWay.HAND_OFF]
    assert more.paused - note.paused == pytest.approx(24_000 * WRITE)


def test_a_model_without_a_price_is_counted_in_input_tokens() -> None:
    costs = compare_ways(replace(QUESTION, priced=PricedModel("someones-model")))
    assert costs.unit is CostUnit.INPUT_TOKENS
    assert costs.leave.cold == pytest.approx(225_000 * 1.25)
    assert costs.leave.now == pytest.approx(225_000 * 0.1)
    assert cost_texts(costs.leave.cold, costs) == ("281 k tokens",)


def test_a_price_of_the_policys_counts_first() -> None:
    own = PricedModel("claude-opus-5-5", lasts_an_hour=True, custom_prices={"claude-opus": "1/5"})
    assert compare_ways(replace(QUESTION, priced=own)).leave.cold == pytest.approx(225_000 * 2e-6)


def test_a_long_prompt_has_the_price_of_long_prompts() -> None:
    haiku = PricedModel("claude-haiku-5-5")
    small, large = (
        compare_ways(PauseQuestion(count, haiku)).leave.cold / count for count in (90_000, 110_000)
    )
    assert large == pytest.approx(5 * small)


def test_one_line_says_now_cold_and_break_even() -> None:
    warm = compare_ways(replace(QUESTION, expires_at=1_000_000, expires_estimated=False))
    line = cost_line(warm, PauseWay.CLIENT, 0)
    assert line.startswith("≈ $0.28 now, $2.03 after ")
    assert line.endswith("(cold); breaks even after 7 requests")
    cold = cost_line(warm, PauseWay.PLAN, 2_000_000)
    assert cold == "≈ $0.80 (the cache is cold; unchanged: $1.80); breaks even at once"
    estimated = compare_ways(replace(QUESTION, expires_at=1_000_000))
    assert "after ≈ " in cost_line(estimated, PauseWay.CLIENT, 0)
    unknown = cost_line(compare_ways(QUESTION), PauseWay.PLAN, 0)
    assert unknown.startswith("≈ $0.49 with a warm cache, $0.80 (cold)")


def test_a_subscriber_sees_shares_of_the_plans_window_first() -> None:
    question = replace(QUESTION, expires_at=1_000_000, percent_dollars={FIVE_HOURS: 0.2})
    line = cost_line(compare_ways(question), PauseWay.CLIENT, 0)
    assert line.startswith("≈ 1 % of 5h ($0.28) now, 10 % of 5h after ≈ ")
    cold = cost_line(compare_ways(question), PauseWay.PLAN, 2_000_000)
    assert cold.startswith("≈ 4 % of 5h ($0.80) (the cache is cold; unchanged: 9 % of 5h); ")
    assert "leave it 13 % of 5h, " in totals_line(compare_ways(question))


def test_a_model_without_a_price_has_no_shares_either() -> None:
    unpriced = PricedModel("someones-model")
    question = replace(QUESTION, priced=unpriced, percent_dollars={FIVE_HOURS: 0.2})
    assert compare_ways(question).percent_dollars == {}
    record = costs_record(compare_ways(question))
    assert record is not None
    assert record["ways"]["leave"]["limit_ratio"] is None


def test_the_costs_as_json_have_the_shares_beside_the_dollars() -> None:
    record = costs_record(compare_ways(replace(QUESTION, percent_dollars={FIVE_HOURS: 0.2})))
    assert record is not None
    leave = record["ways"]["leave"]
    assert leave["limit_ratio"]["cold"] == {FIVE_HOURS: pytest.approx(leave["cold"] / 20)}
    assert leave["limit_ratio"].keys() == leave.keys() - {
        "limit_ratio",
        "break_even_requests",
        "break_even_requests_cold",
    }
