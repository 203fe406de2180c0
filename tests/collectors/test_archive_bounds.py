"""What odd names, numbers and files do to the archive: they are told of, and the rest is kept."""

from __future__ import annotations

import errno
import io
import json
import lzma
import os
import zlib
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec
import pytest
from ctxtop.collectors.claude_code.archive_job import ArchiveJob
from ctxtop.core.archive import archive_index
from ctxtop.core.archive.archive_index import (
    NotArchivedError,
    find_damaged_sessions,
)
from ctxtop.core.archive.archive_mode import ArchiveMode
from ctxtop.core.archive.archiving import (
    MAX_FOLDER_LEVELS,
    SessionFiles,
    archive_in_steps,
    is_up_to_date,
)
from ctxtop.core.archive.restoring import restore_session
from ctxtop.core.files import chunk_store, file_operations, safe_open
from ctxtop.core.files.blob_store import (
    MANIFEST_START,
    ChunkedBlobStore,
    remove_unreferenced_chunks,
)
from ctxtop.core.files.chunk_store import (
    ID_MARKER,
    ORPHAN_AGE_MS,
    BlobError,
    ChunkStore,
    Packing,
)
from ctxtop.core.model.problem import Problem, ProblemReporter
from ctxtop.core.store.database import state_folder
from ctxtop.core.store.writer import Writer

from ..transcripts import PROJECT, SESSION
from .test_archive import ALL, NOW_MS, OTHER, SUMMARIES, Folder, _copy_session

if TYPE_CHECKING:
    from collections.abc import Callable

    from ctxtop.collectors.locations.discover import ClaudeFolder
    from ctxtop.core.archive.archive_policy import ArchiveSettings

FILES: Final = SessionFiles(SESSION, f"{PROJECT}/{SESSION}.jsonl")


@pytest.fixture
def folder(claude: ClaudeFolder, store: Path) -> Folder:
    """Two sessions that are due: the first has side files, the other is a copy of its lines."""
    made = Folder(claude, store)
    _copy_session(made, OTHER, 26)
    made.scan()
    return made


class Job:
    """An archive job, and the problems that are open."""

    def __init__(self, folder: Folder) -> None:
        self.folder = folder
        self.open: dict[str, Problem] = {}

    def run(self, settings: ArchiveSettings = ALL) -> None:
        def report(problem: Problem) -> None:
            self.open[problem.where] = problem

        def resolve(place: str) -> None:
            self.open.pop(place, None)

        reporter = ProblemReporter(report, resolve, report)
        with closing(Writer(self.folder.store)) as writer:
            archive = self.folder.archive
            ArchiveJob(self.folder.claude.projects, writer, archive, reporter).run(settings, 60)


def kept_paths(folder: Folder, session_id: str = SESSION) -> set[str]:
    return {part.path for part in folder.archive.sessions()[session_id].parts}


def _bad_name(folder: Folder) -> str:
    place = os.fsencode(folder.side / "tool-results") + b"/bad-\xff.txt"
    Path(os.fsdecode(place)).write_text("lost?")
    return "bad-\N{REPLACEMENT CHARACTER}.txt: is not in the archive: its name is not UTF-8"


def _bad_folder(folder: Folder) -> str:
    place = Path(os.fsdecode(os.fsencode(folder.side) + b"/\xfe\xff"))
    place.mkdir()
    (place / "x.txt").write_text("lost?")
    return "x.txt: is not in the archive: its name is not UTF-8"


def _backslash(folder: Folder) -> str:
    (folder.side / "tool-results" / "a\\b.txt").write_text("lost?")
    return "a\\b.txt: is not in the archive: its name has a backslash"


def _too_deep(folder: Folder) -> str:
    deep = folder.side.joinpath(*"x" * MAX_FOLDER_LEVELS)
    deep.mkdir(parents=True)
    (deep / "x.txt").write_text("lost?")
    return "x: is not in the archive: it is more than 8 folders deep"


@pytest.mark.parametrize("make", [_bad_name, _bad_folder, _backslash, _too_deep])
def test_a_file_that_the_archive_cannot_name_is_told_and_the_rest_is_kept(
    folder: Folder, make: Callable[[Folder], str]
) -> None:
    whole = {path for path in folder.tree() if OTHER not in path}
    told = make(folder)
    folder.age(25)
    folder.scan()
    job = Job(folder)
    job.run()

    assert kept_paths(folder) == whole
    assert kept_paths(folder, OTHER) == {f"{PROJECT}/{OTHER}.jsonl"}
    (problem,) = job.open.values()
    assert told in str(problem)
    str(problem).encode()  # nothing that the store would refuse
    # Nothing is written again at each look.
    assert is_up_to_date(folder.archive, folder.claude.projects, FILES, ArchiveMode.ALL)


def test_the_summaries_alone_do_not_miss_other_files(folder: Folder) -> None:
    _bad_name(folder)
    job = Job(folder)
    job.run(SUMMARIES)

    assert folder.archive.sessions()[SESSION].skipped == ()
    assert job.open == {}


def test_a_transcript_of_an_agent_with_an_odd_name_is_skipped_in_every_mode(
    folder: Folder,
) -> None:
    place = os.fsencode(folder.side / "subagents") + b"/agent-\xff.jsonl"
    Path(os.fsdecode(place)).write_text("{}\n")
    folder.age(25)
    assert "agent-" in str(folder.scan().troubles)
    for settings in (SUMMARIES, ALL):
        Job(folder).run(settings)
        assert len(folder.archive.sessions()[SESSION].skipped) == 1


def _refusing(monkeypatch: pytest.MonkeyPatch, name: str, *, at_open: bool) -> None:
    """Make the disk refuse a file when it is opened or read."""
    open_file = safe_open.open_regular

    def refuse(path: Path | str, buffering: int = 0) -> Any:  # noqa: ANN401
        if Path(path).name != name:
            return open_file(path, buffering)
        if at_open:
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
        return closing(_BrokenFile(path))

    monkeypatch.setattr(file_operations, "open_regular", refuse)


class _BrokenFile(io.FileIO):
    def read(self, size: int | None = -1, /) -> bytes:
        raise OSError(errno.EIO, os.strerror(errno.EIO), size)

    readline = read


@pytest.mark.parametrize("at_open", [True, False], ids=["refused", "broken"])
def test_a_side_file_that_cannot_be_read_is_told_and_tried_again(
    folder: Folder, monkeypatch: pytest.MonkeyPatch, *, at_open: bool
) -> None:
    whole = {path for path in folder.tree() if OTHER not in path}
    job = Job(folder)
    with monkeypatch.context() as patched:
        _refusing(patched, "r.txt", at_open=at_open)
        job.run()
        assert {Path(path).name for path in whole - kept_paths(folder)} == {"r.txt"}
        (problem,) = job.open.values()
        why = os.strerror(errno.EACCES if at_open else errno.EIO)
        assert (Path(problem.where).name, why in problem.what) == ("r.txt", True)
    assert not is_up_to_date(folder.archive, folder.claude.projects, FILES, ArchiveMode.ALL)
    job.run()
    assert kept_paths(folder) == whole
    assert folder.archive.sessions()[SESSION].skipped == ()


@pytest.mark.parametrize("at_open", [True, False], ids=["refused", "broken"])
def test_a_transcript_that_cannot_be_read_does_not_stop_the_next_session(
    folder: Folder, monkeypatch: pytest.MonkeyPatch, *, at_open: bool
) -> None:
    _refusing(monkeypatch, f"{OTHER}.jsonl", at_open=at_open)
    other = SessionFiles(OTHER, f"{PROJECT}/{OTHER}.jsonl")
    with pytest.raises(OSError, match=r"99999999.*\.jsonl cannot be read: "):
        list(archive_in_steps(folder.archive, folder.claude.projects, other, NOW_MS))
    with closing(Writer(folder.store)) as writer:
        reporter = ProblemReporter(lambda _: None, lambda _: None, lambda _: None)
        job = ArchiveJob(folder.claude.projects, writer, folder.archive, reporter)
        job.run(ALL, 60)
        job.run(ALL, 60)
    assert folder.archive.sessions().keys() == {SESSION}


def test_an_earlier_copy_stays_where_the_file_can_no_longer_be_read(
    folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    Job(folder).run()
    before = folder.tree()
    changed = folder.side / "tool-results" / "r.txt"
    changed.write_bytes(b"other")
    with folder.path.open("ab") as file:
        file.write(b'{"type":"summary"}\n')
    folder.age(25)
    folder.scan()
    _refusing(monkeypatch, "r.txt", at_open=True)
    Job(folder).run()
    (skipped,) = folder.archive.sessions()[SESSION].skipped
    monkeypatch.undo()
    folder.sweep()
    restore_session(folder.archive, folder.claude.projects, SESSION)

    assert Path(skipped.path).name == "r.txt"
    assert changed.read_bytes() == before[skipped.path]


def test_what_cannot_be_read_back_is_not_called_archived(
    folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    def other(_: ChunkStore, chunk: chunk_store.Chunk, _stored: bytes, _session_id: bytes) -> bytes:
        return b"?" * chunk.size

    with monkeypatch.context() as patched:
        patched.setattr(ChunkStore, "restore", other)
        job = Job(folder)
        job.run()
        assert "cannot be read back" in str(job.open["archive"])
    assert not folder.archive.sessions()
    assert not [*(state_folder(folder.store) / "archive" / "files").glob("*.z")]


def test_a_copy_of_which_a_part_is_lost_is_made_again_while_the_file_is_there(
    folder: Folder,
) -> None:
    Job(folder).run()
    for path in (state_folder(folder.store) / "blobs").iterdir():
        path.unlink()
    assert len(find_damaged_sessions(folder.archive)) == 2
    Job(folder).run()

    assert find_damaged_sessions(folder.archive) == []
    before = folder.tree()
    folder.sweep()
    for session in (SESSION, OTHER):
        restore_session(folder.archive, folder.claude.projects, session)
    assert folder.tree() == before


def test_an_entry_that_could_not_be_read_again_is_not_written(
    folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(archive_index, "MAX_ENTRY_BYTES", 300)
    with pytest.raises(NotArchivedError, match="could not be read again: it has more than 300"):
        list(archive_in_steps(folder.archive, folder.claude.projects, FILES, NOW_MS))
    assert not folder.archive.sessions()
    assert folder.archive.problems == ()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("size", 10**30),
        ("size", -1),
        ("size", 1 << 51),
        ("mtime_ns", 10**30),
        ("mtime_ns", -(10**30)),
        ("ctime_ns", 1 << 63),
        ("inode", 1 << 64),
        ("inode", -1),
        ("device", 10**30),
        ("size", 1.5),
        ("at", 10**30),
        ("at", -1),
        ("at", 253_402_300_800_000),
        ("mode", "off?"),
    ],
)
def test_an_entry_with_an_impossible_value_is_a_problem_of_its_own(
    folder: Folder, name: str, value: object
) -> None:
    Job(folder).run()
    folder.sweep()
    entry = folder.archive.folder / "sessions" / f"{OTHER}.json"
    record = json.loads(entry.read_bytes())
    (record if name in {"at", "mode"} else record["parts"][0])[name] = value
    entry.write_text(json.dumps(record))
    archive = folder.archive

    assert archive.sessions().keys() == {SESSION}
    assert [each.where for each in archive.problems] == [str(entry)]
    assert folder.scan().troubles == []
    assert archive.total_bytes() > 0
    assert restore_session(archive, folder.claude.projects, SESSION).session_id == SESSION


def _manifest(*chunks: object, size: int, session_id: str = SESSION) -> bytes:
    return MANIFEST_START + zlib.compress(msgspec.msgpack.encode([session_id, size, chunks]))


GAP: Final = b""
SOME: Final = b"\7" * 32


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (_manifest((GAP, -5, 0, False), (GAP, 6, 0, False), size=1), "Expected `int` >= 0"),
        (_manifest((GAP, 1 << 40, 0, False), size=1 << 40), "Expected `int` <= "),
        (_manifest((GAP, 0, 0, False), size=0), "a gap is empty"),
        (_manifest((SOME, 5, 3, False), size=1 << 49), "another size than the whole"),
        (_manifest((SOME[:5], 5, 3, False), size=5), "a part has no name"),
        (_manifest((SOME, 5, 1 << 60, False), size=5), "Expected `int` <= "),
        (_manifest(*[(SOME, 1 << 26, 3, False)] * 3, size=3 << 26), "is gone"),
        (MANIFEST_START + zlib.compress(b"\0" * (65 << 20)), "unpacks to more than"),
        (MANIFEST_START + zlib.compress(b"\x91" * 5_000), "damaged"),
        (MANIFEST_START, "end is missing"),
    ],
    ids=range(10),
)
def test_a_manifest_with_impossible_values_is_one_clear_error(
    folder: Folder, data: bytes, why: str
) -> None:
    Job(folder).run()
    folder.sweep()
    archive = folder.archive
    part = archive.sessions()[OTHER].parts[0]
    archive.blobs.path(part.blob).write_bytes(data)

    assert not archive.blobs.is_intact(part.blob)
    with pytest.raises(BlobError, match=why), archive.blobs.open_file(part.blob) as file:
        file.read()
    with pytest.raises(BlobError, match=r"size|damaged"):
        archive.open(part.path)
    assert len(find_damaged_sessions(archive)) == 1
    assert archive.total_bytes() > 0
    assert restore_session(archive, folder.claude.projects, SESSION).restored


ZEROS: Final = chunk_store.MAX_UNPACKED_BYTES + (64 << 20)


@pytest.mark.parametrize("pack", [zlib.compress, lzma.compress], ids=["zlib", "lzma"])
def test_a_chunk_that_unpacks_to_gigabytes_is_not_unpacked(
    tmp_path: Path, pack: Callable[[bytes], bytes]
) -> None:
    blobs = ChunkedBlobStore(tmp_path / "files", ChunkStore(tmp_path / "blobs"))
    name = blobs.put([b"some lines\n" * 9_000], SESSION)
    (path,) = blobs.chunks.folder.iterdir()
    path.write_bytes(pack(bytes(ZEROS)))

    with pytest.raises(BlobError, match="unpacks to more than"), blobs.open_file(name) as file:
        file.read()
    # The same content is stored again over it.
    assert blobs.put([b"some lines\n" * 9_000], SESSION) == name
    assert blobs.is_intact(name)


def test_a_chunk_that_wants_gigabytes_to_unpack_is_refused() -> None:
    filters = [{"id": lzma.FILTER_LZMA2, "dict_size": 1 << 28}]
    with pytest.raises(ValueError, match=r"(?i)memory"):
        chunk_store.unpack(lzma.compress(b"x", filters=filters), 1_000)


@pytest.mark.parametrize(
    "data",
    [
        ID_MARKER[:-1] + SESSION.encode(),
        SESSION.encode() + ID_MARKER[1:],
        SESSION.encode() + ID_MARKER,
        b"\0".join([ID_MARKER[1:-1], SESSION.encode(), b""]) * 9,
    ],
    ids=range(4),
)
@pytest.mark.parametrize("packing", Packing)
def test_parts_of_a_marker_beside_an_id_come_back_as_they_were(
    tmp_path: Path, packing: Packing, data: bytes
) -> None:
    blobs = ChunkedBlobStore(tmp_path / "files", ChunkStore(tmp_path / "blobs", packing))
    with blobs.open_blocks(blobs.put([data], SESSION)) as blocks:
        assert b"".join(blocks) == data


def _make_foreign(folder: Path) -> list[Path]:
    """Files and a folder that others put there, two days ago."""
    folder.mkdir(parents=True, exist_ok=True)
    names = [b"notes.z", b"abcd.z", b"\xff.z", b"x" * 64 + b".z", b"AB" * 32 + b".z", b".y.ctxtop"]
    made = [Path(os.fsdecode(os.fsencode(folder) + b"/" + name)) for name in names]
    for path in made:
        path.write_bytes(b"mine")
    link, inner = folder / f"{'a' * 64}.z", folder / f"{'b' * 64}.z"
    link.symlink_to(folder / "notes.z")
    inner.mkdir()
    made += [link, inner]
    at = (NOW_MS - 2 * ORPHAN_AGE_MS) // 1000
    for path in made:
        os.utime(path, (at, at), follow_symlinks=False)
    return made


def test_foreign_files_are_neither_counted_nor_removed_nor_fatal(folder: Folder) -> None:
    state = state_folder(folder.store)
    foreign = [
        path
        for name in ("blobs", "archive/files", "backups")
        for path in _make_foreign(state / name)
    ]
    Job(folder).run()
    archive = folder.archive
    alone = archive.total_bytes()
    chunk = next(path for path in archive.blobs.chunks.folder.glob("*.z") if path.is_file())
    old = chunk.with_name(f"{'c' * 64}.z")
    old.write_bytes(b"a chunk that nothing names")
    os.utime(old, ns=(0, 0))
    archive.remove([OTHER], NOW_MS)
    remove_unreferenced_chunks(state, NOW_MS)

    assert not old.exists()
    assert archive.sessions().keys() == {SESSION}
    assert find_damaged_sessions(archive) == []
    assert 0 < archive.total_bytes() < alone
    assert [path for path in foreign if not os.path.lexists(path)] == []


def test_a_folder_in_a_blobs_place_is_told_and_stays(folder: Folder) -> None:
    Job(folder).run()
    archive = folder.archive
    blob = archive.blobs.path(archive.sessions()[OTHER].parts[0].blob)
    blob.unlink()
    blob.mkdir()
    (blob / "mine").write_text("mine")
    job = Job(folder)
    job.run()

    assert "archive" in job.open
    assert (blob / "mine").read_text() == "mine"
    assert find_damaged_sessions(folder.archive)[0].startswith(f"session {OTHER}")
    assert remove_unreferenced_chunks(state_folder(folder.store), NOW_MS) == 0
