"""Light, medium or aggressive: which is due, why, and what it changes (003-14, 003-15, T-02)."""

from __future__ import annotations

from typing import Any

import pytest
from ctxtop.core.actions.preset_steps import preset_steps
from ctxtop.core.compaction.automation_rules import automatic_target
from ctxtop.core.compaction.compression_level import due_compression
from ctxtop.core.compaction.policy_strategy import whole_options
from ctxtop.core.model.context import Context, ContextState
from ctxtop.core.model.context_window import ClaimSource, Window
from ctxtop.core.model.levels import Level
from ctxtop.core.policy.policy import Policy, PolicyOrigin
from ctxtop.core.policy.resolve import RawValue, resolve_policy
from ctxtop.tui.text.plan_text import limit_gauge

WINDOW = Window(200_000, ClaimSource.TABLE)


def policy(**values: object) -> Policy:
    named = {name.replace("__", "."): value for name, value in values.items()}
    return resolve_policy(
        [RawValue(name, value, PolicyOrigin.USER_FILE, "here") for name, value in named.items()]
    )


def context(wanted: Policy, tokens: int | None) -> Context:
    state = ContextState.UNKNOWN if tokens is None else ContextState.MEASURED
    return Context(tokens, state, WINDOW, thresholds=wanted.place_thresholds(WINDOW))


@pytest.mark.parametrize(
    ("values", "tokens", "level", "left"),
    [
        ({}, 169_999, None, 1),  # light from 85 %
        ({}, 170_000, Level.LIGHT, 10_000),
        ({}, 180_000, Level.MEDIUM, 10_000),  # the midpoint: 90 %
        ({}, 190_000, Level.AGGRESSIVE, None),
        ({"compact__levels": "two"}, 180_000, Level.LIGHT, 10_000),
        ({"compact__midpoint": 0.88}, 176_000, Level.MEDIUM, 14_000),
        ({"preset": "hybrid-buffer"}, 136_000, Level.LIGHT, 8_000),  # of 160,000 (R003-03)
        ({"preset": "hybrid-buffer"}, 152_000, Level.AGGRESSIVE, None),
        ({"preset": "not-agent"}, 90_000, Level.MEDIUM, None),  # it has no emergency
        ({"preset": "native"}, 190_000, None, None),  # no threshold compacts
        ({}, None, None, None),
    ],
)
def test_the_level_that_is_due(
    values: dict[str, Any], tokens: int | None, level: Level | None, left: int | None
) -> None:
    wanted = policy(**values)
    due = due_compression(wanted, context(wanted, tokens))
    assert (due.level, due.tokens_left) == (level, left)


def test_its_reason_names_the_share_and_what_comes_next() -> None:
    due = due_compression(policy(), context(policy(), 182_000))
    assert due.reason == "91% of its window, medium from 90%, aggressive from 95%"
    assert due_compression(policy(), context(policy(), None)).reason == "its context is unknown"


@pytest.mark.parametrize(
    ("tokens", "cells", "text", "color"),
    [
        (49_000, 14, "49 % of 100 k, Good", "ok"),
        (50_000, 15, "50 % of 100 k, Medium", "warning"),
        (75_000, 22, "75 % of 100 k, High", "bad"),
        (140_000, 30, "140 % of 100 k, High", "bad"),
    ],
)
def test_a_limit_of_the_policy_has_a_gauge_of_its_own(
    tokens: int, cells: int, text: str, color: str
) -> None:
    """R001-06: 30 cells of the preset's limit; the bar is capped, the number is not."""
    wanted = policy(preset="not-agent")
    drawn = limit_gauge(due_compression(wanted, context(wanted, tokens)))
    assert drawn is not None
    assert (len(drawn.bar), drawn.bar.count("█")) == (30, cells)
    assert (drawn.text.replace("\N{NO-BREAK SPACE}", " "), drawn.color) == (text, color)


def test_where_the_limit_is_the_window_there_is_one_gauge() -> None:
    assert limit_gauge(due_compression(policy(), context(policy(), 90_000))) is None


def test_a_preset_with_levels_frees_more_at_a_higher_one() -> None:
    """`compact.target_reduction` is 0.5 to 0.7: the two ends, and the middle between them."""
    wanted = policy(preset="hybrid-buffer", compact__strategy="ladder")
    sizes = (136_000, 144_000, 152_000)
    targets = [automatic_target(wanted, context(wanted, size)) for size in sizes]
    assert [round(1 - target / size, 3) for target, size in zip(targets, sizes, strict=True)] == [
        0.5, 0.6, 0.7,
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("level", "keep"),
    [(None, 10), (Level.LIGHT, 10), (Level.MEDIUM, 5), (Level.AGGRESSIVE, 2)],
)
def test_a_summary_keeps_fewer_messages_at_a_higher_level(level: Level | None, keep: int) -> None:
    options = whole_options(policy(preset="hybrid-buffer"), level)
    assert options is not None
    assert options.keep == keep


def test_the_preset_says_what_its_levels_do() -> None:
    texts = {each.step: each.text for each in preset_steps("hybrid-buffer")}
    space = "\N{NO-BREAK SPACE}"
    said = f"10 messages (50{space}% of them at medium, 25{space}% of them at aggressive)"
    assert said in texts["keeps"]
