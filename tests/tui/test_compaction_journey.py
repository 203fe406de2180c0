"""One journey with the installed command: looked at, forked, taken back, in place, taken back."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests import transcripts as made
from tests.sessions_on_disk import rest
from tests.worked import WORDS, Session, numbered

COMMAND = Path(sys.executable).with_name("ctxtop")
LEVEL = ("--level", "4")


@pytest.fixture
def transcript(tmp_path: Path) -> Path:
    """A session long at rest."""
    session = Session()
    session.ask("Mend the decoder — “ünï” \u2028 now. Never push.")
    for number in range(20):
        session.use("Read", numbered(90, words=f"{WORDS} {number}"), file_path=f"/s/{number}.py")
        session.use("Write", "written", file_path=f"/n/{number}.py", content=numbered(30))
    session.rest(20)
    path = session.write(tmp_path / "claude" / "projects" / made.PROJECT / f"{made.SESSION}.jsonl")
    rest(path)
    return path


def ctxtop(home: Path, *words: str) -> Any:  # noqa: ANN401 -- any JSON
    """Run the command, and read its JSON."""
    own = {
        "PATH": os.environ["PATH"],
        "HOME": str(home),
        "XDG_STATE_HOME": str(home / "state"),
        "CTXTOP_CONFIG_DIR": str(home / "claude"),
    }
    ended = subprocess.run(
        [COMMAND, *words, "--json"], env=own, cwd=home, capture_output=True, check=False
    )
    assert ended.returncode == 0, ended.stderr.decode()
    return json.loads(ended.stdout)


def test_from_the_first_look_to_the_bytes_of_the_beginning(
    tmp_path: Path, transcript: Path
) -> None:
    before = transcript.read_bytes()
    plan = ctxtop(tmp_path, "compact", made.SESSION[:8], *LEVEL)
    explained = ctxtop(tmp_path, "compact", made.SESSION, *LEVEL, "--explain", "2")
    assert explained["plan_id"] == plan["plan_id"]
    assert explained["what"] == plan["operations"][1]["what"]

    fork = ctxtop(tmp_path, "compact", made.SESSION, *LEVEL, "--apply")
    forked = transcript.with_name(f"{fork['new_session_id']}.jsonl")
    assert transcript.read_bytes() == before
    assert forked.stat().st_size < len(before) / 2
    (listed,) = ctxtop(tmp_path, "history")
    assert (listed["receipt_id"], listed["plan_id"]) == (fork["receipt_id"], plan["plan_id"])
    sessions = {each["session_id"]: each for each in ctxtop(tmp_path, "sessions")}
    assert sessions[forked.stem]["forked_from"] == made.SESSION
    assert sessions[made.SESSION]["forked_from"] is None
    undone = ctxtop(tmp_path, "undo", fork["receipt_id"])
    assert undone["undone"] == [each["op"] for each in plan["operations"]]
    assert texts(forked) == texts(transcript)

    place = ctxtop(tmp_path, "compact", made.SESSION, *LEVEL, "--apply", "--in-place")
    assert place["new_session_id"] is None
    assert len(transcript.read_bytes()) == plan["bytes_after"]
    ctxtop(tmp_path, "undo", place["receipt_id"], "--op", "2")
    line = transcript.read_bytes().split(b"\n")[plan["operations"][1]["line"] - 1]
    assert line == before.split(b"\n")[plan["operations"][1]["line"] - 1]
    one = ctxtop(tmp_path, "history", place["receipt_id"])
    assert [each["op"] for each in one["operations"] if each["undone"]] == [2]
    ctxtop(tmp_path, "undo", place["receipt_id"])
    assert transcript.read_bytes() == before
    states = [each["state"] for each in ctxtop(tmp_path, "history")]
    assert states == ["undone", "undone"]


def texts(path: Path) -> list[object]:
    """What its lines say, whoever's they are."""
    lines = [json.loads(line) for line in path.read_text(encoding="utf-8").split("\n")[:-1]]
    return [line["message"]["content"] for line in lines if "message" in line]
