"""A session is resumed in its folder only, whatever that folder is called; tmux runs no name."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import time
from typing import TYPE_CHECKING

import pytest
from ctxtop.collectors.session_target import run_folder
from ctxtop.collectors.terminal.session_jump import NoTerminalError, jump_to_session
from ctxtop.collectors.terminal.session_resume import (
    NotResumedError,
    ResumeFailure,
    ResumePlace,
    ResumePlan,
    plan_resume,
    resume_in_tmux,
)
from ctxtop.collectors.terminal.tmux_panes import TmuxPane, own_pane
from ctxtop.core.transcript.sanitize import reveal_line, sanitize_path, sanitize_title
from msgspec.structs import replace

from ..transcripts import PROJECT, SESSION
from ..tui.makers import session

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from ctxtop.collectors.locations.discover import ClaudeFolder
    from ctxtop.core.model.session import Session

HOSTILE = "it's #(touch pwned) #{pane_id} #[x] $(touch pwned) \"; \\;"
SOON_S = 15.0


@pytest.fixture
def closed(tmp_path: Path) -> Session:
    folder = tmp_path / HOSTILE
    folder.mkdir()
    path = f"{PROJECT}/{SESSION}.jsonl"
    return replace(
        session(),
        session_id=SESSION,
        path=path,
        cwd=str(folder),
        project_root=str(folder),
        live=False,
    )


@pytest.fixture
def ran(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """What the stand-in for the client writes: its folder, its words, its config folder."""
    tools, ran = tmp_path / "tools", tmp_path / "ran"
    tools.mkdir()
    program = tools / "claude"
    program.write_text(
        "#!/bin/sh\n"
        f'printf "%s|%s|%s" "$PWD" "$*" "$CLAUDE_CONFIG_DIR" > {ran}.part\n'
        f"mv {ran}.part {ran}\nsleep 60\n",
        encoding="utf-8",
    )
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tools}:{os.environ['PATH']}")
    return ran


@pytest.fixture
def tmux(tmp_path: Path) -> Iterator[dict[str, str]]:
    """A tmux server of its own; the environment of a pane in it."""
    program = shutil.which("tmux")
    if program is None:
        pytest.skip("there is no `tmux`")
    socket = str(tmp_path / "s")
    command = [program, "-S", socket, "-f", os.devnull]
    env = {"PATH": os.environ["PATH"], "TERM": "xterm", "LANG": "C.UTF-8"}
    start = [*command, "new-session", "-d", "-P", "-F", "#{pane_id}", "-x", "200", "sleep", "600"]
    pane = subprocess.run(start, env=env, check=True, capture_output=True, text=True).stdout
    yield {"TMUX": f"{socket},1,0", "TMUX_PANE": pane.strip()}
    subprocess.run([*command, "kill-server"], check=True, env=env)


@pytest.mark.parametrize("place", list(ResumePlace))
def test_tmux_starts_the_client_in_the_folder_and_nothing_else(
    closed: Session, claude: ClaudeFolder, tmux: dict[str, str], ran: Path, place: ResumePlace
) -> None:
    plan = plan_resume(claude, closed)
    assert resume_in_tmux(plan, place, tmux).count(":") == 1
    end = time.monotonic() + SOON_S
    while not ran.exists() and time.monotonic() < end:
        time.sleep(0.05)
    words = f"{closed.cwd}|--resume {SESSION}|{claude.root}"
    assert ran.read_text(encoding="utf-8") == words
    assert not list(ran.parent.rglob("pwned"))


def test_the_command_survives_a_shell(
    closed: Session, claude: ClaudeFolder, ran: Path, tmp_path: Path
) -> None:
    command = plan_resume(claude, closed).command
    assert shlex.split(command)[:3] == ["cd", closed.cwd, "&&"]
    shell = ["sh", "-c", f"{command} & sleep 2; kill $!"]
    subprocess.run(shell, cwd=tmp_path, check=False, env={"PATH": os.environ["PATH"]})
    assert ran.read_text(encoding="utf-8") == f"{closed.cwd}|--resume {SESSION}|{claude.root}"
    assert not list(tmp_path.rglob("pwned"))


ODD_NAMES = ["a\nb", "a\u202eb", "a\x1b[31mb", "a\tb\u200b"]


@pytest.mark.parametrize("name", ODD_NAMES)
def test_a_folder_with_an_odd_name_is_the_one_that_is_resumed(
    closed: Session, claude: ClaudeFolder, tmp_path: Path, name: str
) -> None:
    """The folder that the name would be without these characters is another one."""
    real = tmp_path / name
    for other in (name, sanitize_title(name), "ab", "a b"):
        (tmp_path / other).mkdir(exist_ok=True)
    stored = sanitize_path(str(real))
    of = replace(closed, cwd=stored, project_root=stored)
    plan = plan_resume(claude, of)
    assert plan.folder == str(real)
    assert run_folder(of) == str(real)
    # The command that is copied goes there too, and has nothing that a screen does not show.
    assert reveal_line(plan.command) == plan.command
    command = plan.command.partition(" && ")[0] + " && pwd -P"
    shell = shutil.which("bash")
    assert shell is not None
    ended = subprocess.run([shell, "-c", command], capture_output=True, check=True)
    assert ended.stdout == os.fsencode(real) + b"\n"


def test_two_folders_that_are_stored_alike_are_not_resumed(
    closed: Session, claude: ClaudeFolder, tmp_path: Path
) -> None:
    for name in ("a\nb", "a<U+000A>b"):
        (tmp_path / name).mkdir()
    stored = str(tmp_path / "a<U+000A>b")
    of = replace(closed, cwd=stored, project_root=stored)
    failure, why = refused(claude, of)
    assert failure is ResumeFailure.FAILED
    assert "is unknown" in why
    assert run_folder(of) is None


def test_a_folder_that_looks_like_a_stored_one_is_itself(
    closed: Session, claude: ClaudeFolder, tmp_path: Path
) -> None:
    folder = tmp_path / "a<U+000A>b"
    folder.mkdir()
    of = replace(closed, cwd=str(folder), project_root=str(folder))
    assert plan_resume(claude, of).folder == str(folder)


def refused(folder: ClaudeFolder, of: Session) -> tuple[ResumeFailure, str]:
    with pytest.raises(NotResumedError) as error:
        plan_resume(folder, of)
    return error.value.failure, str(error.value)


def test_what_cannot_be_resumed(closed: Session, claude: ClaudeFolder, tmp_path: Path) -> None:
    gone = replace(closed, cwd="/gone", project_root="/gone")
    assert refused(claude, gone) == (
        ResumeFailure.FAILED,
        "its folder /gone no longer exists, and Claude Code can resume it only there",
    )
    unknown = replace(closed, cwd=None, project_root=None)
    assert "is unknown" in refused(claude, unknown)[1]
    assert refused(claude, replace(closed, live=True))[0] is ResumeFailure.LIVE
    assert refused(claude, replace(closed, session_id="x; rm -rf /"))[0] is ResumeFailure.NOTHING
    assert refused(claude, replace(closed, path=""))[0] is ResumeFailure.NOTHING
    claude.sessions.mkdir(parents=True)
    entry = {"pid": os.getpid(), "sessionId": SESSION, "status": "idle"}
    (claude.sessions / "1.json").write_text(json.dumps(entry), encoding="utf-8")
    failure, why = refused(claude, closed)
    assert (failure, f"process {os.getpid()}" in why) == (ResumeFailure.LIVE, True)
    with pytest.raises(NoTerminalError, match="not in one of your tmux panes: look at process"):
        jump_to_session(claude, SESSION, {})


def test_outside_of_tmux_there_is_no_window(ran: Path, tmp_path: Path) -> None:
    plan = ResumePlan(SESSION, str(tmp_path), None)
    with pytest.raises(NotResumedError, match="is not running in tmux: run cd"):
        resume_in_tmux(plan, ResumePlace.WINDOW, {})
    assert not ran.exists()


@pytest.mark.parametrize(
    "environ",
    [
        {},
        {"TMUX": "/none,1,0", "TMUX_PANE": "%0"},
        {"TMUX": "", "TMUX_PANE": "%0"},
        {"TMUX": "/dev/null,1,0", "TMUX_PANE": "%0"},
    ],
)
def test_what_is_no_pane_of_ours(environ: dict[str, str]) -> None:
    assert own_pane(environ) is None


def test_our_pane_is_in_the_environment(tmux: dict[str, str]) -> None:
    socket = tmux["TMUX"].partition(",")[0]
    assert own_pane(tmux) == TmuxPane(socket, tmux["TMUX_PANE"])
