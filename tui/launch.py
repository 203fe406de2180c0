"""Opens the dashboard and the demo, and leaves at a signal or without a terminal."""

from __future__ import annotations

import asyncio
import os
import select
import shutil
import signal
import sys
import tempfile
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ..collectors.locations.places import Places, PolicySources, find_places, user_policy_path
from .base.command_errors import USAGE, print_error

if TYPE_CHECKING:
    from textual.app import App

    from ..collectors.demo import DemoFolder


TEXTUAL_DRIVER: Final = "TEXTUAL_DRIVER"
"""Textual's variable for a driver that needs no terminal, as for a page in a browser."""


def open_dashboard(
    config: Path | None,
    store: Path | None,
    policy: Sequence[tuple[str, str]] = (),
    *,
    mouse: bool = True,
) -> int:
    """Run the dashboard, or the demo without a Claude Code folder; returns the exit code.

    Raises PlaceError where a named place cannot be used.
    """
    if not (sys.stdout.isatty() or TEXTUAL_DRIVER in os.environ):
        print_error("the dashboard needs a terminal; `ctxtop sessions` prints the same")
        return USAGE
    places = find_places(config, store, policy)
    if places.exists:
        return run_dashboard(places, mouse=mouse, welcomes=True)
    notice = (
        f"no Claude Code folder at {places.config_dir}: this is the demo;"
        " name a folder with --config-dir"
    )
    print_error(notice)
    return run_demo(notice, policy, mouse=mouse)


def run_dashboard(
    places: Places,
    source: str = "ctxtop",
    notice: str = "",
    cleanup: Callable[[], None] = lambda: None,
    *,
    settings: PolicySources | None = None,
    mouse: bool = True,
    welcomes: bool = False,
) -> int:
    """Run the dashboard until the user leaves it; returns the exit code.

    `cleanup` is called only if this cannot return, because a terminal that is gone blocks the way
    out. Without `mouse` the terminal's own selection works.
    """
    from .app import CtxtopApp

    while True:
        app = CtxtopApp(places, source, notice, settings, welcomes=welcomes)
        exit_handler = ExitHandler(app, (app.feed.stop, cleanup))
        app.before_first_frame = exit_handler.start
        try:
            app.run(mouse=mouse)
        finally:
            exit_handler.stop()
        if not app.is_left_for_demo:
            return app.return_code or 0
        run_demo(policy=app.settings.command_line, mouse=mouse)


def run_demo(
    notice: str | None = None, policy: Sequence[tuple[str, str]] = (), *, mouse: bool = True
) -> int:
    """Run the dashboard on a temporary demo; appearance and keys are the user's."""
    from ..collectors.demo import DemoWriter

    folder = make_demo_folder()
    top = folder.root.parent
    stop = threading.Event()
    writer = threading.Thread(target=DemoWriter(folder).run, args=(stop,), daemon=True)
    writer.start()

    def clean_up() -> None:
        stop.set()
        writer.join()
        shutil.rmtree(top, ignore_errors=True)

    try:
        # The demo has a policy file of its own, so that changes made there change nothing else.
        own = PolicySources(tuple(policy), {}, top / "config" / "config.toml")
        places = Places(folder.root, _demo_store(top), policy=own)
        settings = PolicySources(tuple(policy), dict(os.environ), user_policy_path())
        return run_dashboard(
            places, "ctxtop demo", notice or "", clean_up, settings=settings, mouse=mouse
        )
    finally:
        clean_up()


def make_demo_folder() -> DemoFolder:
    from ..collectors.demo import make_demo, make_demo_history, make_demo_saves

    # mkdtemp makes it 0700; the store gets a folder beside Claude Code's.
    top = Path(tempfile.mkdtemp(prefix="ctxtop-demo-"))
    now = datetime.now(UTC)
    folder = make_demo(top / "claude", now)
    make_demo_saves(folder.root, top / "work", now)
    make_demo_history(folder, _demo_store(top), now)
    return folder


def _demo_store(top: Path) -> Path:
    return top / "state" / "store.db"


EXIT_TIMEOUT_S: Final = 1.0
"""For leaving through the app: Textual writes once more, and a terminal that does not read blocks
that for ever."""

CLEANUP_TIMEOUT_S: Final = 0.5
"""For cleaning up after that: together the process ends within two seconds. The store and
transcripts need no cleanup, as they are whole after every write."""

EXIT_SIGNALS: Final = () if sys.platform == "win32" else (signal.SIGTERM, signal.SIGHUP)


class ExitHandler:
    """Ends the app at SIGTERM and SIGHUP, and when its terminal or its server has gone.

    A thread of its own waits for that: the app's thread may be blocked by the terminal, and its
    event loop then runs no signal handler.
    """

    def __init__(self, app: App[None], cleanup: Sequence[Callable[[], None]]) -> None:
        """`cleanup` is called if the app cannot end by itself."""
        self._app: Final = app
        self._cleanup: Final = cleanup
        self._read_end = self._write_end = -1
        self._previous: dict[int, object] = {}

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
            # Python's own handlers run even in a thread that waits for a lock; the loop's do not.
            self._previous[each] = signal.signal(each, self._on_signal)

    def stop(self) -> None:
        for each, previous in self._previous.items():
            signal.signal(each, previous if callable(previous) else signal.SIG_DFL)
        self._previous = {}
        if self._write_end >= 0:
            # The thread sees the end of the pipe, and closes the other side.
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
            # It raises if the loop has ended already: then something after it is blocked.
            loop.call_soon_threadsafe(self._app.exit, None, code)
        threading.Event().wait(EXIT_TIMEOUT_S)
        thread = threading.Thread(target=self._clean_up, name="ctxtop tidies", daemon=True)
        thread.start()
        thread.join(CLEANUP_TIMEOUT_S)
        _restore_terminal(self._app)
        os._exit(code)

    def _clean_up(self) -> None:
        for each in self._cleanup:
            each()

    def _next_signal(self, read_end: int) -> int | None:
        """Wait for a signal, or until the terminal is gone; None if the app ended first."""
        poll = select.poll()
        poll.register(read_end, select.POLLIN)
        terminal = _input_descriptor(self._app)
        if terminal is not None:
            # Without events, poll reports only that the terminal is gone, and no input.
            poll.register(terminal, 0)
        while True:
            for descriptor, event in poll.poll():
                if descriptor == read_end:
                    numbers = os.read(read_end, 1)
                    return numbers[0] if numbers else None
                if event & (select.POLLHUP | select.POLLERR):
                    return signal.SIGHUP
                # This system cannot poll a terminal.
                poll.unregister(descriptor)


def _input_descriptor(app: App[None]) -> int | None:
    """Return the descriptor of the terminal, or of the web server that sends the keys."""
    try:
        source = sys.__stdin__.fileno() if sys.__stdin__ else None
    except (OSError, ValueError):
        return None
    return source if source is not None and (app.is_web or os.isatty(source)) else None


def _restore_terminal(app: App[None]) -> None:
    """Restore the line discipline of a terminal that is still there; this never blocks."""
    attributes = getattr(app._driver, "attrs_before", None)  # noqa: SLF001 -- Textual's own way out
    source = _input_descriptor(app)
    if attributes is None or source is None:
        return
    import termios

    with suppress(termios.error):
        termios.tcsetattr(source, termios.TCSANOW, attributes)
