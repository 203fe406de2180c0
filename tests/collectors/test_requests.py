"""What was really sent: requests as rows, and their parts read back from the transcript."""

# ruff: noqa: ANN401 -- any field may be named

from __future__ import annotations

import hashlib
import json
import os
import shutil
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest
from ctxtop.collectors.claude_code.transcripts.api_requests import (
    find_sent_messages,
    read_request_line,
    read_request_part,
    reread_part,
)
from ctxtop.collectors.collector_thread import Collector
from ctxtop.collectors.locations.discover import ClaudeFolder
from ctxtop.core.store.database import open_reader
from ctxtop.core.store.queries import context_queries, session_queries
from ctxtop.core.store.writer import Writer
from ctxtop.core.transcript.raw_lines import text_key

from ..recorder import Recorder
from ..transcripts import (
    PROJECT,
    SESSION,
    JsonLine,
    append,
    assistant,
    boundary,
    text,
    tool,
    tool_result,
    user,
    write,
)

if TYPE_CHECKING:
    import sqlite3

CORPUS: Final = os.environ.get("CTXTOP_SHARED")


@pytest.fixture
def path(claude: ClaudeFolder) -> Path:
    return claude.projects / PROJECT / f"{SESSION}.jsonl"


def hashed(message: JsonLine) -> str:
    """The client's hash of a message: of its canonical JSON."""
    data = json.dumps(message, ensure_ascii=False, separators=(",", ":"), sort_keys=True)
    return hashlib.sha256(data.encode()).hexdigest()


def blob(message: JsonLine, **fields: Any) -> JsonLine:
    head = {"type": "api-request-blob", "sessionId": SESSION} | fields
    return head | {"hash": hashed(message), "message": message}


def shape(name: str) -> JsonLine:
    head = {"type": "api-request-shape", "sessionId": SESSION, "shapeHash": name}
    return head | {"timestamp": "t", "version": "v", "shape": {"system": [], "tools": []}}


def request(name: str, keep: int, *tail: str, **fields: Any) -> JsonLine:
    return {
        "type": "api-request",
        "sessionId": SESSION,
        "id": name,
        "timestamp": "2026-11-20T10:00:05.000Z",
        "querySource": "sdk",
        "shapeHash": "shape",
        "params": {"model": "claude-opus-5-5", "max_tokens": 5},
        "keep": keep,
        "tail": list(tail),
    } | fields


def said(*words: str) -> JsonLine:
    return {"role": "user", "content": [text(each) for each in words]}


def listed(store: Path, name: str) -> list[int] | None:
    with closing(open_reader(store)) as db:
        (file_id,) = db.execute("SELECT file_id FROM file").fetchone()
        return context_queries.sent_messages(db, file_id, text_key(name))


def test_a_requests_row(path: Path, collector: Collector, store: Path) -> None:
    lines = [shape("shape"), blob(said("hi")), request("r1", 0, hashed(said("hi")))]
    write(path, [user("hi"), *lines, assistant("m1", requestRef="r1")])
    collector.scan()

    with closing(open_reader(store)) as db:
        (row,) = context_queries.requests(db, SESSION)
        places = context_queries.request_parts(db, row.file_id, [row.shape or 0, 5])
        assert session_queries.unknown_types(db) == {}
    assert (row.model, row.query_source, row.message_id) == ("claude-opus-5-5", "sdk", "m1")
    assert row.shape == text_key("shape")
    assert list(places) == [row.shape]
    data = path.read_bytes()
    assert json.loads(data[row.offset : row.offset + row.length])["id"] == "r1"


def test_nothing_of_a_part_is_kept(path: Path, collector: Collector, store: Path) -> None:
    words = "secret words " * 1000
    write(path, [user("hi"), *(blob(said(words, str(each))) for each in range(50))])
    collector.scan()

    kept = store.read_bytes() + store.with_name(store.name + "-wal").read_bytes()
    assert b"secret words" not in kept
    with closing(open_reader(store)) as db:
        assert db.execute("SELECT COUNT(*) FROM request_part").fetchone()[0] == 50


def test_a_list_of_messages_is_put_together(path: Path, collector: Collector, store: Path) -> None:
    write(
        path,
        [
            request("r1", 0, "a", "b"),
            request("r2", 2, "c", "d", base="r1"),
            request("other", 0, "x"),
            request("r3", 3, "e", base="r2"),
            request("r4", 0, "a", "c"),
            request("r5", 2, "f"),
            request("lost", 1, "g", base="never"),
            request("more", 9, "h", base="r1"),
        ],
    )
    collector.scan()

    expected = {
        "r1": "ab",
        "r2": "abcd",
        "r3": "abce",
        "r4": "ac",
        "r5": "acf",
    }
    for name, messages in expected.items():
        assert listed(store, name) == [text_key(each) for each in messages]
    assert listed(store, "lost") is None
    assert listed(store, "more") is None
    assert listed(store, "of another file") is None


def test_requests_that_name_each_other_end(path: Path, collector: Collector, store: Path) -> None:
    write(path, [request("r1", 1, base="r2"), request("r2", 1, base="r1"), request("r3", 1)])
    collector.scan()

    assert listed(store, "r1") is None
    assert listed(store, "r3") is None


def test_a_part_is_read_back(path: Path, collector: Collector, store: Path) -> None:
    message = said("hi", "\u2028 there")
    write(path, [user("hi"), blob(message, agentId="a1"), shape("shape")])
    collector.scan()
    with closing(open_reader(store)) as db:
        key = text_key(hashed(message))
        place = context_queries.request_parts(db, 1, [key])[key]

    found = reread_part(path, place.offset, place.length, key)
    assert found is not None
    assert found["message"] == message
    assert reread_part(path, place.offset, place.length, key + 1) is None
    assert reread_part(path, 0, place.length, key) is None
    assert reread_part(path, place.offset, place.length - 5, key) is None
    path.write_bytes(b"")
    assert reread_part(path, place.offset, place.length, key) is None


def test_a_message_without_a_blob_stands_in_the_conversation(
    path: Path, collector: Collector
) -> None:
    call = tool("Bash", "t1", command="ls") | {"caller": {"type": "direct"}}
    lines = [
        user("hi"),
        assistant("m1", content=[text("I look")]),
        blob(said("between")),
        assistant("m1", content=[call]),
        tool_result("t1", "a file", {}),
        user("and you?"),
        assistant("m2", content=[text("done")]),
        boundary(),
        user("after"),
    ]
    write(path, lines)
    collector.scan()
    answer = {"role": "assistant", "content": [text("I look"), tool("Bash", "t1", command="ls")]}
    block = {"type": "tool_result", "tool_use_id": "t1", "content": "a file"}
    result = {"role": "user", "content": [block, text("and you?")]}
    wanted = {text_key(hashed(message)) for message in (said("hi"), answer, result, said("after"))}

    found = find_sent_messages(path, wanted, path.stat().st_size)

    assert found.keys() == wanted
    whole = found[text_key(hashed(answer))]
    assert whole["content"] == tuple(answer["content"])
    assert find_sent_messages(path, wanted, 1).keys() == {text_key(hashed(said("hi")))}


@pytest.mark.parametrize(
    "line",
    [
        b'{"type":"api-request","id":5}',
        b'{"type":"api-request","sessionId":"s"}',
        b'{"type":"api-request","id":"x","tail":"no"}',
        b'{"type":"api-request","id":"x","keep":-1}',
        b'{"type":"api-request-blob","message":{}}',
        b'{"type":"api-request-blob","hash":5}',
        b'{"type":"api-request-of-tomorrow"}',
    ],
)
def test_a_request_of_another_kind_is_counted(
    path: Path, collector: Collector, store: Path, line: bytes
) -> None:
    write(path, [line, user()])
    collector.scan()

    with closing(open_reader(store)) as db:
        assert sum(session_queries.unknown_types(db).values()) == 1
        assert session_queries.bad_lines(db) == []


def test_the_head_alone_says_what_a_part_is() -> None:
    hostile = b'{"type":"api-request-blob","message":{},"hash":"x"}'
    assert read_request_part(0, hostile) is None
    assert read_request_part(7, b'{"type":"api-request-blob","hash":"x"') is not None
    assert read_request_line(0, b"{") is None


def test_a_request_of_a_long_history_is_small(
    path: Path, collector: Collector, store: Path
) -> None:
    hashes = [hashlib.sha256(bytes([each])).hexdigest() for each in range(200)]
    write(path, [request(f"r{each}", 0, *hashes) for each in range(50)])
    collector.scan()

    with closing(open_reader(store)) as db:
        used = db.execute("SELECT SUM(LENGTH(tail)) FROM request").fetchone()[0]
    assert used < 0.13 * path.stat().st_size


def test_a_boundary_that_is_followed_by_the_same_parts(
    path: Path, collector: Collector, store: Path
) -> None:
    message = said("hi")
    write(path, [blob(message), request("r1", 0, hashed(message)), boundary()])
    append(path, [blob(message), request("r2", 0, hashed(message))])
    collector.scan()

    with closing(open_reader(store)) as db:
        assert db.execute("SELECT offset FROM request_part").fetchall() != []
        assert len(context_queries.requests(db, SESSION)) == 2
    assert listed(store, "r1") == listed(store, "r2") == [text_key(hashed(message))]


def _transcripts(db: sqlite3.Connection) -> list[sqlite3.Row]:
    return db.execute("SELECT path, session_id, agent_id FROM file").fetchall()


@pytest.mark.skipif(not CORPUS, reason="CTXTOP_SHARED does not name the shared folder")
def test_every_message_that_the_real_client_sent_is_found(tmp_path: Path) -> None:
    root = tmp_path / "claude"
    shutil.copytree(Path(CORPUS or "") / "corpus" / "current" / "config", root)
    store = tmp_path / "ctxtop.db"
    with closing(Writer(store)) as writer:
        Collector(ClaudeFolder(root), writer, Recorder()).scan()
    sent, as_blobs, spoken, answered = 0, 0, 0, 0
    with closing(open_reader(store)) as db:
        for name, session_id, agent_id in _transcripts(db):
            place = root / "projects" / name
            for row in context_queries.requests(db, session_id, agent_id):
                messages = context_queries.sent_messages(db, row.file_id, row.request)
                assert messages
                parts = context_queries.request_parts(db, row.file_id, [*messages, row.shape or 0])
                assert row.shape in parts
                for part in parts.values():
                    assert reread_part(place, part.offset, part.length, part.part)
                rest = {key for key in messages if key not in parts}
                found = find_sent_messages(place, rest, row.offset)
                assert found.keys() == rest
                whole = json.loads(
                    place.read_bytes()[row.offset : row.offset + row.length].decode()
                )
                assert messages[whole["keep"] :] == [text_key(each) for each in whole["tail"]]
                # A breakpoint of the cache stands in the list's last message.
                last = max(
                    mark["path"][1] for mark in whole["cacheControl"] if mark["path"][0] != "system"
                )
                assert last == len(messages) - 1
                sent += len(messages)
                as_blobs += len(messages) - len(rest)
                spoken += len(rest)
                answered += row.message_id is not None

        responses = db.execute("SELECT COUNT(DISTINCT message_id) FROM response").fetchone()[0]

    assert (as_blobs + spoken, answered) == (sent, responses)
    assert spoken > 0
