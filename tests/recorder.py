"""A listener that remembers what it was told."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ctxtop.collectors.folder import Trouble
    from ctxtop.collectors.listener import Changed, Progress


class Recorder:
    """Keeps everything in the order in which the collector said it."""

    def __init__(self) -> None:
        self.progress: list[Progress] = []
        self.changes: list[Changed] = []
        self.troubles: list[Trouble] = []
        self.ended: list[str] = []
        self.notices: list[Trouble] = []
        self.scans = 0

    def progressed(self, progress: Progress) -> None:
        self.progress.append(progress)

    def changed(self, changed: Changed) -> None:
        self.changes.append(changed)

    def troubled(self, trouble: Trouble) -> None:
        self.troubles.append(trouble)

    def eased(self, place: str) -> None:
        self.ended.append(place)

    def noted(self, notice: Trouble) -> None:
        self.notices.append(notice)

    def scanned(self) -> None:
        self.scans += 1

    @property
    def sessions(self) -> set[str]:
        """Every session that was touched."""
        return {session for changed in self.changes for session in changed.session_ids}
