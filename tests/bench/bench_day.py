"""Memory over a day of work, played fast: does it stay flat?

Fifty open sessions get the lines of a working day, as fast as ctxtop takes them; after each
hour's lines the screen is used as a person would, and the memory is measured.
Usage: python -m tests.bench.bench_day [hours] [lines an hour]
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from tests.bench.live import line, session_id
from tests.bench.open_sessions import environ, make
from tests.bench.terminal import Terminal

SESSIONS = 50
LINES = 6_000
"""In an hour: forty answers a minute over all sessions, each with two lines of results."""

KEYS = (
    "jjjj",
    "G",
    "g",
    "2",
    "3",
    "1",
    "\r",
    "\x1b",
    "s",
    "s",
    "s",
    "s",
    "/bench",
    "\x1b",
    "zz",
    "tttt",
)
WARM_HOURS = 2
"""Before these are over, modules are loaded and caches filled."""


def hour(paths: list[Path], start: int, lines: int) -> None:
    """Write an hour's lines to the sessions, in turn."""
    for n, path in enumerate(paths):
        numbers = range(start + n, start + lines, len(paths))
        with path.open("ab") as file:
            file.write(
                b"".join(line(session_id(n), each, 30_000 + each % 130_000) for each in numbers)
            )


def main() -> None:
    """Print the figures."""
    hours = int(sys.argv[1]) if len(sys.argv) > 1 else 12
    lines = int(sys.argv[2]) if len(sys.argv) > 2 else LINES
    with tempfile.TemporaryDirectory() as top:
        root = Path(top) / "claude"
        paths = make(root, SESSIONS)
        it = Terminal([], environ(Path(top), root))
        held: list[float] = []
        try:
            it.wait_for(f"{SESSIONS} sessions".encode())
            for number in range(hours):
                start = 100_000 + number * lines
                hour(paths, start, lines)
                settle(it)
                for keys in KEYS:
                    it.press(keys)
                    it.wait(0.25)
                settle(it)
                held.append(it.memory_mb)
                print(f"hour {number + 1:2}: {held[-1]:.1f} MB", flush=True)
        finally:
            it.close()
        store = (Path(top) / "state" / "store.db").stat().st_size / 1e6
    warm, last = held[min(WARM_HOURS, hours) - 1], held[-1]
    print(
        f"{hours * lines:,} lines in {hours} hours: from hour {WARM_HOURS} to {hours}"
        f" {last - warm:+.1f} MB, ratio {last / warm:.3f}; the store has {store:.0f} MB"
    )


def settle(it: Terminal) -> None:
    """Wait until its processes rest."""
    before = it.cpu_s
    while True:
        it.wait(1.0)
        now = it.cpu_s
        if now - before < 0.05:
            return
        before = now


if __name__ == "__main__":
    main()
