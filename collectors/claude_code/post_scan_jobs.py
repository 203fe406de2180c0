"""Jobs on stored rows after a scan: warnings, estimates, compaction reports, saves, automation."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from itertools import takewhile
from typing import TYPE_CHECKING, Final, TypeVar

import msgspec

from ...core.actions.automation import ActionRunners, Automation, default_runners
from ...core.model.problem import Problem, ProblemReporter
from ...core.model.session import Session
from ...core.policy.policy import Policy
from ...core.store import post_scan_writer
from ...core.store.post_scan_writer import PendingReports, UnansweredCompaction, UnmeasuredSave
from ...core.store.queries.config_queries import project_roots
from ...core.store.transcript_records import FileKind
from ...core.store.warning_log import mark_evaluated, pending_batches, save_evaluations
from ...core.store.writer import Writer
from ...core.transcript.conversation import Entry, MessagePart, without_sidechains
from ...core.transcript.sanitize import map_texts, sanitize_text
from ..policy_files import PolicyFiles
from .context_text_job import TEXT_BUDGET_S, ContextTextJob
from .own_files import StatusLineFiles

if TYPE_CHECKING:
    from ...core.actions.session_access import SessionAccess
    from ...core.archive.archive_index import TranscriptArchive
    from ...core.measure.compaction_report import CompactionReport
    from ...core.measure.token_estimate import Estimator
    from ...core.saves.save_noise import SaveNoise
    from .archive_job import ArchiveJob
    from .calibration_jobs import ForecastCalibrationJob, TokenCalibrationJob
    from .discover import ClaudeFolder
    from .search_jobs import SearchIndexJob

PendingT = TypeVar("PendingT", PendingReports, UnmeasuredSave)

MAX_QUERIED_SESSIONS: Final = 400  # a query may name them twice; SQLite takes 999 values
MAX_HEAD_ENTRIES: Final = 500  # a session has some ten lines before its first answer
REPORT_BUDGET_S: Final = 0.25
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
        estimated = []
        for compaction in pending:
            try:
                estimated.append((compaction, self._estimate(compaction)))
            except OSError:
                continue
        if pending:
            post_scan_writer.save_next_contexts(self._writer, estimated)
        return frozenset(compaction.session_id for compaction, _ in estimated)

    def _estimate(self, compaction: UnansweredCompaction) -> int | None:
        from ...core.measure.compaction_report import (
            estimate_next_request,
            measured_overhead,
            recorded_overhead,
        )
        from ...core.measure.token_estimate import Estimator
        from ...core.transcript.visible_messages import visible_entries

        head = _entries_until_answer(self._entries(compaction), compaction.offset)
        overhead, before = measured_overhead(head), head[:-1]
        if overhead is None:
            entries = self._entries(compaction)
            before = [*takewhile(lambda entry: entry.offset < compaction.offset, entries)]
            # Its table takes long to load; hardly any session needs it.
            overhead = recorded_overhead(before, Estimator({}).for_model(None))
        if overhead is None:
            return None
        # The client counts what a compaction kept, which comes before it; old clients did not.
        start = 0 if compaction.post_tokens is None else compaction.offset
        entries = self._entries(compaction, start)
        sent = [*takewhile(lambda entry: entry.offset < compaction.read_to, entries)]
        return estimate_next_request(
            overhead, visible_entries(before), visible_entries(sent), compaction.post_tokens
        )

    def _entries(self, compaction: UnansweredCompaction, start: int = 0) -> Iterator[Entry]:
        """Read a context's entries; a session's file has sidechains of agents (up to 2.0)."""
        from ...core.transcript.entry_decoder import iter_entries

        entries = iter_entries(self._folder.projects / compaction.path, start)
        return entries if compaction.kind is FileKind.AGENT else without_sidechains(entries)


def _entries_until_answer(entries: Iterable[Entry], before: int) -> list[Entry]:
    head: list[Entry] = []
    for entry in entries:
        if entry.offset >= before or len(head) >= MAX_HEAD_ENTRIES:
            return []
        head.append(entry)
        if entry.context_tokens:
            return head
    return []


def _run_for(
    seconds: float,
    problems: ProblemReporter,
    pending: Iterable[PendingT],
    work: Callable[[PendingT], bool],
) -> frozenset[str]:
    """Work on at least one item, for about `seconds`; return the sessions where it succeeded.

    A file that cannot be read is reported, and tried again on the next run.
    """
    until = time.monotonic() + seconds
    sessions = set()
    for item in pending:
        try:
            if work(item):
                sessions.add(item.session_id)
        except (FileNotFoundError, NotADirectoryError):
            # The scan records that it is gone.
            pass
        except OSError as error:
            problems.report_unreadable(item.path, error)
        else:
            problems.resolve(item.path)
        if time.monotonic() >= until:
            break
    return frozenset(sessions)


class CompactionReportJob:
    """Reports the compactions in the store; used by the collector's thread alone."""

    def __init__(self, folder: ClaudeFolder, writer: Writer, problems: ProblemReporter) -> None:
        self._folder: Final = folder
        self._writer: Final = writer
        self._problems: Final = problems
        # Files without a boundary that the store has: tried again once more of them is read.
        self._incomplete: dict[str, int] = {}

    def run(self, seconds: float) -> frozenset[str]:
        """Report pending compactions, newest first, for about `seconds`; return their sessions."""
        from ...core.measure.compaction_report import (
            REPORT_VERSION,  # with all the rules: not before the first paint
        )

        pending = (
            report
            for report in post_scan_writer.pending_reports(self._writer, REPORT_VERSION)
            if self._incomplete.get(report.path) != report.read_to
        )
        return _run_for(
            seconds,
            self._problems,
            pending,
            lambda report: self._report_file(report, REPORT_VERSION),
        )

    def _report_file(self, pending: PendingReports, version: int) -> bool:
        rows = self._read(pending)
        post_scan_writer.save_reports(self._writer, pending.file_id, version, rows)
        if len(rows) < len(pending.boundaries):
            self._incomplete[pending.path] = pending.read_to
        return bool(rows)

    def _read(self, pending: PendingReports) -> list[tuple[int, str, str]]:
        from ...core.measure.compaction_report import (
            CompactionReport,
            encode_report,
            report_compactions,
        )
        from ...core.transcript.entry_decoder import read_entries
        from .transcripts.replaced_content import read_cleared_messages

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
        self._problems: Final = problems
        self._count: Final = count

    def run(self, seconds: float) -> frozenset[str]:
        """Measure pending saves, newest first, for about `seconds`; return their sessions."""
        from ...core.saves.save_noise import (
            NOISE_VERSION,  # with all the rules: not before the first paint
            encode_noise,
        )

        def measure_and_save(save: UnmeasuredSave) -> bool:
            noise = self._measure(save)
            # The output of another Stop hook never becomes a save.
            encoded, is_final = (encode_noise(noise), noise.closed) if noise else (None, True)
            post_scan_writer.save_noise(
                self._writer, save, NOISE_VERSION, encoded, is_final=is_final
            )
            return noise is not None

        pending = post_scan_writer.unmeasured_saves(self._writer, NOISE_VERSION)
        return _run_for(seconds, self._problems, pending, measure_and_save)

    def _measure(self, save: UnmeasuredSave) -> SaveNoise | None:
        from ...core.saves.save_noise import measure_noise
        from ...core.transcript.entry_decoder import iter_entries

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
            from ...core.store.readers.warning_evaluation import evaluate_warnings

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
        from ..session_target import open_session  # with all that acting needs

        return open_session(folder, writer.path, session, policy, reason)

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
        archive: TranscriptArchive,
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
        self.status_lines: Final = StatusLineFiles(writer, files, problems)
        self.pending_evaluation: set[str] = set()  # sessions with newly read lines
        self._save_noise: Final = SaveNoiseJob(folder, writer, problems, self._count_part)
        self.automation: Final = make_automation(
            folder, writer, files, default_runners(problems.notify)
        )
        self._token_calibration: TokenCalibrationJob | None = None
        self._forecast_calibration: ForecastCalibrationJob | None = None
        self._search_index: SearchIndexJob | None = None
        self._estimator: Estimator | None = None

    @property
    def search_index(self) -> SearchIndexJob:
        from .search_jobs import SearchIndexJob  # with the rules of redaction

        self._search_index = self._search_index or SearchIndexJob(
            self._folder.projects, self._writer, self._report_hidden_commit
        )
        return self._search_index

    def evaluate_all_warnings(self) -> None:
        """Log the thresholds that any session reached, also those of an earlier run."""
        has_other_policy = self._warnings.refresh_policies()
        self.pending_evaluation.clear()
        self._report_changes(self._estimates.run())
        self._report_changes(self._context_texts.run(seconds=TEXT_BUDGET_S))
        evaluated = self._warnings.evaluate()
        if evaluated or has_other_policy:
            self._report_change(evaluated)
        self.status_lines.update()

    def evaluate_new_warnings(self) -> None:
        if not self.pending_evaluation:
            return
        self._report_changes(self._estimates.run(self.pending_evaluation))
        self._report_changes(self._context_texts.run(_query_filter(self.pending_evaluation)))
        evaluated = self._warnings.evaluate(self.pending_evaluation)
        grown, self.pending_evaluation = self.pending_evaluation, set()
        self._report_changes(evaluated)
        self.status_lines.update(grown)

    def count_tokens(self) -> None:
        self._report_changes(
            self._writer.estimate_summaries(
                lambda text, model: self._read_estimator().tokens(text, model)
            )
        )

    def report_compactions(self, seconds: float = REPORT_BUDGET_S) -> None:
        self._report_changes(self._compaction_reports.run(seconds))

    def measure_saves(self, seconds: float = MEASURE_BUDGET_S) -> None:
        self._report_changes(self._save_noise.run(seconds))

    def archive(self, seconds: float) -> bool:
        """Archive for a moment what is about to be deleted; False if nothing is left for now."""
        from ...core.archive.archive_policy import read_archive_settings
        from .archive_job import ArchiveJob  # only where nothing else is to do

        settings = read_archive_settings(self._policy_files.policies.common)
        self._archive_job = self._archive_job or ArchiveJob(
            self._folder.projects, self._writer, self._archive, self._problems
        )
        return self._archive_job.run(settings, seconds)

    def calibrate(self) -> None:
        """Learn for a moment from new transcripts how far counts and forecasts are off."""
        from .calibration_jobs import (
            ForecastCalibrationJob,
            TokenCalibrationJob,  # the first paint does not wait for all that it needs
        )

        self._token_calibration = self._token_calibration or TokenCalibrationJob(
            self._folder.projects,
            self._writer,
            lambda session_id: self._report_change(frozenset({session_id})),
        )
        self._forecast_calibration = self._forecast_calibration or ForecastCalibrationJob(
            self._writer
        )
        # Its steps are short: one for each turn in which no counts are left to learn from.
        if not self._token_calibration.run():
            self._forecast_calibration.run()

    def _report_changes(self, sessions: frozenset[str]) -> None:
        if sessions:
            self._report_change(sessions)

    def _count_part(self, part: MessagePart, model: str | None) -> int:
        return self._read_estimator().for_model(model).tokens(part)

    def _read_estimator(self) -> Estimator:
        from ...core.store.token_samples import read_estimator  # with all that it needs

        self._estimator = self._estimator or read_estimator(self._writer.connection)
        return self._estimator
