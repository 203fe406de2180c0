"""What the API cleared from a request still counts toward automatic compaction."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from .edits import answers, write_edited
from .lab import SMALL
from .talks import path_of
from .test_triggers import WINDOW

if TYPE_CHECKING:
    from .edits import Lines
    from .lab import Lab

TRIGGER: Final = 167_000
"""Of a window of 200,000."""

SEEN: Final = 150_000
CLEARED: Final = 30_000


def cleared(lines: Lines) -> Lines:
    """Record in the last answer that the API cleared results from its request."""
    edit = {"type": "clear_tool_uses_20250919", "cleared_tool_uses": 3}
    edit |= {"cleared_input_tokens": CLEARED}
    answers(lines)[-1]["message"]["context_management"] = {"applied_edits": [edit]}
    return lines


def compacted(lab: Lab, session_id: str) -> list[dict[str, Any]]:
    lab.turn("Go on. [[say:ok&&&usage:30000]]", resume=session_id, model=SMALL)
    lines = lab.transcript(session_id)
    return [line for line in lines if line.get("subtype") == "compact_boundary"]


def test_the_counter_has_it_and_the_trigger_is_learned_with_it(lab: Lab) -> None:
    lab.write_settings({"env": {WINDOW: "200000"}})
    asked = f"Begin. [[bash:seq 1 99&&&usage:30000]] [[say:ok&&&usage:{SEEN}]]"
    path = path_of(lab, lab.turn(asked, model=SMALL).session_id)
    whole, edited = (write_edited(path, edit) for edit in (lambda lines: lines, cleared))
    before = lab.ctxtop().sessions
    contexts = [before[each].context for each in (whole, edited)]
    assert [each.tokens for each in contexts] == [SEEN, SEEN]
    left = [each.trigger_left or 0 for each in contexts]
    assert left[0] - left[1] == left[0], "the counter is above the trigger"
    counters = [each.token_counts.counter or 0 for each in contexts]
    assert counters[1] - counters[0] == CLEARED
    assert counters[0] < TRIGGER < counters[1]

    assert not compacted(lab, whole), "below the trigger"
    (boundary,) = compacted(lab, edited)

    assert boundary["compactMetadata"]["preTokens"] < TRIGGER, "without what was cleared"
    assert lab.ctxtop().sessions[edited].context.trigger_tokens == TRIGGER
