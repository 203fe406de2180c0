"""Sessions whose files the client moves: EnterWorktree, ExitWorktree and /cd."""

from __future__ import annotations

import json
from contextlib import closing
from typing import TYPE_CHECKING

import pytest
from ctxtop.collectors.collector_thread import Collector
from ctxtop.core.readers.fleet_reader import read_agents, read_sessions
from ctxtop.core.store.database import open_reader
from ctxtop.core.store.writer import Writer

from ..dump import FILE_STATE, dump
from ..recorder import Recorder
from ..transcripts import (
    PROJECT,
    SESSION,
    START_MS,
    append,
    assistant,
    launch,
    launched,
    notification,
    user,
    write,
)

if TYPE_CHECKING:
    from pathlib import Path

    from ctxtop.collectors.locations.discover import ClaudeFolder
    from ctxtop.core.model.agent import Agent

WORKTREE = f"{PROJECT}--claude-worktrees-side"


@pytest.fixture
def project(claude: ClaudeFolder) -> Path:
    """A project folder with a session that has one agent."""
    folder = claude.projects / PROJECT
    write(
        folder / f"{SESSION}.jsonl",
        [user(), launch("t1", at=1), launched("t1", "a1", at=2), notification("a1", "ok", at=5)],
    )
    write(folder / SESSION / "subagents/agent-a1.jsonl", [assistant("a_m1", 1200, at=3)])
    meta(folder / SESSION / "subagents", "a1", agentType="reviewer", toolUseId="t1")
    return folder


def meta(folder: Path, agent_id: str, **fields: object) -> None:
    (folder / f"agent-{agent_id}.meta.json").write_text(json.dumps(fields))


def move(project: Path, name: str) -> Path:
    """Move a session and its folder into another project folder, as the client does."""
    other = project.with_name(name)
    other.mkdir(exist_ok=True)
    for each in (f"{SESSION}.jsonl", SESSION):
        (project / each).rename(other / each)
    return other


def agents(store: Path) -> list[Agent]:
    with closing(open_reader(store)) as db:
        return read_agents(db, read_sessions(db, START_MS), START_MS)


def first_look(claude: ClaudeFolder, store: Path) -> None:
    with closing(Writer(store)) as writer:
        Collector(claude, writer, Recorder()).scan()


def test_a_moved_session_reads_like_one_that_was_never_elsewhere(
    claude: ClaudeFolder, project: Path, collector: Collector, store: Path, tmp_path: Path
) -> None:
    collector.scan()
    worktree = move(project, WORKTREE)
    append(worktree / f"{SESSION}.jsonl", [launch("t2", at=11), launched("t2", "a2", at=12)])
    write(worktree / SESSION / "subagents/agent-a2.jsonl", [assistant("a_m2", 900, at=13)])
    meta(worktree / SESSION / "subagents", "a2", agentType="worker", toolUseId="t2")
    collector.scan()
    first_look(claude, tmp_path / "moved.db")
    there = dump(store, FILE_STATE)
    move(worktree, PROJECT)
    collector.scan()
    first_look(claude, tmp_path / "back.db")

    assert there == dump(tmp_path / "moved.db", FILE_STATE)
    back = dump(store, FILE_STATE)
    # Its row is the worktree's until the next start, and says the same.
    metas = [row[1:] for row in back.pop("agent_meta")]
    first = dump(tmp_path / "back.db", FILE_STATE)
    assert metas == [row[1:] for row in first.pop("agent_meta")]
    assert back == first
    assert [agent.agent_id for agent in agents(store)] == ["a1", "a2"]


def test_a_process_that_ends_before_it_reads_a_moved_file_leaves_that_to_the_next(
    claude: ClaudeFolder,
    project: Path,
    store: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    first_look(claude, store)
    # No folder in the transcript has this folder's name: where it began is not known any more.
    other = move(project, "-home-dev-other")
    append(other / f"{SESSION}.jsonl", [assistant("m1", at=9)])
    with monkeypatch.context() as patched:
        patched.setattr(Collector, "_index_next", ends)
        with pytest.raises(KeyboardInterrupt):
            first_look(claude, store)
    first_look(claude, store)
    first_look(claude, tmp_path / "clean.db")

    assert dump(store, FILE_STATE) == dump(tmp_path / "clean.db", FILE_STATE)


def ends(*_: object) -> None:
    raise KeyboardInterrupt


def test_a_move_that_is_seen_only_after_the_old_file_was_missed(
    project: Path, collector: Collector, store: Path
) -> None:
    collector.scan()
    hidden = move(project, "-hidden").rename(project.parent.parent / "hidden")
    collector.scan()
    hidden.rename(project.with_name(WORKTREE))
    collector.scan()

    assert [(row[0], row[1]) for row in dump(store, FILE_STATE)["file"]] == [
        (f"{WORKTREE}/{SESSION}.jsonl", "session"),
        (f"{WORKTREE}/{SESSION}/subagents/agent-a1.jsonl", "agent"),
    ]
    assert len(agents(store)) == 1


def test_a_file_that_comes_back_unchanged_is_not_late(
    project: Path, collector: Collector, recorder: Recorder
) -> None:
    collector.scan()
    hidden = project.rename(project.parent.parent / "hidden")
    collector.scan()
    recorder.changes.clear()
    hidden.rename(project)
    collector.scan()

    assert recorder.sessions == {SESSION}
    assert {change.lag_s for change in recorder.changes} == {None}


def test_a_copy_beside_the_old_file_does_not_take_its_rows(
    claude: ClaudeFolder, project: Path, collector: Collector, store: Path
) -> None:
    collector.scan()
    folder = claude.projects / WORKTREE / SESSION / "subagents"
    write(folder / "agent-a1.jsonl", [assistant("a_m1", 1200, at=3), assistant("a_m2", at=4)])
    meta(folder, "a1", agentType="reviewer", toolUseId="t1")
    collector.scan()

    assert len(dump(store)["file"]) == 3
    assert [(agent.agent_id, agent.context.tokens) for agent in agents(store)] == [("a1", 1000)]
