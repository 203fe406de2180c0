"""What background work, actions and notifications use of the app; it names no screen."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from textual.app import App

if TYPE_CHECKING:
    from ..collectors.places import Places
    from .background_queries import WorkerThread
    from .feed import Feed
    from .messages import FleetView

TOAST_S: Final = 6.0


class AppBase(App[None]):
    """The services of the dashboard."""

    places: Places
    feed: Feed
    file_worker: WorkerThread  # for what changes files: one thing after the other
    lookup_worker: WorkerThread  # for what takes longer than a frame to read
    quick_worker: WorkerThread
    """For questions that the store answers within a frame: they do not wait for long ones."""
    view: FleetView | None = None  # the newest

    def now_ms(self) -> int:
        """Return milliseconds since 1970."""
        raise NotImplementedError

    def copy(self, text: str, what: str) -> None:
        """Copy to the clipboard, and show what was copied."""
        raise NotImplementedError

    def write_sequence(self, sequence: str) -> None:
        """Write an escape sequence to the terminal."""
        raise NotImplementedError

    def report_end(self, title: str, words: str, *, failed: bool = False) -> None:
        """Log that something a person began has ended, and notify outside of the page."""
        raise NotImplementedError
