"""Asking again and again what a page shows, never more often than the answers take."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final, Generic, TypeVar

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable

    from ..collectors.folder import Trouble
    from .screens.page import Page

Answer = TypeVar("Answer")

SHARE: Final = 10
"""Of the time at most a tenth is spent on asking again: the lookup's thread answers others too."""

LEAST_S: Final = 0.2
"""Between two questions that nobody asked by hand."""


class Following(Generic[Answer]):
    """Keeps one answer of a page as new as its views; one question is on its way at a time."""

    def __init__(
        self,
        page: Page,
        make_query: Callable[[], Callable[[sqlite3.Connection], Answer]],
        on_result: Callable[[Answer | Trouble], None],
    ) -> None:
        """Follow; `question` makes the question of the moment at which it is asked."""
        self._page: Final = page
        self._question: Final = make_query
        self._take: Final = on_result
        self._asked_at: float | None = None
        self._is_stale = False
        self._waits = False

    def refresh_now(self) -> None:
        """Ask at once, or as soon as the last answer is there: a person wants to see it."""
        if self._asked_at is not None:
            self._is_stale = True
            return
        self._is_stale = False
        self._asked_at = time.monotonic()
        self._page.look_up(self._question(), self._on_result)

    def refresh_soon(self) -> None:
        """Ask again when it is time to: there may be something new."""
        if self._asked_at is None and not self._waits:
            self.refresh_now()
        else:
            self._is_stale = True

    def _on_result(self, answer: Answer | Trouble) -> None:
        took = time.monotonic() - (self._asked_at or time.monotonic())
        self._asked_at = None
        self._take(answer)
        self._waits = True
        self._page.set_timer(max(LEAST_S, SHARE * took), self._on_timer)

    def _on_timer(self) -> None:
        self._waits = False
        if self._is_stale:
            self.refresh_now()
