"""A thread of its own for what takes longer than a frame, one piece of work after another."""

from __future__ import annotations

import queue
import threading
from typing import TYPE_CHECKING, Final, TypeVar

from .messages import Answered

if TYPE_CHECKING:
    from collections.abc import Callable

    from textual.message import Message

    from ..collectors.folder import Trouble

Answer = TypeVar("Answer")


class Worker:
    """Works in the order it was asked; the screen's thread takes what comes of it."""

    def __init__(self, name: str, post: Callable[[Message], object]) -> None:
        self._name: Final = name
        self._post: Final = post
        self._waiting: Final[queue.SimpleQueue[Callable[[], None] | None]] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None

    def submit(self, work: Callable[[], Answer], on_result: Callable[[Answer | Trouble], None]) -> None:
        """Do some work; what it raises becomes the trouble that is taken instead."""

        def run() -> None:
            found = _guarded(work)
            self.call_in_app(lambda: on_result(found))

        self._waiting.put(run)
        if self._thread is None:
            # A daemon: long work that nobody waits for any more does not keep ctxtop open.
            self._thread = threading.Thread(target=self._run, name=self._name, daemon=True)
            self._thread.start()

    def call_in_app(self, deliver: Callable[[], None]) -> None:
        """Let the screen's thread do something, as how far the work has come."""
        self._post(Answered(deliver))

    def stop(self) -> None:
        """Take no more; returns at once."""
        self._waiting.put(None)

    def finish(self, seconds: float) -> None:
        """Take no more, and wait for what was taken, at most so long."""
        self.stop()
        if self._thread is not None:
            self._thread.join(seconds)

    def _run(self) -> None:
        while (run := self._waiting.get()) is not None:
            run()
            # What it was done for may be gone before there is more to do.
            del run


def _guarded(work: Callable[[], Answer]) -> Answer | Trouble:
    try:
        return work()
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
