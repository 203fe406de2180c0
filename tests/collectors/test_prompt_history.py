"""Prompts of deleted sessions, which only the client's history still has."""

from __future__ import annotations

import json
from contextlib import closing
from typing import TYPE_CHECKING

import pytest
from ctxtop.collectors.claude_code.prompt_history import HISTORY_NAME
from ctxtop.collectors.claude_code.turn_finder import SearchHit, search_turns
from ctxtop.collectors.locations.places import Places
from ctxtop.core.store.database import open_reader
from ctxtop.core.transcript.turn_search import parse_turn_query
from ctxtop.tui.doctor.all_checks import check_all

from ..transcripts import PROJECT, SESSION, START_MS, assistant, user, write

if TYPE_CHECKING:
    from pathlib import Path

    from ctxtop.collectors.collector_thread import Collector

GONE = "22222222-3333-4444-8555-666666666666"
OTHER = "33333333-3333-4444-8555-666666666666"


def typed(text: str, session_id: str = GONE, at: int = START_MS, **fields: object) -> object:
    entry = {"display": text, "pastedContents": {}, "timestamp": at, "project": "/home/dev/depot"}
    return entry | {"sessionId": session_id} | fields


@pytest.fixture
def history(collector: Collector) -> Path:
    lines = [
        typed("count the barrels"),
        typed("stack the barrels", at=START_MS + 60_000),
        typed("paint the barrels", SESSION),
        typed("an older client's barrels", sessionId=None),
        "barrels",
    ]
    path = collector.folder.root / HISTORY_NAME
    path.write_text("".join(f"{json.dumps(line)}\n" for line in lines) + '{"display": "barrels')
    write(
        collector.folder.projects / PROJECT / f"{SESSION}.jsonl",
        [user("paint the barrels"), assistant(at=120)],
    )
    return path


def search(collector: Collector, words: str, limit: int = 50) -> list[SearchHit]:
    collector.scan_and_index_turns()
    query = parse_turn_query(words, START_MS + 3_600_000)
    with closing(open_reader(collector.writer.path)) as db:
        projects = {SESSION: "proj"}
        return [*search_turns(db, collector.folder, query, projects, limit).hits]


@pytest.mark.usefixtures("history")
def test_what_was_typed_in_a_deleted_session_is_found_and_marked(collector: Collector) -> None:
    hits = search(collector, "barrels")
    found = [(hit.session_id, hit.excerpt.text, hit.is_lost) for hit in hits]
    assert found == [
        (GONE, "stack the barrels", True),
        (SESSION, "paint the barrels", False),
        (GONE, "count the barrels", True),
    ]
    assert [hit.project for hit in hits] == ["depot", "", "depot"]
    assert len(search(collector, "barrels", limit=2)) == 2


@pytest.mark.usefixtures("history")
@pytest.mark.parametrize(
    ("words", "lost"),
    [
        ("barrels role:answer", 0),
        ("barrels role:prompt", 2),
        ("barrels project:depot", 2),
        ("barrels project:proj", 0),
        (f"barrels session:{GONE[:6]}", 2),
        ("barrels -stack", 1),
        ('"count the"', 1),
        ("barrels since:2026-11-21", 0),
        ("bananas", 0),
    ],
)
def test_filters_apply_to_them_too(collector: Collector, words: str, lost: int) -> None:
    assert sum(hit.is_lost for hit in search(collector, words)) == lost


def test_secrets_and_signs_in_the_history_are_not_shown(
    collector: Collector, history: Path
) -> None:
    key = "sk-ant-api03-" + "Ab9" * 31
    history.write_text(json.dumps(typed(f"use {key} for the\x1b[31m barrels")) + "\n")
    (hit,) = (each for each in search(collector, "barrels") if each.is_lost)
    assert key not in hit.excerpt.text
    assert "\x1b" not in hit.excerpt.text
    assert search(collector, key) == []


def test_a_link_in_place_of_the_history_is_not_followed(
    collector: Collector, history: Path, tmp_path: Path
) -> None:
    history.rename(tmp_path / "elsewhere.jsonl")
    history.symlink_to(tmp_path / "elsewhere.jsonl")
    assert not any(hit.is_lost for hit in search(collector, "barrels"))
    history.unlink()
    assert not any(hit.is_lost for hit in search(collector, "barrels"))


def test_doctor_counts_the_folders_that_deleted_sessions_left(collector: Collector) -> None:
    project = collector.folder.projects / PROJECT
    for session_id in (GONE, OTHER, SESSION):
        (project / session_id / "tool-results").mkdir(parents=True)
    (project / "memory").mkdir()
    write(project / f"{SESSION}.jsonl", [user(), assistant()])
    collector.scan()
    places = Places(collector.folder.root, collector.writer.path)
    (check,) = (each for each in check_all(places) if each.name == "deleted sessions")
    assert check.state == "note"
    assert check.detail.startswith("2 sessions deleted or never saved, with a folder left: ")
    assert GONE in check.detail
    assert "ctxtop search" in (check.fix or "")
