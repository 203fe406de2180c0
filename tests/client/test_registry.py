"""What the real client's registry tells: who has not begun, who has ended, who is there twice."""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from typing import TYPE_CHECKING

import pytest
from ctxtop.collectors.claude_code.registry import linux_stat_field
from ctxtop.core.model.session import SessionStatus

from .lab import SMALL

if TYPE_CHECKING:
    from .lab import Json, Lab
    from .namespace import Ended

TOO_LONG = "[[error:400 prompt is too long: 210000 tokens > 200000 maximum]]"


def ctxtop(lab: Lab, *words: str) -> Ended:
    """Run a command where the client runs."""
    argv = [sys.executable, "-m", "ctxtop", *words]
    argv += ["--config-dir", str(lab.config), "--db", str(lab.store), "--json"]
    tools = lab.root / "bin"
    if not tools.exists():
        tools.mkdir()
        (tools / "claude").symlink_to(lab.client)
    env = lab.env | {"PATH": f"{tools}:{lab.env['PATH']}"}
    return lab.namespace.run(argv, lab.root, env, 120.0)


def listed(lab: Lab) -> dict[str, Json]:
    return {each["session_id"]: each for each in json.loads(ctxtop(lab, "sessions").out)}


@pytest.mark.usefixtures("terminal")
def test_a_client_is_listed_before_its_first_prompt_and_has_ended_as_soon_as_it_is_left(
    lab: Lab,
) -> None:
    screen = lab.interactive()
    new = screen.session_id
    found = listed(lab)[new]
    assert (found["live"], found["context_tokens"]) == (True, None)
    assert found["project"] == lab.project.name
    screen.ask("Begin. [[bash:seq 1 3&&&usage:21000]] [[say:ok&&&usage:52000/12]]")
    assert listed(lab)[new]["context_tokens"] == 52_000
    screen.leave()
    assert listed(lab)[new]["status"] == SessionStatus.ENDED
    # Nobody waits until the transcript is two minutes old.
    asked = ctxtop(lab, "compact", new, "--level", "8", "--keep", "0", "--apply", "--in-place")
    assert "idle" not in asked.err
    assert "was written" not in asked.err
    done = ctxtop(lab, "trigger", new)
    assert done.code == 0, done.err
    assert json.loads(done.out)["via"] == "cli"


@pytest.mark.usefixtures("terminal")
@pytest.mark.skipif(sys.platform != "linux", reason="the client names a domain in Linux only")
def test_a_client_that_was_killed_has_ended_and_can_be_resumed_at_once(lab: Lab) -> None:
    screen = lab.interactive()
    screen.ask("Begin. [[bash:seq 1 3&&&usage:21000]] [[say:ok&&&usage:52000/12]]")
    session_id, entry = screen.session_id, screen.entry()
    screen.type(f"Go on. [[held:{lab.go}&&&say:late]]")
    screen.until_status("busy")
    os.kill(entry["pid"], signal.SIGKILL)
    deadline = time.monotonic() + 10
    while linux_stat_field(entry["pid"], 22) is not None and time.monotonic() < deadline:
        time.sleep(0.1)
    assert [*lab.config.glob("sessions/*.json")], "the client left its entry"
    assert listed(lab)[session_id]["status"] == SessionStatus.ENDED
    done = ctxtop(lab, "trigger", session_id)
    assert done.code == 0, done.err
    assert json.loads(done.out)["via"] == "cli"


@pytest.mark.usefixtures("terminal")
def test_two_clients_in_one_session_are_told(lab: Lab) -> None:
    first = lab.turn("Begin. [[say:ok&&&usage:21000]]")
    one = lab.interactive("--resume", first.session_id)
    pids = {one.entry()["pid"]}
    entry = next(lab.config.glob("sessions/*.json"))
    # The second client's entry, in the name of another process that is alive: the terminal's.
    said = json.loads(entry.read_text(encoding="utf-8"))
    other = one._server
    del said["procStart"]
    entry.with_name(f"{other}.json").write_text(json.dumps(said | {"pid": other}), "utf-8")
    ended = ctxtop(lab, "trigger", first.session_id)
    assert ended.code == 3
    for pid in (*pids, other):
        assert str(pid) in ended.err


def test_a_fork_of_the_command_line_names_its_parent(lab: Lab) -> None:
    first = lab.turn("Begin. [[say:ok]]")
    fork = lab.turn("Fork. [[say:on]]", resume=first.session_id, more=("--fork-session",))
    found = listed(lab)
    assert found[first.session_id]["forked_from"] is None
    assert found[fork.session_id]["forked_from"] == first.session_id


def test_a_mended_fork_is_not_stuck_and_is_not_mended_again(lab: Lab) -> None:
    lab.write_settings({"autoCompactEnabled": False})
    (lab.project / "long.txt").write_text("nothing that matters here\n" * 1000, encoding="utf-8")
    calls = " ".join(["[[bash:cat long.txt]]"] * 12)
    session_id = lab.turn(f"Read. {calls} {TOO_LONG}", model=SMALL).session_id
    assert listed(lab)[session_id]["status"] == SessionStatus.TOO_LONG
    done = ctxtop(lab, "recover", session_id, "--apply")
    assert done.code == 0, done.err
    fork = json.loads(done.out)["receipt"]["new_session_id"]
    found = listed(lab)[fork]
    assert found["status"] == SessionStatus.ENDED
    assert found["forked_from"] == session_id
    assert ctxtop(lab, "recover", fork, "--apply").code == 2
    lab.turn("Go on. [[say:done]]", resume=fork)
    assert listed(lab)[fork]["status"] == SessionStatus.ENDED
