"""claude-memory's log: each event once, whatever happens to the file."""

from __future__ import annotations

import json
import os
from contextlib import closing
from typing import TYPE_CHECKING, Any

import pytest
from ctxtop.collectors.claude_code.config import memory_saves_reader
from ctxtop.core.store.database import open_reader
from ctxtop.core.store.queries import config_queries as queries

from ..surroundings import project, put
from ..transcripts import START_MS

if TYPE_CHECKING:
    from pathlib import Path

    from ctxtop.collectors.collector_thread import Collector
    from ctxtop.collectors.locations.discover import ClaudeFolder
    from ctxtop.core.model.config_records import SaveEventRecord
    from ctxtop.core.store.writer import Writer

    from ..recorder import Recorder


@pytest.fixture
def here(claude: ClaudeFolder, tmp_path: Path) -> Path:
    """A project that a session worked in."""
    return project(claude, tmp_path / "a")


def event(name: str, **fields: object) -> bytes:
    """A line as claude-memory's logger writes it."""
    said = {
        "schema_version": 1,
        "timestamp": "2026-11-20T10:00:00.000Z",
        "event_type": name,
        "duration_ms": 12.5,
        "data": {},
        "error": None,
    }
    return json.dumps(said | fields).encode() + b"\n"


def events_of(store: Path, folder: Path) -> list[SaveEventRecord]:
    with closing(open_reader(store)) as db:
        return queries.save_events(db, str(folder))


def test_a_log_is_read_once_and_followed(here: Path, collector: Collector, store: Path) -> None:
    path = put(
        here / ".claude/memory/logs/triage/2026-11-20.jsonl",
        event("triage.score", data={"fire_count": 2, "note": "a\x1bb"})
        + event("triage.idempotency_skip", data={"guard": "sentinel"})[:-9],
    )
    collector.scan()
    (first,) = events_of(store, here)
    assert (first.event, first.at, first.offset) == ("triage.score", START_MS, 0)
    assert first.duration_ms == 12.5
    assert json.loads(first.data or "") == {"fire_count": 2, "note": "ab"}

    whole = path.read_bytes() + event("x")[-9:]
    path.write_bytes(whole + event("save.complete", error={"message": "no"}) + b"not JSON\n[]\n")
    for _ in range(2):
        collector.scan()
    found = events_of(store, here)
    assert [each.event for each in found if each.problem is None] == [
        "triage.score",
        "triage.idempotency_skip",
        "save.complete",
    ]
    assert sum(1 for each in found if each.problem) == 2
    assert [each.error for each in found if each.event == "save.complete"] == ['{"message":"no"}']


def test_a_log_that_was_rewritten_is_read_anew(
    here: Path, collector: Collector, store: Path
) -> None:
    path = put(here / ".claude/memory/logs/save/2026-11-20.jsonl", event("save.start") * 3)
    collector.scan()
    put(path, event("save.complete"))
    collector.scan()

    assert [each.event for each in events_of(store, here)] == ["save.complete"]


def test_a_log_that_is_cleaned_away_keeps_its_events(
    here: Path,
    collector: Collector,
    store: Path,
    claude: ClaudeFolder,
    writer: Writer,
    recorder: Recorder,
) -> None:
    path = put(here / ".claude/memory/logs/save/2026-11-20.jsonl", event("save.start"))
    collector.scan()
    path.unlink()
    for _ in range(2):
        collector.scan()
    assert len(events_of(store, here)) == 1

    put(path, event("save.start"))
    type(collector)(claude, writer, recorder).scan()
    assert len(events_of(store, here)) == 1


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"data": {str(n): "x" * 190 for n in range(90)}}, True),
        ({"data": {"deep": json.loads("[" * 50 + "]" * 50)}}, False),
        ({"data": {"n": 10**30}, "duration_ms": 10**400}, False),
        ({"duration_ms": "x", "timestamp": 5, "level": [], "data": [1], "error": "e"}, False),
    ],
)
def test_events_of_any_shape(
    here: Path, collector: Collector, store: Path, fields: dict[str, Any], problem: bool
) -> None:
    put(here / ".claude/memory/logs/save/d.jsonl", event("save.start", **fields))
    collector.scan()
    (found,) = events_of(store, here)

    assert found.event == "save.start"
    assert (found.problem is not None) == problem


def test_a_project_s_logs_are_read_up_to_a_size(
    here: Path,
    collector: Collector,
    recorder: Recorder,
    store: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each line is a row: a cloned repository could fill the store with them."""
    one = event("triage.score")
    monkeypatch.setattr(memory_saves_reader, "MAX_LOG_BYTES", 3 * len(one))
    folder = here / ".claude/memory/logs/triage"
    for number, lines in enumerate([1, 2, 50]):
        path = put(folder / f"2026-11-2{number}.jsonl", one * lines)
        os.utime(path, (1_700_000_000 - number, 1_700_000_000 - number))
    collector.scan()
    assert len(events_of(store, here)) == 3
    (trouble,) = recorder.troubles
    assert trouble.what == "contains more than 0 MiB"


def test_a_search_for_logs_ends(
    here: Path,
    collector: Collector,
    recorder: Recorder,
    store: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(memory_saves_reader, "MAX_FOLDER_ENTRIES", 20)
    logs = here / ".claude/memory/logs"
    for number in range(12):
        put(logs / f"{number}/2026-11-20.jsonl", event("triage.score"))
        put(logs / f"{number}/note.txt", "x")
    collector.scan()
    assert events_of(store, here) == []
    (trouble,) = recorder.troubles
    assert "contains more than" in trouble.what
