"""Compactions that come too fast, and what filled the context."""

from __future__ import annotations

import pytest
from ctxtop.core.model.conversation import Boundary, Entry, MessagePart, PartKind
from ctxtop.core.summaries.compaction_report import (
    CHARS_PER_TOKEN,
    THRASH_TURNS,
    CompactionReport,
    Culprit,
    find_refill,
)

from ..entries import answered, asked, attached, called, entry, returned, summed_up

END = Boundary(pre_tokens=180_000)


def test_so_many_answers_are_no_thrash() -> None:
    enough = [answered("ok") for _ in range(THRASH_TURNS)]

    assert not find_refill(enough, END).is_thrash
    found = find_refill(enough[1:], END)
    assert found.is_thrash
    assert found.turns_since_last == THRASH_TURNS - 1
    assert CompactionReport(refill=found).thrash == found
    assert CompactionReport().thrash is None, "the first one follows none"


def test_the_lines_of_one_answer_are_one_turn() -> None:
    parts = [answered("ok", message_id="m1") for _ in range(THRASH_TURNS)]

    assert find_refill(parts, END).turns_since_last == 1


def culprit(*entries: Entry, end: int | None = None) -> Culprit | None:
    return find_refill(entries, Boundary(pre_tokens=end)).culprit


def test_a_file_that_was_read_twice_by_the_growth_of_the_answers() -> None:
    first = returned("Read", "t1", "x" * 3000, "/p/big.py")
    found = culprit(
        answered("ok", 20_000, output=100),
        returned("Bash", "t0", "x" * 1000),
        first,
        answered("ok", 60_100, output=50),
        returned("Read", "t2", "x" * 900, "/p/big.py"),
        answered("ok", 70_150, output=5),
    )

    assert found == Culprit("file_read", "/p/big.py", 30_000 + 10_000, first.line)


def test_what_stands_after_the_last_answer_is_measured_by_the_boundary() -> None:
    last = returned("mcp__slack__history", "t1", "x" * 100)
    found = culprit(answered("ok", 20_000, output=0), last, end=170_000)

    assert found == Culprit("tool_result", "mcp__slack__history", 150_000, last.line)


def test_what_stands_before_the_first_answer_is_estimated_and_the_summary_is_not() -> None:
    rules = attached("nested_memory", "x" * 28_500, "/p/CLAUDE.md")
    found = culprit(
        summed_up("x" * 90_000),
        rules,
        asked("go on"),
        answered("ok", 150_000, output=0),
    )

    tokens = round(28_500 / CHARS_PER_TOKEN)
    assert found == Culprit("attachment", "nested_memory /p/CLAUDE.md", tokens, rules.line)


@pytest.mark.parametrize(
    ("piece", "kind", "what"),
    [
        (MessagePart(PartKind.PROMPT, "look at\nthis " * 900), "prompt", "look at this"),
        (MessagePart(PartKind.AGENT_RETURN, "x" * 9000, "Agent", "t"), "agent_return", "Agent"),
        (MessagePart(PartKind.META, "x" * 9000, "local_command"), "meta", "local_command"),
        (
            MessagePart(PartKind.TOOL_RESULT, "", "Read", "t", "/p/a.png", media=1),
            "file_read",
            "/p/a.png",
        ),
        (
            MessagePart(PartKind.TOOL_RESULT, "x" * 9000, "Grep", "t", "/p"),
            "tool_result",
            "Grep /p",
        ),
    ],
)
def test_each_kind_is_named(piece: MessagePart, kind: str, what: str) -> None:
    found = culprit(answered("ok", 1000, output=0), entry(piece), answered("ok", 9000))

    assert found is not None
    assert (found.kind, found.tokens) == (kind, 8000)
    assert found.what.startswith(what)


def test_the_models_own_words_can_be_it_without_their_thinking() -> None:
    big = called("Write", "t1", 20_000, output=40_000, file_path="/p/a.py", content="x")
    found = culprit(big, returned("Write", "t1", "ok", "/p/a.py"), answered("ok", 60_010))

    assert found == Culprit("answer", "Write /p/a.py", 40_000, big.line)
    thought = answered("ok", 20_000, output=40_000, thinking_tokens=39_990)
    result = returned("Bash", "t1", "x")
    found = culprit(thought, result, answered("ok", 60_010))
    assert found == Culprit("tool_result", "Bash", 40_000, result.line)


def test_a_result_between_an_answers_lines_counts_for_the_next_answer() -> None:
    result = returned("Bash", "t1", "x" * 10)
    found = culprit(
        answered("a", 1000, output=1, message_id="m1"),
        result,
        answered("b", 1000, output=20, message_id="m1"),
        answered("c", 6020, output=0),
    )

    assert found == Culprit("tool_result", "Bash", 5000, result.line)


def test_nothing_that_was_put_in_is_no_culprit() -> None:
    assert culprit(answered("ok", 5000), answered("ok", 4000)) is None
    assert culprit() is None
