"""Archives sessions before Claude Code deletes them, a little at a time."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from sqlite3 import Connection
from typing import Final

from ...core.archive.archive_index import (
    ArchivedSession,
    ArchiveLimits,
    NotArchivedError,
    TranscriptArchive,
    expired_sessions,
    sessions_to_prune,
)
from ...core.archive.archive_mode import ArchiveMode
from ...core.archive.archive_policy import ArchiveSettings, due_sessions
from ...core.archive.archiving import (
    KeepLine,
    SessionFiles,
    answer_without_text,
    archive_in_steps,
    archive_summaries,
    is_up_to_date,
)
from ...core.measure.retention import cleanup_days
from ...core.model.problem import Problem, ProblemReporter
from ...core.store.bulkhead import FAILED, bulkhead, work_apart
from ...core.store.queries import archive_queries, config_queries
from ...core.store.queries.archive_queries import ArchivableRow
from ...core.store.writer import Writer

LOOK_INTERVAL_S: Final = 60.0  # between two looks for what is due: nothing falls due in a hurry
SKIPPED_FIX: Final = "rename or move it, or Claude Code deletes it with its session"
FAILURE_PLACE: Final = "archive"  # of the problem that is reported

_TITLE_LINES: Final = (b'{"type":"summary"', b'{"type":"custom-title"', b'{"type":"ai-title"')


class SessionArchiver:
    """Archives sessions as one commit of the store shows them."""

    def __init__(
        self, archive: TranscriptArchive, projects: Path, db: Connection, now_ms: int
    ) -> None:
        self._archive: Final = archive
        self._projects: Final = projects
        self._db: Final = db
        self._now_ms: Final = now_ms

    def due(self) -> list[ArchivableRow]:
        days = cleanup_days(config_queries.settings_files(self._db))
        return due_sessions(archive_queries.archivable_sessions(self._db), days, self._now_ms)

    def is_up_to_date(self, row: ArchivableRow, mode: ArchiveMode) -> bool:
        session = SessionFiles(row.session_id, row.path)
        return is_up_to_date(self._archive, self._projects, session, mode)

    def archive(
        self, row: ArchivableRow, mode: ArchiveMode
    ) -> Generator[None, None, ArchivedSession]:
        """Archive a session step by step; one that is kept whole stays whole.

        Raises NotArchivedError and OSError.
        """
        agents = archive_queries.agent_paths(self._db, row.session_id)
        session = SessionFiles(row.session_id, row.path, tuple(agents))
        before = self._archive.sessions().get(row.session_id)
        if mode is ArchiveMode.ALL or (before and before.mode is ArchiveMode.ALL):
            return (
                yield from archive_in_steps(self._archive, self._projects, session, self._now_ms)
            )
        return archive_summaries(
            self._archive, self._projects, session, self._kept_lines, self._now_ms
        )

    def _kept_lines(self, path: str) -> KeepLine:
        """Keep what the store shows of a file: its summaries, agents, titles and beginning."""
        offsets = archive_queries.shown_line_offsets(self._db, path)
        found_first: list[int] = []

        def keeps(offset: int, line: bytes) -> bytes | None:
            if offset in offsets or line.startswith(_TITLE_LINES):
                return line
            # The first prompt: the title is of it, and it says where the session began.
            if not found_first and b'"type":"user"' in line and b'"cwd"' in line:
                found_first.append(offset)
                return line
            return answer_without_text(line) if b'"type":"assistant"' in line else None

        return keeps


class ArchiveJob:
    """Archives what falls due, the next deletion first; used by the collector's thread alone."""

    def __init__(
        self,
        projects: Path,
        writer: Writer,
        archive: TranscriptArchive,
        problems: ProblemReporter,
        now: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
    ) -> None:
        self._projects: Final = projects
        self._writer: Final = writer
        self._archive: Final = archive
        self._problems: Final = problems
        self._now: Final = now
        self._looked_at = -math.inf
        self._due: list[ArchivableRow] = []
        self._waiting: list[ArchivableRow] = []
        self._steps: Iterator[object] | None = None
        self._skipped_places: set[str] = set()  # of the reported files

    def run(self, settings: ArchiveSettings, seconds: float) -> bool:
        """Work for about `seconds`; False if nothing is left for now."""
        if settings.mode is ArchiveMode.OFF:
            self._waiting, self._steps = [], None
            return False
        until = time.monotonic() + seconds
        try:
            if not self._waiting and self._steps is None and not self._look(settings):
                return False
            while (self._waiting or self._steps) and time.monotonic() < until:
                self._step(settings)
        except (OSError, NotArchivedError) as error:
            self._steps = None
            why = getattr(error, "strerror", None) or str(error)
            fix = "sessions may be deleted before they are archived; see `ctxtop doctor`"
            self._problems.report(Problem(FAILURE_PLACE, why, fix))
            return bool(self._waiting)
        self._problems.resolve(FAILURE_PLACE)
        return True

    def _archiver(self) -> SessionArchiver:
        db = self._writer.connection
        return SessionArchiver(self._archive, self._projects, db, self._now())

    def _look(self, settings: ArchiveSettings) -> bool:
        now = time.monotonic()
        if now - self._looked_at < LOOK_INTERVAL_S:
            return False
        self._looked_at = now
        archiver = self._archiver()
        self._due = archiver.due()
        self._report_skipped()
        self._waiting = work_apart(
            self._due,
            lambda rows: [row for row in rows if not archiver.is_up_to_date(row, settings.mode)],
            _place,
            FAILED,
            self._writer.path,
        )
        if not self._waiting and expired_sessions(self._archive, settings.limits, self._now()):
            prune_archive(self._archive, settings.limits, self._now())
        return bool(self._waiting)

    def _report_skipped(self) -> None:
        """Report the files of archived sessions that the client will delete, and no copy has."""
        archived = self._archive.sessions()
        sessions = [archived[row.session_id] for row in self._due if row.session_id in archived]
        found = {
            str(self._projects / each.path): f"is not in the archive: {each.why}"
            for session in sessions
            for each in session.skipped
        }
        for place in self._skipped_places - found.keys():
            self._problems.resolve(place)
        for place, what in found.items():
            self._problems.report(Problem(place, what, SKIPPED_FIX))
        self._skipped_places = set(found)

    def _step(self, settings: ArchiveSettings) -> None:
        if self._steps is None:
            self._steps = self._archive_session(self._waiting.pop(0), settings.mode)
        try:
            next(self._steps)
        except StopIteration:
            self._steps = None
            self._report_skipped()
            if not self._waiting:
                prune_archive(self._archive, settings.limits, self._now())
        except FileNotFoundError:
            # Deleted since it was found.
            self._steps = None

    def _archive_session(self, row: ArchivableRow, mode: ArchiveMode) -> Iterator[object]:
        faults: list[Problem] = []
        expected = (OSError, NotArchivedError)
        with bulkhead(_place(row), FAILED, self._writer.path, faults.append, expected):
            yield from self._archiver().archive(row, mode)
        for fault in faults:
            self._problems.report(fault)


def _place(row: ArchivableRow) -> str:
    return f"{FAILURE_PLACE} of session {row.session_id}"


def prune_archive(
    archive: TranscriptArchive, limits: ArchiveLimits, now_ms: int
) -> list[ArchivedSession]:
    """Remove sessions beyond the limits from the archive; return them. Raises OSError."""
    pruned = sessions_to_prune(archive, limits, now_ms)
    if pruned:
        archive.remove([each.session_id for each in pruned], now_ms)
    return pruned
