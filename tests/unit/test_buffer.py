"""What stays of a conversation word for word: never half of a call and its result."""

from __future__ import annotations

import pytest
from ctxtop.core.compaction.protection import start_of_recent
from ctxtop.core.model.conversation import ConversationMessage, MessagePart, PartKind
from hypothesis import given
from hypothesis import strategies as st

from .talk import answer, calls, message, prompt, results


def recent(messages: list[ConversationMessage], least: int) -> tuple[ConversationMessage, ...]:
    return tuple(messages[start_of_recent(messages, least) :])


def test_the_newest_stay_and_the_others_go() -> None:
    assert start_of_recent([prompt(str(number)) for number in range(12)], 10) == 2


@pytest.mark.parametrize("count", [0, 1, 10])
def test_a_short_conversation_stays_whole(count: int) -> None:
    assert start_of_recent([prompt() for _ in range(count)], 10) == 0


def test_a_result_brings_its_call() -> None:
    talk = [prompt(), calls("a"), results("a"), answer()]

    assert recent(talk, 2) == tuple(talk[1:])


def test_results_of_calls_side_by_side_bring_them_all() -> None:
    talk = [prompt(), calls("a", "b"), results("a"), answer(), results("b")]

    assert recent(talk, 1) == tuple(talk[1:])


def test_steps_that_hang_together_come_one_after_the_other() -> None:
    both = message(
        MessagePart(PartKind.TOOL_RESULT, "", "Read", "a"),
        MessagePart(PartKind.TOOL_INPUT, "", "Read", "b"),
    )
    talk = [prompt(), calls("a"), both, results("b")]

    assert recent(talk, 1) == tuple(talk[1:])


def test_a_result_whose_call_nobody_knows_brings_the_answer_before() -> None:
    talk = [prompt(), answer(), results("lost"), answer()]

    assert recent(talk, 2) == tuple(talk[1:])


def test_an_agents_result_brings_its_call_but_a_notification_does_not() -> None:
    sync = [calls("a"), answer(), results("a", kind=PartKind.AGENT_RETURN)]
    notified = [calls("a"), answer(), message(MessagePart(PartKind.AGENT_RETURN, "told later"))]

    assert len(recent(sync, 1)) == 3
    assert len(recent(notified, 1)) == 1


@pytest.mark.parametrize("least", [0, -3])
def test_nothing_may_stay(least: int) -> None:
    assert recent([prompt(), calls("a"), results("a")], least) == ()


@given(
    st.lists(st.lists(st.integers(0, 9), max_size=3), max_size=25), st.integers(0, 12), st.data()
)
def test_no_pair_is_ever_split(groups: list[list[int]], least: int, data: st.DataObject) -> None:
    talk: list[ConversationMessage] = []
    waiting: list[str] = []
    for number, group in enumerate(groups):
        ids = [f"{number}-{each}" for each in set(group)]
        talk.append(calls(*ids) if ids else prompt())
        waiting += ids
        due = [each for each in waiting if data.draw(st.booleans())]
        if due:
            talk.append(results(*due))
            waiting = [each for each in waiting if each not in due]

    kept = recent(talk, least)

    assert len(kept) >= min(least, len(talk))
    called = {
        piece.tool_use_id
        for each in kept
        for piece in each.parts
        if piece.kind is PartKind.TOOL_INPUT
    }
    answered = {
        piece.tool_use_id
        for each in kept
        for piece in each.parts
        if piece.kind is PartKind.TOOL_RESULT
    }
    assert answered <= called
