"""Every default of the seed engines, one by one, as requirements.md has it (R002-21)."""

from __future__ import annotations

import inspect
from typing import Final

import pytest
from ctxtop.core.compaction import compression_decision
from ctxtop.core.compaction.compression_decision import (
    CompactThreshold,
    CounterSettings,
    CountingMethod,
    LevelSet,
    LimitSettings,
    TriggerSettings,
    should_compress,
)
from ctxtop.core.compaction.recovery import limit_errors
from ctxtop.core.compaction.retained_messages import SplitSettings
from ctxtop.core.summaries.key_messages import AnchorSettings, ImportanceSettings, ImportanceWeights

COMPACT: Final = CompactThreshold()
TRIGGER: Final = TriggerSettings()
BUFFER: Final = SplitSettings()
WEIGHTS: Final = ImportanceWeights()
IMPORTANCE: Final = ImportanceSettings()

DEFAULTS: Final[list[tuple[str, object, object]]] = [
    ("001-19 max_context_tokens", COMPACT.max_context_tokens, 100_000),
    ("001-20 compaction_threshold", COMPACT.compaction_threshold, 0.75),
    ("001-21 preserve_recent_messages", COMPACT.preserve_recent_messages, 4),
    ("001-22 enable_auto_compaction", COMPACT.enable_auto_compaction, True),
    ("001-24 messages that are too few", COMPACT.min_messages - 1, 4 + 2),
    ("001-25 threshold in tokens", COMPACT.threshold_tokens, 75_000),
    ("R001-04 need at least", COMPACT.min_messages, 4 + 3),
    ("002-40, R002-10 keywords", len(limit_errors.LIMIT_KEYWORDS), 8),
    ("R002-10 thinking-block patterns", len(limit_errors.THINKING_BLOCK_ERRORS), 6),
    ("003-11, R003-01 counter", CounterSettings().counter, CountingMethod.TIKTOKEN),
    ("R003-01 tokens a message", CounterSettings().per_message_overhead, 4),
    ("R003-01 characters a token", compression_decision.CHARS_PER_TOKEN, 4),
    ("R003-03 safety factor", LimitSettings().safety_factor, 0.8),
    ("R003-03 limit of an unknown model", LimitSettings().default_tokens, 100_000),
    ("R003-10 Korean characters a token", compression_decision.KOREAN_CHARS_PER_TOKEN, 1.5),
    ("003-14 threshold", inspect.signature(should_compress).parameters["threshold"].default, 0.85),
    ("003-24 usage_threshold", TRIGGER.usage_threshold, 0.85),
    ("003-25 emergency_threshold", TRIGGER.emergency_threshold, 0.95),
    ("T-02 medium", TRIGGER.medium_threshold, 0.90),
    ("T-02 levels", TRIGGER.levels, LevelSet.THREE),
    ("R003-04 min_messages", TRIGGER.min_messages, 6),
    ("003-26, T-04 recent_message_count", BUFFER.recent_message_count, 10),
    ("003-27 summary_max_tokens", BUFFER.summary_max_tokens, 500),
    ("003-28 anchors of a buffer", BUFFER.anchors.max_anchors, 5),
    ("2.2.2 anchors_max", AnchorSettings().max_anchors, 5),
    ("003-05 anchor_marker", IMPORTANCE.anchor_marker, "<!-- anchor -->"),
    ("003-32 user_explicit", WEIGHTS.user_explicit, 1.0),
    ("003-32 decision", WEIGHTS.decision, 0.8),
    ("003-32 tool_result", WEIGHTS.tool_result, 0.7),
    ("003-32 keyword", WEIGHTS.keyword, 0.5),
    ("003-32 weights that hold", IMPORTANCE.weights, WEIGHTS),
    ("2.2.2 importance that anchors go by", AnchorSettings().importance, IMPORTANCE),
]


@pytest.mark.parametrize(
    ("value", "required"), [row[1:] for row in DEFAULTS], ids=[row[0] for row in DEFAULTS]
)
def test_a_default_is_the_required_one(value: object, required: object) -> None:
    assert value == required
