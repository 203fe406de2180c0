"""A page whose questions wait neither for the feed's rest nor for what takes long."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..formats import one_line
from ..lookup import Lookup
from .page import Answer, Page

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable

    from ...collectors.folder import Trouble


class QuickPage(Page):
    """Asks in a thread of its own, which ends with the page."""

    def __init__(self, *crumbs: str, session_id: str | None = None) -> None:
        super().__init__(*crumbs, session_id=session_id)
        self._quick: Lookup | None = None

    def show_problem(self, words: str) -> None:
        """Say what is in the way of an answer."""
        self.notify(words, markup=False)

    def ask(
        self, question: Callable[[sqlite3.Connection], Answer], take: Callable[[Answer], None]
    ) -> None:
        """Ask the store what it answers within a frame; a page that was left takes nothing."""
        from ...collectors.folder import Trouble

        def take_here(found: Answer | Trouble) -> None:
            if not self.is_attached:
                return
            if isinstance(found, Trouble):
                self.show_problem(one_line(str(found)))
                return
            take(found)

        if self._quick is None:
            self._quick = Lookup(self.app.places, self.app.post_message)
        self._quick.query(question, take_here)

    def on_unmount(self) -> None:
        """End the thread."""
        if self._quick is not None:
            self._quick.stop()
