"""What was overtaken: by a later read, by a change, by the same call, by the same text."""

from __future__ import annotations

import json

import pytest
from ctxtop.core.measure.composition import MIN_REPEATED_CHARS, ContextPart, find_superseded
from ctxtop.core.model.conversation import MessagePart, PartKind

_FAILED = "failed"


def use(number: int, tool: str, answer: str = "", **asked: object) -> list[ContextPart]:
    """A call at line 10 n and its result one line below."""
    path = asked.get("file_path")
    named = path if isinstance(path, str) else None
    call = MessagePart(PartKind.TOOL_INPUT, json.dumps(asked), tool, f"t{number}", named)
    text = answer or f"result {number}"
    result = MessagePart(
        PartKind.TOOL_RESULT, text, tool, f"t{number}", named, failed=answer == _FAILED
    )
    return [ContextPart(call, 10 * number), ContextPart(result, 10 * number + 1)]


READ = use(1, "Read", file_path="/a")
PART = use(1, "Read", file_path="/a", offset=10, limit=20)


@pytest.mark.parametrize(
    ("first", "later", "why"),
    [
        (READ, use(2, "Read", file_path="/a", limit=None), "read again at line 21"),
        (READ, use(2, "Read", file_path="/a", offset=5), None),
        (READ, use(2, "Read", file_path="/b"), None),
        (PART, use(2, "Read", file_path="/a"), "read again at line 21"),
        (PART, use(2, "Read", file_path="/a", offset=1, limit=40), "read again at line 21"),
        (PART, use(2, "Read", file_path="/a", offset=15, limit=40), None),
        (READ, use(2, "Edit", file_path="/a", old_string="x"), "edited at line 21"),
        (READ, use(2, "Edit", _FAILED, file_path="/a", old_string="x"), None),
        (READ, use(2, "Write", file_path="/a", content="x"), "overwritten at line 21"),
        (READ, use(2, "Bash", command="rm /a"), None),
    ],
)
def test_a_read(first: list[ContextPart], later: list[ContextPart], why: str | None) -> None:
    assert find_superseded([*first, *later]).get(1) == why


def test_a_write_is_overtaken_by_the_next_one_and_not_by_an_edit() -> None:
    write = use(1, "Write", file_path="/a", content="x")
    edit = use(2, "Edit", file_path="/a", old_string="x")
    assert find_superseded([*write, *edit]) == {}
    again = use(3, "Write", file_path="/a", content="y")
    assert find_superseded([*write, *edit, *again]) == {0: "overwritten at line 31"}


def test_the_same_call_and_the_same_text() -> None:
    calls = [*use(1, "Bash", command="ls"), *use(2, "Bash", command="ls")]
    assert find_superseded(calls) == {1: "same call again at line 21"}
    long = "y" * MIN_REPEATED_CHARS
    texts = [*use(1, "Bash", long, command="a"), *use(2, "Grep", long, pattern="b")]
    assert find_superseded(texts) == {1: "same text again at line 21"}
    short = [*use(1, "Bash", "no", command="a"), *use(2, "Grep", "no", pattern="b")]
    assert find_superseded(short) == {}


def test_inputs_are_compared_as_values() -> None:
    """R002-17: key order and spacing do not matter, values do."""
    first, other = use(1, "Grep", pattern="x", path="/a"), use(3, "Grep", pattern="x", path="/b")
    text = '{ "path" : "/a",\n "pattern" : "x" }'
    call = MessagePart(PartKind.TOOL_INPUT, text, "Grep", "t2")
    again = [ContextPart(call, 20), use(2, "Grep")[1]]
    assert find_superseded([*first, *other, *again]) == {1: "same call again at line 21"}


def test_a_call_that_failed_does_not_overtake_one_that_did_not() -> None:
    calls = [*use(1, "Bash", command="ls"), *use(2, "Bash", _FAILED, command="ls")]
    assert find_superseded(calls) == {}


def test_an_input_that_is_no_object_is_taken_as_it_is() -> None:
    broken = ContextPart(MessagePart(PartKind.TOOL_INPUT, "[1", "Read", "t1", "/a"), 1)
    result = ContextPart(MessagePart(PartKind.TOOL_RESULT, "x", "Read", "t1", "/a"), 2)
    assert find_superseded([broken, result, *use(2, "Read", file_path="/a")]) == {
        1: "read again at line 21"
    }
