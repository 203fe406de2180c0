"""Jobs on stored rows after a scan: warnings, estimates, compaction reports, saves, automation."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from functools import cached_property
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING, Final, Generic, TypeVar

import msgspec

from ..core.archive.archive_mode import ArchiveMode
from ..core.model.problem import Problem, ProblemReporter
from ..core.model.session import Session
from ..core.model.transcript_records import FileKind
from ..core.policy.policy import Policy
from ..core.store import post_scan_writer
from ..core.store.bulkhead import FAILED, bulkhead
from ..core.store.post_scan_writer import PendingReports, UnmeasuredSave
from ..core.store.queries.config_queries import project_roots
from ..core.store.warning_log import mark_evaluated, pending_batches, save_evaluations
from ..core.store.writer import Writer
from ..core.transcript.sanitize import map_texts, sanitize_text
from .claude_code.context_text_job import TEXT_BUDGET_S, ContextTextJob
from .claude_code.own_files import StatusLineFiles
from .locations.policy_files import PolicyFiles

if TYPE_CHECKING:
    from ..core.actions.automation import ActionRunners, Automation
    from ..core.actions.session_access import SessionAccess
    from ..core.archive.archive_index import TranscriptArchive
    from ..core.measure.token_estimate import Estimator
    from ..core.model.conversation import MessagePart
    from ..core.saves.save_noise import SaveNoise
    from ..core.store.queries.search_queries import SearchProgress
    from ..core.summaries.compaction_report import CompactionReport
    from .claude_code.archive_job import ArchiveJob
    from .claude_code.calibration_jobs import ForecastCalibrationJob, TokenCalibrationJob
    from .claude_code.search_jobs import SearchIndexJob
    from .locations.discover import ClaudeFolder

PendingT = TypeVar("PendingT", PendingReports, UnmeasuredSave)
Answer = TypeVar("Answer")

MAX_QUERIED_SESSIONS: Final = 400  # a query may name them twice; SQLite takes 999 values
REPORT_BUDGET_S: Final = 0.25
JOB_REST_S: Final = 60.0  # of a job that failed: it would fail again at each tick
MEASURE_BUDGET_S: Final = 0.1  # no file is begun after it, so that changes are read


def _query_filter(session_ids: Iterable[str] | None) -> set[str] | None:
    """Return the sessions to name in a query; None for all, also where they are too many."""
    named = None if session_ids is None else set(session_ids)
    return None if named and len(named) > MAX_QUERIED_SESSIONS else named


class PostCompactionEstimates:
    """Estimates contexts that were just compacted; used by the collector's thread alone."""

    def __init__(self, folder: ClaudeFolder, writer: Writer) -> None:
        self._folder: Final = folder
        self._writer: Final = writer

    def run(self, session_ids: Iterable[str] | None = None) -> frozenset[str]:
        """Estimate the pending contexts, or those of some sessions; return their session ids.

        A file that cannot be read is skipped: the scan reports it.
        """
        post_scan_writer.delete_answered_estimates(self._writer)
        pending = post_scan_writer.unanswered_compactions(self._writer, _query_filter(session_ids))
        if not pending:
            return frozenset()
        from .claude_code.transcripts import left_context  # with the decoder of lines

        estimated = []
        for compaction in pending:
            tokens = None  # stays unknown if the estimate fails
            with bulkhead(f"estimate of {compaction.path}", FAILED, self._writer.path):
                try:
                    tokens = left_context.estimate_left(
                        left_context.CompactedFile(
                            self._folder.projects / compaction.path,
                            compaction.offset,
                            compaction.read_to,
                            compaction.post_tokens,
                            is_agent=compaction.kind is FileKind.AGENT,
                        )
                    )
                except OSError:
                    continue
            estimated.append((compaction, tokens))
        post_scan_writer.save_next_contexts(self._writer, estimated)
        return frozenset(compaction.session_id for compaction, _ in estimated)


class FileByFile(Generic[PendingT]):
    """Works on one file after the other; a fault in one is that file's problem alone."""

    def __init__(
        self, what: str, problems: ProblemReporter, store: Path, work: Callable[[PendingT], bool]
    ) -> None:
        """`what` names the work in a file's problem; `work` returns whether it succeeded."""
        self._what: Final = what
        self._problems: Final = problems
        self._store: Final = store
        self._work: Final[Callable[[PendingT], bool]] = work
        self.read_to: Final[dict[str, int]] = {}
        """How far the store had read files in vain: they are tried again once it has more."""

    def run(self, seconds: float, pending: Iterable[PendingT]) -> frozenset[str]:
        """Work on at least one file, for about `seconds`; return the sessions where it succeeded.

        A file that cannot be read is reported, and tried again on the next run.
        """
        until = time.monotonic() + seconds
        sessions = set()
        for item in pending:
            if self.read_to.get(item.path) == item.read_to:
                continue
            if self._is_done(item):
                sessions.add(item.session_id)
            if time.monotonic() >= until:
                break
        return frozenset(sessions)

    def _is_done(self, item: PendingT) -> bool:
        place = f"{self._what} of {item.path}"
        with bulkhead(place, FAILED, self._store, self._problems.report):
            try:
                is_done = self._work(item)
            except (FileNotFoundError, NotADirectoryError):
                return False  # the scan records that it is gone
            except OSError as error:
                self._problems.report_unreadable(item.path, error)
                return False
            self._problems.resolve(item.path)
            self._problems.resolve(place)
            return is_done
        self.read_to[item.path] = item.read_to
        return False


class CompactionReportJob:
    """Reports the compactions in the store; used by the collector's thread alone."""

    def __init__(self, folder: ClaudeFolder, writer: Writer, problems: ProblemReporter) -> None:
        self._folder: Final = folder
        self._writer: Final = writer
        self._files: Final = FileByFile("report", problems, writer.path, self._report_file)

    def run(self, seconds: float) -> frozenset[str]:
        """Report pending compactions, newest first, for about `seconds`; return their sessions."""
        from ..core.summaries.compaction_report import REPORT_VERSION

        pending = post_scan_writer.pending_reports(self._writer, REPORT_VERSION)
        return self._files.run(seconds, pending)

    def _report_file(self, pending: PendingReports) -> bool:
        from ..core.summaries.compaction_report import REPORT_VERSION

        rows = self._read(pending)
        post_scan_writer.save_reports(self._writer, pending.file_id, REPORT_VERSION, rows)
        if len(rows) < len(pending.boundaries):
            # The file does not have a boundary that the store has.
            self._files.read_to[pending.path] = pending.read_to
        return bool(rows)

    def _read(self, pending: PendingReports) -> list[tuple[int, str, str]]:
        from ..core.model.conversation import without_sidechains
        from ..core.summaries.compaction_report import (
            CompactionReport,
            encode_report,
            report_compactions,
        )
        from ..core.transcript.entry_decoder import read_entries
        from .claude_code.transcripts.replaced_content import read_cleared_messages

        path = self._folder.projects / pending.path
        entries = read_entries(path)
        is_agent = pending.kind is FileKind.AGENT
        own = entries if is_agent else [*without_sidechains(entries)]
        reported = report_compactions(own, read_cleared_messages(path))
        reports = {entry.offset: report for entry, report in reported}
        if pending.kind is FileKind.SESSION:
            sidechains = (each.offset for each in entries if each.boundary and each.sidechain)
            reports |= dict.fromkeys(sidechains, CompactionReport())
        return [
            (offset, uuid, encode_report(_sanitized(reports[offset])))
            for offset, uuid in pending.boundaries
            if offset in reports
        ]


def _sanitized(report: CompactionReport) -> CompactionReport:
    return msgspec.convert(map_texts(sanitize_text, msgspec.to_builtins(report)), type(report))


class SaveNoiseJob:
    """Measures what saves added to their contexts; used by the collector's thread alone."""

    def __init__(
        self,
        folder: ClaudeFolder,
        writer: Writer,
        problems: ProblemReporter,
        count: Callable[[MessagePart, str | None], int],
    ) -> None:
        self._folder: Final = folder
        self._writer: Final = writer
        self._files: Final = FileByFile("save", problems, writer.path, self._measure_and_save)
        self._count: Final = count

    def run(self, seconds: float) -> frozenset[str]:
        """Measure pending saves, newest first, for about `seconds`; return their sessions."""
        from ..core.saves.save_noise import NOISE_VERSION

        pending = post_scan_writer.unmeasured_saves(self._writer, NOISE_VERSION)
        return self._files.run(seconds, pending)

    def _measure_and_save(self, save: UnmeasuredSave) -> bool:
        from ..core.saves.save_noise import NOISE_VERSION, encode_noise

        noise = self._measure(save)
        # The output of another Stop hook never becomes a save.
        encoded, is_final = (encode_noise(noise), noise.closed) if noise else (None, True)
        post_scan_writer.save_noise(self._writer, save, NOISE_VERSION, encoded, is_final=is_final)
        return noise is not None

    def _measure(self, save: UnmeasuredSave) -> SaveNoise | None:
        from ..core.saves.save_noise import measure_noise
        from ..core.transcript.entry_decoder import iter_entries

        entries = iter_entries(self._folder.projects / save.path, save.offset)
        # Only as far as the store has read: the rest is measured after the next scan.
        known = takewhile(lambda entry: entry.offset < save.read_to, entries)
        return measure_noise(known, lambda part: self._count(part, save.model), save.before_tokens)


class WarningEvaluator:
    """Keeps the log of warnings up to date; used by the collector's thread alone."""

    def __init__(self, writer: Writer, files: PolicyFiles, problems: ProblemReporter) -> None:
        self._writer: Final = writer
        self._files: Final = files
        self._problems: Final = problems
        self._reported: set[str] = set()

    def refresh_policies(self) -> bool:
        """Read the policies' files again; return whether any policy changed."""
        is_new = self._files.refresh(project_roots(self._writer.connection))
        problems = {
            notice.location: Problem(notice.location, notice.what, notice.fix)
            for notice in self._files.notices
        }
        for place in self._reported - problems.keys():
            self._problems.resolve(place)
        for problem in problems.values():
            self._problems.report(problem)
        self._reported = set(problems)
        return is_new

    def evaluate(self, session_ids: Iterable[str] | None = None) -> frozenset[str]:
        """Evaluate what is new in all or some sessions; return those with new rows.

        The rows are read in the transaction that stores the warnings, so that two ctxtops at
        once log nothing twice.
        """
        policies = self._files.policies
        db = self._writer.connection
        changed: set[str] = set()
        for batch in pending_batches(db, policies, _query_filter(session_ids)):
            from ..core.readers.warning_evaluation import evaluate_warnings

            now_ms = time.time_ns() // 1_000_000
            with self._writer.transaction():
                evaluations = evaluate_warnings(db, policies, batch, now_ms)
                save_evaluations(self._writer, evaluations)
                mark_evaluated(self._writer, batch.files)
            changed |= {
                each.session_id for each in evaluations if each.new_warnings or each.cleared
            }
        return frozenset(changed)


def make_automation(
    folder: ClaudeFolder,
    writer: Writer,
    files: PolicyFiles,
    runners: ActionRunners,
    now: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
) -> Automation:
    def open_idle_session(session: Session, policy: Policy, reason: str) -> SessionAccess:
        from .session_target import open_session  # with all that acting needs

        return open_session(folder, writer.path, session, policy, reason)

    from ..core.actions.automation import Automation  # only the dashboard acts

    return Automation(writer, lambda: files.policies.acting, open_idle_session, runners, now)


class PostScanJobs:
    """Works on what was stored, a little at a time; used by the collector's thread alone."""

    def __init__(
        self,
        folder: ClaudeFolder,
        writer: Writer,
        problems: ProblemReporter,
        report_change: Callable[[frozenset[str]], None],
        policy_files: PolicyFiles | None,
        report_hidden_commit: Callable[[], None],
        archive: Callable[[], TranscriptArchive],
    ) -> None:
        """Call `report_change` with the sessions that have new rows.

        `report_hidden_commit` is called before a commit of the search's index.
        """
        self._report_hidden_commit: Final = report_hidden_commit
        self._folder: Final = folder
        self._writer: Final = writer
        self._report_change: Final = report_change
        self._estimates: Final = PostCompactionEstimates(folder, writer)
        self._compaction_reports: Final = CompactionReportJob(folder, writer, problems)
        files = policy_files or PolicyFiles()
        self._policy_files: Final = files
        self._archive: Final = archive
        self._problems: Final = problems
        self._archive_job: ArchiveJob | None = None
        self._context_texts: Final = ContextTextJob(folder, writer, files)
        self._warnings: Final = WarningEvaluator(writer, files, problems)
        self._status_lines: Final = StatusLineFiles(writer, files, problems)
        self.pending_evaluation: set[str] = set()  # sessions with newly read lines
        self._save_noise: Final = SaveNoiseJob(folder, writer, problems, self._count_part)
        self._resting: Final[dict[str, float]] = {}
        """Jobs that failed, and until when they are left out."""
        self._token_calibration: TokenCalibrationJob | None = None
        self._forecast_calibration: ForecastCalibrationJob | None = None
        self._search_index: SearchIndexJob | None = None
        self._estimator: Estimator | None = None

    @cached_property
    def automation(self) -> Automation:
        from ..core.actions.automation import default_runners  # only the dashboard acts

        runners = default_runners(self._problems.notify)
        return make_automation(self._folder, self._writer, self._policy_files, runners)

    def _run_job(self, job: str, work: Callable[[], Answer], nothing: Answer) -> Answer:
        """Run a job; one that fails costs no other, gives `nothing`, and rests."""
        if time.monotonic() < self._resting.get(job, 0.0):
            return nothing
        with bulkhead(job, FAILED, self._writer.path, self._problems.report):
            answer = work()
            self._problems.resolve(job)
            return answer
        self._resting[job] = time.monotonic() + JOB_REST_S
        return nothing

    def _run_changing(self, job: str, work: Callable[[], frozenset[str]]) -> None:
        """Run a job that returns the sessions that it changed."""
        self._report_changes(self._run_job(job, work, frozenset()))

    def _search_job(self) -> SearchIndexJob:
        from .claude_code.search_jobs import SearchIndexJob  # with the rules of redaction

        self._search_index = self._search_index or SearchIndexJob(
            self._folder.projects, self._writer, self._report_hidden_commit
        )
        return self._search_index

    def index_turns(self) -> bool:
        """Index prompts and answers for a moment; False if nothing is left for now."""
        return self._run_job("search index", lambda: self._search_job().run(), nothing=False)

    def index_all_turns(self, report: Callable[[SearchProgress], None] = lambda _: None) -> None:
        self._run_job("search index", lambda: self._search_job().run_all(report), None)

    def automate(self) -> None:
        """Begin an automatic compaction or recovery where the user wants it."""
        self._run_job("automation", self.automation.tick, None)

    def update_status_lines(self, sessions: Iterable[str] | None = None) -> None:
        self._run_job("status lines", lambda: self._status_lines.update(sessions), None)

    def evaluate_all_warnings(self) -> None:
        """Log the thresholds that any session reached, also those of an earlier run."""
        has_other_policy = self._run_job("settings", self._warnings.refresh_policies, nothing=False)
        self.pending_evaluation.clear()
        self._run_changing("estimates", self._estimates.run)
        self._run_changing(
            "counts of texts", lambda: self._context_texts.run(seconds=TEXT_BUDGET_S)
        )
        nothing: frozenset[str] = frozenset()
        evaluated = self._run_job("warnings", self._warnings.evaluate, nothing)
        if evaluated or has_other_policy:
            self._report_change(evaluated)
        self.update_status_lines()

    def evaluate_new_warnings(self) -> None:
        if not self.pending_evaluation:
            return
        grown, self.pending_evaluation = self.pending_evaluation, set()
        self._run_changing("estimates", lambda: self._estimates.run(grown))
        self._run_changing("counts of texts", lambda: self._context_texts.run(_query_filter(grown)))
        self._run_changing("warnings", lambda: self._warnings.evaluate(grown))
        self.update_status_lines(grown)

    def count_tokens(self) -> None:
        self._run_changing("token counts", self._estimate_summaries)

    def _estimate_summaries(self) -> frozenset[str]:
        return self._writer.estimate_summaries(
            lambda text, model: self._read_estimator().tokens(text, model)
        )

    def report_compactions(self, seconds: float = REPORT_BUDGET_S) -> None:
        self._run_changing("compaction reports", lambda: self._compaction_reports.run(seconds))

    def measure_saves(self, seconds: float = MEASURE_BUDGET_S) -> None:
        self._run_changing("memory saves", lambda: self._save_noise.run(seconds))

    def archive(self, seconds: float) -> bool:
        """Archive for a moment what is about to be deleted; False if nothing is left for now."""
        return self._run_job("archiving", lambda: self._archive_for(seconds), nothing=False)

    def _archive_for(self, seconds: float) -> bool:
        policy = self._policy_files.policies.common
        if self._archive_job is None and policy.text("archive.mode") == ArchiveMode.OFF:
            return False  # as for most people, who load nothing of it
        from ..core.archive.archive_policy import read_archive_settings
        from .claude_code.archive_job import ArchiveJob  # only where nothing else is to do

        settings = read_archive_settings(policy)
        self._archive_job = self._archive_job or ArchiveJob(
            self._folder.projects, self._writer, self._archive(), self._problems
        )
        return self._archive_job.run(settings, seconds)

    def calibrate(self) -> None:
        """Learn for a moment from new transcripts how far counts and forecasts are off."""
        # Steps of the second are short: one for each turn without counts to learn from.
        if not self._run_job("token calibration", self._calibrate_tokens, nothing=False):
            self._run_job("forecast calibration", self._calibrate_forecast, nothing=False)

    def _calibrate_tokens(self) -> bool:
        from .claude_code.calibration_jobs import TokenCalibrationJob

        self._token_calibration = self._token_calibration or TokenCalibrationJob(
            self._folder.projects,
            self._writer,
            lambda session_id: self._report_change(frozenset({session_id})),
        )
        return self._token_calibration.run()

    def _calibrate_forecast(self) -> bool:
        from .claude_code.calibration_jobs import ForecastCalibrationJob

        self._forecast_calibration = self._forecast_calibration or ForecastCalibrationJob(
            self._writer
        )
        return self._forecast_calibration.run()

    def _report_changes(self, sessions: frozenset[str]) -> None:
        if sessions:
            self._report_change(sessions)

    def _count_part(self, part: MessagePart, model: str | None) -> int:
        return self._read_estimator().for_model(model).tokens(part)

    def _read_estimator(self) -> Estimator:
        from ..core.store.token_samples import read_estimator  # with all that it needs

        self._estimator = self._estimator or read_estimator(self._writer.connection)
        return self._estimator
