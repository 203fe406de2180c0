"""Which files are transcripts, and what happens to places that cannot be looked at."""

from __future__ import annotations

import os
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from ctxtop.collectors.claude_code import tail
from ctxtop.collectors.collector_thread import Collector
from ctxtop.collectors.locations.discover import ClaudeFolder, classify_path, find_files
from ctxtop.collectors.locations.places import claude_config_dir
from ctxtop.core.model.problem import Problem
from ctxtop.core.model.session import SessionStatus
from ctxtop.core.model.transcript_records import FileKind, SourceFile
from ctxtop.core.readers.fleet_reader import read_sessions
from ctxtop.core.store.database import open_reader
from ctxtop.core.store.queries import session_queries

from ..dump import dump
from ..transcripts import PROJECT, SESSION, START_MS, append, assistant, encode, user, write

if TYPE_CHECKING:
    from ctxtop.core.store.writer import Writer

    from ..recorder import Recorder

MAIN = f"{PROJECT}/{SESSION}.jsonl"
NESTED = f"{PROJECT}/{SESSION}/subagents"


@pytest.mark.parametrize(
    ("relative", "source"),
    [
        (MAIN, (FileKind.SESSION, SESSION, None)),
        (f"{PROJECT}/AAAA-B.jsonl", (FileKind.SESSION, "aaaa-b", None)),
        (f"{NESTED}/agent-a1.jsonl", (FileKind.AGENT, SESSION, "a1")),
        (f"{NESTED}/workflows/wf_1/agent-a2.jsonl", (FileKind.AGENT, SESSION, "a2")),
        (f"{PROJECT}/agent-old.jsonl", (FileKind.AGENT, "", "old")),
        (f"{NESTED}/workflows/wf_1/journal.jsonl", (FileKind.JOURNAL, SESSION, None)),
        (f"{NESTED}/journal.jsonl", None),
        (f"{PROJECT}/{SESSION}/agent-a1.jsonl", None),
        (f"{PROJECT}/{SESSION}/tool-results/x.jsonl", None),
        (f"{PROJECT}/sessions-index.json", None),
        ("agent-a1.jsonl", None),
        ("x.jsonl", None),
    ],
)
def test_what_a_path_records(
    relative: str, source: tuple[FileKind, str, str | None] | None
) -> None:
    found = classify_path(relative)

    assert (found and (found.kind, found.session_id, found.agent_id)) == source


def test_where_the_folder_is(tmp_path: Path) -> None:
    assert claude_config_dir({}, tmp_path) == tmp_path / ".claude"
    assert claude_config_dir({"CLAUDE_CONFIG_DIR": "/x"}, tmp_path) == Path("/x")


def found(claude: ClaudeFolder) -> list[str]:
    return [item.relative for item in find_files(claude).transcripts]


def test_the_newest_file_comes_first(claude: ClaudeFolder) -> None:
    for age, name in enumerate(("c", "a", "b")):
        path = write(claude.projects / PROJECT / f"{name}.jsonl", [user()])
        os.utime(path, ns=(0, 10_000 - age))

    assert found(claude) == [f"{PROJECT}/{name}.jsonl" for name in ("c", "a", "b")]


def test_depth_and_strangers(claude: ClaudeFolder) -> None:
    write(claude.projects / NESTED / "agent-a1.jsonl", [user()])
    write(claude.projects / NESTED / "agent-a1.meta.json", [{}])
    write(claude.projects / NESTED / "workflows/wf_1/agent-a2.jsonl", [user()])
    write(claude.projects / NESTED / "workflows/wf_1/journal.jsonl", [user()])
    write(claude.projects / PROJECT / "agent-stray.meta.json", [{}])
    write(claude.projects / "agent-stray.meta.json", [{}])
    write(claude.projects / "agent-stray.jsonl", [user()])
    write(claude.projects / PROJECT / "memory/notes.md", [{}])

    finding = find_files(claude)

    assert {item.relative for item in finding.transcripts} == {
        f"{NESTED}/agent-a1.jsonl",
        f"{NESTED}/workflows/wf_1/agent-a2.jsonl",
        f"{NESTED}/workflows/wf_1/journal.jsonl",
    }
    assert [item.relative for item in finding.metas] == [f"{NESTED}/agent-a1.meta.json"]
    assert finding.problems == []


def test_links_are_not_followed(claude: ClaudeFolder, tmp_path: Path) -> None:
    outside = write(tmp_path / "outside" / PROJECT / f"{SESSION}.jsonl", [user()])
    project = claude.projects / PROJECT
    project.mkdir()
    (project / "x.jsonl").symlink_to(outside)
    (claude.projects / "linked").symlink_to(outside.parent)

    finding = find_files(claude)

    assert finding.transcripts == []
    assert [str(trouble) for trouble in finding.problems] == [
        f"{PROJECT}/x.jsonl: is not a regular file; it is skipped; remove it if it is yours"
    ]
    assert find_files(claude, claude.projects / "linked").transcripts == []


def test_a_linked_projects_folder_is_the_persons_own_choice(tmp_path: Path) -> None:
    write(tmp_path / "elsewhere" / MAIN, [user()])
    root = tmp_path / "claude"
    root.mkdir()
    (root / "projects").symlink_to(tmp_path / "elsewhere")

    assert found(ClaudeFolder(root)) == [MAIN]


def test_a_fifo_is_told_of_and_not_opened(
    claude: ClaudeFolder, collector: Collector, recorder: Recorder
) -> None:
    (claude.projects / PROJECT).mkdir()
    os.mkfifo(claude.projects / PROJECT / "x.jsonl")
    for _ in range(3):
        collector.scan()

    assert [(trouble.where, trouble.what) for trouble in recorder.troubles] == [
        (f"{PROJECT}/x.jsonl", "is not a regular file")
    ]

    (claude.projects / PROJECT / "x.jsonl").unlink()
    collector.scan()

    assert recorder.ended == [f"{PROJECT}/x.jsonl"]


def test_a_name_that_is_not_utf8_is_told_of(
    claude: ClaudeFolder, collector: Collector, recorder: Recorder, store: Path
) -> None:
    write(claude.projects / MAIN, [user()])
    name = os.fsdecode(b"not\xff.jsonl")
    try:
        write(claude.projects / PROJECT / name, [user()])
        write(claude.projects / os.fsdecode(b"dir\xff") / "y.jsonl", [user()])
    except OSError:
        pytest.skip("this file system takes only UTF-8")
    collector.scan()

    assert {trouble.what for trouble in recorder.troubles} == {"has a name that is not UTF-8"}
    assert [row[0] for row in dump(store)["file"]] == [MAIN]


class _Shut:
    """A folder that may not be listed; the permissions themselves do not stop root."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.places: set[str] = set()
        real = os.scandir

        def scandir(path: Any) -> Any:  # noqa: ANN401 -- as os.scandir
            if str(path) in self.places:
                raise PermissionError(13, "Permission denied", str(path))
            return real(path)

        monkeypatch.setattr(os, "scandir", scandir)


def gone(store: Path) -> list[str]:
    with closing(open_reader(store)) as db:
        return [row[0] for row in db.execute("SELECT path FROM file WHERE gone ORDER BY path")]


def test_a_folder_that_cannot_be_read_is_told_once_and_its_files_stay(
    claude: ClaudeFolder,
    collector: Collector,
    recorder: Recorder,
    store: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    write(claude.projects / "-shut/a.jsonl", [user()])
    write(claude.projects / "-shut/deep/subagents/agent-b.jsonl", [user()])
    neighbour = write(claude.projects / "-shut-not/c.jsonl", [user()])
    collector.scan()
    shut = _Shut(monkeypatch)
    place = str(claude.projects / "-shut")
    shut.places.add(place)
    neighbour.unlink()
    for _ in range(3):
        collector.scan()

    assert gone(store) == ["-shut-not/c.jsonl"]
    (trouble,) = recorder.troubles
    assert str(trouble).startswith(f"{place}: cannot be read (Permission denied); ")
    assert "\n" not in str(trouble)
    with closing(open_reader(store)) as db:
        assert [row.where for row in session_queries.problems(db)] == [place]

    shut.places.clear()
    collector.scan()

    assert recorder.ended == [place]
    with closing(open_reader(store)) as db:
        assert session_queries.problems(db) == []


def test_nothing_is_gone_where_nothing_can_be_seen(
    claude: ClaudeFolder, collector: Collector, store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(claude.projects / MAIN, [user()])
    collector.scan()
    _Shut(monkeypatch).places.add(str(claude.projects))
    collector.scan()

    assert gone(store) == []


def test_a_trouble_of_an_earlier_run_ends_with_the_first_look(
    claude: ClaudeFolder, writer: Writer, recorder: Recorder, store: Path
) -> None:
    writer.save_problem(Problem(str(claude.projects), "cannot be read", "wait"))
    Collector(claude, writer, recorder).scan()

    assert recorder.ended == [str(claude.projects)]
    assert dump(store)["trouble"] == []


def test_a_file_that_cannot_be_read_is_tried_again(
    claude: ClaudeFolder,
    collector: Collector,
    recorder: Recorder,
    store: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    write(claude.projects / MAIN, [user()])
    with monkeypatch.context() as patched:

        def refuse(*_: object) -> None:
            raise PermissionError(13, "Permission denied")

        patched.setattr(os, "open", refuse)
        collector.scan()
    assert dump(store)["file"] == []
    collector.scan()

    assert [trouble.where for trouble in recorder.troubles] == [MAIN]
    assert recorder.ended == [MAIN]
    assert [row[0] for row in dump(store)["file"]] == [MAIN]


def test_a_file_whose_reading_fails_half_way_is_read_to_its_end(
    claude: ClaudeFolder, collector: Collector, store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = [assistant(f"m{number}") for number in range(20)]
    write(claude.projects / MAIN, lines)
    from ctxtop.collectors.claude_code import reader_pool

    calls = 0

    def short(path: Path, before: Any) -> Any:  # noqa: ANN401 -- as read_tail
        nonlocal calls
        calls += 1
        if calls == 3:
            raise OSError(5, "Input/output error")
        return tail.read_tail(path, before, block_bytes=2000)

    monkeypatch.setattr(reader_pool, "read_tail", short)
    collector.scan()
    part = len(dump(store)["response"])
    collector.scan()

    assert 0 < part < 20
    assert len(dump(store)["response"]) == 20


@pytest.mark.parametrize("told", [True, False])
def test_a_file_that_vanishes_while_it_is_read_comes_back_whole(
    claude: ClaudeFolder,
    collector: Collector,
    store: Path,
    monkeypatch: pytest.MonkeyPatch,
    told: bool,
) -> None:
    path = write(claude.projects / MAIN, [assistant("old")])
    collector.scan()
    lines = [assistant(f"m{number}") for number in range(20)]
    write(path, lines)
    from ctxtop.collectors.claude_code import reader_pool

    calls = 0

    def vanishing(read: Path, before: Any) -> Any:  # noqa: ANN401 -- as read_tail
        nonlocal calls
        calls += 1
        if calls == 3:
            path.unlink()
        return tail.read_tail(read, before, block_bytes=2000)

    monkeypatch.setattr(reader_pool, "read_tail", vanishing)
    if told:
        collector.index_paths([path])
    else:
        collector.scan()
    assert gone(store) == [MAIN]
    write(path, lines)
    collector.scan()

    assert gone(store) == []
    assert len(dump(store)["response"]) == 20


def test_a_file_that_is_rewritten_to_nothing_is_told(
    claude: ClaudeFolder, collector: Collector, recorder: Recorder, store: Path
) -> None:
    path = write(claude.projects / MAIN, [assistant()])
    collector.scan()
    recorder.changes.clear()
    path.write_bytes(b"")
    collector.index_paths([path])

    assert recorder.sessions == {SESSION}
    assert dump(store)["response"] == []


def test_a_file_that_may_no_longer_be_looked_at_is_not_gone(
    claude: ClaudeFolder,
    collector: Collector,
    recorder: Recorder,
    store: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    path = write(claude.projects / MAIN, [user()])
    collector.scan()
    with monkeypatch.context() as patched:

        def refuse(*_: object, **__: object) -> None:
            raise PermissionError(13, "Permission denied")

        patched.setattr(type(path), "stat", refuse)
        collector.index_paths([path])

    assert gone(store) == []
    assert [trouble.where for trouble in recorder.troubles] == [MAIN]


def test_gone_and_back(claude: ClaudeFolder, collector: Collector, store: Path) -> None:
    path = write(claude.projects / MAIN, [user(), assistant()])
    collector.scan()
    kept = path.read_bytes()
    before = dump(store)
    path.unlink()
    collector.scan()

    assert gone(store) == [MAIN]
    assert dump(store)["response"] == before["response"], "its data is kept"
    with closing(open_reader(store)) as db:
        assert read_sessions(db, START_MS)[0].status is SessionStatus.GONE

    path.write_bytes(kept)
    collector.scan()

    assert gone(store) == []
    assert dump(store)["response"] == before["response"]


def test_an_agent_of_the_old_layout_belongs_to_the_session_that_its_lines_name(
    claude: ClaudeFolder, collector: Collector, store: Path
) -> None:
    path = claude.projects / PROJECT / "agent-old.jsonl"
    path.parent.mkdir()
    path.write_bytes(b"")
    collector.scan()
    first = encode([user() | {"sessionId": SESSION.upper()}])
    path.write_bytes(first[:40])
    collector.scan()
    assert dump(store)["file"] == []
    path.write_bytes(first)
    append(path, [assistant()])
    collector.scan()

    assert collector.writer.files()[f"{PROJECT}/agent-old.jsonl"][0] == SourceFile(
        f"{PROJECT}/agent-old.jsonl", FileKind.AGENT, PROJECT, SESSION, "old"
    )


def test_an_old_agents_file_without_a_session_is_named_after_itself(
    claude: ClaudeFolder, collector: Collector
) -> None:
    write(claude.projects / PROJECT / "agent-old.jsonl", [b"not json"])
    collector.scan()

    assert collector.writer.files()[f"{PROJECT}/agent-old.jsonl"][0].session_id == "agent-old"


def test_large_inodes_are_the_same_after_a_restart(
    claude: ClaudeFolder, collector: Collector, writer: Writer
) -> None:
    from ctxtop.core.model.transcript_records import TailState, TranscriptRecords
    from msgspec.structs import replace

    source = SourceFile("p/x.jsonl", FileKind.SESSION, "p", "x")
    after = replace(TailState(), inode=(1 << 64) - 5, device=(1 << 63) + 1, size=7)
    writer.append(source, TailState(), after, TranscriptRecords())

    assert writer.files()["p/x.jsonl"][1] == after
