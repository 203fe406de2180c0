"""A listener that remembers what it was told."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ctxtop.collectors.collector_thread import ScanProgress, StoredChange
    from ctxtop.core.model.problem import Problem


class Recorder:
    """Keeps everything in the order in which the collector said it."""

    def __init__(self) -> None:
        self.progress: list[ScanProgress] = []
        self.changes: list[StoredChange] = []
        self.troubles: list[Problem] = []
        self.ended: list[str] = []
        self.notices: list[Problem] = []
        self.scans = 0

    def on_progress(self, progress: ScanProgress) -> None:
        self.progress.append(progress)

    def on_change(self, change: StoredChange) -> None:
        self.changes.append(change)

    def on_problem(self, problem: Problem) -> None:
        self.troubles.append(problem)

    def on_resolved(self, where: str) -> None:
        self.ended.append(where)

    def on_notice(self, notice: Problem) -> None:
        self.notices.append(notice)

    def on_scan_finished(self) -> None:
        self.scans += 1

    @property
    def sessions(self) -> set[str]:
        """Every session that was touched."""
        return {session for changed in self.changes for session in changed.session_ids}
