"""Where a session began, however far it walks: its policy and its processes belong there."""

# ruff: noqa: ANN401 -- any field may be named

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING, Any

import pytest
from ctxtop.collectors.collector_thread import Collector
from ctxtop.core.files.project_folder import find_launch_folder
from ctxtop.core.readers.fleet_reader import read_agents, read_sessions
from ctxtop.core.store.database import open_reader
from ctxtop.core.store.queries.config_queries import project_roots
from ctxtop.core.store.writer import Writer

from ..recorder import Recorder
from ..transcripts import (
    PROJECT,
    SESSION,
    START_MS,
    agent_result,
    append,
    assistant,
    boundary,
    launch,
    user,
    uuid,
    write,
)

if TYPE_CHECKING:
    from pathlib import Path

    from ctxtop.collectors.locations.discover import ClaudeFolder
    from ctxtop.core.model.session import Session

ROOT = "/home/dev/proj"
WALKED = f"{ROOT}/vendor/evil"
OTHER = "22222222-2222-4333-8444-555555555555"


@pytest.fixture
def path(claude: ClaudeFolder) -> Path:
    return claude.projects / PROJECT / f"{SESSION}.jsonl"


def scan(claude: ClaudeFolder, store: Path) -> None:
    with closing(Writer(store)) as writer:
        Collector(claude, writer, Recorder()).scan()


def only_session(store: Path) -> Session:
    with closing(open_reader(store)) as db:
        (found,) = read_sessions(db, START_MS)
    return found


def test_a_session_keeps_its_root_when_it_walks_into_another_folder(
    claude: ClaudeFolder, store: Path, path: Path
) -> None:
    write(path, [user(), assistant(at=1), user(at=2, cwd=WALKED)])
    scan(claude, store)
    found = only_session(store)
    assert (found.project_root, found.cwd) == (ROOT, WALKED)
    with closing(open_reader(store)) as db:
        assert project_roots(db) == [ROOT]


def test_the_root_stays_when_later_lines_are_read_one_by_one(
    claude: ClaudeFolder, store: Path, path: Path
) -> None:
    write(path, [{"type": "mode", "mode": "normal", "sessionId": SESSION}])
    scan(claude, store)
    for at, folder in enumerate((ROOT, WALKED, "/elsewhere")):
        append(path, [user(at=at, cwd=folder)])
        scan(claude, store)
    assert only_session(store).project_root == ROOT


def test_a_session_that_moved_to_a_worktree_began_in_its_project(
    claude: ClaudeFolder, store: Path
) -> None:
    worktree = f"{ROOT}/.claude/worktrees/x"
    moved = claude.projects / "-home-dev-proj--claude-worktrees-x" / f"{SESSION}.jsonl"
    write(moved, [user(), user(at=1, cwd=worktree)])
    scan(claude, store)
    assert only_session(store).project_root == ROOT


MOVED = "/home/dev/other"


def relocated(folder: str) -> dict[str, Any]:
    return {"type": "relocated", "sessionId": SESSION, "relocatedCwd": folder}


def test_a_session_that_a_person_moved_has_the_root_that_it_was_moved_to(
    claude: ClaudeFolder, store: Path
) -> None:
    moved = claude.projects / "-home-dev-other" / f"{SESSION}.jsonl"
    write(moved, [user(), assistant(at=1), relocated(MOVED)])
    scan(claude, store)
    assert only_session(store).project_root == MOVED
    append(moved, [user(at=2, cwd=f"{MOVED}/below")])
    scan(claude, store)
    found = only_session(store)
    assert (found.project_root, found.cwd) == (MOVED, f"{MOVED}/below")
    with closing(open_reader(store)) as db:
        assert project_roots(db) == [MOVED]


def test_a_worktree_that_a_session_enters_is_no_other_project(
    claude: ClaudeFolder, store: Path
) -> None:
    worktree = f"{ROOT}/.claude/worktrees/x"
    entered = {"originalCwd": ROOT, "worktreePath": worktree, "worktreeName": "x"}
    state = {"type": "worktree-state", "worktreeSession": entered, "sessionId": SESSION}
    moved = claude.projects / "-home-dev-proj--claude-worktrees-x" / f"{SESSION}.jsonl"
    write(moved, [user(), relocated(worktree), state, user(at=1, cwd=worktree)])
    scan(claude, store)
    assert only_session(store).project_root == ROOT
    append(moved, [relocated(ROOT), state | {"worktreeSession": None}, user(at=2)])
    scan(claude, store)
    assert only_session(store).project_root == ROOT


def continued(**fields: Any) -> dict[str, Any]:
    """The first line of a file that continues a session which stood in the walked folder."""
    return user(cwd=WALKED, **fields)


FIRST = {
    "compaction": boundary() | {"cwd": WALKED, "logicalParentUuid": uuid()},
    "hand-off": continued(forkedFrom={"sessionId": OTHER, "messageUuid": uuid()}),
    "torn": continued(parentUuid=uuid()),
}


@pytest.mark.parametrize("first", FIRST.values(), ids=FIRST)
def test_a_file_that_begins_midway_began_in_the_folder_that_it_is_filed_under(
    claude: ClaudeFolder, store: Path, path: Path, first: dict[str, Any]
) -> None:
    write(path, [first, assistant(at=1, cwd=WALKED)])
    scan(claude, store)
    append(path, [user(at=2, cwd=WALKED)])
    scan(claude, store)
    assert only_session(store).project_root == ROOT


def test_nobody_can_tell_the_root_of_a_file_that_begins_midway_under_another_name(
    claude: ClaudeFolder, store: Path
) -> None:
    write(claude.projects / "-somewhere" / f"{SESSION}.jsonl", [FIRST["torn"]])
    scan(claude, store)
    append(claude.projects / "-somewhere" / f"{SESSION}.jsonl", [user(at=1, cwd=WALKED)])
    scan(claude, store)
    assert only_session(store).project_root is None


def test_a_fork_began_where_its_history_did(claude: ClaudeFolder, store: Path, path: Path) -> None:
    first = user()
    fork = first | {"forkedFrom": {"sessionId": OTHER, "messageUuid": first["uuid"]}}
    write(path, [fork, user(at=1, cwd=WALKED)])
    scan(claude, store)
    assert only_session(store).project_root == ROOT


def test_an_agent_has_the_root_of_its_session(
    claude: ClaudeFolder, store: Path, path: Path
) -> None:
    write(path, [user(), launch("t1"), agent_result("t1", "a1", "done", cwd=WALKED)])
    scan(claude, store)
    with closing(open_reader(store)) as db:
        (agent,) = read_agents(db, [only_session(store)], START_MS)
    assert agent.project_root == ROOT


@pytest.mark.parametrize(
    ("cwd", "project", "root"),
    [
        ("/a/b", "-a-b", "/a/b"),
        ("/a/b/c/d", "-a-b", "/a/b"),
        ("/a/ü_😀/x", "-a-----", "/a/ü_😀"),
        ("/a/bc", "-a-b", None),
        ("a/b", "a-b", None),
        ("/" + "x" * 250, "-" + "x" * 250, None),
    ],
)
def test_the_folder_is_found_that_a_project_is_named_after(
    cwd: str, project: str, root: str | None
) -> None:
    assert find_launch_folder(cwd, project) == root
