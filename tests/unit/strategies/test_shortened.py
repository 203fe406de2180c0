"""What is shortened because something newer holds it: lines, attachments, agents' results."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from ctxtop.core.compaction.plan import PlanOptions, Severity
from ctxtop.core.compaction.protection import AGENT_RESULT
from ctxtop.core.compaction.strategies.stubs import has_stub

from tests import transcripts as made
from tests.planned import found_by, plan_of
from tests.worked import WORDS, Session, numbered

if TYPE_CHECKING:
    from pathlib import Path

    from ctxtop.core.compaction.plan import Operation


def new_text(operation: Operation) -> str:
    (edit,) = operation.edits
    return str(json.loads(edit.value))  # type: ignore[union-attr]


def test_of_a_read_only_lines_stay_that_no_later_read_holds(
    session: Session, tmp_path: Path
) -> None:
    _, line = session.read("/a.py", 60)
    session.read("/a.py", 30, offset=1, limit=30)
    session.read("/a.py", 25, offset=31, limit=25)
    session.read("/b.py", 60)
    session.rest()
    (found,) = found_by("repeated-lines", session, tmp_path)
    assert found.line == line
    stub, *others = new_text(found).split("\n")
    assert has_stub(stub)
    assert others == numbered(60).split("\n")[55:]


def test_a_read_of_which_half_is_read_again_stays_whole(session: Session, tmp_path: Path) -> None:
    session.read("/a.py", 60)
    session.read("/a.py", 30, offset=1, limit=30)
    session.rest()
    assert found_by("repeated-lines", session, tmp_path) == []


@pytest.mark.parametrize("failed", [False, True])
def test_of_an_output_only_lines_stay_that_a_later_run_does_not_print(
    session: Session, tmp_path: Path, failed: bool
) -> None:
    passed = [f"tests/test_decoder.py::test_{n} PASSED  {WORDS}" for n in range(60)]
    first = [*passed[:30], "tests/test_decoder.py::test_30 FAILED", *passed[31:], "1 failed"]
    _, line = session.use("Bash", "\n".join(first), failed=failed, command="cd /r && make test")
    session.use("Bash", "\n".join([*passed, "60 passed"]), command="make test V=1")
    session.use("Bash", "\n".join(passed[:40]), command="cat log")
    session.rest()
    (found,) = found_by("repeated-lines", session, tmp_path)
    assert found.line == line
    assert new_text(found).split("\n")[1:] == ["tests/test_decoder.py::test_30 FAILED", "1 failed"]


def test_a_failed_command_keeps_its_errors_and_its_end(session: Session, tmp_path: Path) -> None:
    lines = [f"line {n} of {WORDS}" for n in range(40)]
    lines[3], lines[-1] = "error: no decoder", "make: *** [test] Error 1"
    _, line = session.use("Bash", "\n".join(lines), failed=True, command="make test")
    session.use("Bash", "x" * 5_000, failed=True, command="cat blob")
    session.rest()
    (found,) = found_by("old-shell-output", session, tmp_path)
    assert found.line == line
    assert new_text(found).split("\n")[-6:] == ["error: no decoder", *lines[-5:]]


def reminder(kind: str, number: int, **fields: object) -> made.JsonLine:
    text = f"<system-reminder>\n{number} of {WORDS * 4}\n</system-reminder>"
    rendered = [{"type": "user", "content": text}]
    return made.attachment(kind, **fields) | {"rendered": rendered}


@pytest.mark.parametrize("kind", ["todo_reminder", "environment"])
def test_of_attachments_that_tell_a_state_the_newest_stays(
    session: Session, tmp_path: Path, kind: str
) -> None:
    lines = []
    for number in range(3):
        lines.append(session.add(reminder(kind, number)))
        session.use("Bash", "ok", command="make")
    session.rest()
    found = found_by("replaced-attachments", session, tmp_path)
    assert [each.line for each in found] == lines[:2]
    for each in found:
        opening, stub, closing = new_text(each).split("\n")
        assert (opening, closing) == ("<system-reminder>", "</system-reminder>")
        assert has_stub(stub)


def test_attachments_that_add_to_each_other_all_stay(session: Session, tmp_path: Path) -> None:
    for number in range(3):
        session.add(reminder("mcp_instructions_delta", number))
        session.use("Bash", "ok", command="make")
    session.rest()
    assert found_by("replaced-attachments", session, tmp_path) == []


def test_an_old_copy_of_a_file_goes_with_or_without_what_was_sent(
    session: Session, tmp_path: Path
) -> None:
    """Clients before 2.1.2xx recorded only what they made the attachment from."""
    sent = session.add(reminder("edited_text_file", 1, filename="/src/a.py", snippet="x"))
    session.use("Bash", "ok", command="make")
    snippet = made.attachment("edited_text_file", filename="/src/b.py", snippet=numbered(20))
    made_from = session.add(snippet)
    session.use("Bash", "ok", command="make")
    session.rest()
    found = found_by("old-attachments", session, tmp_path)
    assert [each.line for each in found] == [sent, made_from]
    assert [each.edits[0].pointer for each in found] == [  # type: ignore[union-attr]
        "/rendered/0/content",
        "/attachment/snippet",
    ]


READS = "parses a header and hands it on to whoever reads the packets next."
REPORT = "\n".join(
    [
        "I looked at the decoder.",
        *(f"src/decoders/frame_decoder_{n}.py {READS}" for n in range(60)),
        "I decided to keep the strict mode, because the tests rely on it.",
        "agentId: a92e367 (for resuming to continue this agent's work if needed)",
    ]
)


def test_an_agent_s_result_is_shortened_once_it_was_taken_up(
    session: Session, tmp_path: Path
) -> None:
    _, line = session.use("Agent", REPORT, prompt="look", subagent_type="explorer")
    named = " ".join(f"src/decoders/frame_decoder_{n}.py" for n in range(20))
    session.say(f"I go on with {named}.")
    session.rest()
    (found,) = found_by("agent-results", session, tmp_path)
    assert (found.line, found.level) == (line, Severity.MASKED)
    kept = new_text(found)
    assert kept.startswith("I looked at the decoder.\nI decided to keep the strict mode")
    assert "agentId: a92e367" in kept
    assert "src/decoders/frame_decoder_59.py" in kept
    assert READS not in kept


def test_a_shortened_notification_is_still_one(session: Session, tmp_path: Path) -> None:
    """What it reports is shortened, and the client's own words around it stay."""
    opening = "<task-notification>\n<task-id>a92e367</task-id>\n<result>"
    closing = "</result>\n</task-notification>"
    line = session.add(
        made.user(f"{opening}{REPORT}{closing}") | {"origin": {"kind": "task-notification"}}
    )
    session.say("I go on with " + " ".join(f"src/decoders/frame_decoder_{n}.py" for n in range(9)))
    session.rest()
    (found,) = found_by("agent-results", session, tmp_path)
    assert found.line == line
    assert new_text(found).startswith(f"{opening}I looked at the decoder.\nI decided")
    assert new_text(found).endswith(closing)


def test_an_agent_s_result_stays_that_nobody_took_up(session: Session, tmp_path: Path) -> None:
    session.use("Agent", REPORT, prompt="look", subagent_type="explorer")
    session.say("It is done.")
    session.rest()
    assert found_by("agent-results", session, tmp_path) == []
    path = session.write(tmp_path / "one.jsonl")
    protected = {each.why for each in plan_of(path, PlanOptions(level=3, keep=2)).protected}
    assert AGENT_RESULT in protected


def test_an_agent_s_result_of_the_newest_turns_stays(session: Session, tmp_path: Path) -> None:
    session.use("Agent", REPORT, prompt="look", subagent_type="explorer")
    session.say(REPORT)
    assert found_by("agent-results", session, tmp_path) == []
