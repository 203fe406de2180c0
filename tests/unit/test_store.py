"""Opening the store: its tables, its permissions, and what happens when it cannot be used."""

from __future__ import annotations

import re
import sqlite3
import stat
import subprocess
import sys
import threading
from contextlib import closing
from hashlib import sha256
from pathlib import Path

import ctxtop.core.store
import pytest
from ctxtop.core.model.transcript_records import (
    MAX_BAD_LINES_PER_FILE,
    BadLine,
    FileKind,
    SourceFile,
    SummaryRecord,
    TailState,
    TranscriptRecords,
)
from ctxtop.core.store import database, inserts
from ctxtop.core.store.database import (
    SCHEMA_VERSION,
    StoreError,
    find_damage,
    open_reader,
    open_writer,
    owned_tables,
    schema_hash,
    schema_version,
    write_transaction,
)
from ctxtop.core.store.queries import session_queries
from ctxtop.core.store.writer import OtherFolderError, Writer

from ..dump import dump
from ..stored import stored_summaries

SCHEMA = (13, "638f6ae7ea22f1aa")
"""SCHEMA_VERSION and the hash of schema.sql without its comments: they change together."""

VIRTUAL_TABLES = {"search_fts", "summary_fts"}
TABLES = {
    "searched_block",
    "limit_reading",
    "client_report",
    "addition",
    "answer_item",
    "automatic_run",
    "client_run",
    "closed_agent",
    "recovery_run",
    "pause_run",
    "client_environment",
    "context_report",
    "judged_context",
    "judged_file",
    "context_text",
    "context_text_progress",
    "warning",
    "aside_line",
    "request",
    "request_part",
    "leaf_title",
    "left_open",
    "changed_session",
    "own_fork",
    "step",
    "step_agent",
    "about",
    "agent_meta",
    "agent_return",
    "api_error",
    "bad_line",
    "boundary",
    "clearing",
    "compaction_left",
    "compaction_told",
    "definition",
    "estimate",
    "feedback",
    "file",
    "forecast_calibration",
    "given_skill",
    "open_call",
    "spending",
    "shared_response",
    "growth",
    "hook_run",
    "hook_event",
    "launch",
    "learnt",
    "line_count",
    "live",
    "log_bad_line",
    "log_part",
    "marker",
    "measurement",
    "model_use",
    "plugin",
    "reply",
    "response",
    "memory_note",
    "save_event",
    "save_file",
    "save_log",
    "save_noise",
    "save_place",
    "save_plugin",
    "session",
    "setting",
    "settings_file",
    "status_snapshot",
    "stop_block",
    "summary",
    "text_count",
    "trouble",
    "window_seen",
    "worktree",
}

SOURCE = SourceFile("p/s.jsonl", FileKind.SESSION, "p", "s")


def keep_text(writer: Writer, text: str, source: SourceFile = SOURCE) -> None:
    """Store a file whose only fact is one text."""
    fact = SummaryRecord(0, "u1", "agent", "a1", 1, text, 1, len(text))
    after = TailState(offset=10, anchor="x", size=10)
    writer.append(source, TailState(), after, TranscriptRecords(lines=1, summaries=(fact,)))


def found_texts(path: Path, words: str) -> list[str]:
    with closing(open_reader(path)) as db:
        return [row.text for row in stored_summaries(db, words)]


def test_the_whole_schema(writer: Writer, store: Path) -> None:
    with closing(open_reader(store)) as db:
        listed = db.execute(
            "SELECT name, type, strict FROM pragma_table_list WHERE schema = 'main'"
            " AND type IN ('table', 'virtual') AND name NOT GLOB '*sqlite_*'"
        ).fetchall()
        strict = {row["name"] for row in listed if row["type"] == "table" and row["strict"]}
        virtual = {row["name"] for row in listed if row["type"] == "virtual"}

        assert {row["name"] for row in listed} == TABLES | VIRTUAL_TABLES
        assert strict == TABLES
        assert virtual == VIRTUAL_TABLES
        assert db.execute("PRAGMA journal_mode").fetchone()[0] == "wal"


def test_every_table_of_facts_belongs_to_a_file(writer: Writer) -> None:
    db = writer.connection
    with_file = {
        name
        for name in TABLES
        if db.execute(
            "SELECT 1 FROM pragma_table_info(?) WHERE name = 'file_id'", [name]
        ).fetchone()
    }

    assert with_file == {*owned_tables(db, "file", "file_id"), "file"}


def test_tables_are_created_once(store: Path) -> None:
    hashes = set()
    for _ in range(3):
        with closing(Writer(store)) as writer:
            assert writer.notice is None
            assert schema_version(writer.connection) == SCHEMA_VERSION
            hashes.add(schema_hash(writer.connection))
    assert len(hashes) == 1


def test_a_change_of_the_schema_raises_its_version() -> None:
    """Comments may change: they and white space are left out of the hash."""
    script = (Path(ctxtop.core.store.__file__).parent / "schema.sql").read_text(encoding="utf-8")
    words = " ".join(re.sub(r"--[^\n]*", "", script).split())
    assert (SCHEMA_VERSION, sha256(words.encode()).hexdigest()[:16]) == SCHEMA


def test_a_second_start_keeps_what_is_stored(store: Path) -> None:
    with closing(Writer(store)) as writer:
        keep_text(writer, "keep me")
    before = dump(store)
    with closing(Writer(store)):
        pass

    assert dump(store) == before
    assert before["summary"]


def test_the_full_text_index_follows_its_table(writer: Writer, store: Path) -> None:
    keep_text(writer, "the parser dropped commas")

    assert found_texts(store, "comma") == ["the parser dropped commas"]
    assert found_texts(store, 'comma" OR "x') == []

    writer.restart(SOURCE, TailState(offset=10, anchor="x"))

    assert found_texts(store, "comma") == []
    assert dump(store)["words"] == []


def test_the_store_is_private(store: Path) -> None:
    with closing(Writer(store)) as writer:
        keep_text(writer, "secret")
        modes = {
            path.name: stat.S_IMODE(path.stat().st_mode)
            for path in [store.parent, *store.parent.iterdir()]
        }

    assert modes.pop("state") == 0o700
    assert len(modes) >= 2
    assert set(modes.values()) == {0o600}


def test_a_file_that_is_no_store_is_set_aside(store: Path) -> None:
    store.parent.mkdir()
    store.write_bytes(b"this is not SQLite at all\n" * 500)
    with closing(Writer(store)) as writer:
        keep_text(writer, "new")
        notice = writer.notice

    aside = [path for path in store.parent.iterdir() if ".aside-" in path.name]
    assert [path.read_bytes()[:11] for path in aside] == [b"this is not"]
    assert notice is not None
    assert "damaged" in notice
    assert aside[0].name in notice
    assert "\n" not in notice
    assert dump(store)["summary"]


def test_a_store_of_a_newer_version_is_set_aside(store: Path) -> None:
    with closing(Writer(store)) as writer:
        keep_text(writer, "old")
        writer.connection.execute("PRAGMA user_version = 999")
    with closing(Writer(store)) as writer:
        assert writer.notice is not None
        assert "newer" in writer.notice
    assert dump(store)["summary"] == []

    aside = next(path for path in store.parent.iterdir() if path.name.count(".aside-"))
    assert dump(aside)["summary"]


def test_an_older_store_gives_its_lasting_rows_to_the_new_one(store: Path) -> None:
    with closing(Writer(store)) as writer:
        keep_text(writer, "old")
        writer.connection.execute("INSERT INTO client_run VALUES ('s1', 7)")
        writer.connection.execute("INSERT INTO recovery_run VALUES ('s1', 8, '{}')")
        # As the migrations of early versions left it, and with a table of theirs that had less.
        writer.connection.execute("CREATE TABLE _sqlite_migrations (name TEXT)")
        writer.connection.execute("ALTER TABLE automatic_run DROP COLUMN receipt")
        writer.connection.execute(
            "INSERT INTO automatic_run (session_id, at, reason) VALUES ('s1', 9, 'x')"
        )
        writer.connection.execute(
            "INSERT INTO pause_run (session_id, answered_at, at, way) VALUES ('s1', 5, 10, 'x')"
        )
        writer.connection.execute("DROP TABLE warning")
        writer.connection.execute("PRAGMA user_version = 0")
    with pytest.raises(StoreError, match="older ctxtop; run `ctxtop scan`"):
        open_reader(store)
    with closing(Writer(store)) as writer:
        assert writer.notice is not None
        assert "written by an older ctxtop: it was moved to" in writer.notice
        assert "\n" not in writer.notice

    after = dump(store)
    assert after["summary"] == []
    assert after["client_run"] == [("s1", 7)]
    assert after["recovery_run"] == [("s1", 8, "{}")]
    assert [row[:3] for row in after["automatic_run"]] == [("s1", 9, "x")]
    assert [row[:4] for row in after["pause_run"]] == [("s1", 5, 10, "x")]


def damage(path: Path) -> None:
    """Overwrite the second half of the pages, as a bad disk does."""
    data = bytearray(path.read_bytes())
    size = int.from_bytes(data[16:18], "big")
    pages = len(data) // size
    for page in range(pages // 2, pages):
        data[page * size : (page + 1) * size] = b"\xa5" * size
    path.write_bytes(bytes(data))


def test_damage_in_the_middle_is_told_while_reading_and_the_store_made_again(store: Path) -> None:
    # The first close adds tables of SQLite's own, which may move the schema behind what follows.
    for numbers in (range(100), range(100, 400)):
        with closing(Writer(store)) as writer:
            for number in numbers:
                source = SourceFile(f"p/{number}.jsonl", FileKind.SESSION, "p", str(number))
                keep_text(writer, f"{number} words " * 400, source)
    damage(store)
    with closing(Writer(store)) as writer:
        assert writer.notice is None, "the first pages are whole"
        with pytest.raises(sqlite3.DatabaseError) as caught:
            writer.connection.execute("SELECT SUM(LENGTH(text)) FROM summary").fetchone()
        assert database.is_corruption(caught.value)
        notice = writer.rebuild()
        keep_text(writer, "after")

    assert "set aside" in notice or "moved to" in notice
    assert [row[-2] for row in dump(store)["summary"]] == [len("after")]


def test_of_three_stores_set_aside_in_one_second_the_last_two_stay(store: Path) -> None:
    for number in range(3):
        store.parent.mkdir(exist_ok=True)
        store.write_bytes(f"garbage {number}".encode() * 100)
        with closing(Writer(store)):
            pass

    kept = {path.read_bytes()[:9] for path in store.parent.iterdir() if ".aside-" in path.name}
    assert kept == {b"garbage 1", b"garbage 2"}


def test_a_reader_cannot_write(writer: Writer, store: Path) -> None:
    with closing(open_reader(store)) as db, pytest.raises(sqlite3.OperationalError):
        db.execute("DELETE FROM file")


def test_a_reader_sees_whole_commits_while_another_writes(writer: Writer, store: Path) -> None:
    with closing(open_reader(store)) as db:
        with writer.transaction():
            keep_text(writer, "words")
            assert session_queries.store_counts(db)["files"] == 0
        assert session_queries.store_counts(db)["files"] == 1


def test_a_reader_waits_for_a_store_that_is_being_made(store: Path) -> None:
    store.parent.mkdir(exist_ok=True)
    store.touch()
    making = threading.Timer(0.2, lambda: Writer(store).close())
    making.start()
    with closing(open_reader(store)) as db:
        assert session_queries.store_counts(db)["files"] == 0
    making.join()


@pytest.mark.filterwarnings("error")
def test_a_reader_without_a_store_says_so_in_one_line(tmp_path: Path) -> None:
    with pytest.raises(StoreError) as caught:
        open_reader(tmp_path / "none.db")

    assert "none.db" in str(caught.value)
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "none.db").exists()


def test_a_store_that_cannot_be_made_says_so(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("not a folder")
    with pytest.raises(StoreError, match="choose another file with --db"):
        open_writer(blocked / "ctxtop.db")


_HOLD = """
import sqlite3, sys
db = sqlite3.connect(sys.argv[1], isolation_level=None)
db.execute("BEGIN IMMEDIATE")
print("held", flush=True)
sys.stdin.read()
"""


def test_a_lock_of_another_process_is_waited_for_and_then_told(
    store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database, "BUSY_TIMEOUT_S", 0.2)
    with closing(Writer(store)) as writer:
        holder = subprocess.Popen(
            [sys.executable, "-c", _HOLD, str(store)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        with holder:
            assert holder.stdout is not None
            assert holder.stdout.readline() == b"held\n"
            with pytest.raises(sqlite3.OperationalError) as caught:
                keep_text(writer, "words")
            holder.communicate(b"")
        keep_text(writer, "words")

    assert database.is_transient(caught.value)
    assert database.explain_error(caught.value)[0] == "another program has it locked"
    assert dump(store)["summary"]


def test_a_transaction_takes_the_lock_at_once(store: Path, writer: Writer) -> None:
    with closing(sqlite3.connect(store, timeout=0, isolation_level=None)) as other:
        with writer.transaction(), pytest.raises(sqlite3.OperationalError):
            other.execute("BEGIN IMMEDIATE")
        other.execute("BEGIN IMMEDIATE")
        other.rollback()


def test_a_failure_undoes_the_whole_transaction(writer: Writer, store: Path) -> None:
    empty = dump(store)

    def fail() -> None:
        with writer.transaction():
            keep_text(writer, "words")
            raise KeyError("a mistake")

    with pytest.raises(KeyError):
        fail()

    assert dump(store) == empty
    assert not writer.connection.in_transaction


class _Refusing:
    """A connection whose commit fails, as on a full disk."""

    def __init__(self, conn: sqlite3.Connection) -> None:
        self.conn = conn

    def __getattr__(self, name: str) -> object:
        return getattr(self.conn, name)

    def commit(self) -> None:
        raise sqlite3.OperationalError("database or disk is full")


def test_a_commit_that_fails_leaves_no_transaction_open(writer: Writer, store: Path) -> None:
    refusing = _Refusing(writer.connection)
    with pytest.raises(sqlite3.OperationalError), write_transaction(refusing):  # type: ignore[arg-type]
        writer.connection.execute("INSERT INTO about VALUES ('a', 'b')")

    assert not writer.connection.in_transaction
    keep_text(writer, "words")
    assert dump(store)["summary"]
    assert ("a", "b") not in dump(store)["about"]


def test_a_store_serves_one_folder(writer: Writer, tmp_path: Path) -> None:
    writer.claim_folder(tmp_path / "one")
    writer.claim_folder(tmp_path / "one")

    with pytest.raises(OtherFolderError, match="one"):
        writer.claim_folder(tmp_path / "two")


_START = """
import sys
from pathlib import Path
from ctxtop.core.store.writer import Writer
sys.stdin.read()
writer = Writer(Path(sys.argv[1]))
print(writer.notice)
writer.close()
"""


def test_first_starts_at_the_same_moment(store: Path, child_env: dict[str, str]) -> None:
    starting = [
        subprocess.Popen(
            [sys.executable, "-c", _START, str(store)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=child_env,
        )
        for _ in range(4)
    ]
    for process in starting:
        assert process.stdin is not None
        process.stdin.close()
        process.stdin = None
    said = [process.communicate() for process in starting]

    assert said == [(b"None\n", b"")] * 4


FOREIGN = {
    "a table is gone": "DROP TABLE boundary",
    "a column has another name": "ALTER TABLE session RENAME COLUMN cwd TO place",
    "it has no version": "PRAGMA user_version = 0",
    "its marks are not UTF-8": "UPDATE about SET value = CAST(x'80ff' AS TEXT)",
}


@pytest.mark.parametrize("statement", FOREIGN.values(), ids=FOREIGN)
def test_a_store_that_is_not_as_ctxtop_made_it_is_made_again_once(
    store: Path, statement: str
) -> None:
    with closing(Writer(store)) as writer:
        keep_text(writer, "old")
    with closing(sqlite3.connect(store)) as db, db:
        db.execute(statement)
    with closing(Writer(store)) as writer:
        assert writer.notice
        assert "rebuilt" in writer.notice
        keep_text(writer, "new")
    with closing(Writer(store)) as writer:
        assert writer.notice is None
    assert find_damage(store) is None
    assert dump(store)["summary"]


BAD_ROWS = (
    "UPDATE summary SET text = CAST(x'c328' AS TEXT)",
    "UPDATE file SET kind = 'of tomorrow'",
    "UPDATE file SET path = CAST(x'ff' AS TEXT)",
)


@pytest.mark.parametrize("statement", BAD_ROWS)
def test_rows_that_no_ctxtop_writes_are_found(store: Path, statement: str) -> None:
    with closing(Writer(store)) as writer:
        keep_text(writer, "old")
    assert find_damage(store) is None
    with closing(sqlite3.connect(store)) as db, db:
        db.execute(statement)

    assert find_damage(store)


def test_two_versions_in_turn_keep_the_last_two_stores(store: Path) -> None:
    for number in range(6):
        with closing(Writer(store)) as writer:
            writer.connection.execute("INSERT INTO about VALUES ('turn', ?)", [str(number)])
            writer.connection.execute("PRAGMA user_version = 999")
    asides = [path for path in store.parent.iterdir() if ".aside-" in path.name]
    bases = {path for path in asides if not path.name.endswith(("-wal", "-shm"))}
    turns = {row[1] for path in bases for row in dump(path)["about"] if row[0] == "turn"}

    assert turns == {"3", "4"}


@pytest.mark.parametrize("reads", [False, True])
def test_a_store_that_others_could_read_becomes_private(store: Path, reads: bool) -> None:
    with closing(Writer(store)) as writer:
        keep_text(writer, "old")
        for suffix in ("", "-wal", "-shm"):
            store.with_name(store.name + suffix).chmod(0o666)
        with closing(open_reader(store) if reads else Writer(store)):
            modes = {
                stat.S_IMODE(store.with_name(store.name + suffix).stat().st_mode)
                for suffix in ("", "-wal", "-shm")
            }
    assert modes == {0o600}


def bad(count: int, first: int = 0) -> tuple[BadLine, ...]:
    return tuple(BadLine(first + 10 * number, 9, "not JSON") for number in range(count))


def test_of_bad_lines_some_are_kept_and_all_are_counted(writer: Writer, store: Path) -> None:
    source = SourceFile("p/a.jsonl", FileKind.SESSION, "p", "a")
    tail = TailState(offset=500, anchor="x")
    kept = TranscriptRecords(lines=1, bad=bad(MAX_BAD_LINES_PER_FILE), bad_lines=70_000)
    writer.append(source, TailState(), tail, kept)
    more = TranscriptRecords(lines=1, bad=bad(3, 600_000), bad_lines=3)
    writer.append(source, tail, TailState(offset=900, anchor="y"), more)
    with closing(open_reader(store)) as db:
        assert len(session_queries.bad_lines(db)) == MAX_BAD_LINES_PER_FILE
        assert session_queries.store_counts(db)["bad_lines"] == 70_003
    writer.restart(source, TailState(offset=900, anchor="y"))
    with closing(open_reader(store)) as db:
        assert session_queries.store_counts(db)["bad_lines"] == 0


def test_of_all_files_bad_lines_no_more_are_kept_than_can_be_looked_at(
    writer: Writer, store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(inserts, "MAX_BAD_LINES", 7)
    for name in "abc":
        source = SourceFile(f"p/{name}.jsonl", FileKind.SESSION, "p", name)
        facts = TranscriptRecords(lines=5, bad=bad(5), bad_lines=5)
        writer.append(source, TailState(), TailState(offset=50, anchor="x"), facts)
    with closing(open_reader(store)) as db:
        assert len(session_queries.bad_lines(db)) == 7
        assert session_queries.store_counts(db)["bad_lines"] == 15
