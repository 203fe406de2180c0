"""Every default of the seed engines, one by one, as requirements.md has it (R002-21)."""

from __future__ import annotations

from typing import Final

import pytest
from ctxtop.core.compaction.recovery import limit_errors
from ctxtop.core.summaries import key_messages

DEFAULTS: Final[list[tuple[str, object, object]]] = [
    ("002-40, R002-10 keywords", len(limit_errors.LIMIT_KEYWORDS), 8),
    ("R002-10 thinking-block patterns", len(limit_errors.THINKING_BLOCK_ERRORS), 6),
    ("2.2.2 anchors_max", key_messages.MAX_ANCHORS, 5),
    ("003-05 anchor_marker", key_messages.ANCHOR_MARKER, "<!-- anchor -->"),
    ("003-32 user_explicit", key_messages.USER_EXPLICIT_WEIGHT, 1.0),
    ("003-32 decision", key_messages.DECISION_WEIGHT, 0.8),
    ("003-32 tool_result", key_messages.TOOL_RESULT_WEIGHT, 0.7),
    ("003-32 keyword", key_messages.KEYWORD_WEIGHT, 0.5),
]


@pytest.mark.parametrize(
    ("value", "required"), [row[1:] for row in DEFAULTS], ids=[row[0] for row in DEFAULTS]
)
def test_a_default_is_the_required_one(value: object, required: object) -> None:
    assert value == required
