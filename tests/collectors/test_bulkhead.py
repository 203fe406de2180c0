"""A fault of ours in one file, job, session or row costs nothing else anything."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest
from ctxtop.collectors.claude_code import own_files, reader_pool, search_jobs
from ctxtop.collectors.claude_code.calibration_jobs import (
    ForecastCalibrationJob,
    TokenCalibrationJob,
)
from ctxtop.collectors.claude_code.config.config_reader import ClientConfigReader
from ctxtop.collectors.claude_code.context_text_job import ContextTextJob
from ctxtop.collectors.claude_code.own_files import LogReader, ReceiptFollower, StatusLineFiles
from ctxtop.collectors.claude_code.search_jobs import SearchIndexJob
from ctxtop.collectors.claude_code.tail import LineBlock
from ctxtop.collectors.claude_code.transcripts import left_context, line_indexer
from ctxtop.collectors.collector_thread import Collector
from ctxtop.collectors.post_scan_jobs import (
    CompactionReportJob,
    PostCompactionEstimates,
    PostScanJobs,
    SaveNoiseJob,
    WarningEvaluator,
)
from ctxtop.core.actions.automation import Automation
from ctxtop.core.measure.agent_building import make_agent
from ctxtop.core.measure.session_building import make_session
from ctxtop.core.readers import fleet_reader
from ctxtop.core.readers.fleet_reader import read_agents, read_sessions
from ctxtop.core.store.bulkhead import FAILED, NOT_READ, bulkhead, take_faults, work_apart
from ctxtop.core.store.database import StoreError, open_reader
from ctxtop.core.store.queries import session_queries
from ctxtop.core.store.writer import Writer
from ctxtop.core.transcript.faults import MAX_ERROR_CHARS, MAX_TRACEBACK_CHARS

from ..transcripts import (
    PROJECT,
    SESSION,
    START_MS,
    append,
    assistant,
    boundary,
    encode,
    summary,
    user,
    write,
)

if TYPE_CHECKING:
    from ctxtop.collectors.locations.discover import ClaudeFolder
    from ctxtop.core.model.problem import Problem
    from ctxtop.core.model.session import Session

    from ..recorder import Recorder

pytestmark = pytest.mark.usefixtures("plants_faults")

OTHER = "22222222-2222-4333-8444-555555555555"
MAIN: Final = f"{PROJECT}/{SESSION}.jsonl"


class PlantedError(Exception):
    """What no handler expects."""


def fail(*_: object, **__: object) -> Any:  # noqa: ANN401 -- in place of anything
    raise PlantedError("planted")


@pytest.fixture
def two(claude: ClaudeFolder) -> Path:
    """Two sessions; the first is the one in which faults are planted."""
    path = write(claude.projects / MAIN, [user("fix it"), assistant("m1", 9_000)])
    write(claude.projects / f"{PROJECT}/{OTHER}.jsonl", [user("and this"), assistant("m2", 8_000)])
    return path


def plant(patched: pytest.MonkeyPatch, session_id: str = SESSION) -> None:
    """Make every line of a session's file a fault."""
    real = line_indexer._index_line

    def index_or_fail(builder: Any, *rest: Any) -> None:  # noqa: ANN401 -- as _index_line
        if builder.source.session_id == session_id:
            fail()
        real(builder, *rest)

    patched.setattr(line_indexer, "_index_line", index_or_fail)


def sessions(store: Path) -> dict[str, Session]:
    with closing(open_reader(store)) as db:
        return {each.session_id: each for each in read_sessions(db, START_MS)}


def logged(store: Path) -> dict[str, str]:
    with closing(open_reader(store)) as db:
        return {each.where: each.traceback for each in session_queries.problems(db)}


def test_a_fault_in_a_files_reading_is_that_files_problem(
    two: Path,
    collector: Collector,
    recorder: Recorder,
    store: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with monkeypatch.context() as patched:
        plant(patched)
        collector.scan()
    found = sessions(store)
    assert found[SESSION].status == "not_read"
    assert found[SESSION].problem.startswith("not read (PlantedError: planted at fail line ")
    assert found[SESSION].context.tokens is None
    assert (found[OTHER].status, found[OTHER].context.tokens) == ("ended", 8_000)
    assert [each.where for each in recorder.troubles] == [MAIN]
    assert "Traceback" in logged(store)[MAIN]
    assert "PlantedError: planted" in logged(store)[MAIN]
    assert "in index_or_fail" in logged(store)[MAIN]

    # It would fail again: it is not read again before it changes.
    collector.scan()
    assert recorder.ended == []
    append(two, [user("go on"), assistant("m3", 9_500)])
    collector.scan()
    assert recorder.ended == [MAIN]
    assert logged(store) == {}
    assert (sessions(store)[SESSION].context.tokens, sessions(store)[SESSION].problem) == (
        9_500,
        "",
    )


def test_a_file_that_failed_is_read_by_the_next_ctxtop(
    two: Path,
    collector: Collector,
    writer: Writer,
    claude: ClaudeFolder,
    recorder: Recorder,
    store: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert two.exists()
    with monkeypatch.context() as patched:
        plant(patched)
        collector.scan()
        Collector(claude, writer, recorder).scan()
    assert len(recorder.troubles) == 2
    Collector(claude, writer, recorder).scan()
    assert logged(store) == {}
    assert sessions(store)[SESSION].context.tokens == 9_000


def test_what_was_read_before_the_fault_is_kept_and_shown_as_not_read(
    two: Path, collector: Collector, store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    collector.scan()
    append(two, [assistant("m3", 9_500)])
    with monkeypatch.context() as patched:
        plant(patched)
        collector.scan()
    session = sessions(store)[SESSION]
    assert (session.title, session.status) == ("fix it", "not_read")


@pytest.mark.parametrize("site", ["_insert", "_update_tail"])
def test_a_fault_while_a_file_is_stored_leaves_none_of_its_rows(
    two: Path, collector: Collector, store: Path, monkeypatch: pytest.MonkeyPatch, site: str
) -> None:
    assert two.exists()
    real = getattr(Writer, site)
    failed: list[int] = []

    def store_or_fail(self: Writer, file_id: int, *rest: Any) -> None:  # noqa: ANN401
        real(self, file_id, *rest)
        if not failed:
            failed.append(file_id)
            fail()

    monkeypatch.setattr(Writer, site, store_or_fail)
    collector.scan()
    with closing(open_reader(store)) as db:
        offsets = dict(db.execute("SELECT session_id, offset FROM file").fetchall())
        rows = db.execute("SELECT COUNT(*) FROM response").fetchone()[0]
    assert sorted(each > 0 for each in offsets.values()) == [False, True]
    assert rows == 1
    assert sorted(each.status for each in sessions(store).values()) == ["ended", "not_read"]


def test_a_fault_in_a_reader_process_leaves_the_file_to_the_collector(
    claude: ClaudeFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reader_pool, "index_next_block", fail)
    task: Any = type("Task", (), {})()
    task.found = type("Found", (), {"path": claude.projects / MAIN, "relative": MAIN})()
    task.source = task.before = None
    assert reader_pool._index_unless_rewritten(task) is None
    assert list(take_faults()) == []


JOBS: Final = [
    (PostCompactionEstimates, "run", "estimates"),
    (ContextTextJob, "run", "counts of texts"),
    (WarningEvaluator, "evaluate", "warnings"),
    (WarningEvaluator, "refresh_policies", "settings"),
    (StatusLineFiles, "update", "status lines"),
    (CompactionReportJob, "run", "compaction reports"),
    (SaveNoiseJob, "run", "memory saves"),
    (Writer, "estimate_summaries", "token counts"),
    (PostScanJobs, "_archive_for", "archiving"),
    (SearchIndexJob, "run", "search index"),
    (TokenCalibrationJob, "run", "token calibration"),
    (ForecastCalibrationJob, "run", "forecast calibration"),
    (Automation, "tick", "automation"),
    (ClientConfigReader, "refresh", "settings and definitions"),
    (LogReader, "read", "own logs"),
    (ReceiptFollower, "read", "changes of ctxtop"),
]


def run_all(jobs: PostScanJobs) -> None:
    jobs.count_tokens()
    jobs.report_compactions()
    jobs.measure_saves()
    jobs.automate()
    jobs.index_turns()
    jobs.archive(0.1)
    jobs.calibrate()


@pytest.mark.parametrize(("owner", "name", "job"), JOBS, ids=[each[2] for each in JOBS])
def test_a_job_that_fails_costs_no_other_job_and_no_session(
    two: Path,
    collector: Collector,
    recorder: Recorder,
    store: Path,
    monkeypatch: pytest.MonkeyPatch,
    owner: type,
    name: str,
    job: str,
) -> None:
    called: list[int] = []

    def count_and_fail(*_: object, **__: object) -> None:
        called.append(1)
        fail()

    with monkeypatch.context() as patched:
        patched.setattr(owner, name, count_and_fail)
        for _ in range(2):
            collector.scan()
            run_all(collector.post_scan_jobs)
    assert [(each.where, each.what) for each in recorder.troubles] == [
        (job, recorder.troubles[0].what)
    ]
    assert recorder.troubles[0].what.startswith("failed (PlantedError: planted at fail")
    assert called
    assert {each.context.tokens for each in sessions(store).values()} == {8_000, 9_000}

    # Once it works again, and has rested, its problem is over.
    append(two, [assistant("m3", 9_500)])
    collector.post_scan_jobs._resting.clear()
    collector.scan()
    run_all(collector.post_scan_jobs)
    assert recorder.ended == [job]


def test_a_job_that_failed_rests(
    two: Path, collector: Collector, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert two.exists()
    called: list[int] = []

    def count_and_fail(*_: object) -> None:
        called.append(1)
        fail()

    monkeypatch.setattr(SaveNoiseJob, "run", count_and_fail)
    for _ in range(20):
        collector.post_scan_jobs.measure_saves()
    assert called == [1]


@pytest.mark.parametrize(
    ("owner", "name", "where"),
    [
        (left_context, "estimate_left", f"estimate of {MAIN}"),
        (CompactionReportJob, "_read", f"report of {MAIN}"),
        (search_jobs, "decode_entry", f"search index of {MAIN}"),
    ],
)
def test_a_file_at_which_a_job_fails_costs_no_other_file(
    claude: ClaudeFolder,
    collector: Collector,
    store: Path,
    monkeypatch: pytest.MonkeyPatch,
    owner: Any,  # noqa: ANN401 -- a class or a module
    name: str,
    where: str,
) -> None:
    lines = [user("find the walrus"), assistant("m{}", 9_000), boundary(uuid="B{}"), summary("so")]
    for number, session in enumerate((SESSION, OTHER)):
        data = encode(lines).replace(b"{}", str(number).encode())
        path = write(claude.projects / f"{PROJECT}/{session}.jsonl", [])
        path.write_bytes(data.replace(SESSION.encode(), session.encode()))
    real = getattr(owner, name)

    def work_or_fail(*given: Any) -> Any:  # noqa: ANN401
        text = " ".join(
            str(each if isinstance(each, bytes) else getattr(each, "path", "")) for each in given
        )
        return fail() if SESSION in text else real(*given)

    monkeypatch.setattr(owner, name, work_or_fail)
    collector.scan_and_report_compactions()
    collector.post_scan_jobs.index_all_turns()
    collector.report_faults()

    assert where in logged(store)
    assert not any(OTHER in place for place in logged(store))
    with closing(open_reader(store)) as db:
        told = {
            row[0]
            for row in db.execute(
                "SELECT session_id FROM compaction_told JOIN file USING (file_id)"
            )
        }
        indexed = {
            row[0] for row in db.execute("SELECT session_id FROM file WHERE search_offset > 0")
        }
    assert OTHER in told & indexed


def test_a_session_that_cannot_be_measured_is_listed_as_not_read(
    two: Path, collector: Collector, store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert two.exists()
    collector.scan()
    real = make_session

    def measure_or_fail(row: Any, *rest: Any) -> Session:  # noqa: ANN401 -- as make_session
        return fail() if row.session_id == SESSION else real(row, *rest)

    monkeypatch.setattr(fleet_reader, "make_session", measure_or_fail)
    found = sessions(store)
    assert (found[SESSION].title, found[SESSION].status) == ("session 11111111", "not_read")
    assert found[OTHER].context.tokens == 8_000
    (fault,) = take_faults()
    assert fault.where == f"session {SESSION}"


@pytest.mark.parametrize("name", ["read_prior", "read_evidence_rows", "attention_order"])
def test_what_all_sessions_share_may_fail(
    two: Path, collector: Collector, store: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    assert two.exists()
    collector.scan()
    monkeypatch.setattr(fleet_reader, name, fail)
    assert {each.context.tokens for each in sessions(store).values()} == {8_000, 9_000}
    assert list(take_faults())


def test_agents_that_cannot_be_measured_cost_no_other_sessions_agents(
    two: Path,
    claude: ClaudeFolder,
    collector: Collector,
    store: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert two.exists()
    for session in (SESSION, OTHER):
        write(
            claude.projects / f"{PROJECT}/{session}/subagents/agent-a1.jsonl",
            [user("do it"), assistant(f"a{session[0]}", 700)],
        )
    collector.scan()
    real = make_agent

    def measure_or_fail(row: Any, *rest: Any) -> Any:  # noqa: ANN401 -- as make_agent
        return fail() if row.session_id == SESSION else real(row, *rest)

    monkeypatch.setattr(fleet_reader, "make_agent", measure_or_fail)
    with closing(open_reader(store)) as db:
        found = read_agents(db, read_sessions(db, START_MS), START_MS)
    assert {each.session_id: (each.status.label, each.context.tokens) for each in found} == {
        SESSION: ("not read", None),
        OTHER: ("unknown", 700),
    }
    assert {each.where for each in take_faults()} == {f"agent a1 of session {SESSION}"}


def test_an_agents_file_that_failed_is_the_agents_problem(
    two: Path,
    claude: ClaudeFolder,
    collector: Collector,
    store: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert two.exists()
    relative = f"{PROJECT}/{SESSION}/subagents/agent-a1.jsonl"
    write(claude.projects / relative, [user("do it")])
    real = line_indexer.index_block

    def index_or_fail(source: Any, block: LineBlock, path: str) -> Any:  # noqa: ANN401
        return fail() if source.path == relative else real(source, block, path)

    monkeypatch.setattr(reader_pool, "index_block", index_or_fail)
    collector.scan()
    with closing(open_reader(store)) as db:
        (agent,) = read_agents(db, read_sessions(db, START_MS), START_MS)
    assert (agent.agent_id, agent.status) == ("a1", "not_read")
    assert agent.problem.startswith("not read (PlantedError")
    assert sessions(store)[SESSION].problem == ""


# The bulkhead alone.


def busy_error() -> sqlite3.OperationalError:
    error = sqlite3.OperationalError("database is locked")
    error.sqlite_errorcode = sqlite3.SQLITE_BUSY
    return error


def test_a_fault_is_told_in_one_line_without_secrets_and_its_traceback_is_bounded() -> None:
    key = "sk-ant-api03-" + "x" * 95
    with bulkhead("a\udcffb", NOT_READ):
        raise PlantedError(f"\x1b[31m {key}\nnext\u202e \ud800 " + "long " * 5_000)
    (fault,) = take_faults()
    assert fault.where == "a\ufffdb"
    assert fault.what.startswith("not read (PlantedError: ")
    assert len(fault.what) < MAX_ERROR_CHARS + 200
    for text in (fault.what, fault.traceback):
        assert key not in text
        assert not {"\x1b", "\u202e", "\ud800"} & set(text)
    assert "\n" not in fault.what
    assert len(fault.traceback) < MAX_TRACEBACK_CHARS + 300


@pytest.mark.parametrize(
    "error",
    [
        StoreError("the store cannot be used"),
        busy_error(),
        KeyboardInterrupt(),
        FileNotFoundError("expected"),
    ],
)
def test_what_concerns_everything_or_is_expected_is_raised(error: BaseException) -> None:
    with pytest.raises(type(error)), bulkhead("here", FAILED, expected=(FileNotFoundError,)):
        raise error
    assert list(take_faults()) == []


def test_an_error_of_a_row_is_contained_and_one_of_a_damaged_store_is_not(
    collector: Collector, store: Path
) -> None:
    collector.scan()
    collector.writer.close()
    with bulkhead("row", NOT_READ, store):
        raise sqlite3.IntegrityError("datatype mismatch")
    assert [each.where for each in take_faults()] == ["row"]

    store.write_bytes(b"\0" * 9_000)
    with pytest.raises(ValueError, match="odd"), bulkhead("row", NOT_READ, store):
        raise ValueError("odd")


def test_work_is_done_on_all_items_but_those_that_fail() -> None:
    tried: list[int] = []

    def work(items: Any) -> list[int]:  # noqa: ANN401 -- a sequence
        tried.append(len(items))
        return [100 // each for each in items]

    items = [*range(1, 500), 0, *range(500, 1_000)]
    done = work_apart(items, work, lambda item: f"item {item}", FAILED, None, lambda *_: -1)
    assert done == [-1 if each == 0 else 100 // each for each in items]
    assert len(tried) < 30
    assert [each.where for each in take_faults()] == ["item 0"]
    assert work_apart([], work, str, FAILED) == []


def test_own_files_of_one_session_that_fail_cost_no_other(
    two: Path, collector: Collector, monkeypatch: pytest.MonkeyPatch, recorder: Recorder
) -> None:
    assert two.exists()
    monkeypatch.setattr(own_files, "shown_sessions", lambda *_: {SESSION, OTHER})
    real = own_files.status_line_record

    def record_or_fail(session: Session) -> Any:  # noqa: ANN401 -- as status_line_record
        return fail() if session.session_id == SESSION else real(session)

    monkeypatch.setattr(own_files, "status_line_record", record_or_fail)
    collector.scan()
    written = [path.name for path in collector.writer.path.parent.rglob(f"*{OTHER}*")]
    assert len(written) == 1
    problems: list[Problem] = [*recorder.troubles, *take_faults()]
    assert {each.where for each in problems} == {f"status line of session {SESSION}"}
