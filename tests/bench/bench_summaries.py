"""Prints how soon the summaries' page answers with many thousands of them: keys, words, filters."""

from __future__ import annotations

import asyncio
import statistics
import sys
import tempfile
import time
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

import textual.app
import textual.pilot
from ctxtop.collectors.locations.places import Places
from ctxtop.core.model.transcript_records import (
    FileKind,
    SourceFile,
    SummaryRecord,
    TailState,
    TranscriptRecords,
)
from ctxtop.core.store.writer import Writer
from ctxtop.tui.app import CtxtopApp
from ctxtop.tui.screens.summaries.summaries_screen import SummariesScreen
from ctxtop.tui.widgets.controls import FilterBar, FilterInput

if TYPE_CHECKING:
    from collections.abc import Callable

    from textual.pilot import Pilot

SUMMARIES: Final = 10_000
SESSIONS: Final = 200
KEYS: Final = 60
BUDGET_MS: Final = 100
"""For a key, at the 95th percentile."""


def make(store: Path) -> None:
    """Store them as the collector does."""
    words = "The pool of connections, and what each of them waits for. Changed `src/db/pool.ts`.\n"
    now = time.time_ns() // 1_000_000
    with closing(Writer(store)) as writer:
        for number in range(SESSIONS):
            name = f"{number:08d}-0000-4000-8000-000000000000"
            source = SourceFile(f"-p/{name}.jsonl", FileKind.SESSION, "-p", name)
            each = SUMMARIES // SESSIONS
            texts = tuple(
                SummaryRecord(
                    n,
                    f"u{number}-{n}",
                    "boundary" if n % 5 == 0 else "agent",
                    f"a{n}",
                    now - (number * each + n) * 600_000,
                    f"{n} of {number}\n{words * (5 + n % 40)}",
                    6 + n % 40,
                    80 * (5 + n % 40),
                )
                for n in range(each)
            )
            writer.append(
                source,
                TailState(),
                TailState(offset=9, anchor="x", size=9),
                TranscriptRecords(lines=1, summaries=texts),
            )


async def measure(places: Places) -> bool:
    """Open the page and press keys; say whether the budget is kept."""
    app = CtxtopApp(places)
    app.animation_level = "none"
    async with app.run_test(size=(120, 40)) as pilot:
        await until(lambda: app.view and app.view.scanned)
        start = time.perf_counter()
        await pilot.press("S")
        await until(lambda: isinstance(app.screen, SummariesScreen) and app.screen._listing)
        screen = app.screen
        assert isinstance(screen, SummariesScreen)
        print(f"{len(screen.rows.ids):,} summaries on the screen after {_ms(start):.0f} ms")
        kept = [
            await timed(pilot, name, keys)
            for name, keys in (
                ("down", ["j"]),
                ("a page down", ["ctrl+d"]),
                ("last, first", ["G", "g"]),
                ("mark", ["space"]),
            )
        ]
        await pilot.press("slash")
        bar = screen.query_one(FilterBar)
        spans = []
        for words in ("p", "pool", "pool src", '"waits for" 17', "kind:b pool", "-pool"):
            start = time.perf_counter()
            bar.query_one(FilterInput).value = words
            await until(partial(shows, screen, words))
            spans.append(_ms(start))
        print(f"a search {_said(spans)}")
        app.exit()
    return all(kept)


async def until(met: Callable[[], object]) -> None:
    """Wait for a condition."""
    while not met():  # noqa: ASYNC110 -- what is measured tells nobody when it is done
        await asyncio.sleep(0.001)


def shows(screen: SummariesScreen, words: str) -> bool:
    """Whether the results for this search are listed."""
    return screen._listing is not None and screen._listing.criteria.query == words


async def timed(pilot: Pilot[None], name: str, keys: list[str]) -> bool:
    """Press keys and print how long each took until the screen came to rest."""
    spans = []
    for _ in range(KEYS // len(keys)):
        for key in keys:
            start = time.perf_counter()
            await pilot.press(key)
            spans.append(_ms(start))
    print(f"{name:<12} {_said(spans)}")
    return statistics.quantiles(spans, n=20)[-1] < BUDGET_MS


def _ms(start: float) -> float:
    return (time.perf_counter() - start) * 1000


def _said(spans: list[float]) -> str:
    ninety_fifth = statistics.quantiles(spans, n=20)[-1]
    return f"median {statistics.median(spans):5.1f} ms, p95 {ninety_fifth:5.1f} ms"


def run() -> int:
    """Measure in a folder of its own; 1 where the budget is exceeded."""

    async def soon(min_sleep: float = 0.0, max_sleep: float = 1.0) -> None:
        await asyncio.sleep(0)

    # Else a key waits for the processor to be idle, which is no part of its answer.
    textual.app.wait_for_idle = soon  # type: ignore[attr-defined]
    textual.pilot.wait_for_idle = soon  # type: ignore[attr-defined]
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder) / "claude"
        (root / "projects").mkdir(parents=True)
        store = Path(folder) / "store.db"
        make(store)
        return 0 if asyncio.run(measure(Places(root, store))) else 1


if __name__ == "__main__":
    sys.exit(run())
