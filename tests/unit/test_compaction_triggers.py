"""When to compact: not-agent's decision, and the levels of the compression system."""

from __future__ import annotations

import pytest
from ctxtop.core.compaction.compression_decision import (
    CompactThreshold,
    CompressionLevel,
    LevelSet,
    TriggerSettings,
    decide_compression,
    get_compression_level,
    may_compact,
    should_compact,
    should_compress,
)

LIGHT, MEDIUM, AGGRESSIVE = CompressionLevel


@pytest.mark.parametrize(
    ("messages", "tokens", "compact"),
    [
        (7, 75_000, True),
        (7, 74_999, False),
        (6, 75_000, False),
        (0, 0, False),
        (100, 200_000, True),
    ],
)
def test_a_long_and_full_conversation_is_compacted(
    messages: int, tokens: int, *, compact: bool
) -> None:
    assert should_compact(messages, tokens).compact is compact


def test_the_reason_names_the_numbers() -> None:
    assert should_compact(7, 75_000).reason == "75,000 tokens have reached the threshold of 75,000."
    assert should_compact(7, 9).reason == "9 tokens are below the threshold of 75,000."
    assert should_compact(6, 80_000).reason == (
        "Not enough messages to compact. Need at least 7 messages."
    )


def test_nothing_is_compacted_where_that_is_off() -> None:
    decision = should_compact(99, 99_999, CompactThreshold(enable_auto_compaction=False))

    assert (decision.compact, decision.reason) == (False, "Automatic compaction is off.")


def test_the_threshold_is_cut_to_whole_tokens() -> None:
    assert (
        CompactThreshold(max_context_tokens=101, compaction_threshold=0.75).threshold_tokens == 75
    )


def test_a_person_may_compact_below_the_threshold_but_not_a_few_messages() -> None:
    assert may_compact(7).compact
    assert not may_compact(6).compact
    assert may_compact(3, CompactThreshold(preserve_recent_messages=0)).compact


@pytest.mark.parametrize(("ratio", "yes"), [(0.8499, False), (0.85, True), (2.0, True)])
def test_compression_begins_at_its_threshold(ratio: float, *, yes: bool) -> None:
    assert should_compress(ratio) is yes
    assert should_compress(ratio - 0.5, 0.35) is yes


@pytest.mark.parametrize(
    ("ratio", "three", "two"),
    [
        (0.0, None, None),
        (0.8499, None, None),
        (0.85, LIGHT, LIGHT),
        (0.8999, LIGHT, LIGHT),
        (0.90, MEDIUM, LIGHT),
        (0.9499, MEDIUM, LIGHT),
        (0.95, AGGRESSIVE, AGGRESSIVE),
        (1.4, AGGRESSIVE, AGGRESSIVE),
    ],
)
def test_levels_begin_at_their_thresholds(
    ratio: float, three: CompressionLevel | None, two: CompressionLevel | None
) -> None:
    assert get_compression_level(ratio) is three
    assert get_compression_level(ratio, TriggerSettings(levels=LevelSet.TWO)) is two


@pytest.mark.parametrize(
    ("used", "messages", "said"),
    [
        (50_000, 10, (False, False, "Normal: 50% of the limit is below 85%")),
        (86_500, 10, (True, False, "High usage: 86.5% of the limit is at or above 85%")),
        (95_000, 10, (True, True, "Emergency: 95% of the limit is at or above 95%")),
        (99_000, 5, (False, False, "Only 5 messages: 6 are needed")),
    ],
)
def test_a_decision_says_why(used: int, messages: int, said: tuple[bool, bool, str]) -> None:
    decision = decide_compression(used, 100_000, messages)

    assert (decision.compress, decision.forced, decision.reason) == said


@pytest.mark.parametrize(
    ("used", "tokens", "percent"), [(0, 85_000, 85), (50_000, 35_000, 35), (99_000, 0, 0)]
)
def test_a_decision_says_how_much_room_is_left(used: int, tokens: int, percent: int) -> None:
    decision = decide_compression(used, 100_000, 10)

    assert (decision.remaining_tokens, decision.remaining_percent) == (tokens, percent)
