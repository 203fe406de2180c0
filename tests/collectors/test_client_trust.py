"""Whether the client trusts a folder: as it says itself, and in any doubt not."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
from ctxtop.collectors.terminal.client_run import is_folder_trusted, state_file

from ..trusting import accept_trust_dialog


@pytest.fixture
def state(tmp_path: Path) -> Path:
    return tmp_path / "config" / ".claude.json"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    (folder / "vendor" / "evil").mkdir(parents=True)
    return folder


def git(folder: Path, *words: str) -> None:
    base = ["git", "-c", "user.name=x", "-c", "user.email=x@example.com"]
    subprocess.run([*base, *words], cwd=folder, check=True, capture_output=True)


def test_a_folder_is_trusted_where_the_dialog_was_accepted(state: Path, project: Path) -> None:
    assert not is_folder_trusted(project, state)
    accept_trust_dialog(state, project)
    assert is_folder_trusted(project, state)
    assert is_folder_trusted(project / "vendor", state)
    assert not is_folder_trusted(project.parent, state)


def test_a_repository_inside_a_trusted_folder_is_not_trusted(state: Path, project: Path) -> None:
    evil = project / "vendor" / "evil"
    (evil / ".git").mkdir()
    accept_trust_dialog(state, project)
    assert not is_folder_trusted(evil, state)
    (evil / "src").mkdir()
    assert not is_folder_trusted(evil / "src", state)
    accept_trust_dialog(state, evil)
    assert is_folder_trusted(evil / "src", state)


def test_a_worktree_is_trusted_with_its_repository(
    state: Path, project: Path, tmp_path: Path
) -> None:
    git(project, "init", "-q")
    git(project, "commit", "-q", "--allow-empty", "-m", "x")
    git(project, "worktree", "add", "-q", str(tmp_path / "tree"))
    assert not is_folder_trusted(tmp_path / "tree", state)
    accept_trust_dialog(state, project)
    assert is_folder_trusted(tmp_path / "tree", state)
    # One that only says so is none.
    evil = project / "vendor" / "evil"
    (evil / ".git").write_text(f"gitdir: {project}/.git/worktrees/tree\n", encoding="utf-8")
    assert not is_folder_trusted(evil, state)
    (evil / ".git").write_text("gitdir: " + "x" * 10_000, encoding="utf-8")
    assert not is_folder_trusted(evil, state)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        '{"projects": []}',
        '{"projects": {"HERE": true}}',
        '{"projects": {"HERE": {}}}',
        '{"projects": {"HERE": {"hasTrustDialogAccepted": "true"}}}',
        '{"projects": {"HERE": {"hasTrustDialogAccepted": 1}}}',
        '{"projects": {"HERE": {"hasTrustDialogAccepted": false}}}',
        '{"projects": ' + "[" * 5000,
    ],
)
def test_a_record_that_does_not_say_so_is_no_trust(state: Path, project: Path, text: str) -> None:
    state.parent.mkdir()
    state.write_text(text.replace("HERE", str(project)), encoding="utf-8")
    assert not is_folder_trusted(project, state)


def test_the_record_is_looked_for_where_the_client_keeps_it(tmp_path: Path) -> None:
    home = tmp_path / "home"
    assert state_file(None, {}, home) == home / ".claude.json"
    assert state_file(Path("/c"), {}, home) == Path("/c/.claude.json")
    assert state_file(None, {"CLAUDE_CONFIG_DIR": "/d"}, home) == Path("/d/.claude.json")
    (home / ".claude").mkdir(parents=True)
    (home / ".claude" / ".config.json").write_text(json.dumps({}), encoding="utf-8")
    assert state_file(None, {}, home) == home / ".claude" / ".config.json"
