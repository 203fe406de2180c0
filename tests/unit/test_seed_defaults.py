"""Every default of the seed engines, one by one, as requirements.md has it (R002-21)."""

from __future__ import annotations

from typing import Final

import pytest
from ctxtop.core.compaction.recovery import limit_errors
from ctxtop.core.summaries.key_messages import AnchorSettings, ImportanceSettings, ImportanceWeights

WEIGHTS: Final = ImportanceWeights()
IMPORTANCE: Final = ImportanceSettings()

DEFAULTS: Final[list[tuple[str, object, object]]] = [
    ("002-40, R002-10 keywords", len(limit_errors.LIMIT_KEYWORDS), 8),
    ("R002-10 thinking-block patterns", len(limit_errors.THINKING_BLOCK_ERRORS), 6),
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
