"""Files by what the tools did to them."""

from __future__ import annotations

import pytest
from ctxtop.core.summaries.tool_outcomes import (
    CREATED_PREFIX,
    FileActivity,
    describe_file,
    list_file_activity,
    parse_file_description,
)

from ..entries import called, returned, touched


def states(*entries: object) -> dict[str, FileActivity]:
    return {each.path: each for each in list_file_activity(entries)}  # type: ignore[arg-type]


def test_created_written_edited_read_and_counted() -> None:
    found = states(
        called("Write", "1", file_path="/p/new.py", content="x"),
        returned("Write", "1", f"{CREATED_PREFIX} at: /p/new.py"),
        called("Write", "2", file_path="/p/old.py", content="x"),
        returned("Write", "2", "The file /p/old.py has been updated."),
        *touched("Edit", "/p/new.py", "3"),
        *touched("Edit", "/p/new.py", "4"),
        *touched("Read", "/p/only.py", "5"),
    )
    new, old, only = found["/p/new.py"], found["/p/old.py"], found["/p/only.py"]
    assert (new.created, new.writes, new.edits, new.reads) == (True, 1, 2, 0)
    assert (old.created, old.writes) == (False, 1)
    assert (only.is_changed, only.reads) == (False, 1)
    assert list(found)[-1] == "/p/only.py", "what was only read comes last"


def test_a_call_that_failed_did_nothing() -> None:
    asked = called("Edit", "1", file_path="/p/a.py")
    assert states(asked, returned("Edit", "1", "no match", failed=True)) == {}
    assert states(asked)["/p/a.py"].edits == 1, "cut off before its result"


@pytest.mark.parametrize(
    ("command", "deleted"),
    [
        ("rm /p/src/a.py", True),
        ("cd /p && rm -f src/a.py", True),
        ("git rm src/a.py; ls", True),
        ("rm b.py", False),
        ("pytest src/a.py", False),
        ("rm other/a.py", False),
        ("echo 'rm a.py", False),
    ],
)
def test_what_a_shell_deletes(command: str, deleted: bool) -> None:
    found = states(
        *touched("Edit", "/p/src/a.py", "1"),
        called("Bash", "2", command=command),
        returned("Bash", "2"),
    )
    assert found["/p/src/a.py"].deleted is deleted


def test_what_was_deleted_and_written_again_is_there() -> None:
    found = states(
        called("Bash", "1", command="rm /p/a.py"),
        returned("Bash", "1"),
        *touched("Write", "/p/a.py", "2"),
    )
    assert not found["/p/a.py"].deleted


def test_the_last_command_that_names_a_file() -> None:
    run = called("Bash", "2", command="pytest tests/a.py\n  -q <in"), returned("Bash", "2")
    found = states(*touched("Edit", "/p/tests/a.py", "1"), *run)
    assert found["/p/tests/a.py"].command == "pytest tests/a.py -q ‹in"
    assert found["/p/tests/a.py"].line == run[0].line


@pytest.mark.parametrize(
    "state",
    [
        FileActivity("/p/a b (old).py", reads=2, edits=3, writes=1, created=True, line=7),
        FileActivity("/p/a.py", deleted=True, command="rm (it); last", line=1),
        FileActivity("/p/a.py", line=2),
    ],
)
def test_what_is_said_is_heard(state: FileActivity) -> None:
    assert parse_file_description(describe_file(state), state.line) == state


def test_other_words_are_no_file() -> None:
    assert parse_file_description("just words") is None


def test_what_an_earlier_summary_counted_is_counted_on() -> None:
    (state,) = list_file_activity(
        touched("Edit", "/p/a.py", "1"), [FileActivity("/p/a.py", edits=4)]
    )
    assert state.edits == 5
