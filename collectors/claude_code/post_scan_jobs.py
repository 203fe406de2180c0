"""What is done once rows are stored: warnings, status line files, summaries, automation."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec

from ...core.actions.automation import ActionRunners, Automation, default_runners
from ...core.measure.forecast import Forecast
from ...core.model.problem import Problem, ProblemReporter
from ...core.model.session import Session
from ...core.policy.policy import Policy
from ...core.store.queries.config_queries import project_roots
from ...core.store.queries.log_queries import shown_sessions
from ...core.store.warning_log import mark_evaluated, pending_batches, save_evaluations
from ...core.store.writer import Writer
from ...core.transcript.conversation import MessagePart
from ..plugin.plugin_log import FOLDER_MODE
from ..plugin.state_files import write_atomically
from ..plugin.statusline import STATUS_FILE_VERSION, status_folder, status_path
from ..policy_files import PolicyFiles
from .transcript_jobs import (
    MEASURE_BUDGET_S,
    REPORT_BUDGET_S,
    CompactionReportJob,
    PostCompactionEstimates,
    SaveNoiseJob,
)

if TYPE_CHECKING:
    from ...core.actions.session_access import SessionAccess
    from ...core.measure.token_estimate import Estimator
    from .calibration_jobs import ForecastCalibrationJob, TokenCalibrationJob
    from .discover import ClaudeFolder

ReportChanged = Callable[[frozenset[str]], None]


MAX_EVALUATED_SESSIONS: Final = 400
"""Sessions of one question, which names them twice; SQLite takes 999 values at the least."""


class WarningEvaluator:
    """Keeps the log of warnings up to date; it belongs to the collector's thread."""

    def __init__(self, writer: Writer, files: PolicyFiles, tell: ProblemReporter) -> None:
        self._writer: Final = writer
        self._files: Final = files
        self._problems: Final = tell
        self._reported: set[str] = set()

    def refresh_policies(self) -> bool:
        """Look at the policies' files; say whether another policy holds somewhere."""
        is_new = self._files.refresh(project_roots(self._writer.connection))
        troubles = {
            notice.location: Problem(notice.location, notice.what, notice.fix)
            for notice in self._files.notices
        }
        for place in self._reported - troubles.keys():
            self._problems.resolve(place)
        for trouble in troubles.values():
            self._problems.report(trouble)
        self._reported = set(troubles)
        return is_new

    def evaluate(self, session_ids: Iterable[str] | None = None) -> frozenset[str]:
        """Judge what is new in all sessions, or in those named; name those with new rows.

        What is judged is read in the transaction that keeps it: two ctxtops at once say
        nothing twice.
        """
        policies = self._files.policies
        named = None if session_ids is None else set(session_ids)
        if named and len(named) > MAX_EVALUATED_SESSIONS:
            named = None
        db = self._writer.connection
        changed: set[str] = set()
        for batch in pending_batches(db, policies, named):
            from ...core.store.readers.warning_evaluation import evaluate_warnings

            now_ms = time.time_ns() // 1_000_000
            with self._writer.transaction():
                judged = evaluate_warnings(db, policies, batch, now_ms)
                save_evaluations(self._writer, judged, now_ms)
                mark_evaluated(self._writer, batch.files)
            changed |= {each.session_id for each in judged if each.new_warnings or each.cleared}
        return frozenset(changed)


STATUS_LINE_ACTIVE_MS: Final = 24 * 3600 * 1000
"""A session whose status line was not asked for so long has nobody who looks at it."""


class StatusLineFiles:
    """Writes the files; it belongs to the collector's thread."""

    def __init__(self, writer: Writer, files: PolicyFiles, tell: ProblemReporter) -> None:
        self._writer: Final = writer
        self._files: Final = files
        self._problems: Final = tell
        self._written: dict[str, bytes] = {}
        self._store: Final = str(writer.path)

    def update(self, session_ids: Iterable[str] | None = None) -> None:
        """Keep what is known now of sessions whose status line is shown, or of those named."""
        now_ms = time.time_ns() // 1_000_000
        shown = shown_sessions(self._writer.connection, now_ms - STATUS_LINE_ACTIVE_MS, session_ids)
        folder = status_folder(self._store)
        try:
            if session_ids is None:
                self._remove_others(Path(folder), shown)
            if shown:
                self._write(sorted(shown), now_ms)
        except OSError as error:
            what = f"cannot be written ({error.strerror})"
            self._problems.report(Problem(folder, what, "the status line shows no forecast"))
            return
        self._problems.resolve(folder)

    def _write(self, sessions: list[str], now_ms: int) -> None:
        from ...core.store.readers import (
            fleet_reader,  # with all that it needs, only where there is work
        )

        db, policies = self._writer.connection, self._files.policies
        for session in fleet_reader.read_sessions(db, now_ms, sessions, policies):
            path = status_path(self._store, session.session_id)
            said = msgspec.json.encode(status_line_record(session))
            if path and self._written.get(path) != said:
                _write_atomically(path, said)
                self._written[path] = said

    def _remove_others(self, folder: Path, shown: set[str]) -> None:
        try:
            found = [Path(entry.path) for entry in os.scandir(folder) if entry.is_file()]
        except FileNotFoundError:
            return
        for path in found:
            if path.name.partition(".")[0] not in shown:
                path.unlink(missing_ok=True)


def status_line_record(session: Session) -> dict[str, object]:
    """Build the status line's record of a session; named as in `ctxtop sessions --json`."""
    context = session.context
    return {
        "v": STATUS_FILE_VERSION,
        "model": session.model,
        "context_tokens": context.tokens,
        "context_state": context.state.value,
        "counter_tokens": context.token_counts.counter,
        "window_tokens": context.window.tokens,
        "window_source": context.window.source.value,
        "trigger_tokens": context.trigger.tokens if context.trigger else None,
        "turns_left": _turns_record(session.outlook.end),
        "agents_noncompliant": session.agents_noncompliant,
    }


def _turns_record(forecast: Forecast | None) -> dict[str, int] | None:
    if forecast is None:
        return None
    return {"p50": int(forecast.turns.p50), "p80": int(forecast.turns.p80)}


def _write_atomically(path: str, said: bytes) -> None:
    """Put a file in place whole: the status line may read it at any moment."""
    try:
        write_atomically(path, said)
    except FileNotFoundError:
        Path(path).parent.mkdir(FOLDER_MODE, parents=True, exist_ok=True)
        write_atomically(path, said)


def make_automation(
    folder: ClaudeFolder,
    writer: Writer,
    files: PolicyFiles,
    runners: ActionRunners,
    now: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
) -> Automation:
    """Return what acts by itself on the folder's sessions, as their policies allow."""

    def open_idle_session(session: Session, policy: Policy, reason: str) -> SessionAccess:
        from ..session_target import open_session  # with all that acting needs

        return open_session(folder, writer.path, session, policy, reason)

    return Automation(writer, lambda: files.policies.acting, open_idle_session, runners, now)


class PostScanJobs:
    """Works on what was stored, a little at a time; it belongs to the collector's thread."""

    def __init__(
        self,
        folder: ClaudeFolder,
        writer: Writer,
        tell: ProblemReporter,
        changed: ReportChanged,
        policy_files: PolicyFiles | None,
    ) -> None:
        self._folder: Final = folder
        self._writer: Final = writer
        self._report_change: Final = changed
        """Hears which sessions have new rows."""
        self._estimates: Final = PostCompactionEstimates(folder, writer)
        self._compaction_reports: Final = CompactionReportJob(folder, writer, tell)
        files = policy_files or PolicyFiles()
        self._warnings: Final = WarningEvaluator(writer, files, tell)
        self._status_lines: Final = StatusLineFiles(writer, files, tell)
        self._pending_evaluation: set[str] = set()
        self._save_noise: Final = SaveNoiseJob(folder, writer, tell, self._estimate_piece)
        self._automation: Final = make_automation(
            folder, writer, files, default_runners(tell.notify)
        )
        self._token_calibration: TokenCalibrationJob | None = None
        self._forecast_calibration: ForecastCalibrationJob | None = None
        self._estimator: Estimator | None = None

    def add_read_sessions(self, sessions: set[str]) -> None:
        """Queue sessions with newly read lines for evaluation."""
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

    def report_compactions(self, seconds: float = REPORT_BUDGET_S) -> None:
        """Report pending compactions, newest first, for about `seconds`."""
        told = self._compaction_reports.run(seconds)
        if told:
            self._report_change(told)

    def measure_saves(self, seconds: float = MEASURE_BUDGET_S) -> None:
        """Measure what saves put into their sessions, newest first, for about so long."""
        measured = self._save_noise.run(seconds)
        if measured:
            self._report_change(measured)

    def calibrate(self) -> None:
        """Learn for a moment how far counts and forecasts are off, where something is new."""
        from .calibration_jobs import (
            ForecastCalibrationJob,
            TokenCalibrationJob,  # the screen does not wait for all that it needs
        )

        self._token_calibration = self._token_calibration or TokenCalibrationJob(
            self._folder.projects,
            self._writer,
            lambda session_id: self._report_change(frozenset({session_id})),
        )
        self._forecast_calibration = self._forecast_calibration or ForecastCalibrationJob(
            self._writer
        )
        # Its steps are short: one a turn, after what there is to learn of counts.
        if not self._token_calibration.run():
            self._forecast_calibration.run()

    def _estimate(self, text: str, model: str | None) -> int:
        return self._read_estimator().tokens(text, model)

    def _estimate_piece(self, piece: MessagePart, model: str | None) -> int:
        return self._read_estimator().for_model(model).tokens(piece)

    def _read_estimator(self) -> Estimator:
        from ...core.store.token_samples import read_estimator  # with all that it needs

        self._estimator = self._estimator or read_estimator(self._writer.connection)
        return self._estimator
