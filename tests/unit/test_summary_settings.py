"""What the policy's keys of a summary do to it."""

from __future__ import annotations

import pytest
from ctxtop.core.compaction.strategies.summary_and_cut import summarize_by_rules
from ctxtop.core.policy.policy import PolicyOrigin
from ctxtop.core.policy.resolve import BUILT_IN_POLICY, RawValue, resolve_policy
from ctxtop.core.summaries.model_summary import build_prompt
from ctxtop.core.summaries.summary_building import (
    CHEAP_MODEL,
    Summary,
    SummaryBudget,
    SummarySettings,
    read_summary_settings,
)
from ctxtop.core.summaries.summary_facts import EIGHT_SECTIONS, FOUR_SECTIONS, FactKind, make_fact

from .test_summarize import lines_of, session, whole

FACTS = (
    make_fact(FactKind.PROMPT, "Mend it.", 1, 1.0, "1"),
    make_fact(FactKind.DECISION, '"We use sqlite."', 2, 0.8),
    make_fact(FactKind.ERROR, "make: exit 2", 3, 0.7, "make"),
    make_fact(FactKind.DONE, "`make` passed", 4, 0.7, "make"),
    make_fact(FactKind.FILE, "/p/a.py (edited 1×)", 5, 1.0, "/p/a.py"),
)


def settings_of(key: str, value: str) -> SummarySettings:
    given = RawValue(key, value, PolicyOrigin.COMMAND_LINE, "--set")
    return read_summary_settings(resolve_policy([given]))


def made(settings: SummarySettings) -> Summary:
    return settings.selection.build_summary(
        settings.selection.select(FACTS), FOUR_SECTIONS, SummaryBudget(2_000)
    )


def test_the_defaults_are_those_of_a_summary_without_a_policy() -> None:
    assert read_summary_settings(BUILT_IN_POLICY) == SummarySettings()


def test_a_size_is_said_or_follows_from_what_leaves() -> None:
    assert settings_of("summary.max_tokens", "auto").budget is None
    assert settings_of("summary.max_tokens", "700").budget == SummaryBudget(700)
    assert settings_of("preset", "hybrid-buffer").budget == SummaryBudget(500)


@pytest.mark.parametrize(
    ("key", "gone"),
    [
        ("summary.preserve_decisions", {FactKind.DECISION}),
        ("summary.preserve_tool_results", {FactKind.ERROR, FactKind.DONE}),
    ],
)
def test_what_a_policy_does_not_preserve_is_left_out(key: str, gone: set[FactKind]) -> None:
    assert {each.kind for each in made(settings_of(key, "true")).facts} >= gone
    parts = {each.kind for each in made(settings_of(key, "false")).facts}
    assert not parts & gone
    assert {FactKind.PROMPT, FactKind.FILE} <= parts


def test_each_level_is_made_of_the_one_before_it() -> None:
    many = [
        make_fact(FactKind.DECISION, f'"We use number {n} of them all."', n, 0.5)
        for n in range(200)
    ]
    once = SummarySettings().selection.build_summary(many, FOUR_SECTIONS, SummaryBudget(1_000))
    twice = settings_of("summary.levels", "2").selection.build_summary(
        many, FOUR_SECTIONS, SummaryBudget(1_000)
    )
    assert set(twice.facts) < set(once.facts)
    assert twice.tokens <= 500 < once.tokens
    assert twice.omitted == len(many) - len(twice.facts)


def test_the_words_for_a_model_stand_for_one() -> None:
    assert settings_of("summary.model", "cheap").resolve_model("claude-x") == CHEAP_MODEL
    assert settings_of("summary.model", "session").resolve_model("claude-x") == "claude-x"
    assert settings_of("summary.model", "session").resolve_model(None) == CHEAP_MODEL
    assert settings_of("summary.model", "my-own").resolve_model("claude-x") == "my-own"


def test_a_template_words_and_messages_are_taken_from_it() -> None:
    assert settings_of("summary.template", "eight_section").template == EIGHT_SECTIONS
    assert settings_of("compact.preserve_recent", "3").keep_messages == 3
    assert settings_of("preset", "native").keep_messages == 10
    most = settings_of("summary.max_words", "333").max_words
    assert "Stay under 333 words" in build_prompt(FOUR_SECTIONS, FACTS, "talk", most)


def test_a_plan_has_what_was_chosen() -> None:
    choice = settings_of("summary.preserve_tool_results", "false").selection
    entries = whole(session())
    *_, summary = lines_of(
        summarize_by_rules(
            entries, SummarySettings(FOUR_SECTIONS, SummaryBudget(2_000), 3, selection=choice)
        )
    )
    assert "Errors, and how they ended:" not in summary["message"]["content"]
