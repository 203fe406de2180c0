"""From a key to its frame while 1,000 lines a second are appended to 20 files.

A process of its own appends; the dashboard runs headless at 120x40. A key counts as answered
when the frame that holds what it did has been handed to the terminal: the marked row moved.
Usage: python -m tests.bench.bench_burst [files] [lines a second] [seconds]
"""

from __future__ import annotations

import asyncio
import os
import random
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from .live import line, session_id

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ctxtop.tui.app import CtxtopApp
    from textual.app import App

TARGET_MS = 100
SIZE = (120, 40)
KEYS = ("j", "j", "j", "k", "s", "o", "j", "space", "o", "z", "z", "k", "G", "g", "p", "p")
"""What a person does most, each of which changes the screen."""


QUIET_TURNS = 5
"""Turns of the loop without a message on its way: a key has arrived where it is known."""


Waited = dict[str, list[tuple[float, float]]]
"""Of each key: milliseconds, and those in which the screen's thread had a processor."""


@dataclass
class Frames:
    """When frames were handed to the terminal, and what it took."""

    at: list[float] = field(default_factory=list)

    def after(self, moment: float) -> float | None:
        return next((each for each in self.at[-20:] if each >= moment), None)


def watched(root: Path) -> tuple[CtxtopApp, Frames]:
    """Make a dashboard that notes its frames."""
    from ctxtop.collectors.locations.places import Places
    from ctxtop.tui.app import CtxtopApp

    frames = Frames()

    class Watched(CtxtopApp):
        def _display(self, screen: object, renderable: object) -> None:
            super()._display(screen, renderable)  # type: ignore[arg-type]
            frames.at.append(time.perf_counter())

    places = Places(root, root.parent / "state" / "store.db")
    return Watched(places), frames


async def press(app: App[None], frames: Frames, key: str) -> tuple[float, float]:
    """Press a key and wait for the frame that shows what it did.

    A key goes the way of a terminal's: from the app to what has the focus, up to who knows it,
    and then to what is drawn. Whatever works in the screen's thread meanwhile makes it wait.
    """
    from textual import events

    began, worked = time.perf_counter(), time.thread_time()
    app.post_message(events.Key(key, key if len(key) == 1 else None))
    pumps = [app, *app.screen.walk_children(with_self=True)]
    quiet = 0
    while quiet < QUIET_TURNS:
        await asyncio.sleep(0)
        quiet = 0 if any(pump.message_queue_size for pump in pumps) else quiet + 1
    handled = time.perf_counter()
    done = asyncio.Event()
    app.screen.call_after_refresh(done.set)
    await done.wait()
    later = frames.after(handled) or time.perf_counter()
    return (later - began) * 1000, (time.thread_time() - worked) * 1000


async def measure(root: Path, command: list[str], seconds: float) -> tuple[Waited, Waited]:
    """Press keys while nothing happens, then while the writer writes."""
    app, frames = watched(root)
    async with app.run_test(size=SIZE):
        while not (app.view and app.view.scanned):  # noqa: ASYNC110 -- nothing tells of it
            await asyncio.sleep(0.05)
        await asyncio.sleep(1)
        calm = await press_all(app, frames, seconds / 2)
        writer = await asyncio.create_subprocess_exec(*command)
        await asyncio.sleep(0.5)
        burst = await press_all(app, frames, seconds)
        writer.terminate()
        await writer.wait()
        app.exit()
    return calm, burst


async def press_all(
    app: App[None], frames: Frames, seconds: float, keys: Sequence[str] = KEYS
) -> Waited:
    """Press all keys again and again."""
    waited: Waited = {}
    chance = random.Random(3)
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        for key in keys:
            waited.setdefault(key, []).append(await press(app, frames, key))
            await asyncio.sleep(chance.uniform(0.01, 0.06))
    return waited


def report(what: str, waited: Waited) -> float:
    """Print the figures; returns the p95."""
    every = [each for some in waited.values() for each in some]
    p50, p95, most = (quantile([ms for ms, _ in every], share) for share in (0.5, 0.95, 1))
    worked = quantile([ms for _, ms in every], 0.95)
    print(
        f"{what}: {len(every)} keys, p50 {p50:.0f} ms, p95 {p95:.0f} ms, max {most:.0f} ms"
        f" (processor p95 {worked:.0f} ms), p95/target {p95 / TARGET_MS:.2f}"
    )
    worst = {key: quantile([ms for ms, _ in some], 0.95) for key, some in waited.items()}
    print("  p95 by key: " + ", ".join(f"{key} {ms:.0f}" for key, ms in worst.items()))
    return p95


def quantile(values: Sequence[float], share: float) -> float:
    """Find the value that so many are not above."""
    rising = sorted(values)
    return rising[min(int(len(rising) * share), len(rising) - 1)]


def main() -> None:
    """Print the figures."""
    files = int(sys.argv[1]) if len(sys.argv) > 1 else 20
    rate = float(sys.argv[2]) if len(sys.argv) > 2 else 1_000.0
    seconds = float(sys.argv[3]) if len(sys.argv) > 3 else 10.0
    with tempfile.TemporaryDirectory() as top:
        os.environ["HOME"] = top
        root = Path(top) / "claude"
        project = root / "projects" / "-home-dev-bench"
        project.mkdir(parents=True)
        for n in range(files):
            (project / f"{session_id(n)}.jsonl").write_bytes(line(session_id(n), 0, 50_000))
        script = str(Path(__file__).with_name("live.py"))
        words = [str(root), str(files), str(rate / files), str(seconds + 5), f"{top}/log"]
        calm, burst = asyncio.run(measure(root, [sys.executable, script, *words], seconds))
    report(f"{files} files, nothing written", calm)
    report(f"{files} files, {rate:g} lines/s written", burst)


if __name__ == "__main__":
    main()
