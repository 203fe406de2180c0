"""Folders as no client makes them: special files, links, moves, a clock that jumps, very many."""

from __future__ import annotations

import os
import socket
import stat
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Any, Final

import pytest
from ctxtop.collectors.locations.discover import find_files

from ..dump import FILE_STATE, dump
from ..effort import tries
from ..histories import look_once
from ..transcripts import PROJECT, SESSION, append, assistant, encode, user, write

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from ctxtop.collectors.collector_thread import Collector
    from ctxtop.collectors.locations.discover import ClaudeFolder

    from ..dump import Rows
    from ..recorder import Recorder

MAIN: Final = f"{PROJECT}/{SESSION}.jsonl"
YEAR_NS: Final = 365 * 24 * 3600 * 1_000_000_000

MANY: Final = tries(25_000, proving=100_000)
MANY_S: Final = 300.0
"""Thirty times what a machine needs; what looks at each file against all others takes days."""
HANGS_S: Final = 60.0  # whoever waits for a pipe waits for ever
MANY_MB: Final = 60 + MANY * 9 // 10_000
"""75 MB were seen with 25,000 files and 136 with 100,000: 55, and 0.8 kB a file."""

# Says how many files it read, and how much memory that took at the most.
COUNTED: Final = """
import sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from tests.recorder import Recorder
from ctxtop.collectors.collector_thread import Collector
from ctxtop.collectors.locations.discover import ClaudeFolder
from ctxtop.core.store.writer import Writer
writer = Writer(Path(sys.argv[3]))
Collector(ClaudeFolder(Path(sys.argv[2])), writer, Recorder()).scan()
(files,) = writer.connection.execute("SELECT COUNT(*) FROM file WHERE lines = 1").fetchone()
writer.close()
status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
print(files, status["VmHWM"].split()[0])
"""


def first_look(claude: ClaudeFolder, place: Path) -> Rows:
    store = place / "first.db"
    look_once(claude, store)
    return without_trouble(dump(store, FILE_STATE))


def without_trouble(rows: Rows) -> Rows:
    return {name: found for name, found in rows.items() if name != "trouble"}


def make_socket(path: Path) -> None:
    # The path of a socket is short: it is bound from its own folder.
    place = os.open(path.parent, os.O_RDONLY)
    here = os.open(".", os.O_RDONLY)
    try:
        os.fchdir(place)
        with socket.socket(socket.AF_UNIX) as made:
            made.bind(path.name)
    finally:
        os.fchdir(here)
        os.close(place)
        os.close(here)


def make_device(path: Path) -> None:
    try:
        os.mknod(path, stat.S_IFCHR | 0o600, os.makedev(1, 5))  # /dev/zero: it never ends
    except OSError as error:
        pytest.skip(f"no device can be made here: {error}")


@pytest.mark.parametrize("make", [os.mkfifo, make_socket, make_device])
def test_what_is_no_regular_file_is_told_of_and_never_opened(
    claude: ClaudeFolder,
    collector: Collector,
    recorder: Recorder,
    store: Path,
    make: Callable[[Path], None],
) -> None:
    write(claude.projects / MAIN, [assistant("m1")])
    nested = claude.projects / PROJECT / SESSION / "subagents"
    nested.mkdir(parents=True)
    for name in ("agent-a.jsonl", "agent-a.meta.json"):
        make(nested / name)
    odd = claude.projects / PROJECT / "odd.jsonl"
    make(odd)
    began = time.monotonic()
    collector.scan()
    collector.index_paths([odd])

    assert time.monotonic() - began < HANGS_S
    assert {trouble.what for trouble in recorder.troubles} >= {"is not a regular file"}
    assert len({trouble.where for trouble in recorder.troubles}) == 3
    assert [row[0] for row in dump(store)["file"]] == [MAIN]


def test_a_known_file_that_becomes_a_fifo_is_not_waited_for(
    claude: ClaudeFolder, collector: Collector, recorder: Recorder, store: Path
) -> None:
    path = write(claude.projects / MAIN, [assistant("m1")])
    collector.scan()
    path.unlink()
    os.mkfifo(path)
    began = time.monotonic()
    collector.index_paths([path])
    collector.scan()

    assert time.monotonic() - began < HANGS_S
    assert [row[0] for row in dump(store)["response"]] == [MAIN], "its data is kept"
    assert {trouble.where for trouble in recorder.troubles} == {MAIN}


def test_links_of_every_kind_lead_nowhere(
    claude: ClaudeFolder, collector: Collector, store: Path, tmp_path: Path
) -> None:
    real = write(claude.projects / MAIN, [assistant("m1")])
    outside = write(tmp_path / "outside" / "secret.jsonl", [assistant("secret")])
    project = real.parent
    (project / "file-out.jsonl").symlink_to(outside)
    (project / "file-in.jsonl").symlink_to(real)
    (project / "file-gone.jsonl").symlink_to(tmp_path / "nothing")
    (project / "file-self.jsonl").symlink_to(project / "file-self.jsonl")
    (claude.projects / "folder-out").symlink_to(outside.parent)
    (claude.projects / "folder-in").symlink_to(project)
    (claude.projects / "folder-up").symlink_to(claude.root)
    (project / SESSION).mkdir()
    (project / SESSION / "subagents").symlink_to(project)
    for _ in range(2):
        collector.scan()
    for name in ("folder-out", "folder-in", "folder-up"):
        collector.scan_below(claude.projects / name)
    collector.index_paths([project / "file-out.jsonl"])

    assert [row[0] for row in dump(store)["file"]] == [MAIN]
    assert [row[1] for row in dump(store)["response"]] != []
    assert "secret" not in str(dump(store)["response"])


@pytest.mark.parametrize("moment", [1, 2, 3])
def test_a_folder_that_is_renamed_while_it_is_looked_at(
    claude: ClaudeFolder,
    collector: Collector,
    store: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    moment: int,
) -> None:
    old = claude.projects / PROJECT
    write(claude.projects / MAIN, [assistant("m1")])
    write(old / SESSION / "subagents/agent-a1.jsonl", [assistant("m2")])
    real, calls = os.scandir, 0

    def scandir(path: Any) -> Any:  # noqa: ANN401 -- as os.scandir
        nonlocal calls
        found = real(path)
        calls += 1
        if calls == moment:
            old.rename(old.with_name("-renamed"))
        return found

    with monkeypatch.context() as patched:
        patched.setattr(os, "scandir", scandir)
        collector.scan()
    assert not old.exists()
    collector.scan()

    rows = without_trouble(dump(store, FILE_STATE - {"gone"}))
    there = {name: [row for row in found if "renamed" in str(row)] for name, found in rows.items()}
    assert len(there["file"]) == len(there["response"]) == 2
    look_once(claude, tmp_path / "first.db")
    first = dump(tmp_path / "first.db", FILE_STATE - {"gone"})
    assert (there["file"], there["response"]) == (first["file"], first["response"])


def test_a_folder_that_is_renamed_between_the_look_and_the_reading(
    claude: ClaudeFolder, collector: Collector, recorder: Recorder, store: Path
) -> None:
    write(claude.projects / MAIN, [assistant("m1")])
    finding = find_files(claude)
    (claude.projects / PROJECT).rename(claude.projects / "-renamed")
    collector.index_listing(finding)
    assert dump(store)["response"] == []
    collector.scan()

    assert [row[0] for row in dump(store)["response"]] == [f"-renamed/{SESSION}.jsonl"]
    assert recorder.troubles == []


def test_a_clock_that_jumps_loses_nothing(
    claude: ClaudeFolder,
    collector: Collector,
    recorder: Recorder,
    store: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    path = write(claude.projects / MAIN, [user(), assistant("m0")])
    now = time.time_ns()
    for number, years in enumerate((0, 3, -3, -60, 40, 0, -1), 1):
        then = max(0, now + years * YEAR_NS)
        monkeypatch.setattr(time, "time_ns", lambda then=then: then)
        told = f"{2026 + years}-06-01T00:00:00Z"
        append(path, [assistant(f"m{number}") | {"timestamp": told}])
        # The file's own clock jumps the other way.
        stamp = max(0, now - years * YEAR_NS)
        os.utime(path, ns=(stamp, stamp))
        collector.scan()
        read = len(recorder.progress)
        collector.scan()
        assert len(recorder.progress) == read, "nothing changed, and it was read again"

    assert len(dump(store)["response"]) == 8
    assert without_trouble(dump(store, FILE_STATE)) == first_look(claude, tmp_path)
    assert recorder.troubles == []


@pytest.mark.parametrize("said", ["0001-01-01T00:00:00Z", "9999-12-31T23:59:59.999Z", "soon", ""])
def test_times_that_cannot_be(
    claude: ClaudeFolder, collector: Collector, store: Path, said: str
) -> None:
    path = write(claude.projects / MAIN, [assistant("m1") | {"timestamp": said}])
    os.utime(path, ns=(2**62, 2**62))
    collector.scan()
    append(path, [assistant("m2")])
    collector.scan()

    assert len(dump(store)["response"]) == 2


def test_what_no_json_should_hold_harms_no_line_beside_it(
    claude: ClaudeFolder, collector: Collector, store: Path
) -> None:
    odd = [
        b'{"type":"user","message":{"role":"user","content":"no \xff UTF-8"}}',
        b"\xff\xfe\0",
        b'{"type":"ai-title","aiTitle":"half \\ud800 a pair"}',
        b'{"type":"ai-title","aiTitle":"half \xed\xa0\x80 a pair"}',
        '{"type":"ai-title","aiTitle":"a \u2028 b \u2029 c \x85 d"}'.encode(),
        b'{"type":"ai-title","aiTitle":"a \0 b"}',
        b"\0" * 100,
        b"\0" * 9 + encode([assistant("after_nul")]).rstrip() + b"\0",
    ]
    lines: list[Any] = []
    for number, line in enumerate(odd):
        lines += [line, assistant(f"m{number}")]
    path = claude.projects / MAIN
    path.parent.mkdir()
    path.write_bytes(encode(lines).replace(b"\n", b"\r\n"))
    collector.scan()

    rows = dump(store)
    named = {cell for row in rows["response"] for cell in row if isinstance(cell, str)}
    assert named >= {"after_nul", *(f"m{number}" for number in range(len(odd)))}
    assert len(rows["response"]) == len(odd) + 1
    data = path.read_bytes()
    bad = collector.writer.connection.execute("SELECT offset, length, reason FROM bad_line")
    found = {data[offset : offset + length]: reason for offset, length, reason in bad}
    assert found.keys() == {b"\xff\xfe", odd[5]}
    assert all(reason.startswith("not JSON") for reason in found.values())


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="only Linux says what a process took")
def test_very_many_files(claude: ClaudeFolder, tmp_path: Path, child_env: dict[str, str]) -> None:
    # Names are many, files are few: a file has at most 65,000 names.
    whole = []
    for number in range(MANY):
        project, left = divmod(number, 1000)
        place = claude.projects / f"-p{project}"
        if not left:
            place.mkdir()
            whole.append(write(place / "s0.jsonl", [assistant(f"m{project}")]))
        else:
            os.link(whole[-1], place / f"s{left}.jsonl")
    store = tmp_path / "many.db"
    repository = __file__.rpartition("/tests/")[0]
    began = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-c", COUNTED, repository, str(claude.root), str(store)],
        env=child_env,
        capture_output=True,
        text=True,
        check=False,
        timeout=MANY_S,
    )
    seconds = time.monotonic() - began
    assert done.stderr == ""
    files, kibibytes = map(int, done.stdout.split())
    print(f"{files:,} files in {seconds:.1f} s with {kibibytes / 1024:.0f} MB")

    assert files == MANY
    assert kibibytes / 1024 < MANY_MB
