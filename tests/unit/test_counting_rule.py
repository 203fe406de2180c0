"""What a policy counts of an answer."""

from __future__ import annotations

import pytest
from ctxtop.core.measure.token_estimate import CharactersCounter
from ctxtop.core.model.answer_facts import TokenUsage
from ctxtop.core.model.context import (
    Context,
    ContextState,
    StoredTokenCounts,
    TokenCounts,
    measure_context,
)
from ctxtop.core.model.context_window import ClaimSource, Window
from ctxtop.core.model.conversation import MessagePart, PartKind
from ctxtop.core.model.counting_rule import (
    DEFAULT_COUNTING,
    CountingRule,
    UsageSource,
    make_counting_rule,
)
from ctxtop.core.policy.policy import Policy, PolicyOrigin
from ctxtop.core.policy.resolve import RawValue, resolve_policy
from ctxtop.tui.entities.context_breakdown import number_sources
from msgspec.structs import replace

ANSWER = TokenUsage(input_tokens=10, cache_creation_tokens=200, cache_read_tokens=3_000)
STORED = StoredTokenCounts(
    answer=3_210, output=40_000, input=10, cache_creation=200, cache_read=3_000
)
WINDOW = Window(200_000, ClaimSource.TABLE)


def rule(*components: str) -> CountingRule:
    return make_counting_rule("api_last", components)


def measured(stored: StoredTokenCounts, *components: str) -> Context:
    return measure_context(stored, WINDOW, counting=rule(*components))


def policy_of(**values: object) -> Policy:
    return resolve_policy(
        [
            RawValue(f"usage.{key}", value, PolicyOrigin.USER_FILE, "here")
            for key, value in values.items()
        ]
    )


def test_the_default_is_the_whole_input() -> None:
    assert resolve_policy([]).counting == DEFAULT_COUNTING
    assert rule("cache_creation", "input", "cache_read") == DEFAULT_COUNTING
    assert measured(STORED, "input", "cache_read", "cache_creation") == measure_context(
        STORED, WINDOW
    )


@pytest.mark.parametrize(
    ("components", "tokens", "description"),
    [
        (("input",), 10, "input only"),
        (("input", "cache_read"), 3_010, "input + cache read only"),
        (("input", "cache_read", "output"), 43_010, "input + cache read + output only"),
        (("cache_creation",), 200, "cache write only"),
        (("input", "cache_read", "cache_creation", "output"), 43_210, "the whole input + output"),
        ((), 0, "nothing only"),
    ],
)
def test_the_chosen_counts_are_added_up(
    components: tuple[str, ...], tokens: int, description: str
) -> None:
    context = measured(STORED, *components)

    assert (context.tokens, context.state) == (tokens, ContextState.MEASURED)
    assert context.counting.description == description
    assert context.token_counts == TokenCounts(3_210, 43_210, 43_210), "the client's own numbers"


def test_of_an_answer_in_several_steps_only_the_share_is_known() -> None:
    """The counts are sums of all steps, the context is the input of the last one."""
    usage = TokenUsage(input_tokens=10, cache_creation_tokens=190, cache_read_tokens=800)
    stored = StoredTokenCounts(answer=500, input=10, cache_creation=190, cache_read=800)

    assert rule("input", "cache_read").count(500, usage) == 405
    context = measured(stored, "input", "cache_read")
    assert (context.tokens, context.state) == (405, ContextState.ESTIMATED)


def test_where_nothing_is_known_of_the_counts_the_whole_input_counts() -> None:
    context = measured(StoredTokenCounts(answer=500, output=7), "input", "output")

    assert (context.tokens, context.state) == (507, ContextState.ESTIMATED)


def test_an_estimate_of_the_next_request_has_no_components() -> None:
    context = measured(StoredTokenCounts(next_request=9_000), "input", "cache_read")

    assert (context.tokens, context.state) == (9_000, ContextState.ESTIMATED)


def test_what_was_cleared_is_taken_from_what_is_counted() -> None:
    context = measured(
        StoredTokenCounts(
            answer=3_210, input=10, cache_creation=200, cache_read=3_000, cleared=1_000
        ),
        "input",
        "cache_read",
    )

    assert (context.tokens, context.state) == (2_010, ContextState.ESTIMATED)


@pytest.mark.parametrize(
    ("preset", "components"),
    [
        ("omo-2.6", ["input", "cache_read", "output"]),
        ("omo-latest", ["input", "cache_read"]),
        ("native", ["input", "cache_read", "cache_creation"]),
    ],
)
def test_presets_count_as_their_systems(preset: str, components: list[str]) -> None:
    policy = resolve_policy([RawValue("preset", preset, PolicyOrigin.COMMAND_LINE, "--preset")])

    assert policy.counting.component_names == components


def test_an_output_that_counts_may_reach_a_threshold_from_far_below() -> None:
    """Contexts below the lowest threshold are not evaluated: their answers might reach it."""
    small, whole = policy_of(components=["input"]), policy_of(components=["input", "output"])

    assert small.lowest_threshold_tokens == policy_of().lowest_threshold_tokens
    assert whole.lowest_threshold_tokens == 0


@pytest.mark.parametrize("source", ["chars4", "tiktoken"])
def test_a_context_is_its_text_where_that_was_counted(source: str) -> None:
    counting = policy_of(source=source).counting
    counted = replace(STORED, texts={counting.text_rule: 2_500})
    context = measure_context(counted, WINDOW, counting=counting)

    assert (context.tokens, context.state) == (2_500, ContextState.ESTIMATED)
    assert context.counting.source == source
    assert context.counting.component_names == []
    assert context.sent_tokens == 3_210
    fill = number_sources(context, ())[0]
    assert fill.source == f"{counting.description} (usage.source = {source})"


@pytest.mark.parametrize("source", ["chars4", "tiktoken"])
def test_a_text_that_was_not_counted_is_not_claimed(source: str) -> None:
    """The number is the API's, and says so: of an agent without a file, or by another rule."""
    counting = policy_of(source=source).counting
    other_rule = policy_of(source=source, per_message_overhead=9).counting.text_rule
    by_another = replace(STORED, texts={other_rule: 2_500})
    for stored in (STORED, by_another):
        context = measure_context(stored, WINDOW, counting=counting)

        assert context.tokens == 3_210
        assert context.counting.source is UsageSource.API_LAST
        fill = number_sources(context, ())[0]
        assert fill.source.endswith(f"; not counted from text (usage.source = {source})")


def test_a_text_may_reach_a_threshold_at_any_input() -> None:
    assert policy_of(source="chars4").lowest_threshold_tokens == 0


@pytest.mark.parametrize(
    ("source", "values", "description"),
    [
        ("chars4", {}, "the text only, as characters / 4, 4 tokens around each message"),
        ("chars4", {"per_message_overhead": 0}, "the text only, as characters / 4"),
        (
            "chars4",
            {"per_message_overhead": 0, "estimator": "chars_by_script"},
            "the text only, as characters / 4 (Hangul / 1.5)",
        ),
        ("tiktoken", {"per_message_overhead": 0}, "the text only, as tokens of cl100k_base"),
    ],
)
def test_a_text_is_described_by_its_unit(
    source: str, values: dict[str, object], description: str
) -> None:
    assert policy_of(source=source, **values).counting.description == description


@pytest.mark.parametrize(
    ("part", "tokens"),
    [
        (MessagePart(PartKind.PROMPT, "x" * 9), 3 + 10),
        (MessagePart(PartKind.TOOL_RESULT, "x" * 8, media=1), 2 + 10 + 1_600),
        (MessagePart(PartKind.TEXT, "x" * 9), 3),
        (MessagePart(PartKind.TEXT), 0),
        (MessagePart(PartKind.TOOL_INPUT, '{"a": "12345"}', "Read"), 3),  # Read a, 12345
    ],
)
def test_characters_are_counted_with_the_overhead_of_a_message(
    part: MessagePart, tokens: int
) -> None:
    counting = policy_of(estimator="chars4", per_message_overhead=10).counting

    assert CharactersCounter(counting).tokens(part) == tokens


def test_only_the_estimators_by_characters_count_no_tokens() -> None:
    assert policy_of().counting.estimate_message("x" * 400) is None
    assert policy_of(estimator="chars4").counting.estimate_message("x" * 401) == 101 + 4


def test_a_cumulative_source_shows_what_was_spent() -> None:
    assert policy_of(source="api_last+cumulative").counting.shows_spent
    assert not policy_of().counting.shows_spent
    assert policy_of(source="api_last+cumulative").counting.source is UsageSource.WITH_CUMULATIVE
    assert rule().count(3_210, ANSWER) == 0
