"""From a key to its frame with 500 sessions of which 50 change every second.

Beside it the same keys in Textual's own OptionList and DataTable of 500 rows, which nothing
changes. Usage: python -m tests.bench.bench_fleet [sessions] [changes a second] [seconds]
"""

from __future__ import annotations

import asyncio
import os
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from .bench_burst import SIZE, Frames, Waited, measure, press_all, report
from .live import line, session_id

if TYPE_CHECKING:
    from textual.app import App, ComposeResult

MOVES = ("down", "down", "up", "end", "up", "home")
"""What both of Textual's lists know."""


def table_app() -> tuple[App[None], Frames]:
    """Make an app with a table of nine columns, as one would write it first."""
    from textual.app import App
    from textual.widgets import DataTable

    frames = Frames()

    class Table(App[None]):
        def compose(self) -> ComposeResult:
            table: DataTable[str] = DataTable(cursor_type="row")
            table.add_columns(*(f"column {n}" for n in range(9)))
            for row in range(500):
                table.add_row(*(f"row {row} {n}" for n in range(9)))
            yield table

        def _display(self, screen: object, renderable: object) -> None:
            super()._display(screen, renderable)  # type: ignore[arg-type]
            frames.at.append(time.perf_counter())

    return Table(), frames


def list_app() -> tuple[App[None], Frames]:
    """Make an app with a list of 500 options."""
    from textual.app import App
    from textual.widgets import OptionList

    frames = Frames()

    class Options(App[None]):
        def compose(self) -> ComposeResult:
            yield OptionList(*(f"row {row} " * 12 for row in range(500)))

        def _display(self, screen: object, renderable: object) -> None:
            super()._display(screen, renderable)  # type: ignore[arg-type]
            frames.at.append(time.perf_counter())

    return Options(), frames


async def measure_own(app: App[None], frames: Frames, seconds: float) -> Waited:
    """Press the keys in an app of Textual's own."""
    async with app.run_test(size=SIZE):
        await asyncio.sleep(0.5)
        return await press_all(app, frames, seconds, MOVES)


def main() -> None:
    """Print the figures."""
    sessions = int(sys.argv[1]) if len(sys.argv) > 1 else 500
    rate = float(sys.argv[2]) if len(sys.argv) > 2 else 50.0
    seconds = float(sys.argv[3]) if len(sys.argv) > 3 else 10.0
    own = {
        "OptionList of 500": asyncio.run(measure_own(*list_app(), seconds / 2)),
        "DataTable of 500": asyncio.run(measure_own(*table_app(), seconds / 2)),
    }
    with tempfile.TemporaryDirectory() as top:
        os.environ["HOME"] = top
        root = Path(top) / "claude"
        project = root / "projects" / "-home-dev-bench"
        project.mkdir(parents=True)
        for n in range(sessions):
            (project / f"{session_id(n)}.jsonl").write_bytes(line(session_id(n), 0, 50_000 + n))
        script = str(Path(__file__).with_name("live.py"))
        words = [str(root), str(sessions), str(rate / sessions), str(seconds + 5), f"{top}/log"]
        calm, busy = asyncio.run(measure(root, [sys.executable, script, *words], seconds))
    report(f"{sessions} sessions, none changes", calm)
    p95 = report(f"{sessions} sessions, {rate:g} change a second", busy)
    for what, waited in own.items():
        print(f"ratio to {what}: {p95 / report(what, waited):.1f}")


if __name__ == "__main__":
    main()
