"""The dashboard without a terminal, at a moment that is always the same."""

from __future__ import annotations

import os
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from ctxtop.collectors.demo import DemoFolder
    from ctxtop.tui.app import CtxtopApp
    from textual.pilot import Pilot

NOW: Final = datetime(2026, 11, 20, 12, 0, tzinfo=UTC)
"""The same moment each time, so that only a change of the screen changes a picture."""

PATIENCE_S: Final = 20.0
REST_S: Final = 0.5


def dress(top: Path) -> None:
    """Make the surroundings the same on every machine."""
    os.environ |= {"HOME": str(top), "TZ": "UTC", "COLORTERM": "truecolor"}
    os.environ.pop("NO_COLOR", None)


def made(top: Path) -> DemoFolder:
    """Make the demo below a folder, and what happened before it."""
    from ctxtop.collectors.demo import make_demo
    from ctxtop.collectors.demo.demo_folder import make_demo_history

    folder = make_demo(top / "claude", NOW)
    make_demo_history(folder, _store(folder.root), NOW)
    return folder


async def rested(app: CtxtopApp, pilot: Pilot[None]) -> None:
    """Wait until the screen says what it said half a second ago."""
    before = ""
    for _ in range(int(PATIENCE_S / REST_S)):
        await pilot.pause(REST_S)
        now = app.export_screenshot()
        if now == before:
            return
        before = now


@asynccontextmanager
async def staged(
    root: Path, theme: str, size: tuple[int, int]
) -> AsyncIterator[tuple[CtxtopApp, Pilot[None]]]:
    """Open the dashboard on a folder, and wait until it has read all of it."""
    from ctxtop.collectors.locations.places import Places
    from ctxtop.tui.app import CtxtopApp

    class Staged(CtxtopApp):
        def now_ms(self) -> int:
            return int(NOW.timestamp() * 1000)

    app = Staged(Places(root, _store(root)))
    app.theme = theme
    app.animation_level = "none"
    async with app.run_test(size=size) as pilot:
        for _ in range(int(PATIENCE_S / 0.05)):
            await pilot.pause(0.05)
            if app.view and app.view.scanned:
                break
        yield app, pilot


def _store(root: Path) -> Path:
    return root.parent / "state" / "store.db"
