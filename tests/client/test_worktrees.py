"""A session that the client moves into a worktree, and out of it."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

import pytest
from ctxtop.collectors.terminal.session_resume import resume_folder

from .edits import write_edited
from .talks import path_of

if TYPE_CHECKING:
    from pathlib import Path

    from .lab import Lab
    from .ledger import Judge

ENTER = '[[tool:EnterWorktree|{"name":"side"}&&&usage:32000]]'
LEAVE = '[[tool:ExitWorktree|{"action":"remove"}&&&usage:35000]]'


def git(lab: Lab, *words: str) -> None:
    who = ("-c", "user.name=lab", "-c", "user.email=lab@localhost")
    subprocess.run(["git", *who, *words], cwd=lab.project, check=True, capture_output=True)


@pytest.fixture
def repository(lab: Lab) -> Lab:
    """A project with one commit, which a worktree needs."""
    lab.define_agent("worker")
    git(lab, "init", "-q")
    (lab.project / "a.txt").write_text("a\n")
    git(lab, "add", ".")
    git(lab, "commit", "-qm", "a")
    return lab


def test_agents_count_once_however_often_their_session_moves(repository: Lab, judge: Judge) -> None:
    built = "<<say:Built.+++usage:12000/9>>"
    turn = repository.turn(
        f"Do it. [[agent:worker|Build {built}&&&usage:30000]] [[say:Waiting.&&&usage:31000]]"
    )
    judge.turn(turn)
    began = folder(repository, turn.session_id)
    moved = repository.turn(
        f"Go aside. {ENTER} [[agent:worker|Build more {built}&&&usage:33000]]"
        " [[say:Waiting.&&&usage:34000]]",
        resume=turn.session_id,
    )
    judge.turn(moved)
    aside = folder(repository, turn.session_id)
    inside = repository.ctxtop()
    back = repository.turn(
        f"Come back. {LEAVE} [[say:Back.&&&usage:36000]]", resume=turn.session_id
    )
    judge.turn(back)
    after = repository.ctxtop()

    assert aside != began == folder(repository, turn.session_id)
    for view in (inside, after):
        assert len(view.agents) == len({agent.agent_id for agent in view.agents}) == 2
        assert view.sessions[turn.session_id].agents == 2
        assert view.troubles == []


def test_a_fork_of_a_session_whose_worktree_is_gone_resumes(repository: Lab) -> None:
    prompt = f"Go aside. {ENTER} [[say:There.&&&usage:33000]]"
    turn = repository.turn(prompt)
    inside = resume_folder(repository.ctxtop().sessions[turn.session_id])
    # Twice: the client locks the worktree that it works in.
    git(repository, "worktree", "remove", "-f", "-f", ".claude/worktrees/side")
    session = repository.ctxtop().sessions[turn.session_id]
    fork = write_edited(path_of(repository, turn.session_id), lambda lines: lines)
    resumed = repository.turn("Go on. [[say:Here.&&&usage:20000]]", resume=fork)

    assert inside == f"{repository.project}/.claude/worktrees/side"
    assert resume_folder(session) == str(repository.project)
    assert (resumed.code, resumed.session_id) == (0, fork)


def folder(lab: Lab, session_id: str) -> Path:
    """Find the project folder in which a session's transcript is now."""
    (path,) = lab.config.glob(f"projects/*/{session_id}.jsonl")
    return path.parent
