"""From a key to its frame on every page, while 1,000 lines a second are appended to 20 files.

The demo's sessions are what the pages show. Each page is opened three times: the first time
its modules are read as well. Usage: python -m tests.bench.bench_pages [files] [lines a second]
"""

from __future__ import annotations

import asyncio
import os
import sys
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ctxtop.collectors.demo import make_demo, make_demo_history
from ctxtop.tui.screens.fleet.fleet_panes import SessionPane

from tests.tui.pages import WAYS

from .bench_burst import SIZE, TARGET_MS, press, quantile, watched
from .live import line, session_id

if TYPE_CHECKING:
    from ctxtop.tui.app import CtxtopApp

    from tests.tui.pages import Way

    from .bench_burst import Frames, Waited

KEYS: Final = ("j", "j", "k", "right", "left", "tab", "j", "G", "g", "plus", "minus", "z", "z")
"""What some page does something with; none changes a file."""

ROUNDS: Final = 3
PAUSE_S: Final = 0.05
SETTLE_S: Final = 0.5
MOST_STEPS_BACK: Final = 6


async def visit(app: CtxtopApp, frames: Frames, way: Way) -> tuple[float, Waited]:
    """Open a page, press its keys, and go back; gives what opening took too."""
    for key in way.keys[:-1]:
        await press(app, frames, key)
    opening, _ = await press(app, frames, way.keys[-1])
    await asyncio.sleep(SETTLE_S)
    waited: Waited = {}
    for key in KEYS:
        waited.setdefault(key, []).append(await press(app, frames, key))
        await asyncio.sleep(PAUSE_S)
    for _ in range(MOST_STEPS_BACK):
        if app.screen is app.fleet:
            break
        await press(app, frames, "escape")
    return opening, waited


async def measure(root: Path, marked: str, command: list[str]) -> None:
    """Visit all pages while the writer writes, and print the figures."""
    app, frames = watched(root)
    every: list[float] = []
    async with app.run_test(size=SIZE):
        while not (app.view and app.view.scanned):  # noqa: ASYNC110 -- nothing tells of it
            await asyncio.sleep(0.05)
        await asyncio.sleep(1)
        writer = await asyncio.create_subprocess_exec(*command)
        for way in WAYS:
            openings: list[float] = []
            all_waited: Waited = {}
            for _ in range(ROUNDS):
                app.fleet.query_one(SessionPane).highlight(marked)
                await asyncio.sleep(SETTLE_S)
                opening, waited = await visit(app, frames, way)
                openings.append(opening)
                for key, found in waited.items():
                    all_waited.setdefault(key, []).extend(found)
            print(said(way.name, openings, all_waited))
            every += [ms for found in all_waited.values() for ms, _ in found]
        writer.terminate()
        await writer.wait()
        app.exit()
    p95 = quantile(every, 0.95)
    print(f"all pages: {len(every)} keys, p95 {p95:.0f} ms, p95/target {p95 / TARGET_MS:.2f}")


def said(name: str, openings: list[float], waited: Waited) -> str:
    """Format the figures of a page; times are in milliseconds."""
    every = [each for found in waited.values() for each in found]
    p50, p95 = (quantile([ms for ms, _ in every], share) for share in (0.5, 0.95))
    worked = quantile([ms for _, ms in every], 0.95)
    most, key = max((ms, key) for key, found in waited.items() for ms, _ in found)
    first, *others = openings
    return (
        f"{name}: opened in {first:.0f} ms, then {max(others):.0f} ms; keys p50 {p50:.0f} ms,"
        f" p95 {p95:.0f} ms (processor {worked:.0f} ms), most {most:.0f} ms ({key})"
    )


def main() -> None:
    """Print the figures."""
    files = int(sys.argv[1]) if len(sys.argv) > 1 else 20
    rate = float(sys.argv[2]) if len(sys.argv) > 2 else 1_000.0
    with tempfile.TemporaryDirectory() as top:
        os.environ["HOME"] = top
        root = Path(top) / "claude"
        now = datetime.now(UTC)
        demo = make_demo(root, now)
        make_demo_history(demo, Path(top) / "state" / "store.db", now)
        project = root / "projects" / "-home-dev-bench"
        project.mkdir(parents=True)
        for n in range(files):
            (project / f"{session_id(n)}.jsonl").write_bytes(line(session_id(n), 0, 50_000))
        marked = next(each for each in demo.sessions if each.title.startswith("Ship the wishlist"))
        script = str(Path(__file__).with_name("live.py"))
        words = [str(root), str(files), str(rate / files), "600", f"{top}/log"]
        began = time.monotonic()
        asyncio.run(measure(root, marked.session_id, [sys.executable, script, *words]))
        print(f"{files} files, {rate:g} lines/s for {time.monotonic() - began:.0f} s")


if __name__ == "__main__":
    main()
