"""Turns of a conversation: prompts, answers, calls with their results, compactions."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from ctxtop.core.measure.conversation_turns import (
    MAX_STEP_CHARS,
    Step,
    StepKind,
    entry_steps,
    excerpt,
    group_turns,
    input_text,
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


def test_a_turn_is_a_prompt_and_what_follows_it() -> None:
    turns = group_turns(
        steps_of(
            user("fix the parser", at=5),
            assistant("m1", 1_000, content=[text("Looking.")]),
            assistant("m2", 2_000, content=[text("Done.")]),
            user("and the lexer"),
            assistant("m3", 3_000, content=[text("Done too.")]),
        )
    )
    assert [turn.prompt.body.text for turn in turns if turn.prompt] == [
        "fix the parser",
        "and the lexer",
    ]
    assert [step.body.text for step in turns[0].answers] == ["Looking.", "Done."]
    assert [turn.context_tokens for turn in turns] == [2_000, 3_000]
    assert turns[0].started_at == transcripts.START_MS + 5_000
    assert turns[0].offset == 0
    assert turns[1].offset > 0


def test_a_call_has_its_result_also_if_calls_ran_side_by_side() -> None:
    (turn,) = group_turns(
        steps_of(
            user(),
            assistant("m1", content=[tool("Bash", "t1", command="ls -la")]),
            assistant("m1", content=[tool("Read", "t2", file_path="/a/b.py")]),
            tool_result("t2", "two\nlines", {}),
            tool_result("t1", "one", {}),
        )
    )
    first, second = turn.calls
    assert (first.title, first.subject) == ("Bash", "ls -la")
    assert first.result is not None
    assert first.result.text == "one"
    assert second.result is not None
    assert second.result.lines == 2
    assert second.result_offset is not None
    assert first.result_offset is not None
    assert second.result_offset < first.result_offset
    assert not [step for step in turn.steps if step.kind is StepKind.RESULT]


def test_a_result_whose_call_was_not_read_stays_a_step() -> None:
    (turn,) = group_turns(steps_of(tool_result("t9", "late", {}), assistant("m1")))
    assert [step.kind for step in turn.steps] == [StepKind.RESULT, StepKind.ANSWER]
    assert turn.prompt is None


def test_a_failed_call_is_marked() -> None:
    block = {"type": "tool_result", "tool_use_id": "t1", "content": "no", "is_error": True}
    call = assistant(content=[tool("Bash", "t1", command="false")])
    (turn,) = group_turns(steps_of(call, user([block])))
    assert turn.calls[0].failed


def test_a_compaction_stands_between_the_turns() -> None:
    (before, after) = group_turns(
        steps_of(
            user("one"),
            boundary(preTokens=165_000, postTokens=22_000),
            transcripts.summary("we fixed it"),
            user("two"),
        )
    )
    kinds = [step.kind for step in before.steps]
    assert kinds == [StepKind.PROMPT, StepKind.COMPACTION, StepKind.SUMMARY]
    assert (before.steps[1].before_tokens, before.steps[1].after_tokens) == (165_000, 22_000)
    assert after.prompt is not None


def test_a_line_that_was_appended_again_counts_once() -> None:
    prompt = user("once")
    (turn,) = group_turns(steps_of(prompt, assistant("m1"), prompt))
    assert [step.kind for step in turn.steps] == [StepKind.PROMPT, StepKind.ANSWER]


def test_long_and_hostile_texts_are_cut_and_sanitized() -> None:
    body = excerpt("a\x1b[31mb" + "x" * MAX_STEP_CHARS)
    assert body.text.startswith("a[31mb")
    assert len(body.text) < MAX_STEP_CHARS
    assert body.is_cut
    assert body.chars == MAX_STEP_CHARS + 7
    assert excerpt("1234\n5").estimated_tokens == 2


def test_a_refused_request_is_an_error_and_a_command_a_note() -> None:
    command = "<command-name>/compact</command-name><command-args>tests</command-args>"
    (turn,) = group_turns(steps_of(transcripts.refusal("Prompt is too long"), user(command)))
    assert [step.kind for step in turn.steps] == [StepKind.ERROR, StepKind.NOTE]
    assert turn.steps[1].title == "/compact tests"


def test_an_input_is_written_field_by_field() -> None:
    assert input_text('{"command": "ls"}') == "ls"
    assert input_text('{"path": "/a", "limit": 3}') == "path: /a\nlimit: 3"
    assert input_text('{"a": "1", "new": "x\\ny"}') == "a: 1\nnew: \nx\ny"
    assert input_text("[1") == "[1"
