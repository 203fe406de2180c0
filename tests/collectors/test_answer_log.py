"""The log of answers: what was given, read once, whatever stands in it."""

from __future__ import annotations

import json
from contextlib import closing
from typing import TYPE_CHECKING

from ctxtop.collectors.claude_code.own_files import LogReader
from ctxtop.collectors.plugin_files.state_files import record_answer
from ctxtop.core.model.log_records import AnswerItemRecord
from ctxtop.core.model.problem import ProblemReporter
from ctxtop.core.model.transcript_records import LogKind
from ctxtop.core.store.queries.agent_queries import answer_items
from ctxtop.core.store.queries.log_queries import bad_log_lines
from ctxtop.core.store.writer import Writer

from ..logs import lines, log_file

if TYPE_CHECKING:
    from pathlib import Path


def read(store: Path) -> set[str]:
    with closing(Writer(store)) as writer:
        return LogReader(writer, ProblemReporter(print, print, print)).read()


def rows(store: Path, feature: str) -> list[AnswerItemRecord]:
    with closing(Writer(store)) as writer:
        return answer_items(writer.connection, feature)


def record(**fields: object) -> bytes:
    told = {"session_id": "S1", "kind": "sibling", "text": "why"} | fields
    return json.dumps({"v": 1, "at": 5, "pid": 7, "event": "inject", "given": told}).encode()


def test_a_record_is_read_once(tmp_path: Path) -> None:
    store = tmp_path / "ctxtop.db"
    record_answer(store, "steer", session_id="s1", agent_id=None, kind="file", text="/p/a.py")
    assert read(store) == {"s1"}
    assert read(store) == set()
    (row,) = rows(store, "steer")
    assert (row.session_id, row.agent_id, row.kind, row.text) == ("s1", None, "file", "/p/a.py")
    assert rows(store, "inject") == []


def test_what_a_terminal_could_obey_is_taken_out(tmp_path: Path) -> None:
    store = tmp_path / "ctxtop.db"
    log_file(store, LogKind.ANSWERS).write_bytes(
        lines([record(text="\x1b[2Jwhy", agent_id="a\n1", tokens=7)])
    )
    read(store)
    (offset,) = [row.offset for row in rows(store, "inject")]
    assert rows(store, "inject") == [
        AnswerItemRecord(offset, 5, "inject", "s1", "a 1", "sibling", "[2Jwhy", 7, None, None)
    ]


def test_a_line_that_is_no_record_is_set_aside(tmp_path: Path) -> None:
    store = tmp_path / "ctxtop.db"
    broken = [b"no JSON", record(kind=7), record(tokens=-1), record(tokens=2**70), record()]
    log_file(store, LogKind.ANSWERS).write_bytes(lines(broken))
    read(store)
    assert len(rows(store, "inject")) == 1
    with closing(Writer(store)) as writer:
        assert len(bad_log_lines(writer.connection)) == 4
