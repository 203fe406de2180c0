"""Where a session is resumed, and who looks after it meanwhile."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

import pytest
from ctxtop.collectors.demo.plumbing import slug
from ctxtop.collectors.subjects import resume_folder
from ctxtop.core.fleet import read_sessions
from ctxtop.core.store.database import open_reader

from ..transcripts import SESSION, START_MS, user, write

if TYPE_CHECKING:
    from pathlib import Path

    from ctxtop.collectors.collect import Collector
    from ctxtop.collectors.folder import ClaudeFolder
    from ctxtop.core.sessions import Session


@pytest.fixture
def moved(claude: ClaudeFolder, collector: Collector, store: Path, tmp_path: Path) -> Session:
    """A session that began in a project, and works in a worktree, and there in a subfolder."""
    project, worktree = tmp_path / "project", tmp_path / "project/.claude/worktrees/side"
    (worktree / "src").mkdir(parents=True)
    folders = (project, worktree, worktree / "src")
    lines = [user(at=at) | {"cwd": str(folder)} for at, folder in enumerate(folders)]
    write(claude.projects / slug(str(worktree)) / f"{SESSION}.jsonl", lines)
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
