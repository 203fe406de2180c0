"""What is read of an answer's usage and of its steps: context, sums, and what is priced apart."""

from __future__ import annotations

from typing import Any, Final

import msgspec
import pytest
from ctxtop.collectors.claude_code.transcripts.answer_charges import MAX_CHARGES, read_charges
from ctxtop.core.model.claude_models import PriceRate
from ctxtop.core.store.queries.spending_queries import decode_charges
from ctxtop.core.transcript.reported_usage import (
    ContextManagement,
    PausedResponse,
    RawUsage,
    also_counted_tokens,
    is_estimated_usage,
    last_output_tokens,
    read_usage,
)

MODEL = "claude-haiku-5-5"


def counts(read: int = 0, output: int = 1, **fields: Any) -> dict[str, Any]:  # noqa: ANN401
    return {
        "input_tokens": 1,
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": read,
        "output_tokens": output,
    } | fields


def usage(*steps: dict[str, Any], **fields: Any) -> RawUsage:  # noqa: ANN401
    own = [each for each in steps if each.get("type") in {None, "message"}]
    sums = {name: sum(each[name] for each in own) for name in counts()}
    return msgspec.convert({**sums, "iterations": [*steps], **fields}, RawUsage)


def charges(used: RawUsage) -> list[tuple[str, int, int, int, int]]:
    found, (own, _) = read_charges(used, MODEL), read_usage(used)
    if found.charges is None:
        return [(MODEL, found.rate, own.cache_read_tokens, own.output_tokens, 1)]
    return [
        (each.model, each.rate, each.cache_read_tokens, each.output_tokens, each.responses)
        for each in decode_charges(found.charges)
    ]


def test_an_advisor_is_an_answer_of_its_own_model_and_no_context() -> None:
    used = usage(
        counts(100, 2, type="message"),
        counts(0, 70, input_tokens=900, type="advisor_message", model="claude-opus-4-7"),
        counts(150, 3, type="message"),
        counts(0, 7, input_tokens=950, type="advisor_message", model="claude-opus-4-7"),
        speed="fast",
    )
    assert read_usage(used)[1] == 151
    assert last_output_tokens(used) == 3
    # What advises is not in fast mode.
    assert charges(used) == [
        (MODEL, PriceRate.FAST, 250, 5, 1),
        ("claude-opus-4-7", PriceRate.STANDARD, 0, 77, 2),
    ]


def test_a_compaction_of_the_api_is_paid_besides_and_no_context() -> None:
    used = usage(counts(40, 9, type="compaction"), counts(20, 3, type="message"))
    assert read_usage(used)[1] == 21
    assert charges(used) == [(MODEL, 0, 60, 12, 2)]
    # The client reads a compaction in the last place as no context either.
    assert read_usage(usage(counts(20, type="message"), counts(9, type="compaction")))[1] == 21


def test_the_model_that_answers_for_another_has_seen_the_context() -> None:
    refused = counts(30, 2, type="message", model="claude-fable-5")
    used = msgspec.convert(
        {
            **counts(54, 136),
            "iterations": [refused, counts(54, 136, type="fallback_message", model="b")],
        },
        RawUsage,
    )
    assert read_usage(used)[1] == 55
    assert charges(used) == [(MODEL, 0, 54, 136, 1)]


def test_a_model_that_refused_after_another_is_paid() -> None:
    steps = [
        counts(30, 2, type="message", model="a"),
        counts(40, 5, type="fallback_message", model="b"),
        counts(54, 136, type="fallback_message", model=MODEL),
    ]
    used = msgspec.convert({**counts(54, 136), "iterations": steps}, RawUsage)
    assert charges(used) == [(MODEL, 0, 54, 136, 1), ("b", 0, 40, 5, 0)]


def test_steps_on_both_sides_of_a_long_prompt_are_priced_by_themselves() -> None:
    used = usage(counts(99_000, 5, type="message"), counts(110_000, 7, type="message"))
    assert charges(used) == [
        (MODEL, 0, 99_000, 5, 1),
        (MODEL, PriceRate.LONG_PROMPT, 110_000, 7, 0),
    ]
    # All are short although their sum is not.
    short = usage(counts(60_000, 5, type="message"), counts(70_000, 7, type="message"))
    assert charges(short) == [(MODEL, 0, 130_000, 12, 1)]
    # The sums are no one's: they are priced as the answer.
    odd = usage(counts(60_000, 5, type="message"), cache_read_input_tokens=190_000)
    assert charges(odd) == [(MODEL, PriceRate.LONG_PROMPT, 190_000, 5, 1)]


def test_parts_share_what_the_answer_says_of_the_caches_lifetime() -> None:
    steps = [
        counts(1_000, 5, type="message", cache_creation_input_tokens=50),
        counts(200_000, 7, type="message", cache_creation_input_tokens=80),
    ]
    written = {"ephemeral_1h_input_tokens": 100, "ephemeral_5m_input_tokens": 30}
    used = usage(*steps, cache_creation=written)
    found = decode_charges(read_charges(used, MODEL).charges)
    assert [each.cache_1h_tokens for each in found] == [50, 50]
    steps[1]["cache_creation"] = {"ephemeral_1h_input_tokens": 80}
    found = decode_charges(read_charges(usage(*steps, cache_creation=written), MODEL).charges)
    assert [each.cache_1h_tokens for each in found] == [20, 80]


@pytest.mark.parametrize(
    ("fields", "rate"),
    [
        ({}, PriceRate.STANDARD),
        ({"speed": None, "inference_geo": None}, PriceRate.STANDARD),
        ({"speed": "standard", "inference_geo": "not_available"}, PriceRate.STANDARD),
        ({"speed": "fast"}, PriceRate.FAST),
        # The client prices a speed that it does not know as its fast mode.
        ({"speed": "warp"}, PriceRate.FAST),
        ({"inference_geo": "us"}, PriceRate.US),
        ({"speed": "fast", "inference_geo": "us"}, PriceRate.FAST | PriceRate.US),
        ({"cache_read_input_tokens": 100_000}, PriceRate.LONG_PROMPT),
    ],
)
def test_the_rate_of_an_answer(fields: dict[str, Any], rate: PriceRate) -> None:
    used = msgspec.convert(counts() | fields, RawUsage)
    assert charges(used)[0][1] == rate


def test_what_the_api_paused_and_another_request_resumed_is_paid_too() -> None:
    paused = [PausedResponse(msgspec.convert(counts(150_000, 40), RawUsage)), PausedResponse()]
    used = msgspec.convert(counts(1_000, 7), RawUsage)
    found = decode_charges(read_charges(used, MODEL, paused).charges)
    assert [
        (each.rate, each.cache_read_tokens, each.output_tokens, each.responses) for each in found
    ] == [(0, 1_000, 7, 1), (PriceRate.LONG_PROMPT, 150_000, 40, 0)]
    assert read_usage(used)[1] == 1_001


def test_searches_are_counted() -> None:
    tools = {"web_search_requests": 3, "web_fetch_requests": 9}
    used = msgspec.convert(counts() | {"server_tool_use": tools}, RawUsage)
    assert read_charges(used, MODEL).web_searches == 3


def test_an_edit_of_ctxtop_is_known_beside_an_advisor() -> None:
    advice = counts(0, 70, type="advisor_message", model="a")
    lowered = msgspec.convert(
        {**counts(500), "iterations": [advice, counts(20, type="message")]}, RawUsage
    )
    assert is_estimated_usage(lowered)
    assert not is_estimated_usage(usage(counts(20, type="message"), advice))


def test_many_models_in_one_answer_are_bounded() -> None:
    steps = [counts(type="advisor_message", model=f"m{n}") for n in range(500)]
    assert len(charges(usage(counts(5, type="message"), *steps))) == MAX_CHARGES


def test_steps_of_an_unknown_kind_leave_the_sums() -> None:
    used = usage(counts(20, type="message"), counts(9, type="something_new"))
    assert read_usage(used)[1] == 21
    empty = usage(counts(20, type="message"), counts(0, type="message", input_tokens=0))
    assert read_usage(empty)[1] == 21


@pytest.mark.parametrize(
    ("sums", "step", "context"),
    [
        (counts(500), counts(20, type="message"), 21),
        # The client reads a step with all counts, of an answer whose sums are not zero.
        (counts(500), {"type": "message", "input_tokens": 20, "output_tokens": 1}, 501),
        (counts(0, input_tokens=0), counts(20, type="message"), 0),
        (counts(500), counts(20, type="another_step"), 501),
    ],
)
def test_the_context_is_the_steps_that_the_client_reads(
    sums: dict[str, Any], step: dict[str, Any], context: int
) -> None:
    assert read_usage(msgspec.convert({**sums, "iterations": [step]}, RawUsage))[1] == context


CLEARED: Final = {"type": "clear_tool_uses_20250919", "cleared_input_tokens": 3_000}
MEASURED: Final = {
    "client_estimated_cleared_input_tokens": 4_000,
    "client_estimate_measured_from_prompts": True,
}


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        ({}, 0),
        ({"applied_edits": []}, 0),
        ({"applied_edits": [CLEARED, CLEARED]}, 6_000),
        ({"applied_edits": [{"type": "clear_thinking_20251015", "cleared_input_tokens": 9}]}, 0),
        ({"applied_edits": [CLEARED], "client_estimated_cleared_input_tokens": 2_000}, 2_000),
        ({"applied_edits": [CLEARED], "client_estimated_cleared_input_tokens": 4_000}, 3_000),
        ({"applied_edits": [CLEARED]} | MEASURED, 4_000),
        ({"applied_edits": []} | MEASURED, 0),
        ({"applied_edits": [], "client_cut_tool_uses": 3} | MEASURED, 4_000),
        ({"client_cut_tool_uses": 3}, 0),
    ],
)
def test_what_was_cleared_is_counted_as_the_client_does(
    found: dict[str, object], expected: int
) -> None:
    assert also_counted_tokens(msgspec.convert(found, ContextManagement)) == expected
    assert also_counted_tokens(None) == 0
