"""How sessions hang together, and lines that a file or another file says again."""

# ruff: noqa: ANN401 -- any field may be named

from __future__ import annotations

import os
from contextlib import closing
from typing import TYPE_CHECKING, Any

import pytest
from ctxtop.collectors.collector_thread import Collector
from ctxtop.core.readers.fleet_reader import read_sessions
from ctxtop.core.store.database import open_reader
from ctxtop.core.store.queries import (
    agent_queries,
    session_queries,
)
from ctxtop.core.store.writer import Writer

from ..dump import FILE_STATE, dump
from ..recorder import Recorder
from ..stored import stored_summaries
from ..transcripts import (
    PROJECT,
    SESSION,
    START_MS,
    JsonLine,
    agent_result,
    append,
    assistant,
    boundary,
    encode,
    launch,
    refusal,
    summary,
    time,
    tool,
    user,
    write,
)
from ..usage import usage_of_sessions

if TYPE_CHECKING:
    from pathlib import Path

    from ctxtop.collectors.locations.discover import ClaudeFolder
    from ctxtop.core.model.session import Session

OTHER = "22222222-2222-4333-8444-555555555555"


@pytest.fixture
def path(claude: ClaudeFolder) -> Path:
    return claude.projects / PROJECT / f"{SESSION}.jsonl"


@pytest.fixture
def other(claude: ClaudeFolder) -> Path:
    return claude.projects / PROJECT / f"{OTHER}.jsonl"


def copied(lines: list[JsonLine], **fields: Any) -> list[JsonLine]:
    """The same lines in a fork's file."""
    return [line | {"sessionId": OTHER} | fields for line in lines]


def sessions(store: Path) -> dict[str, Session]:
    with closing(open_reader(store)) as db:
        return {found.session_id: found for found in read_sessions(db, START_MS)}


def scan_again(claude: ClaudeFolder, store: Path) -> None:
    with closing(Writer(store)) as writer:
        Collector(claude, writer, Recorder()).scan()


@pytest.mark.parametrize(
    ("line", "parent"),
    [
        ({"type": "derived-from", "v": 1, "sessions": [{"id": OTHER, "via": "fork"}]}, OTHER),
        ({"type": "derived-from", "v": 1, "sessions": [{"id": OTHER, "via": "import"}]}, None),
        ({"type": "derived-from", "v": 1, "sessions": [{"id": None, "via": "fork"}]}, None),
        ({"type": "derived-from", "sessions": "x"}, None),
        ({"type": "derived-from"}, None),
        (user(forkedFrom={"sessionId": OTHER.upper(), "messageUuid": "u"}), OTHER),
        ({"type": "continued-in", "continuedInSessionId": OTHER}, None),
        (user(sessionId=OTHER), None),
    ],
)
def test_what_a_line_says_of_the_session_it_was_forked_from(
    path: Path, collector: Collector, store: Path, line: JsonLine, parent: str | None
) -> None:
    write(path, [user(), line, line])
    collector.scan()

    assert sessions(store)[SESSION].forked_from == parent


FORKS: dict[str, dict[str, Any]] = {
    "cli": {},
    "branch": {"forkedFrom": {"sessionId": SESSION, "messageUuid": "u"}},
    "sdk": {"forkedFrom": {"sessionId": SESSION, "messageUuid": "u"}, "uuid": None},
}


@pytest.mark.parametrize("kind", list(FORKS))
def test_a_fork_owns_only_its_own_answers(
    path: Path, other: Path, collector: Collector, store: Path, kind: str
) -> None:
    history = [user(at=1), assistant("m1", at=2), assistant("m2", 2000, at=3)]
    write(path, [*history, assistant("m3", 3000, at=4)])
    # A headless fork begins with a line of the moment when it forked.
    queued = {
        "type": "queue-operation",
        "operation": "enqueue",
        "timestamp": "2026-11-20T12:00:00Z",
    }
    own = assistant("f1", 2500, at=7300, sessionId=OTHER)
    write(other, [queued, *copied(history, **FORKS[kind]), own])
    collector.scan()
    with closing(open_reader(store)) as db:
        spent = {row.session_id: row.responses for row in usage_of_sessions(db)}

    assert spent == {SESSION: 3, OTHER: 1}
    assert sessions(store)[OTHER].forked_from == SESSION
    assert sessions(store)[OTHER].context.tokens == 2500


def test_what_was_ignored_is_counted(path: Path, collector: Collector, store: Path) -> None:
    write(path, [user(), {"type": "mode"}, {"type": "mode"}, {"type": "tag"}])
    collector.scan()

    with closing(open_reader(store)) as db:
        assert session_queries.ignored_types(db) == {"mode": 2, "tag": 1}


def test_an_old_resume_copied_the_lines_into_a_new_file(
    path: Path, other: Path, collector: Collector, store: Path
) -> None:
    history = [user(at=1), assistant("m1", at=2)]
    write(path, history)
    write(other, [*history, assistant("m2", 2000, at=9, sessionId=OTHER)])
    collector.scan()

    with closing(open_reader(store)) as db:
        assert sum(row.responses for row in usage_of_sessions(db)) == 2


def test_history_that_is_appended_again_counts_once(
    path: Path, collector: Collector, claude: ClaudeFolder, store: Path, tmp_path: Path
) -> None:
    calls = [tool("Bash", "toolu_one"), tool("Read", "toolu_two")]
    history = [
        user("fix it", at=1),
        *(assistant("m1", 1000, content=[call], at=2) for call in calls),
        launch("toolu_agent", at=3),
        agent_result("toolu_agent", "a1", "found it", at=4),
        refusal("prompt is too long: 7 tokens > 5 maximum", at=5),
    ]
    first = [boundary(at=6, uuid="B1"), summary("kept one", at=6, uuid="S1")]
    work = [assistant("m2", 500, content=[tool("Bash", "toolu_three")], at=7)]
    second = [boundary(at=8, uuid="B2"), summary("kept two", at=8, uuid="S2")]
    end = [assistant("m3", 700, at=9)]
    write(path, [*history, *first, *work])
    collector.scan()
    append(path, [*history, *first])
    collector.scan()
    append(path, [*second, *end, *history])
    collector.scan()

    with closing(open_reader(store)) as db:
        answers = dict(db.execute("SELECT message_id, tool_uses FROM response").fetchall())
        assert answers == {"m1": 2, "msg_toolu_agent": 1, "m2": 1, "m3": 0}
        assert [row.uuid for row in session_queries.compactions(db)] == ["B2", "B1"]
        assert len(stored_summaries(db)) == 3
        assert len(agent_queries.agents(db)) == 1
        assert db.execute("SELECT COUNT(*) FROM api_error").fetchone()[0] == 1
    found = sessions(store)[SESSION]
    assert found.context.tokens == 700
    assert found.refusal is None, "an old refusal that is said again is not the last answer"
    scan_again(claude, tmp_path / "clean.db")
    assert dump(store, FILE_STATE) == dump(tmp_path / "clean.db", FILE_STATE)


def test_of_two_writers_in_one_file_the_last_line_counts(
    path: Path, collector: Collector, store: Path
) -> None:
    write(path, [user(at=1), assistant("a1", 5000, at=50), assistant("b1", 9000, at=20)])
    collector.scan()
    assert sessions(store)[SESSION].context.tokens == 9000

    append(path, [assistant("a2", 6000, at=10)])
    collector.scan()

    assert sessions(store)[SESSION].context.tokens == 6000


def test_an_upper_case_id_is_the_same_session(
    claude: ClaudeFolder, collector: Collector, store: Path
) -> None:
    path = claude.projects / PROJECT / f"{SESSION.upper()}.jsonl"
    write(path, [user(sessionId=SESSION.upper())])
    write(
        claude.projects / PROJECT / SESSION / "subagents" / "agent-a1.jsonl",
        [assistant("x1", 4000)],
    )
    collector.scan()

    assert list(sessions(store)) == [SESSION]
    assert sessions(store)[SESSION].agents == 1


def _without_line(data: bytes, number: int) -> bytes:
    lines = data.splitlines(keepends=True)
    del lines[number]
    return b"".join(lines)


@pytest.mark.parametrize("filler_mb", [0, 60])
def test_a_message_that_was_taken_back_leaves_no_row(
    path: Path,
    collector: Collector,
    claude: ClaudeFolder,
    store: Path,
    tmp_path: Path,
    filler_mb: int,
) -> None:
    blob = b'{"type":"api-request-blob","sessionId":"s","hash":"%07d","message":{"x":"' + b"x" * (
        1 << 20
    )
    bulk = b"".join(blob % number + b'"}}\n' for number in range(filler_mb))
    lines = encode([user(at=1), assistant("m1", at=2), assistant("gone", 8000, at=3), user(at=4)])
    path.parent.mkdir(parents=True)
    path.write_bytes(bulk + lines)
    collector.scan()
    assert sessions(store)[SESSION].context.tokens == 8000

    # The client truncates at the line and writes what followed again.
    rest = _without_line(lines, 2)
    with path.open("r+b") as file:
        file.truncate(len(bulk))
        file.seek(0, os.SEEK_END)
        file.write(rest)
    os.utime(path, ns=(1, 1))
    collector.scan()

    assert sessions(store)[SESSION].context.tokens == 1000
    scan_again(claude, tmp_path / "clean.db")
    assert dump(store, FILE_STATE) == dump(tmp_path / "clean.db", FILE_STATE)


THIRD = "33333333-2222-4333-8444-555555555555"


def first_time(second: int) -> JsonLine:
    """What the client writes first of all, also into a fork."""
    return {"type": "queue-operation", "operation": "enqueue", "timestamp": time(second)}


def test_a_fork_whose_lines_name_no_parent_is_found_by_its_answers(
    path: Path, other: Path, collector: Collector, store: Path
) -> None:
    """`--fork-session` and `/fork` copy the lines with their ids, and say nothing of it."""
    begun = [user(), assistant("msg_1"), assistant("msg_2")]
    write(path, [first_time(0), *begun])
    write(other, [first_time(60), *copied(begun), assistant("msg_3", sessionId=OTHER)])
    third = path.with_name(f"{THIRD}.jsonl")
    own = [line | {"sessionId": THIRD} for line in (*begun, assistant("msg_3"))]
    write(third, [first_time(120), *own])
    # A sibling is no parent, however much both have copied.
    sibling = path.with_name(f"{'4' * 8}{THIRD[8:]}.jsonl")
    write(sibling, [first_time(180), *(line | {"sessionId": sibling.stem} for line in begun)])
    collector.scan()
    found = {name: session.forked_from for name, session in sessions(store).items()}
    assert found == {SESSION: None, OTHER: SESSION, THIRD: OTHER, sibling.stem: SESSION}
