"""Every compaction of ctxtop's carries the rules word for word, whatever the budget."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from ctxtop.core.compaction.plan import AppendLine, Operation, Refusal
from ctxtop.core.compaction.strategies.condense import read_digest_state
from ctxtop.core.compaction.strategies.summary_and_cut import (
    Conversation,
    plan_cut,
    summarize_by_rules,
    summarize_with_model,
    write_hand_off,
)
from ctxtop.core.model.conversation import Author, Entry, MessagePart, PartKind
from ctxtop.core.summaries.model_summary import ModelSummaryOptions, SummaryRequest
from ctxtop.core.summaries.session_rules import RuleChoices, list_stated_rules, session_rules
from ctxtop.core.summaries.summary_building import (
    FactSelection,
    SummaryBudget,
    SummarySettings,
    estimate_tokens,
)
from ctxtop.core.summaries.summary_facts import TEMPLATES, SummaryTemplate
from ctxtop.core.summaries.turn_digest import (
    DigestSection,
    DigestSource,
    parse_digest,
    render_digest,
)
from ctxtop.core.transcript.authorship import CUT_MARKER
from msgspec.structs import replace

from ..bench.evaluation.kept import constraints_kept, constraints_of
from ..entries import answered, asked, called, entry, returned

LAST = {"uuid": "u9", "sessionId": "s", "cwd": "/p", "version": "2.1.329", "timestamp": "t"}
RULES = [f"Never change part number {n} of the shop by hand." for n in range(40)]
NEWEST = "From now on answer in Korean."
MEMORY_RULE = "Use tabs in the templates."
TRANSCRIPT = "/c/projects/-p/t.jsonl"
BUDGET = SummaryBudget(200, 60)
"""Enough for the frame alone: no rule and hardly a prompt would fit in it."""


def session() -> tuple[Entry, ...]:
    file = MessagePart(
        PartKind.ATTACHMENT, f"- {MEMORY_RULE}", "nested_memory", path="/p/CLAUDE.md"
    )
    lines = [entry(file, type="attachment")]
    for number, rule in enumerate(RULES):
        lines += [
            asked(f"{'word ' * 40}\n{rule}"),
            called("Bash", f"c{number}", command=f"seq {number}"),
            returned("Bash", f"c{number}", "line\n" * 300),
            answered(f"Done with {number}."),
        ]
    lines += [asked(f"Go on. {NEWEST}"), answered("네.")]
    return tuple(
        replace(each, parent=lines[place - 1].uuid if place else None)
        for place, each in enumerate(lines)
    )


SESSION = session()


def conversation(choices: RuleChoices | None = None) -> Conversation:
    return Conversation(
        SESSION,
        LAST,
        lambda part: estimate_tokens(part.text) + 4,
        TRANSCRIPT,
        rule_choices=choices or RuleChoices(),
    )


def appended(operation: Operation | Refusal) -> str:
    assert isinstance(operation, Operation), operation
    *_, last = (json.loads(each.text) for each in operation.edits if isinstance(each, AppendLine))
    text: str = last["message"]["content"]
    return text


def carried(text: str) -> set[str]:
    return {rule for rule in (*RULES, NEWEST, MEMORY_RULE) if f'- "{rule}"' in text}


ALL = {*RULES, NEWEST, MEMORY_RULE}


@pytest.mark.parametrize("template", TEMPLATES.values(), ids=str)
def test_a_summary_holds_every_rule(template: SummaryTemplate) -> None:
    text = appended(summarize_by_rules(conversation(), SummarySettings(template, BUDGET, 4)))
    summary = entry(MessagePart(PartKind.SUMMARY, text))

    assert carried(text) == ALL
    kept = constraints_kept(constraints_of(SESSION), [summary])
    assert kept.part == kept.whole > 0


def test_a_summary_of_a_summary_holds_every_rule() -> None:
    # The frame has to fit in a quarter of it.
    settings = SummarySettings(
        budget=SummaryBudget(800, 60), selection=FactSelection(levels=3), keep_messages=4
    )

    assert carried(appended(summarize_by_rules(conversation(), settings))) == ALL


def test_a_hand_off_holds_every_rule_and_the_next_session_has_them() -> None:
    text = write_hand_off(conversation(), "old", SummarySettings(budget=BUDGET)).text
    told = session_rules([asked(text, author=Author.CTXTOP)], TRANSCRIPT)

    assert carried(text) == ALL
    assert {rule.text for rule in told} >= ALL


def test_a_cut_holds_the_rules_that_leave() -> None:
    text = appended(plan_cut(conversation(), 2))

    assert text.startswith(CUT_MARKER)
    # The first prompt and the last two turns stay as they are.
    assert carried(text) == ALL - {RULES[0], RULES[-1], NEWEST}


CODE_RULE = "Always call it as pwd = defaultpwd1 in the tests."


@pytest.mark.parametrize(
    "plan",
    [
        lambda whole: plan_cut(whole, 1),
        lambda whole: summarize_by_rules(
            whole, SummarySettings(budget=SummaryBudget(2_000), keep_messages=2)
        ),
    ],
    ids=["cut", "summary"],
)
def test_code_in_the_persons_words_is_not_redacted_in_the_same_file(
    plan: Callable[[Conversation], Operation | Refusal],
) -> None:
    middle = SESSION[9]
    assert middle.parts[0].kind is PartKind.PROMPT
    changed = tuple(
        replace(each, parts=(MessagePart(PartKind.PROMPT, CODE_RULE),)) if each is middle else each
        for each in SESSION
    )
    text = appended(plan(replace(conversation(), entries=changed)))
    assert f'- "{CODE_RULE}"' in text
    assert "[redacted" not in text


def test_a_cut_without_rules_says_nothing_of_them() -> None:
    plain = tuple(
        replace(each, parts=(MessagePart(PartKind.PROMPT, "Go on."),))
        if each.parts[0].kind in {PartKind.PROMPT, PartKind.ATTACHMENT}
        else each
        for each in SESSION
    )
    operation = plan_cut(replace(conversation(), entries=plain), 2)

    assert "Rules," not in appended(operation)
    assert "rule" not in operation.what if isinstance(operation, Operation) else False


class _Forgetful:
    """A model whose summary names no rule."""

    name = "test"

    def generate(self, request: SummaryRequest, timeout_s: float) -> str:
        assert RULES[0] in request.text
        return "<summary>Part numbers of the shop were changed by hand.</summary>"


def test_a_models_summary_gets_the_rules_that_it_lacks() -> None:
    options = ModelSummaryOptions(_Forgetful(), "s")
    text = appended(summarize_with_model(conversation(), SummarySettings(budget=BUDGET), options))

    assert carried(text) == ALL


@pytest.mark.parametrize("place", [0, 1])
def test_a_dropped_rule_is_not_carried(place: int) -> None:
    rule = list_stated_rules(SESSION, TRANSCRIPT)[place]
    choices = RuleChoices(dropped=frozenset({rule.rule_id}))

    summary = appended(summarize_by_rules(conversation(choices), SummarySettings(budget=BUDGET)))
    assert carried(summary) == ALL - {rule.text}
    assert rule.text not in carried(appended(plan_cut(conversation(choices), 2)))


def test_a_digest_lists_the_rules_that_it_does_not_quote() -> None:
    conversation = Conversation(SESSION, LAST, lambda part: estimate_tokens(part.text), TRANSCRIPT)
    state = read_digest_state(conversation)
    body = DigestSource().digest_turn(SESSION)
    quoted = DigestSection(1, 1, 200, 9_000, "", body)
    text = render_digest([quoted], "s", state.describe([quoted], ()))
    summary = entry(MessagePart(PartKind.SUMMARY, text))
    carried = [rule.text for rule in list_stated_rules([summary], TRANSCRIPT)]
    assert carried == [MEMORY_RULE]
    text = render_digest([], "s", state.describe([], SESSION[:5]))
    summary = entry(MessagePart(PartKind.SUMMARY, text))
    carried = [rule.text for rule in list_stated_rules([summary], TRANSCRIPT)]
    assert carried == [*RULES[1:], NEWEST]
    assert parse_digest(text) == ()


def test_what_was_typed_during_a_turn_is_quoted_by_a_digest() -> None:
    words = "The user sent a new message while you were working:\nUse tabs,\nnever spaces."
    queued = MessagePart(PartKind.ATTACHMENT, words, "queued_command")
    body = DigestSource().digest_turn([entry(queued, type="attachment")])
    assert "  > Use tabs,\n  > never spaces.\n" in body
    assert "while you were working" not in body
