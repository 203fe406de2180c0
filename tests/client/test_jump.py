"""Going to the real client's pane, and opening its session again in tmux."""

from __future__ import annotations

import json
import os
import pty
import shlex
import shutil
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest
from ctxtop.collectors.locations.discover import ClaudeFolder
from ctxtop.collectors.terminal.session_jump import ElsewhereError, NoTerminalError, jump_to_session
from ctxtop.collectors.terminal.session_resume import (
    NotResumedError,
    ResumeFailure,
    ResumePlace,
    ResumePlan,
    plan_resume,
    resume_in_tmux,
)
from ctxtop.collectors.terminal.tmux_panes import find_pane

from .lab import SMALL
from .screen import Screen

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .lab import Json, Lab
    from .namespace import Ended

pytestmark = pytest.mark.usefixtures("terminal")

HELLO = "Hi. [[say:ok&&&usage:21000]]"
PANE = "#{pane_id}"


def folder_of(lab: Lab) -> ClaudeFolder:
    return ClaudeFolder(lab.config.resolve())


def pane_environment(screen: Screen, *command: str) -> dict[str, str]:
    """Open a pane that stands for ctxtop's own, and return its part of the environment."""
    pane = screen._tmux(*command, "-d", "-P", "-F", PANE, "sleep", "600").strip()
    assert pane.startswith("%")
    return {"TMUX": f"{screen._socket},1,0", "TMUX_PANE": pane}


def shown_pane(screen: Screen, session: str = "lab") -> str:
    return screen._tmux("display-message", "-p", "-t", f"{session}:", PANE).strip()


@contextmanager
def attached(screen: Screen, session: str) -> Iterator[None]:
    """Attach a terminal to a tmux session, as a person does."""
    leader, follower = pty.openpty()
    child = subprocess.Popen(
        ["tmux", "-S", screen._socket, "attach", "-t", session],
        stdin=follower,
        stdout=follower,
        stderr=follower,
        env={"TERM": "xterm-256color", "PATH": os.environ["PATH"], "LANG": "C.UTF-8"},
        start_new_session=True,
    )
    os.close(follower)
    try:
        screen.until(lambda: session in clients(screen), "the attached terminal")
        yield
    finally:
        screen._tmux("detach-client", "-a")
        child.terminate()
        child.wait(10)
        os.close(leader)


def clients(screen: Screen) -> list[str]:
    return screen._tmux("list-clients", "-F", "#{client_session}").split()


def ctxtop(lab: Lab, *words: str) -> Ended:
    argv = [sys.executable, "-m", "ctxtop", *words]
    argv += ["--config-dir", str(lab.config), "--db", str(lab.store)]
    return lab.namespace.run(argv, lab.root, lab.env, 60.0)


def test_the_session_s_pane_is_selected(lab: Lab) -> None:
    screen = lab.interactive()
    session_id, client = screen.session_id, shown_pane(screen)
    window = pane_environment(screen, "new-window", "-t", "lab:")
    screen._tmux("select-window", "-t", window["TMUX_PANE"])
    assert shown_pane(screen) != client
    assert jump_to_session(folder_of(lab), session_id, window) == "lab:0.0"
    assert shown_pane(screen) == client
    pane = pane_environment(screen, "split-window", "-t", client)
    screen._tmux("select-pane", "-t", pane["TMUX_PANE"])
    jump_to_session(folder_of(lab), session_id, pane)
    assert shown_pane(screen) == client


def test_another_tmux_session_is_switched_to_and_elsewhere_is_named(lab: Lab) -> None:
    screen = lab.interactive()
    own = pane_environment(screen, "new-session", "-s", "mine")
    with attached(screen, "mine"):
        jump_to_session(folder_of(lab), screen.session_id, own)
        screen.until(lambda: clients(screen) == ["lab"], "the switch")
    with pytest.raises(ElsewhereError, match=r"it is in the tmux pane lab:0\.0: tmux -S") as error:
        jump_to_session(folder_of(lab), screen.session_id, {})
    assert error.value.command == f"tmux -S {screen._socket} attach -t lab:0.0"


@pytest.mark.skipif(shutil.which("script") is None, reason="there is no `script`")
def test_a_client_inside_script_is_found_in_the_pane_around_it(lab: Lab) -> None:
    client = shlex.join([str(lab.client), "--model", SMALL, "--permission-mode", "default"])
    screen = Screen(lab, ["script", "-qefc", client, "/dev/null"], "lab")
    try:
        session_id, pane = screen.session_id, shown_pane(screen)
        window = pane_environment(screen, "new-window", "-t", "lab:")
        screen._tmux("select-window", "-t", window["TMUX_PANE"])
        assert shown_pane(screen) != pane
        assert jump_to_session(folder_of(lab), session_id, window) == "lab:0.0"
        assert shown_pane(screen) == pane
        assert find_pane(screen.entry()["pid"]) is None, "no key is sent there"
    finally:
        # `script` and what is in it live on when their terminal is closed.
        if client_pid := screen.entry().get("pid"):
            os.kill(client_pid, signal.SIGKILL)
        screen.close()


def test_a_session_without_a_terminal_is_named(lab: Lab) -> None:
    turn = lab.turn(HELLO)
    with pytest.raises(NoTerminalError, match="it is not open in Claude Code"):
        jump_to_session(folder_of(lab), turn.session_id, {})


def plan_of(lab: Lab, session_id: str) -> ResumePlan:
    # What was written a moment ago may still be written to.
    later_ms = 600_000
    return plan_resume(folder_of(lab), lab.ctxtop(later_ms=later_ms).sessions[session_id])


def test_a_closed_session_opens_again_in_a_new_window(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    tools = lab.root / "bin"
    tools.mkdir()
    (tools / "claude").symlink_to(lab.client)
    monkeypatch.setenv("PATH", f"{tools}:{os.environ['PATH']}")
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(lab.root / "default"))
    screen = lab.interactive()
    own = pane_environment(screen, "new-window", "-t", "lab:")
    screen.ask(HELLO)
    session_id = screen.session_id
    with pytest.raises(NotResumedError, match="it is open in process") as error:
        plan_of(lab, session_id)
    assert error.value.failure is ResumeFailure.LIVE
    ended = ctxtop(lab, "resume", session_id, "--print")
    assert (ended.code, "it is open in process" in ended.err) == (3, True)
    screen.leave()
    plan = plan_of(lab, session_id)
    assert plan.folder == str(lab.project)
    address = resume_in_tmux(plan, ResumePlace.WINDOW, own)
    screen.until(lambda: bool(screen.entry()), "the registry's entry")
    entry: Json = screen.entry()
    assert (entry["sessionId"], entry["cwd"]) == (session_id, str(lab.project))
    pane = screen._tmux("display-message", "-p", "-t", address, PANE).strip()
    assert entry["tmux"].endswith(pane)
    screen.until(lambda: "ok" in screen._tmux("capture-pane", "-p", "-t", pane), "the messages")
    screen._tmux("kill-pane", "-t", pane)
    screen.until(lambda: not screen.entry(), "the end")
    # And beside ctxtop.
    address = resume_in_tmux(plan, ResumePlace.SPLIT, own)
    window = screen._tmux("display-message", "-p", "-t", own["TMUX_PANE"], "#{window_index}")
    assert address.startswith(f"lab:{window.strip()}.")
    screen.until(lambda: screen.entry().get("sessionId") == session_id, "the session")


def test_the_command_resumes_what_is_closed(lab: Lab) -> None:
    turn = lab.turn(HELLO)
    (path,) = lab.config.glob(f"projects/*/{turn.session_id}.jsonl")
    end = time.monotonic() + 30
    while (ended := ctxtop(lab, "resume", turn.session_id, "--print", "--json")).code == 3:
        assert time.monotonic() < end
        time.sleep(1)
    assert ended.code == 0, ended.err
    said = json.loads(ended.out)
    assert said["folder"] == str(lab.project)
    assert said["command"] == f"cd {lab.project} && claude --resume {turn.session_id}"
    assert path.exists()
    assert ctxtop(lab, "resume", turn.session_id).code == 2
    assert ctxtop(lab, "resume", turn.session_id, "--tmux", "window").code == 2
    lab.project.rename(lab.root / "moved")
    ended = ctxtop(lab, "resume", turn.session_id, "--print")
    assert (ended.code, "no longer exists" in ended.err) == (1, True)
