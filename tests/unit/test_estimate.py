"""The one way to estimate tokens."""

from __future__ import annotations

import json

import pytest
from ctxtop.core.measure.token_estimate import CalibrationSample, Estimator
from ctxtop.core.measure.tokens import (
    MEDIA_TOKENS,
    TOKENIZER_PROFILES,
    ContentKind,
    TextCount,
    Tokenizer,
    model_text,
)
from ctxtop.core.model.conversation import MessagePart, PartKind

OLD, NEW = "claude-opus-4-6", "claude-opus-5-5"
PROSE = "The parser drops the last line of a file that has no newline. " * 20
DOUBLE = [CalibrationSample(NEW, (count, 0, 0, 0), 0, 2 * count) for count in range(100, 200)]


def test_a_text_counts_more_for_a_newer_model() -> None:
    estimator = Estimator({})

    assert estimator.tokens(PROSE, OLD) < estimator.tokens(PROSE, NEW)
    assert estimator.tokens("", NEW) == 0


def test_what_was_learnt_of_a_kind_is_applied_to_that_kind() -> None:
    plain, learnt = Estimator({}), Estimator({NEW: DOUBLE})

    assert learnt.tokens(PROSE, NEW) == pytest.approx(2 * plain.tokens(PROSE, NEW), rel=0.02)
    code = ContentKind.CODE
    assert learnt.tokens(PROSE, NEW, code) == plain.tokens(PROSE, NEW, code)
    assert learnt.tokens(PROSE, OLD) == plain.tokens(PROSE, OLD)
    assert learnt.for_model(NEW).factors.spread < plain.for_model(NEW).factors.spread


def test_what_stands_around_a_piece_is_counted_with_it() -> None:
    measured, model = TOKENIZER_PROFILES[Tokenizer.NEWER], Estimator({}).for_model(NEW)
    text = model.text_tokens(PROSE)

    assert model.tokens(MessagePart(PartKind.TEXT, PROSE)) == text
    assert model.tokens(MessagePart(PartKind.TOOL_RESULT, PROSE)) == text + round(measured.result)
    assert model.tokens(MessagePart(PartKind.PROMPT, PROSE)) == text + round(measured.message)
    assert model.tokens(MessagePart(PartKind.PROMPT, media=2)) >= 2 * MEDIA_TOKENS
    assert model.tokens(MessagePart(PartKind.THINKING, "")) == 0
    assert model.tokens(MessagePart(PartKind.THINKING, PROSE)) > text


def test_a_call_counts_as_the_model_writes_it() -> None:
    given = {"path": "/a b", "text": 'say "hi"\n', "deep": {"n": 1}}
    call = MessagePart(PartKind.TOOL_INPUT, json.dumps(given), "Write")

    assert model_text(call) == ('Write path text deep\n/a b\nsay "hi"\n\n{"n":1}', 3)
    more = MessagePart(PartKind.TOOL_INPUT, json.dumps(given | {"also": ""}), "Write")
    model = Estimator({}).for_model(NEW)
    assert model.tokens(more) > model.tokens(call) > 0


@pytest.mark.parametrize("text", ["", "[1, 2]", '{"torn": ', '"word"'])
def test_a_call_that_is_no_object_counts_as_it_stands(text: str) -> None:
    assert model_text(MessagePart(PartKind.TOOL_INPUT, text, "Odd")) == (f"Odd\n{text}", 1)


def test_a_reminder_counts_its_words_though_they_are_not_there() -> None:
    items = MessagePart(PartKind.ATTACHMENT, "mend it" + " " * 458, "task_reminder")

    assert model_text(items) == ("mend it", 0)
    assert Estimator({}).for_model(NEW).tokens(items) > TOKENIZER_PROFILES[Tokenizer.NEWER].reminder


def test_an_estimator_asks_for_each_text_once() -> None:
    asked: list[str] = []

    def count(text: str) -> TextCount:
        asked.append(text)
        return TextCount(ContentKind.PROSE, 10, 11, 17)

    assert Estimator({}, count).tokens("x", NEW) == 17
    assert asked == ["x"]
