"""Work and queries that take longer than a frame: a thread that does one after another."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, Generic, TypeVar

from textual.message import Message

from .messages import ResultReady

if TYPE_CHECKING:
    import sqlite3

    from ..collectors.places import Places
    from ..core.model.problem import Problem


Answer = TypeVar("Answer")


class WorkerThread:
    """Works in the order it was asked; the screen's thread takes what comes of it."""

    def __init__(self, name: str, post: Callable[[Message], object]) -> None:
        self._name: Final = name
        self._post: Final = post
        self._waiting: Final[queue.SimpleQueue[Callable[[], None] | None]] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None

    def submit(
        self, work: Callable[[], Answer], on_result: Callable[[Answer | Problem], None]
    ) -> None:
        """Do some work; what it raises becomes the trouble that is taken instead."""

        def run() -> None:
            found = _catch_errors(work)
            self.call_in_app(lambda: on_result(found))

        self._waiting.put(run)
        if self._thread is None:
            # A daemon: long work that nobody waits for any more does not keep ctxtop open.
            self._thread = threading.Thread(target=self._run, name=self._name, daemon=True)
            self._thread.start()

    def call_in_app(self, deliver: Callable[[], None]) -> None:
        """Run `deliver` on the app's thread, for example to report progress."""
        self._post(ResultReady(deliver))

    def stop(self) -> None:
        """Accept no more work; returns at once."""
        self._waiting.put(None)

    def finish(self, seconds: float) -> None:
        """Accept no more work, and wait up to `seconds` for the work already submitted."""
        self.stop()
        if self._thread is not None:
            self._thread.join(seconds)

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


class StoreQueryThread:
    """Looks into the store and the files without keeping the screen or its feed waiting."""

    def __init__(self, places: Places, post: Callable[[Message], object]) -> None:
        self._places: Final = places
        self._worker: Final = WorkerThread("ctxtop lookup", post)

    def query(
        self,
        question: Callable[[sqlite3.Connection], Answer],
        on_result: Callable[[Answer | Problem], None],
    ) -> None:
        """Ask; the screen's thread takes the answer, or what is in its way."""

        def take_found(found: Answer | Problem) -> None:
            on_result(found)

        self._worker.submit(lambda: self._run_query(question), take_found)

    def stop(self) -> None:
        """Accept no more queries; returns at once."""
        self._worker.stop()

    def _run_query(self, question: Callable[[sqlite3.Connection], Answer]) -> Answer | Problem:
        import sqlite3
        from contextlib import closing

        from ..core.model.problem import Problem
        from ..core.store.database import StoreError, explain_error, open_reader

        try:
            with closing(open_reader(self._places.store)) as db:
                return question(db)
        except sqlite3.Error as error:
            return Problem(str(self._places.store), *explain_error(error))
        except StoreError as error:
            return Problem("store", str(error), "then open this again")


Query = TypeVar("Query")


class LatestQuery(Generic[Query, Answer]):
    """Keeps a person who types from waiting for answers to what they typed before."""

    def __init__(
        self,
        ask: Callable[[Query, Callable[[Answer], None]], None],
        take: Callable[[Answer], None],
    ) -> None:
        self._ask: Final = ask
        self._take: Final = take
        self._busy = False
        self._next: list[Query] = []

    def request(self, question: Query) -> None:
        """Ask, now or once the question that is being answered is answered."""
        if self._busy:
            self._next = [question]
            return
        self._busy = True
        self._ask(question, self._on_result)

    def _on_result(self, answer: Answer) -> None:
        self._busy = False
        waiting, self._next = self._next, []
        self._take(answer)
        for question in waiting:
            self.request(question)
