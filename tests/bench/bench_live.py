"""From an appended line to its number on the screen, with 20 files being written.

A process of its own appends; the dashboard runs headless at 120x40. A number counts
as shown when the frame that holds its row has been handed to the terminal.
Usage: python -m tests.bench.bench_live [files] [appends a second and file] [seconds]
"""

from __future__ import annotations

import asyncio
import os
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import RenderableType
    from textual.screen import Screen

TARGET_MS = 300


async def measure(root: Path, files: int, per_second: float, seconds: float) -> list[float]:
    """Run the dashboard beside the writer; milliseconds from each append to its frame."""
    from ctxtop.collectors.locations.places import Places
    from ctxtop.tui.app import CtxtopApp

    shown: dict[tuple[str, int], int] = {}

    class Watched(CtxtopApp):
        def _display(self, screen: Screen[object], renderable: RenderableType | None) -> None:
            super()._display(screen, renderable)
            now = time.time_ns()
            for session in self._fleet.shown if self._fleet else ():
                key = (session.session_id, session.context.tokens or 0)
                shown.setdefault(key, now)

    app = Watched(Places(root, root.parent / "state" / "store.db"))
    log = root.parent / "log"
    async with app.run_test(size=(120, 40)) as pilot:
        while not (app.view and app.view.scanned):
            await pilot.pause(0.05)
        script = Path(__file__).with_name("live.py")
        command = [
            sys.executable,
            str(script),
            str(root),
            str(files),
            str(per_second),
            str(seconds),
            str(log),
        ]
        writer = await asyncio.create_subprocess_exec(*command)
        await writer.wait()
        await asyncio.sleep(1)
    waited: list[float] = []
    rows = [row.split() for row in log.read_text().splitlines()]
    for place, (session, tokens, at) in enumerate(rows):
        seen = shown.get((session, int(tokens)))
        if seen is None:
            # Overtaken by the file's next line before a frame: that one stood for both.
            later = [shown.get((s, int(t))) for s, t, _ in rows[place + 1 :] if s == session]
            seen = next((one for one in later if one), None)
        if seen is not None:
            waited.append((seen - int(at)) / 1e6)
        else:
            waited.append(float("inf"))
    return sorted(waited)


def main() -> None:
    """Print the figures."""
    files = int(sys.argv[1]) if len(sys.argv) > 1 else 20
    rates = [float(sys.argv[2])] if len(sys.argv) > 2 else [0.5, 2.0, 10.0]
    seconds = float(sys.argv[3]) if len(sys.argv) > 3 else 8.0
    for rate in rates:
        with tempfile.TemporaryDirectory() as top:
            os.environ["HOME"] = top
            root = Path(top) / "claude"
            project = root / "projects" / "-home-dev-bench"
            project.mkdir(parents=True)
            sys.path.insert(0, str(Path(__file__).parents[2]))
            from tests.bench.live import line, session_id

            for n in range(files):
                (project / f"{session_id(n)}.jsonl").write_bytes(line(session_id(n), 0, 50_000))
            waited = asyncio.run(measure(root, files, rate, seconds))
        p50 = waited[len(waited) // 2]
        p95 = waited[int(len(waited) * 0.95)]
        print(
            f"{files} files, {rate:g} appends/s each ({len(waited)} in all): "
            f"p50 {p50:.0f} ms, p95 {p95:.0f} ms, max {waited[-1]:.0f} ms, "
            f"p95/target {p95 / TARGET_MS:.2f}"
        )


if __name__ == "__main__":
    main()
