"""The files that a scan still has to read, and what the collector reports about its work."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final, Protocol

import msgspec

if TYPE_CHECKING:
    from ...core.model.problem import Problem
    from ...core.store.transcript_records import SourceFile, TailState
    from .discover import FoundFile


class ReadTask(msgspec.Struct):
    """A file that a process reads, and how far its answers have come."""

    found: FoundFile
    source: SourceFile
    before: TailState


class ReadQueue:
    """Files that wait to be read: from the first on, or the largest before all others."""

    def __init__(self, waiting: list[FoundFile], known: Mapping[str, int]) -> None:
        """Queue `waiting`; `known` has the bytes already read of a file, by its relative path."""

        def left(found: FoundFile) -> int:
            offset = known.get(found.relative, 0)
            # One that has shrunk is read from its start.
            return found.size - offset if found.size >= offset else found.size

        self.file_count: Final = len(waiting)
        self.total_bytes: Final = sum(map(left, waiting))
        self.done_bytes = 0
        self._first = deque(waiting)
        self._by_size = sorted(waiting, key=left)
        self._taken: set[str] = set()

    @property
    def taken_count(self) -> int:
        """Count the files that somebody reads or has read."""
        return len(self._taken)

    @property
    def has_waiting(self) -> bool:
        return self.taken_count < self.file_count

    def take_first(self) -> FoundFile | None:
        """Return the next file in the order given; None if none is left."""
        while self._first:
            found = self._first.popleft()
            if self._take(found):
                return found
        return None

    def take_largest(self) -> FoundFile | None:
        """Return the file with the most bytes left to read; None if none is left."""
        while self._by_size:
            found = self._by_size.pop()
            if self._take(found):
                return found
        return None

    def _take(self, found: FoundFile) -> bool:
        if found.relative in self._taken:
            return False
        self._taken.add(found.relative)
        return True


class ScanProgress(msgspec.Struct, frozen=True):
    """How far a scan has come."""

    files_read: int
    files_total: int
    bytes_read: int
    bytes_total: int


class StoredChange(msgspec.Struct, frozen=True):
    """What was stored: which sessions it touches, and how late it was."""

    session_ids: frozenset[str]
    lag_s: float | None = None  # from the last write of a file that grew to its commit


class CollectorListener(Protocol):
    """Who wants to know; called in the collector's thread, and never waits."""

    def on_progress(self, progress: ScanProgress) -> None:
        """A scan has come further."""

    def on_change(self, change: StoredChange) -> None:
        """Rows were committed."""

    def on_scan_finished(self) -> None:
        """A look at everything is over."""

    def on_problem(self, problem: Problem) -> None:
        """Something could not be read or stored."""

    def on_resolved(self, where: str) -> None:
        """A trouble has ended."""

    def on_notice(self, notice: Problem) -> None:
        """Something happened that is worth a line and needs nothing."""
