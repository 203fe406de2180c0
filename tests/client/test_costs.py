"""What ctxtop says that answers cost is what the client counted, whatever the usage holds."""

from __future__ import annotations

import json
from contextlib import closing
from typing import TYPE_CHECKING, Any, Final

import pytest
from ctxtop.core.measure.activity import estimate_cost
from ctxtop.core.store.database import open_reader
from ctxtop.core.store.queries.spending_queries import model_usage

if TYPE_CHECKING:
    from .lab import Lab, Turn

Json = dict[str, Any]

WRITTEN: Final[Json] = {
    "cache_creation_input_tokens": 8_004,
    "cache_creation": {"ephemeral_5m_input_tokens": 3_001, "ephemeral_1h_input_tokens": 5_003},
}


def counts(read: int = 7_001, **fields: object) -> Json:
    return {
        "input_tokens": 1_000,
        "output_tokens": 2_003,
        "cache_read_input_tokens": read,
        **WRITTEN,
    } | fields


def sums(*steps: Json, **fields: object) -> Json:
    """An answer of these steps, whose counts are the sums of its own."""
    own = [each for each in steps if each["type"] == "message"]
    names = [name for name, value in counts().items() if isinstance(value, int)]
    written = {
        name: sum(each["cache_creation"][name] for each in own)
        for name in WRITTEN["cache_creation"]
    }
    added = {name: sum(each[name] for each in own) for name in names}
    return {**added, "cache_creation": written, "iterations": [*steps], **fields}


def advice(model: str) -> Json:
    return counts(0, type="advisor_message", model=model, input_tokens=15_009)


def without_lifetime(step: Json) -> Json:
    return {name: value for name, value in step.items() if name != "cache_creation"}


SHORT, LONG = counts(40_000, type="message"), counts(120_000, type="message")

REPORTS: Final = {
    "standard": ("claude-opus-5-5", counts()),
    "fast": ("claude-opus-5-5", counts(speed="fast")),
    "fast, with no price of it": ("claude-haiku-5-5", counts(150_000, speed="fast")),
    "us": ("claude-sonnet-5-5", counts(inference_geo="us")),
    "searches": ("claude-sonnet-5-5", counts(server_tool_use={"web_search_requests": 3})),
    "us, fast, searches": (
        "claude-opus-4-8",
        counts(speed="fast", inference_geo="us", server_tool_use={"web_search_requests": 2}),
    ),
    "long": ("claude-haiku-5-5", counts(150_000)),
    "short steps": ("claude-haiku-5-5", sums(SHORT, SHORT, SHORT)),
    "short and long steps": ("claude-haiku-5-5", sums(SHORT, LONG, SHORT)),
    "short and long steps that name no lifetime": (
        "claude-haiku-5-5",
        sums(SHORT, LONG) | {"iterations": [without_lifetime(SHORT), without_lifetime(LONG)]},
    ),
    "advisor": ("claude-sonnet-4-6", sums(SHORT, advice("claude-opus-4-7"), SHORT)),
    "fast, with an advisor of the same model": (
        "claude-opus-5-5",
        sums(SHORT, advice("claude-opus-5-5"), speed="fast", inference_geo="us"),
    ),
}


@pytest.mark.parametrize("name", REPORTS)
def test_an_answer_costs_what_the_client_counted(lab: Lab, name: str) -> None:
    model, report = REPORTS[name]
    turn = answered(lab, model, report)
    usage, dollars = spent(lab, turn)
    assert dollars == pytest.approx(turn.said["total_cost_usd"])
    told = turn.said["modelUsage"].values()
    for ours, theirs in (
        ("input_tokens", "inputTokens"),
        ("output_tokens", "outputTokens"),
        ("cache_read_tokens", "cacheReadInputTokens"),
        ("cache_creation_tokens", "cacheCreationInputTokens"),
        ("web_searches", "webSearchRequests"),
    ):
        assert sum(getattr(each, ours) for each in usage) == sum(each[theirs] for each in told)


def answered(lab: Lab, model: str, report: Json) -> Turn:
    # Two brackets in a row would end the step.
    script = json.dumps(report).replace("]", " ]").replace("[", "[ ")
    return lab.turn(f"Hi. [[say:ok&&&report:{script} ]]", model=model)


def spent(lab: Lab, turn: Turn) -> tuple[list[Any], float]:
    lab.ctxtop()
    with closing(open_reader(lab.store)) as db:
        usage = model_usage(db, [turn.session_id])
    cost = estimate_cost(usage, {})
    assert cost is not None
    return usage, cost.usd
