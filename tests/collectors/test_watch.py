"""Keeping up with a real folder, also while the store or the system cannot."""

from __future__ import annotations

import os
import shutil
import sqlite3
import threading
import time
from contextlib import closing, contextmanager
from itertools import count
from typing import TYPE_CHECKING, Any

import pytest
import watchfiles
from ctxtop.collectors import store_update
from ctxtop.collectors.collector_thread import Collector
from ctxtop.collectors.locations.discover import ClaudeFolder
from ctxtop.collectors.store_update import scan_and_watch
from ctxtop.core.model.transcript_records import LogKind
from ctxtop.core.store import database
from ctxtop.core.store.database import open_reader
from ctxtop.core.store.writer import Writer

from ..dump import dump
from ..logs import line, lines, log_file, part_name, tell
from ..recorder import Recorder
from ..transcripts import PROJECT, SESSION, append, assistant, encode, user, write

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

DEADLINE_S = 60.0  # what takes longer hangs
MAIN = f"{PROJECT}/{SESSION}.jsonl"


def until(condition: Callable[[], bool]) -> None:
    """Wait for a condition; fail at the deadline."""
    end = time.monotonic() + DEADLINE_S
    while not condition():
        assert time.monotonic() < end, "it did not happen in time"
        time.sleep(0.02)


def ask(store: Path, sql: str) -> list[tuple[Any, ...]]:
    """Read from a store that may be locked, or made again, at this moment."""
    try:
        with closing(open_reader(store)) as db:
            return [tuple(row) for row in db.execute(sql)]
    except (database.StoreError, sqlite3.Error):
        return []


def answers(store: Path) -> set[str]:
    return {row[0] for row in ask(store, "SELECT message_id FROM response")}


def gone(store: Path) -> set[str]:
    return {row[0] for row in ask(store, "SELECT path FROM file WHERE gone")}


@pytest.fixture
def main(claude: ClaudeFolder) -> Path:
    return write(claude.projects / MAIN, [user(), assistant("m1")])


@contextmanager
def watching(claude: ClaudeFolder, store: Path, recorder: Recorder) -> Iterator[threading.Thread]:
    """Follow a folder in a thread; a failure of the thread is a failure of the test."""
    stop, failed = threading.Event(), list[BaseException]()

    def run() -> None:
        try:
            with closing(Writer(store)) as writer:
                writer.claim_folder(claude.root)
                scan_and_watch(claude, writer, recorder, stop)
        except BaseException as error:  # noqa: BLE001 -- told below
            failed.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield thread
    finally:
        stop.set()
        thread.join(DEADLINE_S)
    assert failed == []
    assert not thread.is_alive()


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Look again soon, and wait little for a lock."""
    monkeypatch.setattr(store_update, "RETRY_S", 0.1)
    monkeypatch.setattr(store_update, "RECONCILE_S", 1.0)
    monkeypatch.setattr(store_update, "TICK_MS", 100)
    monkeypatch.setattr(database, "BUSY_TIMEOUT_S", 0.1)


@pytest.fixture
def never_reconcile(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave only what the system tells of."""
    monkeypatch.setattr(store_update, "SIDECARS_S", 3600.0)
    monkeypatch.setattr(store_update, "RECONCILE_S", 3600.0)


_probes = count()


def wait_for_the_watch(main: Path, store: Path) -> None:
    """Write until it is seen: the watch has begun."""

    def is_seen() -> bool:
        name = f"probe{next(_probes)}"
        append(main, [assistant(name)])
        end = time.monotonic() + 0.5
        while time.monotonic() < end:
            if name in answers(store):
                return True
            time.sleep(0.02)
        return False

    until(is_seen)


@pytest.mark.usefixtures("never_reconcile")
def test_what_is_appended_is_seen(
    claude: ClaudeFolder, main: Path, store: Path, recorder: Recorder
) -> None:
    with watching(claude, store, recorder):
        wait_for_the_watch(main, store)
        append(main, [assistant("m2")])
        until(lambda: "m2" in answers(store))
        with main.open("ab") as file:
            file.write(encode([assistant("m3")])[:50])
        append(main, [b"", assistant("m4")])
        until(lambda: "m4" in answers(store))

    assert SESSION in recorder.sessions
    assert recorder.troubles == []


def test_a_new_nested_folder_with_a_file_at_once_is_seen(
    claude: ClaudeFolder, main: Path, store: Path, recorder: Recorder
) -> None:
    with watching(claude, store, recorder):
        wait_for_the_watch(main, store)
        for number in range(5):
            nested = claude.projects / f"-new-{number}" / f"s{number}" / "subagents"
            write(nested / "agent-a1.jsonl", [assistant(f"n{number}")])
            write(nested / "agent-a1.meta.json", [{"agentType": "x"}])
        until(lambda: {f"n{number}" for number in range(5)} <= answers(store))
        until(lambda: len(ask(store, "SELECT 1 FROM agent_meta")) == 5)


@pytest.mark.usefixtures("never_reconcile")
def test_deleted_back_and_rewritten(
    claude: ClaudeFolder, main: Path, store: Path, recorder: Recorder
) -> None:
    kept = encode([user(), assistant("m1"), assistant("m2")])
    with watching(claude, store, recorder):
        wait_for_the_watch(main, store)
        main.unlink()
        until(lambda: gone(store) == {MAIN})
        assert "m1" in answers(store)
        main.write_bytes(kept)
        until(lambda: gone(store) == set() and answers(store) == {"m1", "m2"})
        write(main, [user("other"), assistant("m9")])
        until(lambda: answers(store) == {"m9"})

    assert {notice.what for notice in recorder.notices} == {"is gone", "was rewritten"}


@pytest.mark.usefixtures("quick")
def test_a_folder_that_is_made_after_the_start_is_seen(
    tmp_path: Path, store: Path, recorder: Recorder
) -> None:
    claude = ClaudeFolder(tmp_path / "later")
    with watching(claude, store, recorder):
        until(lambda: ask(store, "SELECT 1 FROM about") != [])
        write(claude.projects / MAIN, [assistant("m1")])
        until(lambda: "m1" in answers(store))
        append(claude.projects / MAIN, [assistant("m2")])
        until(lambda: "m2" in answers(store))
        shutil.rmtree(claude.projects)
        until(lambda: gone(store) == {MAIN})
        write(claude.projects / MAIN, [assistant("m1"), assistant("m2"), assistant("m3")])
        until(lambda: "m3" in answers(store))


@pytest.mark.usefixtures("never_reconcile")
def test_a_folder_behind_a_link_is_not_read(
    claude: ClaudeFolder, main: Path, store: Path, recorder: Recorder, tmp_path: Path
) -> None:
    outside = write(tmp_path / "outside" / "secret.jsonl", [assistant("secret")])
    with watching(claude, store, recorder):
        wait_for_the_watch(main, store)
        (claude.projects / "linked").symlink_to(outside.parent)
        wait_for_the_watch(main, store)
        append(outside, [assistant("secret2")])
        wait_for_the_watch(main, store)

    assert not {"secret", "secret2"} & answers(store)


def failing(code: int, message: str, times: int) -> tuple[Callable[..., None], list[int]]:
    """A store's function that fails some times as SQLite would, and then works."""
    real, failures = Writer.append, list[int]()

    def append_or_fail(self: Writer, *args: Any) -> None:  # noqa: ANN401 -- as append
        if len(failures) < times:
            failures.append(1)
            error = sqlite3.OperationalError(message)
            error.sqlite_errorcode = code
            raise error
        real(self, *args)

    return append_or_fail, failures


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize(
    ("code", "words"),
    [
        (sqlite3.SQLITE_FULL, "the disk is full"),
        (sqlite3.SQLITE_IOERR_WRITE, "the disk does not respond"),
        (sqlite3.SQLITE_BUSY_SNAPSHOT, "another program has it locked"),
    ],
)
def test_a_store_that_cannot_be_written_for_a_while(
    claude: ClaudeFolder,
    main: Path,
    store: Path,
    recorder: Recorder,
    monkeypatch: pytest.MonkeyPatch,
    code: int,
    words: str,
) -> None:
    fails, failures = failing(code, "it failed", 3)
    monkeypatch.setattr(Writer, "append", fails)
    with watching(claude, store, recorder):
        until(lambda: answers(store) == {"m1"})
        until(lambda: recorder.ended == [str(store)])
        append(main, [assistant("m2")])
        until(lambda: answers(store) == {"m1", "m2"})

    assert len(failures) == 3
    assert {trouble.where for trouble in recorder.troubles} == {str(store)}
    assert all(trouble.what == words for trouble in recorder.troubles)
    assert all("\n" not in str(trouble) for trouble in recorder.troubles)


@pytest.mark.usefixtures("quick")
def test_a_store_that_another_program_holds(
    claude: ClaudeFolder, main: Path, store: Path, recorder: Recorder
) -> None:
    with watching(claude, store, recorder):
        wait_for_the_watch(main, store)
        with closing(sqlite3.connect(store, isolation_level=None, timeout=10)) as other:
            other.execute("BEGIN IMMEDIATE")
            append(main, [assistant("late")])
            until(lambda: recorder.troubles != [])
            assert "late" not in answers(store)
            other.rollback()
        until(lambda: "late" in answers(store))
        until(lambda: recorder.ended == [str(store)])

    assert {trouble.what for trouble in recorder.troubles} == {"another program has it locked"}


@pytest.mark.usefixtures("quick")
def test_a_store_that_is_damaged_while_it_is_in_use_is_made_again(
    claude: ClaudeFolder,
    main: Path,
    store: Path,
    recorder: Recorder,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with watching(claude, store, recorder):
        until(lambda: answers(store) == {"m1"})
        fails, _ = failing(sqlite3.SQLITE_CORRUPT_VTAB, "database disk image is malformed", 1)
        monkeypatch.setattr(Writer, "append", fails)
        append(main, [assistant("m2")])
        until(lambda: answers(store) == {"m1", "m2"})

    (notice,) = recorder.notices
    assert "rebuilt" in notice.what
    assert recorder.troubles == []
    aside = [path for path in store.parent.iterdir() if ".aside-" in path.name]
    assert aside
    root = "SELECT value FROM about WHERE key = 'root'"
    assert ask(store, root) == [(str(claude.root),)]


@pytest.mark.usefixtures("quick")
def test_pages_that_are_damaged_on_the_disk_are_found_at_the_next_start(
    claude: ClaudeFolder, main: Path, store: Path, recorder: Recorder
) -> None:
    for number in range(300):
        write(claude.projects / PROJECT / f"{number}.jsonl", [assistant(f"m{number}")])
    with watching(claude, store, recorder):
        until(lambda: len(answers(store)) == 300)
    data = bytearray(store.read_bytes())
    size = int.from_bytes(data[16:18], "big")
    root = ask(store, "SELECT rootpage FROM sqlite_schema WHERE name = 'response_message'")[0][0]
    for place in range((root - 1) * size, root * size):
        data[place] = 0xA5
    store.write_bytes(bytes(data))
    append(main, [assistant("after")])
    with watching(claude, store, recorder):
        until(lambda: "after" in answers(store))
        until(lambda: len(answers(store)) == 301)

    assert any("rebuilt" in notice.what for notice in recorder.notices)
    assert len(dump(store)["file"]) == 301


@pytest.mark.usefixtures("quick")
def test_where_the_system_does_not_tell_the_folder_is_polled(
    claude: ClaudeFolder,
    main: Path,
    store: Path,
    recorder: Recorder,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    real, asked = watchfiles.watch, list[object]()

    def refuse_once(*places: Any, **options: Any) -> Any:  # noqa: ANN401 -- as watchfiles.watch
        asked.append(options["force_polling"])
        if len(asked) == 1:
            raise OSError(28, "OS file watch limit reached")
        return real(*places, **options)

    monkeypatch.setattr(watchfiles, "watch", refuse_once)
    with watching(claude, store, recorder):
        wait_for_the_watch(main, store)
        nested = claude.projects / PROJECT / SESSION / "subagents"
        write(nested / "agent-a1.jsonl", [assistant("nested")])
        until(lambda: "nested" in answers(store))

    assert asked[:2] == [None, True]
    (trouble,) = recorder.troubles
    assert "polls instead" in trouble.fix
    assert "\n" not in str(trouble)


@pytest.mark.parametrize("with_folder", [True, False])
def test_it_stops_within_two_seconds(
    tmp_path: Path, store: Path, recorder: Recorder, with_folder: bool
) -> None:
    claude = ClaudeFolder(tmp_path / "root")
    claude.root.mkdir()
    if with_folder:
        write(claude.projects / MAIN, [assistant("m1")])
    began = time.monotonic()
    with watching(claude, store, recorder):
        until(lambda: ask(store, "SELECT 1 FROM about") != [])
        # On a busy machine it takes as long to stop as to start.
        allowed_s = 2 + time.monotonic() - began
        if with_folder:
            wait_for_the_watch(claude.projects / MAIN, store)
        began = time.monotonic()

    assert time.monotonic() - began < allowed_s


@pytest.mark.usefixtures("quick")
def test_an_error_that_does_not_pass_is_raised(
    claude: ClaudeFolder, main: Path, writer: Writer, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert main.exists()
    fails, _ = failing(sqlite3.SQLITE_READONLY, "attempt to write a readonly database", 1)
    monkeypatch.setattr(Writer, "append", fails)
    with pytest.raises(sqlite3.OperationalError, match="readonly database"):
        scan_and_watch(claude, writer, Recorder(), threading.Event())


@pytest.mark.usefixtures("quick", "plants_faults")
@pytest.mark.parametrize("name", ["scan", "index_paths", "index_unterminated"])
def test_a_fault_in_one_look_ends_no_other(
    claude: ClaudeFolder,
    main: Path,
    store: Path,
    recorder: Recorder,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
) -> None:
    real, failures = getattr(Collector, name), list[int]()

    def look_or_fail(self: Collector, *given: Any) -> None:  # noqa: ANN401 -- as the method
        if not failures:
            failures.append(1)
            raise LookupError("planted")
        real(self, *given)

    monkeypatch.setattr(Collector, name, look_or_fail)
    with watching(claude, store, recorder):
        wait_for_the_watch(main, store)
        append(main, [assistant("more")])
        until(lambda: recorder.ended != [])
    assert failures
    assert [each.where for each in recorder.troubles] == recorder.ended
    assert "failed (LookupError: planted" in recorder.troubles[0].what


@pytest.mark.usefixtures("never_reconcile")
def test_the_registry_is_looked_at_when_it_changes(
    claude: ClaudeFolder, main: Path, store: Path, recorder: Recorder
) -> None:
    claude.sessions.mkdir()
    with watching(claude, store, recorder):
        wait_for_the_watch(main, store)
        # The first two may still be found by the looks of the start.
        for status in ("busy", "waiting", "idle"):
            entry = {"pid": os.getpid(), "sessionId": SESSION, "status": status}
            write(claude.sessions / f"{os.getpid()}.json", [entry])
            expected = [(SESSION, status)]
            until(lambda: ask(store, "SELECT session_id, status FROM live") == expected)  # noqa: B023


@pytest.mark.usefixtures("quick", "main")
def test_damage_that_only_a_reader_finds_makes_the_store_again(
    claude: ClaudeFolder, store: Path, recorder: Recorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    writers: list[Writer] = []
    monkeypatch.setattr(Writer, "claim_folder", lambda self, _: writers.append(self))
    with watching(claude, store, recorder):
        until(lambda: answers(store) == {"m1"})
        error = sqlite3.DatabaseError("database disk image is malformed")
        error.sqlite_errorcode = sqlite3.SQLITE_CORRUPT
        writers[0].report_damage(error)
        until(lambda: recorder.notices != [])
        until(lambda: answers(store) == {"m1"})

    assert "rebuilt" in recorder.notices[0].what


@pytest.mark.usefixtures("quick", "never_reconcile")
def test_what_a_hook_was_told_is_seen_at_once_also_in_a_renamed_log(
    claude: ClaudeFolder, main: Path, store: Path, recorder: Recorder
) -> None:
    def told() -> int:
        return ask(store, "SELECT COUNT(*) FROM hook_event")[0][0]  # type: ignore[no-any-return]

    path = log_file(store)
    with watching(claude, store, recorder):
        wait_for_the_watch(main, store)
        tell(store, "Stop", session_id=SESSION)
        until(lambda: told() == 1)
        part = path.rename(path.with_name(part_name(LogKind.HOOKS, 1)))
        tell(store, "Stop", session_id=SESSION)
        until(lambda: told() == 2)
        with part.open("ab") as file:
            file.write(lines([line(1)]))
        until(lambda: told() == 3)
