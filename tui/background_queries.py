"""Work and store queries that take longer than a frame: threads that do one after another."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import TYPE_CHECKING, Final, TypeVar

from textual.app import App

if TYPE_CHECKING:
    import sqlite3

    from ..collectors.places import Places
    from ..core.model.problem import Problem


Answer = TypeVar("Answer")


class WorkerThread:
    """Works in the order it was asked; the results arrive in that order on the app's thread.

    Not a thread worker of Textual's: those run in the event loop's executor, in any order, and
    Python waits for them before it ends. This one is a daemon: minutes of work that nobody waits
    for any more do not keep ctxtop open.
    """

    def __init__(self, name: str, app: App[None]) -> None:
        self._name: Final = name
        self._app: Final = app
        self._waiting: Final[queue.SimpleQueue[Callable[[], None] | None]] = queue.SimpleQueue()
        self._replaceable: Final[dict[str, Future[None]]] = {}
        self._thread: threading.Thread | None = None

    def submit(
        self,
        work: Callable[[], Answer],
        on_result: Callable[[Answer | Problem], None],
        *,
        replaces: str = "",
    ) -> None:
        """Do some work; what it raises becomes the problem that `on_result` receives instead.

        Work of the same name in `replaces` that has not begun is dropped: who types or scrolls
        waits for no answer to what was typed before.
        """
        turn: Future[None] = Future()
        if replaces:
            if (older := self._replaceable.get(replaces)) is not None:
                older.cancel()
            self._replaceable[replaces] = turn

        def run() -> None:
            if turn.set_running_or_notify_cancel():
                self._app.call_later(on_result, _catch_errors(work))

        self._waiting.put(run)
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name=self._name, daemon=True)
            self._thread.start()

    def stop(self) -> None:
        """Accept no more work; returns at once."""
        self._waiting.put(None)

    def _run(self) -> None:
        while (run := self._waiting.get()) is not None:
            run()
            # What it was done for may be gone before there is more to do.
            del run


def _catch_errors(work: Callable[[], Answer]) -> Answer | Problem:
    try:
        return work()
    except Exception as error:  # noqa: BLE001 -- whatever it is, it is told
        return internal_error(error)


def internal_error(error: Exception) -> Problem:
    """Turn an unexpected exception into a problem that names where it was raised."""
    import traceback

    from ..core.model.problem import Problem

    where = traceback.extract_tb(error.__traceback__)[-1]
    what = f"{type(error).__name__}: {error} at {where.name} line {where.lineno}"
    remedy = "this is a fault of ctxtop: please report it, then start ctxtop again"
    return Problem(threading.current_thread().name, what, remedy)


def query_store(
    places: Places, question: Callable[[sqlite3.Connection], Answer]
) -> Answer | Problem:
    """Ask the store through a connection of its own; what is in the way becomes a problem."""
    import sqlite3
    from contextlib import closing

    from ..core.model.problem import Problem
    from ..core.store.database import StoreError, explain_error, open_reader

    try:
        with closing(open_reader(places.store)) as db:
            return question(db)
    except sqlite3.Error as error:
        return Problem(str(places.store), *explain_error(error))
    except StoreError as error:
        return Problem("store", str(error), "then open this again")
