"""The dashboard without a terminal, at a moment that is always the same."""

from __future__ import annotations

import os
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from ctxtop.tui.app import CtxtopApp
    from textual.pilot import Pilot

NOW: Final = datetime(2026, 11, 20, 12, 0, tzinfo=UTC)
"""The same moment each time, so that only a change of the screen changes a picture."""

PATIENCE_S: Final = 20.0


def dress(top: Path) -> None:
    """Make the surroundings the same on every machine."""
    os.environ |= {"HOME": str(top), "TZ": "UTC", "COLORTERM": "truecolor"}
    os.environ.pop("NO_COLOR", None)


@asynccontextmanager
async def staged(
    root: Path, theme: str, size: tuple[int, int]
) -> AsyncIterator[tuple[CtxtopApp, Pilot[None]]]:
    """Open the dashboard on a folder, and wait until it has read all of it."""
    from ctxtop.tui.app import CtxtopApp
    from ctxtop.tui.places import Places

    class Staged(CtxtopApp):
        def now_ms(self) -> int:
            return int(NOW.timestamp() * 1000)

    app = Staged(Places(root, root.parent / "state" / "store.db", chosen=True))
    app.theme = theme
    app.animation_level = "none"
    async with app.run_test(size=size) as pilot:
        for _ in range(int(PATIENCE_S / 0.05)):
            await pilot.pause(0.05)
            if app.has_read_all:
                break
        yield app, pilot
