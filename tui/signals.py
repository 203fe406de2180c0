"""Leaving at SIGTERM, SIGHUP or a lost terminal, also where the terminal blocks the way out."""

from __future__ import annotations

import asyncio
import os
import select
import signal
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from textual.app import App


EXIT_TIMEOUT_S: Final = 1.0
"""For a way out through the app. Textual writes a last time, and a terminal that does not read
blocks that for ever."""

CLEANUP_TIMEOUT_S: Final = 0.5
"""For what is left to be done after that: together the process ends within two seconds. The store
and transcripts need none of it, as they are whole after every write."""

EXIT_SIGNALS: Final = () if sys.platform == "win32" else (signal.SIGTERM, signal.SIGHUP)


class ExitHandler:
    """Ends the app at SIGTERM and SIGHUP, and when its terminal or its server has gone.

    A thread of its own waits for that: the app's thread may be blocked by the terminal, and its
    event loop then runs no signal handler.
    """

    def __init__(self, app: App[None], cleanup: Callable[[], None]) -> None:
        """`cleanup` is called where the app cannot end by itself."""
        self._app: Final = app
        self._tidy: Final = cleanup
        self._read_end = self._write_end = -1
        self._before: dict[int, object] = {}

    def start(self) -> None:
        """Install the signal handlers; call it from the main thread, inside its event loop."""
        if not EXIT_SIGNALS:
            return
        self._read_end, self._write_end = os.pipe()
        os.set_blocking(self._write_end, False)
        loop = asyncio.get_running_loop()
        thread = threading.Thread(
            target=self._wait, args=(loop, self._read_end), name="ctxtop leaving", daemon=True
        )
        thread.start()
        for each in EXIT_SIGNALS:
            # Python runs it also in a thread that waits for a lock, which the loop's does not.
            self._before[each] = signal.signal(each, self._on_signal)

    def stop(self) -> None:
        """Restore the previous signal handlers."""
        for each, before in self._before.items():
            signal.signal(each, before if callable(before) else signal.SIG_DFL)
        self._before = {}
        if self._write_end >= 0:
            # The thread sees the pipe's end, and closes the other side.
            os.close(self._write_end)
            self._write_end = -1

    def _on_signal(self, number: int, _frame: object) -> None:
        # Nothing else is safe here: the code that was interrupted may hold any lock.
        with suppress(OSError):
            os.write(self._write_end, bytes([number]))

    def _wait(self, loop: asyncio.AbstractEventLoop, read_end: int) -> None:
        try:
            number = self._next_signal(read_end)
        finally:
            os.close(read_end)
        if number is None:
            return
        code = 128 + number
        with suppress(RuntimeError):
            # It raises where the loop has ended already: then the way out is blocked later.
            loop.call_soon_threadsafe(self._app.exit, None, code)
        threading.Event().wait(EXIT_TIMEOUT_S)
        self._leave_at_once(code)

    def _next_signal(self, hear: int) -> int | None:
        """Wait for a signal, or for the other side's end; None where the app ended first."""
        poll = select.poll()
        poll.register(hear, select.POLLIN)
        source = _input_descriptor(self._app)
        if source is not None:
            # Without events: only its end is told, not what comes from it.
            poll.register(source, 0)
        while True:
            for descriptor, event in poll.poll():
                if descriptor == hear:
                    told = os.read(hear, 1)
                    return told[0] if told else None
                if event & (select.POLLHUP | select.POLLERR):
                    return signal.SIGHUP
                # It cannot be waited for, as a terminal on some systems.
                poll.unregister(descriptor)

    def _leave_at_once(self, code: int) -> None:
        tidy = threading.Thread(target=self._tidy, name="ctxtop tidies", daemon=True)
        tidy.start()
        tidy.join(CLEANUP_TIMEOUT_S)
        _restore_terminal(self._app)
        os._exit(code)


def _input_descriptor(app: App[None]) -> int | None:
    """Return the descriptor of the terminal, or of the server that a page's keys come from."""
    try:
        source = sys.__stdin__.fileno() if sys.__stdin__ else None
    except (OSError, ValueError):
        return None
    if source is None or not (app.is_web or os.isatty(source)):
        return None
    return source


def _restore_terminal(app: App[None]) -> None:
    """Restore the line discipline of a terminal that is still there; this never blocks."""
    attributes = getattr(app._driver, "attrs_before", None)  # noqa: SLF001 -- Textual's own way out
    source = _input_descriptor(app)
    if attributes is None or source is None:
        return
    import termios

    with suppress(termios.error):
        termios.tcsetattr(source, termios.TCSANOW, attributes)
