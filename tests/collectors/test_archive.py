"""What is archived, read from the archive, pruned and restored."""

from __future__ import annotations

import errno
import json
import os
import shutil
import time
from contextlib import closing
from typing import TYPE_CHECKING, Any, Final

import pytest
from ctxtop.collectors.claude_code.archive_job import ArchiveJob, prune_archive
from ctxtop.collectors.claude_code.transcript_details import read_composition
from ctxtop.collectors.claude_code.transcripts.transcript_pages import (
    ConversationFile,
    open_window,
)
from ctxtop.collectors.claude_code.turn_finder import search_turns
from ctxtop.collectors.collector_thread import Collector
from ctxtop.collectors.locations.places import Places, PolicySources
from ctxtop.collectors.store_update import update_store
from ctxtop.core.archive.archive_index import (
    ArchiveLimits,
    NotArchivedError,
    TranscriptArchive,
    find_damaged_sessions,
)
from ctxtop.core.archive.archive_mode import ArchiveMode
from ctxtop.core.archive.archive_policy import ArchiveSettings
from ctxtop.core.archive.archiving import SessionFiles, archive_in_steps
from ctxtop.core.archive.restoring import (
    NotRestoredError,
    RestoreConflictError,
    restore_session,
)
from ctxtop.core.measure.retention import DAY_MS, cleanup_days
from ctxtop.core.model.problem import Problem, ProblemReporter
from ctxtop.core.model.session import Session, SessionStatus
from ctxtop.core.readers.fleet_reader import read_agents, read_sessions
from ctxtop.core.store.database import open_reader, state_folder
from ctxtop.core.store.queries import config_queries
from ctxtop.core.store.writer import Writer
from ctxtop.core.transcript.turn_search import parse_turn_query

from ..recorder import Recorder
from ..stored import stored_summaries
from ..transcripts import (
    PROJECT,
    SESSION,
    agent_result,
    assistant,
    boundary,
    launch,
    summary,
    text,
    user,
    write,
)

if TYPE_CHECKING:
    from pathlib import Path

    from ctxtop.collectors.locations.discover import ClaudeFolder

ALL: Final = ArchiveSettings(ArchiveMode.ALL, ArchiveLimits(1 << 40, None))
SUMMARIES: Final = ArchiveSettings(ArchiveMode.SUMMARIES, ArchiveLimits(1 << 40, None))
OFF: Final = ArchiveSettings(ArchiveMode.OFF, ArchiveLimits(1 << 40, None))
NOW_MS: Final = int(time.time() * 1000)
AGENT: Final = "a1234567890123456"
OTHER: Final = "99999999-2222-4333-8444-555555555555"


def quiet_reporter() -> ProblemReporter:
    return ProblemReporter(lambda _: None, lambda _: None, lambda _: None)


class Folder:
    """A session with an agent and a spilled result, 25 days old, and the store beside it."""

    def __init__(self, claude: ClaudeFolder, store: Path) -> None:
        self.claude = claude
        self.store = store
        self.path = claude.projects / PROJECT / f"{SESSION}.jsonl"
        write(
            self.path,
            [
                user("please mend the parser of dates"),
                launch("t1"),
                agent_result("t1", AGENT, "The agent found seven faults."),
                assistant("m1", 5_000, content=[text("Mended; the zebra is secret.")]),
                boundary(),
                summary("We mended the parser."),
                assistant("m2", 2_000, content=[text("What next?")], at=9),
            ],
        )
        self.side = self.path.with_suffix("")
        write(
            self.side / "subagents" / f"agent-{AGENT}.jsonl",
            [
                user("look", isSidechain=True, agentId=AGENT),
                assistant(
                    "a1", 700, content=[text("The agent found seven faults.")], agentId=AGENT
                ),
            ],
        )
        meta = self.side / "subagents" / f"agent-{AGENT}.meta.json"
        meta.write_text(json.dumps({"agentType": "reviewer", "toolUseId": "t1"}))
        (self.side / "tool-results").mkdir()
        (self.side / "tool-results" / "r.txt").write_bytes(b"\x00\xffbinary\n" * 9)
        self.age(25)

    def age(self, days: float) -> None:
        at = time.time() - days * 86_400
        for path in self.claude.projects.rglob("*"):
            os.utime(path, (at, at))

    @property
    def archive(self) -> TranscriptArchive:
        return TranscriptArchive(state_folder(self.store))

    def scan(self) -> Recorder:
        recorder = Recorder()
        with closing(Writer(self.store)) as writer:
            Collector(self.claude, writer, recorder).scan_and_index_turns()
        return recorder

    def run(self, settings: ArchiveSettings, seconds: float = 60) -> bool:
        with closing(Writer(self.store)) as writer:
            job = ArchiveJob(self.claude.projects, writer, self.archive, quiet_reporter())
            return job.run(settings, seconds)

    def session(self) -> Session:
        with closing(open_reader(self.store)) as db:
            (found,) = read_sessions(db, NOW_MS, [SESSION])
            return found

    def tree(self) -> dict[str, bytes]:
        paths = self.claude.projects.rglob("*")
        return {
            path.relative_to(self.claude.projects).as_posix(): path.read_bytes()
            for path in paths
            if path.is_file()
        }

    def sweep(self) -> None:
        shutil.rmtree(self.path.parent)

    def rebuild(self) -> None:
        """Lose the store, as a new version of ctxtop does."""
        for path in self.store.parent.glob(f"{self.store.name}*"):
            if path.is_file():
                path.unlink()

    def words(self) -> str:
        """Everything that the conversation shows."""
        steps = open_window(ConversationFile(self.path), 0).steps
        return " ".join(str(step) for step in steps)

    def hits(self, words: str) -> int:
        with closing(open_reader(self.store)) as db:
            query = parse_turn_query(words, NOW_MS)
            return len(search_turns(db, self.claude, query, {}, 100, 10_000).hits)


@pytest.fixture
def folder(claude: ClaudeFolder, store: Path) -> Folder:
    made = Folder(claude, store)
    made.scan()
    return made


def archived_files(store: Path) -> list[Path]:
    return [path for path in state_folder(store).rglob("*") if path.is_file()]


def test_nothing_is_kept_where_the_mode_is_off(folder: Folder) -> None:
    assert not folder.run(OFF)
    places = Places(folder.claude.root, folder.store)
    update_store(places)
    assert not (state_folder(folder.store) / "archive").exists()
    assert not (state_folder(folder.store) / "blobs").exists()


def test_a_command_that_scans_archives_what_is_due(folder: Folder) -> None:
    sources = PolicySources(command_line=(), environ={"CTXTOP_POLICY_archive__mode": "all"})
    update_store(Places(folder.claude.root, folder.store, sources))
    assert folder.archive.sessions()[SESSION].mode is ArchiveMode.ALL


@pytest.mark.parametrize(("days", "is_due"), [(22, False), (22.6, True), (40, True)])
def test_a_session_is_archived_a_quarter_of_the_period_before(
    folder: Folder, days: float, is_due: bool
) -> None:
    folder.age(days)
    folder.scan()
    assert folder.run(ALL) is is_due
    assert (SESSION in folder.archive.sessions()) is is_due


def test_the_shortest_period_of_any_project_counts(folder: Folder) -> None:
    (folder.claude.root / "settings.json").write_text('{"cleanupPeriodDays": 90}')
    folder.scan()
    with closing(open_reader(folder.store)) as db:
        assert cleanup_days(config_queries.settings_files(db)) == 90
    left = folder.session().deleted_at
    assert left is not None
    assert round((left - NOW_MS) / DAY_MS) == 65


def test_an_archived_session_is_archived_once(folder: Folder) -> None:
    folder.run(ALL)
    before = {path: path.stat().st_mtime_ns for path in archived_files(folder.store)}
    folder.run(ALL)
    assert {path: path.stat().st_mtime_ns for path in archived_files(folder.store)} == before


def test_a_file_that_grew_is_archived_again(folder: Folder) -> None:
    folder.run(ALL)
    with folder.path.open("ab") as file:
        file.write(json.dumps(assistant("m3", 3_000)).encode() + b"\n")
    folder.age(24)
    folder.scan()
    folder.run(ALL)
    part = folder.archive.sessions()[SESSION].parts[0]
    assert part.size == folder.path.stat().st_size


def test_work_goes_on_where_a_short_run_ended(folder: Folder) -> None:
    with closing(Writer(folder.store)) as writer:
        job = ArchiveJob(folder.claude.projects, writer, folder.archive, quiet_reporter())
        runs = 0
        while job.run(ALL, 0.000_001):
            runs += 1
            assert runs < 100
    assert folder.archive.sessions()[SESSION].parts


def test_a_failure_is_one_problem_until_it_works_again(
    folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[Problem] = []
    ended: list[str] = []
    reporter = ProblemReporter(told.append, ended.append, lambda _: None)

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with closing(Writer(folder.store)) as writer:
        job = ArchiveJob(folder.claude.projects, writer, folder.archive, reporter)
        with monkeypatch.context() as patched:
            patched.setattr(TranscriptArchive, "save", full)
            job.run(ALL, 60)
        assert [(each.where, each.what) for each in told] == [
            ("archive", "No space left on device")
        ]
        job = ArchiveJob(folder.claude.projects, writer, folder.archive, reporter)
        assert job.run(ALL, 60)
    assert ended == ["archive"]
    assert SESSION in folder.archive.sessions()


def test_two_archives_of_one_folder_see_each_other(folder: Folder) -> None:
    first, second = folder.archive, folder.archive
    _copy_session(folder, OTHER, 28)
    folder.scan()
    for archive, session_id in ((first, SESSION), (second, OTHER)):
        assert session_id not in archive.sessions()
        files = SessionFiles(session_id, f"{PROJECT}/{session_id}.jsonl")
        list(archive_in_steps(archive, folder.claude.projects, files, NOW_MS))
        time.sleep(0.02)  # the folder's time has the system's clock ticks
    assert first.sessions().keys() == second.sessions().keys() == {SESSION, OTHER}


def test_a_deleted_session_stays_with_all_that_it_said(folder: Folder) -> None:
    before = folder.session()
    words = folder.words()
    folder.run(ALL)
    folder.sweep()
    told = folder.scan()
    assert not told.notices
    after = folder.session()
    assert (after.status, after.archived) == (SessionStatus.ARCHIVED, "all")
    assert (after.title, after.context, after.deleted_at) == (before.title, before.context, None)
    assert folder.words() == words
    assert folder.hits("zebra") == 1
    with closing(open_reader(folder.store)) as db:
        assert "seven faults" in str([row.text for row in stored_summaries(db)])
        assert read_composition(db, folder.claude.projects, SESSION).total_tokens


def test_it_stays_after_a_new_store_too(folder: Folder) -> None:
    before, words = folder.session(), folder.words()
    folder.run(ALL)
    folder.sweep()
    folder.rebuild()
    folder.scan()
    after = folder.session()
    assert after.status is SessionStatus.ARCHIVED
    assert (after.title, after.context, after.agents) == (
        before.title,
        before.context,
        before.agents,
    )
    assert folder.words() == words
    assert folder.hits("zebra") == 1
    with closing(open_reader(folder.store)) as db:
        (agent,) = read_agents(db, read_sessions(db, NOW_MS), NOW_MS)
        assert agent.agent_type == "reviewer"
    # Nothing is read a second time.
    assert not folder.scan().changes


def test_summaries_alone_survive_the_file_and_the_store(folder: Folder) -> None:
    with closing(open_reader(folder.store)) as db:
        before = {row.text for row in stored_summaries(db)}
    session = folder.session()
    folder.run(SUMMARIES)
    folder.sweep()
    folder.rebuild()
    folder.scan()
    after = folder.session()
    assert (after.status, after.archived) == (SessionStatus.ARCHIVED, "summaries")
    assert (after.title, after.context.tokens) == (session.title, session.context.tokens)
    with closing(open_reader(folder.store)) as db:
        assert {row.text for row in stored_summaries(db)} == before
    assert folder.hits("zebra") == 0
    kept = TranscriptArchive(state_folder(folder.store))
    for part in kept.sessions()[SESSION].parts:
        with kept.blobs.open_blocks(part.blob) as blocks:
            assert b"zebra" not in b"".join(blocks)
    with pytest.raises(NotRestoredError, match=r"only the summaries .* cannot be restored"):
        restore_session(kept, folder.claude.projects, SESSION)


def test_what_is_kept_whole_is_never_reduced_to_summaries(folder: Folder) -> None:
    folder.run(ALL)
    with folder.path.open("ab") as file:
        file.write(json.dumps(assistant("m3", 3_000)).encode() + b"\n")
    folder.age(24)
    folder.scan()
    folder.run(SUMMARIES)
    archived = folder.archive.sessions()[SESSION]
    assert archived.mode is ArchiveMode.ALL
    assert archived.parts[0].size == folder.path.stat().st_size


def test_summaries_become_the_whole_while_the_file_is_there(folder: Folder) -> None:
    folder.run(SUMMARIES)
    folder.run(ALL)
    assert folder.archive.sessions()[SESSION].mode is ArchiveMode.ALL


def test_a_restored_session_is_the_same_byte_for_byte(folder: Folder) -> None:
    before = folder.tree()
    folder.run(ALL)
    folder.sweep()
    folder.scan()
    restored = restore_session(folder.archive, folder.claude.projects, SESSION)
    assert folder.tree() == before
    assert sorted(restored.restored) == sorted(before)
    # With its old time the client would delete it at its next start.
    assert time.time() - folder.path.stat().st_mtime < 60
    assert folder.path.stat().st_mode & 0o777 == 0o600
    folder.scan()
    assert folder.session().status is SessionStatus.ENDED
    again = restore_session(folder.archive, folder.claude.projects, SESSION)
    assert (again.restored, sorted(again.unchanged)) == ((), sorted(before))


def test_a_file_that_differs_is_never_overwritten(folder: Folder) -> None:
    folder.run(ALL)
    folder.sweep()
    folder.path.parent.mkdir()
    folder.path.write_bytes(b"{}\n")
    with pytest.raises(RestoreConflictError, match="exists and differs"):
        restore_session(folder.archive, folder.claude.projects, SESSION)
    assert folder.tree() == {f"{PROJECT}/{SESSION}.jsonl": b"{}\n"}


def test_what_cannot_be_written_whole_is_not_written(
    folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder.run(ALL)
    folder.sweep()
    chunk = folder.archive.blobs.read_manifest(folder.archive.sessions()[SESSION].parts[0].blob)
    assert chunk is not None
    folder.archive.blobs.chunks.path(chunk.chunks[0].digest).write_bytes(b"noise")
    with pytest.raises(OSError, match="damaged"):
        restore_session(folder.archive, folder.claude.projects, SESSION)
    assert not folder.tree()


def test_nothing_is_written_through_a_link(folder: Folder, tmp_path: Path) -> None:
    folder.run(ALL)
    folder.sweep()
    (tmp_path / "elsewhere").mkdir()
    folder.path.parent.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(RestoreConflictError, match="not a folder"):
        restore_session(folder.archive, folder.claude.projects, SESSION)
    assert not [*(tmp_path / "elsewhere").iterdir()]


@pytest.mark.parametrize(
    "path",
    [
        "../x.jsonl",
        "/etc/x.jsonl",
        f"p/../../{SESSION}.jsonl",
        f"p/{OTHER}.jsonl",
        "x",
        f"p/{OTHER}/y",
    ],
)
def test_an_index_that_names_other_files_is_not_used(folder: Folder, path: str) -> None:
    folder.run(ALL)
    (entry,) = (folder.archive.folder / "sessions").iterdir()
    record: dict[str, Any] = json.loads(entry.read_bytes())
    record["parts"][0]["path"] = path
    entry.write_text(json.dumps(record))
    archive = folder.archive
    assert not archive.sessions()
    assert "names files outside" in archive.problems[0].what
    with pytest.raises(NotRestoredError, match="is not in the archive"):
        restore_session(archive, folder.claude.projects, SESSION)


def test_a_link_is_not_archived(folder: Folder, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("secret")
    (folder.side / "tool-results" / "link.txt").symlink_to(tmp_path / "secret")
    (folder.side / "linked").symlink_to(tmp_path)
    folder.run(ALL)
    paths = [part.path for part in folder.archive.sessions()[SESSION].parts]
    assert paths
    assert not [path for path in paths if "link" in path]


def test_a_transcript_that_is_a_link_is_not_archived(folder: Folder, tmp_path: Path) -> None:
    moved = folder.path.rename(tmp_path / "moved.jsonl")
    folder.path.symlink_to(moved)
    session = SessionFiles(SESSION, f"{PROJECT}/{SESSION}.jsonl")
    with pytest.raises(OSError, match=r"symbolic links|not a regular file"):
        list(archive_in_steps(folder.archive, folder.claude.projects, session, NOW_MS))
    unsafe = SessionFiles(SESSION, f"../{SESSION}.jsonl")
    with pytest.raises(NotArchivedError, match="is not the name"):
        list(archive_in_steps(folder.archive, folder.claude.projects, unsafe, NOW_MS))


def test_a_session_that_moved_to_another_project_is_shown_once(folder: Folder) -> None:
    folder.run(ALL)
    other = folder.claude.projects / "-home-dev-other"
    folder.path.parent.rename(other)
    folder.scan()
    assert folder.session().status is SessionStatus.ENDED
    assert folder.session().path.startswith("-home-dev-other/")


def test_the_archive_is_for_the_user_alone(folder: Folder) -> None:
    folder.run(ALL)
    for path in (state_folder(folder.store), *state_folder(folder.store).rglob("*")):
        assert path.stat().st_mode & 0o077 == 0, path


def _copy_session(folder: Folder, session_id: str, days: float) -> None:
    path = folder.path.with_name(f"{session_id}.jsonl")
    data = folder.path.read_bytes().replace(SESSION.encode(), session_id.encode())
    path.write_bytes(data + os.urandom(40_000).hex().encode() + b"\n")
    at = time.time() - days * 86_400
    os.utime(path, (at, at))


def test_the_oldest_goes_where_the_archive_is_too_large(folder: Folder) -> None:
    _copy_session(folder, OTHER, 28)
    folder.scan()
    folder.run(ALL)
    size = folder.archive.total_bytes()
    archive = folder.archive
    assert not prune_archive(archive, ArchiveLimits(size, None), NOW_MS)
    pruned = prune_archive(archive, ArchiveLimits(size - 1, None), NOW_MS)
    assert [each.session_id for each in pruned] == [OTHER]
    assert archive.sessions().keys() == {SESSION}
    assert not find_damaged_sessions(archive)
    assert archive.total_bytes() < size


def test_sessions_go_after_their_days(folder: Folder) -> None:
    folder.run(ALL)
    archive, limits = folder.archive, ArchiveLimits(1 << 40, 7 * DAY_MS)
    at = archive.sessions()[SESSION].at
    assert not prune_archive(archive, limits, at + 7 * DAY_MS)
    assert prune_archive(archive, limits, at + 7 * DAY_MS + 1)
    assert not archive.sessions()


def test_a_pruned_session_is_gone_like_any_other(folder: Folder) -> None:
    folder.run(ALL)
    folder.sweep()
    folder.scan()
    folder.archive.remove([SESSION], NOW_MS)
    folder.scan()
    assert folder.session().status is SessionStatus.GONE


@pytest.mark.parametrize("damage", ["entry", "manifest", "chunk"])
def test_damage_is_a_problem_and_not_a_crash(folder: Folder, damage: str) -> None:
    folder.run(ALL)
    folder.sweep()
    folder.rebuild()
    where = {"entry": "archive/sessions", "manifest": "archive/files", "chunk": "blobs"}[damage]
    for path in (state_folder(folder.store) / where).iterdir():
        path.write_bytes(b"{" if damage == "entry" else path.read_bytes()[:-9])
    told = folder.scan()
    archive = folder.archive
    if damage == "entry":
        assert not archive.sessions()
        assert len(archive.problems) == 1
    else:
        assert told.troubles
        with pytest.raises(OSError, match="damaged"):
            restore_session(archive, folder.claude.projects, SESSION)
    if damage == "manifest":
        assert len(find_damaged_sessions(archive)) == 1
