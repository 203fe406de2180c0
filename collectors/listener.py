"""What the collector tells: how far it is, what changed, what is wrong."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import msgspec

if TYPE_CHECKING:
    from .folder import Trouble


class Progress(msgspec.Struct, frozen=True):
    """How far a scan has come."""

    files: int
    files_in_all: int
    bytes: int
    bytes_in_all: int


class Changed(msgspec.Struct, frozen=True):
    """What was stored: which sessions it touches, and how late it was."""

    session_ids: frozenset[str]
    lag_s: float | None = None
    """From the last write of a file that grew to its commit."""


class Listener(Protocol):
    """Who wants to know; called in the collector's thread, and never waits."""

    def progressed(self, progress: Progress) -> None:
        """A scan has come further."""

    def changed(self, changed: Changed) -> None:
        """Rows were committed."""

    def scanned(self) -> None:
        """A look at everything is over."""

    def troubled(self, trouble: Trouble) -> None:
        """Something could not be read or stored."""

    def eased(self, place: str) -> None:
        """A trouble has ended."""

    def noted(self, notice: Trouble) -> None:
        """Something happened that is worth a line and needs nothing."""
