"""Threads for work and store queries that take longer than a frame."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import TYPE_CHECKING, Final, TypeVar

from textual.app import App

from ...core.store.bulkhead import NOT_SHOWN, bulkhead

if TYPE_CHECKING:
    import sqlite3

    from ...collectors.locations.places import Places
    from ...core.model.problem import Problem


Answer = TypeVar("Answer")


class WorkerThread:
    """Does work in the order it was submitted; results arrive in that order on the app's thread.

    Not one of Textual's thread workers: those run in the event loop's executor, in any order, and
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
        """Do some work; if it raises, `on_result` receives a problem instead.

        Work of the same name in `replaces` that has not begun is dropped: while the user types
        or scrolls, answers for what was typed before are not needed.
        """
        future: Future[None] = Future()
        if replaces:
            if (older := self._replaceable.get(replaces)) is not None:
                older.cancel()
            self._replaceable[replaces] = future

        def run() -> None:
            if future.set_running_or_notify_cancel():
                try:
                    result: Answer | Problem = work()
                except Exception as error:  # noqa: BLE001 -- whatever it is, it is shown
                    result = internal_error(error)
                self._app.call_later(self._deliver, on_result, result)

        self._waiting.put(run)
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name=self._name, daemon=True)
            self._thread.start()

    def _deliver(
        self, on_result: Callable[[Answer | Problem], None], result: Answer | Problem
    ) -> None:
        with bulkhead(self._name, NOT_SHOWN):
            on_result(result)

    def stop(self) -> None:
        """Do what was submitted, and then end; returns at once."""
        self._waiting.put(None)

    def _run(self) -> None:
        while (run := self._waiting.get()) is not None:
            run()
            # It may refer to widgets that are gone before there is more to do.
            del run


def internal_error(error: Exception) -> Problem:
    """Turn an unexpected error into a problem of this thread."""
    from ...core.transcript.faults import fault_problem

    return fault_problem(threading.current_thread().name, "failed", error)


def query_store(
    places: Places, question: Callable[[sqlite3.Connection], Answer]
) -> Answer | Problem:
    """Query the store through a connection of its own; an error becomes a problem."""
    import sqlite3
    from contextlib import closing

    from ...core.model.problem import Problem
    from ...core.store.database import StoreError, explain_error, open_reader

    try:
        with closing(open_reader(places.store)) as db:
            return question(db)
    except sqlite3.Error as error:
        return Problem(str(places.store), *explain_error(error))
    except StoreError as error:
        return Problem("store", str(error), "then open this page again")
