"""The answers that used the plan's limits: each counted once, files that are old not read."""

from __future__ import annotations

import os
from contextlib import closing
from typing import TYPE_CHECKING, Final

from ctxtop.core.model.answer_rows import AnswerRow
from ctxtop.core.store.database import open_reader
from ctxtop.core.store.queries.limit_queries import CLOCK_MARGIN_MS, answers_since

from ..transcripts import PROJECT, SESSION, START_MS, assistant, user, write

if TYPE_CHECKING:
    from pathlib import Path

    from ctxtop.collectors.collector_thread import Collector
    from ctxtop.collectors.locations.discover import ClaudeFolder

    from ..transcripts import JsonLine

FORK: Final = "99999999-2222-4333-8444-555555555555"
OLD: Final = "88888888-2222-4333-8444-555555555555"
SINCE_MS: Final = START_MS + 10_000


def write_all(claude: ClaudeFolder) -> dict[str, Path]:
    """Write a session, its fork and an old one; each file's time is that of its last answer."""
    first = [
        user(at=0),
        assistant("msg_before", at=5),
        assistant("msg_in_both", at=20, output=50),
        assistant("msg_of_one", at=21, output=70),
    ]
    origin = {"forkedFrom": {"sessionId": SESSION, "messageUuid": "x"}}
    fork = [each | {"sessionId": FORK} | origin for each in first[:3]]
    fork += [assistant("msg_of_the_fork", at=30, output=90) | {"sessionId": FORK}]
    old = [each | {"sessionId": OLD} for each in (user(at=-9000), assistant("msg_old", at=-8000))]
    return {
        SESSION: write_at(claude, SESSION, first, 21),
        FORK: write_at(claude, FORK, fork, 30),
        OLD: write_at(claude, OLD, old, -8000),
    }


def write_at(claude: ClaudeFolder, session_id: str, lines: list[JsonLine], at_s: int) -> Path:
    path = write(claude.projects / PROJECT / f"{session_id}.jsonl", lines)
    nanos = (START_MS + at_s * 1000) * 1_000_000
    os.utime(path, ns=(nanos, nanos))
    return path


def found(store: Path, since_ms: int) -> list[AnswerRow]:
    with closing(open_reader(store)) as db:
        return answers_since(db, since_ms)


def test_a_copied_answer_counts_once_for_the_session_that_was_first(
    claude: ClaudeFolder, collector: Collector, store: Path
) -> None:
    write_all(claude)
    collector.scan()
    assert [(each.session_id, each.output_tokens) for each in found(store, SINCE_MS)] == [
        (SESSION, 50),
        (SESSION, 70),
        (FORK, 90),
    ]
    assert len(found(store, START_MS - 9_000_000)) == 5


def test_a_file_that_was_not_written_since_is_not_read(
    claude: ClaudeFolder, collector: Collector, store: Path
) -> None:
    paths = write_all(claude)
    behind = SINCE_MS - CLOCK_MARGIN_MS
    for path, mtime_ms in ((paths[SESSION], behind), (paths[FORK], behind - 1)):
        os.utime(path, ns=(mtime_ms * 1_000_000, mtime_ms * 1_000_000))
    collector.scan()
    # What says that it was written before its own answers cannot be: only so it shows.
    assert {each.session_id for each in found(store, SINCE_MS)} == {SESSION}
