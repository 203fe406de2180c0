"""Measuring on this machine's own sessions how far forecasts of turns are off."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

from ..core.forecast import make_prior
from ..core.forecast_calibration import SHIPPED, calibrate
from ..core.forecast_replay import replay
from ..core.outlook import read_histories
from ..core.store.forecast_rows import measured_answers, save_calibration

if TYPE_CHECKING:
    from ..core.forecast_calibration import Miss
    from ..core.store.rows import FillRow
    from ..core.store.writer import Writer

LOOK_S: Final = 600.0
"""Between two looks at whether there is enough that is new: each reads 30 sessions, 10 ms."""

NEW_ANSWERS: Final = 100
"""After so many more or fewer the errors are measured again: a tenth of what a prior holds."""


class ForecastLearner:
    """Replays the newest sessions, one at a time; it belongs to the collector's thread."""

    def __init__(self, writer: Writer) -> None:
        self._writer: Final = writer
        self._looked_at = float("-inf")
        self._sessions: list[list[FillRow]] = []
        self._misses: list[list[Miss]] = []

    def run(self) -> bool:
        """Replay one session; False where nothing is left for now."""
        if not self._sessions and not self._load_sessions():
            return False
        self._misses.append(_misses_of(self._sessions[len(self._misses)], self._sessions))
        if len(self._misses) == len(self._sessions):
            self._save()
        return True

    def _load_sessions(self) -> bool:
        now = time.monotonic()
        if now - self._looked_at < LOOK_S:
            return False
        self._looked_at = now
        sessions = [rows for rows in read_histories(self._writer.connection) if rows]
        measured = measured_answers(self._writer.connection)
        answers = sum(map(len, sessions))
        if not answers or (measured is not None and abs(answers - measured) < NEW_ANSWERS):
            return False
        self._sessions, self._misses = sessions, []
        return True

    def _save(self) -> None:
        calibration = calibrate(self._misses, SHIPPED)
        with self._writer.transaction():
            answers = sum(map(len, self._sessions))
            save_calibration(self._writer.connection, calibration, answers)
        self._sessions, self._misses = [], []


def _misses_of(rows: list[FillRow], sessions: list[list[FillRow]]) -> list[Miss]:
    """Replay a session by what the others say: a fork of it knows what came."""
    own = {row for row in rows if not row.is_compaction}
    return replay(rows, make_prior(each for each in sessions if own.isdisjoint(each)))
