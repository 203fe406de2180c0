"""What stays of a conversation word for word: never half of a call and its result."""

from __future__ import annotations

import pytest
from ctxtop.core.compaction.retained_messages import MessageSplit, SplitSettings, split_messages
from ctxtop.core.summaries.key_messages import AnchorSettings
from ctxtop.core.transcript.conversation import ConversationMessage, MessagePart, PartKind
from hypothesis import given
from hypothesis import strategies as st

from .talk import answer, calls, message, prompt, results


def split(messages: list[ConversationMessage], recent: int) -> MessageSplit:
    return split_messages(messages, SplitSettings(recent_message_count=recent))


def test_the_newest_stay_and_the_others_go() -> None:
    talk = [prompt(str(number)) for number in range(12)]

    buffer = split_messages(talk)

    assert (buffer.older, buffer.recent) == (tuple(talk[:2]), tuple(talk[2:]))
    assert (buffer.summary_max_tokens, buffer.note) == (500, "")


@pytest.mark.parametrize("count", [0, 1, 10])
def test_a_short_conversation_stays_whole(count: int) -> None:
    talk = [prompt() for _ in range(count)]

    buffer = split_messages(talk)

    assert (buffer.older, buffer.recent, buffer.anchors) == ((), tuple(talk), ())


def test_a_result_brings_its_call() -> None:
    talk = [prompt(), calls("a"), results("a"), answer()]

    buffer = split(talk, 2)

    assert buffer.recent == tuple(talk[1:])
    assert buffer.note == "Extended preserve count to 3"


def test_results_of_calls_side_by_side_bring_them_all() -> None:
    talk = [prompt(), calls("a", "b"), results("a"), answer(), results("b")]

    assert split(talk, 1).recent == tuple(talk[1:])


def test_steps_that_hang_together_come_one_after_the_other() -> None:
    both = message(
        MessagePart(PartKind.TOOL_RESULT, "", "Read", "a"),
        MessagePart(PartKind.TOOL_INPUT, "", "Read", "b"),
    )
    talk = [prompt(), calls("a"), both, results("b")]

    assert split(talk, 1).recent == tuple(talk[1:])


def test_a_result_whose_call_nobody_knows_brings_the_answer_before() -> None:
    talk = [prompt(), answer(), results("lost"), answer()]

    assert split(talk, 2).recent == tuple(talk[1:])


def test_an_agents_result_brings_its_call_but_a_notification_does_not() -> None:
    sync = [calls("a"), answer(), results("a", kind=PartKind.AGENT_RETURN)]
    notified = [calls("a"), answer(), message(MessagePart(PartKind.AGENT_RETURN, "told later"))]

    assert len(split(sync, 1).recent) == 3
    assert len(split(notified, 1).recent) == 1


@pytest.mark.parametrize("recent", [0, -3])
def test_nothing_may_stay(recent: int) -> None:
    assert split([prompt(), calls("a"), results("a")], recent).recent == ()


def test_anchors_are_of_the_part_that_goes() -> None:
    talk = [prompt("<!-- anchor --> never on Fridays"), *(prompt("<!-- anchor -->"),) * 3]

    buffer = split_messages(talk, SplitSettings(3, anchors=AnchorSettings(max_anchors=2)))

    assert buffer.anchors == (talk[0],)


@given(
    st.lists(st.lists(st.integers(0, 9), max_size=3), max_size=25), st.integers(0, 12), st.data()
)
def test_no_pair_is_ever_split(groups: list[list[int]], recent: int, data: st.DataObject) -> None:
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

    buffer = split(talk, recent)

    assert (*buffer.older, *buffer.recent) == tuple(talk)
    assert len(buffer.recent) >= min(recent, len(talk))
    called = {
        piece.tool_use_id
        for each in buffer.recent
        for piece in each.parts
        if piece.kind is PartKind.TOOL_INPUT
    }
    answered = {
        piece.tool_use_id
        for each in buffer.recent
        for piece in each.parts
        if piece.kind is PartKind.TOOL_RESULT
    }
    assert answered <= called
