"""What a run of a conversation holds."""

from __future__ import annotations

import json
import time

import pytest
from ctxtop.core.model.conversation import Author, MessagePart, PartKind
from ctxtop.core.summaries import artifacts
from ctxtop.core.summaries.artifacts import collect_artifacts, prompt_excerpt
from ctxtop.core.summaries.key_messages import prompt_facts
from ctxtop.core.transcript.authorship import LONG_PROMPT_CHARS
from msgspec.structs import replace

from ..entries import answered, asked, attached, called, entry, returned, touched


def test_files_that_were_edited_come_before_those_that_were_read() -> None:
    run = [
        *touched("Read", "/p/a.py", "t1"),
        *touched("Read", "/p/a.py", "t2"),
        *touched("Edit", "/p/b.py", "t3"),
        *touched("Write", "/p/c.py", "t4"),
        *touched("Edit", "/p/b.py", "t5"),
    ]
    found = collect_artifacts(run).files

    assert [(use.path, use.reads, use.edits, use.writes) for use in found] == [
        ("/p/b.py", 0, 2, 0),
        ("/p/c.py", 0, 0, 1),
        ("/p/a.py", 2, 0, 0),
    ]
    assert found[0].line == run[-2].line


def test_a_call_that_failed_touched_nothing_and_one_without_result_did() -> None:
    failed = called("Read", "t1", file_path="/p/no.py")
    cut = called("Read", "t2", file_path="/p/cut.py")
    searched = called("Grep", "t3", pattern="x", path="/p")

    found = collect_artifacts(
        [failed, returned("Read", "t1", "no such file", failed=True), cut, searched]
    )

    assert [use.path for use in found.files] == ["/p/cut.py"]


def test_names_are_ranked_by_how_often_and_how_lately_they_are_used() -> None:
    run = [
        answered("early_name"),
        answered("often_used early_other"),
        answered("often_used"),
        asked("often_used, please"),
        answered("late_name"),
    ]

    assert [name.text for name in collect_artifacts(run).names] == [
        "often_used",
        "late_name",
        "early_other",
        "early_name",
    ]


def test_names_come_from_what_was_used_not_from_what_was_read() -> None:
    run = [
        called("Bash", "t1", command="grep -rn wanted_name src"),
        returned("Bash", "t1", "src/x.py: result_name"),
        called(
            "Write", "t2", file_path="/p/x.py", content="def made_here(inner_name):\n    pass\n"
        ),
    ]

    assert {name.text for name in collect_artifacts(run).names} == {"wanted_name", "made_here"}


def test_a_new_line_in_a_tools_input_is_no_letter() -> None:
    run = [called("Bash", "t1", command="cd x\nfirst_name\n")]

    assert [name.text for name in collect_artifacts(run).names] == ["first_name"]


def test_decisions_of_both_and_rules_of_the_person_alone() -> None:
    run = [
        asked("Always run the tests first. We decided to drop Windows."),
        answered("I must never forget it. I will use `msgspec` instead of json here."),
        answered("It is slow because of the weather. It failed because `read_all` blocks."),
    ]
    found = collect_artifacts(run)

    assert [said.text for said in found.decisions] == [
        "I will use `msgspec` instead of json here.",
        "We decided to drop Windows.",
    ]
    assert [(said.text, said.line) for said in found.constraints] == [
        ("Always run the tests first.", run[0].line)
    ]


def test_what_was_typed_during_a_turn_is_a_persons_words() -> None:
    text = (
        "<system-reminder>\nThe user sent a new message while you were working:\nNever push.\n\n"
        "This is how Claude Code surfaces messages the user sends mid-turn.\n</system-reminder>"
    )
    queued = replace(attached("queued_command", text), author=Author.PERSON)

    assert [quote.text for quote in collect_artifacts([queued]).constraints] == ["Never push."]
    assert [fact.text for fact in prompt_facts([queued])] == ["Never push."]
    assert prompt_facts([attached("queued_command", "A task ended. Never mind.")]) == []


def test_a_rule_with_a_key_in_it_is_not_kept() -> None:
    assert (
        collect_artifacts([asked("Always use the key sk-ant-api03-abcdefghij.")]).constraints == ()
    )


def test_of_a_pasted_log_no_word_is_a_persons_but_around_a_marked_one() -> None:
    log = "you must log in\n" * LONG_PROMPT_CHARS
    unmarked = f"Never push.\n{log}Always ask first."
    marked = (
        f'Never push.\n<pasted_content id="1f">\n{log}</pasted_content id="1f">\nAlways ask first.'
    )

    assert len(prompt_excerpt(unmarked)) < LONG_PROMPT_CHARS
    assert collect_artifacts([asked(unmarked)]).constraints == ()
    texts = {said.text for said in collect_artifacts([asked(marked)]).constraints}
    assert texts == {"Never push.", "Always ask first."}


def test_the_last_list_of_todos_stands() -> None:
    first = [
        {"content": "write it", "status": "pending"},
        {"content": "test it", "status": "pending"},
    ]
    second = [
        {"content": "write it", "status": "completed"},
        {"content": "test it", "status": "pending"},
        {"content": "ship it", "status": "in_progress"},
    ]
    run = [called("TodoWrite", "t1", todos=first), called("TodoWrite", "t2", todos=second)]
    found = collect_artifacts(run).todos

    assert [(todo.text, todo.status) for todo in found] == [
        ("ship it", "in_progress"),
        ("test it", "pending"),
    ]
    assert [todo.line for todo in found] == [run[1].line, run[0].line]


def test_tasks_are_followed_by_number_over_a_compaction() -> None:
    first = [
        called("TaskCreate", "t1", subject="write it"),
        called("TaskCreate", "t2", subject="test it"),
        returned("TaskCreate", "t1", "Task #1 created successfully: write it"),
        returned("TaskCreate", "t2", "Task #2 created successfully: test it"),
        called("TaskUpdate", "t3", taskId="1", status="in_progress"),
    ]
    standing = collect_artifacts(first)
    later = collect_artifacts(
        [called("TaskUpdate", "t4", taskId="1", status="completed")], standing
    )

    assert [(todo.text, todo.status) for todo in standing.todos] == [
        ("write it", "in_progress"),
        ("test it", "pending"),
    ]
    assert [todo.text for todo in later.todos] == ["test it"]


@pytest.mark.parametrize("text", ["", "[1]", "{", '"x"', '{"todos": 3}', "[" * 5000 + "]" * 5000])
def test_an_input_of_another_form_says_nothing(text: str) -> None:
    run = [entry(MessagePart(PartKind.TOOL_INPUT, text, "TodoWrite", "t1"))]

    assert collect_artifacts(run).todos == ()


def test_what_stood_before_is_counted_on() -> None:
    before = collect_artifacts([answered("old_name"), asked("Never do that again.")])
    after = collect_artifacts(
        [answered("old_name new_name"), *touched("Read", "/p/a.py", "t")], before
    )

    assert [(name.text, name.uses) for name in after.names] == [("old_name", 2), ("new_name", 1)]
    assert [said.text for said in after.constraints] == ["Never do that again."]


def test_no_more_than_the_highest_ranked_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(artifacts, "MAX_NAMES", 2)
    monkeypatch.setattr(artifacts, "MAX_QUOTES", 1)
    run = [answered("name_one name_two name_three"), asked("Never go. Always stay.")]

    assert len(collect_artifacts(run).names) == 2
    assert [said.text for said in collect_artifacts(run).constraints] == ["Always stay."]


@pytest.mark.slow
def test_a_long_segment_is_read_in_a_few_seconds() -> None:
    words = " ".join(
        f"name_{number % 3000} is used by read_{number % 977}()." for number in range(25)
    )
    body = json.dumps({"file_path": "/p/x.py", "content": "def some_thing(): pass\n" * 200})
    run = [
        each
        for number in range(1000)
        for each in (
            answered(words * 4 + " We decided to keep it."),
            entry(MessagePart(PartKind.TOOL_INPUT, body, "Write", f"t{number}", "/p/x.py")),
            returned("Write", f"t{number}", "done", "/p/x.py"),
        )
    ]
    began = time.process_time()
    found = collect_artifacts(run)

    assert len(found.files) == 1
    # About a second; what else the machine does is not counted.
    assert time.process_time() - began < 10
