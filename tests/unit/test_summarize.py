"""What stays, what is appended, and when a summary or a cut is refused."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from ctxtop.core.compaction.plan import AppendLine, Operation, Refusal, Severity
from ctxtop.core.compaction.protection import retain_last_messages, retain_last_turns
from ctxtop.core.compaction.strategies.summary_and_cut import (
    Conversation,
    newest_entry,
    plan_cut,
    summarize_by_rules,
    write_hand_off,
)
from ctxtop.core.model.conversation import Entry, MessagePart, PartKind, group_messages
from ctxtop.core.summaries.mentions import MentionIndex
from ctxtop.core.summaries.summary_building import (
    SummaryBudget,
    SummarySettings,
    estimate_tokens,
    find_summary_flaws,
)
from ctxtop.core.summaries.summary_facts import ELEVEN_SECTIONS, FOUR_SECTIONS, FactKind, make_fact
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from ..entries import answered, asked, called, entry, returned

if TYPE_CHECKING:
    from typing import Any

LAST = {"uuid": "u9", "sessionId": "s", "cwd": "/p", "version": "2.1.329", "timestamp": "t", "x": 1}


def chain(*entries: Entry) -> tuple[Entry, ...]:
    found: list[Entry] = []
    for each in entries:
        found.append(replace(each, parent=found[-1].uuid if found else None))
    return tuple(found)


def session(turns: int = 6) -> tuple[Entry, ...]:
    """Turns of a prompt, two calls side by side, their results, and an answer."""
    lines: list[Entry] = []
    for turn in range(turns):
        one, two = f"{turn}a", f"{turn}b"
        both = called("Bash", one, command=f"seq {turn}"), called("Bash", two, command="ls")
        lines += [
            asked(f"Question {turn}. " + "word " * 200),
            *(replace(each, message_id=f"both {turn}") for each in both),
            returned("Bash", one, "line\n" * 300),
            returned("Bash", two, "name\n" * 300),
            answered(f"Answer {turn}."),
        ]
    return chain(*lines)


def whole(entries: tuple[Entry, ...]) -> Conversation:
    return Conversation(entries, LAST, lambda piece: estimate_tokens(piece.text) + 4, "/t.jsonl")


def lines_of(operation: object) -> list[dict[str, Any]]:
    assert isinstance(operation, Operation), operation
    return [json.loads(each.text) for each in operation.edits if isinstance(each, AppendLine)]


@settings(deadline=None)
@given(st.integers(1, 6), st.integers(0, 30))
def test_no_pair_and_no_answer_is_divided(turns: int, keep: int) -> None:
    sent = session(turns)
    tail = retain_last_messages(sent, keep)
    assert (*tail.removed, *tail.retained) == sent
    assert tail.retained_messages >= min(keep, len(group_messages(sent)))
    calls = {piece.tool_use_id for each in tail.retained for piece in each.parts}
    assert not calls & {
        piece.tool_use_id for each in tail.removed for piece in each.parts if piece.tool_use_id
    }


def test_a_cut_goes_back_to_a_turns_begin_where_that_is_near() -> None:
    tail = retain_last_messages(session(), 3)
    assert tail.retained[0].parts[0].text.startswith("Question 5")
    long = chain(asked("All."), *(answered(f"step {n}") for n in range(40)))
    assert retain_last_messages(long, 3).retained_messages == 3


def test_thoughts_that_are_bound_to_what_leaves_do_not_stay() -> None:
    thought = entry(MessagePart(PartKind.THINKING, "hm"), type="assistant", message_id="m")
    thought = replace(thought, role=answered().role, model="claude-opus-5-5")
    said = answered("so", message_id="m", model="claude-opus-5-5")
    sent = chain(asked("One."), answered("yes"), asked("Two."), thought, said)
    assert [each.uuid for each in retain_last_messages(sent, 2).retained] == [
        sent[2].uuid,
        sent[4].uuid,
    ]


def test_turns_are_kept_from_their_prompts_on() -> None:
    sent = session()
    assert retain_last_turns(sent, 2).retained[0].parts[0].text.startswith("Question 4")
    assert retain_last_turns(sent, 6).removed == ()
    assert retain_last_turns(sent, 0).retained == ()


def test_a_result_before_a_prompt_leaves_with_its_call() -> None:
    """A prompt after an interruption is sent in one message with the last result."""
    prompt = asked("And the encoder.")
    said = answered("Both are mended.")
    result = returned("Bash", "c1")
    sent = [asked("Mend it."), called("Bash", "c1", command="make"), result, prompt, said]
    tail = retain_last_turns(sent, 1)
    assert tail.retained == (prompt, said)
    assert tail.removed[-1] == result
    assert retain_last_messages(sent, 2).retained == tuple(sent), "with its call it may stay"


def test_the_two_lines_follow_the_newest_and_name_what_stays() -> None:
    entries = session()
    boundary, said = lines_of(
        summarize_by_rules(whole(entries), SummarySettings(FOUR_SECTIONS, SummaryBudget(2_000), 3))
    )
    assert (boundary["parentUuid"], boundary["logicalParentUuid"]) == (None, "u9")
    assert said["parentUuid"] == boundary["uuid"]
    assert said["uuid"] == boundary["compactMetadata"]["preservedMessages"]["anchorUuid"]
    assert (said["sessionId"], said["timestamp"], said["cwd"]) == ("s", "t", "/p")
    kept = boundary["compactMetadata"]["preservedMessages"]["uuids"]
    assert kept == [each.uuid for each in entries[-6:]]
    other = lines_of(
        summarize_by_rules(
            whole(entries), SummarySettings(ELEVEN_SECTIONS, SummaryBudget(2_000), 3)
        )
    )
    assert other[1]["uuid"] != said["uuid"]


def test_a_summary_is_one_operation_that_only_appends() -> None:
    entries = session()
    found = summarize_by_rules(
        whole(entries), SummarySettings(FOUR_SECTIONS, SummaryBudget(2_000), 3)
    )
    assert found == summarize_by_rules(
        whole(entries), SummarySettings(FOUR_SECTIONS, SummaryBudget(2_000), 3)
    )
    boundary, said = lines_of(found)
    assert isinstance(found, Operation)
    assert (found.level, found.line, found.kind) == (Severity.SUMMARY, None, "summary")
    assert found.bytes_saved < 0
    before = boundary["compactMetadata"]["preTokens"]
    assert found.tokens_saved == before - boundary["compactMetadata"]["postTokens"]
    assert said["message"]["content"].count("Question 0.") == 2
    assert "Question 5." not in said["message"]["content"].partition("word for word:")[2]


def test_too_little_leaves_or_the_summary_is_longer() -> None:
    few = summarize_by_rules(
        whole(session(1)), SummarySettings(FOUR_SECTIONS, SummaryBudget(2_000), 10)
    )
    assert isinstance(few, Refusal)
    assert few.check == "too_few"
    assert "Not enough messages to compact" in few.why
    talk = chain(*(each for n in range(5) for each in (asked(f"q {n}?"), answered("yes"))))
    longer = summarize_by_rules(
        whole(talk), SummarySettings(FOUR_SECTIONS, SummaryBudget(2_000), 2)
    )
    assert isinstance(longer, Refusal)
    assert longer.check == "summary_longer"
    empty = summarize_by_rules(
        whole(session()), SummarySettings(FOUR_SECTIONS, SummaryBudget(5), 2)
    )
    assert isinstance(empty, Refusal)
    assert empty.check == "summary_empty"


def test_a_cut_keeps_the_first_prompt() -> None:
    entries = session()
    boundary, said = lines_of(plan_cut(whole(entries), 2))
    kept = boundary["compactMetadata"]["preservedMessages"]["uuids"]
    assert kept[0] == entries[0].uuid
    assert len(kept) == 1 + 12
    assert "/t.jsonl" in said["message"]["content"]
    assert isinstance(plan_cut(whole(entries), 6), Refusal)


def test_the_newest_line_is_no_agents() -> None:
    entries = session(1)
    aside = replace(answered("aside"), sidechain=True)
    assert newest_entry((*entries, aside)) == entries[-1]
    assert newest_entry(()) is None


def test_a_new_session_is_told_of_the_old_one() -> None:
    told = write_hand_off(
        whole(session()), "old-id", SummarySettings(FOUR_SECTIONS, SummaryBudget(2_000))
    )
    assert told.text.startswith("[Hand-off from session old-id]")
    assert "Question 5." in told.text


@pytest.mark.parametrize(
    "answer",
    ["I fixed `tool_{}()` and its callers.", "이제 tool_{}()을 고쳤고 호출부도 확인했습니다."],
)
def test_short_names_in_answers_stay(answer: str) -> None:
    """001-14: `tool_0()` is a name as `parse_block_3` is, in any language."""
    lines: list[Entry] = []
    for turn in range(12):
        lines += [
            asked(f"Question {turn}. " + "word " * 200),
            answered(f"{answer.format(turn)} " + "and so it goes on " * 60),
        ]
    said = whole(chain(*lines, *session(2)))
    operation = summarize_by_rules(said, SummarySettings(FOUR_SECTIONS, keep_messages=4))
    assert isinstance(operation, Operation)
    *_, line = lines_of(operation)
    text = line["message"]["content"]
    assert [turn for turn in range(12) if MentionIndex([text]).has_name(f"tool_{turn}")] == [
        *range(12)
    ]
    assert operation.summary is not None
    assert operation.summary.kept.identifiers >= 12


def test_what_is_wrong_with_a_summary() -> None:
    facts = [
        make_fact(FactKind.FILE, "/p/a.py (edited 1×)", 1, 1.0, "/p/a.py"),
        make_fact(FactKind.FILE, "/p/read.py (read 1×)", 1, 1.0, "/p/read.py"),
        make_fact(FactKind.CONSTRAINT, '"Never push to main."', 1, 1.0),
        make_fact(FactKind.DONE, "[completed] ship it", 1, 1.0, "ship it"),
    ]
    good = "a.py was edited; never push to main."
    assert find_summary_flaws(good, 10, 1_000, facts) == ()
    assert [each.check for each in find_summary_flaws(" ", 0, 1_000, facts)] == ["empty"]
    assert [each.check for each in find_summary_flaws(good, 501, 1_000, facts)] == ["longer"]
    wrong = find_summary_flaws("nothing of it", 1, 1_000, facts)
    assert [each.check for each in wrong] == ["artifacts", "constraints"]
    stale = f"[Previous conversation summary]\n{good}\nOpen todos:\n- [pending] ship it [L3]"
    assert [each.check for each in find_summary_flaws(stale, 1, 1_000, facts)] == ["stale"]
    prompt = f"{good} The user said: CRITICAL: Respond with TEXT ONLY."
    assert [each.check for each in find_summary_flaws(prompt, 1, 1_000, facts)] == ["contaminated"]
