"""Steps of a conversation: prompts, answers, calls with their results, compactions."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from ctxtop.core.measure.conversation_steps import (
    MAX_STEP_CHARS,
    Step,
    StepKind,
    entry_steps,
    excerpt,
    input_text,
    join_results,
)
from ctxtop.core.transcript.entry_decoder import decode_entry

from tests import transcripts
from tests.transcripts import assistant, boundary, text, tool, tool_result, user

if TYPE_CHECKING:
    from tests.transcripts import JsonLine


def steps_of(*lines: JsonLine) -> list[Step]:
    """The steps of lines that follow each other in a file."""
    steps: list[Step] = []
    offset = 0
    for line in lines:
        data = json.dumps(line).encode() + b"\n"
        entry = decode_entry(offset, data, {})
        assert entry is not None
        steps += entry_steps(entry)
        offset += len(data)
    return steps


def joined(*lines: JsonLine) -> list[Step]:
    return list(join_results(steps_of(*lines)))


def test_steps_are_prompts_and_answers_with_the_size_of_their_context() -> None:
    steps = joined(
        user("fix the parser", at=5),
        assistant("m1", 1_000, content=[text("Looking.")]),
        assistant("m2", 2_000, content=[text("Done.")]),
        user("and the lexer"),
    )
    assert [(step.kind, step.body.text, step.context_tokens) for step in steps] == [
        (StepKind.PROMPT, "fix the parser", None),
        (StepKind.ANSWER, "Looking.", 1_000),
        (StepKind.ANSWER, "Done.", 2_000),
        (StepKind.PROMPT, "and the lexer", None),
    ]
    assert steps[0].at == transcripts.START_MS + 5_000
    assert [step.offset for step in steps] == sorted({step.offset for step in steps})


def test_a_call_has_its_result_also_if_calls_ran_side_by_side() -> None:
    prompt, first, second = joined(
        user(),
        assistant("m1", content=[tool("Bash", "t1", command="ls -la")]),
        assistant("m1", content=[tool("Read", "t2", file_path="/a/b.py")]),
        tool_result("t2", "two\nlines", {}),
        tool_result("t1", "one", {}),
    )
    assert prompt.kind is StepKind.PROMPT
    assert (first.title, first.subject) == ("Bash", "ls -la")
    assert first.result is not None
    assert first.result.text == "one"
    assert second.result is not None
    assert second.result.lines == 2
    assert second.result_offset is not None
    assert first.result_offset is not None
    assert second.result_offset < first.result_offset


def test_a_result_whose_call_was_not_read_stays_a_step() -> None:
    steps = joined(tool_result("t9", "late", {}), assistant("m1"))
    assert [step.kind for step in steps] == [StepKind.RESULT, StepKind.ANSWER]


def test_a_failed_call_is_marked() -> None:
    block = {"type": "tool_result", "tool_use_id": "t1", "content": "no", "is_error": True}
    call = assistant(content=[tool("Bash", "t1", command="false")])
    (step,) = joined(call, user([block]))
    assert step.failed


def test_a_compaction_and_its_summary_are_steps() -> None:
    steps = joined(
        user("one"),
        boundary(preTokens=165_000, postTokens=22_000),
        transcripts.summary("we fixed it"),
        user("two"),
    )
    kinds = [step.kind for step in steps]
    assert kinds == [StepKind.PROMPT, StepKind.COMPACTION, StepKind.SUMMARY, StepKind.PROMPT]
    assert steps[1].title == "auto"


def test_a_line_that_was_appended_again_counts_once() -> None:
    prompt = user("once")
    steps = joined(prompt, assistant("m1"), prompt)
    assert [step.kind for step in steps] == [StepKind.PROMPT, StepKind.ANSWER]


def test_long_and_hostile_texts_are_cut_and_sanitized() -> None:
    body = excerpt("a\x1b[31mb" + "x" * MAX_STEP_CHARS)
    assert body.text.startswith("a[31mb")
    assert len(body.text) < MAX_STEP_CHARS
    assert body.is_cut
    assert body.chars == MAX_STEP_CHARS + 7


def test_a_refused_request_is_an_error_and_a_command_a_note() -> None:
    command = "<command-name>/compact</command-name><command-args>tests</command-args>"
    steps = joined(transcripts.refusal("Prompt is too long"), user(command))
    assert [step.kind for step in steps] == [StepKind.ERROR, StepKind.NOTE]
    assert steps[1].title == "/compact tests"


def test_an_input_is_written_field_by_field() -> None:
    assert input_text('{"command": "ls"}') == "ls"
    assert input_text('{"path": "/a", "limit": 3}') == "path: /a\nlimit: 3"
    assert input_text('{"a": "1", "new": "x\\ny"}') == "a: 1\nnew: \nx\ny"
    assert input_text("[1") == "[1"
