"""Summaries that the client makes in the background, where flags of its server ask for them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

from ctxtop.core.model.context_window import ClaimSource

from .lab import LARGE, SMALL
from .test_registry import ctxtop
from .test_triggers import WINDOW

if TYPE_CHECKING:
    from .lab import Json, Lab
    from .ledger import Judge

AHEAD: Final = "tengu_sepia_moth"
"""A summary is begun at 80 % of the window that compacts, and used at the trigger, or when the API
refuses a prompt."""

BESIDE_TURN: Final = "tengu_ambling_tortoise"
"""So many tokens a turn may pass its trigger by while its summary is made."""

HOSTED: Final = {
    "CLAUDE_CODE_REMOTE": "1",
    "CLAUDE_CODE_ENVIRONMENT_KIND": "anthropic_cloud",
    "CLAUDE_CODE_REMOTE_SESSION_ID": "lab",
}
"""A turn passes its trigger in the vendor's own containers alone."""

COMPACTS_WHEN_HOSTED: Final = "tengu_reactive_compact_remote"

OUTPUT: Final = {"CLAUDE_CODE_MAX_OUTPUT_TOKENS": "8000"}
"""There has to be room for a whole answer above the trigger."""

TRIGGER: Final = 79_000
"""Of a window of 100,000 with answers of 8,000; 13,000 is the client's buffer."""

TOO_LONG: Final = "once:400 prompt is too long: 210000 tokens > 200000 maximum"


def set_flags(lab: Lab, **flags: object) -> None:
    """Let the client find flags of its server where it keeps those that it was told."""
    path = lab.config / ".claude.json"
    before = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    text = json.dumps(before | {"cachedGrowthBookFeatures": flags})
    path.write_text(text, encoding="utf-8")
    # Without it a client that sends no telemetry reads none of them.
    lab.variables |= {"CLAUDE_CODE_GB_DISK_CACHE_WHEN_TELEMETRY_OFF": "1"}


def boundary_of(lab: Lab, session_id: str) -> Json:
    """The only boundary, as the client wrote it; ctxtop lists it with the same sizes."""
    (found,) = (
        line["compactMetadata"]
        for line in lab.transcript(session_id)
        if line.get("subtype") == "compact_boundary"
    )
    (listed,) = json.loads(ctxtop(lab, "compactions").out)
    assert listed["precomputed"] is found["precomputed"] is True
    assert (listed["pre_tokens"], listed["trigger"]) == (found["preTokens"], "auto")
    boundary: Json = found
    return boundary


def test_a_summary_that_was_ready_at_the_trigger_leaves_the_trigger_where_it_is(
    lab: Lab, judge: Judge
) -> None:
    set_flags(lab, **{AHEAD: True})
    lab.write_settings({"env": {WINDOW: "200000"}})
    first = lab.turn("Hi. [[say:ok&&&usage:60000]]", model=SMALL)
    judge.turn(first)
    turn = lab.turn(
        "Go on. [[bash:true&&&usage:150000]] [[bash:true&&&usage:168000]] [[say:ok&&&usage:30000]]",
        model=SMALL,
        resume=first.session_id,
    )
    judge.turn(turn)
    assert boundary_of(lab, turn.session_id)["preTokens"] >= 168_000
    trigger = lab.ctxtop().sessions[turn.session_id].context.trigger
    assert trigger is not None
    assert (trigger.tokens, trigger.source) == (167_000, ClaimSource.SETTINGS)
    assert trigger.contradicting == ()


def test_a_summary_that_was_ready_when_a_prompt_was_refused_shows_where_the_client_compacts(
    lab: Lab, judge: Judge
) -> None:
    set_flags(lab, **{AHEAD: True})
    first = lab.turn("Hi. [[say:ok&&&usage:60000]]", model=SMALL)
    judge.turn(first)
    turn = lab.turn(
        "Go on. [[bash:true&&&usage:150000]] [[bash:true&&&usage:185000]]"
        f" [[bash:true&&&usage:196000]] [[{TOO_LONG}&&&say:fine&&&usage:30000]]",
        model=SMALL,
        resume=first.session_id,
    )
    judge.turn(turn)
    high = boundary_of(lab, turn.session_id)["preTokens"]
    assert high >= 196_000
    trigger = lab.ctxtop().sessions[turn.session_id].context.trigger
    assert trigger is not None
    assert (trigger.tokens, trigger.source) == (high, ClaimSource.SESSION_COMPACTION)


def test_a_trigger_that_a_turn_may_pass_by_is_learned_from_the_first_boundary(
    lab: Lab, judge: Judge
) -> None:
    set_flags(lab, **{BESIDE_TURN: 15_000, COMPACTS_WHEN_HOSTED: True})
    lab.variables |= HOSTED
    lab.write_settings({"env": OUTPUT})
    option = ("--autocompact", "100000")
    large = " ".join(f"the price of part {number} is {number * 7}" for number in range(3_200))
    first = lab.turn(f"{large} [[say:ok&&&usage:counted]]", model=LARGE, more=option)
    judge.turn(first)
    # Two requests pass the trigger at least; the last list ends beyond what may be passed by.
    turn = lab.turn(
        "Go on. [[bash:seq 1 5000&&&usage:counted]] [[bash:seq 1 2200&&&usage:counted]]"
        " [[bash:true&&&usage:counted]] [[bash:seq 1 4500&&&usage:counted]]"
        " [[bash:true&&&usage:counted]] [[say:ok&&&usage:counted]]",
        model=LARGE,
        resume=first.session_id,
        more=option,
    )
    judge.turn(turn)
    boundary = boundary_of(lab, turn.session_id)
    sent = [one["usage"] for one in turn.exchanges if one["what"] == "answer"]
    passed = sum(sent[3][name] for name in sent[3] if name.endswith("input_tokens"))
    assert TRIGGER < passed <= boundary["preTokens"]
    trigger = lab.ctxtop().sessions[turn.session_id].context.trigger
    assert trigger is not None
    assert (trigger.tokens, trigger.source) == (
        boundary["preTokens"],
        ClaimSource.SESSION_COMPACTION,
    )
