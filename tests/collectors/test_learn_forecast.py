"""Forecasts are calibrated by the sessions of this machine, in the background."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

import pytest
from ctxtop.collectors.claude_code import calibration_jobs
from ctxtop.collectors.claude_code.calibration_jobs import MIN_NEW_ANSWERS, ForecastCalibrationJob
from ctxtop.core.measure.forecast import SHIPPED_CALIBRATION
from ctxtop.core.readers.fleet_reader import read_prior
from ctxtop.core.store.database import open_reader
from ctxtop.core.store.queries.evidence_queries import calibrated_answers

from ..transcripts import PROJECT, assistant, user, write

if TYPE_CHECKING:
    from pathlib import Path

    from ctxtop.collectors.collector_thread import Collector
    from ctxtop.collectors.locations.discover import ClaudeFolder
    from ctxtop.core.measure.forecast import ForecastCalibration
    from ctxtop.core.store.writer import Writer


@pytest.fixture(autouse=True)
def look_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calibration_jobs, "FORECAST_CHECK_INTERVAL_S", 0.0)


def session(claude: ClaudeFolder, number: int, answers: int) -> None:
    """Write a session whose turns add 300 tokens, and every seventh 4,000."""
    lines = [user()]
    tokens = 20_000
    for turn in range(answers):
        tokens += 4_000 if (turn + number) % 7 == 0 else 300
        lines.append(assistant(f"m{number}-{turn}", tokens, 80, at=turn))
    write(claude.projects / PROJECT / f"{number:08x}-0000-4000-8000-000000000000.jsonl", lines)


def learn_all(writer: Writer) -> int:
    learner, steps = ForecastCalibrationJob(writer), 0
    while learner.run():
        steps += 1
    return steps


def calibration(store: Path) -> ForecastCalibration | None:
    with closing(open_reader(store)) as db:
        return read_prior(db).calibration


def test_sessions_are_replayed_one_at_a_time_and_make_the_calibration(
    claude: ClaudeFolder, collector: Collector, writer: Writer, store: Path
) -> None:
    for number in range(4):
        session(claude, number, 60)
    collector.scan()
    assert calibration(store) == SHIPPED_CALIBRATION

    steps = learn_all(writer)

    assert steps == 4
    assert calibration(store) not in {None, SHIPPED_CALIBRATION}
    assert calibrated_answers(writer.connection) == 240


def test_they_are_measured_again_only_after_many_new_answers(
    claude: ClaudeFolder, collector: Collector, writer: Writer
) -> None:
    session(claude, 1, 60)
    session(claude, 2, 60)
    collector.scan()
    assert learn_all(writer) == 2
    session(claude, 3, MIN_NEW_ANSWERS - 1)
    collector.scan()
    assert learn_all(writer) == 0
    session(claude, 4, 1)
    collector.scan()
    assert learn_all(writer) == 4


def test_an_empty_store_has_nothing_to_measure(writer: Writer) -> None:
    assert learn_all(writer) == 0
    assert calibrated_answers(writer.connection) is None
