"""What a conversation grew by, from one answer to the next."""

# ruff: noqa: ANN401 -- any field may be named

from __future__ import annotations

from typing import Any

from ctxtop.core.measure.token_estimate import GrowthStep, GrowthTracker
from ctxtop.core.model.conversation import Boundary, Entry, MessagePart, PartKind, Role

MODEL = "claude-opus-5"


def list_growth_steps(entries: list[Entry]) -> list[GrowthStep]:
    return [step for step in map(GrowthTracker().add, entries) if step]


def answer(message_id: str, context: int, offset: int, output: int = 40, **fields: Any) -> Entry:
    more: dict[str, Any] = {"model": MODEL, "at": offset} | fields
    return Entry(
        offset=offset,
        length=9,
        line=1,
        type="assistant",
        role=Role.ASSISTANT,
        message_id=message_id,
        parts=(MessagePart(PartKind.TEXT, message_id),),
        context_tokens=context,
        output_tokens=output,
        **more,
    )


def said(text: str, **fields: Any) -> Entry:
    pieces = (MessagePart(PartKind.TOOL_RESULT, text),)
    return Entry(offset=1, length=9, line=1, type="user", role=Role.USER, parts=pieces, **fields)


def test_a_step_is_an_answer_and_what_came_before_the_next() -> None:
    (step,) = list_growth_steps(
        [
            said("before"),
            answer("m1", 1000, 10, output=1),
            said("one"),
            answer("m1", 1000, 30, output=90),
            said("two"),
            answer("m2", 1700, 50),
        ]
    )

    assert (step.offset, step.message_id, step.growth) == (10, "m1", 700)
    assert step.output_tokens == 90
    assert [piece.text for piece in step.answer_parts] == ["m1", "m1"]
    assert [piece.text for piece in step.added_parts] == ["one", "two"]


def test_no_step_is_over_what_changes_the_context_otherwise() -> None:
    compaction = Entry(offset=2, length=9, line=1, type="system", boundary=Boundary())
    cleared = Entry(offset=2, length=9, line=1, type="system", replaced_results=(("t1", ""),))
    for between in (compaction, cleared):
        assert list_growth_steps([answer("m1", 1000, 10), between, answer("m2", 1700, 50)]) == []
    other_model = answer("m2", 1700, 50, model="claude-opus-4-6")
    assert list_growth_steps([answer("m1", 1000, 10), other_model]) == []
    assert list_growth_steps([answer("m1", 1000, 10), answer("m2", 900, 50)]) == []


def test_what_was_never_sent_is_not_seen() -> None:
    made_up = answer("x", 5, 20, hidden=True)
    aside = answer("y", 50_000, 30, sidechain=True)

    (step,) = list_growth_steps(
        [answer("m1", 1000, 10), made_up, aside, said("no", hidden=True), answer("m2", 1100, 50)]
    )

    assert (step.growth, step.added_parts) == (100, ())


def test_the_steps_to_come_are_found_again_from_the_open_answer() -> None:
    entries = [answer(f"m{each}", 1000 + 10 * each, 100 * each) for each in range(6)]
    whole = list_growth_steps(entries)
    for cut in range(1, len(entries)):
        first = GrowthTracker()
        found = [first.add(entry) for entry in entries[:cut]]
        again = [entry for entry in entries if entry.offset >= (first.resume_offset or 0)]

        assert [step for step in found if step] + list_growth_steps(again) == whole
