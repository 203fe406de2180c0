"""Processes that help to read: whatever becomes of them, the rows are the same."""

from __future__ import annotations

import hashlib
import os
import signal
import subprocess
import sys
from typing import TYPE_CHECKING, Any, Final

import psutil
import pytest
from ctxtop.collectors import collector_thread
from ctxtop.collectors.claude_code import reader_pool
from ctxtop.collectors.claude_code.reader_pool import FRAME_LENGTH, ReadAnswer, pack_frame
from ctxtop.collectors.collector_thread import Collector
from ctxtop.core.store.writer import Writer

from ..dump import FILE_STATE, Rows, dump
from ..recorder import Recorder
from ..transcripts import PROJECT, append, assistant, encode, user, write

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from ctxtop.collectors.locations.discover import ClaudeFolder

FILES: Final = 8
ANSWERS: Final = 6_000
"""In the largest file: more than one block."""

# Each reads what it was told, and then does something else than to answer.
STRANGERS: Final = {
    "one that says nothing": "while sys.stdin.buffer.read(1): pass",
    "one that ends at once": "",
    "one that ends at its first task": "sys.stdin.buffer.read(5)",
    "one that says no frame": "sys.stdin.buffer.read(5); print('Traceback', flush=True); wait()",
    "one that says what is no message": f"say({FRAME_LENGTH.pack(3)!r} + b'xyz'); wait()",
    "one that answers what nobody asked": f"say({pack_frame(ReadAnswer(999, None))!r}); wait()",
    "one that answers half": f"say({FRAME_LENGTH.pack(100)!r} + b'x' * 50)",
    "one that promises a lot": f"say({FRAME_LENGTH.pack(2**32 - 1)!r}); wait()",
    "one that sees nothing": "serve_none()",
}
STRANGER: Final = """
import sys, time
from ctxtop.collectors.claude_code import reader_pool
def say(data):
    sys.stdin.buffer.read(5)
    sys.stdout.buffer.write(data)
    sys.stdout.buffer.flush()
def wait():
    while sys.stdin.buffer.read(1): pass
def serve_none():
    reader_pool._index_unless_rewritten = lambda *_: None
    reader_pool.serve_jobs(sys.stdin.buffer, sys.stdout.buffer)
print("said to the terminal", file=sys.stderr)
"""


@pytest.fixture(autouse=True)
def much(monkeypatch: pytest.MonkeyPatch) -> None:
    """Use the reader pool for small files too, with three cores on any machine."""
    monkeypatch.setattr(reader_pool, "MIN_POOL_BYTES", 1)
    monkeypatch.setattr(reader_pool, "READER_TIMEOUT_S", 2.0)
    monkeypatch.setattr(reader_pool, "_usable_cores", lambda: 3)
    monkeypatch.setattr(collector_thread, "COMMIT_BYTES", 500_000)


@pytest.fixture
def files(claude: ClaudeFolder) -> list[Path]:
    return [
        write(
            claude.projects / PROJECT / f"s{number}.jsonl",
            [user()] + [assistant(f"m{number}_{each}") for each in range(count)],
        )
        for number, count in enumerate([*[20] * (FILES - 1), ANSWERS])
    ]


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[subprocess.Popen[bytes]]:
    """Every process that was started."""
    found: list[subprocess.Popen[bytes]] = []
    real: Any = subprocess.Popen

    def start(*arguments: Any, **options: Any) -> subprocess.Popen[bytes]:  # noqa: ANN401
        found.append(real(*arguments, **options))
        return found[-1]

    monkeypatch.setattr(subprocess, "Popen", start)
    return found


_cleanly_read: dict[bytes, Rows] = {}


def clean(claude: ClaudeFolder, place: Path, monkeypatch: pytest.MonkeyPatch) -> Rows:
    """What one scan without any help stores; the same files are scanned once for all tests."""
    read = hashlib.sha256()
    for path in sorted(claude.projects.rglob("*.jsonl")):
        data = path.read_bytes()
        read.update(f"{path.relative_to(claude.projects)} {len(data)}\n".encode() + data)
    if read.digest() not in _cleanly_read:
        _cleanly_read[read.digest()] = _scan_alone(claude, place / "clean.db", monkeypatch)
    return _cleanly_read[read.digest()]


def _scan_alone(claude: ClaudeFolder, store: Path, monkeypatch: pytest.MonkeyPatch) -> Rows:
    with monkeypatch.context() as patched:
        patched.setattr(reader_pool, "MIN_POOL_BYTES", sys.maxsize)
        writer = Writer(store)
        Collector(claude, writer, Recorder()).scan()
        writer.close()
    return dump(store, FILE_STATE)


def is_over(process: subprocess.Popen[bytes]) -> bool:
    """It has ended, and its parent has heard of it."""
    return process.returncode is not None and not psutil.pid_exists(process.pid)


def test_two_processes_read_what_one_would(
    claude: ClaudeFolder,
    collector: Collector,
    store: Path,
    tmp_path: Path,
    files: list[Path],
    started: list[subprocess.Popen[bytes]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    answered: list[bool] = []
    take = Collector._store_answer

    def count(self: Collector, answer: reader_pool.TaskAnswer, batch: Any) -> None:  # noqa: ANN401
        answered.append(answer[1] is not None)
        take(self, answer, batch)

    monkeypatch.setattr(Collector, "_store_answer", count)
    collector.scan()
    append(files[0], [assistant("later")])
    collector.scan()

    assert dump(store, FILE_STATE) == clean(claude, tmp_path, monkeypatch)
    assert len(started) == 4
    assert all(is_over(process) for process in started)
    assert sum(answered) >= FILES, "the processes did not read"
    assert all(answered)


@pytest.mark.parametrize("stranger", STRANGERS)
def test_whatever_a_process_says_the_rows_are_the_same(
    claude: ClaudeFolder,
    collector: Collector,
    recorder: Recorder,
    store: Path,
    tmp_path: Path,
    files: list[Path],
    started: list[subprocess.Popen[bytes]],
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    stranger: str,
) -> None:
    assert len(files) == FILES
    start: Any = subprocess.Popen

    def start_stranger(_: list[str], **options: Any) -> subprocess.Popen[bytes]:  # noqa: ANN401
        command = [sys.executable, "-c", STRANGER + STRANGERS[stranger]]
        paths = os.pathsep.join(path for path in sys.path if path)
        env = os.environ | {"PYTHONPATH": paths}
        process: subprocess.Popen[bytes] = start(command, env=env, **options)
        return process

    monkeypatch.setattr(subprocess, "Popen", start_stranger)
    collector.scan()

    assert dump(store, FILE_STATE) == clean(claude, tmp_path, monkeypatch)
    assert len(started) == 2
    assert all(is_over(process) for process in started)
    assert recorder.troubles == []
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("error", [FileNotFoundError(2, "gone"), BlockingIOError(11, "too many")])
def test_where_no_process_can_be_started_the_collector_reads_alone(
    claude: ClaudeFolder,
    collector: Collector,
    recorder: Recorder,
    store: Path,
    tmp_path: Path,
    files: list[Path],
    monkeypatch: pytest.MonkeyPatch,
    error: OSError,
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr(subprocess, "Popen", refuse)
    collector.scan()

    assert len(dump(store)["file"]) == len(files)
    assert dump(store, FILE_STATE) == clean(claude, tmp_path, monkeypatch)
    assert recorder.troubles == []


@pytest.mark.parametrize("moment", [1, 2, 4, 7])
@pytest.mark.parametrize("sign", [signal.SIGKILL, signal.SIGSTOP, signal.SIGTERM])
def test_a_process_that_is_killed_while_it_reads(
    claude: ClaudeFolder,
    collector: Collector,
    store: Path,
    tmp_path: Path,
    files: list[Path],
    started: list[subprocess.Popen[bytes]],
    monkeypatch: pytest.MonkeyPatch,
    moment: int,
    sign: signal.Signals,
) -> None:
    assert len(files) == FILES
    take, taken = Collector._store_answer, 0

    def count(self: Collector, answer: reader_pool.TaskAnswer, batch: Any) -> None:  # noqa: ANN401
        nonlocal taken
        taken += 1
        if taken == moment:
            for process in started:
                process.send_signal(sign)
        take(self, answer, batch)

    monkeypatch.setattr(Collector, "_store_answer", count)
    collector.scan()

    assert taken >= moment
    assert dump(store, FILE_STATE) == clean(claude, tmp_path, monkeypatch)
    assert all(is_over(process) for process in started)


def _vanish(path: Path) -> None:
    path.unlink()


def _rewrite(path: Path) -> None:
    write(path, [user("other"), *(assistant(f"new{number}") for number in range(30))])


def _replace(path: Path) -> None:
    other = write(path.with_suffix(".new"), [assistant("of another file")])
    other.replace(path)


def _empty(path: Path) -> None:
    path.write_bytes(b"")


def _grow(path: Path) -> None:
    append(path, [assistant(f"more{number}") for number in range(30)])


@pytest.mark.parametrize("happens", [_vanish, _rewrite, _replace, _empty, _grow])
@pytest.mark.parametrize("moment", [1, 3])
def test_a_file_that_changes_while_a_process_reads_it(
    claude: ClaudeFolder,
    collector: Collector,
    store: Path,
    tmp_path: Path,
    files: list[Path],
    monkeypatch: pytest.MonkeyPatch,
    happens: Callable[[Path], None],
    moment: int,
) -> None:
    largest = files[-1]
    take, seen = Collector._store_answer, 0

    def count(self: Collector, answer: reader_pool.TaskAnswer, batch: Any) -> None:  # noqa: ANN401
        nonlocal seen
        if answer[0].found.path == largest:
            seen += 1
            if seen == moment:
                happens(largest)
        take(self, answer, batch)

    monkeypatch.setattr(Collector, "_store_answer", count)
    collector.scan()
    assert seen >= moment, "no process read the largest file"
    collector.scan()

    found = dump(store, FILE_STATE)
    if happens is _vanish:
        # What was read of it before is kept; the others are as they are.
        gone = f"{PROJECT}/{largest.name}"
        found = {name: [row for row in rows if gone not in row] for name, rows in found.items()}
    assert found == clean(claude, tmp_path, monkeypatch)


def test_processes_that_have_ended_before_they_are_asked(
    claude: ClaudeFolder,
    collector: Collector,
    store: Path,
    tmp_path: Path,
    files: list[Path],
    started: list[subprocess.Popen[bytes]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert len(files) == FILES
    start: Any = subprocess.Popen

    def start_and_end(*arguments: Any, **options: Any) -> subprocess.Popen[bytes]:  # noqa: ANN401
        process: subprocess.Popen[bytes] = start(*arguments, **options)
        process.kill()
        # Not by its own handle: the collector is to find out by itself.
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        return process

    monkeypatch.setattr(subprocess, "Popen", start_and_end)
    collector.scan()

    assert dump(store, FILE_STATE) == clean(claude, tmp_path, monkeypatch)
    assert all(is_over(process) for process in started)


def test_more_small_files_than_a_pipe_holds_do_not_make_both_sides_wait(
    claude: ClaudeFolder,
    collector: Collector,
    store: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # Pipes of one page stand for ten thousands of files.
    monkeypatch.setattr(reader_pool, "_PIPE_BYTES", 4096)
    monkeypatch.setattr(reader_pool, "MAX_QUEUED_TASKS", 8)
    below = claude.projects / PROJECT
    below.mkdir()
    for number in range(600):
        (below / f"{number}.jsonl").write_bytes(encode([assistant(f"m{number}")]))
    signal.alarm(60)
    try:
        collector.scan()
    finally:
        signal.alarm(0)

    assert len(dump(store)["response"]) == 600


def test_a_process_ends_with_its_input() -> None:
    with subprocess.Popen(
        [sys.executable, "-m", reader_pool.__name__],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path)},
    ) as process:
        out, _ = process.communicate(b"", timeout=30)

    assert (out, process.returncode) == (b"", 0)
