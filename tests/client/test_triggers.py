"""The trigger that ctxtop names is the one at which the client compacts by itself."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import pytest
from ctxtop.core.model.claude_models import LARGE_WINDOW_SUFFIX
from ctxtop.core.model.context_window import ClaimSource

from .lab import LARGE, SMALL

if TYPE_CHECKING:
    from .lab import Lab

Json = dict[str, Any]

WINDOW: Final = "CLAUDE_CODE_AUTO_COMPACT_WINDOW"
PERCENT: Final = "CLAUDE_AUTOCOMPACT_PCT_OVERRIDE"
FOUR_SIX: Final = "claude-sonnet-4-6"

DEBUG: Final = ("--debug",)

CLOSE: Final = 100
"""Tokens; the client's own estimate of a short prompt and a reminder is below it."""

_CHECKED: Final = re.compile(r"autocompact: tokens=\S+ level=(\w+)")
_OVER: Final = frozenset({"compact", "blocked"})


@dataclass(frozen=True, slots=True)
class Case:
    """What is set, and what ctxtop is to say."""

    model: str
    tokens: int | None
    source: ClaimSource = ClaimSource.SETTINGS
    settings: Json = field(default_factory=dict)


def env(**variables: str) -> Json:
    return {"env": variables}


CASES: Final = {
    "small, nothing set": Case(SMALL, None, ClaimSource.TABLE),
    "large, nothing set": Case(LARGE, 967_000, ClaimSource.TABLE),
    "4.6": Case(FOUR_SIX, 167_000, ClaimSource.TABLE),
    "4.6, asked for its large window": Case(
        FOUR_SIX + LARGE_WINDOW_SUFFIX, None, ClaimSource.TABLE
    ),
    "4.5": Case("claude-opus-4-5", None, ClaimSource.TABLE),
    "a model that nobody knows": Case("my-own-model", 967_000, ClaimSource.TABLE),
    "a window in the environment": Case(SMALL, 167_000, settings=env(**{WINDOW: "200000"})),
    "a window above the model's": Case(SMALL, 167_000, settings=env(**{WINDOW: "500000"})),
    "a window with a letter": Case(LARGE, 467_000, settings=env(**{WINDOW: "500k"})),
    "a window below the least": Case(LARGE, 67_000, settings=env(**{WINDOW: "50000"})),
    "a window in the settings": Case(LARGE, 117_000, settings={"autoCompactWindow": 150_000}),
    "a setting below the least": Case(
        LARGE, 967_000, ClaimSource.TABLE, settings={"autoCompactWindow": 50_000}
    ),
    "a setting for the model": Case(
        LARGE,
        117_000,
        settings={
            "autoCompactWindow": 300_000,
            "modelSettings": {"opus": {"autoCompactWindow": 150_000}},
        },
    ),
    "a variable over a setting": Case(
        LARGE, 117_000, settings={"autoCompactWindow": 300_000} | env(**{WINDOW: "150000"})
    ),
    "a percentage and a window": Case(
        SMALL, 90_000, settings=env(**{WINDOW: "200000", PERCENT: "50"})
    ),
    "a percentage of a large window": Case(
        LARGE, 490_000, ClaimSource.TABLE, settings=env(**{PERCENT: "50"})
    ),
    "a percentage alone": Case(SMALL, None, ClaimSource.TABLE, settings=env(**{PERCENT: "50"})),
    "a percentage too high": Case(
        SMALL, 167_000, settings=env(**{WINDOW: "200000", PERCENT: "99"})
    ),
    "short answers": Case(
        SMALL, 179_000, settings=env(**{WINDOW: "200000", "CLAUDE_CODE_MAX_OUTPUT_TOKENS": "8000"})
    ),
    "large windows switched off": Case(
        LARGE, 167_000, ClaimSource.TABLE, settings=env(CLAUDE_CODE_DISABLE_1M_CONTEXT="1")
    ),
    "switched off": Case(
        LARGE, None, settings={"autoCompactEnabled": False} | env(**{WINDOW: "150000"})
    ),
    "switched off by a variable": Case(
        LARGE, None, settings=env(**{WINDOW: "150000", "DISABLE_AUTO_COMPACT": "1"})
    ),
}


def level_at(lab: Lab, session: str, model: str, leaves: int) -> str | None:
    """What the client thinks of a session's size when it goes on; None where it never looks.

    It looks before each request, and a session's first look is at nothing. The answer leaves the
    session with so many tokens.
    """
    script = f"Go on. [[say:ok&&&usage:{leaves}/0]]"
    lab.turn(script, resume=session, model=model, more=DEBUG)
    levels = _CHECKED.findall(lab.debug(session))
    return levels[-1] if levels else None


@pytest.mark.parametrize("name", CASES)
def test_the_client_compacts_where_ctxtop_says(lab: Lab, name: str) -> None:
    case = CASES[name]
    lab.write_settings(case.settings)
    below = case.tokens - CLOSE if case.tokens else 20_000
    begun = lab.turn(f"Hi. [[say:ok&&&usage:{below}/0]]", model=case.model, more=DEBUG)
    session = begun.session_id
    context = lab.ctxtop().sessions[session].context
    trigger = context.trigger

    assert trigger is not None
    assert (trigger.tokens, trigger.source) == (case.tokens, case.source), trigger.why
    if case.tokens is None:
        level_at(lab, session, case.model, context.window.tokens - 5_000)
        assert level_at(lab, session, case.model, 1_000) is None
        return
    assert level_at(lab, session, case.model, case.tokens) not in {*_OVER, None}
    assert level_at(lab, session, case.model, 1_000) in _OVER


def test_the_environment_of_a_client_that_runs_is_seen(lab: Lab) -> None:
    lab.variables = {WINDOW: "150000", "SOME_TOKEN": "hush"}
    screen = lab.interactive(model=LARGE)
    screen.ask("Hi. [[say:ok&&&usage:20000]]")
    trigger = lab.ctxtop().sessions[screen.session_id].context.trigger

    assert trigger is not None
    assert (trigger.tokens, trigger.source) == (117_000, ClaimSource.ENVIRONMENT)
    screen.ask("More. [[bash:true&&&usage:116000]] [[say:ok&&&usage:116500]]")
    screen.ask("And more. [[say:ok&&&usage:118000]]")
    before = lab.ctxtop().sessions[screen.session_id]
    assert before.compactions == 0
    screen.ask("On. [[say:ok&&&usage:30000]]")
    after = lab.ctxtop().sessions[screen.session_id]

    assert after.compactions == 1
    assert after.context.trigger is not None
    assert after.context.trigger.tokens == 117_000
    assert after.context.trigger.contradicting == ()
    assert b"hush" not in lab.store.read_bytes()


def seen(lab: Lab, session_id: str) -> tuple[int | None, ClaimSource, int]:
    """The trigger that ctxtop names, why, and the window beside it."""
    context = lab.ctxtop().sessions[session_id].context
    assert context.trigger is not None
    return context.trigger.tokens, context.trigger.source, context.window.tokens


def test_an_option_of_the_command_line_is_seen_and_what_context_says_typed(lab: Lab) -> None:
    screen = lab.interactive("--autocompact", "150k", model=LARGE)
    session_id = screen.session_id
    screen.ask("Hi. [[say:ok&&&usage:60000]]")
    assert seen(lab, session_id) == (117_000, ClaimSource.COMMAND_LINE, 1_000_000)
    screen.type("/context")
    screen.until(lambda: "Free space" in screen.text(), "the report")
    screen.ask("More. [[say:ok&&&usage:118000]]")
    assert lab.ctxtop().sessions[session_id].context.token_counts.report == 60_000
    screen.ask("On. [[say:ok&&&usage:30000]]")
    after = lab.ctxtop().sessions[session_id]
    assert after.compactions == 1
    assert seen(lab, session_id) == (117_000, ClaimSource.COMMAND_LINE, 1_000_000)
    screen.leave()
    # Another store was not there while the client ran: what it left tells the same.
    fresh = lab.ctxtop(lab.root / "fresh" / "ctxtop.db").sessions[session_id].context
    assert fresh.trigger is not None
    assert fresh.trigger.source is ClaimSource.SESSION_COMPACTION
    assert 117_000 <= (fresh.trigger.tokens or 0) < 118_100
    assert fresh.window.tokens == 1_000_000


def test_what_context_says_typed_tells_a_trigger_that_nothing_else_does(lab: Lab) -> None:
    screen = lab.interactive("--autocompact=120000", model=LARGE)
    session_id = screen.session_id
    screen.ask("Hi. [[say:ok&&&usage:60000]]")
    screen.type("/context")
    screen.until(lambda: "Free space" in screen.text(), "the report")
    screen.ask("More. [[say:ok&&&usage:61000]]")
    screen.leave()
    assert seen(lab, session_id) == (87_000, ClaimSource.CONTEXT_REPORT, 1_000_000)


def test_an_automatic_compaction_corrects_the_table(lab: Lab) -> None:
    option = ("--autocompact", "120000")
    first = lab.turn("One. [[say:ok&&&usage:86000]]", model=LARGE, more=option)
    session = first.session_id
    lab.turn("Two. [[say:ok&&&usage:99000]]", resume=session, model=LARGE, more=option)
    assert seen(lab, session)[:2] == (967_000, ClaimSource.TABLE)
    lab.turn("Three. [[say:ok&&&usage:20000]]", resume=session, model=LARGE, more=option)
    tokens, source, window = seen(lab, session)
    assert (source, window) == (ClaimSource.SESSION_COMPACTION, 1_000_000)
    assert 99_000 <= (tokens or 0) < 99_000 + CLOSE
    lab.turn("Four. [[say:ok&&&usage:150000]]", resume=session, model=LARGE)
    assert seen(lab, session)[:2] == (967_000, ClaimSource.TABLE), "it passed that by"


def test_a_compaction_after_a_refused_prompt_corrects_nothing(lab: Lab) -> None:
    refused = "once:400 prompt is too long: 210000 tokens > 200000 maximum"
    first = lab.turn("One. [[say:ok&&&usage:150000]]", model=LARGE)
    lab.turn(f"Go on. [[{refused}&&&say:fine&&&usage:20000]]", resume=first.session_id, model=LARGE)
    assert lab.ctxtop().sessions[first.session_id].compactions == 1
    assert seen(lab, first.session_id)[:2] == (967_000, ClaimSource.TABLE)


def test_the_counter_is_the_clients_own_before_each_compaction(lab: Lab) -> None:
    lab.write_settings({"autoCompactWindow": 150_000})
    first = lab.turn(
        "Go on. [[say:ok&&&bash:seq 1 400&&&usage:60000/40]] [[say:long&&&usage:118000/700]]",
        model=LARGE,
    )
    known = lab.ctxtop().sessions[first.session_id].context.token_counts
    second = lab.turn(
        "And on, please. [[say:ok&&&usage:30000]]", resume=first.session_id, model=LARGE
    )
    (boundary,) = (
        line["compactMetadata"]
        for line in lab.transcript(second.session_id)
        if line.get("subtype") == "compact_boundary"
    )

    assert (known.fill, known.hook) == (118_000, 118_700)
    assert known.counter is not None
    assert 0 <= boundary["preTokens"] - known.counter < CLOSE, "the new prompt alone"


@pytest.mark.parametrize(
    ("model", "window", "tokens"),
    [(FOUR_SIX, 200_000, 167_000), (SMALL, 200_000, None), (LARGE, 1_000_000, 967_000)],
)
def test_what_the_client_reports_is_believed_over_the_table(
    lab: Lab, model: str, window: int, tokens: int | None
) -> None:
    first = lab.turn("Hi. [[say:ok&&&usage:20000]]", model=model)
    lab.turn("/context", resume=first.session_id, model=model)
    context = lab.ctxtop().sessions[first.session_id].context

    assert context.trigger is not None
    assert (context.trigger.tokens, context.trigger.source) == (tokens, ClaimSource.CONTEXT_REPORT)
    assert (context.window.tokens, context.window.source) == (window, ClaimSource.CONTEXT_REPORT)
    assert context.token_counts.report is not None
    assert context.trigger.why
