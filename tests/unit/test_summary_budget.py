"""A summary never exceeds its budget, keeps what matters most, and is read again as written."""

from __future__ import annotations

import pytest
from ctxtop.core.summaries.summary_building import (
    FactSelection,
    SummaryBudget,
    build_summary,
    default_budget,
    estimate_tokens,
    tokens_beside,
)
from ctxtop.core.summaries.summary_facts import (
    ELEVEN_SECTIONS,
    FOUR_SECTIONS,
    TEMPLATES,
    VERBATIM_KINDS,
    FactKind,
    SummaryFact,
    SummaryTemplate,
    find_template,
    make_fact,
    parse_summary,
    render_summary,
)
from hypothesis import given, settings
from hypothesis import strategies as st

WORDS = st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1, max_size=200).filter(
    str.strip
)
LINES = st.lists(WORDS, min_size=1, max_size=4).map("\n".join)


@st.composite
def any_facts(draw: st.DrawFn) -> list[SummaryFact]:
    parts = draw(st.lists(st.sampled_from(list(FactKind)), max_size=25))
    return [
        make_fact(
            part,
            draw(LINES if part in VERBATIM_KINDS else WORDS),
            number + 1,
            1.0 if part is FactKind.CONSTRAINT else draw(st.floats(0, 0.9)),
            f"key {number}",
        )
        for number, part in enumerate(parts)
    ]


@pytest.mark.parametrize("template", TEMPLATES.values(), ids=str)
def test_every_part_stands_in_one_section(template: SummaryTemplate) -> None:
    parts = [part for section in template.sections for part in section.kinds]
    assert sorted(parts) == sorted(FactKind)


def test_the_templates_by_their_policy_names() -> None:
    assert [len(find_template(name).sections) for name in ("four_section", "five_section")] == [
        4,
        5,
    ]
    assert [len(find_template(name).sections) for name in ("eight_section", "native")] == [8, 11]
    assert find_template("none") is FOUR_SECTIONS
    assert [each.title for each in FOUR_SECTIONS.sections] == [
        "Task Overview",
        "Work Completed",
        "Important Context",
        "Current State",
    ]


def test_the_default_budget() -> None:
    assert default_budget(100_000) == SummaryBudget(8_000, 20_000)
    assert default_budget(1_000_000).max_tokens == 12_000


@settings(deadline=None, max_examples=150)
@given(any_facts(), st.integers(0, 1_500), st.integers(0, 600))
def test_no_budget_is_exceeded(facts: list[SummaryFact], tokens: int, prompt_tokens: int) -> None:
    made = build_summary(facts, FOUR_SECTIONS, SummaryBudget(tokens, prompt_tokens))
    rules = [each for each in facts if each.kind is FactKind.CONSTRAINT]
    quoted = {FactKind.EARLIER, FactKind.STEP}
    beside = [*rules, *(each for each in made.facts if each.kind in quoted)]
    # The parts together can differ by a token or two from the sum of each.
    assert estimate_tokens(made.text) <= tokens + prompt_tokens + tokens_beside(beside) + 2
    assert not made.text or set(rules) <= set(made.facts)
    assert made.tokens == estimate_tokens(made.text)
    besides = {FactKind.PROMPT, FactKind.CONSTRAINT, *quoted}
    without = [each for each in made.facts if each.kind not in besides]
    assert not made.text or estimate_tokens(render_summary(without, FOUR_SECTIONS)) <= tokens
    assert made == build_summary(facts, FOUR_SECTIONS, SummaryBudget(tokens, prompt_tokens))
    assert len(made.facts) + made.omitted == len(facts)


@settings(deadline=None, max_examples=100)
@given(any_facts())
def test_what_is_written_is_read_again(facts: list[SummaryFact]) -> None:
    known = [each for each in facts if each.kind is not FactKind.NAME]
    found = parse_summary(render_summary(known, ELEVEN_SECTIONS))
    assert {(each.kind, each.text, each.line) for each in found} == {
        (each.kind, each.text, each.line) for each in known
    }


def test_of_the_messages_the_first_stays_and_then_the_newest() -> None:
    said = [
        make_fact(FactKind.PROMPT, f"message {n} " + "word " * 60, n, 1.0, str(n))
        for n in range(1, 30)
    ]
    made = build_summary(said, FOUR_SECTIONS, SummaryBudget(500, 400))
    lines = [each.line for each in made.facts]
    assert lines[0] == 1
    assert lines[1:] == list(range(30 - len(lines) + 1, 30))
    assert len(lines) > 3


def test_a_long_message_keeps_its_two_ends_and_says_where_it_stands() -> None:
    made = build_summary(
        [make_fact(FactKind.PROMPT, "begin " + "x y " * 9_000 + "end", 7, 1.0)],
        FOUR_SECTIONS,
        SummaryBudget(500, 600),
    )
    assert "begin" in made.text
    assert made.text.endswith("end")
    assert "characters: line 7 of the transcript" in made.text


def test_a_lone_half_of_a_sign_is_no_part_of_a_text() -> None:
    made = build_summary(
        [make_fact(FactKind.PROMPT, "a \ud83d b", 1, 1.0)], FOUR_SECTIONS, SummaryBudget(500)
    )
    assert made.text.encode()


def test_each_level_is_chosen_from_the_one_before() -> None:
    facts = [
        make_fact(FactKind.DECISION, f"decision {n} " + "word " * 20, n, n / 100) for n in range(80)
    ]
    levels = [
        FactSelection(levels=number).build_summary(facts, FOUR_SECTIONS, SummaryBudget(2_000))
        for number in (1, 2, 3)
    ]
    sets = [set(each.facts) for each in levels]
    assert sets[2] < sets[1] < sets[0] < set(facts)
    assert [each.tokens <= 2_000 >> n for n, each in enumerate(levels)] == [True] * 3
