"""Jobs that read transcripts again after a scan: compaction reports, the cost of saves."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from itertools import takewhile
from typing import TYPE_CHECKING, Final

import msgspec

from ...core.model.problem import ProblemReporter, unreadable_problem
from ...core.store import post_scan_writer
from ...core.store.post_scan_writer import PendingReports, UnansweredCompaction, UnmeasuredSave
from ...core.store.transcript_records import FileKind
from ...core.transcript.sanitize import map_texts, sanitize_text

if TYPE_CHECKING:
    from ...core.measure.compaction_report import CompactionReport
    from ...core.saves.save_noise import SaveNoise
    from ...core.store.writer import Writer
    from ...core.transcript.conversation import Entry, MessagePart
    from .discover import ClaudeFolder


MAX_HEAD_ENTRIES: Final = 500
"""Before a session's first answer stand some ten lines; where there are more it is no session."""


MAX_ESTIMATED_SESSIONS: Final = 400
"""Sessions of one question; SQLite takes 999 values at the least."""


class PostCompactionEstimates:
    """Estimates contexts that were just compacted; it belongs to the collector's thread."""

    def __init__(self, folder: ClaudeFolder, writer: Writer) -> None:
        self._folder: Final = folder
        self._writer: Final = writer

    def run(self, session_ids: Iterable[str] | None = None) -> frozenset[str]:
        """Estimate every context that is not, or those named; name the sessions with new rows.

        A file that cannot be read is left out: the scan tells of it.
        """
        named = None if session_ids is None else set(session_ids)
        if named and len(named) > MAX_ESTIMATED_SESSIONS:
            named = None
        post_scan_writer.delete_answered_estimates(self._writer)
        waiting = post_scan_writer.unanswered_compactions(self._writer, named)
        found = []
        for each in waiting:
            try:
                found.append((each, self._estimate(each)))
            except OSError:
                continue
        if waiting:
            post_scan_writer.save_next_contexts(self._writer, found)
        return frozenset(each.session_id for each, _ in found)

    def _estimate(self, each: UnansweredCompaction) -> int | None:
        from ...core.measure.compaction_report import (
            estimate_next_request,
            measured_overhead,
            recorded_overhead,
        )
        from ...core.measure.token_estimate import Estimator
        from ...core.transcript.visible_messages import visible_entries

        head = _entries_until_answer(self._entries(each), each.offset)
        overhead, before = measured_overhead(head), head[:-1]
        if overhead is None:
            earlier = takewhile(lambda entry: entry.offset < each.offset, self._entries(each))
            before = [*earlier]
            # The table for it takes long to load; hardly a session needs it.
            overhead = recorded_overhead(before, Estimator({}).for_model(None))
        if overhead is None:
            return None
        # What a compaction kept stands before it, and the client counts it; old ones did not.
        begin = 0 if each.post_tokens is None else each.offset
        sent = takewhile(lambda entry: entry.offset < each.read_to, self._entries(each, begin))
        return estimate_next_request(
            overhead, visible_entries(before), visible_entries([*sent]), each.post_tokens
        )

    def _entries(self, each: UnansweredCompaction, start: int = 0) -> Iterator[Entry]:
        """Read a context's entries; a session's file has sidechains of agents (up to 2.0)."""
        from ...core.transcript.conversation import without_sidechains
        from ...core.transcript.entry_decoder import iter_entries

        read = iter_entries(self._folder.projects / each.path, start)
        return read if each.kind is FileKind.AGENT else without_sidechains(read)


def _entries_until_answer(entries: Iterable[Entry], before: int) -> list[Entry]:
    """List the entries up to the first answer that says what it used; none where there is none."""
    head: list[Entry] = []
    for entry in entries:
        if entry.offset >= before or len(head) >= MAX_HEAD_ENTRIES:
            return []
        head.append(entry)
        if entry.context_tokens:
            return head
    return []


REPORT_BUDGET_S: Final = 0.25
"""Between two looks at what has changed: after that long no further file is begun."""


class CompactionReportJob:
    """Reports the compactions in the store; used by the collector's thread alone."""

    def __init__(self, folder: ClaudeFolder, writer: Writer, tell: ProblemReporter) -> None:
        self._folder: Final = folder
        self._writer: Final = writer
        self._problems: Final = tell
        # Files that did not hold what the store says: they are looked at when read further.
        self._incomplete: dict[str, int] = {}

    def run(self, seconds: float) -> frozenset[str]:
        """Report pending compactions, newest first, for about `seconds`; return their session ids.

        A file that cannot be read is reported as a problem and retried on the next run.
        """
        from ...core.measure.compaction_report import (
            REPORT_VERSION,  # with all the rules: not before the first paint
        )

        until = time.monotonic() + seconds
        sessions = set()
        for untold in post_scan_writer.pending_reports(self._writer, REPORT_VERSION):
            if self._incomplete.get(untold.path) == untold.read_to:
                continue
            if self._report_file(untold, REPORT_VERSION):
                sessions.add(untold.session_id)
            if time.monotonic() >= until:
                break
        return frozenset(sessions)

    def _report_file(self, untold: PendingReports, engine: int) -> bool:
        try:
            rows = self._read(untold)
        except (FileNotFoundError, NotADirectoryError):
            # The scan notes that it is gone.
            return False
        except OSError as error:
            self._problems.report(unreadable_problem(untold.path, error))
            return False
        self._problems.resolve(untold.path)
        post_scan_writer.save_reports(self._writer, untold.file_id, engine, rows)
        if len(rows) < len(untold.boundaries):
            self._incomplete[untold.path] = untold.read_to
        return bool(rows)

    def _read(self, untold: PendingReports) -> list[tuple[int, str, str]]:
        from ...core.measure.compaction_report import (
            CompactionReport,
            encode_report,
            report_compactions,
        )
        from ...core.transcript.conversation import without_sidechains
        from ...core.transcript.entry_decoder import read_entries
        from .transcripts.replaced_content import read_cleared_messages

        path = self._folder.projects / untold.path
        entries = read_entries(path)
        aside = {
            entry.offset
            for entry in entries
            if entry.boundary and entry.sidechain and untold.kind is FileKind.SESSION
        }
        own = entries if untold.kind is FileKind.AGENT else [*without_sidechains(entries)]
        told = {
            entry.offset: each
            for entry, each in report_compactions(own, read_cleared_messages(path))
        }
        told |= dict.fromkeys(aside, CompactionReport())
        return [
            (offset, uuid, encode_report(_sanitized(told[offset])))
            for offset, uuid in untold.boundaries
            if offset in told
        ]


def _sanitized(told: CompactionReport) -> CompactionReport:
    """Strip terminal control characters from every text of a report."""
    return msgspec.convert(map_texts(sanitize_text, msgspec.to_builtins(told)), type(told))


MEASURE_BUDGET_S: Final = 0.1
"""Between two looks at what has changed: after that long no further block is begun."""


class SaveNoiseJob:
    """Measures the saves that the store knows of; it belongs to the collector's thread."""

    def __init__(
        self,
        folder: ClaudeFolder,
        writer: Writer,
        tell: ProblemReporter,
        tokens: Callable[[MessagePart, str | None], int],
    ) -> None:
        self._folder: Final = folder
        self._writer: Final = writer
        self._problems: Final = tell
        self._tokens: Final = tokens

    def run(self, seconds: float) -> frozenset[str]:
        """Measure the newest saves first, for about so long; name the sessions that have more.

        A file that cannot be read is a trouble, and is tried again at the next look.
        """
        from ...core.saves.save_noise import (
            NOISE_VERSION,  # with all the rules: not before the first paint
        )

        until = time.monotonic() + seconds
        sessions = set()
        for block in post_scan_writer.unmeasured_saves(self._writer, NOISE_VERSION):
            if self._measure_and_save(block, NOISE_VERSION):
                sessions.add(block.session_id)
            if time.monotonic() >= until:
                break
        return frozenset(sessions)

    def _measure_and_save(self, block: UnmeasuredSave, engine: int) -> bool:
        from ...core.saves.save_noise import encode_noise

        try:
            noise = self._measure(block)
        except (FileNotFoundError, NotADirectoryError):
            # The scan notes that it is gone.
            return False
        except OSError as error:
            self._problems.report(unreadable_problem(block.path, error))
            return False
        self._problems.resolve(block.path)
        # What another Stop hook said is nobody's save, for good.
        kept, closed = (encode_noise(noise), noise.closed) if noise else (None, True)
        post_scan_writer.save_noise(self._writer, block, engine, kept, is_final=closed)
        return noise is not None

    def _measure(self, block: UnmeasuredSave) -> SaveNoise | None:
        from ...core.saves.save_noise import measure_noise
        from ...core.transcript.entry_decoder import iter_entries

        entries = iter_entries(self._folder.projects / block.path, block.offset)
        # Only what the store has read: the rest is measured with the next look.
        known = takewhile(lambda each: each.offset < block.read_to, entries)
        return measure_noise(
            known, lambda piece: self._tokens(piece, block.model), block.before_tokens
        )
