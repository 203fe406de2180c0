"""Compactions are told of once, after the scan, by whoever comes first."""

from __future__ import annotations

import json
import os
from contextlib import closing
from typing import TYPE_CHECKING

import pytest
from ctxtop.collectors import post_scan_jobs
from ctxtop.collectors.claude_code.transcripts.replaced_content import read_cleared_messages
from ctxtop.collectors.collector_thread import Collector
from ctxtop.core.model.conversation import CLEARED_RESULT_TEXT
from ctxtop.core.readers.fleet_reader import read_sessions
from ctxtop.core.store.database import open_reader
from ctxtop.core.store.post_scan_writer import pending_reports, save_reports
from ctxtop.core.store.queries import session_queries
from ctxtop.core.store.writer import Writer
from ctxtop.core.summaries.compaction_report import (
    REPORT_VERSION,
    CompactionReport,
    decode_report,
    encode_report,
)

from ..dump import FILE_STATE, dump
from ..recorder import Recorder
from ..transcripts import (
    PROJECT,
    SESSION,
    START_MS,
    JsonLine,
    append,
    assistant,
    attachment,
    boundary,
    summary,
    tool,
    tool_result,
    user,
    write,
)

if TYPE_CHECKING:
    from pathlib import Path

    from ctxtop.collectors.locations.discover import ClaudeFolder

OTHER = "99999999-2222-4333-8444-555555555555"
RULE = "Never touch the billing module."


def read(path: str, number: int) -> list[JsonLine]:
    """A file that was read: the call and its result."""
    call = f"toolu_{number}"
    return [
        assistant(f"m{number}", 1000 * number, content=[tool("Read", call, file_path=path)]),
        tool_result(call, "its text", {}),
    ]


@pytest.fixture
def path(claude: ClaudeFolder) -> Path:
    return claude.projects / PROJECT / f"{SESSION}.jsonl"


def compactions(
    store: Path, session_id: str | None = None
) -> list[tuple[str, CompactionReport | None]]:
    with closing(open_reader(store)) as db:
        return [
            (row.uuid, decode_report(row.report))
            for row in session_queries.compactions(db, session_id)
        ]


def forgot(store: Path) -> dict[str, list[str] | None]:
    """What every compaction forgot of the files, newest first."""
    return {
        uuid: None if told is None else [use.path for use in told.forgotten.files]
        for uuid, told in compactions(store)
    }


def test_a_compaction_is_told_of_as_soon_as_its_summary_is_there(
    path: Path, collector: Collector, recorder: Recorder, store: Path
) -> None:
    write(path, [user(RULE), *read("/p/a.py", 1), boundary(at=5, uuid="B1")])
    collector.scan_and_report_compactions()
    assert forgot(store) == {"B1": None}

    append(path, [summary("We read nothing.")])
    recorder.changes.clear()
    collector.scan_and_report_compactions()

    assert forgot(store) == {"B1": ["/p/a.py"]}
    ((_, told),) = compactions(store)
    assert told is not None
    assert [said.text for said in told.forgotten.constraints] == [RULE]
    assert recorder.changes[-1].session_ids == {SESSION}


@pytest.mark.parametrize("after", [assistant("m9", at=9), boundary(at=9, uuid="B2")])
def test_one_without_a_summary_is_told_of_when_the_session_went_on(
    path: Path, collector: Collector, store: Path, after: JsonLine
) -> None:
    write(path, [*read("/p/a.py", 1), boundary(at=5, uuid="B1"), after])
    collector.scan_and_report_compactions()

    assert forgot(store)["B1"] == ["/p/a.py"]


def test_a_second_run_reads_nothing(
    path: Path, collector: Collector, store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(path, [*read("/p/a.py", 1), boundary(uuid="B1"), summary()])
    collector.scan_and_report_compactions()
    before = dump(store)
    monkeypatch.setattr(post_scan_jobs.CompactionReportJob, "_read", None)
    collector.scan_and_report_compactions()
    again = Recorder()
    with closing(Writer(store)) as writer:
        Collector(collector.folder, writer, again).scan_and_report_compactions()

    assert dump(store) == before
    assert again.changes == []


def test_told_line_by_line_or_at_once_it_is_the_same(
    path: Path, collector: Collector, claude: ClaudeFolder, store: Path, tmp_path: Path
) -> None:
    history = [user(RULE), *read("/p/a.py", 1)]
    first = [boundary(at=5, uuid="B1"), summary("a.py was read")]
    work = [*read("/p/b.py", 2), assistant("m3", 3000)]
    lines = [*history, *first, *work, *history, *first]
    lines += [boundary(at=8, uuid="B2"), summary("done"), assistant("m4"), *history]
    write(path, [])
    for line in lines:
        append(path, [line])
        collector.scan_and_report_compactions()
    with closing(Writer(tmp_path / "clean.db")) as writer:
        Collector(claude, writer, Recorder()).scan_and_report_compactions()

    assert forgot(store) == {"B2": ["/p/b.py", "/p/a.py"], "B1": []}
    assert dump(store, FILE_STATE) == dump(tmp_path / "clean.db", FILE_STATE)
    with closing(open_reader(store)) as db:
        (session,) = read_sessions(db, START_MS)
    assert session.compactions == 2, "appended again it is the same compaction"


def test_a_file_that_was_rewritten_is_told_of_anew(
    path: Path, collector: Collector, store: Path
) -> None:
    end = [boundary(uuid="B1"), summary("nothing")]
    write(path, [*read("/p/a.py", 1), *end])
    collector.scan_and_report_compactions()
    write(path, [*read("/p/of/another/length.py", 1), *end])
    collector.scan_and_report_compactions()

    assert forgot(store) == {"B1": ["/p/of/another/length.py"]}


def test_what_older_rules_told_is_told_again_and_what_newer_ones_told_stays(
    path: Path,
    collector: Collector,
    writer: Writer,
    store: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    write(path, [*read("/p/a.py", 1), boundary(uuid="B1"), summary("nothing")])
    collector.scan_and_report_compactions()
    (untold,) = pending_reports(writer, REPORT_VERSION + 1)
    ((offset, uuid),) = untold.boundaries
    newer = (offset, uuid, encode_report(CompactionReport(cleared_results=7)))
    save_reports(writer, untold.file_id, REPORT_VERSION + 1, [newer])
    older = (offset, uuid, encode_report(CompactionReport()))
    save_reports(writer, untold.file_id, REPORT_VERSION, [older])

    ((_, told),) = compactions(store)
    assert told == CompactionReport(cleared_results=7)
    monkeypatch.setattr(
        "ctxtop.core.summaries.compaction_report.REPORT_VERSION", REPORT_VERSION + 2
    )
    collector.post_scan_jobs.report_compactions()
    assert forgot(store) == {"B1": ["/p/a.py"]}


def test_a_boundary_that_went_meanwhile_is_not_kept(
    path: Path, collector: Collector, writer: Writer, store: Path
) -> None:
    write(path, [boundary(uuid="B1"), summary()])
    collector.scan()
    (untold,) = pending_reports(writer, 1)
    ((offset, uuid),) = untold.boundaries
    row = encode_report(CompactionReport())
    wrong = [
        (offset + 1, uuid, row),
        (offset, "another", row),
    ]
    save_reports(writer, untold.file_id, 1, wrong)

    assert dump(store)["compaction_told"] == []


def test_a_file_that_cannot_be_read_is_a_trouble_until_it_can(
    path: Path,
    collector: Collector,
    recorder: Recorder,
    store: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    write(path, [*read("/p/a.py", 1), boundary(uuid="B1"), summary("nothing")])
    collector.scan()

    def refuse(*_: object) -> None:
        raise PermissionError(13, "Permission denied")

    with monkeypatch.context() as patch:
        patch.setattr(post_scan_jobs.CompactionReportJob, "_read", refuse)
        collector.post_scan_jobs.report_compactions()
        collector.post_scan_jobs.report_compactions()
    (trouble,) = recorder.troubles
    assert (trouble.where, "Permission denied" in trouble.what) == (
        f"{PROJECT}/{SESSION}.jsonl",
        True,
    )

    collector.post_scan_jobs.report_compactions()
    assert forgot(store) == {"B1": ["/p/a.py"]}
    assert recorder.ended == [f"{PROJECT}/{SESSION}.jsonl"]


def test_a_file_that_went_or_became_a_link_is_passed_over(
    path: Path, collector: Collector, recorder: Recorder, store: Path, tmp_path: Path
) -> None:
    write(path, [boundary(uuid="B1"), summary()])
    collector.scan()
    path.rename(tmp_path / "outside.jsonl")
    collector.post_scan_jobs.report_compactions()
    assert recorder.troubles == []
    path.symlink_to(tmp_path / "outside.jsonl")
    collector.post_scan_jobs.report_compactions()

    assert len(recorder.troubles) == 1
    assert forgot(store) == {"B1": None}


def test_a_file_that_does_not_hold_what_the_store_says_is_read_once(
    path: Path, collector: Collector, store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(path, [boundary(uuid="B1"), summary()])
    collector.scan()
    write(path, [user()])
    collector.post_scan_jobs.report_compactions()
    assert forgot(store) == {"B1": None}

    monkeypatch.setattr(post_scan_jobs.CompactionReportJob, "_read", None)
    collector.post_scan_jobs.report_compactions()


def test_the_newest_comes_first_and_no_look_takes_long(
    claude: ClaudeFolder, collector: Collector, store: Path
) -> None:
    for number in range(3):
        session = f"{number}1111111-2222-4333-8444-555555555555"
        lines = [boundary(at=number, uuid=f"B{number}"), summary(sessionId=session)]
        write(claude.projects / PROJECT / f"{session}.jsonl", lines)
    collector.scan()
    collector.post_scan_jobs.report_compactions(0)
    assert forgot(store) == {"B2": [], "B1": None, "B0": None}

    collector.post_scan_jobs.report_compactions(60)
    assert forgot(store) == {"B2": [], "B1": [], "B0": []}


def test_two_collectors_on_one_store_tell_the_same(
    path: Path, collector: Collector, claude: ClaudeFolder, store: Path
) -> None:
    write(path, [*read("/p/a.py", 1), boundary(uuid="B1"), summary("nothing")])
    collector.scan()
    with closing(Writer(store)) as second:
        other = Collector(claude, second, Recorder())
        other.scan()
        waiting = pending_reports(second, REPORT_VERSION)
        collector.post_scan_jobs.report_compactions()
        before = dump(store)
        # It had looked before the first one stored anything.
        assert other.post_scan_jobs._compaction_reports._report_file(waiting[0])
        other.post_scan_jobs.report_compactions()

    assert dump(store) == before
    assert forgot(store) == {"B1": ["/p/a.py"]}


def test_an_agents_own_compaction_and_an_aside_in_a_sessions_file(
    path: Path, claude: ClaudeFolder, collector: Collector, store: Path
) -> None:
    aside = {"isSidechain": True}
    agent = claude.projects / PROJECT / SESSION / "subagents" / "agent-a1.jsonl"
    own = [*read("/p/a.py", 1), boundary(at=3, uuid="A1"), summary("nothing")]
    write(agent, [line | aside for line in own])
    lines = [*(line | aside for line in read("/p/b.py", 2)), boundary(at=2, uuid="S1") | aside]
    write(path, [*lines, *read("/p/c.py", 3), boundary(at=1, uuid="B1"), summary("nothing")])
    collector.scan_and_report_compactions()

    assert forgot(store) == {"A1": ["/p/a.py"], "S1": [], "B1": ["/p/c.py"]}


def test_what_was_said_is_clean_before_it_is_stored(
    path: Path, collector: Collector, store: Path
) -> None:
    lines = [user("Never print \x1b]0;owned\x07 or \u202e again."), boundary(uuid="B1"), summary()]
    write(path, lines)
    collector.scan_and_report_compactions()

    (row,) = dump(store)["compaction_told"]
    assert "owned" in str(row)
    assert not {"\x1b", "\x07", "\u202e"} & set(
        json.loads(str(row[3]))["forgotten"]["constraints"][0]["text"]
    )


def blob(*ids: str, words: str = CLEARED_RESULT_TEXT) -> JsonLine:
    """A message of a request as client 2.1.329 writes it."""
    content = [{"type": "tool_result", "tool_use_id": each, "content": words} for each in ids]
    return {
        "type": "api-request-blob",
        "sessionId": SESSION,
        "hash": "h",
        "message": {"role": "user", "content": content},
    }


def test_cleared_results_are_found_in_requests_and_in_the_transcript(
    path: Path, collector: Collector, store: Path
) -> None:
    listed = blob("t4") | {
        "message": {
            "role": "user",
            "content": [
                {
                    "type": "tool_result",
                    "tool_use_id": "t4",
                    "content": [{"type": "text", "text": CLEARED_RESULT_TEXT}],
                }
            ],
        }
    }
    lines: list[JsonLine | bytes] = [
        blob("t1", "t2"),
        blob("t9", words=f"it says {CLEARED_RESULT_TEXT}"),
        b'{"type":"api-request-blob","message":"' + CLEARED_RESULT_TEXT.encode() + b'"}',
        tool_result("t3", CLEARED_RESULT_TEXT, {}),
        boundary(at=1, uuid="B1"),
        summary(),
        listed,
        {"type": "content-replacement", "replacements": [{"toolUseId": "t5", "replacement": "x"}]},
        boundary(at=2, uuid="B2"),
        summary(),
    ]
    write(path, lines)
    assert [each.tool_use_ids for each in read_cleared_messages(path)] == [("t1", "t2"), ("t4",)]
    collector.scan_and_report_compactions()

    counted = {uuid: told.cleared_results for uuid, told in compactions(store) if told}
    assert counted == {"B2": 2, "B1": 3}


def test_a_copied_history_has_its_compactions_once(
    path: Path, claude: ClaudeFolder, collector: Collector, store: Path
) -> None:
    lines = [user(), boundary(at=1, uuid="B1"), summary(), boundary(at=2)]
    lines[3]["uuid"] = None
    write(path, lines)
    os.utime(path, ns=(0, 10**18))
    # /cd moved it, and it went on there.
    write(claude.projects / "-home-dev-other" / path.name, [*lines, boundary(at=3, uuid="B2")])
    fork = [line | {"sessionId": OTHER} for line in lines]
    write(path.with_name(f"{OTHER}.jsonl"), [*fork, assistant(), boundary(at=4, uuid="B3")])
    collector.scan_and_report_compactions()

    def named(session_id: str | None = None) -> list[str]:
        uuids = [uuid for uuid, _ in compactions(store, session_id)]
        return ["at" if uuid.startswith("at ") else uuid for uuid in uuids]

    assert named(SESSION) == ["B2", "at", "B1"]
    assert named(OTHER) == ["B3", "at", "B1"], "its own, where it is asked for alone"
    # Without a uuid nobody can say whose it is.
    assert named() == ["B3", "B2", "at", "at", "B1"]


def test_a_scan_alone_tells_nothing(path: Path, collector: Collector, store: Path) -> None:
    write(path, [boundary(uuid="B1"), summary()])
    collector.scan()

    assert forgot(store) == {"B1": None}
    assert post_scan_jobs.REPORT_BUDGET_S < 1, "the watcher looks at what has changed in between"


@pytest.mark.parametrize("rendered", [True, False])
def test_files_that_the_model_is_told_of_again_are_not_forgotten(
    path: Path, collector: Collector, store: Path, rendered: bool
) -> None:
    note = attachment("compact_file_reference", filename="/p/shop.py", displayPath="shop.py")
    if rendered:
        note["rendered"] = [{"content": "Note: /p/shop.py was read before."}]
    again = attachment("file", filename="/p/cart.py", content={"file": {"content": "1"}})
    work = [*read("/p/shop.py", 1), *read("/p/cart.py", 2), *read("/p/lost.py", 3)]
    cut = boundary(uuid="b1")
    write(path, [user("go"), *work, cut, summary("They were read.")])
    collector.scan_and_report_compactions()
    assert forgot(store)["b1"] == ["/p/lost.py", "/p/cart.py", "/p/shop.py"]
    append(path, [note, again, assistant("m9", 900, at=9)])
    collector.scan_and_report_compactions()
    assert forgot(store) == {"b1": ["/p/lost.py"]}
