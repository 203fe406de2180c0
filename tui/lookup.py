"""Questions that take longer than a frame, answered one after another in a thread of their own."""

from __future__ import annotations

import queue
import threading
from typing import TYPE_CHECKING, Final, TypeVar

from .messages import Answered

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
        self._post: Final = post
        self._waiting: Final[queue.SimpleQueue[Callable[[], None] | None]] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None

    def ask(
        self,
        question: Callable[[sqlite3.Connection], Answer],
        take: Callable[[Answer | Trouble], None],
    ) -> None:
        """Ask; the screen's thread takes the answer, or what is in its way."""

        def run() -> None:
            found = self._answer(question)
            self._post(Answered(lambda: take(found)))

        self._waiting.put(run)
        if self._thread is None:
            # A daemon: a long answer that nobody waits for any more does not keep ctxtop open.
            self._thread = threading.Thread(target=self._run, name="ctxtop lookup", daemon=True)
            self._thread.start()

    def stop(self) -> None:
        """Take no more; returns at once."""
        self._waiting.put(None)

    def _run(self) -> None:
        while (run := self._waiting.get()) is not None:
            run()

    def _answer(self, question: Callable[[sqlite3.Connection], Answer]) -> Answer | Trouble:
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
        except Exception as error:  # noqa: BLE001 -- whatever it is, it is told
            return fault(error)


def fault(error: Exception) -> Trouble:
    """Say what went wrong that must not, and where."""
    import traceback

    from ..collectors.folder import Trouble

    where = traceback.extract_tb(error.__traceback__)[-1]
    what = f"{type(error).__name__}: {error} at {where.name} line {where.lineno}"
    remedy = "this is a fault of ctxtop: please report it, then start ctxtop again"
    return Trouble(threading.current_thread().name, what, remedy)
