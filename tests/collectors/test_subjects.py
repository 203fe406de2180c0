"""Where a session is resumed, and who looks after it meanwhile."""

from __future__ import annotations

import subprocess
from contextlib import closing
from typing import TYPE_CHECKING

import pytest
from ctxtop.collectors.demo.demo_transcript import project_slug
from ctxtop.collectors.session_target import run_folder
from ctxtop.collectors.terminal.session_resume import resume_folder
from ctxtop.core.readers.fleet_reader import read_sessions
from ctxtop.core.store.database import open_reader
from msgspec.structs import replace

from ..transcripts import SESSION, START_MS, user, write

if TYPE_CHECKING:
    from pathlib import Path

    from ctxtop.collectors.collector_thread import Collector
    from ctxtop.collectors.locations.discover import ClaudeFolder
    from ctxtop.core.model.session import Session


@pytest.fixture
def moved(claude: ClaudeFolder, collector: Collector, store: Path, tmp_path: Path) -> Session:
    """A session that began in a project, and works in a worktree, and there in a subfolder."""
    project, worktree = tmp_path / "project", tmp_path / "project/.claude/worktrees/side"
    (worktree / "src").mkdir(parents=True)
    folders = (project, worktree, worktree / "src")
    lines = [user(at=at) | {"cwd": str(folder)} for at, folder in enumerate(folders)]
    write(claude.projects / project_slug(str(worktree)) / f"{SESSION}.jsonl", lines)
    collector.scan()
    with closing(open_reader(store)) as db:
        (found,) = read_sessions(db, START_MS)
        return found


def test_a_session_resumes_in_the_worktree_that_its_transcript_is_named_after(
    moved: Session, tmp_path: Path
) -> None:
    assert resume_folder(moved) == str(tmp_path / "project/.claude/worktrees/side")


def test_it_resumes_where_it_began_once_the_worktree_is_gone(
    moved: Session, tmp_path: Path
) -> None:
    (tmp_path / "project/.claude").rename(tmp_path / "elsewhere")

    assert resume_folder(moved) == str(tmp_path / "project")


def test_a_folder_that_is_gone_is_still_named(moved: Session, tmp_path: Path) -> None:
    (tmp_path / "project").rename(tmp_path / "elsewhere")

    assert resume_folder(moved) == str(tmp_path / "project/.claude/worktrees/side")


def git(folder: Path, *words: str) -> None:
    base = ["git", "-c", "user.name=x", "-c", "user.email=x@example.com"]
    subprocess.run([*base, *words], cwd=folder, check=True, capture_output=True)


def test_the_client_is_started_in_a_worktree_of_the_project_s_own_repository(
    moved: Session, tmp_path: Path
) -> None:
    project, worktree = tmp_path / "project", tmp_path / "project/.claude/worktrees/side"
    (worktree / "src").rmdir()
    worktree.rmdir()
    git(project, "init", "-q")
    git(project, "commit", "-q", "--allow-empty", "-m", "x")
    git(project, "worktree", "add", "-q", str(worktree))
    assert run_folder(moved) == str(worktree)


@pytest.mark.parametrize("made", [None, "folder", "file"])
def test_it_is_not_started_in_another_repository_that_the_session_moved_into(
    moved: Session, tmp_path: Path, made: str | None
) -> None:
    """Nor where nothing proves that it is a worktree."""
    project, clone = tmp_path / "project", tmp_path / "project/.claude/worktrees/side"
    if made:
        git(project, "init", "-q")
    if made == "folder":
        (clone / ".git").mkdir()
    elif made == "file":
        (clone / ".git").write_text(f"gitdir: {project}/.git/worktrees/side\n", encoding="utf-8")
    assert run_folder(moved) == str(project)
    unknown = replace(moved, project_root=None)
    assert run_folder(unknown) is None
