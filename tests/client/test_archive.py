"""What the real client (2.1.329) deletes by its age, and what the archive brings back.

| written last, days ago | after a start that lasts more than five seconds |
|---|---|
| transcript 40, its folder 40 | all of it is gone |
| transcript 40, its folder 1 | all of it is gone: the folder goes with its transcript |
| transcript 1, its folder 40 | stays, but for `tool-results`, which go by their own age |
| transcript 29 | stays |
| file-history, debug, tasks, session-env 40 | gone, each by its own age |
| a transcript of another project, 40 | gone |
| transcript 10, `cleanupPeriodDays` 5 in this project's settings | gone, in every project |

The lines' own times do not count: all of these copies were written today. `.last-cleanup` keeps
the client from it for a day.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
import uuid
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final

import pytest

from .wire import blocks_sent

if TYPE_CHECKING:
    from pathlib import Path

    from .lab import Lab

SAID: Final = "The zebra has 44 stripes."
LONG_TURN: Final = "[[pause:1.6&&&say:Done.]]"
"""Six pauses: the sweep begins five seconds after the client's start."""

FOLDERS: Final = ("file-history", "tasks", "session-env")


class Aged:
    """Copies of a real session under ids of their own, as old as a test wants them."""

    def __init__(self, lab: Lab) -> None:
        self.lab = lab
        turn = lab.turn(f"[[bash:seq 1 5]] [[say:{SAID}]]")
        assert turn.code == 0, turn.err
        self.origin = turn.session_id
        (self.path,) = lab.config.glob(f"projects/*/{turn.session_id}.jsonl")

    def copy(self, days: float, side_days: float, project: str | None = None) -> str:
        """Put a copy on the disk with a folder of its own, last written so long ago."""
        session_id = str(uuid.uuid4())
        folder = self.path.parent if project is None else self.path.parent.parent / project
        folder.mkdir(exist_ok=True)
        path = folder / f"{session_id}.jsonl"
        path.write_bytes(self.path.read_bytes().replace(self.origin.encode(), session_id.encode()))
        agent = "subagents/agent-a1234567890123456.jsonl"
        side = [path.with_suffix("") / name for name in (agent, "tool-results/r.txt")]
        side += [self.lab.config / each / session_id / "x" for each in FOLDERS]
        for each in side:
            each.parent.mkdir(parents=True, exist_ok=True)
            each.write_text('{"type":"x"}\n')
            _age(each, side_days)
            _age(each.parent, side_days)
        _age(path, days)
        return session_id

    def left(self, session_id: str) -> set[str]:
        """What is left of a session in the client's folder."""
        files = (path for path in self.lab.config.rglob("*") if path.is_file())
        places = (path.relative_to(self.lab.config).as_posix() for path in files)
        named = (place.partition(session_id) for place in places if session_id in place)
        return {
            name.strip("/") if before.startswith("projects/") else before.strip("/")
            for before, _, name in named
        }

    def sweep(self) -> None:
        turn = self.lab.turn(LONG_TURN)
        assert turn.code == 0, turn.err
        assert (self.lab.config / ".last-cleanup").exists()

    def hashes(self, session_id: str) -> dict[str, str]:
        """The hashes of a session's files below projects/."""
        paths = (self.lab.config / "projects").rglob("*")
        return {
            str(path): sha256(path.read_bytes()).hexdigest()
            for path in paths
            if path.is_file() and session_id in str(path)
        }


def _age(path: Path, days: float) -> None:
    at = time.time() - days * 86_400
    os.utime(path, (at, at))


WHOLE: Final = {
    ".jsonl",
    "subagents/agent-a1234567890123456.jsonl",
    "tool-results/r.txt",
    *FOLDERS,
}


@pytest.fixture
def aged(lab: Lab) -> Aged:
    return Aged(lab)


def ctxtop(lab: Lab, *words: str, mode: str = "all") -> tuple[int, Any]:
    places = ["--config-dir", str(lab.config), "--db", str(lab.store)]
    argv = [sys.executable, "-P", "-m", "ctxtop", *words, "--json", *places]
    env = os.environ | {"HOME": str(lab.root / "home"), "CTXTOP_POLICY_archive__mode": mode}
    done = subprocess.run(argv, capture_output=True, text=True, check=False, env=env)
    return done.returncode, json.loads(done.stdout) if done.stdout else done.stderr


def test_what_the_client_deletes(aged: Aged) -> None:
    both, new_folder, new_file = aged.copy(40, 40), aged.copy(40, 1), aged.copy(1, 40)
    young, elsewhere = aged.copy(29, 29), aged.copy(40, 40, "-some-other")
    assert aged.left(both) == WHOLE
    aged.sweep()
    assert aged.left(both) == set()
    assert aged.left(elsewhere) == set()
    assert aged.left(new_folder) == {*FOLDERS}
    assert aged.left(new_file) == {".jsonl", "subagents/agent-a1234567890123456.jsonl"}
    assert aged.left(young) == WHOLE
    # The next sweep comes after a day.
    late = aged.copy(40, 40)
    aged.sweep()
    assert aged.left(late) == WHOLE


def test_a_projects_setting_deletes_in_every_project(aged: Aged) -> None:
    settings = aged.lab.project / ".claude" / "settings.json"
    settings.parent.mkdir()
    settings.write_text('{"cleanupPeriodDays": 5}')
    here, elsewhere = aged.copy(10, 10), aged.copy(10, 10, "-some-other")
    young = aged.copy(4, 4)
    _, listed = ctxtop(aged.lab, "sessions", mode="off")
    days = {each["session_id"]: each["days_left"] for each in listed}
    assert (days[here], days[elsewhere], days[young]) == (0, 0, 0)
    aged.sweep()
    assert aged.left(here) == aged.left(elsewhere) == set()
    assert aged.left(young) == WHOLE


def test_a_swept_session_is_restored_and_resumed(aged: Aged) -> None:
    session_id = aged.copy(40, 40)
    before = aged.hashes(session_id)
    assert len(before) == 3
    code, archived = ctxtop(aged.lab, "archive")
    assert code == 0
    # The scan before it may have archived it already.
    assert archived["archive_bytes"] > 0
    aged.sweep()
    assert aged.left(session_id) == set()
    _, listed = ctxtop(aged.lab, "sessions")
    (gone,) = [each for each in listed if each["session_id"] == session_id]
    assert (gone["status"], gone["archived"], gone["days_left"]) == ("archived", "all", None)
    _, hits = ctxtop(aged.lab, "search", "zebra")
    assert session_id in json.dumps(hits)
    code, restored = ctxtop(aged.lab, "archive", "restore", session_id[:13])
    assert code == 0
    assert len(restored["restored"]) == 3
    assert aged.hashes(session_id) == before
    # It is as good as new: the next sweep leaves it.
    (aged.lab.config / ".last-cleanup").unlink()
    aged.sweep()
    assert aged.hashes(session_id) == before
    turn = aged.lab.turn("[[say:Still here.]]", resume=session_id)
    assert turn.code == 0, turn.err
    assert turn.session_id == session_id
    sent = "\n".join(blocks_sent(turn.exchanges[-1]["body"]))
    assert SAID in sent
    assert "seq 1 5" in sent
    # Now the file differs from the archived one.
    code, _ = ctxtop(aged.lab, "archive", "restore", session_id)
    assert code == 4


def test_a_session_is_swept_for_good_where_the_mode_is_off(aged: Aged) -> None:
    session_id = aged.copy(40, 40)
    ctxtop(aged.lab, "sessions", mode="off")
    aged.sweep()
    _, listed = ctxtop(aged.lab, "sessions", mode="off")
    (gone,) = [each for each in listed if each["session_id"] == session_id]
    assert gone["status"] == "gone"
    assert not [*aged.lab.store.parent.rglob("archive")]
