"""What somebody marked as an anchor stays whole: in plans by level, and in summaries."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from ctxtop.core.actions.conversation_planning import plan_conversation
from ctxtop.core.actions.preset_steps import preset_steps
from ctxtop.core.compaction.plan import (
    AppendLine,
    Operation,
    PlanOptions,
    Severity,
    edits_of,
    quality_to_dict,
)
from ctxtop.core.compaction.strategies.summary_and_cut import summarize_by_rules
from ctxtop.core.policy.policy import PolicyOrigin
from ctxtop.core.policy.resolve import RawValue, resolve_policy
from ctxtop.core.summaries.key_messages import ImportanceSettings, read_importance_settings
from ctxtop.core.summaries.summary_building import (
    SummarySettings,
    estimate_tokens,
    is_beside_budget,
    read_summary_settings,
)
from ctxtop.core.summaries.summary_facts import FactKind, parse_summary, render_summary
from msgspec.structs import replace

from tests.planned import plan_transcript, source_of
from tests.transcripts import assistant, text
from tests.worked import Session

if TYPE_CHECKING:
    from pathlib import Path

    from ctxtop.core.compaction.plan import CompactionPlan

MARK = "<!-- anchor -->"
PROSE = "\n".join(f"The decoder reads frame {n} and hands it to the next stage." for n in range(60))
LEVEL_6 = PlanOptions(level=Severity.PROSE.value, keep=2, min_tail_tokens=1_000)


def session_with(*answers: str) -> Session:
    session = Session()
    session.ask("mend the decoder")
    for answer in answers:
        session.say(answer)
        session.ask()
    session.rest(lines=20)
    return session


def plan_by_level(
    session: Session, folder: Path, importance: ImportanceSettings | None = None
) -> CompactionPlan:
    source = source_of(session.write(folder / "session.jsonl"))
    return plan_transcript(replace(source, importance=importance or source.importance), LEVEL_6)


def shortened_lines(plan: CompactionPlan) -> list[int | None]:
    return [each.line for each in plan.operations if each.strategy == "old-prose"]


def anchors_protected(plan: CompactionPlan) -> list[str]:
    return [each.why for each in plan.protected if each.why.startswith("anchor")]


def summarize(
    session: Session, folder: Path, importance: ImportanceSettings | None = None
) -> tuple[Operation, str]:
    settings = SummarySettings(keep_messages=4, importance=importance or ImportanceSettings())
    source = source_of(session.write(folder / "session.jsonl"))
    plan = plan_conversation(source, lambda said, _view: summarize_by_rules(said, settings))
    assert plan.refused == ()
    (operation,) = plan.operations
    *_, summary = edits_of([operation])
    assert isinstance(summary, AppendLine)
    return operation, json.loads(summary.text)["message"]["content"]


def test_a_marked_answer_stays_and_is_listed_with_its_score(tmp_path: Path) -> None:
    plan = plan_by_level(session_with(PROSE, f"{PROSE}\n{MARK}"), tmp_path)
    assert shortened_lines(plan) == [2]
    assert anchors_protected(plan) == ["anchor, score 1.00"]


def test_without_a_marker_nothing_is_an_anchor(tmp_path: Path) -> None:
    plan = plan_by_level(session_with(PROSE, f"We decided to keep it.\n{PROSE}"), tmp_path)
    assert shortened_lines(plan) == [2, 4]
    assert anchors_protected(plan) == []


def test_the_newest_marked_messages_count_up_to_the_policys_number(tmp_path: Path) -> None:
    session = session_with(f"{PROSE}\n{MARK} one", f"{PROSE}\n{MARK} two")
    plan = plan_by_level(session, tmp_path, ImportanceSettings(max_anchors=1))
    assert shortened_lines(plan) == [2]


def test_a_message_with_two_marked_texts_is_one_anchor(tmp_path: Path) -> None:
    """As in a summary, messages are counted, not texts."""
    session = session_with(f"{PROSE}\n{MARK} one")
    answers = [text(f"{PROSE}\n{MARK} two"), text(f"{PROSE}\n{MARK} three")]
    session.add(assistant("two-texts", content=answers))
    session.ask()
    session.rest(lines=20)
    plan = plan_by_level(session, tmp_path, ImportanceSettings(max_anchors=2))
    assert shortened_lines(plan) == []


def test_an_empty_marker_marks_nothing(tmp_path: Path) -> None:
    empty = RawValue("importance.anchor_marker", "", PolicyOrigin.USER_FILE, "here")
    policy = resolve_policy([empty])
    assert [each.key for each in policy.notices] == ["importance.anchor_marker"]
    plan = plan_by_level(session_with(PROSE, PROSE), tmp_path, read_importance_settings(policy))
    assert shortened_lines(plan) == [2, 4]
    assert anchors_protected(plan) == []


def test_the_marker_is_a_setting(tmp_path: Path) -> None:
    session = session_with(f"{PROSE}\n{MARK}", f"{PROSE}\n[keep]")
    plan = plan_by_level(session, tmp_path, ImportanceSettings(anchor_marker="[keep]"))
    assert shortened_lines(plan) == [2]


def test_a_file_that_holds_the_marker_marks_nothing(tmp_path: Path) -> None:
    session = session_with(PROSE)
    session.use("Read", f"{MARK}\n{PROSE}", file_path="/a.md")
    session.rest()
    assert anchors_protected(plan_by_level(session, tmp_path)) == []


def test_a_summary_quotes_marked_messages_whole(tmp_path: Path) -> None:
    session = session_with(f"{PROSE}\n{MARK}", "We decided to keep SQLite.", PROSE)
    operation, text = summarize(session, tmp_path)
    assert f"{PROSE}\n{MARK}" in [
        fact.text for fact in parse_summary(text) if fact.kind is FactKind.ANCHOR
    ]
    assert "anchors: line 2 (1.00), line 4 (0.80)" in operation.why


def marked_among_41(chars: int) -> Session:
    """41 messages, every sixth of which is an answer that somebody marked."""
    session = Session()
    for turn in range(20):
        session.ask(f"Question {turn} about the decoder, which reads frames.")
        words = f"Answer {turn}. " + "The decoder reads frame after frame. " * 40
        if turn % 3 == 0 and turn < 21:
            words = f"{MARK} Finding {turn}. " + ("It was the buffer. " * (chars // 19)).strip()
        session.say(words)
    session.ask("And now?")
    return session


@pytest.mark.parametrize("chars", [60, 2_900])
@pytest.mark.parametrize("levels", [1, 3])
def test_hybrid_buffer_quotes_the_newest_five_word_for_word(
    tmp_path: Path, chars: int, levels: int
) -> None:
    """003-28: marked anchors come on top of the 500 tokens, whatever their length."""
    path = marked_among_41(chars).write(tmp_path / "session.jsonl")
    changes = {"preset": "hybrid-buffer", "summary.levels": levels}
    raws = [RawValue(key, value, PolicyOrigin.COMMAND_LINE, "") for key, value in changes.items()]
    settings = read_summary_settings(resolve_policy(raws))
    plan = plan_conversation(source_of(path), lambda said, _: summarize_by_rules(said, settings))
    assert plan.refused == ()
    (operation,) = plan.operations
    *_, summary = edits_of([operation])
    assert isinstance(summary, AppendLine)
    content = json.loads(summary.text)["message"]["content"]
    anchors = [fact.text for fact in parse_summary(content) if fact.kind is FactKind.ANCHOR]
    texts = [line["message"]["content"][0]["text"] for line in marked_among_41(chars).lines[1::2]]
    # The newest ten messages stay as they are; of the marked ones before them, five are quoted.
    marked = [text for text in texts[:-5] if text.startswith(MARK)]
    assert [text for text in anchors if text.startswith(MARK)] == marked[-5:]
    assert operation.why.count("(1.00)") == len(marked[-5:])
    listed = quality_to_dict(plan)["anchors"]
    assert [each["score"] for each in listed if each["is_marked"]] == [1.0] * len(marked[-5:])


def test_the_budget_is_for_all_but_what_comes_on_top(tmp_path: Path) -> None:
    """`summary.max_tokens`: the person's messages, rules and anchors are not counted."""
    path = marked_among_41(2_900).write(tmp_path / "session.jsonl")
    raw = RawValue("preset", "hybrid-buffer", PolicyOrigin.COMMAND_LINE, "")
    settings = read_summary_settings(resolve_policy([raw]))
    plan = plan_conversation(source_of(path), lambda said, _: summarize_by_rules(said, settings))
    (operation,) = plan.operations
    *_, summary = edits_of([operation])
    assert isinstance(summary, AppendLine)
    content = json.loads(summary.text)["message"]["content"]
    facts = [fact for fact in parse_summary(content) if not is_beside_budget(fact)]
    others = [fact for fact in facts if not fact.text.startswith(MARK)]
    assert (
        estimate_tokens(render_summary(others, settings.template))
        <= 500
        < 1_000
        < estimate_tokens(content)
    )
    assert "of the tokens are your messages, rules and anchors" in operation.why
    (row,) = (each.text for each in preset_steps("hybrid-buffer") if each.step == "summary")
    assert "at most 500 tokens, and besides your own messages" in row
    assert "your rules and anchors" in row


def test_marked_messages_of_more_than_their_room_keep_both_ends(tmp_path: Path) -> None:
    long = "The decoder reads one more frame here. " * 800
    session = session_with(*(f"{n} begins. {long} {n} ends. {MARK}" for n in range(3)), PROSE)
    session.rest(turns=30, lines=200)
    _, text = summarize(session, tmp_path)
    anchors = [each.text for each in parse_summary(text) if MARK in each.text]
    assert [(f"{n} begins." in text, f"{n} ends. {MARK}" in text) for n in range(3)] == [
        (True,) * 2
    ] * 3
    assert [len(text) > 10_000 for text in anchors] == [False, True, True]
    assert "characters: line 2 of the transcript" in anchors[0]


def test_a_marked_prompt_is_quoted_as_an_anchor_too(tmp_path: Path) -> None:
    session = Session()
    session.ask(f"the port is 8080 {MARK}")
    session.say("Yes.")
    session.rest(lines=20)
    operation, _ = summarize(session, tmp_path)
    assert "line 1 (1.00)" in operation.why


def test_the_scores_follow_the_weights(tmp_path: Path) -> None:
    session = session_with(f"the port {MARK}", "We decided to keep SQLite.")
    weights = ImportanceSettings(user_explicit=0.6, decision=0.3)
    operation, _ = summarize(session, tmp_path, weights)
    assert "line 2 (0.60), line 4 (0.30)" in operation.why


def test_a_second_summary_quotes_a_marked_message_once(tmp_path: Path) -> None:
    session = session_with(f"the port is 8080 {MARK}", "Fine.")
    operation, _ = summarize(session, tmp_path)
    for edit in edits_of([operation]):
        assert isinstance(edit, AppendLine)
        session.lines.append(json.loads(edit.text))
    session.rest(lines=20)
    _, text = summarize(session, tmp_path)
    assert text.count("the port is 8080") == 1
