"""What is done with the rows once they are stored: levels, summaries, compactions, saves."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from .after_compaction import AfterCompaction
from .automation import Automation, own_ways
from .judging import Judging
from .line_files import LineFiles
from .noise_meter import MEASURE_S, NoiseMeter
from .policy_files import PolicyFiles
from .telling import TELL_S, Telling

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..core.conversation import Piece
    from ..core.estimate import Estimator
    from ..core.store.writer import Writer
    from .folder import ClaudeFolder
    from .learn import Learner
    from .learn_forecast import ForecastLearner
    from .surroundings.tell import Tell

    Changed = Callable[[frozenset[str]], None]


class Afterwards:
    """Works on what was stored, a little at a time; it belongs to the collector's thread."""

    def __init__(
        self,
        folder: ClaudeFolder,
        writer: Writer,
        tell: Tell,
        changed: Changed,
        policy_files: PolicyFiles | None,
    ) -> None:
        self._folder: Final = folder
        self._writer: Final = writer
        self._report_change: Final = changed
        """Hears which sessions have new rows."""
        self._estimates: Final = AfterCompaction(folder, writer)
        self._compaction_reports: Final = Telling(folder, writer, tell)
        files = policy_files or PolicyFiles()
        self._warnings: Final = Judging(writer, files, tell)
        self._status_lines: Final = LineFiles(writer, files, tell)
        self._pending_evaluation: set[str] = set()
        self._save_noise: Final = NoiseMeter(folder, writer, tell, self._estimate_piece)
        self._automation: Final = Automation(folder, writer, files, own_ways(tell.notify))
        self._token_calibration: Learner | None = None
        self._forecast_calibration: ForecastLearner | None = None
        self._estimator: Estimator | None = None

    def add_read_sessions(self, sessions: set[str]) -> None:
        """Hear of sessions that were read further."""
        self._pending_evaluation |= sessions

    def evaluate_all_warnings(self) -> None:
        """Log the levels that were reached, also those of facts of an earlier run."""
        has_other_policy = self._warnings.refresh_policies()
        self._pending_evaluation.clear()
        if estimated := self._estimates.run():
            self._report_change(estimated)
        judged = self._warnings.evaluate()
        if judged or has_other_policy:
            self._report_change(judged)
        self._status_lines.update()

    def evaluate_new_warnings(self) -> None:
        """Log the levels that were reached by what was just read."""
        if not self._pending_evaluation:
            return
        if estimated := self._estimates.run(self._pending_evaluation):
            self._report_change(estimated)
        judged = self._warnings.evaluate(self._pending_evaluation)
        grown, self._pending_evaluation = self._pending_evaluation, set()
        if judged:
            self._report_change(judged)
        self._status_lines.update(grown)

    def run_automation(self) -> None:
        """Make a session smaller where its project has opted in; a scan alone never does."""
        self._automation.tick()

    def wait_for_automation(self, seconds: float) -> None:
        """Wait so long for what is under way by itself, and tell how it ended."""
        self._automation.wait(seconds)

    def update_status_lines(self, session_ids: set[str]) -> None:
        """Keep for the status line what its own last words changed."""
        if session_ids:
            self._status_lines.update(session_ids)

    def count_tokens(self) -> None:
        """Estimate the tokens of texts that were stored: the table for it takes long to load."""
        counted = self._writer.estimate_summaries(self._estimate)
        if counted:
            self._report_change(counted)

    def report_compactions(self, seconds: float = TELL_S) -> None:
        """Tell of compactions, newest first, for about so long."""
        told = self._compaction_reports.run(seconds)
        if told:
            self._report_change(told)

    def measure_saves(self, seconds: float = MEASURE_S) -> None:
        """Measure what saves put into their sessions, newest first, for about so long."""
        measured = self._save_noise.run(seconds)
        if measured:
            self._report_change(measured)

    def calibrate(self) -> None:
        """Learn for a moment how far counts and forecasts are off, where something is new."""
        from .learn import Learner  # the screen does not wait for all that it needs
        from .learn_forecast import ForecastLearner

        self._token_calibration = self._token_calibration or Learner(
            self._folder.projects,
            self._writer,
            lambda session_id: self._report_change(frozenset({session_id})),
        )
        self._forecast_calibration = self._forecast_calibration or ForecastLearner(self._writer)
        # Its steps are short: one a turn, after what there is to learn of counts.
        if not self._token_calibration.run():
            self._forecast_calibration.run()

    def _estimate(self, text: str, model: str | None) -> int:
        return self._read_estimator().tokens(text, model)

    def _estimate_piece(self, piece: Piece, model: str | None) -> int:
        return self._read_estimator().for_model(model).tokens(piece)

    def _read_estimator(self) -> Estimator:
        from ..core.store.estimating import read_estimator  # with all that it needs

        self._estimator = self._estimator or read_estimator(self._writer.connection)
        return self._estimator
