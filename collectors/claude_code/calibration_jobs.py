"""Measures on this machine's transcripts how far token counts and forecasts are off."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from msgspec.structs import replace

from ...core.measure import forecast
from ...core.measure.token_estimate import GrowthStep, GrowthTracker, make_sample
from ...core.measure.tokens import TextCount, count_text
from ...core.model.stored_rows import FillRow
from ...core.readers.fleet_reader import read_histories
from ...core.store.bulkhead import FAILED, bulkhead
from ...core.store.queries.evidence_queries import calibrated_answers, save_forecast_calibration
from ...core.store.token_samples import (
    LearnedStep,
    SampleWriter,
    UnlearnedTranscript,
    unlearned_transcripts,
)
from ...core.store.writer import Writer
from ...core.transcript.entry_decoder import iter_entries

CALIBRATION_BUDGET_S: Final = 0.03  # of one run; changes wait that long
SAVE_INTERVAL_S: Final = 2.0  # between two saves; each notifies the screen
FILE_LIST_INTERVAL_S: Final = 10.0  # between two queries for files; each lists all files
FILES_AT_ONCE: Final = 20  # listed at once; later ones may be up to date by their turn
MAX_NEW_BYTES: Final = 64 * 1024 * 1024
"""Read in one run of ctxtop from files that nothing was learned from yet. Client 2.1.329 writes up
to 0.15 MB a step, so the samples of a model are in about 40 MB."""

MAX_STEP_CHARS: Final = 400_000  # characters added by one step; counting them takes 0.05 s


class TokenCalibrationJob:
    """Learns from the newest sessions first, from each step once; used by one thread."""

    def __init__(
        self,
        projects: Path,
        writer: Writer,
        report_session: Callable[[str], None],
        count: Callable[[str], TextCount] = count_text,
    ) -> None:
        self._projects: Final = projects
        self._writer: Final = writer
        self._report_session: Final = report_session  # with the session that was learnt from
        self._growth: Final = SampleWriter(writer, count)
        self._waiting: list[UnlearnedTranscript] = []
        self._file: _CalibrationFile | None = None
        self._looked_at = float("-inf")
        self._changes = -1
        self._bytes_left = MAX_NEW_BYTES
        self._failed: dict[str, int] = {}  # files, and their sizes: tried again once they grow

    def run(self, seconds: float = CALIBRATION_BUDGET_S) -> bool:
        """Learn from at least one line, for about `seconds`; False if nothing is left for now."""
        deadline = time.monotonic() + seconds
        while file := self._file or self._next():
            self._file = file if self._read(file, deadline) else None
            if time.monotonic() >= deadline:
                return True
        return False

    def _next(self) -> _CalibrationFile | None:
        if not self._waiting:
            self._list_files()
        while self._waiting:
            source = self._waiting.pop(0)
            if source.examined_to or self._bytes_left > 0:
                return _CalibrationFile(self._projects / source.path, source)
        return None

    def _list_files(self) -> None:
        changes, now = self._writer.connection.total_changes, time.monotonic()
        if changes != self._changes and now - self._looked_at >= FILE_LIST_INTERVAL_S:
            self._changes, self._looked_at = changes, now
            limit = FILES_AT_ONCE + len(self._failed)
            listed = unlearned_transcripts(self._writer.connection, limit)
            self._waiting = [each for each in listed if self._failed.get(each.path) != each.size]

    def _read(self, file: _CalibrationFile, deadline: float) -> bool:
        is_read = False
        with bulkhead(f"calibration by {file.source.path}", FAILED, self._writer.path):
            try:
                file.samples += self._take_samples(file, deadline)
            except OSError:
                # The scan reports a file that cannot be read.
                return False
            is_read = True
        if not is_read:
            self._failed[file.source.path] = file.source.size
            return False
        if not file.is_over and time.monotonic() < file.save_at:
            return True
        return self._save(file) and not file.is_over

    def _save(self, file: _CalibrationFile) -> bool:
        if not self._growth.save(file.source, file.samples, file.resume, file.seen):
            return False
        if file.is_new:
            self._bytes_left -= file.seen - file.source.examined_to
        file.source = replace(file.source, resume_offset=file.resume, examined_to=file.seen)
        file.samples, file.save_at = [], time.monotonic() + SAVE_INTERVAL_S
        self._report_session(file.source.session_id)
        return self._bytes_left > 0 or not file.is_new

    def _take_samples(self, file: _CalibrationFile, deadline: float) -> Iterator[LearnedStep]:
        for step in file.steps():
            parts = (*step.answer_parts, *step.added_parts) if step else ()
            if step and sum(len(part.text) for part in parts) <= MAX_STEP_CHARS:
                sample = make_sample(step, self._growth.count)
                if sample:
                    yield step, sample
            if time.monotonic() >= deadline:
                return


class _CalibrationFile:
    def __init__(self, path: Path, source: UnlearnedTranscript) -> None:
        self.source = source
        self.samples: list[LearnedStep] = []  # not stored yet
        self.save_at = time.monotonic() + SAVE_INTERVAL_S
        self.is_new: Final = source.examined_to == 0
        self.is_over = False
        self.seen = source.resume_offset
        self._entries: Final = iter_entries(path, source.resume_offset)
        self._steps: Final = GrowthTracker()

    @property
    def resume(self) -> int:
        """Offset of the last answer, whose successor is not written yet."""
        return self.seen if self._steps.resume_offset is None else self._steps.resume_offset

    def steps(self) -> Iterator[GrowthStep | None]:
        """Continue entry by entry; raises OSError if the file cannot be read."""
        for entry in self._entries:
            self.seen = entry.offset + entry.length + 1
            yield self._steps.add(entry)
        self.seen = max(self.seen, self.source.size)
        self.is_over = True


FORECAST_CHECK_INTERVAL_S: Final = 600.0  # each check reads 30 sessions, 10 ms
MIN_NEW_ANSWERS: Final = 100  # before measuring again: a tenth of what a prior holds


class ForecastCalibrationJob:
    """Replays the newest sessions, one at a time; used by the collector's thread alone."""

    def __init__(self, writer: Writer) -> None:
        self._writer: Final = writer
        self._looked_at = float("-inf")
        self._sessions: list[tuple[str, list[FillRow]]] = []  # with their projects
        self._misses: list[list[forecast.PastGuess]] = []

    def run(self) -> bool:
        """Replay one session; False if nothing is left for now."""
        if not self._sessions and not self._load_sessions():
            return False
        _, rows = self._sessions[len(self._misses)]
        # Without forks of the session, which know what follows.
        own = {row for row in rows if not row.is_compaction}
        prior = forecast.make_prior(each for _, each in self._sessions if own.isdisjoint(each))
        self._misses.append(forecast.replay_forecasts(rows, prior))
        if len(self._misses) == len(self._sessions):
            self._save()
        return True

    def _load_sessions(self) -> bool:
        now = time.monotonic()
        if now - self._looked_at < FORECAST_CHECK_INTERVAL_S:
            return False
        self._looked_at = now
        sessions = [each for each in read_histories(self._writer.connection) if each[1]]
        measured = calibrated_answers(self._writer.connection)
        answers = sum(len(rows) for _, rows in sessions)
        if not answers or (measured is not None and abs(answers - measured) < MIN_NEW_ANSWERS):
            return False
        self._sessions, self._misses = sessions, []
        return True

    def _save(self) -> None:
        by_project: dict[str, list[forecast.PastGuess]] = {}
        for (project, _), misses in zip(self._sessions, self._misses, strict=True):
            by_project.setdefault(project, []).extend(misses)
        calibration = forecast.blend_calibration(
            [*by_project.values()], forecast.SHIPPED_CALIBRATION
        )
        with self._writer.transaction():
            answers = sum(len(rows) for _, rows in self._sessions)
            save_forecast_calibration(self._writer.connection, calibration, answers)
        self._sessions, self._misses = [], []
