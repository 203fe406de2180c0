"""After a rewind an open session shows what its client tells the status line."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING, Any

import pytest
from ctxtop.collectors.claude_code.transcript_details import read_composition
from ctxtop.collectors.collector_thread import Collector
from ctxtop.core.measure.timeline import with_current_context
from ctxtop.core.model.context import ContextState
from ctxtop.core.model.log_records import (
    LogPart,
    LogRecords,
    MeasurementRecord,
    StatusSnapshotRecord,
)
from ctxtop.core.model.transcript_records import LiveSession, LogKind, TailState
from ctxtop.core.readers.fleet_reader import read_sessions
from ctxtop.core.readers.timeline_reader import read_timeline
from ctxtop.core.store.database import open_reader
from ctxtop.core.store.log_writer import LogWriter
from ctxtop.core.store.writer import Writer

from ..recorder import Recorder
from ..transcripts import PROJECT, SESSION, START_MS, assistant, boundary, user, write
from .test_composing import Letters, linked

if TYPE_CHECKING:
    from pathlib import Path

    from ctxtop.collectors.locations.discover import ClaudeFolder
    from ctxtop.core.model.session import Session

LAST = 20
"""Seconds after the start at which the last answer came."""


def snapshot(tokens: int, at: int, offset: int = 0) -> StatusSnapshotRecord:
    fields: dict[str, Any] = dict.fromkeys(StatusSnapshotRecord.__struct_fields__)
    fields |= {"offset": offset, "at": START_MS + at * 1000, "session_id": SESSION, "model": "m"}
    fields |= {"input_tokens": 0, "cache_creation_tokens": 0, "cache_read_tokens": tokens}
    fields["output_tokens"] = 7
    return StatusSnapshotRecord(**fields)


def measurement(tokens: int, at: int) -> MeasurementRecord:
    fields: dict[str, Any] = dict.fromkeys(MeasurementRecord.__struct_fields__)
    fields |= {"offset": 0, "at": START_MS + at * 1000, "kind": "session.measure"}
    fields |= {"session_id": SESSION, "context_tokens": tokens}
    return MeasurementRecord(**fields)


class Told:
    """A session of three answers, and what the client told since."""

    def __init__(self, claude: ClaudeFolder, store: Path) -> None:
        self.claude, self.store = claude, store
        self.lines = [
            user("one"),
            assistant("m1", 30_000, at=5),
            user("two", at=6),
            assistant("m2", 300_000, at=10, model="claude-opus-5-5"),
            user("three", at=11),
            assistant("m3", 500_000, at=LAST, model="claude-opus-5-5"),
        ]

    def session(
        self, *told: StatusSnapshotRecord | MeasurementRecord, live: int | None = 0
    ) -> Session:
        write(self.claude.projects / PROJECT / f"{SESSION}.jsonl", linked(*self.lines))
        with closing(Writer(self.store)) as writer:
            Collector(self.claude, writer, Recorder()).scan()
            for number, each in enumerate(told):
                if isinstance(each, StatusSnapshotRecord):
                    log, facts = LogKind.STATUS_LINE, LogRecords(snapshots=(each,))
                else:
                    log, facts = LogKind.PLUGIN, LogRecords(measurements=(each,))
                part = LogPart(log, f"mark {number}", log.value)
                LogWriter(writer).append(part, TailState(), TailState(offset=1), facts)
            if live is not None:
                began = START_MS + live * 1000
                entry = LiveSession(SESSION, 1, "idle", None, None, None, started_at=began)
                writer.save_open_sessions([entry])
        with closing(open_reader(self.store)) as db:
            (found,) = read_sessions(db, 0)
            return found


@pytest.fixture
def told(claude: ClaudeFolder, tmp_path: Path) -> Told:
    return Told(claude, tmp_path / "own.db")


@pytest.mark.parametrize("kind", [snapshot, measurement])
def test_the_clients_number_is_shown_on_every_part_of_the_page(told: Told, kind: object) -> None:
    session = told.session(kind(30_000, LAST + 5))  # type: ignore[operator]
    assert (session.context.tokens, session.context.state) == (30_000, ContextState.MEASURED)
    assert session.context.token_counts.fill == 30_000
    with closing(open_reader(told.store)) as db:
        timeline = read_timeline(db, (SESSION, None), session.context)
        found = read_composition(db, told.claude.projects, SESSION, counter=Letters())
    shown = with_current_context(timeline, session.context, session.last_activity_at)
    assert (shown.turns[-1].tokens, shown.turns[-1].is_estimate) == (30_000, 0)
    assert (found.total_tokens, found.estimated) == (30_000, False)
    stale = with_current_context(timeline, session.context, START_MS)
    assert stale is timeline, "a timeline that is newer than the session says more"


def test_what_was_told_before_the_last_answer_is_old(told: Told) -> None:
    assert told.session(snapshot(30_000, LAST - 5)).context.tokens == 500_000


def test_a_session_that_ended_goes_on_from_its_last_line(told: Told) -> None:
    assert told.session(snapshot(30_000, LAST + 5), live=None).context.tokens == 500_000


def test_what_an_earlier_client_told_is_not_this_ones(told: Told) -> None:
    assert told.session(snapshot(30_000, LAST + 5), live=LAST + 60).context.tokens == 500_000


def test_zero_after_a_compaction_is_no_number(told: Told) -> None:
    told.lines += [boundary(at=LAST + 1, postTokens=900)]
    session = told.session(snapshot(30_000, LAST), snapshot(0, LAST + 2))
    assert session.context.state is ContextState.ESTIMATED


def test_the_newest_word_counts(told: Told) -> None:
    session = told.session(snapshot(30_000, LAST + 5), measurement(31_000, LAST + 6))
    assert session.context.tokens == 31_000
