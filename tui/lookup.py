"""Questions that take longer than a frame, answered one after another in a thread of their own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeVar

from .worker import Worker

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable

    from textual.message import Message

    from ..collectors.folder import Trouble
    from .places import Places

Answer = TypeVar("Answer")


class Lookup:
    """Looks into the store and the files without keeping the screen or its feed waiting."""

    def __init__(self, places: Places, post: Callable[[Message], object]) -> None:
        self._places: Final = places
        self._worker: Final = Worker("ctxtop lookup", post)

    def query(
        self,
        question: Callable[[sqlite3.Connection], Answer],
        on_result: Callable[[Answer | Trouble], None],
    ) -> None:
        """Ask; the screen's thread takes the answer, or what is in its way."""

        def take_found(found: Answer | Trouble) -> None:
            on_result(found)

        self._worker.submit(lambda: self._run_query(question), take_found)

    def stop(self) -> None:
        """Take no more; returns at once."""
        self._worker.stop()

    def _run_query(self, question: Callable[[sqlite3.Connection], Answer]) -> Answer | Trouble:
        import sqlite3
        from contextlib import closing

        from ..collectors.folder import Trouble
        from ..core.store.database import StoreError, explain, open_reader

        try:
            with closing(open_reader(self._places.store)) as db:
                return question(db)
        except sqlite3.Error as error:
            return Trouble(str(self._places.store), *explain(error))
        except StoreError as error:
            return Trouble("store", str(error), "then open this again")
