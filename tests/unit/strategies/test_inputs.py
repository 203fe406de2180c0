"""Levels 4 to 6: what calls were given, thoughts, and prose."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from ctxtop.core.compaction.plan import RemoveLine
from ctxtop.core.compaction.strategies.inputs import KEPT_PROMPT_CHARS
from ctxtop.core.compaction.strategies.reasoning import droppable_thinking
from ctxtop.core.model.conversation import binds_thinking
from msgspec.structs import replace

from tests import transcripts as made
from tests.planned import SHORT, carried_out, found_by, plan_of, tokens_of, view_of
from tests.worked import NEWER, OLDER, WORDS, Session, numbered

if TYPE_CHECKING:
    from pathlib import Path


def input_after(session: Session, folder: Path, strategy: str) -> dict[str, object]:
    (found,) = found_by(strategy, session, folder)
    after = carried_out([found], session.write(folder / "one.jsonl").read_bytes())
    line = json.loads(after.split(b"\n")[(found.line or 0) - 1])
    asked: dict[str, object] = line["message"]["content"][0]["input"]
    return asked


def test_written_contents_leave_their_names(session: Session, tmp_path: Path) -> None:
    content = f"{numbered()}\nset APP_MODE for frame_ledger.load_bytes"
    session.use("Write", "ok", file_path="/src/a.py", content=content)
    session.use("Write", "ok", file_path="/src/b.py", content="short")
    session.rest()
    asked = input_after(session, tmp_path, "write-contents")
    assert asked["file_path"] == "/src/a.py"
    assert "APP_MODE, frame_ledger.load_bytes" in str(asked["content"])
    assert len(str(asked["content"])) < 1_000


def test_edits_keep_their_keys_and_path(session: Session, tmp_path: Path) -> None:
    edits = [
        {"old_string": numbered(), "new_string": "short"},
        {"old_string": "a", "new_string": numbered()},
    ]
    session.use("MultiEdit", "ok", file_path="/src/a.py", edits=edits)
    session.rest()
    asked = input_after(session, tmp_path, "edit-inputs")
    assert asked["file_path"] == "/src/a.py"
    after = asked["edits"]
    assert isinstance(after, list)
    assert [sorted(each) for each in after] == [["new_string", "old_string"]] * 2
    assert (after[0]["new_string"], after[1]["old_string"]) == ("short", "a")


def test_a_here_document_goes_and_its_command_stays(session: Session, tmp_path: Path) -> None:
    command = f"cat > /src/a.py <<'EOF'\n{numbered()}\nEOF\npython /src/a.py"
    session.use("Bash", "ok", command=command, description="write it")
    session.rest()
    asked = input_after(session, tmp_path, "heredocs")
    lines = str(asked["command"]).split("\n")
    assert lines[0] == "cat > /src/a.py <<'EOF'"
    assert lines[-2:] == ["EOF", "python /src/a.py"]
    assert len(lines) == 4


def test_a_long_prompt_of_an_agent_keeps_its_beginning(session: Session, tmp_path: Path) -> None:
    prompt = numbered(200)
    session.use("Agent", "ok", prompt=prompt, description="look", subagent_type="reviewer")
    session.rest()
    asked = input_after(session, tmp_path, "agent-prompts")
    assert str(asked["prompt"]).startswith(prompt[:KEPT_PROMPT_CHARS])
    assert asked["subagent_type"] == "reviewer"


def test_all_thoughts_go_whole_and_their_lines_with_them(tmp_path: Path) -> None:
    session = Session(NEWER)
    session.ask()
    session.use("Bash", "ok", thinking=True, command="make")
    session.use("Bash", "ok", thinking=True, command="make")
    session.say()
    (found,) = found_by("all-thinking", session, tmp_path)
    assert [each.line for each in found.edits if isinstance(each, RemoveLine)] == [2, 5]
    after = carried_out([found], session.write(tmp_path / "one.jsonl").read_bytes())
    lines = [json.loads(line) for line in after.splitlines()]
    there = {line["uuid"] for line in lines}
    assert all(line["parentUuid"] in there for line in lines[1:])
    assert b'"thinking"' not in after


def test_thoughts_stay_while_results_wait_for_the_model(tmp_path: Path) -> None:
    session = Session(NEWER)
    session.ask()
    session.use("Bash", "ok", thinking=True, command="make")
    assert found_by("all-thinking", session, tmp_path) == []


@pytest.mark.parametrize(
    ("model", "left"),
    [
        # None may be missing between two that stay.
        (NEWER, [3, 4, 5, 6]),
        ("claude-opus-4-6", [3, 6]),
    ],
)
def test_thoughts_go_but_for_those_whose_lines_must_stay(
    tmp_path: Path, model: str, left: list[int]
) -> None:
    session = Session(model)
    session.ask()
    for number in range(1, 9):
        session.use("Bash", "ok", thinking=True, command=f"make {number}")
    session.say()
    thoughts = [each for each in session.lines if "thinking" in json.dumps(each.get("message"))]
    kept = [thoughts[number - 1]["uuid"] for number in (3, 6)]
    # A copy that is the newest line for the client, and one that a compaction kept.
    session.add({"type": "last-prompt", "leafUuid": kept[0], "sessionId": "s"})
    path = session.write(tmp_path / "one.jsonl")
    with view_of(path) as view:
        lines = {each.line: "kept by a compaction" for each in view.entries if each.uuid == kept[1]}
        view.protected_lines = lines
        found = droppable_thinking(view)
    gone = {each.entry.uuid for each in found}
    stay = [n for n, each in enumerate(thoughts, 1) if each["uuid"] not in gone]
    assert stay == left


@pytest.mark.parametrize(
    ("model", "binds"),
    [
        ("claude-opus-4-6", False),
        ("claude-haiku-4-5-20251001", False),
        ("claude-3-7-sonnet-20250219", False),
        ("claude-opus-5-5", True),
        ("claude-fable-5-1", True),
        ("claude-something-new", True),
        (None, True),
    ],
)
def test_models_that_are_not_known_bind_their_thoughts(model: str | None, binds: bool) -> None:
    assert binds_thinking(model) is binds


def test_old_prose_keeps_what_was_decided(session: Session, tmp_path: Path) -> None:
    filler = "\n".join(
        f"Then I looked at part {n} of it and saw nothing new there." for n in range(60)
    )
    session.say(
        f"The frame_decoder.py is read.\n{filler}\n"
        "We decided to keep decode_bytes because it is fast."
    )
    session.rest()
    (found,) = found_by("old-prose", session, tmp_path)
    (edit,) = found.edits
    text = json.loads(edit.value)  # type: ignore[union-attr]
    assert text.startswith("The frame_decoder.py is read.\nWe decided to keep decode_bytes")


def test_output_in_a_persons_place_goes_and_their_words_stay(
    session: Session, tmp_path: Path
) -> None:
    session.ask(WORDS * 40)
    line = session.add(made.user(f"<bash-stdout>{numbered(90)}</bash-stdout>"))
    session.add(made.user(numbered(90), isMeta=True))
    session.say()
    session.rest()
    (found,) = found_by("long-pastes", session, tmp_path)
    assert found.line == line
    (edit,) = found.edits
    text = json.loads(edit.value)  # type: ignore[union-attr]
    assert text.startswith("<bash-stdout>")
    assert text.endswith("]</bash-stdout>")


def test_an_input_is_counted_as_its_line_holds_it(session: Session, tmp_path: Path) -> None:
    words = "Größe, Länge und Gewicht bleiben gleich. " * 40
    session.use("Write", file_path="/ä.py", content=words * 2, note="é " * 300)
    session.rest()
    path = session.write(tmp_path / "spaced.jsonl")
    lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    for text in (
        "".join(json.dumps(line) + "\n" for line in lines),
        "".join(
            json.dumps(line, ensure_ascii=False, separators=(",", ":")) + "\n" for line in lines
        ),
    ):
        path.write_text(text, encoding="utf-8")
        plan = plan_of(path, replace(SHORT, level=None, strategies=("write-contents",)))
        after = carried_out(plan.operations, path.read_bytes())
        freed = tokens_of(path.read_bytes(), tmp_path) - tokens_of(after, tmp_path)
        assert freed == plan.before_tokens - plan.after_tokens > 0


def test_thoughts_that_no_request_holds_are_not_offered(tmp_path: Path) -> None:
    session = Session(OLDER)
    session.ask("mend the decoder")
    for _ in range(3):
        session.use("Bash", "ok", thinking=True, command="make")
    session.say("Mended.")
    assert found_by("all-thinking", session, tmp_path) == []
