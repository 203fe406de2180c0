"""What the API says when a request is too large, in every wording that is known."""

from __future__ import annotations

import json

import pytest
from ctxtop.core.compaction.recovery.limit_errors import (
    LimitErrorType,
    TokenLimitRefusal,
    is_thinking_block_error,
    parse_limit_error,
)

API = "prompt is too long: 210000 tokens > 200000 maximum"


def parsed(error: object) -> TokenLimitRefusal:
    found = parse_limit_error(error)
    assert found is not None
    return found


def sizes(error: object) -> tuple[int | None, int | None]:
    found = parsed(error)
    return found.current_tokens, found.max_tokens


@pytest.mark.parametrize(
    "text",
    [
        "prompt is too long",
        "the tool's answer is too long",
        "context_length_exceeded",
        "max_tokens is above what is left",
        "Token limit reached",
        "the context length is exceeded",
        "too many tokens",
        "messages.3: all messages must have non-empty content",
    ],
)
def test_each_keyword_is_known(text: str) -> None:
    assert parse_limit_error(text)
    assert parse_limit_error({"message": text.upper()})


@pytest.mark.parametrize("error", ["", "overloaded", None, 400, [], {}, {"message": "slow down"}])
def test_another_error_is_none(error: object) -> None:
    assert parse_limit_error(error) is None


@pytest.mark.parametrize(
    "text",
    [
        "prompt is too long: 210000 tokens > 200000 maximum",
        "is too long: your prompt has 210000 tokens, which exceeds 200000",
        "too many tokens: 210000 tokens are above the limit of 200000",
        "context length of 210000 is above the maximum 200000",
        "context length: max context is 200000 but 210000 were sent",
        (
            "This model's maximum context length is 200000 tokens. However, your messages resulted"
            " in 210000 tokens."
        ),
        "prompt is too long (210000 > 200000)",
        "prompt is too long: 210,000 tokens > 200,000 maximum",
        "prompt is too long: 210 000 tokens > 200 000 maximum",
        "prompt is too long: 210_000 tokens > 200.000 maximum",
        (
            "input length and `max_tokens` exceed context limit: 178000 + 32000 > 200000, decrease"
            " input length or `max_tokens` and try again"
        ),
    ],
)
def test_each_wording_names_its_sizes(text: str) -> None:
    assert sizes(text) == sizes({"message": text}) == (210_000, 200_000)


def test_the_larger_number_is_what_was_sent() -> None:
    assert sizes("prompt is too long: 200000 tokens > 210000 maximum") == (210_000, 200_000)


@pytest.mark.parametrize(
    "text",
    [
        "error 400: prompt is too long: 210000 tokens, limit 200000",
        "claude-haiku-4-5-20251001: token limit: 210000 tokens, limit 200000",
        "messages.12: context length: 210000 tokens, limit 200000",
    ],
)
def test_other_numbers_are_no_sizes(text: str) -> None:
    assert sizes(text) == (210_000, 200_000)


def test_a_text_without_sizes_has_none() -> None:
    assert sizes("prompt is too long") == (None, None)


@pytest.mark.parametrize(
    ("text", "index"),
    [
        ("messages.12: non-empty content", 12),
        ("messages[12]: non-empty content", 12),
        ("all messages must have non-empty content", None),
    ],
)
def test_the_message_without_content_is_named(text: str, index: int | None) -> None:
    for error in (text, {"error": {"message": text}}):
        found = parsed(error)
        assert found.error_type is LimitErrorType.NON_EMPTY_CONTENT
        assert found.message_index == index
        assert not found.exceeds_window


BODY = {"type": "error", "error": {"type": "invalid_request_error", "message": API}}


@pytest.mark.parametrize(
    "error",
    [
        {"message": API},
        {"error": {"message": API}},
        {"error": {"error": {"message": API}}},
        {"data": {"message": API}},
        {"data": {"error": API}},
        {"data": {"responseBody": json.dumps(BODY)}},
        {"data": {"responseBody": f"event: error\ndata: {json.dumps(BODY)}\n\n"}},
        {"body": json.dumps(BODY)},
        {"details": API},
        {"reason": API},
        {"description": API},
        {"cause": {"message": API}},
        {"name": API},
        BODY,
        json.dumps(BODY),
        f"API Error: 400 {json.dumps(BODY)}",
    ],
)
def test_a_message_is_found_however_it_is_wrapped(error: object) -> None:
    found = parsed(error)

    assert (found.current_tokens, found.max_tokens) == (210_000, 200_000)
    assert found.error_type is LimitErrorType.TOKEN_LIMIT
    assert found.exceeds_window


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        ({"message": API}, LimitErrorType.TOKEN_LIMIT),
        ({"message": "prompt is too long"}, LimitErrorType.UNKNOWN),
        (API, LimitErrorType.STRING),
        ("too many tokens", LimitErrorType.STRING),
        ({"code": "context_length_exceeded", "message": "too much"}, LimitErrorType.CONTEXT_LENGTH),
        ("context_length_exceeded", LimitErrorType.CONTEXT_LENGTH),
        (
            {"data": {"responseBody": '{"message":"The prompt is too long"}'}},
            LimitErrorType.BEDROCK,
        ),
        ({"message": "Input is too long for requested model."}, LimitErrorType.BEDROCK),
        ({"message": f"messages.4: non-empty content; {API}"}, LimitErrorType.NON_EMPTY_CONTENT),
    ],
)
def test_each_kind_is_told_apart(error: object, kind: LimitErrorType) -> None:
    assert parsed(error).error_type is kind


def test_the_kinds_have_the_required_names() -> None:
    assert {str(kind) for kind in LimitErrorType} == {
        "token_limit_exceeded",
        "non-empty content",
        "bedrock_input_too_long",
        "context_length_exceeded",
        "token_limit_exceeded_string",
        "token_limit_exceeded_unknown",
    }


@pytest.mark.parametrize("kind", sorted(set(LimitErrorType) - {LimitErrorType.NON_EMPTY_CONTENT}))
def test_the_errors_own_type_suffices(kind: LimitErrorType) -> None:
    """R002-10: `error.type`, whatever the message says and whatever wraps it."""
    inner = {"type": kind.value, "message": "the request was refused"}
    for error in (
        inner,
        {"error": inner},
        {"data": {"responseBody": json.dumps({"type": "error", "error": inner})}},
        f"API Error: 400 {json.dumps({'error': inner})}",
    ):
        found = parsed(error)
        assert (found.error_type, found.matched_keyword) == (kind, kind.value)
        assert found.exceeds_window


@pytest.mark.parametrize("kind", ["invalid_request_error", "overloaded_error", "", 5, None, ["x"]])
def test_another_type_of_error_is_none(kind: object) -> None:
    assert parse_limit_error({"error": {"type": kind, "message": "slow down"}}) is None


def test_the_type_does_not_hide_an_error_of_thinking_blocks() -> None:
    said = {"type": "token_limit_exceeded", "message": "Expected `thinking`, but found `text`"}

    assert parse_limit_error({"error": said}) is None


@pytest.mark.parametrize(
    "error",
    [
        "210000 tokens > 200000 maximum",
        {"error": {"type": "invalid_request_error", "message": "210,000 tokens > 200,000 maximum"}},
        {"data": {"responseBody": '{"error":{"message":"210000 tokens > 200000 maximum"}}'}},
        {"data": {"responseBody": {"error": {"message": "210000 tokens > 200000 maximum"}}}},
    ],
)
def test_the_comparison_of_sizes_needs_no_keyword(error: object) -> None:
    """002-41 and R002-10."""
    assert sizes(error) == (210_000, 200_000)
    assert parsed(error).exceeds_window


def test_ids_are_taken_from_wherever_they_stand() -> None:
    body = json.dumps(BODY | {"request_id": "req_1"})

    found = parsed({"providerID": "anthropic", "data": {"modelID": "opus", "responseBody": body}})

    assert (found.request_id, found.provider_id, found.model_id) == ("req_1", "anthropic", "opus")


@pytest.mark.parametrize(
    "text",
    [
        "thinking must be the first block",
        "the first block must be thinking",
        "a final message must start with a thinking block",
        "expected thinking or redacted_thinking",
        "Expected `thinking`, but found `text`",
        "when thinking is disabled, a message cannot contain it",
    ],
)
def test_an_error_of_thinking_blocks_is_another(text: str) -> None:
    assert is_thinking_block_error(text)
    assert parse_limit_error(f"{text}; max_tokens") is None
    assert parse_limit_error({"message": f"{text}; is too long"}) is None


def test_a_limit_of_the_answer_is_none_of_the_context() -> None:
    said = "max_tokens: 64001 > 64000, which is the maximum allowed number of output tokens"

    assert parse_limit_error({"message": said}) is None


@pytest.mark.parametrize(
    "text", ["max_tokens must be above 0", "tools.0.name is too long", "no token limit is set"]
)
def test_a_text_that_may_mean_another_thing_is_no_overflow(text: str) -> None:
    assert not parsed({"message": text}).exceeds_window


@pytest.mark.parametrize(
    "text",
    [
        "prompt " * 100_000,
        "prompt is too long 1 " * 20_000,
        "thinking " * 50_000,
        "is too long " + "9" * 200_000,
        "is too long " + "1,000" * 40_000,
        "is too long " + '{"error":' * 50_000,
    ],
)
def test_a_huge_text_is_searched_in_one_go(text: str) -> None:
    for error in (text, {"data": {"responseBody": text}}):
        found = parse_limit_error(error)

        assert found is None or found.max_tokens is None


def test_an_error_that_wraps_itself_ends() -> None:
    error: dict[str, object] = {"message": API}
    error["error"] = error

    assert parsed(error).max_tokens == 200_000
