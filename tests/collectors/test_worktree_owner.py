"""Sessions in git worktrees are named after the repository that owns them, wherever they are."""

from __future__ import annotations

import shutil
from contextlib import closing
from typing import TYPE_CHECKING

import pytest
from ctxtop.core.readers.fleet_reader import read_sessions
from ctxtop.core.store.database import open_reader

from ..transcripts import PROJECT, SESSION, START_MS, JsonLine, assistant, user, write

if TYPE_CHECKING:
    from pathlib import Path

    from ctxtop.collectors.collector_thread import Collector


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    folder = tmp_path / "code" / "depot"
    (folder / ".git" / "worktrees" / "hotfix").mkdir(parents=True)
    return folder


def worktree(tmp_path: Path, points_to: str) -> Path:
    folder = tmp_path / "elsewhere" / "hotfix"
    (folder / "web").mkdir(parents=True)
    (folder / ".git").write_text(f"gitdir: {points_to}\n")
    return folder


def project_of(collector: Collector, cwd: Path, *more: JsonLine) -> str:
    lines = [*(line | {"cwd": str(cwd)} for line in (user(), assistant())), *more]
    write(collector.folder.projects / PROJECT / f"{SESSION}.jsonl", lines)
    collector.scan()
    with closing(open_reader(collector.writer.path)) as db:
        (session,) = read_sessions(db, START_MS)
    return session.project


@pytest.mark.parametrize("is_relative", [False, True])
def test_a_worktree_beside_its_repository_is_grouped_under_it(
    collector: Collector, tmp_path: Path, repository: Path, is_relative: bool
) -> None:
    start = "../../code/depot" if is_relative else str(repository)
    folder = worktree(tmp_path, f"{start}/.git/worktrees/hotfix")
    assert project_of(collector, folder) == "depot/hotfix"
    assert project_of(collector, folder / "web") == "depot/hotfix/web"
    assert project_of(collector, repository) == "depot"
    # What was seen stays known.
    shutil.rmtree(folder)
    assert project_of(collector, folder) == "depot/hotfix"


def test_a_worktree_of_a_bare_repository(collector: Collector, tmp_path: Path) -> None:
    folder = worktree(tmp_path, "/srv/depot.git/worktrees/hotfix")
    assert project_of(collector, folder) == "depot/hotfix"


@pytest.mark.parametrize(
    "points_to", ["/code/depot/.git/modules/hotfix", "/code/depot", "", "/x\n" * 9_000]
)
def test_any_other_file_of_that_name_is_none(
    collector: Collector, tmp_path: Path, points_to: str
) -> None:
    assert project_of(collector, worktree(tmp_path, points_to)) == "hotfix"


def test_a_link_in_its_place_is_not_followed(
    collector: Collector, tmp_path: Path, repository: Path
) -> None:
    folder = worktree(tmp_path, f"{repository}/.git/worktrees/hotfix")
    (folder / ".git").rename(tmp_path / "git-file")
    (folder / ".git").symlink_to(tmp_path / "git-file")
    assert project_of(collector, folder) == "hotfix"


def entered(path: Path, owner: Path) -> JsonLine:
    """What the client writes when a session enters a worktree, and again when it is resumed."""
    state = {"originalCwd": str(owner), "worktreePath": str(path), "worktreeName": path.name}
    return {"type": "worktree-state", "worktreeSession": state, "sessionId": SESSION}


def test_a_removed_worktree_is_known_by_what_its_session_says(
    collector: Collector, tmp_path: Path, repository: Path
) -> None:
    folder = tmp_path / "elsewhere" / "hotfix"
    said = entered(folder, repository)
    assert project_of(collector, folder, said) == "depot/hotfix"
    assert project_of(collector, folder / "web", said) == "depot/hotfix/web"
    # It says so of no other folder, and its `.git` is the better source.
    assert project_of(collector, tmp_path / "elsewhere", said) == "elsewhere"
    left = {"type": "worktree-state", "worktreeSession": None, "sessionId": SESSION}
    assert project_of(collector, repository, said, left) == "depot"
    worktree(tmp_path, f"{repository}/.git/worktrees/hotfix")
    wrong = entered(folder, tmp_path / "barn")
    assert project_of(collector, folder, wrong) == "depot/hotfix"


@pytest.mark.parametrize("state", [7, "x", [], {}, {"originalCwd": "/a"}, {"worktreePath": 1}])
def test_any_other_worktree_state_names_no_owner(
    collector: Collector, tmp_path: Path, state: object
) -> None:
    line = {"type": "worktree-state", "worktreeSession": state, "sessionId": SESSION}
    assert project_of(collector, tmp_path / "hotfix", line) == "hotfix"
