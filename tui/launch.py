"""Opening the dashboard, and the demo: a folder of its own, a writer, the dashboard on both."""

from __future__ import annotations

import os
import shutil
import tempfile
import threading
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from ..collectors.places import Places, PolicySources, user_policy_path

if TYPE_CHECKING:
    from ..collectors.demo import DemoFolder


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
    """Open the dashboard; returns the exit code when a person leaves it.

    `cleanup` is called only where it cannot return: the terminal went and blocks the way out.
    Without `mouse` the terminal's own selection works.
    """
    from .app import CtxtopApp

    while True:
        app = CtxtopApp(places, source, notice, cleanup, settings, welcomes=welcomes)
        try:
            app.run(mouse=mouse)
        finally:
            app.exit_handler.stop()
        if not app.is_left_for_demo:
            return app.return_code or 0
        run_demo(policy=app.settings.command_line, mouse=mouse)


def make_demo_once() -> Path:
    """Make the demo's folder and leave it there."""
    return _make_demo_folder().root


def run_demo(
    notice: str | None = None, policy: Sequence[tuple[str, str]] = (), *, mouse: bool = True
) -> int:
    """Open the dashboard on the demo's folder, which is removed afterwards.

    It looks as a person wants it to; the policy beside that is the built-in one.
    """
    from ..collectors.demo import DemoWriter

    folder = _make_demo_folder()
    top = folder.root.parent
    stop = threading.Event()
    writer = threading.Thread(target=DemoWriter(folder).run, args=(stop,), daemon=True)
    writer.start()

    def tidy() -> None:
        stop.set()
        writer.join()
        shutil.rmtree(top, ignore_errors=True)

    try:
        # A policy's file of its own: what is tried in the demo changes nothing elsewhere.
        own = PolicySources(tuple(policy), {}, top / "config" / "config.toml")
        places = Places(folder.root, _demo_store(top), is_explicit=True, policy=own)
        settings = PolicySources(tuple(policy), dict(os.environ), user_policy_path())
        return run_dashboard(
            places, "ctxtop demo", notice or "", tidy, settings=settings, mouse=mouse
        )
    finally:
        tidy()


def _make_demo_folder() -> DemoFolder:
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
