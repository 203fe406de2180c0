"""How much a message matters, and which are never lost."""

from __future__ import annotations

import pytest
from ctxtop.core.model.conversation import ConversationMessage, MessagePart, PartKind
from ctxtop.core.summaries.key_messages import (
    DEFAULT_IMPORTANCE,
    ImportanceSettings,
    find_anchors,
)
from hypothesis import given
from hypothesis import strategies as st

from .talk import answer, message, prompt, results

MARK = "<!-- anchor -->"


@pytest.mark.parametrize(
    ("said", "score"),
    [
        (prompt("hello there"), 0.0),
        (prompt("Important: keep the old names"), 1.0),
        (prompt("이건 중요해"), 1.0),
        (prompt(f"{MARK} the port is 8080"), 1.0),
        (answer(f"the port is 8080 {MARK}"), 1.0),
        (answer("Note that this is important"), 0.0),
        (answer("We decided to keep SQLite"), 0.8),
        (prompt("let's go with SQLite"), 0.8),
        (prompt("SQLite를 쓰기로 결정"), 0.8),
        (results("a"), 0.7),
        (results("a", kind=PartKind.AGENT_RETURN), 0.7),
        (answer("one error"), 0.1),
        (answer("error, error, failed: a bug, because"), 0.5),
        (answer("error " * 100), 0.5),
    ],
)
def test_a_message_scores_by_its_strongest_sign(said: ConversationMessage, score: float) -> None:
    assert DEFAULT_IMPORTANCE.score(said.parts) == pytest.approx(score)


def test_a_result_that_quotes_a_mark_is_only_a_result() -> None:
    read = message(MessagePart(PartKind.TOOL_RESULT, f"{MARK} we decided: important", "Read", "a"))

    assert DEFAULT_IMPORTANCE.score(read.parts) == 0.7


@given(st.text() | st.sampled_from(["important decision", "error " * 9]), st.sampled_from(PartKind))
def test_a_score_is_between_0_and_1(text: str, kind: PartKind) -> None:
    assert 0 <= DEFAULT_IMPORTANCE.score([MessagePart(kind, text)]) <= 1


def test_marked_messages_come_first_then_the_score_then_the_newest() -> None:
    talk = [
        answer("we decided one thing"),
        answer("hello"),
        prompt("remember this"),
        answer(f"a port {MARK}"),
        answer("we decided another thing"),
        results("a"),
    ]

    found = find_anchors(talk)

    assert found == (talk[3], talk[2], talk[4], talk[0], talk[5])


@pytest.mark.parametrize("most", [0, 1, 3])
def test_there_are_never_more_anchors_than_asked(most: int) -> None:
    talk = [prompt(f"{MARK} {number}") for number in range(4)]

    assert find_anchors(talk, ImportanceSettings(max_anchors=most)) == tuple(talk[::-1][:most])
