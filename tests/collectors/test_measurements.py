"""The plugin's log: what the module inside the client was told, each record once."""

from __future__ import annotations

import json
from contextlib import closing
from typing import TYPE_CHECKING, Any

import pytest
from ctxtop.collectors.claude_code.own_log_records import read_log
from ctxtop.collectors.plugin.register_command import append_records
from ctxtop.collectors.plugin_files import plugin_log
from ctxtop.core.model.context_window import ClaimSource
from ctxtop.core.model.transcript_records import LogKind
from ctxtop.core.readers.fleet_reader import read_sessions
from ctxtop.core.store import log_writer
from ctxtop.core.store.database import open_reader
from ctxtop.core.store.queries import evidence_queries, log_queries

from tests.log_rows import log_rows

from ..logs import log_file
from ..transcripts import MODEL, PROJECT, SESSION, START_MS, assistant, user, write

if TYPE_CHECKING:
    from pathlib import Path

    from ctxtop.collectors.collector_thread import Collector
    from ctxtop.collectors.locations.discover import ClaudeFolder
    from ctxtop.core.model.context_window import Window

USAGE = {
    "input_tokens": 20,
    "output_tokens": 19,
    "cache_read_input_tokens": 65_682,
    "cache_creation_input_tokens": 7_298,
    "model": MODEL,
}


def measured(window: object = 500_000, tokens: object = 52_000, **more: object) -> bytes:
    context = {"tokens": tokens, "window": window, "percent": 10}
    given = {"session_id": SESSION, "model": f"{MODEL}[1m]", "context": context, **more}
    return json.dumps({"event": "session.measure", "given": given}).encode()


def completed() -> bytes:
    given = {"session_id": SESSION, "turnId": "t-1", "durationMs": 424, "isAborted": False}
    return json.dumps({"event": "turn.complete", "given": given | {"usage": USAGE}}).encode()


def push(store: Path, *lines: bytes) -> None:
    """Hand lines over as the module does."""
    log_file(store, LogKind.PLUGIN)
    assert append_records(str(store), b"\n".join(lines)) == 0


def kept(store: Path) -> list[Any]:
    with closing(open_reader(store)) as db:
        return log_rows(db, "measurement", SESSION)


def window_of(store: Path) -> Window:
    with closing(open_reader(store)) as db:
        (session,) = read_sessions(db, START_MS)
    return session.context.window


def test_the_log_is_the_one_that_the_module_writes() -> None:
    assert LogKind(plugin_log.PLUGIN_LOG) is LogKind.PLUGIN


def test_a_measurement_and_a_turn_are_facts(store: Path, collector: Collector) -> None:
    push(store, measured(cost={"usd": 0.5}), completed())

    collector.scan()
    collector.scan()

    first, second = sorted(kept(store), key=lambda row: row.kind)
    assert (first.kind, first.model) == (
        "session.measure",
        MODEL,
    )
    assert (first.context_tokens, first.window_tokens, first.cost_usd) == (52_000, 500_000, 0.5)
    assert (second.kind, second.context_tokens) == ("turn.complete", None)


def test_a_kind_that_is_not_known_is_kept(store: Path, collector: Collector) -> None:
    given = {"session_id": SESSION, "agentId": "a1", "news": {"deep": ["\x1b[2Jx"]}}
    push(store, json.dumps({"event": "session.news", "given": given}).encode())

    collector.scan()

    (row,) = kept(store)
    assert (row.kind, row.agent_id) == ("session.news", "a1")


@pytest.mark.parametrize(
    ("line", "why"),
    [
        (b"no json", "not JSON"),
        (b'{"event":"session.measure","given":{}}', "does not name a session"),
        (b'{"event":"session.measure","given":{"session_id":7}}', "Expected"),
        (measured(window=-1), "Expected"),
        (b"[]", "not JSON"),
    ],
)
def test_what_is_no_measurement_is_set_aside(
    store: Path, collector: Collector, line: bytes, why: str
) -> None:
    push(store, line)

    collector.scan()

    assert kept(store) == []
    with closing(open_reader(store)) as db:
        ((_, _, _, reason),) = log_queries.bad_log_lines(db)
    assert why in reason


def test_what_the_client_measures_is_its_window(
    claude: ClaudeFolder, store: Path, collector: Collector
) -> None:
    write(claude.projects / PROJECT / f"{SESSION}.jsonl", [user(), assistant()])
    push(store, measured(window=400_000))

    collector.scan()

    assert (window_of(store).tokens, window_of(store).source) == (400_000, ClaimSource.PLUGIN)


@pytest.mark.parametrize("newest", [LogKind.PLUGIN, LogKind.STATUS_LINE])
def test_the_newest_word_of_the_client_counts(
    claude: ClaudeFolder, store: Path, collector: Collector, newest: LogKind
) -> None:
    write(claude.projects / PROJECT / f"{SESSION}.jsonl", [user(), assistant()])
    status = {"session_id": SESSION, "model": {"id": MODEL}}
    window = {"context_window": {"context_window_size": 300_000}}
    given = {
        LogKind.PLUGIN: json.loads(measured(window=400_000))["given"],
        LogKind.STATUS_LINE: status | window,
    }
    for place, name in enumerate(sorted(given, key=lambda each: each == newest)):
        line = {"v": 1, "at": START_MS + place, "event": "session.measure", "given": given[name]}
        log_file(store, name).write_text(json.dumps(line) + "\n", encoding="utf-8")

    collector.scan()

    found = {LogKind.PLUGIN: ClaimSource.PLUGIN, LogKind.STATUS_LINE: ClaimSource.STATUS_LINE}[
        newest
    ]
    assert window_of(store).source is found


def test_old_measurements_go_and_the_newest_window_stays(
    store: Path, collector: Collector, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_writer, "MAX_MEASUREMENTS", 3)
    push(store, measured(window=400_000), *[completed()] * 5)

    collector.scan()

    rows = kept(store)
    assert [row.kind for row in rows] == ["turn.complete"] * 3
    with closing(open_reader(store)) as db:
        (seen,) = evidence_queries.client_windows(db)
    assert (seen.window_tokens, seen.is_measured) == (400_000, 1)


def test_a_time_that_is_missing_is_the_file_s() -> None:
    line = json.dumps({"v": 1, "given": {"session_id": SESSION}}).encode()

    (found,) = read_log(LogKind.PLUGIN, [(0, line)], 77).measurements

    assert (found.at, found.kind) == (77, "")
