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
        self._changed: Final = changed
        """Hears which sessions have new rows."""
        self._compacted: Final = AfterCompaction(folder, writer)
        self._telling: Final = Telling(folder, writer, tell)
        files = policy_files or PolicyFiles()
        self._judging: Final = Judging(writer, files, tell)
        self._lines: Final = LineFiles(writer, files, tell)
        self._unjudged: set[str] = set()
        self._noise: Final = NoiseMeter(folder, writer, tell, self._estimate_piece)
        self._automation: Final = Automation(folder, writer, files, own_ways(tell.note))
        self._learner: Learner | None = None
        self._forecasts: ForecastLearner | None = None
        self._estimator: Estimator | None = None

    def note(self, sessions: set[str]) -> None:
        """Hear of sessions that were read further."""
        self._unjudged |= sessions

    def judge_all(self) -> None:
        """Log the levels that were reached, also those of facts of an earlier run."""
        has_other_policy = self._judging.look_at_policies()
        self._unjudged.clear()
        if estimated := self._compacted.look():
            self._changed(estimated)
        judged = self._judging.judge()
        if judged or has_other_policy:
            self._changed(judged)
        self._lines.keep()

    def judge_new(self) -> None:
        """Log the levels that were reached by what was just read."""
        if not self._unjudged:
            return
        if estimated := self._compacted.look(self._unjudged):
            self._changed(estimated)
        judged = self._judging.judge(self._unjudged)
        grown, self._unjudged = self._unjudged, set()
        if judged:
            self._changed(judged)
        self._lines.keep(grown)

    def act(self) -> None:
        """Make a session smaller where its project has opted in; a scan alone never does."""
        self._automation.look()

    def finish(self, seconds: float) -> None:
        """Wait so long for what is under way by itself, and tell how it ended."""
        self._automation.wait(seconds)

    def keep_lines(self, shown: set[str]) -> None:
        """Keep for the status line what its own last words changed."""
        if shown:
            self._lines.keep(shown)

    def count_texts(self) -> None:
        """Estimate the tokens of texts that were stored: the table for it takes long to load."""
        counted = self._writer.count_texts(self._estimate)
        if counted:
            self._changed(counted)

    def tell_compactions(self, seconds: float = TELL_S) -> None:
        """Tell of compactions, newest first, for about so long."""
        told = self._telling.look(seconds)
        if told:
            self._changed(told)

    def measure_saves(self, seconds: float = MEASURE_S) -> None:
        """Measure what saves put into their sessions, newest first, for about so long."""
        measured = self._noise.look(seconds)
        if measured:
            self._changed(measured)

    def learn(self) -> None:
        """Learn for a moment how far counts and forecasts are off, where something is new."""
        from .learn import Learner  # the screen does not wait for all that it needs
        from .learn_forecast import ForecastLearner

        self._learner = self._learner or Learner(
            self._folder.projects,
            self._writer,
            lambda session_id: self._changed(frozenset({session_id})),
        )
        self._forecasts = self._forecasts or ForecastLearner(self._writer)
        # Its steps are short: one a turn, after what there is to learn of counts.
        if not self._learner.learn():
            self._forecasts.learn()

    def _estimate(self, text: str, model: str | None) -> int:
        return self._read_estimator().tokens(text, model)

    def _estimate_piece(self, piece: Piece, model: str | None) -> int:
        return self._read_estimator().of(model).tokens(piece)

    def _read_estimator(self) -> Estimator:
        from ..core.store.estimating import read_estimator  # with all that it needs

        self._estimator = self._estimator or read_estimator(self._writer.connection)
        return self._estimator
