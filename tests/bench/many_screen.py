"""The dashboard over very many sessions: its first page, a sort, and how long it stands still.

The store must be filled already. The longest stillness is the longest time in which the
screen's thread took nothing up, so that a key would have waited as long.
"""

from __future__ import annotations

import asyncio
import time
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from .bench_burst import SIZE, press, watched

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from ctxtop.tui.app import CtxtopApp
    from ctxtop.tui.screens.fleet.fleet_panes import SessionPane

BEAT_S: Final = 0.01
SORTS: Final = 8
"""Each order once."""


@dataclass
class Seen:
    """Seconds."""

    first_page: float = 0.0
    """From the first paint to the first rows."""
    all_read: float = 0.0
    """From the first paint until nothing is left to read."""
    sorts: list[float] = field(default_factory=list)
    """From each press of `s` to the frame that shows its order."""
    still_reading: float = 0.0
    """The longest stillness until all was read."""
    still_sorting: float = 0.0


class Beat:
    """The longest time between two turns of the loop."""

    longest = 0.0

    async def watch(self) -> None:
        """Note it until cancelled."""
        before = time.perf_counter()
        while True:
            await asyncio.sleep(BEAT_S)
            now = time.perf_counter()
            self.longest = max(self.longest, now - before - BEAT_S)
            before = now


@asynccontextmanager
async def beating() -> AsyncIterator[Beat]:
    """Watch the loop for as long as the block takes."""
    beat = Beat()
    task = asyncio.create_task(beat.watch())
    try:
        yield beat
    finally:
        task.cancel()


async def look(root: Path, sessions: int) -> Seen:
    """Open the dashboard, wait for all sessions, and sort them by each order."""
    seen = Seen()
    app, frames = watched(root)
    async with app.run_test(size=SIZE), beating() as reading:
        began = time.perf_counter()
        while not _has_rows(app):  # noqa: ASYNC110 -- nothing tells of it
            await asyncio.sleep(BEAT_S)
        seen.first_page = time.perf_counter() - began
        while not _has_all(app, sessions):  # noqa: ASYNC110
            await asyncio.sleep(BEAT_S)
        seen.all_read = time.perf_counter() - began
        seen.still_reading = reading.longest
        await asyncio.sleep(1)
        async with beating() as sorting:
            for _ in range(SORTS):
                began = time.perf_counter()
                order = _pane(app).border_subtitle
                await press(app, frames, "s")
                while _pane(app).border_subtitle == order:  # noqa: ASYNC110
                    await asyncio.sleep(0)
                seen.sorts.append(time.perf_counter() - began)
                await asyncio.sleep(0.05)
        seen.still_sorting = sorting.longest
        app.exit()
    return seen


def _pane(app: CtxtopApp) -> SessionPane:
    from ctxtop.tui.screens.fleet.fleet_panes import SessionPane

    return app.screen.query_one(SessionPane)


def _has_rows(app: CtxtopApp) -> bool:
    return any(_pane(app).shown for _ in app.screen.query("SessionPane"))


def _has_all(app: CtxtopApp, sessions: int) -> bool:
    view = app.view
    return view is not None and view.scanned and not view.unread and len(view.sessions) >= sessions
