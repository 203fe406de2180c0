"""A summary never exceeds its budget, keeps what matters most, and is read again as written."""

from __future__ import annotations

import pytest
from ctxtop.core.summaries.budget import Budget, budget_of, most, sum_up
from ctxtop.core.summaries.fact import QUOTED, Fact, Part, fact
from ctxtop.core.summaries.levels import COMPRESSIONS, hierarchical_summarise
from ctxtop.core.summaries.templates import ELEVEN, FOUR, TEMPLATES, Template, template_of
from ctxtop.core.summaries.words import PREFACE, read_back, render
from hypothesis import given, settings
from hypothesis import strategies as st

WORDS = st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1, max_size=200).filter(
    str.strip
)
LINES = st.lists(WORDS, min_size=1, max_size=4).map("\n".join)


@st.composite
def any_facts(draw: st.DrawFn) -> list[Fact]:
    parts = draw(st.lists(st.sampled_from(list(Part)), max_size=25))
    return [
        fact(
            part,
            draw(LINES if part in QUOTED else WORDS),
            number + 1,
            1.0 if part is Part.CONSTRAINT else draw(st.floats(0, 0.9)),
            f"key {number}",
        )
        for number, part in enumerate(parts)
    ]


@pytest.mark.parametrize("template", TEMPLATES.values(), ids=str)
def test_every_part_stands_in_one_section(template: Template) -> None:
    parts = [part for section in template.sections for part in section.kinds]
    assert sorted(parts) == sorted(Part)


def test_the_templates_by_their_policy_names() -> None:
    assert [len(template_of(name).sections) for name in ("four_section", "five_section")] == [4, 5]
    assert [len(template_of(name).sections) for name in ("eight_section", "native")] == [8, 11]
    assert template_of("none") is FOUR
    assert [each.title for each in FOUR.sections] == [
        "Task Overview",
        "Work Completed",
        "Important Context",
        "Current State",
    ]


def test_the_default_budget() -> None:
    assert budget_of(100_000) == Budget(8_000, 20_000)
    assert budget_of(1_000_000).max_tokens == 12_000


@settings(deadline=None, max_examples=150)
@given(any_facts(), st.integers(0, 1_500), st.integers(0, 600))
def test_no_budget_is_exceeded(facts: list[Fact], tokens: int, prompt_tokens: int) -> None:
    made = sum_up(facts, FOUR, Budget(tokens, prompt_tokens))
    assert most(made.text) <= tokens + prompt_tokens
    assert made.tokens == most(made.text)
    without = [each for each in made.facts if each.kind is not Part.PROMPT]
    assert not made.text or most(render(without, FOUR)) <= tokens
    assert made == sum_up(facts, FOUR, Budget(tokens, prompt_tokens))
    assert len(made.facts) + made.omitted == len(facts)


@settings(deadline=None, max_examples=100)
@given(any_facts(), st.integers(300, 1_500))
def test_constraints_are_there_when_they_fit(facts: list[Fact], tokens: int) -> None:
    rules = [each for each in facts if each.kind is Part.CONSTRAINT]
    room = 60 + sum(most(f"\n- {each.text} [L{each.line}]") for each in rules)
    made = sum_up(facts, ELEVEN, Budget(most(PREFACE) + room + tokens))
    assert set(rules) <= set(made.facts)


@settings(deadline=None, max_examples=100)
@given(any_facts())
def test_what_is_written_is_read_again(facts: list[Fact]) -> None:
    known = [each for each in facts if each.kind is not Part.NAME]
    found = read_back(render(known, ELEVEN))
    assert {(each.kind, each.text, each.line) for each in found} == {
        (each.kind, each.text, each.line) for each in known
    }


def test_of_the_messages_the_first_stays_and_then_the_newest() -> None:
    said = [fact(Part.PROMPT, f"message {n} " + "word " * 60, n, 1.0, str(n)) for n in range(1, 30)]
    made = sum_up(said, FOUR, Budget(500, 400))
    lines = [each.line for each in made.facts]
    assert lines[0] == 1
    assert lines[1:] == list(range(30 - len(lines) + 1, 30))
    assert len(lines) > 3


def test_a_long_message_keeps_its_two_ends_and_says_where_it_stands() -> None:
    made = sum_up(
        [fact(Part.PROMPT, "begin " + "x y " * 9_000 + "end", 7, 1.0)], FOUR, Budget(500, 600)
    )
    assert "begin" in made.text
    assert made.text.endswith("end")
    assert "characters: line 7 of the transcript" in made.text


def test_a_lone_half_of_a_sign_is_no_part_of_a_text() -> None:
    made = sum_up([fact(Part.PROMPT, "a \ud83d b", 1, 1.0)], FOUR, Budget(500))
    assert made.text.encode()


def test_each_level_is_chosen_from_the_one_before() -> None:
    facts = [fact(Part.DECISION, f"decision {n} " + "word " * 20, n, n / 100) for n in range(80)]
    levels = hierarchical_summarise(facts, FOUR, Budget(2_000), 3)
    sets = [set(each.facts) for each in levels]
    assert sets[2] < sets[1] < sets[0] < set(facts)
    assert [each.tokens <= 2_000 >> n for n, each in enumerate(levels)] == [True] * 3
    assert [each.target_reduction for each in COMPRESSIONS.values()] == [0.5, 0.6, 0.7]
