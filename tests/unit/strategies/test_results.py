"""Levels 1 to 3: each strategy finds what it is for, and nothing else."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from ctxtop.core.compaction.plan import DEFAULT_RESULT_CAPS
from ctxtop.core.compaction.strategies.redundant import simplify_output
from ctxtop.core.compaction.strategies.stubs import SHORT_STUB_BYTES, has_stub

from tests.planned import carried_out, found_by
from tests.worked import WORDS, Session, numbered

if TYPE_CHECKING:
    from pathlib import Path

    from ctxtop.core.compaction.plan import Operation


def lines_of(found: list[Operation]) -> list[int]:
    return [each.line or 0 for each in found]


def new_text(operation: Operation) -> str:
    (edit,) = operation.edits
    return str(json.loads(edit.value))  # type: ignore[union-attr]


def test_of_equal_results_the_newest_stays(session: Session, tmp_path: Path) -> None:
    _, first = session.use("mcp__db__query", numbered(), table="one")
    _, second = session.use("mcp__db__query", numbered(), table="two")
    session.use("mcp__db__query", "short", table="three")
    session.use("mcp__db__query", "short", table="four")
    session.rest()
    (found,) = found_by("duplicate-results", session, tmp_path)
    assert found.line == first
    assert str(second) in found.why
    assert len(new_text(found).encode()) <= SHORT_STUB_BYTES


def test_a_read_that_a_wider_one_repeats_word_for_word(session: Session, tmp_path: Path) -> None:
    _, part = session.read("/a.py", 20, offset=11, limit=20)
    _, changed = session.use(
        "Read", numbered(20, 11, "was " + WORDS), file_path="/a.py", offset=11, limit=20
    )
    session.read("/a.py", 60)
    session.rest()
    assert lines_of(found_by("unchanged-reads", session, tmp_path)) == [part]
    assert lines_of(found_by("covered-reads", session, tmp_path)) == [part, changed]


def test_a_read_is_not_covered_by_fewer_lines_or_a_failure(
    session: Session, tmp_path: Path
) -> None:
    session.read("/a.py", 60)
    session.read("/a.py", 20, offset=1, limit=20)
    session.use("Read", "no such file " * 50, failed=True, file_path="/a.py")
    session.read("/b.py", 60, offset=2500)
    session.read("/b.py", 60)
    session.rest()
    assert found_by("covered-reads", session, tmp_path) == []


@pytest.mark.parametrize(
    "words",
    [
        "File unchanged since last read. The content from the earlier Read tool_result stands.",
        "Wasted call — file unchanged since your last Read.",
        "<system-reminder>This file is already in your context.</system-reminder>",
    ],
)
@pytest.mark.parametrize(
    "strategy", ["unchanged-reads", "covered-reads", "reread-edits", "repeated-calls"]
)
def test_a_read_that_shows_nothing_takes_nothings_place(
    words: str, strategy: str, session: Session, tmp_path: Path
) -> None:
    session.read("/a.py", 60)
    session.use("Edit", file_path="/a.py", old_string=numbered(9), new_string=numbered(8))
    session.use("Read", words, file_path="/a.py")
    session.rest()
    assert found_by(strategy, session, tmp_path) == []


def test_an_attachment_that_is_put_in_again(session: Session, tmp_path: Path) -> None:
    from tests import transcripts as made

    words = f"<system-reminder>\n{WORDS * 8}\n</system-reminder>"
    for _ in range(3):
        session.add(
            made.attachment("nested_memory", content=words) | {"rendered": [{"content": words}]}
        )
        session.use("Bash", "ok", command="make")
    session.rest()
    found = found_by("repeated-attachments", session, tmp_path)
    assert lines_of(found) == [3, 6]
    for each in found:
        opening, said, closing = new_text(each).split("\n")
        assert (opening, closing) == ("<system-reminder>", "</system-reminder>")
        assert has_stub(said)


def test_colors_and_overwritten_lines_of_a_shell(session: Session, tmp_path: Path) -> None:
    colored = "\n".join(
        f"\x1b[32mok\x1b[0m test_{n}   \r\x1b[K\x1b[1mok {n}\x1b[0m" for n in range(80)
    )
    _, line = session.use("Bash", colored, command="make test")
    session.use("Read", colored, file_path="/a.log")
    session.rest()
    (found,) = found_by("plain-output", session, tmp_path)
    assert found.line == line
    assert new_text(found).startswith("ok 0\nok 1\n")


def test_json_loses_its_indents_and_nothing_else() -> None:
    value = {"a b": [1.50, "x  y", {"c\n": None}], "\u2028": 'q"  "'}
    indented = json.dumps(value, indent=8)
    assert len(simplify_output(indented)) < len(indented)
    assert json.loads(simplify_output(indented)) == value
    assert simplify_output('{"n": 1.500}') == '{"n":1.500}'


def test_a_read_of_a_file_that_is_written_anew(session: Session, tmp_path: Path) -> None:
    _, line = session.read("/a.py")
    session.read("/b.py")
    session.use("Write", file_path="/a.py", content="new")
    session.use("Write", "no space left", failed=True, file_path="/b.py", content="new")
    session.rest()
    assert lines_of(found_by("overwritten-reads", session, tmp_path)) == [line]


def test_an_edit_whose_file_is_read_again_as_a_whole(session: Session, tmp_path: Path) -> None:
    line, _ = session.use("Edit", file_path="/a.py", old_string=numbered(), new_string=numbered(9))
    session.use("Edit", file_path="/b.py", old_string=numbered(), new_string="")
    session.read("/b.py", 20, offset=5, limit=20)
    session.read("/a.py")
    session.rest()
    (found,) = found_by("reread-edits", session, tmp_path)
    assert found.line == line
    assert [each.pointer for each in found.edits] == [  # type: ignore[union-attr]
        "/message/content/0/input/old_string",
        "/message/content/0/input/new_string",
    ]


def test_todos_that_a_newer_list_follows(session: Session, tmp_path: Path) -> None:
    todos = [
        {"content": f"{WORDS} {n}", "status": "pending", "activeForm": "on it"} for n in range(9)
    ]
    old, _ = session.use("TodoWrite", todos=todos)
    session.use("TodoWrite", todos=todos[:8])
    session.rest()
    (found,) = found_by("old-todos", session, tmp_path)
    assert found.line == old
    (edit,) = found.edits
    assert isinstance(json.loads(edit.value), list)  # type: ignore[union-attr]


def test_inputs_of_calls_that_failed_long_enough_ago(session: Session, tmp_path: Path) -> None:
    line, _ = session.use("Write", "denied", failed=True, file_path="/a.py", content=numbered())
    session.use("Write", "ok", file_path="/b.py", content=numbered())
    session.rest()
    assert lines_of(found_by("failed-inputs", session, tmp_path)) == [line]


def test_polls_with_one_input(session: Session, tmp_path: Path) -> None:
    polls = [
        session.use("Bash", numbered(words=f"{WORDS} {n}"), command="cat log")[1] for n in range(3)
    ]
    session.use("Bash", numbered(), command="cat other")
    session.use("Bash", numbered(), failed=True, command="make")
    session.use("Bash", "ok", command="make")
    session.rest()
    assert lines_of(found_by("repeated-calls", session, tmp_path)) == polls[:2]


@pytest.mark.parametrize("extra", ["", "x" * 1000])
def test_inputs_of_repeated_calls_are_compared_as_values(
    session: Session, tmp_path: Path, extra: str
) -> None:
    """R002-17: key order does not matter at any depth; a number is not its text."""
    name = "mcp__db__query"
    first: dict[str, Any] = {"table": "t", "where": {"a": 1, "b": [2]}, "extra": extra}
    same: dict[str, Any] = {"extra": extra, "where": {"b": [2], "a": 1}, "table": "t"}
    other: dict[str, Any] = {"table": "t", "where": {"a": "1", "b": [2]}, "extra": extra}
    lines = [
        session.use(name, numbered(words=f"{WORDS} {n}"), **asked)[1]
        for n, asked in enumerate((first, other, same))
    ]
    session.rest()
    assert lines_of(found_by("repeated-calls", session, tmp_path)) == lines[:1]


@pytest.mark.parametrize(
    "tool", ["TodoWrite", "TodoRead", "TaskCreate", "TaskList", "Task", "Agent", "ExitPlanMode"]
)
def test_protected_tools_are_no_duplicates(session: Session, tmp_path: Path, tool: str) -> None:
    """R002-17: neither by their input nor by their text."""
    for _ in range(3):
        session.use(tool, numbered(), prompt="go on")
    session.rest()
    for strategy in ("repeated-calls", "duplicate-results"):
        assert found_by(strategy, session, tmp_path) == []


@pytest.mark.parametrize("extra", [0, 150, 3000])
def test_the_first_characters_of_a_long_result_and_its_notice(
    session: Session, tmp_path: Path, extra: int
) -> None:
    """001-05: what follows the first 10,000 is left out, if that is worth a notice."""
    text = ("word " * 2000)[: DEFAULT_RESULT_CAPS.first_chars] + "rest " * (extra // 5)
    _, line = session.use("mcp__db__query", text, table="t")
    session.rest()
    found = [each for each in found_by("long-results", session, tmp_path) if each.line == line]
    assert len(found) == (extra == 3000)
    for each in found:
        kept, notice = (
            new_text(each)[: DEFAULT_RESULT_CAPS.first_chars],
            new_text(each)[DEFAULT_RESULT_CAPS.first_chars :],
        )
        assert kept == text[: DEFAULT_RESULT_CAPS.first_chars]
        assert has_stub(notice)
        assert "all after the first 10,000 characters of mcp__db__query" in notice
        assert "3,000 chars left out" in notice


def test_an_old_read_of_a_file_that_was_only_edited(session: Session, tmp_path: Path) -> None:
    shown = f"{numbered()}\nload_ledger at port 8123"
    _, line = session.use("Read", shown, file_path="/src/a.py")
    session.read("/src/b.py")
    session.use("Edit", file_path="/src/a.py", old_string="a", new_string="b")
    session.rest()
    (found,) = found_by("edited-reads", session, tmp_path)
    assert found.line == line
    assert new_text(found).endswith("It names: load_ledger at port 8123]")
    assert "frame_decoder.decode_bytes" not in new_text(found)


def test_what_is_overtaken_leaves_what_stands_nowhere_else(
    session: Session, tmp_path: Path
) -> None:
    polls = [f"{numbered(words=f'{WORDS} {n}')}\nstarted run_{n}_ledger" for n in range(2)]
    for poll in polls:
        session.use("Bash", poll, command="cat log")
    session.rest()
    (found,) = found_by("repeated-calls", session, tmp_path)
    assert new_text(found).endswith("It names: run_0_ledger]")


def test_nothing_is_masked_whose_names_would_not_fit(session: Session, tmp_path: Path) -> None:
    names = "\n".join(f"module_{n}.function_{n}" for n in range(400))
    session.use("mcp__db__query", names, query="select")
    session.rest(lines=60)
    assert found_by("old-results", session, tmp_path) == []


def test_a_short_output_keeps_its_end_and_its_errors(session: Session, tmp_path: Path) -> None:
    lines = [f"line {n} of {WORDS}" for n in range(40)]
    lines[3], lines[-1] = "error: no decoder", "3 passed in 2s"
    session.use("Bash", "\n".join(lines), command="make test")
    session.rest()
    (found,) = found_by("old-shell-output", session, tmp_path)
    stub, *kept = new_text(found).split("\n")
    assert has_stub(stub)
    assert kept == ["", "error: no decoder", *lines[-5:]]


@pytest.mark.parametrize(
    ("strategy", "tool", "asked"),
    [
        ("old-listings", "Grep", {"pattern": "decode"}),
        ("old-web-pages", "WebFetch", {"url": "https://example.org/a"}),
        ("old-results", "mcp__db__query", {"query": "select"}),
        ("old-shell-output", "Bash", {"command": "make test"}),
    ],
)
def test_old_results_are_masked_by_who_gave_them(
    session: Session, tmp_path: Path, strategy: str, tool: str, asked: dict[str, Any]
) -> None:
    for other in ("Grep", "WebFetch", "mcp__db__query", "Bash"):
        if other != tool:
            session.use(other, numbered(40, words=f"{WORDS} {other}"), query="other")
    _, line = session.use(tool, [{"type": "text", "text": numbered(40)}], **asked)
    session.rest(lines=60)
    (found,) = found_by(strategy, session, tmp_path)
    assert found.line == line
    (edit,) = found.edits
    (block,) = json.loads(edit.value)  # type: ignore[union-attr]
    assert has_stub(block["text"])


def test_a_long_output_keeps_head_tail_and_errors(session: Session, tmp_path: Path) -> None:
    output = [f"line {n} of {WORDS}" for n in range(300)]
    output[150] = "ERROR: test_frame_decoder failed"
    session.use("Bash", "\n".join(output), command="make test")
    session.rest()
    (found,) = found_by("old-shell-output", session, tmp_path)
    kept = new_text(found).split("\n")
    assert kept[:20] == output[:20]
    assert kept[-30:] == output[-30:]
    assert output[150] in kept


def test_an_old_picture_becomes_a_word(session: Session, tmp_path: Path) -> None:
    picture = {
        "type": "image",
        "source": {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo" * 99},
    }
    _, line = session.use("Read", [made_text("a picture"), picture], file_path="/a.png")
    session.rest()
    (found,) = found_by("old-images", session, tmp_path)
    assert found.line == line
    after = carried_out([found], session.write(tmp_path / "one.jsonl").read_bytes())
    content = json.loads(after.split(b"\n")[line - 1])["message"]["content"][0]["content"]
    assert [each["type"] for each in content] == ["text", "text"]
    assert content[0]["text"] == "a picture"


def made_text(words: str) -> dict[str, str]:
    return {"type": "text", "text": words}


def test_errors_agents_and_what_a_person_said_stay(session: Session, tmp_path: Path) -> None:
    session.use("mcp__x__y", numbered(), failed=True)
    session.use("Agent", numbered(), prompt="look", subagent_type="reviewer")
    session.use("AskUserQuestion", numbered(), questions=[])
    session.use("ExitPlanMode", numbered(), plan=numbered())
    session.use("Skill", numbered(), skill="compress")
    session.rest(lines=60)
    for strategy in ("old-results", "duplicate-results", "old-shell-output", "failed-inputs"):
        assert found_by(strategy, session, tmp_path) == []
