"""What the collector tells: how far it is, what changed, what is wrong."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import msgspec

if TYPE_CHECKING:
    from .folder import Trouble


class Progress(msgspec.Struct, frozen=True):
    """How far a scan has come."""

    files_read: int
    files_total: int
    bytes_read: int
    bytes_total: int


class Changed(msgspec.Struct, frozen=True):
    """What was stored: which sessions it touches, and how late it was."""

    session_ids: frozenset[str]
    lag_s: float | None = None
    """From the last write of a file that grew to its commit."""


class Listener(Protocol):
    """Who wants to know; called in the collector's thread, and never waits."""

    def on_progress(self, progress: Progress) -> None:
        """A scan has come further."""

    def on_change(self, change: Changed) -> None:
        """Rows were committed."""

    def on_scan_finished(self) -> None:
        """A look at everything is over."""

    def on_problem(self, problem: Trouble) -> None:
        """Something could not be read or stored."""

    def on_resolved(self, where: str) -> None:
        """A trouble has ended."""

    def on_notice(self, notice: Trouble) -> None:
        """Something happened that is worth a line and needs nothing."""
