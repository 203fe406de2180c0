"""The demo: a folder of its own, a writer that keeps it growing, and the dashboard on both."""

from __future__ import annotations

import os
import shutil
import tempfile
import threading
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from ..collectors.policy_sources import PolicySources
from ..collectors.user_file import user_file
from .places import Places

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..collectors.demo import DemoFolder


def make_once() -> Path:
    """Make the demo's folder and leave it there."""
    return _make().root


def run_demo(
    notice: str | None = None, policy: Sequence[tuple[str, str]] = (), *, mouse: bool = True
) -> int:
    """Open the dashboard on the demo's folder, which is removed afterwards.

    It looks as a person wants it to; the policy beside that is the built-in one.
    """
    from ..collectors.demo import DemoWriter
    from .app import run_dashboard

    folder = _make()
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
        places = Places(folder.root, _store(top), is_explicit=True, policy=own)
        settings = PolicySources(tuple(policy), dict(os.environ), user_file())
        return run_dashboard(
            places, "ctxtop demo", notice or "", tidy, settings=settings, mouse=mouse
        )
    finally:
        tidy()


def _make() -> DemoFolder:
    from ..collectors.demo import make_demo, make_past, make_saves

    # mkdtemp makes it 0700; the store gets a folder beside Claude Code's.
    top = Path(tempfile.mkdtemp(prefix="ctxtop-demo-"))
    now = datetime.now(UTC)
    folder = make_demo(top / "claude", now)
    make_saves(folder.root, top / "work", now)
    make_past(folder, _store(top), now)
    return folder


def _store(top: Path) -> Path:
    return top / "state" / "store.db"
