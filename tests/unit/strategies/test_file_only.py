"""Level 0: what only makes the file smaller, and changes nothing that is sent."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from ctxtop.core.compaction.strategies.files import BLANK_PNG

from tests import transcripts as made
from tests.planned import carried_out, found_by, view_of
from tests.worked import Session, numbered

if TYPE_CHECKING:
    from pathlib import Path

    from ctxtop.core.compaction.plan import Operation

LONG = numbered(120)
PICTURE = "iVBORw0KGgo" * 1_000


def after(found: list[Operation], session: Session, folder: Path) -> list[Any]:
    path = session.write(folder / "one.jsonl")
    with view_of(path) as view:
        sent = [(each.part.kind, each.digest) for each in view.blocks]
    data = carried_out(found, path.read_bytes())
    path.write_bytes(data)
    with view_of(path) as view:
        assert [(each.part.kind, each.digest) for each in view.blocks] == sent
    return [json.loads(line) for line in data.splitlines()]


def test_payloads_of_progress_go_and_the_lines_stay(session: Session, tmp_path: Path) -> None:
    line = session.add(made.chained("progress", data={"type": "bash_progress", "output": LONG}))
    session.rest()
    found = found_by("progress-payloads", session, tmp_path)
    assert [each.line for each in found] == [line]
    lines = after(found, session, tmp_path)
    assert lines[line - 1]["data"]["type"] == "bash_progress"
    assert len(lines[line - 1]["data"]["output"]) <= 80


@pytest.mark.parametrize(
    ("strategy", "line"),
    [
        ("file-history", {"type": "file-history-snapshot", "snapshot": {"files": {"/a.py": LONG}}}),
        ("attribution", {"type": "attribution-snapshot", "fileStates": {"/a.py": LONG}}),
        ("attribution", {"type": "queue-operation", "operation": "enqueue", "content": LONG}),
    ],
)
def test_bookkeeping_loses_its_long_texts(
    session: Session, tmp_path: Path, strategy: str, line: dict[str, Any]
) -> None:
    number = session.add(line)
    session.rest()
    assert [each.line for each in found_by(strategy, session, tmp_path)] == [number]


def test_details_of_results_keep_their_shape(session: Session, tmp_path: Path) -> None:
    details = {
        "filePath": "/a.py",
        "originalFile": LONG,
        "structuredPatch": [{"lines": [LONG, "x"]}],
    }
    _, line = session.use(
        "Edit", "ok", details=details, file_path="/a.py", old_string="a", new_string="b"
    )
    session.use("Agent", "ok", details={"agentId": "a1", "content": LONG}, prompt="look")
    session.use("TodoWrite", "ok", details={"newTodos": [], "text": LONG}, todos=[])
    session.rest()
    found = found_by("tool-details", session, tmp_path)
    assert [each.line for each in found] == [line]
    kept = after(found, session, tmp_path)[line - 1]["toolUseResult"]
    assert kept.keys() == details.keys()
    assert kept["filePath"] == "/a.py"
    assert kept["structuredPatch"][0]["lines"][1] == "x"


def test_before_a_boundary_a_persons_words_and_what_is_kept_stay(tmp_path: Path) -> None:
    session = Session()
    session.ask(LONG)
    _, gone = session.use("Bash", LONG, command="make")
    _, kept = session.use("Bash", LONG, command="make")
    uuid = session.lines[kept - 1]["uuid"]
    boundary = made.boundary(
        preservedMessages={"anchorUuid": "sum", "uuids": [uuid], "allUuids": [uuid]}
    )
    session.add(boundary)
    session.add(made.summary() | {"uuid": "sum"})
    session.say()
    session.rest()
    found = found_by("before-boundary", session, tmp_path)
    assert [each.line for each in found] == [gone]
    assert after(found, session, tmp_path)[0]["message"]["content"] == LONG


def test_the_second_copy_of_a_picture_becomes_a_dot(session: Session, tmp_path: Path) -> None:
    source = {"type": "base64", "media_type": "image/jpeg", "data": PICTURE}
    details = {"type": "image", "file": {"base64": PICTURE, "type": "image/jpeg"}}
    _, line = session.use(
        "Read", [{"type": "image", "source": source}], details=details, file_path="/a.jpg"
    )
    session.rest()
    found = found_by("second-images", session, tmp_path)
    assert [each.line for each in found] == [line]
    (changed,) = [each for each in after(found, session, tmp_path) if each.get("toolUseResult")]
    assert changed["toolUseResult"]["file"] == {"base64": BLANK_PNG, "type": "image/png"}
    assert changed["message"]["content"][0]["content"][0]["source"]["data"] == PICTURE
